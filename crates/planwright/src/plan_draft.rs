//! A plan that is about to be created: nothing is stored until its agent and limits are valid.

use api::plan_config::{PlanConfig, RepositoryConfig};
use api::plans::{self, CreatePlanError, CreatePlanRequest, CreatedPlan};
use lifecycle::Call;
use sandbox::GitLocation;

use crate::cli::App;
use crate::error::CommandError;
use crate::{current_repository, repository_config};

/// A request for a plan, with everything that the plan inherits.
pub struct PlanDraft {
    pub request: CreatePlanRequest,
    pub config: PlanConfig,
    /// A repository that becomes a project when the plan is created.
    unregistered: Option<GitLocation>,
}

impl PlanDraft {
    /// Drafts a plan for registered projects, or without any.
    pub fn for_projects(app: &App, request: CreatePlanRequest) -> Result<Self, CommandError> {
        Ok(Self {
            config: read_config(app, &request)?,
            request,
            unregistered: None,
        })
    }

    /// Drafts a plan for a repository, which may be unregistered.
    pub fn for_repository(
        app: &App,
        place: GitLocation,
        mut request: CreatePlanRequest,
    ) -> Result<Self, CommandError> {
        if let Some(project) = current_repository::find_project(app, &place)? {
            request.projects.push(project);
            return Self::for_projects(app, request);
        }
        let repository = repository_config::read_for_repository(&place.path)?;
        Ok(Self {
            config: add_user_config(app, repository)?,
            request,
            unregistered: Some(place),
        })
    }

    /// Checks that the plan's agent is known and installed.
    pub fn check_actor(&self) -> Result<(), CreatePlanError> {
        plans::check_actor(&self.request, &self.config)
    }

    /// Registers the repository if it is new, and creates the plan.
    pub fn create(
        mut self,
        app: &App,
        registration: &Call,
        creation: &Call,
    ) -> Result<(CreatePlanRequest, CreatedPlan), CommandError> {
        if let Some(place) = &self.unregistered {
            let project = current_repository::register_project(app, place, registration)?;
            self.request.projects.push(project);
            // Read again: the policy refers to resources by name, and a new project has them only now.
            self.config = read_config(app, &self.request)?;
        }
        let created = plans::create_plan(app.lifecycle()?, &self.request, &self.config, creation)?;
        Ok((self.request, created))
    }
}

fn read_config(app: &App, request: &CreatePlanRequest) -> Result<PlanConfig, CommandError> {
    repository_config::read_plan_config(&app.settings, app.lifecycle()?, &request.projects)
}

fn add_user_config(app: &App, repository: RepositoryConfig) -> Result<PlanConfig, CommandError> {
    repository_config::add_user_config(&app.settings, repository)
}
