//! `planwright project`.

use std::path::PathBuf;

use clap::Subcommand;
use lifecycle::Force;
use plan::project::{HostId, Place, Resource, ResourceName};
use plan::{Name, PlanId, Project};
use sandbox::{look_at_dir, look_at_git};
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::typed::quoted;
use crate::wire::{Message, ProjectView};
use crate::{host, settings, ui};

/// Projects: what plans work on.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register repositories and directories under a name. The very same again is fine.
    Create {
        /// Its name.
        name: Name,
        #[command(flatten)]
        places: Places,
    },
    /// List projects by name.
    List {
        /// Go on after this project, the last of the page before.
        #[arg(long, value_name = "NAME")]
        after: Option<Name>,
        /// At most so many.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show one project.
    Show {
        /// Its name.
        name: Name,
    },
    /// Add a repository or a directory to a project.
    Link {
        /// The project.
        name: Name,
        #[command(flatten)]
        places: Places,
    },
    /// Take a resource from a project.
    Unlink {
        /// The project.
        name: Name,
        /// Which of its resources.
        resource: ResourceName,
        /// Even if living plans use the project.
        #[arg(long)]
        force: bool,
    },
    /// Say where a resource lies now: it was moved, or is worked on from this host.
    Relink {
        /// The project.
        name: Name,
        /// Which of its resources.
        resource: ResourceName,
        #[command(flatten)]
        places: Places,
    },
    /// Keep the project's plans from starting to work.
    Pause {
        /// Its name.
        name: Name,
    },
    /// Let the project's plans start again.
    Resume {
        /// Its name.
        name: Name,
    },
    /// Remove a project; its repositories stay as they are.
    Delete {
        /// Its name.
        name: Name,
        /// Even if living plans use it.
        #[arg(long)]
        force: bool,
    },
}

/// Repositories and directories.
#[derive(Debug, clap::Args)]
pub struct Places {
    /// A checkout of a git repository, or a bare one; repeat it for more.
    #[arg(long, value_name = "PATH")]
    git: Vec<PathBuf>,
    /// The branch that changes land on; the checked-out one if not said. With several --git, one
    /// for each of them in their order.
    #[arg(long, value_name = "BRANCH")]
    branch: Vec<String>,
    /// A directory that is no repository; repeat it for more.
    #[arg(long, value_name = "PATH")]
    dir: Vec<PathBuf>,
    /// What to call the resource; the directory's name if not said.
    #[arg(long = "as", value_name = "NAME")]
    called: Option<ResourceName>,
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        let call = app.call();
        match self {
            Self::Create { name, places } => {
                let resources = places.resources(app)?;
                let project = app.lifecycle()?.create_project(&name, resources, &call)?;
                Ok(shown(&project).hint(format!("planwright use ACTION {name}")))
            }
            Self::List { after, limit } => list(after.as_ref(), limit, app),
            Self::Show { name } => Ok(shown(&app.lifecycle()?.get_project(&name)?)),
            Self::Link { name, places } => {
                let mut linked = None;
                for resource in places.resources(app)? {
                    linked = Some(app.lifecycle()?.link_resource(&name, resource, &call)?);
                }
                Ok(shown(&linked.ok_or_else(nothing_given)?))
            }
            Self::Unlink {
                name,
                resource,
                force,
            } => {
                let lifecycle = app.lifecycle()?;
                let project = lifecycle.unlink_resource(&name, &resource, forced(force), &call)?;
                Ok(shown(&project))
            }
            Self::Relink {
                name,
                resource,
                places,
            } => {
                let found = places.resources(app)?;
                let [moved] = found.as_slice() else {
                    return Err(CommandError::usage(
                        "A resource lies in one place: give one --git or one --dir.",
                    ));
                };
                let project = app.lifecycle()?.relink_resource(
                    &name,
                    &resource,
                    moved.host.clone(),
                    moved.place.clone(),
                    &call,
                )?;
                Ok(shown(&project))
            }
            Self::Pause { name } => Ok(shown(&app.lifecycle()?.pause_project(&name, &call)?)
                .hint(format!("planwright project resume {name}"))),
            Self::Resume { name } => Ok(shown(&app.lifecycle()?.resume_project(&name, &call)?)),
            Self::Delete { name, force } => delete(app, &name, forced(force)),
        }
    }
}

fn forced(force: bool) -> Force {
    if force { Force::Yes } else { Force::No }
}

/// Deletes a project, and says what becomes of the plans that worked on it.
fn delete(app: &App, name: &Name, force: Force) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let again = lifecycle
        .get_project(name)
        .map(|project| creation(&project));
    let stranded = stranded(app, name)?;
    lifecycle.delete_project(name, force, &app.call())?;
    let text = format!("Deleted project {name}; its repositories are as they were.\n");
    let mut answer = Answer::new(
        json!({ "name": name.to_string(), "stranded_plans": stranded }),
        text,
    );
    let Some(newest) = stranded.first() else {
        return Ok(answer);
    };
    let handle = lifecycle.short_name(*newest)?;
    answer.messages.push(Message {
        level: "warn",
        text: match stranded.len() {
            1 => format!("Plan {handle} has not ended, and cannot go on without it."),
            several => format!(
                "{several} plans have not ended, and cannot go on without it; the newest is {handle}."
            ),
        },
    });
    if let Ok(again) = again {
        answer = answer.hint(format!("To let them go on: {again}"));
    }
    Ok(answer.hint(format!("planwright cancel {handle}")))
}

