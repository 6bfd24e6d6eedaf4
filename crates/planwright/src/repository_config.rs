//! What repositories say about work on them: their `planwright.yaml`, as it stands in the working tree of
//! whoever uses them.

use std::path::{Path, PathBuf};

use plan::action::ActionDefinition;
use plan::plan::ProfileSource;
use plan::ways::SandboxSetup;
use plan::{ActorDefinition, Profile, QualifiedName, RepositoryPolicy};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::file_reader;
use crate::limits::LimitOverrides;
use crate::settings::{SettingLayer, Settings};
use crate::yaml::{self, RepositoryFile};

/// What the repositories of a plan say.
#[derive(Debug, Clone, Default)]
pub struct RepositoryConfig {
    /// How they want to be worked on.
    pub policy: RepositoryPolicy,
    /// Who works there.
    pub actor: Option<QualifiedName>,
    /// How actors are started.
    pub actors: Vec<ActorDefinition>,
    /// What can be used there.
    pub actions: Vec<RepositoryAction>,
    /// Where plans stop and ask.
    pub profile: Option<Profile>,
    /// What plans may use.
    pub limits: LimitOverrides,
}

/// An action that a repository defines.
#[derive(Debug, Clone, PartialEq)]
pub struct RepositoryAction {
    /// What it is.
    pub definition: ActionDefinition,
    /// The file that says so.
    pub file: PathBuf,
}

/// What a plan is made with where no flag says it.
#[derive(Debug, Clone)]
pub struct ResolvedDefaults {
    /// Who works.
    pub actor: Option<QualifiedName>,
    /// Where it stops and asks, and who says so.
    pub profile: Option<(Profile, ProfileSource)>,
    /// What it may use.
    pub limits: LimitOverrides,
}

impl RepositoryConfig {
    /// What is said by the environment, else here, else in the user's file.
    pub fn resolve_defaults(&self, settings: &Settings) -> ResolvedDefaults {
        let [first, last] =
            [SettingLayer::Environment, SettingLayer::File].map(|at| settings.plan_defaults(at));
        let by = |profile: Option<Profile>, source| profile.map(|profile| (profile, source));
        ResolvedDefaults {
            actor: first.actor.or_else(|| self.actor.clone()).or(last.actor),
            profile: by(first.profile, ProfileSource::User)
                .or(by(self.profile, ProfileSource::Repository))
                .or(by(last.profile, ProfileSource::User)),
            limits: first.limits.or(self.limits).or(last.limits),
        }
    }
}

pub use plan::invariant::REPOSITORY_CONFIG_FILE;

/// What the repositories of these projects say.
pub fn read_for_projects(
    app: &App,
    projects: &[QualifiedName],
) -> Result<RepositoryConfig, CommandError> {
    if projects.is_empty() {
        return Ok(RepositoryConfig::default());
    }
    // On another host its own file counts; what is wrong otherwise is said by the use itself.
    let sites = app.lifecycle()?.locate_project_resources(projects);
    let places = sites.unwrap_or_default().into_iter().map(|site| {
        let root = site.location.path().to_owned();
        (site.name, root)
    });
    read_for_roots(places)
}

/// What a repository says that is no project yet, so that its resource has no name to furnish it by.
pub fn read_for_repository(root: &Path) -> Result<RepositoryConfig, CommandError> {
    let nameless = (String::new(), root.to_owned());
    let config = read_for_roots(std::iter::once(nameless))?;
    let policy = RepositoryPolicy {
        furnishings: Vec::new(),
        ..config.policy
    };
    Ok(RepositoryConfig { policy, ..config })
}

/// What the repositories at these places say, each under the name of its resource.
fn read_for_roots(
    places: impl Iterator<Item = (String, PathBuf)>,
) -> Result<RepositoryConfig, CommandError> {
    let mut config = RepositoryConfig::default();
    let mut read_from: Option<String> = None;
    for (resource, root) in places {
        let path = root.join(REPOSITORY_CONFIG_FILE);
        let Some(file) = read_file(&path)? else {
            continue;
        };
        let same = config.policy.arrival == file.landing_options
            && config.policy.clean == file.clean
            && config.profile == file.profile
            && config.actor == file.actor
            && config.limits == file.limits;
        if let Some(other) = read_from.as_ref().filter(|_| !same) {
            return Err(CommandError::usage(format!(
                "{other} and {} want work on them to be done differently.",
                path.display()
            ))
            .with_hint("Make them say the same, or use the projects in plans of their own."));
        }
        read_from = Some(path.display().to_string());
        config.policy.arrival = file.landing_options;
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
            config.policy.furnishings.push(SandboxSetup {
                resource,
                setup: file.setup,
                include: file.include,
            });
        }
    }
    Ok(config)
}

/// What a repository's file says, if there is one.
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
