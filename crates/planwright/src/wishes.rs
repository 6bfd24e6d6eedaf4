//! What repositories say about work on them: their `planwright.yaml`, as it stands in the working tree of
//! whoever uses them.

use std::path::Path;

use plan::ways::Furnishing;
use plan::{ActorDefinition, Name, Profile, Ways};

use crate::cli::App;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::limits::LimitsSaid;
use crate::reading;
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
    /// Where plans stop and ask.
    pub profile: Option<Profile>,
    /// What plans may use.
    pub limits: LimitsSaid,
}

/// What the repositories of these projects say.
pub fn of_projects(app: &App, projects: &[Name]) -> Result<Wishes, CommandError> {
    let mut wishes = Wishes::default();
    if projects.is_empty() {
        return Ok(wishes);
    }
    let sites = match app.lifecycle()?.sites_of_projects(projects) {
        Ok(sites) => sites,
        // On another host its own file counts; what is wrong otherwise is said by the use itself.
        Err(_) => return Ok(wishes),
    };
    let mut said_by: Option<String> = None;
    for site in sites {
        let path = site.place.path().join("planwright.yaml");
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
        if file.setup.is_some() || !file.include.is_empty() {
            wishes.ways.furnishings.push(Furnishing {
                resource: site.name.clone(),
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
