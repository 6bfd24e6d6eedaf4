//! Messages for the errors of single operations.

use api::actions::ActionError;
use api::plans::{CreatePlanError, PermissionDecisionError, ReviseError};
use api::projects::ProjectError;
use api::sandboxes::SandboxOperationError;
use lifecycle::LifecycleError;
use plan::{QualifiedName, Refusal};

use super::{CommandError, capitalize_sentence, did_you_mean};
use crate::exit::CommandExit;

/// For people without an agent.
pub const INSTALL_AGENT_HINT: &str =
    "Install one, such as Claude Code: npm install -g @anthropic-ai/claude-code";

pub const OWN_AGENT_HINT: &str = "Or use any command as an agent: planwright help agents";

impl From<CreatePlanError> for CommandError {
    fn from(error: CreatePlanError) -> Self {
        match error {
            CreatePlanError::UnknownActor { name, known } => unknown_actor_error(&name, &known),
            CreatePlanError::UnreadableActor(unreadable) => {
                Self::new(CommandExit::Error, unreadable.problem).with_kind("malformed_file")
            }
            CreatePlanError::NoActorInstalled => {
                Self::new(CommandExit::NotFound, "No agent is installed.")
                    .with_hint(INSTALL_AGENT_HINT)
                    .with_hint(OWN_AGENT_HINT)
                    .with_hint("planwright demo")
            }
            CreatePlanError::SeveralActors(names) => {
                let listed: Vec<String> = names.iter().map(ToString::to_string).collect();
                Self::usage(format!(
                    "Several agents are available: {}.",
                    listed.join(", ")
                ))
                .with_hint("For this plan: planwright run --agent NAME \"GOAL\"")
                .with_hint("For all plans: planwright config set actor NAME")
            }
            CreatePlanError::ProgramMissing { actor, program } => Self::new(
                CommandExit::NotFound,
                format!("`{program}`, which runs agent `{actor}`, is not installed."),
            )
            .with_hint("Install it, or put its directory on the PATH.")
            .with_hint("planwright agent list"),
            CreatePlanError::Action(error) => error.into(),
            CreatePlanError::Engine(error) => error.into(),
        }
    }
}

impl From<ActionError> for CommandError {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::UnknownAction { name, known } => {
                let error =
                    Self::from(LifecycleError::Refused(Refusal::NoSuchAction(name.clone())));
                did_you_mean(error, &name.to_string(), &to_words(&known))
            }
            ActionError::DefinitionsDiffer {
                name,
                files: [one, other],
            } => Self::usage(format!(
                "{} and {} define `{name}` differently.",
                one.display(),
                other.display()
            ))
            .with_hint("Make the definitions equal, or use the projects in separate plans."),
            ActionError::InRepository { file, error } => {
                invalid_rule_in_file(&file.display().to_string(), error)
            }
            ActionError::Engine(error) => error.into(),
        }
    }
}

impl From<ProjectError> for CommandError {
    fn from(error: ProjectError) -> Self {
        match error {
            ProjectError::NoResource => {
                Self::usage("Nothing to register.").with_hint("Pass --git PATH or --dir PATH.")
            }
            ProjectError::PathNotText(path) => {
                Self::usage(format!("{} is not valid UTF-8.", path.display()))
                    .with_hint("Rename it, or register it through a symlink with a UTF-8 path.")
            }
            ProjectError::NoResourceName(path) => Self::usage(format!(
                "Can't derive a resource name from {}.",
                path.display()
            ))
            .with_hint("Name the resource: --as NAME"),
            ProjectError::NamesTaken(name) => Self::new(
                CommandExit::Conflict,
                format!("Every name like `{name}` is taken by another project."),
            )
            .with_hint("planwright project create NAME --git ."),
            ProjectError::Engine(error) => error.into(),
        }
    }
}

impl From<SandboxOperationError> for CommandError {
    fn from(error: SandboxOperationError) -> Self {
        match error {
            SandboxOperationError::NotFinished(stage) => Self::new(
                CommandExit::Conflict,
                format!("The plan is not finished ({stage}); its sandbox is kept."),
            )
            .with_hint("planwright cancel ID"),
            SandboxOperationError::NothingKept { archive } => {
                let message = match archive {
                    Some(path) => format!(
                        "There is no work to restore. Ignored files of this plan are kept in {}",
                        path.display()
                    ),
                    None => "Nothing was kept for this plan.".to_owned(),
                };
                Self::new(CommandExit::NotFound, message)
            }
            SandboxOperationError::Engine(error) => error.into(),
        }
    }
}

impl From<ReviseError> for CommandError {
    fn from(error: ReviseError) -> Self {
        match error {
            ReviseError::NoPathMatches(glob) => Self::new(
                CommandExit::NotFound,
                format!("No changed path matches `{glob}`."),
            )
            .with_hint("planwright diff ID --name-only"),
            ReviseError::InvalidPath(error) => Self::usage(error.to_string()),
            ReviseError::OverBudget(over) => Self::new(
                CommandExit::Conflict,
                format!("Nothing is left for another run ({over}). The result is kept."),
            )
            .with_kind("over_budget")
            .with_hint("Land it as it is: planwright apply ID")
            .with_hint("Edit it yourself: planwright revise ID --by-hand \"TEXT\""),
            ReviseError::Engine(error) => error.into(),
        }
    }
}

impl From<PermissionDecisionError> for CommandError {
    fn from(error: PermissionDecisionError) -> Self {
        match error {
            PermissionDecisionError::BadRequest(_) => {
                Self::usage(capitalize_sentence(&error.to_string()))
                    .with_hint("planwright status ID")
            }
            PermissionDecisionError::Engine(error) => error.into(),
        }
    }
}

/// Prefixes an invalid-rule error with the file that contains the rule; returns other errors unchanged.
pub fn invalid_rule_in_file(file: &str, error: LifecycleError) -> CommandError {
    let is_rule = matches!(error, LifecycleError::InvalidRule(_));
    let error = CommandError::from(error);
    if !is_rule {
        return error;
    }
    CommandError {
        exit: CommandExit::Error,
        message: format!("{file}: {}", error.message),
        ..error
    }
}

/// The error for an unknown agent, with the nearest known name.
pub fn unknown_actor_error(name: &QualifiedName, known: &[QualifiedName]) -> CommandError {
    let error = CommandError::new(CommandExit::NotFound, format!("Unknown agent `{name}`."))
        .with_hint("planwright agent list")
        .with_hint("planwright agent add FILE");
    did_you_mean(error, &name.to_string(), &to_words(known))
}

fn to_words(names: &[QualifiedName]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
