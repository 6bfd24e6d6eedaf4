//! Flat files of settings: known keys, single values.

use super::fields::{Fields, Shape};
use super::problem::{Flaw, Position};
use super::tree::Node;
use super::value::{is_nothing, written};

pub(super) fn read(
    root: &Node,
    known_keys: &[&str],
) -> Result<Vec<(String, String, Position)>, Flaw> {
    if is_nothing(root) {
        return Ok(Vec::new());
    }
    let shape = Shape {
        what: "the settings",
        place: "at the top level",
        keys: known_keys,
        refused: &[],
        others: &[],
    };
    Fields::of(root, &shape)?
        .entries()
        .iter()
        .map(|entry| {
            let value = written(&entry.value).map_err(|flaw| flaw.under(&entry.key))?;
            Ok((entry.key.clone(), value, entry.value.at))
        })
        .collect()
}
