//! Mappings with a fixed set of keys.

use super::problem::{FilePosition, YamlFlaw, truncate_escaped};
use super::tree::{YamlEntry, YamlNode, YamlValue};
use super::value::type_mismatch;
use crate::spelling::nearest_word;

/// What the keys of a kind of mapping are.
pub(super) struct MappingSchema<'k> {
    /// Its name with an article: `an action`.
    pub(super) what: &'k str,
    /// Where its keys stand: `at the top level`.
    pub(super) place: &'k str,
    pub(super) keys: &'k [&'k str],
    /// Keys that people expect here but that are refused: key, why, and the way out.
    pub(super) refused: &'k [(&'k str, &'k str, &'k str)],
    /// The other mappings of the same file, where a misplaced key may belong.
    pub(super) others: &'k [&'k MappingSchema<'k>],
}

/// A mapping that holds no key but those of its shape.
pub(super) struct MappingFields<'n, 'k> {
    schema: &'k MappingSchema<'k>,
    at: FilePosition,
    entries: &'n [YamlEntry],
}

impl<'n, 'k> MappingFields<'n, 'k> {
    pub(super) fn from_node(
        node: &'n YamlNode,
        schema: &'k MappingSchema<'k>,
    ) -> Result<Self, YamlFlaw> {
        let YamlValue::Mapping(entries) = &node.value else {
            let expected = format!("{} as a mapping of keys to values", schema.what);
            return Err(type_mismatch(node, &expected).with_hint("write lines of `key: value`"));
        };
        for entry in entries {
            if !schema.keys.contains(&entry.key.as_str()) {
                return Err(schema.unknown_key(entry));
            }
        }
        Ok(Self {
            schema,
            at: node.at,
            entries,
        })
    }

    pub(super) fn entries(&self) -> &'n [YamlEntry] {
        self.entries
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n YamlEntry> {
        debug_assert!(
            self.schema.keys.contains(&key),
            "`{key}` can never be given"
        );
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key that may be left out.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'n YamlNode) -> Result<T, YamlFlaw>,
    ) -> Result<Option<T>, YamlFlaw> {
        self.get(key)
            .map(|entry| read(&entry.value).map_err(|flaw| flaw.under_key(key)))
            .transpose()
    }

    /// The value of a key that must be given.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'n YamlNode) -> Result<T, YamlFlaw>,
    ) -> Result<T, YamlFlaw> {
        self.optional(key, read)?.ok_or_else(|| {
            YamlFlaw::new(
                self.at,
                format!("{} needs the key `{key}`", self.schema.what),
            )
        })
    }
}

impl MappingSchema<'_> {
    /// What is to be said of a key that is none of these.
    fn unknown_key(&self, entry: &YamlEntry) -> YamlFlaw {
        let key = entry.key.as_str();
        if let Some((_, why, way_out)) = self.refused.iter().find(|(refused, ..)| *refused == key) {
            return YamlFlaw::new(entry.at, format!("`{key}` {why}")).with_hint(*way_out);
        }
        let places: Vec<&str> = self
            .others
            .iter()
            .filter(|shape| shape.keys.contains(&key))
            .map(|shape| shape.place)
            .collect();
        let shown = truncate_escaped(key, 60);
        let mut message = format!("unknown key `{shown}` in {}", self.what);
        if !places.is_empty() {
            message += &format!(": `{shown}` belongs {}", places.join(" or "));
        } else if let Some(near) = nearest_word(key, self.keys) {
            message += &format!("; did you mean `{near}`?");
        }
        YamlFlaw::new(entry.at, message).with_hint(format!("the keys are {}", self.keys.join(", ")))
    }
}
