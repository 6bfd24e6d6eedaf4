//! Strict YAML parsers for actions, agents, `planwright.yaml` and settings. Every problem has a line and column.
//!
//! `tree` parses text into nodes that know their position. `value` and `fields` read typed values from them, and
//! `action`, `actor`, `rule`, `repository` and `settings` build the definitions. Nothing is guessed: an unknown
//! key, a duplicate key or a value of the wrong type is a [`YamlProblem`].
//!
//! Deliberately absent: file access, aliases, tags, merge keys, directives and the many booleans of YAML 1.1
//! (`no` is a string).

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

pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// Parses an action. `origin` is the file name for messages.
pub fn parse_action(source: &str, origin: &str) -> Result<ActionDefinition, YamlProblem> {
    parse_tree(source)
        .and_then(|root| action::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// Parses an agent and checks its definition. Does not check whether its program exists.
pub fn parse_actor(source: &str, origin: &str) -> Result<ActorDefinition, YamlProblem> {
    parse_tree(source)
        .and_then(|root| actor::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// Parses a repository's `planwright.yaml`. An empty file is valid.
pub fn parse_repository(source: &str, origin: &str) -> Result<RepositoryFile, YamlProblem> {
    parse_tree(source)
        .and_then(|root| repository::read(&root))
        .map_err(|flaw| flaw.in_file(origin))
}

/// Parses settings in file order: key, value as written, and the value's position. An empty file has none.
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
            "the file has {} bytes; the limit is {MAX_FILE_BYTES} (256 KiB)",
            source.len()
        );
        return Err(YamlFlaw::new(FilePosition::START, message));
    }
    tree::parse_document(source)
}
