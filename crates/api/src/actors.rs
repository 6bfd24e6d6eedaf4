//! Agents: which definitions exist on this host, and which one a name means.

use std::ffi::OsString;
use std::path::PathBuf;

use actors::{
    AgentReadiness, HostEnv, all_presets, check_readiness, find_acp_variant,
    find_installed_program, find_preset, is_preset_variant,
};
use plan::{ActorDefinition, PlanActors, QualifiedName};

/// The agents that can work on plans here, except those that a repository defines.
#[derive(Debug, Clone, Default)]
pub struct ActorCatalog {
    /// The user's own definitions.
    pub own: Vec<ActorDefinition>,
    /// Own definitions that cannot be read.
    pub unreadable: Vec<UnreadableActor>,
    /// Where programs are searched, in the format of `PATH`.
    pub search_path: OsString,
}

/// The user's own definition of this agent exists but cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct UnreadableActor {
    pub name: QualifiedName,
    /// What is wrong, and in which file.
    pub problem: String,
}

impl ActorCatalog {
    /// Finds a definition: the user's first, then the repository's, then a preset. Cloning a repository must not
    /// change what a name means.
    pub fn find_definition(
        &self,
        name: &QualifiedName,
        in_repository: &[ActorDefinition],
    ) -> Result<Option<ActorDefinition>, UnreadableActor> {
        if let Some(unreadable) = self.unreadable.iter().find(|one| one.name == *name) {
            return Err(unreadable.clone());
        }
        let mut defined = self.own.iter().chain(in_repository);
        let found = defined.find(|one| one.name == *name).cloned();
        Ok(found.or_else(|| find_preset(&name.to_string())))
    }

    /// Finds the definitions of a plan's agents, each once. Skips agents that have none.
    pub fn find_definitions(
        &self,
        actors: &PlanActors,
        in_repository: &[ActorDefinition],
    ) -> Result<Vec<ActorDefinition>, UnreadableActor> {
        let mut found: Vec<ActorDefinition> = Vec::new();
        for name in actors.actor_names() {
            if !found.iter().any(|one| one.name == *name) {
                found.extend(self.find_definition(name, in_repository)?);
            }
        }
        Ok(found)
    }

    /// The names of all agents that are defined or installed, sorted.
    pub fn available_names(&self, in_repository: &[ActorDefinition]) -> Vec<QualifiedName> {
        let defined = self.own.iter().chain(in_repository);
        let installed = self.installed_presets().into_iter();
        let mut names: Vec<QualifiedName> = defined
            .chain(installed.map(|(definition, _)| definition))
            .map(|one| one.name.clone())
            .chain(self.unreadable.iter().map(|one| one.name.clone()))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The names of all agents that could be meant, presets that are not installed included.
    pub fn known_names(&self, in_repository: &[ActorDefinition]) -> Vec<QualifiedName> {
        let defined = self.own.iter().chain(in_repository).chain(all_presets());
        defined.map(|one| one.name.clone()).collect()
    }

    /// The presets whose program is installed, with the program's path. Other ways to run the same agents are
    /// left out: they are used only if they are named.
    pub fn installed_presets(&self) -> Vec<(&'static ActorDefinition, PathBuf)> {
        let presets = all_presets().iter();
        presets
            .filter(|one| !is_preset_variant(&one.name))
            .filter_map(|one| Some((one, find_installed_program(one, &self.search_path)?)))
            .collect()
    }

    fn find_acp_variant(&self, name: &QualifiedName) -> Option<AcpVariant> {
        let variant = find_acp_variant(&name.to_string())?;
        Some(AcpVariant {
            installed_at: find_installed_program(&variant, &self.search_path),
            name: variant.name,
        })
    }

    /// Returns the program that a definition runs if it is not installed. A program given by its path is not
    /// checked.
    pub fn missing_program<'a>(&self, definition: &'a ActorDefinition) -> Option<&'a str> {
        let program = definition.kind.program_words()?.first()?.as_str();
        let is_missing = !program.contains('/')
            && find_installed_program(definition, &self.search_path).is_none();
        is_missing.then_some(program)
    }
}

/// Where a definition comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionSource {
    /// The user's own.
    You,
    Repository,
    /// Built in.
    Preset,
}

impl DefinitionSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Repository => "repository",
            Self::Preset => "preset",
        }
    }
}

/// An agent that can be used here.
#[derive(Debug, Clone)]
pub struct KnownActor {
    pub definition: ActorDefinition,
    pub source: DefinitionSource,
    /// What is known of it on this host.
    pub readiness: AgentReadiness,
    /// Another preset of the same agent, by the Agent Client Protocol.
    pub acp_variant: Option<AcpVariant>,
}

/// A preset that is used only if it is named.
#[derive(Debug, Clone)]
pub struct AcpVariant {
    pub name: QualifiedName,
    /// Its program, if it is installed.
    pub installed_at: Option<PathBuf>,
}

/// Lists every agent that can be used. Of several with the same name, the user's wins, then the repository's, then
/// the preset.
pub fn list_actors(
    catalog: &ActorCatalog,
    in_repository: &[ActorDefinition],
    host_env: &HostEnv,
) -> Vec<KnownActor> {
    let sources = [
        (catalog.own.as_slice(), DefinitionSource::You),
        (in_repository, DefinitionSource::Repository),
        (all_presets(), DefinitionSource::Preset),
    ];
    let mut found: Vec<KnownActor> = Vec::new();
    for (definitions, source) in sources {
        for definition in definitions {
            if !found
                .iter()
                .any(|one| one.definition.name == definition.name)
            {
                found.push(KnownActor {
                    definition: definition.clone(),
                    source,
                    readiness: check_readiness(definition, host_env),
                    acp_variant: match source {
                        DefinitionSource::Preset => catalog.find_acp_variant(&definition.name),
                        DefinitionSource::You | DefinitionSource::Repository => None,
                    },
                });
            }
        }
    }
    found
}
