//! Words the failures of HTTP requests, so that the page and the terminal say the same.

use api::plan_config::PlanConfig;
use lifecycle::Lifecycle;
use plan::{PlanId, QualifiedName};
use server::{DescribeFailure, EngineFailure, FailureClass, FailureDescription, ReadPlanConfig};

use super::{CommandError, MentionedPlan};
use crate::exit::CommandExit;
use crate::home;
use crate::invocation::ProgramInvocation;
use crate::repository_config;
use crate::settings::Settings;

/// What the command line does for the server: words failures, with the commands of this invocation as hints, and reads
/// configuration.
pub struct ServerHost {
    pub lifecycle: Lifecycle,
    pub invocation: ProgramInvocation,
    pub settings: Settings,
}

impl DescribeFailure for ServerHost {
    fn describe(
        &self,
        failure: EngineFailure,
        operation: &str,
        plan_id: Option<PlanId>,
    ) -> FailureDescription {
        let error = match failure {
            EngineFailure::Operation(error) => CommandError::from(error),
            EngineFailure::Handle(error) => CommandError::from(error),
            EngineFailure::Create(error) => CommandError::from(error),
            EngineFailure::Revise(error) => CommandError::from(error),
            EngineFailure::Permission(error) => CommandError::from(error),
            EngineFailure::Review(error) => CommandError::from(error),
            EngineFailure::Result(error) => CommandError::from(error),
            EngineFailure::Described(described) => return described,
        };
        self.describe_error(error, operation, plan_id)
    }
}

impl ReadPlanConfig for ServerHost {
    fn read_plan_config(
        &self,
        lifecycle: &Lifecycle,
        projects: &[QualifiedName],
    ) -> Result<PlanConfig, FailureDescription> {
        repository_config::read_plan_config(&self.settings, lifecycle, projects)
            .map_err(|error| self.describe_error(error, "run", None))
    }
}

impl ServerHost {
    fn describe_error(
        &self,
        error: CommandError,
        operation: &str,
        plan_id: Option<PlanId>,
    ) -> FailureDescription {
        let viewer = home::current_person();
        let mentioned =
            plan_id.and_then(|plan_id| MentionedPlan::read(&self.lifecycle, plan_id, &viewer).ok());
        let error = error.for_people(operation, mentioned.as_ref());
        let kind = error.data.get("kind").and_then(|kind| kind.as_str());
        let hints = error.hints.iter();
        FailureDescription {
            class: class_of(error.exit),
            exit_code: error.exit.code(),
            kind: kind.unwrap_or("error").to_owned(),
            hints: hints
                .map(|hint| self.invocation.render_hint(hint))
                .collect(),
            message: error.message,
        }
    }
}

fn class_of(exit: CommandExit) -> FailureClass {
    match exit {
        // `Ok` is not a failure; a description of one would be a bug of ours.
        CommandExit::Ok | CommandExit::Error => FailureClass::Error,
        CommandExit::Usage => FailureClass::Usage,
        CommandExit::NotFound => FailureClass::NotFound,
        CommandExit::Conflict => FailureClass::Conflict,
        CommandExit::Blocked => FailureClass::Blocked,
        CommandExit::NeedsPerson => FailureClass::NeedsPerson,
        CommandExit::NotLanded => FailureClass::NotLanded,
        CommandExit::TimedOut => FailureClass::TimedOut,
        CommandExit::Unknown => FailureClass::UnknownOutcome,
        CommandExit::Interrupted => FailureClass::Interrupted,
    }
}
