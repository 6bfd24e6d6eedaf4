//! `planwright project`: registers the repositories and directories that plans work on.

use std::path::{Path, PathBuf};

use api::projects::{self, PlaceRequest, ResourceRequest};
use api::view::{DeletedProjectView, ProjectListView, ProjectView};
use clap::Subcommand;
use lifecycle::ForceRemoval;
use plan::project::{ResourceName, ResourcePlace};
use plan::{Project, QualifiedName};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::invocation::quote_word;
use crate::wire::UserMessage;
use crate::{completion, home, host, ui};

/// Manage projects: the repositories and directories plans work on
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Create a project from repositories and directories
    ///
    /// Repeating the same command is fine.
    Create {
        /// Project name
        name: QualifiedName,
        #[command(flatten)]
        places: ResourceArgs,
    },
    /// List projects by name
    List {
        /// Start after this project, the last one on the previous page
        #[arg(long, value_name = "NAME")]
        after: Option<QualifiedName>,
        /// Maximum number of projects to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
    },
    /// Show a project
    Show {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
    },
    /// Add a repository or directory to a project
    Link {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
        #[command(flatten)]
        places: ResourceArgs,
    },
    /// Remove a resource from a project
    Unlink {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
        /// Resource name
        resource: ResourceName,
        /// Unlink even if unfinished plans use the project
        #[arg(long)]
        force: bool,
    },
    /// Change the location of a resource, after it was moved or to use it on this host
    Relink {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
        /// Resource name
        resource: ResourceName,
        #[command(flatten)]
        places: ResourceArgs,
    },
    /// Pause a project: its plans do not start until it is resumed
    Pause {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
    },
    /// Resume a paused project
    Resume {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
    },
    /// Delete a project; its repositories are not touched
    Delete {
        /// Project name
        #[arg(add = completion::projects())]
        name: QualifiedName,
        /// Delete even if unfinished plans use the project
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct ResourceArgs {
    /// Git checkout or bare repository; repeat for more
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::DirPath)]
    git: Vec<PathBuf>,
    /// Branch that changes land on [default: the checked-out branch]
    ///
    /// With several --git, pass none or one for each, in the same order.
    #[arg(long, value_name = "BRANCH")]
    branch: Vec<String>,
    /// Directory that is not a repository; repeat for more
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::DirPath)]
    dir: Vec<PathBuf>,
    /// Name of the resource [default: the directory's name]
    #[arg(long = "as", value_name = "NAME")]
    called: Option<ResourceName>,
}

impl ProjectCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        let call = app.new_call();
        let project = match self {
            Self::Create { name, places } => {
                let resources = places.to_requests(app)?;
                let lifecycle = app.lifecycle()?;
                let project = projects::create_project(lifecycle, &name, &resources, &call)?;
                return Ok(describe_project(app, &project)
                    .with_hint(format!("planwright use ACTION {name}")));
            }
            Self::List { after, limit } => return list_projects(after.as_ref(), limit, app),
            Self::Show { name } => projects::get_project(app.lifecycle()?, &name)?,
            Self::Link { name, places } => {
                let resources = places.to_requests(app)?;
                projects::link_resources(app.lifecycle()?, &name, &resources, &call)?
            }
            Self::Unlink {
                name,
                resource,
                force,
            } => {
                let force = force_from_flag(force);
                projects::unlink_resource(app.lifecycle()?, &name, &resource, force, &call)?
            }
            Self::Relink {
                name,
                resource,
                places,
            } => {
                let found = places.to_requests(app)?;
                let [moved] = found.as_slice() else {
                    return Err(CommandError::usage(
                        "A resource has one location: pass one --git or one --dir.",
                    ));
                };
                let place = &moved.place;
                projects::relink_resource(app.lifecycle()?, &name, &resource, place, &call)?
            }
            Self::Pause { name } => {
                let project = projects::pause_project(app.lifecycle()?, &name, &call)?;
                return Ok(describe_project(app, &project)
                    .with_hint(format!("planwright project resume {name}")));
            }
            Self::Resume { name } => projects::resume_project(app.lifecycle()?, &name, &call)?,
            Self::Delete { name, force } => {
                return delete_project(app, &name, force_from_flag(force));
            }
        };
        Ok(describe_project(app, &project))
    }
}

fn force_from_flag(force: bool) -> ForceRemoval {
    if force {
        ForceRemoval::Yes
    } else {
        ForceRemoval::No
    }
}

