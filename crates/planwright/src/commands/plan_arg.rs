//! The optional plan of a command: without it, the command takes the plan last used in this checkout.
//!
//! [Decision 17](../../../../docs/decisions/0017-plans-may-be-left-out.md) says how arguments are read.

use plan::PlanId;

use crate::cli::App;
use crate::completion;
use crate::error::CommandError;

/// Words shorter than this are never shown as a handle, so they are not taken for one.
const MIN_HANDLE_LENGTH: usize = 4;

#[derive(Debug, Default, clap::Args)]
pub struct PlanArg {
    /// Plan ID, or a unique start or end of one; @- is the plan used before [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    plan: Option<String>,
}

impl PlanArg {
    /// Resolves the plan. If it was left out, says on standard error which plan is used instead.
    pub fn resolve(&self, app: &App) -> Result<PlanId, CommandError> {
        resolve_optional_plan(app, self.plan.as_deref())
    }

    /// Resolves the plan of a command whose answer names it anyway.
    pub fn resolve_unannounced(&self, app: &App) -> Result<PlanId, CommandError> {
        match &self.plan {
            Some(handle) => app.resolve_plan(handle),
            None => app.resolve_current_plan(),
        }
    }

    /// The argument as typed.
    pub fn word(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    pub fn is_given(&self) -> bool {
        self.plan.is_some()
    }
}

/// Reads the arguments of `revise [PLAN] TEXT` and the like: a single argument is the text.
///
/// Fails if a single argument also names a plan, because then the text may have been forgotten. `command` is the
/// command with its placeholder for the text, as in `revise "TEXT"`.
pub fn resolve_plan_and_text<'a>(
    app: &App,
    first: Option<&'a str>,
    second: Option<&'a str>,
    verb: &str,
    placeholder: &str,
) -> Result<(PlanId, &'a str), CommandError> {
    let (plan, text) = match (first, second) {
        (Some(plan), Some(text)) => (Some(plan), text),
        (Some(word), None) if may_name_plan(app, word)? => {
            return Err(CommandError::usage(format!(
                "`{word}` names a plan, and nothing follows it."
            ))
            .with_hint(format!("planwright {verb} {word} {placeholder}"))
            .with_hint(format!(
                "If it is not meant as a plan: planwright {verb} @ {word}"
            )));
        }
        (Some(text), None) => (None, text),
        (None, _) => {
            return Err(
                CommandError::usage(format!("`{verb}` needs {placeholder}."))
                    .with_hint(format!("planwright {verb} {placeholder}")),
            );
        }
    };
    Ok((resolve_optional_plan(app, plan)?, text))
}

/// Returns whether a word can be a handle and identifies at least one plan.
pub fn may_name_plan(app: &App, word: &str) -> Result<bool, CommandError> {
    use lifecycle::HandleError;
    if matches!(word, "@" | "@-") {
        return Ok(true);
    }
    if word.len() < MIN_HANDLE_LENGTH {
        return Ok(false);
    }
    match app.lifecycle()?.resolve_handle(word) {
        Ok(_) | Err(HandleError::Ambiguous { .. }) => Ok(true),
        Err(HandleError::NotAHandle(_) | HandleError::Unknown(_) | HandleError::NoPlans) => {
            Ok(false)
        }
        Err(HandleError::Store(error)) => Err(error.into()),
    }
}

pub fn resolve_optional_plan(app: &App, handle: Option<&str>) -> Result<PlanId, CommandError> {
    if let Some(handle) = handle {
        return app.resolve_plan(handle);
    }
    let plan_id = app.resolve_current_plan()?;
    app.announce_current_plan(plan_id)?;
    Ok(plan_id)
}