/// The plans of a project that have not ended, newest first.
fn stranded(app: &App, project: &Name) -> Result<Vec<PlanId>, CommandError> {
    const MOST: usize = 500;
    let filter = PlanFilter {
        project: Some(project.clone()),
        ..PlanFilter::default()
    };
    let rows = app.lifecycle()?.list_plans(&filter, None, MOST)?;
    let living = rows.iter().filter(|row| !row.plan.stage.is_final());
    Ok(living.map(|row| row.plan.id).collect())
}

/// The command that creates a project as it is.
fn creation(project: &Project) -> String {
    let mut command = format!("planwright project create {}", project.name);
    for resource in &project.resources {
        command.push_str(&match &resource.place {
            Place::Git { path, branch } => {
                let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
                format!(" --git {} --branch {}", quoted(path), quoted(branch))
            }
            Place::Dir { path } => format!(" --dir {}", quoted(path)),
        });
    }
    if let [only] = project.resources.as_slice() {
        command.push_str(&format!(" --as {}", only.name));
    }
    command
}

impl Places {
    /// What was given, looked at before anything is stored.
    fn resources(&self, app: &App) -> Result<Vec<Resource>, CommandError> {
        let fits = self.branch.is_empty() || self.branch.len() == self.git.len();
        if !fits {
            return Err(CommandError::usage(
                "Give no --branch, or one for each --git, in their order.",
            ));
        }
        let several = self.git.len() + self.dir.len() > 1;
        if several && self.called.is_some() {
            return Err(CommandError::usage(
                "--as names one resource; link the others one by one.",
            ));
        }
        let surroundings = settings::surroundings();
        let mut places = Vec::new();
        for (number, path) in self.git.iter().enumerate() {
            let branch = self.branch.get(number).map(String::as_str);
            let found =
                look_at_git(&surroundings, path, branch).map_err(lifecycle::Error::Sandbox)?;
            let place = Place::Git {
                path: text(&found.path)?,
                branch: found.branch,
            };
            places.push((found.path, place));
        }
        for path in &self.dir {
            let found = look_at_dir(&surroundings, path).map_err(lifecycle::Error::Sandbox)?;
            let place = Place::Dir {
                path: text(&found.path)?,
            };
            places.push((found.path, place));
        }
        if places.is_empty() {
            return Err(nothing_given());
        }
        let host = host::register(&app.settings.home)?;
        places
            .into_iter()
            .map(|(path, place)| self.resource(&host, &path, place))
            .collect()
    }

    fn resource(
        &self,
        host: &HostId,
        path: &std::path::Path,
        place: Place,
    ) -> Result<Resource, CommandError> {
        let name = match &self.called {
            Some(name) => name.clone(),
            None => name_of(path)?,
        };
        Ok(Resource {
            name,
            host: host.clone(),
            place,
        })
    }
}

/// The directory's name, as far as it can be a resource's.
fn name_of(path: &std::path::Path) -> Result<ResourceName, CommandError> {
    let last = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = last
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
                c
            } else {
                '-'
            }
        })
        .take(60)
        .collect();
    let name = name.trim_start_matches(['.', '-']);
    name.parse().map_err(|_| {
        CommandError::usage(format!("{} has no name to go by.", path.display()))
            .hint("Name the resource: --as NAME")
    })
}

fn text(path: &std::path::Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .hint("Register it through a link whose path is.")
    })
}

fn nothing_given() -> CommandError {
    CommandError::usage("There is nothing to register.").hint("Give --git PATH or --dir PATH.")
}

fn list(after: Option<&Name>, limit: u16, app: &App) -> Result<Answer, CommandError> {
    let limit = usize::from(limit);
    let mut projects = app.lifecycle()?.list_projects(after, limit + 1)?;
    let more = projects.len() > limit;
    projects.truncate(limit);
    let mut table = ui::Table::new(["PROJECT", "STATE", "RESOURCES"]);
    for project in &projects {
        let (state, style) = match project.paused {
            Some(_) => ("paused", ui::WARN),
            None => ("active", ui::DIM),
        };
        let resources: Vec<String> = project
            .resources
            .iter()
            .map(|resource| resource.place.path().to_owned())
            .collect();
        table.row([
            (project.name.to_string(), ui::BOLD),
            (state.to_owned(), style),
            (
                ui::one_line(&resources.join(", "), 90),
                anstyle::Style::new(),
            ),
        ]);
    }
    let next = projects
        .last()
        .filter(|_| more)
        .map(|project| project.name.to_string());
    let views: Vec<ProjectView> = projects.iter().map(ProjectView::from).collect();
    let text = if projects.is_empty() {
        "No projects.\n".to_owned()
    } else {
        table.to_string()
    };
    let answer = Answer::new(json!({ "projects": views, "next": next }), text);
    Ok(match next {
        Some(next) => answer.hint(format!(
            "planwright project list --limit {limit} --after {next}"
        )),
        None if projects.is_empty() => answer.hint("planwright project create NAME --git PATH"),
        None => answer,
    })
}

fn shown(project: &Project) -> Answer {
    let mut text = ui::styled(ui::BOLD, &project.name);
    if let Some(paused) = &project.paused {
        text.push_str(&format!("  paused by {} at {}", paused.by, paused.at));
    }
    text.push('\n');
    for resource in &project.resources {
        let branch = resource.place.branch().map_or_else(String::new, |branch| {
            format!(
                " on {}",
                branch.strip_prefix("refs/heads/").unwrap_or(branch)
            )
        });
        text.push_str(&format!(
            "  {}  {} {}{branch}  {}\n",
            resource.name,
            resource.place.kind(),
            ui::clean(resource.place.path()),
            ui::styled(ui::DIM, format!("at {}", resource.host)),
        ));
    }
    Answer::new(ProjectView::from(project), text)
}
