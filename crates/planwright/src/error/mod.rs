//! Turns errors of the engine into messages for people and scripts: what happened, what to type next, which
//! exit code.

mod http;
mod operation;
mod refusal;
mod sandbox;
mod store;

use std::path::{Path, PathBuf};

use api::results::ResultError;
use api::reviews::ReviewError;
use lifecycle::{Lifecycle, LifecycleError};
use plan::{Caller, Plan, PlanId, PlanResource, QualifiedName, Verb};

pub use self::http::ServerHost;
pub use self::operation::{
    INSTALL_AGENT_HINT, OWN_AGENT_HINT, invalid_rule_in_file, unknown_actor_error,
};
use self::refusal::{from_blocked, from_refusal};
use self::sandbox::{find_file_remedy, from_sandbox_error};
use crate::exit::CommandExit;
use crate::invocation::quote_word;
use crate::spelling::nearest_word;
use crate::step_commands::commands_for_steps;
use crate::yaml;

/// A failed command as it is reported to the caller.
#[derive(Debug)]
pub struct CommandError {
    pub exit: CommandExit,
    /// What happened, and why.
    pub message: String,
    /// What to do next; each is a sentence or a command.
    pub hints: Vec<String>,
    /// The JSON `data`: at least `kind`, a stable word for this error.
    pub data: serde_json::Value,
    /// Hints that differ between people and scripts; resolved by `for_people` or `for_scripts`.
    pub recovery: Option<RecoveryHint>,
}

/// A way to recover whose wording depends on who asks.
#[derive(Debug)]
pub enum RecoveryHint {
    /// The plan's state does not allow the verb.
    OtherVerbs {
        /// The refused verb, which may be only one step of the typed command.
        verb: Verb,
        possible_verbs: Vec<Verb>,
    },
    /// Another process holds the plan's lease.
    WaitForHolder,
    /// The project never existed or was deleted.
    MissingProject(QualifiedName),
    /// The plan is final. A landed one can be undone.
    PlanEnded,
    /// The repository does not have this branch.
    MissingBranch {
        /// The repository.
        path: PathBuf,
        /// The name without `refs/heads/`.
        branch: String,
    },
}

/// The plan that a command named, for the hints of its error.
pub struct MentionedPlan {
    pub plan: Plan,
    pub handle: String,
    /// What can be done with it, most useful first.
    pub next_commands: Vec<String>,
}

impl MentionedPlan {
    pub fn read(
        lifecycle: &Lifecycle,
        plan_id: PlanId,
        viewer: &Caller,
    ) -> Result<Self, CommandError> {
        let row = lifecycle.get_plan(plan_id)?;
        let steps = api::next_steps(lifecycle, &row, viewer)?;
        Ok(Self {
            handle: lifecycle.short_handle(plan_id)?,
            next_commands: commands_for_steps(lifecycle, plan_id, &steps)?,
            plan: row.plan,
        })
    }
}

