//! Views of agents.

use std::path::PathBuf;

use actors::MissingNeed;
use plan::{ActorDefinition, QualifiedName};
use serde::Serialize;

use crate::actors::{AcpVariant, DefinitionSource, KnownActor};

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
    /// `acp`, `stream`, `text` or `person`.
    pub runs_by: &'static str,
    /// `null` if it is not known.
    pub version: Option<String>,
    /// The version that is known to work, of a preset.
    pub tested_version: Option<&'static str>,
    /// What it needs to run; empty if it is not installed.
    pub missing: Vec<MissingNeedView>,
    /// The preset that runs the same agent by the Agent Client Protocol.
    pub acp_variant: Option<AcpVariantView>,
}

/// Something without which an agent is likely to fail.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MissingNeedView {
    Node {
        /// The lowest version that is enough.
        lowest: String,
        found: Option<String>,
    },
    Login {
        variables: &'static [&'static str],
    },
    Variable {
        name: &'static str,
        value: &'static str,
    },
}

#[derive(Debug, Serialize)]
pub struct AcpVariantView {
    pub name: String,
    /// Its program; `null` if it is not installed.
    pub installed_at: Option<PathBuf>,
}

impl From<&MissingNeed> for MissingNeedView {
    fn from(need: &MissingNeed) -> Self {
        match need {
            MissingNeed::Node { lowest, found } => Self::Node {
                lowest: lowest.clone(),
                found: found.clone(),
            },
            MissingNeed::Login { variables, .. } => Self::Login { variables },
            MissingNeed::Variable { name, value, .. } => Self::Variable { name, value },
        }
    }
}

impl From<&AcpVariant> for AcpVariantView {
    fn from(variant: &AcpVariant) -> Self {
        Self {
            name: variant.name.to_string(),
            installed_at: variant.installed_at.clone(),
        }
    }
}

impl From<&KnownActor> for ActorSummary {
    fn from(actor: &KnownActor) -> Self {
        let readiness = &actor.readiness;
        Self {
            name: actor.definition.name.to_string(),
            description: actor.definition.description.clone(),
            preset: actor.source == DefinitionSource::Preset,
            from: actor.source.as_str(),
            installed_at: readiness.program.clone(),
            runs_by: readiness.protocol.as_str(),
            version: readiness.version.clone(),
            tested_version: readiness.tested_version,
            missing: readiness
                .missing
                .iter()
                .map(MissingNeedView::from)
                .collect(),
            acp_variant: actor.acp_variant.as_ref().map(AcpVariantView::from),
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
