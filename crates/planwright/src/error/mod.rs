//! Errors as people and scripts get them: what happened, what to do, which exit code. All human
//! wording of failures lives here.

mod refused;
mod sandbox;
mod store;
mod typed;

use std::path::{Path, PathBuf};

use lifecycle::Error;
use plan::{Name, Plan, PlanResource, Verb};

use self::refused::{blocked_by, refused};
use self::sandbox::of_sandbox;
pub use self::typed::{command_for, daily_commands};
use crate::exit::Exit;
use crate::nearest::nearest;
use crate::typed::quoted;
use crate::yaml;

/// Why a command did not work.
#[derive(Debug)]
pub struct CommandError {
    /// The exit code it ends with.
    pub exit: Exit,
    /// What happened, and why.
    pub message: String,
    /// What to do about it, each a sentence or a command.
    pub hints: Vec<String>,
    /// A machine's view of it.
    pub data: serde_json::Value,
    /// What is said to people in other words than to scripts.
    pub way_out: Option<WayOut>,
}

/// How to go on, as far as it depends on who asks.
#[derive(Debug)]
pub enum WayOut {
    /// The plan cannot do that as it stands.
    Instead {
        /// What was asked of the engine, which may be but a step of what was typed.
        verb: Verb,
        /// What can be done instead.
        helps: Vec<Verb>,
    },
    /// Somebody else works on it.
    Wait,
    /// This project is unknown, or known no more.
    Project(Name),
    /// The plan ended; what landed can be taken back.
    Ended,
    /// This branch is not in the repository.
    Branch {
        /// Where the repository is.
        path: PathBuf,
        /// Its short name.
        branch: String,
    },
}

impl CommandError {
    /// An error with nothing but a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            data: serde_json::Value::Null,
            way_out: None,
        }
    }

    /// The words of the command line were wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// With what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn kind(mut self, kind: &str) -> Self {
        self.data = serde_json::json!({ "kind": kind });
        self
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refused(&refusal),
            Error::Blocked(blocked) => blocked_by(&blocked),
            Error::KeyReused { .. } => Self::new(Exit::Conflict, sentence(&error.to_string()))
                .kind("key_reused")
                .hint("Use a new --idempotency-key, or repeat exactly what it was used for."),
            Error::Sandbox(error) => of_sandbox(&error),
            Error::NoHands => {
                Self::new(Exit::Conflict, sentence(&error.to_string())).kind("no_hands")
            }
            Error::WaitingForHost { .. } => Self::new(Exit::Conflict, sentence(&error.to_string()))
                .kind("waiting_for_host")
                .hint("Work on it from there, or say that it lies here: planwright project relink"),
            Error::ResourceGone { .. } => Self::new(Exit::NotFound, sentence(&error.to_string()))
                .kind("resource_gone")
                .hint("Link it again: planwright project link"),
            Error::LandedOnBranch { ref branch } => {
                let branch = branch.clone();
                Self::new(Exit::Conflict, sentence(&error.to_string()))
                    .kind("landed_on_branch")
                    .hint(format!("In the repository: git branch -D {branch}"))
            }
            Error::Stopped => {
                Self::new(Exit::Interrupted, sentence(&error.to_string())).kind("stopped")
            }
            Error::Expr(problem) => Self::usage(sentence(&problem.to_string()))
                .kind("bad_rule")
                .hint("As in: planwright invariant add small --expr 'totals.lines <= 400'"),
            Error::Rules(why) => Self::new(Exit::Error, why)
                .kind("bad_rules")
                .hint("Mend the file on the branch that plans land on; until then nothing lands."),
            Error::Store(error) => error.into(),
            Error::Unknown(_) => Self::new(Exit::Unknown, sentence(&error.to_string()))
                .kind("unknown_outcome")
                .hint("Repeat the command with the same --idempotency-key: nothing is done twice.")
                .hint("Without a key, look first: planwright list"),
        }
    }
}

impl CommandError {
    /// A file is not what it should be; shown with the place.
    pub fn malformed(problem: yaml::Problem, source: &str) -> Self {
        let message = format!("{problem}\n{}", problem.excerpt(source));
        let mut error = Self::new(Exit::Error, message.trim_end()).kind("malformed_file");
        error.hints.extend(problem.hint);
        error
    }