impl CommandError {
    pub fn new(exit: CommandExit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            data: serde_json::Value::Null,
            recovery: None,
        }
    }

    /// A wrong argument or value; exit code 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Usage, message)
    }

    /// A file that cannot be read or written. `doing` is a participle.
    pub fn for_file(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        let message = format!("{} cannot be {doing}: {error}", path.display());
        let base = Self::new(CommandExit::Error, message);
        match find_file_remedy(error.kind()) {
            Some((kind, hint)) => base.with_kind(kind).with_hint(hint),
            None => base,
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn with_kind(mut self, kind: &str) -> Self {
        self.data = serde_json::json!({ "kind": kind });
        self
    }
}

impl From<ResultError> for CommandError {
    fn from(error: ResultError) -> Self {
        match error {
            ResultError::Engine(error) => error.into(),
            ResultError::NoSuchResult { last: 0, .. } => {
                Self::new(CommandExit::NotFound, "The plan has no result yet.")
                    .with_kind("no_such_result")
            }
            ResultError::NoSuchResult { number, last } => Self::new(
                CommandExit::NotFound,
                format!("The plan has no result r{number}. Its last one is r{last}."),
            )
            .with_kind("no_such_result"),
        }
    }
}

impl From<ReviewError> for CommandError {
    fn from(error: ReviewError) -> Self {
        let message = capitalize_sentence(&error.to_string());
        match error {
            ReviewError::Engine(error) => error.into(),
            ReviewError::NotChanged(_) => Self::new(CommandExit::NotFound, message)
                .with_kind("not_changed")
                .with_hint("List the changed files: planwright review ID"),
            ReviewError::NoSuchLines { .. } => {
                Self::new(CommandExit::NotFound, message).with_kind("no_such_lines")
            }
            ReviewError::ResourceNeeded(_) => Self::usage(message).with_kind("resource_needed"),
            ReviewError::NoSuchHunk(_) => Self::new(CommandExit::NotFound, message)
                .with_kind("unknown_hunk")
                .with_hint("List the hunks: planwright diff ID --hunks"),
        }
    }
}

impl From<LifecycleError> for CommandError {
    fn from(error: LifecycleError) -> Self {
        match error {
            LifecycleError::Refused(refusal) => from_refusal(&refusal),
            LifecycleError::Blocked(blocked) => from_blocked(&blocked),
            LifecycleError::KeyReused { .. } => Self::new(
                CommandExit::Conflict,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("key_reused")
            .with_hint("Use a new --idempotency-key, or repeat exactly what it was used for."),
            LifecycleError::Sandbox(error) => from_sandbox_error(&error),
            LifecycleError::NoLocalHost => Self::new(
                CommandExit::Conflict,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("no_hands"),
            LifecycleError::WaitingForHost { .. } => Self::new(
                CommandExit::Conflict,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("waiting_for_host")
            .with_hint("Work on it there, or register this host's copy: planwright project relink PROJECT RESOURCE --git PATH"),
            LifecycleError::ResourceGone { .. } => Self::new(
                CommandExit::NotFound,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("resource_gone")
            .with_hint("Link it again: planwright project link PROJECT --git PATH --as RESOURCE"),
            LifecycleError::LandedOnBranch { ref branch } => {
                let branch = branch.clone();
                Self::new(
                    CommandExit::Conflict,
                    capitalize_sentence(&error.to_string()),
                )
                .with_kind("landed_on_branch")
                .with_hint(format!("In the repository: git branch -D {branch}"))
            }
            LifecycleError::Stopped => Self::new(
                CommandExit::Interrupted,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("stopped"),
            LifecycleError::InvalidRule(problem) => {
                Self::usage(capitalize_sentence(&problem.to_string()))
                    .with_kind("bad_rule")
                    .with_hint("Example: planwright rule add small --expr 'totals.lines <= 400'")
            }
            LifecycleError::UnreadableRules(why) => Self::new(CommandExit::Error, why)
                .with_kind("bad_rules")
                .with_hint(
                    "Fix planwright.yaml on the target branch. Nothing can land until it is valid.",
                ),
            LifecycleError::Store(error) => error.into(),
            LifecycleError::CommitUnknown(_) => Self::new(
                CommandExit::Unknown,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("unknown_outcome")
            .with_hint("Repeat the command with the same --idempotency-key: nothing is done twice.")
            .with_hint("Without a key, check first whether it happened: planwright list"),
        }
    }
}

impl CommandError {
    /// A problem in a file, with an excerpt of the line.
    pub fn malformed_file(problem: yaml::YamlProblem, source: &str) -> Self {
        let message = format!("{problem}\n{}", problem.excerpt(source));
        let mut error =
            Self::new(CommandExit::Error, message.trim_end()).with_kind("malformed_file");
        error.hints.extend(problem.hint);
        error
    }

    /// Adds the hints for scripts, in terms of plumbing verbs.
    #[must_use]
    pub fn for_scripts(mut self) -> Self {
        match self.recovery.take() {
            Some(RecoveryHint::OtherVerbs {
                possible_verbs, ..
            }) if !possible_verbs.is_empty() => {
                let verbs: Vec<&str> = possible_verbs.iter().map(|verb| verb.as_str()).collect();
                self.with_hint(format!("Possible now: {}", verbs.join(", ")))
            }
            Some(RecoveryHint::WaitForHolder) => self.with_hint(
                "Wait for the holder, or reclaim the lease after it expires: planwright plumbing reclaim",
            ),
            Some(RecoveryHint::MissingProject(_)) => self.with_hint("planwright project list"),
            Some(RecoveryHint::MissingBranch { path, branch }) => {
                self.with_hint(create_branch_hint(&path, &branch))
            }
            Some(RecoveryHint::OtherVerbs { .. } | RecoveryHint::PlanEnded) | None => self,
        }
    }

    /// Adds the hints for people, in terms of everyday commands.
    #[must_use]
    pub fn for_people(mut self, command: &str, mentioned: Option<&MentionedPlan>) -> Self {
        let word = command.rsplit(' ').next().unwrap_or(command);
        let recovery = self.recovery.take();
        if let Some(RecoveryHint::OtherVerbs { verb, .. }) = &recovery {
            self.message = name_typed_command(&self.message, *verb, word);
        }
        let Some(mentioned) = mentioned else {
            return match recovery {
                Some(RecoveryHint::MissingProject(_)) => self.with_hint("planwright project list"),
                Some(RecoveryHint::MissingBranch { path, branch }) => {
                    self.with_hint(create_branch_hint(&path, &branch))
                }
                Some(
                    RecoveryHint::OtherVerbs { .. }
                    | RecoveryHint::WaitForHolder
                    | RecoveryHint::PlanEnded,
                )
                | None => self,
            };
        };
        let (plan, next_commands) = (&mentioned.plan, &mentioned.next_commands);
        match recovery {
            Some(RecoveryHint::OtherVerbs { .. }) => {
                let just_refused = format!("planwright {word} ");
                let others = next_commands.iter();
                // With --request, `answer` decides a tool call instead.
                let is_repeated = |command: &&String| {
                    command.starts_with(&just_refused) && !command.contains(" --request ")
                };
                let others = others.filter(|command| !is_repeated(command));
                self.hints.extend(others.cloned());
            }
            Some(RecoveryHint::WaitForHolder) => {
                let wait = "planwright wait ".to_owned();
                let waiting = next_commands.iter().find(|one| one.starts_with(&wait));
                self.hints
                    .extend(waiting.or(next_commands.first()).cloned());
            }
            Some(RecoveryHint::MissingProject(name)) => {
                self = explain_missing_project(self, plan, &name)
            }
            Some(RecoveryHint::MissingBranch { path, branch }) => {
                self = explain_missing_branch(self, plan, &path, &branch);
            }
            Some(RecoveryHint::PlanEnded) => self.hints.extend(next_commands.iter().cloned()),
            None => {}
        }
        let handle = &mentioned.handle;
        let full_id = plan.id().to_string();
        self.message = self.message.replace(&full_id, handle);
        for hint in &mut self.hints {
            *hint = fill_in_handle(hint, handle).replace(&full_id, handle);
        }
        self
    }
}

fn create_branch_hint(path: &Path, branch: &str) -> String {
    let path = quote_word(&path.display().to_string());
    let branch = quote_word(branch);
    format!("Create it (git -C {path} branch {branch}), or name another branch.")
}

/// Explains that the plan's target branch was deleted, and how to create it again at the plan's base.
fn explain_missing_branch(
    mut error: CommandError,
    plan: &Plan,
    path: &Path,
    branch: &str,
) -> CommandError {
    let target = format!("refs/heads/{branch}");
    let resource = plan
        .resources()
        .iter()
        .find(|one| one.target.as_ref() == Some(&target));
    let Some(resource) = resource else {
        return error.with_hint(create_branch_hint(path, branch));
    };
    let base = plan
        .base_commit(&resource.name)
        .map(|base| &base[..base.len().min(12)]);
    error.message = format!(
        "The branch `{branch}`, which the plan lands on, no longer exists in {}",
        path.display()
    );
    error.hints.clear();
    let path = quote_word(&path.display().to_string());
    error
        .with_hint(format!(
            "Create it again at the commit the work started from: git -C {path} branch {} {}",
            quote_word(branch),
            base.unwrap_or("COMMIT")
        ))
        .with_hint("planwright cancel ID")
}

/// Explains that the plan's project was deleted, and how to create it again.
fn explain_missing_project(
    error: CommandError,
    plan: &Plan,
    project: &QualifiedName,
) -> CommandError {
    let in_project = |resource: &&PlanResource| resource.project == *project;
    let Some(resource) = plan.resources().iter().find(in_project) else {
        return error.with_hint("planwright project list");
    };
    let place = match resource.target.as_deref() {
        Some(target) => {
            let branch = target.strip_prefix("refs/heads/").unwrap_or(target);
            format!("--git PATH --branch {branch}")
        }
        None => "--dir PATH".to_owned(),
    };
    CommandError {
        message: format!("Project `{project}`, which the plan works on, was deleted."),
        ..error
    }
    .with_hint(format!(
        "To continue the plan, create the project again: planwright project create {project} {place} --as {}",
        resource.resource
    ))
    .with_hint("planwright cancel ID")
}

/// Replaces the engine's verb at the start of a message with the command that the person typed.
fn name_typed_command(message: &str, step: Verb, command: &str) -> String {
    let step = step.as_str();
    let rest = message
        .strip_prefix(step)
        .or_else(|| message.strip_prefix(&capitalize_sentence(step)));
    match rest {
        Some(rest) => capitalize_sentence(&format!("{command}{rest}")),
        None => message.to_owned(),
    }
}

/// Replaces the word `ID` in a hint with the plan's handle.
fn fill_in_handle(hint: &str, handle: &str) -> String {
    let words: Vec<&str> = hint.split(' ').collect();
    let named = words.iter().map(|word| match *word {
        "ID" => handle,
        other => other,
    });
    named.collect::<Vec<_>>().join(" ")
}

/// Appends a suggestion if a known word is close to `given`.
pub fn did_you_mean(mut error: CommandError, given: &str, known: &[String]) -> CommandError {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(near) = nearest_word(given, &known) {
        let message = error.message.trim_end_matches('.');
        error.message = format!("{message}; did you mean `{near}`?");
    }
    error
}

/// Capitalizes a sentence, unless it begins with a name such as `start-execute` or a quoted word.
fn capitalize_sentence(text: &str) -> String {
    let first_word = text.split(' ').next().unwrap_or_default();
    if !first_word.chars().all(|letter| letter.is_ascii_lowercase()) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_capitalized() {
        assert_eq!(
            capitalize_sentence("the plan is final"),
            "The plan is final"
        );
        assert_eq!(
            capitalize_sentence("start-execute was done"),
            "start-execute was done"
        );
        assert_eq!(
            capitalize_sentence("`x` is not a plan"),
            "`x` is not a plan"
        );
        assert_eq!(capitalize_sentence(""), "");
    }
}
