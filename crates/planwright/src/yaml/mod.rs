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

pub use actor_text::actor_text;
pub use problem::{Position, Problem};
pub use repository::RepositoryFile;

use problem::Flaw;
use tree::Node;

/// Longest file that is read.
pub const MAX_BYTES: usize = 256 * 1024;

/// The action that `source` defines; `origin` is what messages call the file.
pub fn action(source: &str, origin: &str) -> Result<ActionDefinition, Problem> {
    parse(source)
        .and_then(|root| action::read(&root))
        .map_err(|flaw| flaw.of(origin))
}

/// The actor that `source` defines, and that can be run as far as its definition tells.
pub fn actor(source: &str, origin: &str) -> Result<ActorDefinition, Problem> {
    parse(source)
        .and_then(|root| actor::read(&root))
        .map_err(|flaw| flaw.of(origin))
}

/// What a repository's `planwright.yaml` says.
pub fn repository(source: &str, origin: &str) -> Result<RepositoryFile, Problem> {
    parse(source)
        .and_then(|root| repository::read(&root))
        .map_err(|flaw| flaw.of(origin))
}

/// The settings that `source` gives, in its order: key, value as it is written, and where the value
/// stands. A file with nothing in it, or with comments only, gives none.
pub fn mapping(
    source: &str,
    origin: &str,
    known_keys: &[&str],
) -> Result<Vec<(String, String, Position)>, Problem> {
    parse(source)
        .and_then(|root| settings::read(&root, known_keys))
        .map_err(|flaw| flaw.of(origin))
}

fn parse(source: &str) -> Result<Node, Flaw> {
    if source.len() > MAX_BYTES {
        let message = format!(
            "the file has {} bytes; the most is {MAX_BYTES} (256 KiB)",
            source.len()
        );
        return Err(Flaw::new(Position::START, message));
    }
    tree::parse(source)
}
