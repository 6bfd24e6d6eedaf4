//! Errors as people and scripts get them: what happened, what to do, which exit code. All human
//! wording of failures lives here.

mod refusal;
mod sandbox;
mod store;
mod verb_commands;

use std::path::{Path, PathBuf};

use lifecycle::LifecycleError;
use plan::{Plan, PlanResource, QualifiedName, Verb};

use self::refusal::{from_blocked, from_refusal};
use self::sandbox::from_sandbox_error;
pub use self::verb_commands::{command_for_verb, daily_commands};
use crate::exit::CommandExit;
use crate::invocation::quote_word;
use crate::spelling::nearest_word;
use crate::yaml;

/// Why a command did not work.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code it ends with.
    pub exit: CommandExit,
    /// What happened, and why.
    pub message: String,
    /// What to do about it, each a sentence or a command.
    pub hints: Vec<String>,
    /// A machine's view of it.
    pub data: serde_json::Value,
    /// What is said to people in other words than to scripts.
    pub recovery: Option<RecoveryHint>,
}

/// How to go on, as far as it depends on who asks.
#[derive(Debug)]
pub enum RecoveryHint {
    /// The plan cannot do that as it stands.
    OtherVerbs {
        /// What was asked of the engine, which may be but a step of what was typed.
        verb: Verb,
        /// What can be done instead.
        possible_verbs: Vec<Verb>,
    },
    /// Somebody else works on it.
    WaitForHolder,
    /// This project is unknown, or known no more.
    MissingProject(QualifiedName),
    /// The plan ended; what landed can be taken back.
    PlanEnded,
    /// This branch is not in the repository.
    MissingBranch {
        /// Where the repository is.
        path: PathBuf,
        /// Its short name.
        branch: String,
    },
}

impl CommandError {
    /// An error with nothing but a message.
    pub fn new(exit: CommandExit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            data: serde_json::Value::Null,
            recovery: None,
        }
    }

    /// The words of the command line were wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(CommandExit::Usage, message)
    }

    /// With what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn with_kind(mut self, kind: &str) -> Self {
        self.data = serde_json::json!({ "kind": kind });
        self
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
            .with_hint(
                "Work on it from there, or say that it lies here: planwright project relink",
            ),
            LifecycleError::ResourceGone { .. } => Self::new(
                CommandExit::NotFound,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("resource_gone")
            .with_hint("Link it again: planwright project link"),
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
                    .with_hint("As in: planwright rule add small --expr 'totals.lines <= 400'")
            }
            LifecycleError::UnreadableRules(why) => Self::new(CommandExit::Error, why)
                .with_kind("bad_rules")
                .with_hint(
                    "Mend the file on the branch that plans land on; until then nothing lands.",
                ),
            LifecycleError::Store(error) => error.into(),
            LifecycleError::CommitUnknown(_) => Self::new(
                CommandExit::Unknown,
                capitalize_sentence(&error.to_string()),
            )
            .with_kind("unknown_outcome")
            .with_hint("Repeat the command with the same --idempotency-key: nothing is done twice.")
            .with_hint("Without a key, look first: planwright list"),
        }
    }
}

impl CommandError {
    /// A file is not what it should be; shown with the place.
    pub fn malformed_file(problem: yaml::YamlProblem, source: &str) -> Self {
        let message = format!("{problem}\n{}", problem.excerpt(source));
        let mut error =
            Self::new(CommandExit::Error, message.trim_end()).with_kind("malformed_file");
        error.hints.extend(problem.hint);
        error
    }

    /// As scripts on plumbing are told: by its verbs.
    #[must_use]
    pub fn for_scripts(mut self) -> Self {
        match self.recovery.take() {
            Some(RecoveryHint::OtherVerbs {
                possible_verbs: helps,
                ..
            }) if !helps.is_empty() => {
                let verbs: Vec<&str> = helps.iter().map(|verb| verb.as_str()).collect();
                self.with_hint(format!("What can be done now: {}", verbs.join(", ")))
            }
            Some(RecoveryHint::WaitForHolder) => self.with_hint(
                "Wait for it, or take the lease once it has expired: planwright plumbing reclaim",
            ),
            Some(RecoveryHint::MissingProject(_)) => self.with_hint("planwright project list"),
            Some(RecoveryHint::MissingBranch { path, branch }) => {
                self.with_hint(create_branch_hint(&path, &branch))
            }
            Some(RecoveryHint::OtherVerbs { .. } | RecoveryHint::PlanEnded) | None => self,
        }
    }

