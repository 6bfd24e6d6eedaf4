//! Reads the user's `config.yaml`: a flat mapping of known keys to single values.

use super::fields::{MappingFields, MappingSchema};
use super::problem::{FilePosition, YamlFlaw};
use super::tree::YamlNode;
use super::value::{is_empty_node, read_raw};

pub(super) fn read(
    root: &YamlNode,
    known_keys: &[&str],
) -> Result<Vec<(String, String, FilePosition)>, YamlFlaw> {
    if is_empty_node(root) {
        return Ok(Vec::new());
    }
    let schema = MappingSchema {
        what: "the settings",
        place: "at the top level",
        keys: known_keys,
        refused: &[],
        others: &[],
    };
    MappingFields::from_node(root, &schema)?
        .entries()
        .iter()
        .map(|entry| {
            let value = read_raw(&entry.value).map_err(|flaw| flaw.under_key(&entry.key))?;
            Ok((entry.key.clone(), value, entry.value.at))
        })
        .collect()
}
