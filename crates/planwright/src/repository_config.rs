//! Reads what new plans inherit: `planwright.yaml` from the working tree of their repositories, the user's settings
//! and agents.

use std::path::{Path, PathBuf};

use api::plan_config::{PlanConfig, PlanDefaults, RepositoryAction, RepositoryConfig};
use lifecycle::Lifecycle;
use plan::repository_policy::SandboxSetup;
use plan::{QualifiedName, RepositoryPolicy};

use crate::actor_set;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::file_reader;
use crate::settings::{SettingLayer, Settings};
use crate::yaml::{self, RepositoryFile};

/// Reads everything that new plans of these registered projects inherit. Needs no working directory.
pub fn read_plan_config(
    settings: &Settings,
    lifecycle: &Lifecycle,
    projects: &[QualifiedName],
) -> Result<PlanConfig, CommandError> {
    let repository = read_for_projects(lifecycle, projects)?;
    add_user_config(settings, repository)
}

/// Adds the user's settings and agents to a repository's configuration.
pub fn add_user_config(
    settings: &Settings,
    repository: RepositoryConfig,
) -> Result<PlanConfig, CommandError> {
    Ok(PlanConfig {
        environment: settings.plan_defaults(SettingLayer::Environment),
        repository,
        user: settings.plan_defaults(SettingLayer::File),
        actors: actor_set::read_catalog(&settings.home)?,
    })
}

pub use plan::invariant::REPOSITORY_CONFIG_FILE;

/// Reads the config of all repositories of these projects.
pub fn read_for_projects(
    lifecycle: &Lifecycle,
    projects: &[QualifiedName],
) -> Result<RepositoryConfig, CommandError> {
    if projects.is_empty() {
        return Ok(RepositoryConfig::default());
    }
    // Resources on another host cannot be read here, and creating the plan reports any other error.
    let resources = lifecycle.sandboxes().locate_project_resources(projects);
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
            && config.defaults.profile == file.profile
            && config.defaults.actor == file.actor
            && config.defaults.limits == file.limits;
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
        config.defaults = PlanDefaults {
            actor: file.actor,
            profile: file.profile,
            limits: file.limits,
        };
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
