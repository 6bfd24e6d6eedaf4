//! `planwright project`: registers the repositories and directories that plans work on.

use std::path::PathBuf;

use clap::Subcommand;
use lifecycle::ForceRemoval;
use plan::project::{HostId, Resource, ResourceName, ResourcePlace};
use plan::{PlanId, Project, QualifiedName};
use sandbox::{locate_directory, locate_git_repository};
use serde_json::json;
use store::PlanFilter;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::invocation::quote_word;
use crate::wire::UserMessage;
use crate::{host, settings, ui};
use api::view::ProjectView;

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
        name: QualifiedName,
    },
    /// Add a repository or directory to a project
    Link {
        /// Project name
        name: QualifiedName,
        #[command(flatten)]
        places: ResourceArgs,
    },
    /// Remove a resource from a project
    Unlink {
        /// Project name
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
        name: QualifiedName,
        /// Resource name
        resource: ResourceName,
        #[command(flatten)]
        places: ResourceArgs,
    },
    /// Pause a project: its plans do not start until it is resumed
    Pause {
        /// Project name
        name: QualifiedName,
    },
    /// Resume a paused project
    Resume {
        /// Project name
        name: QualifiedName,
    },
    /// Delete a project; its repositories are not touched
    Delete {
        /// Project name
        name: QualifiedName,
        /// Delete even if unfinished plans use the project
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, clap::Args)]
pub struct ResourceArgs {
    /// Git checkout or bare repository; repeat for more
    #[arg(long, value_name = "PATH")]
    git: Vec<PathBuf>,
    /// Branch that changes land on [default: the checked-out branch]
    ///
    /// With several --git, pass none or one for each, in the same order.
    #[arg(long, value_name = "BRANCH")]
    branch: Vec<String>,
    /// Directory that is not a repository; repeat for more
    #[arg(long, value_name = "PATH")]
    dir: Vec<PathBuf>,
    /// Name of the resource [default: the directory's name]
    #[arg(long = "as", value_name = "NAME")]
    called: Option<ResourceName>,
}

impl ProjectCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        let call = app.new_call();
        match self {
            Self::Create { name, places } => {
                let resources = places.resolve_resources(app)?;
                let project = app
                    .lifecycle()?
                    .projects()
                    .create_project(&name, resources, &call)?;
                Ok(describe_project(app, &project)
                    .with_hint(format!("planwright use ACTION {name}")))
            }
            Self::List { after, limit } => list_projects(after.as_ref(), limit, app),
            Self::Show { name } => Ok(describe_project(
                app,
                &app.lifecycle()?.projects().get_project(&name)?,
            )),
            Self::Link { name, places } => {
                let mut linked = None;
                for resource in places.resolve_resources(app)? {
                    linked = Some(
                        app.lifecycle()?
                            .projects()
                            .link_resource(&name, resource, &call)?,
                    );
                }
                Ok(describe_project(
                    app,
                    &linked.ok_or_else(nothing_given_error)?,
                ))
            }
            Self::Unlink {
                name,
                resource,
                force,
            } => {
                let lifecycle = app.lifecycle()?;
                let project = lifecycle.projects().unlink_resource(
                    &name,
                    &resource,
                    force_from_flag(force),
                    &call,
                )?;
                Ok(describe_project(app, &project))
            }
            Self::Relink {
                name,
                resource,
                places,
            } => {
                let found = places.resolve_resources(app)?;
                let [moved] = found.as_slice() else {
                    return Err(CommandError::usage(
                        "A resource has one location: pass one --git or one --dir.",
                    ));
                };
                let project = app.lifecycle()?.projects().relink_resource(
                    &name,
                    &resource,
                    moved.host.clone(),
                    moved.place.clone(),
                    &call,
                )?;
                Ok(describe_project(app, &project))
            }
            Self::Pause { name } => Ok(describe_project(
                app,
                &app.lifecycle()?.projects().pause_project(&name, &call)?,
            )
            .with_hint(format!("planwright project resume {name}"))),
            Self::Resume { name } => Ok(describe_project(
                app,
                &app.lifecycle()?.projects().resume_project(&name, &call)?,
            )),
            Self::Delete { name, force } => delete_project(app, &name, force_from_flag(force)),
        }
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
    let restore_command = lifecycle
        .projects()
        .get_project(name)
        .map(|project| creation_command(&project));
    let stranded = list_stranded_plans(app, name)?;
    lifecycle
        .projects()
        .delete_project(name, force, &app.new_call())?;
    let text = format!("Deleted project {name}. Its repositories were not touched.\n");
    let mut answer = CommandAnswer::new(
        json!({ "name": name.to_string(), "stranded_plans": stranded }),
        text,
    );
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
    if let Ok(command) = restore_command {
        answer = answer.with_hint(format!("To restore the project: {command}"));
    }
    Ok(answer.with_hint(format!("planwright cancel {handle}")))
}