/// Deletes a project and warns about its unfinished plans.
fn delete_project(
    app: &App,
    name: &QualifiedName,
    force: ForceRemoval,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let deleted = projects::delete_project(lifecycle, name, force, &app.new_call())?;
    let stranded = &deleted.stranded_plans;
    let text = format!("Deleted project {name}. Its repositories were not touched.\n");
    let mut answer = CommandAnswer::new(DeletedProjectView::from(&deleted), text);
    let Some(newest) = stranded.first() else {
        return Ok(answer);
    };
    let handle = lifecycle.short_handle(*newest)?;
    answer.messages.push(UserMessage {
        level: "warn",
        text: match stranded.len() {
            1 => format!("Plan {handle} is unfinished and can't continue without this project."),
            several => format!(
                "{several} plans are unfinished and can't continue without this project; the newest is {handle}."
            ),
        },
    });
    let command = creation_command(&deleted.project);
    answer = answer.with_hint(format!("To restore the project: {command}"));
    Ok(answer.with_hint(format!("planwright cancel {handle}")))
}

/// Returns the command that creates this project again.
fn creation_command(project: &Project) -> String {
    let mut command = format!("planwright project create {}", project.name);
    for resource in &project.resources {
        command.push_str(&match &resource.place {
            ResourcePlace::Git { path, branch } => {
                let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
                format!(
                    " --git {} --branch {}",
                    quote_word(path),
                    quote_word(branch)
                )
            }
            ResourcePlace::Dir { path } => format!(" --dir {}", quote_word(path)),
        });
    }
    if let [only] = project.resources.as_slice() {
        command.push_str(&format!(" --as {}", only.name));
    }
    command
}

impl ResourceArgs {
    /// Registers this host, which must happen before the engine is opened, because the engine reads its id.
    fn to_requests(&self, app: &App) -> Result<Vec<ResourceRequest>, CommandError> {
        let fits = self.branch.is_empty() || self.branch.len() == self.git.len();
        if !fits {
            return Err(CommandError::usage(
                "Pass no --branch, or one for each --git, in the same order.",
            ));
        }
        let several = self.git.len() + self.dir.len() > 1;
        if several && self.called.is_some() {
            return Err(CommandError::usage(
                "--as names a single resource. Link the others one by one.",
            ));
        }
        let repositories = self.git.iter().enumerate();
        let repositories = repositories.map(|(number, path)| PlaceRequest::Git {
            path: path.clone(),
            branch: self.branch.get(number).cloned(),
        });
        let directories = self.dir.iter();
        let directories = directories.map(|path| PlaceRequest::Dir { path: path.clone() });
        let places = repositories.chain(directories);
        let requests: Vec<ResourceRequest> = places
            .map(|place| ResourceRequest {
                name: self.called.clone(),
                place,
            })
            .collect();
        if !requests.is_empty() {
            host::register_host(&app.settings.home)?;
        }
        Ok(requests)
    }
}

fn list_projects(
    after: Option<&QualifiedName>,
    limit: u16,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let limit = usize::from(limit);
    let page = projects::list_projects(app.lifecycle()?, after, limit)?;
    let mut table = ui::TextTable::new(["PROJECT", "STATE", "RESOURCES"]);
    for project in &page.projects {
        let (state, style) = match project.paused {
            Some(_) => ("paused", ui::WARN),
            None => ("active", ui::DIM),
        };
        let resources: Vec<String> = project
            .resources
            .iter()
            .map(|resource| home::display_path(Path::new(resource.place.path())))
            .collect();
        table.add_row([
            (project.name.to_string(), ui::BOLD),
            (state.to_owned(), style),
            (
                ui::truncate_line(&resources.join(", "), 90),
                anstyle::Style::new(),
            ),
        ]);
    }
    let text = if page.projects.is_empty() {
        "No projects.\n".to_owned()
    } else {
        table.to_string()
    };
    let answer = CommandAnswer::new(ProjectListView::from(&page), text);
    Ok(match &page.next {
        Some(next) => answer.with_hint(format!(
            "planwright project list --limit {limit} --after {next}"
        )),
        None if page.projects.is_empty() => {
            answer.with_hint("planwright project create NAME --git PATH")
        }
        None => answer,
    })
}

fn describe_project(app: &App, project: &Project) -> CommandAnswer {
    let mut text = ui::style_text(ui::BOLD, &project.name);
    if let Some(paused) = &project.paused {
        text.push_str(&format!(
            "  paused by {} {}",
            paused.by,
            ui::format_age(app.clock.now(), paused.at)
        ));
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
            ui::escape_controls(&home::display_path(Path::new(resource.place.path()))),
            ui::style_text(ui::DIM, format!("at {}", resource.host)),
        ));
    }
    CommandAnswer::new(ProjectView::from(project), text)
}
