//! What a client of the MCP server works with: the engine, under the identity of an agent.

use std::path::{Path, PathBuf};

use api::plan_config::PlanConfig;
use lifecycle::{Call, HandleError, Lifecycle, LifecycleError};
use plan::{Caller, Plan, PlanId, QualifiedName};
use store::Clock;

use crate::error::{CommandError, MentionedPlan};
use crate::exit::CommandExit;
use crate::invocation::{ProgramInvocation, quote_word};
use crate::server_registry::ServerRegistry;
use crate::settings;
use crate::{current_repository, home, repository_config};

pub struct AgentAccess {
    pub lifecycle: Lifecycle,
    /// Renders the commands that a person can type.
    pub invocation: ProgramInvocation,
    pub registry: ServerRegistry,
    pub clock: Clock,
    /// An agent, even if a person started this process.
    pub caller: Caller,
    /// Asks this process to run the plans of this caller.
    pub request_work: Box<dyn Fn() + Send + Sync>,
}

/// The repository or project that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryChoice {
    /// The repository that this process was started in.
    WorkingDirectory,
    /// The repository at an absolute path.
    Repository(PathBuf),
    Project(QualifiedName),
    NoRepository,
}

/// The identity of this server's clients: the agent inside whose run it was started, or else one of this name that
/// acts for the person. A client of the same name continues the plans of an earlier one.
pub fn choose_caller(name: &str) -> Caller {
    match home::current_caller() {
        agent @ Caller::Agent(_) => agent,
        Caller::Person(person) | Caller::Worker(person) => {
            Caller::Agent(format!("{name} for {person}"))
        }
    }
}

impl AgentAccess {
    pub fn new_call(&self) -> Call {
        Call::by(self.caller.clone())
    }

    pub fn is_author(&self, plan: &Plan) -> bool {
        plan.created_by() == Some(&self.caller)
    }

    /// Makes sure that this process runs a plan of the caller. An earlier process with this identity may have left it.
    pub fn continue_own_plan(&self, plan_id: PlanId) {
        let row = self.lifecycle.get_plan(plan_id);
        let is_open = |plan: &Plan| self.is_author(plan) && !plan.stage().is_final();
        if row.is_ok_and(|row| is_open(&row.plan)) {
            (self.request_work)();
        }
    }

    /// Finds a plan by its id or handle.
    pub fn resolve_plan(&self, handle: &str) -> Result<PlanId, CommandError> {
        // `@` is the newest plan, which may be another caller's.
        let plan_id = match self.lifecycle.resolve_handle(handle) {
            _ if handle == "@" => return Err(not_a_plan(handle)),
            Err(HandleError::NotAHandle(handle)) => return Err(not_a_plan(&handle)),
            resolved => resolved?,
        };
        self.lifecycle.get_plan(plan_id)?;
        Ok(plan_id)
    }

    /// Finds the registered projects of a choice. An agent cannot register one.
    pub fn find_projects(
        &self,
        choice: &RepositoryChoice,
    ) -> Result<Vec<QualifiedName>, CommandError> {
        let path = match choice {
            RepositoryChoice::NoRepository => return Ok(Vec::new()),
            RepositoryChoice::Project(name) => {
                self.lifecycle.projects().get_project(name)?;
                return Ok(vec![name.clone()]);
            }
            RepositoryChoice::Repository(path) if !path.is_absolute() => {
                return Err(CommandError::usage(format!(
                    "`repository` must be an absolute path; `{}` is not.",
                    path.display()
                )));
            }
            RepositoryChoice::Repository(path) => path.as_path(),
            RepositoryChoice::WorkingDirectory => Path::new("."),
        };
        let root = find_root(path).map_err(hint_other_choices)?;
        // Git runs only where a person registered it: the configuration of another repository may be an agent's.
        if !self.is_registered(&root)? {
            return Err(unregistered_error(&root, None));
        }
        let place = sandbox::locate_git_repository(&settings::read_git_env(), &root, None)
            .map_err(LifecycleError::Sandbox)?;
        match api::projects::find_repository(&self.lifecycle, &place)? {
            Some(project) => Ok(vec![project]),
            None => Err(unregistered_error(&root, Some(&place.branch))),
        }
    }

    /// Whether this directory is a resource of a project on this host.
    fn is_registered(&self, root: &Path) -> Result<bool, CommandError> {
        for name in api::projects::projects_of_directory(&self.lifecycle, root)? {
            let project = self.lifecycle.projects().get_project(&name)?;
            let resources = project.resources.iter();
            let mut paths = resources.map(|resource| Path::new(resource.place.path()));
            if paths.any(|path| path == root) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The projects of the working directory; `None` outside of a repository.
    pub fn find_local_projects(&self) -> Result<Option<Vec<QualifiedName>>, CommandError> {
        if current_repository::find_checkout_root().is_none() {
            return Ok(None);
        }
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let Ok(here) = here else {
            return Ok(None);
        };
        let projects = api::projects::projects_of_directory(&self.lifecycle, &here)?;
        Ok(Some(projects))
    }

    /// Reads what a new plan of these projects inherits. The settings may have changed since this process started.
    pub fn read_plan_config(&self, projects: &[QualifiedName]) -> Result<PlanConfig, CommandError> {
        let settings = settings::Settings::load(None)?;
        repository_config::read_plan_config(&settings, &self.lifecycle, projects)
    }

    /// Adds what can be done about a failed operation.
    pub fn explain_error(
        &self,
        error: CommandError,
        operation: &str,
        plan_id: Option<PlanId>,
    ) -> CommandError {
        let mentioned = plan_id
            .and_then(|plan_id| MentionedPlan::read(&self.lifecycle, plan_id, &self.caller).ok());
        error.for_people(operation, mentioned.as_ref())
    }
}

/// Finds the root of the repository that a path lies in, without running git.
fn find_root(path: &Path) -> Result<PathBuf, CommandError> {
    let path = path.canonicalize().map_err(|error| {
        let message = format!("{} cannot be found: {error}", path.display());
        CommandError::new(CommandExit::NotFound, message)
    })?;
    let is_root = |directory: &&Path| directory.join(".git").exists();
    let is_bare = path.join("HEAD").is_file() && path.join("objects").is_dir();
    match path.ancestors().find(is_root) {
        Some(root) => Ok(root.to_owned()),
        None if is_bare => Ok(path),
        None => Err(CommandError::new(
            CommandExit::NotFound,
            format!("{} is not in a git repository.", path.display()),
        )),
    }
}

/// The error for a repository, or a branch of one, that is not a project.
fn unregistered_error(root: &Path, branch: Option<&str>) -> CommandError {
    let branch = branch.map(|branch| branch.trim_start_matches("refs/heads/"));
    let branch = branch.map(|branch| format!(" on branch {branch}"));
    let message = format!(
        "{}{} is not registered with Planwright, and an agent cannot register it.",
        root.display(),
        branch.unwrap_or_default()
    );
    let path = quote_word(&root.to_string_lossy());
    CommandError::new(CommandExit::NeedsPerson, message)
        .with_kind("repository_not_registered")
        .with_hint(format!("planwright project create NAME --git {path}"))
}

fn not_a_plan(handle: &str) -> CommandError {
    let message = format!("`{handle}` is not the id or handle of a plan.");
    CommandError::usage(message).with_hint("plan_list lists the plans.")
}

fn hint_other_choices(error: CommandError) -> CommandError {
    error
        .with_hint("Pass `repository` with the absolute path of a git repository, or `project` with a name.")
        .with_hint("For work without a repository, pass `no_repository: true`.")
}
