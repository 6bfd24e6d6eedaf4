//! What repositories say about work on them: their `planwright.yaml`, as it stands in the working tree of
//! whoever uses them.

use std::path::{Path, PathBuf};

use plan::action::ActionDefinition;
use plan::plan::ProfileSource;
use plan::ways::Furnishing;
use plan::{ActorDefinition, Name, Profile, Ways};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::limits::LimitsSaid;
use crate::reading;
use crate::settings::{Layer, Settings};
use crate::yaml::{self, RepositoryFile};

/// What the repositories of a plan say.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// How they want to be worked on.
    pub ways: Ways,
    /// Who works there.
    pub actor: Option<Name>,
    /// How actors are started.
    pub actors: Vec<ActorDefinition>,
    /// What can be used there.
    pub actions: Vec<RepositoryAction>,
    /// Where plans stop and ask.
    pub profile: Option<Profile>,
    /// What plans may use.
    pub limits: LimitsSaid,
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
pub struct Preferred {
    /// Who works.
    pub actor: Option<Name>,
    /// Where it stops and asks, and who says so.
    pub profile: Option<(Profile, ProfileSource)>,
    /// What it may use.
    pub limits: LimitsSaid,
}

impl Wishes {
    /// What is said by the environment, else here, else in the user's file.
    pub fn preferred(&self, settings: &Settings) -> Preferred {
        let [first, last] = [Layer::Environment, Layer::File].map(|at| settings.said_of_plans(at));
        let by = |profile: Option<Profile>, source| profile.map(|profile| (profile, source));
        Preferred {
            actor: first.actor.or_else(|| self.actor.clone()).or(last.actor),
            profile: by(first.profile, ProfileSource::User)
                .or(by(self.profile, ProfileSource::Repository))
                .or(by(last.profile, ProfileSource::User)),
            limits: first.limits.or(self.limits).or(last.limits),
        }
    }
}

pub use plan::invariant::FILE;

/// What the repositories of these projects say.
pub fn of_projects(app: &App, projects: &[Name]) -> Result<Wishes, CommandError> {
    if projects.is_empty() {
        return Ok(Wishes::default());
    }
    // On another host its own file counts; what is wrong otherwise is said by the use itself.
    let sites = app.lifecycle()?.sites_of_projects(projects);
    let places = sites.unwrap_or_default().into_iter().map(|site| {
        let root = site.place.path().to_owned();
        (site.name, root)
    });
    of_places(places)
}

/// What a repository says that is no project yet, so that its resource has no name to furnish it by.
pub fn of_repository(root: &Path) -> Result<Wishes, CommandError> {
    let nameless = (String::new(), root.to_owned());
    let wishes = of_places(std::iter::once(nameless))?;
    let ways = Ways {
        furnishings: Vec::new(),
        ..wishes.ways
    };
    Ok(Wishes { ways, ..wishes })
}

/// What the repositories at these places say, each under the name of its resource.
fn of_places(places: impl Iterator<Item = (String, PathBuf)>) -> Result<Wishes, CommandError> {
    let mut wishes = Wishes::default();
    let mut said_by: Option<String> = None;
    for (resource, root) in places {
        let path = root.join(FILE);
        let Some(file) = read(&path)? else {
            continue;
        };
        let same = wishes.ways.arrival == file.arrival
            && wishes.ways.clean == file.clean
            && wishes.profile == file.profile
            && wishes.actor == file.actor
            && wishes.limits == file.limits;
        if let Some(other) = said_by.as_ref().filter(|_| !same) {
            return Err(CommandError::usage(format!(
                "{other} and {} want work on them to be done differently.",
                path.display()
            ))
            .hint("Make them say the same, or use the projects in plans of their own."));
        }
        said_by = Some(path.display().to_string());
        wishes.ways.arrival = file.arrival;
        wishes.ways.clean = file.clean;
        wishes.profile = file.profile;
        wishes.actor = file.actor;
        wishes.limits = file.limits;
        wishes.actors.extend(file.actors);
        let actions = file.actions.into_iter();
        wishes
            .actions
            .extend(actions.map(|definition| RepositoryAction {
                definition,
                file: path.clone(),
            }));
        if file.setup.is_some() || !file.include.is_empty() {
            wishes.ways.furnishings.push(Furnishing {
                resource,
                setup: file.setup,
                include: file.include,
            });
        }
    }
    Ok(wishes)
}

/// What a repository's file says, if there is one.
pub fn read(path: &Path) -> Result<Option<RepositoryFile>, CommandError> {
    let source = match reading::text(path) {
        Ok(source) => source,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(Exit::Error, message));
        }
    };
    yaml::repository(&source, &path.display().to_string())
        .map(Some)
        .map_err(|problem| CommandError::malformed(problem, &source))
}