    /// As people are told who typed this command about this plan: by what they type every day.
    #[must_use]
    pub fn for_people(mut self, command: &str, plan: Option<(&Plan, &str)>) -> Self {
        let word = command.rsplit(' ').next().unwrap_or(command);
        let way_out = self.recovery.take();
        if let Some(RecoveryHint::OtherVerbs { verb, .. }) = &way_out {
            self.message = name_typed_command(&self.message, *verb, word);
        }
        let Some((plan, handle)) = plan else {
            return match way_out {
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
        match way_out {
            Some(RecoveryHint::OtherVerbs {
                possible_verbs: helps,
                ..
            }) => {
                let just_refused = format!("planwright {word} ");
                let commands = daily_commands(plan, &helps, handle).into_iter();
                let others = commands.filter(|command| !command.starts_with(&just_refused));
                self.hints.extend(others);
            }
            Some(RecoveryHint::WaitForHolder) => self.hints.push("planwright wait ID".to_owned()),
            Some(RecoveryHint::MissingProject(name)) => {
                self = explain_missing_project(self, plan, &name)
            }
            Some(RecoveryHint::MissingBranch { path, branch }) => {
                self = explain_missing_branch(self, plan, &path, &branch);
            }
            Some(RecoveryHint::PlanEnded) => {
                let left = plan::decide::available_verbs(plan);
                self.hints.extend(daily_commands(plan, &left, handle));
            }
            None => {}
        }
        for hint in &mut self.hints {
            *hint = fill_in_handle(hint, handle);
        }
        self
    }
}

fn create_branch_hint(path: &Path, branch: &str) -> String {
    let path = quote_word(&path.display().to_string());
    let branch = quote_word(branch);
    format!("Make it (git -C {path} branch {branch}), or name another.")
}

/// What helps a plan whose branch was deleted under it: the branch again, where the work started.
fn explain_missing_branch(
    mut error: CommandError,
    plan: &Plan,
    path: &Path,
    branch: &str,
) -> CommandError {
    let target = format!("refs/heads/{branch}");
    let resource = plan
        .resources
        .iter()
        .find(|one| one.target.as_ref() == Some(&target));
    let Some(resource) = resource else {
        return error.with_hint(create_branch_hint(path, branch));
    };
    let base = plan
        .base_commit(&resource.name)
        .map(|base| &base[..base.len().min(12)]);
    error.message = format!(
        "The branch `{branch}`, which the plan lands on, is not in {} any more",
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

/// What helps a plan whose project was deleted under it: the same one again.
fn explain_missing_project(
    error: CommandError,
    plan: &Plan,
    project: &QualifiedName,
) -> CommandError {
    let of_it = |resource: &&PlanResource| resource.project == *project;
    let Some(resource) = plan.resources.iter().find(of_it) else {
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
        "To let the plan go on, say where it lies: planwright project create {project} {place} --as {}",
        resource.resource
    ))
    .with_hint("planwright cancel ID")
}

/// What is said of a step of the engine, said of the command that took it.
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

/// A hint about the plan in question, as it can be typed.
fn fill_in_handle(hint: &str, handle: &str) -> String {
    let words: Vec<&str> = hint.split(' ').collect();
    let named = words.iter().map(|word| match *word {
        "ID" => handle,
        other => other,
    });
    named.collect::<Vec<_>>().join(" ")
}

/// Names the word that was probably meant.
pub fn did_you_mean(mut error: CommandError, given: &str, known: &[String]) -> CommandError {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(near) = nearest_word(given, &known) {
        let message = error.message.trim_end_matches('.');
        error.message = format!("{message}; did you mean `{near}`?");
    }
    error
}

/// With a capital letter, as a person reads it. What is typed in lower case stays so.
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
    fn a_name_stays_as_it_is_written() {
        assert_eq!(
            capitalize_sentence("the plan is final"),
            "The plan is final"
        );
        assert_eq!(
            capitalize_sentence("start-execute was done"),
            "start-execute was done"
        );
        assert_eq!(capitalize_sentence("`x` is no plan"), "`x` is no plan");
        assert_eq!(capitalize_sentence(""), "");
    }
}
