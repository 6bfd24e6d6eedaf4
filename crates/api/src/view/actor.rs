//! Views of agents.

use std::path::PathBuf;

use plan::{ActorDefinition, QualifiedName};
use serde::Serialize;

use crate::actors::{DefinitionSource, KnownActor};

/// An agent in a list.
#[derive(Debug, Serialize)]
pub struct ActorSummary {
    pub name: String,
    pub description: Option<String>,
    pub preset: bool,
    /// `you`, `repository` or `preset`.
    pub from: &'static str,
    /// Its program; `null` if it is not installed.
    pub installed_at: Option<PathBuf>,
}

impl From<&KnownActor> for ActorSummary {
    fn from(actor: &KnownActor) -> Self {
        Self {
            name: actor.definition.name.to_string(),
            description: actor.definition.description.clone(),
            preset: actor.source == DefinitionSource::Preset,
            from: actor.source.as_str(),
            installed_at: actor.installed_at.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct ActorListView {
    pub actors: Vec<ActorSummary>,
}

impl ActorListView {
    pub fn new(actors: &[KnownActor]) -> Self {
        Self {
            actors: actors.iter().map(ActorSummary::from).collect(),
        }
    }
}

/// One agent with its definition.
#[derive(Debug, Serialize)]
pub struct ActorView {
    pub actor: ActorDefinition,
}

/// An agent that was added.
#[derive(Debug, Serialize)]
pub struct AddedActorView {
    pub actor: ActorDefinition,
    /// It replaced one of the same name.
    pub replaced: bool,
}

/// An agent that was removed.
#[derive(Debug, Serialize)]
pub struct RemovedActorView {
    pub removed: QualifiedName,
}
