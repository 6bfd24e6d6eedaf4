//! Reads `planwright.yaml` from the working tree of a plan's repositories and merges it with the settings.

use std::path::{Path, PathBuf};

use plan::action::ActionDefinition;
use plan::plan::ProfileSource;
use plan::repository_policy::SandboxSetup;
use plan::{ActorDefinition, Profile, QualifiedName, RepositoryPolicy};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::file_reader;
use crate::limits::LimitOverrides;
use crate::settings::{SettingLayer, Settings};
use crate::yaml::{self, RepositoryFile};

/// The merged `planwright.yaml` of all repositories of a plan.
#[derive(Debug, Clone, Default)]
pub struct RepositoryConfig {
    pub policy: RepositoryPolicy,
    pub actor: Option<QualifiedName>,
    pub actors: Vec<ActorDefinition>,
    pub actions: Vec<RepositoryAction>,
    pub profile: Option<Profile>,
    pub limits: LimitOverrides,
}

/// An action that a repository defines.
#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryAction {
    pub definition: ActionDefinition,
    /// The `planwright.yaml` that defines it.
    pub file: PathBuf,
}

/// The defaults of a new plan after merging all sources except flags and the action.
#[derive(Debug, Clone)]
pub struct ResolvedDefaults {
    pub actor: Option<QualifiedName>,
    /// The profile and where it comes from.
    pub profile: Option<(Profile, ProfileSource)>,
    pub limits: LimitOverrides,
}

impl RepositoryConfig {
    /// Resolves each default separately: environment first, then this file, then the user's file.
    pub fn resolve_defaults(&self, settings: &Settings) -> ResolvedDefaults {
        let [environment, user_file] = [SettingLayer::Environment, SettingLayer::File]
            .map(|layer| settings.plan_defaults(layer));
        let chosen_by = |profile: Option<Profile>, source| profile.map(|profile| (profile, source));
        ResolvedDefaults {
            actor: environment
                .actor
                .or_else(|| self.actor.clone())
                .or(user_file.actor),
            profile: chosen_by(environment.profile, ProfileSource::User)
                .or(chosen_by(self.profile, ProfileSource::Repository))
                .or(chosen_by(user_file.profile, ProfileSource::User)),
            limits: environment.limits.or(self.limits).or(user_file.limits),
        }
    }
}

pub use plan::invariant::REPOSITORY_CONFIG_FILE;

/// Reads the config of all repositories of these projects.
pub fn read_for_projects(
    app: &App,
    projects: &[QualifiedName],
) -> Result<RepositoryConfig, CommandError> {
    if projects.is_empty() {
        return Ok(RepositoryConfig::default());
    }
    // Resources on another host cannot be read here, and creating the plan reports any other error.
    let resources = app
        .lifecycle()?
        .sandboxes()
        .locate_project_resources(projects);
    let roots = resources.unwrap_or_default().into_iter().map(|resource| {
        let root = resource.location.path().to_owned();
        (resource.name, root)
    });
    read_for_roots(roots)
}

/// Reads the config of a repository that is not a project yet. Omits the sandbox setup, which is keyed by
/// resource name.
pub fn read_for_repository(root: &Path) -> Result<RepositoryConfig, CommandError> {
    let nameless = (String::new(), root.to_owned());
    let config = read_for_roots(std::iter::once(nameless))?;
    let policy = RepositoryPolicy {
        sandbox_setups: Vec::new(),
        ..config.policy
    };
    Ok(RepositoryConfig { policy, ..config })
}

/// Reads and merges the config files at these roots, given as (resource name, root).
fn read_for_roots(
    roots: impl Iterator<Item = (String, PathBuf)>,
) -> Result<RepositoryConfig, CommandError> {
    let mut config = RepositoryConfig::default();
    let mut read_from: Option<String> = None;
    for (resource, root) in roots {
        let path = root.join(REPOSITORY_CONFIG_FILE);
        let Some(file) = read_file(&path)? else {
            continue;
        };
        // These values apply to the whole plan, so files that are present must agree on them.
        let same = config.policy.landing == file.landing_options
            && config.policy.clean == file.clean
            && config.profile == file.profile
            && config.actor == file.actor
            && config.limits == file.limits;
        if let Some(other) = read_from.as_ref().filter(|_| !same) {
            return Err(CommandError::usage(format!(
                "{other} and {} disagree on actor, profile, limits, apply or sandbox.clean.",
                path.display()
            ))
            .with_hint("Make the files agree, or use the projects in separate plans."));
        }
        read_from = Some(path.display().to_string());
        config.policy.landing = file.landing_options;
        config.policy.clean = file.clean;
        config.profile = file.profile;
        config.actor = file.actor;
        config.limits = file.limits;
        config.actors.extend(file.actors);
        let actions = file.actions.into_iter();
        config
            .actions
            .extend(actions.map(|definition| RepositoryAction {
                definition,
                file: path.clone(),
            }));
        if file.setup.is_some() || !file.include.is_empty() {
            config.policy.sandbox_setups.push(SandboxSetup {
                resource,
                setup: file.setup,
                include: file.include,
            });
        }
    }
    Ok(config)
}

/// Reads one `planwright.yaml`; `None` if it does not exist.
pub fn read_file(path: &Path) -> Result<Option<RepositoryFile>, CommandError> {
    let source = match file_reader::read_text(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(CommandExit::Error, message));
        }
    };
    yaml::parse_repository(&source, &path.display().to_string())
        .map(Some)
        .map_err(|problem| CommandError::malformed_file(problem, &source))
}