/// Returns the unfinished plans of a project, newest first.
fn list_stranded_plans(app: &App, project: &QualifiedName) -> Result<Vec<PlanId>, CommandError> {
    const MAX_LISTED_PLANS: usize = 500;
    let filter = PlanFilter {
        project: Some(project.clone()),
        ..PlanFilter::default()
    };
    let rows = app
        .lifecycle()?
        .list_plans(&filter, None, MAX_LISTED_PLANS)?;
    let unfinished = rows.iter().filter(|row| !row.plan.stage().is_final());
    Ok(unfinished.map(|row| row.plan.id()).collect())
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
    /// Resolves the flags to resources. Inspects every path before anything is stored.
    fn resolve_resources(&self, app: &App) -> Result<Vec<Resource>, CommandError> {
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
        let git_env = settings::read_git_env();
        let mut places = Vec::new();
        for (number, path) in self.git.iter().enumerate() {
            let branch = self.branch.get(number).map(String::as_str);
            let found = locate_git_repository(&git_env, path, branch)
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            let place = ResourcePlace::Git {
                path: path_to_text(&found.path)?,
                branch: found.branch,
            };
            places.push((found.path, place));
        }
        for path in &self.dir {
            let found =
                locate_directory(&git_env, path).map_err(lifecycle::LifecycleError::Sandbox)?;
            let place = ResourcePlace::Dir {
                path: path_to_text(&found.path)?,
            };
            places.push((found.path, place));
        }
        if places.is_empty() {
            return Err(nothing_given_error());
        }
        let host = host::register_host(&app.settings.home)?;
        places
            .into_iter()
            .map(|(path, place)| self.make_resource(&host, &path, place))
            .collect()
    }

    fn make_resource(
        &self,
        host: &HostId,
        path: &std::path::Path,
        place: ResourcePlace,
    ) -> Result<Resource, CommandError> {
        let name = match &self.called {
            Some(name) => name.clone(),
            None => resource_name_from_path(path)?,
        };
        Ok(Resource {
            name,
            host: host.clone(),
            place,
        })
    }
}

/// Derives a resource name from the directory's name: lower case, other characters replaced by `-`.
fn resource_name_from_path(path: &std::path::Path) -> Result<ResourceName, CommandError> {
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
        CommandError::usage(format!(
            "Can't derive a resource name from {}.",
            path.display()
        ))
        .with_hint("Name the resource: --as NAME")
    })
}

fn path_to_text(path: &std::path::Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} is not valid UTF-8.", path.display()))
            .with_hint("Register it through a symlink with a UTF-8 path.")
    })
}

fn nothing_given_error() -> CommandError {
    CommandError::usage("Nothing to register.").with_hint("Pass --git PATH or --dir PATH.")
}

fn list_projects(
    after: Option<&QualifiedName>,
    limit: u16,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let limit = usize::from(limit);
    let mut projects = app
        .lifecycle()?
        .projects()
        .list_projects(after, limit + 1)?;
    let more = projects.len() > limit;
    projects.truncate(limit);
    let mut table = ui::TextTable::new(["PROJECT", "STATE", "RESOURCES"]);
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
        table.add_row([
            (project.name.to_string(), ui::BOLD),
            (state.to_owned(), style),
            (
                ui::truncate_line(&resources.join(", "), 90),
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
    let answer = CommandAnswer::new(json!({ "projects": views, "next": next }), text);
    Ok(match next {
        Some(next) => answer.with_hint(format!(
            "planwright project list --limit {limit} --after {next}"
        )),
        None if projects.is_empty() => {
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
            ui::escape_controls(resource.place.path()),
            ui::style_text(ui::DIM, format!("at {}", resource.host)),
        ));
    }
    CommandAnswer::new(ProjectView::from(project), text)
}
