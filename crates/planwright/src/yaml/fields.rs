//! Mappings with a fixed set of keys.

use super::problem::{FilePosition, YamlFlaw, truncate_escaped};
use super::tree::{YamlEntry, YamlNode, YamlValue};
use super::value::type_mismatch;
use crate::spelling::nearest_word;

/// The allowed keys of one kind of mapping, and words for messages about it.
pub(super) struct MappingSchema<'k> {
    /// The name with an article: `an action`.
    pub(super) what: &'k str,
    /// The location of its keys: `at the top level`.
    pub(super) place: &'k str,
    pub(super) keys: &'k [&'k str],
    /// Keys that people expect here but that are refused: key, reason, hint.
    pub(super) refused: &'k [(&'k str, &'k str, &'k str)],
    /// The other mappings of the same file, where a misplaced key may belong.
    pub(super) others: &'k [&'k MappingSchema<'k>],
}

/// A mapping whose keys were checked against its schema.
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
            "`{key}` is not in the schema"
        );
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'n YamlNode) -> Result<T, YamlFlaw>,
    ) -> Result<Option<T>, YamlFlaw> {
        self.get(key)
            .map(|entry| read(&entry.value).map_err(|flaw| flaw.under_key(key)))
            .transpose()
    }

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
    /// Explains an unknown key: refused on purpose, misplaced, or misspelt.
    fn unknown_key(&self, entry: &YamlEntry) -> YamlFlaw {
        let key = entry.key.as_str();
        if let Some((_, why, hint)) = self.refused.iter().find(|(refused, ..)| *refused == key) {
            return YamlFlaw::new(entry.at, format!("`{key}` {why}")).with_hint(*hint);
        }
        let places: Vec<&str> = self
            .others
            .iter()
            .filter(|schema| schema.keys.contains(&key))
            .map(|schema| schema.place)
            .collect();
        let escaped = truncate_escaped(key, 60);
        let mut message = format!("unknown key `{escaped}` in {}", self.what);
        if !places.is_empty() {
            message += &format!(": `{escaped}` belongs {}", places.join(" or "));
        } else if let Some(near) = nearest_word(key, self.keys) {
            message += &format!("; did you mean `{near}`?");
        }
        YamlFlaw::new(entry.at, message).with_hint(format!("the keys are {}", self.keys.join(", ")))
    }
}
