//! The strict reading of YAML: actions, actors and settings, with every problem shown where it stands.
//!
//! Text becomes a small tree whose nodes and keys know their line and column (`tree`); typed values
//! are read out of it (`value`, `fields`) and put together ([`action()`], [`actor()`], [`mapping`]). Nothing is
//! guessed: an unknown key, a key given twice or a value of the wrong type is a [`Problem`].
//!
//! Deliberately absent: reading files, aliases, tags, merge keys, directives and the many booleans
//! of YAML 1.1 (`no` is a text).

mod action;
mod actor;
mod actor_text;
mod fields;
mod problem;
mod repository;
mod rule;
mod settings;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use plan::ActorDefinition;
use plan::action::ActionDefinition;

pub use actor_text::format_actor;
pub use problem::{FilePosition, YamlProblem};
pub use repository::RepositoryFile;

use problem::YamlFlaw;
use tree::YamlNode;

/// Longest file that is read.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// The action that `source` defines; `origin` is what messages call the file.
pub fn parse_action(source: &str, origin: &str) -> Result<ActionDefinition, YamlProblem> {
    parse_tree(source)
        .and_then(|root| action::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// The actor that `source` defines, and that can be run as far as its definition tells.
pub fn parse_actor(source: &str, origin: &str) -> Result<ActorDefinition, YamlProblem> {
    parse_tree(source)
        .and_then(|root| actor::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// What a repository's `planwright.yaml` says.
pub fn parse_repository(source: &str, origin: &str) -> Result<RepositoryFile, YamlProblem> {
    parse_tree(source)
        .and_then(|root| repository::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// The settings that `source` gives, in its order: key, value as it is written, and where the value
/// stands. A file with nothing in it, or with comments only, gives none.
pub fn parse_settings(
    source: &str,
    origin: &str,
    known_keys: &[&str],
) -> Result<Vec<(String, String, FilePosition)>, YamlProblem> {
    parse_tree(source)
        .and_then(|root| settings::read(&root, known_keys))
        .map_err(|flaw| flaw.in_file(origin))
}

fn parse_tree(source: &str) -> Result<YamlNode, YamlFlaw> {
    if source.len() > MAX_FILE_BYTES {
        let message = format!(
            "the file has {} bytes; the most is {MAX_FILE_BYTES} (256 KiB)",
            source.len()
        );
        return Err(YamlFlaw::new(FilePosition::START, message));
    }
    tree::parse_document(source)
}
