//! The steps of the features, by topic.

mod changesets;
mod checks;
mod failures;
mod fresh;
mod gates;
mod given;
mod race;
pub mod threads;
mod tries;