    /// As scripts on plumbing are told: by its verbs.
    #[must_use]
    pub fn for_scripts(mut self) -> Self {
        match self.way_out.take() {
            Some(WayOut::Instead { helps, .. }) if !helps.is_empty() => {
                let verbs: Vec<&str> = helps.iter().map(|verb| verb.as_str()).collect();
                self.hint(format!("What can be done now: {}", verbs.join(", ")))
            }
            Some(WayOut::Wait) => self.hint(
                "Wait for it, or take the lease once it has expired: planwright plumbing reclaim",
            ),
            Some(WayOut::Project(_)) => self.hint("planwright project list"),
            Some(WayOut::Branch { path, branch }) => self.hint(make_branch(&path, &branch)),
            Some(WayOut::Instead { .. } | WayOut::Ended) | None => self,
        }
    }

    /// As people are told who typed this command about this plan: by what they type every day.
    #[must_use]
    pub fn for_people(mut self, typed: &str, plan: Option<(&Plan, &str)>) -> Self {
        let word = typed.rsplit(' ').next().unwrap_or(typed);
        let way_out = self.way_out.take();
        if let Some(WayOut::Instead { verb, .. }) = &way_out {
            self.message = about_what_was_typed(&self.message, *verb, word);
        }
        let Some((plan, handle)) = plan else {
            return match way_out {
                Some(WayOut::Project(_)) => self.hint("planwright project list"),
                Some(WayOut::Branch { path, branch }) => self.hint(make_branch(&path, &branch)),
                Some(WayOut::Instead { .. } | WayOut::Wait | WayOut::Ended) | None => self,
            };
        };
        match way_out {
            Some(WayOut::Instead { helps, .. }) => {
                let just_refused = format!("planwright {word} ");
                let commands = daily_commands(plan, &helps, handle).into_iter();
                let others = commands.filter(|command| !command.starts_with(&just_refused));
                self.hints.extend(others);
            }
            Some(WayOut::Wait) => self.hints.push("planwright wait ID".to_owned()),
            Some(WayOut::Project(name)) => self = without_its_project(self, plan, &name),
            Some(WayOut::Branch { path, branch }) => {
                self = without_its_branch(self, plan, &path, &branch);
            }
            Some(WayOut::Ended) => {
                let left = plan::decide::options(plan);
                self.hints.extend(daily_commands(plan, &left, handle));
            }
            None => {}
        }
        for hint in &mut self.hints {
            *hint = with_handle(hint, handle);
        }
        self
    }
}

fn make_branch(path: &Path, branch: &str) -> String {
    let path = quoted(&path.display().to_string());
    let branch = quoted(branch);
    format!("Make it (git -C {path} branch {branch}), or name another.")
}

/// What helps a plan whose branch was deleted under it: the branch again, where the work started.
fn without_its_branch(
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
        return error.hint(make_branch(path, branch));
    };
    let base = plan
        .base(&resource.name)
        .map(|base| &base[..base.len().min(12)]);
    error.message = format!(
        "The branch `{branch}`, which the plan lands on, is not in {} any more",
        path.display()
    );
    error.hints.clear();
    let path = quoted(&path.display().to_string());
    error
        .hint(format!(
            "Create it again at the commit the work started from: git -C {path} branch {} {}",
            quoted(branch),
            base.unwrap_or("COMMIT")
        ))
        .hint("planwright cancel ID")
}

/// What helps a plan whose project was deleted under it: the same one again.
fn without_its_project(error: CommandError, plan: &Plan, project: &Name) -> CommandError {
    let of_it = |resource: &&PlanResource| resource.project == *project;
    let Some(resource) = plan.resources.iter().find(of_it) else {
        return error.hint("planwright project list");
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
    .hint(format!(
        "To let the plan go on, say where it lies: planwright project create {project} {place} --as {}",
        resource.resource
    ))
    .hint("planwright cancel ID")
}

/// What is said of a step of the engine, said of the command that took it.
fn about_what_was_typed(message: &str, step: Verb, typed: &str) -> String {
    let step = step.as_str();
    let rest = message
        .strip_prefix(step)
        .or_else(|| message.strip_prefix(&sentence(step)));
    match rest {
        Some(rest) => sentence(&format!("{typed}{rest}")),
        None => message.to_owned(),
    }
}

/// A hint about the plan in question, as it can be typed.
fn with_handle(hint: &str, handle: &str) -> String {
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
    if let Some(near) = nearest(given, &known) {
        let said = error.message.trim_end_matches('.');
        error.message = format!("{said}; did you mean `{near}`?");
    }
    error
}

/// With a capital letter, as a person reads it. What is typed in lower case stays so.
fn sentence(text: &str) -> String {
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
        assert_eq!(sentence("the plan is final"), "The plan is final");
        assert_eq!(sentence("start-execute was done"), "start-execute was done");
        assert_eq!(sentence("`x` is no plan"), "`x` is no plan");
        assert_eq!(sentence(""), "");
    }
}
