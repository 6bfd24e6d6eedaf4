//! A CEL map that is cheap to copy.
//!
//! A CEL loop copies each item it visits, with every key and value of a map, which costs more than most
//! expressions. The changes are immutable during evaluation, so copies share one map. In all other respects it
//! behaves like the map it points to; the interpreter recognizes it through `as_builtin`.

use std::sync::Arc;

use cel::common::traits::{Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{CelMap, Type};
use cel::common::value::{Builtin, BuiltinRef, Val};

#[derive(Debug, Clone)]
pub(super) struct SharedMap(Arc<CelMap<'static>>);

impl SharedMap {
    pub fn new(map: CelMap<'static>) -> Self {
        Self(Arc::new(map))
    }
}

impl Val for SharedMap {
    fn get_type(&self) -> &Type {
        self.0.get_type()
    }

    fn cel_type() -> &'static Type {
        <CelMap<'static> as Val>::cel_type()
    }

    fn as_container(&self) -> Option<&dyn Container> {
        self.0.as_container()
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        self.0.as_indexer()
    }

    fn into_indexer<'v>(self: Box<Self>) -> Option<Box<dyn Indexer + 'v>>
    where
        Self: 'v,
    {
        Some(Box::new(Arc::unwrap_or_clone(self.0)))
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        self.0.as_iterable()
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        self.0.as_sizer()
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        self.0.as_zeroer()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.0.equals(other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_builtin<'b, 'v>(&'b self) -> BuiltinRef<'b, 'v>
    where
        Self: 'v,
    {
        self.0.as_builtin()
    }

    fn into_builtin<'v>(self: Box<Self>) -> Option<Builtin<'v>>
    where
        Self: 'v,
    {
        Some(Builtin::Map(Arc::unwrap_or_clone(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use cel::common::types::{CelInt, CelList, CelMapKey, CelString};
    use cel::{Context, Program, Value};

    use super::*;

    fn sample_map() -> CelMap<'static> {
        let entry = |name: &'static str, value: Box<dyn Val>| {
            (CelMapKey::String(CelString::from(name)), value)
        };
        let path = entry("path", Box::new(CelString::from("src/a")));
        let size = entry("size", Box::new(CelInt::from(3)));
        CelMap::from(HashMap::from([path, size]))
    }

    /// Every expression gives the same value or error as with a plain map.
    #[test]
    fn a_shared_map_behaves_like_a_plain_map() {
        let evaluate_with = |item: &dyn Fn() -> Box<dyn Val>, source: &str| {
            let mut context = Context::default();
            context.add_variable_as_val("c", item());
            context.add_variable_as_val("changes", Box::new(CelList::from(vec![item(), item()])));
            Program::compile(source).unwrap().execute(&context)
        };
        for source in [
            "c.path",
            "c['size'] + 1",
            "c.none",
            "c[[]]",
            "has(c.path) && !has(c.none) && 'path' in c && !(1 in c)",
            "[] in c",
            "c == {'path': 'src/a', 'size': 3} && {'path': 'src/a', 'size': 3} == c",
            "c in changes && changes == [c, c] && changes[0] == changes[1]",
            "type(c) == map && type(c) == type({})",
            "size(c) + c.size()",
            "c.all(key, key in ['path', 'size'])",
            "[c][0].path + [c][0]['path'] + {'of': c}.of.path",
            "[c][0].none",
            "(true ? [c] : [])[0].map(key, key).size()",
            "changes.map(d, d.size) == [3, 3] && changes.filter(d, d.size > 1)[0].path == 'src/a'",
            "changes.exists_one(d, d.size == 3)",
            "c + 1",
            "-c",
            "!c",
            "c < c",
            "c && true",
            "c ? 1 : 2",
            "string(c)",
            "c.startsWith('a')",
        ] {
            let shared = evaluate_with(&|| Box::new(SharedMap::new(sample_map())), source);
            let plain = evaluate_with(&|| Box::new(sample_map()), source);
            assert_eq!(shared, plain, "{source}");
        }
        let whole = evaluate_with(&|| Box::new(SharedMap::new(sample_map())), "c").unwrap();
        assert!(matches!(whole, Value::Map(_)));
    }
}
