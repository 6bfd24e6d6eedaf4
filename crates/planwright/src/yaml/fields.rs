//! Mappings with a fixed set of keys.

use super::problem::{Flaw, Position, shown};
use super::tree::{Entry, Node, Value};
use super::value::mismatch;
use crate::nearest::nearest;

/// What the keys of a kind of mapping are.
pub(super) struct Shape<'k> {
    /// Its name with an article: `an action`.
    pub(super) what: &'k str,
    /// Where its keys stand: `at the top level`.
    pub(super) place: &'k str,
    pub(super) keys: &'k [&'k str],
    /// Keys that people expect here but that are refused: key, why, and the way out.
    pub(super) refused: &'k [(&'k str, &'k str, &'k str)],
    /// The other mappings of the same file, where a misplaced key may belong.
    pub(super) others: &'k [&'k Shape<'k>],
}

/// A mapping that holds no key but those of its shape.
pub(super) struct Fields<'n, 'k> {
    shape: &'k Shape<'k>,
    at: Position,
    entries: &'n [Entry],
}

impl<'n, 'k> Fields<'n, 'k> {
    pub(super) fn of(node: &'n Node, shape: &'k Shape<'k>) -> Result<Self, Flaw> {
        let Value::Mapping(entries) = &node.value else {
            let expected = format!("{} as a mapping of keys to values", shape.what);
            return Err(mismatch(node, &expected).hint("write lines of `key: value`"));
        };
        for entry in entries {
            if !shape.keys.contains(&entry.key.as_str()) {
                return Err(shape.stray(entry));
            }
        }
        Ok(Self {
            shape,
            at: node.at,
            entries,
        })
    }

    pub(super) fn entries(&self) -> &'n [Entry] {
        self.entries
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Entry> {
        debug_assert!(self.shape.keys.contains(&key), "`{key}` can never be given");
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of a key that may be left out.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'n Node) -> Result<T, Flaw>,
    ) -> Result<Option<T>, Flaw> {
        self.get(key)
            .map(|entry| read(&entry.value).map_err(|flaw| flaw.under(key)))
            .transpose()
    }

    /// The value of a key that must be given.
    pub(super) fn required<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'n Node) -> Result<T, Flaw>,
    ) -> Result<T, Flaw> {
        self.optional(key, read)?.ok_or_else(|| {
            Flaw::new(
                self.at,
                format!("{} needs the key `{key}`", self.shape.what),
            )
        })
    }
}

impl Shape<'_> {
    /// What is to be said of a key that is none of these.
    fn stray(&self, entry: &Entry) -> Flaw {
        let key = entry.key.as_str();
        if let Some((_, why, way_out)) = self.refused.iter().find(|(refused, ..)| *refused == key) {
            return Flaw::new(entry.at, format!("`{key}` {why}")).hint(*way_out);
        }
        let places: Vec<&str> = self
            .others
            .iter()
            .filter(|shape| shape.keys.contains(&key))
            .map(|shape| shape.place)
            .collect();
        let shown = shown(key, 60);
        let mut message = format!("unknown key `{shown}` in {}", self.what);
        if !places.is_empty() {
            message += &format!(": `{shown}` belongs {}", places.join(" or "));
        } else if let Some(near) = nearest(key, self.keys) {
            message += &format!("; did you mean `{near}`?");
        }
        Flaw::new(entry.at, message).hint(format!("the keys are {}", self.keys.join(", ")))
    }
}
