//! Errors as people and scripts get them: what happened, what to do, which exit code. All human
//! wording of failures lives here.

use lifecycle::{Error, HandleError};
use plan::invariant::{RuleName, Scope};
use plan::judgement::Waits;
use plan::{ReconciliationBlocked, Refusal, Verb};
use sandbox::SandboxError;
use store::StoreError;

use crate::exit::Exit;
use crate::ui;
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
}

impl CommandError {
    /// An error with nothing but a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            data: serde_json::Value::Null,
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
            Error::Expr(problem) => Self::usage(sentence(&problem.to_string()))
                .kind("bad_rule")
                .hint("How rules are written: docs/invariants.md"),
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

/// What went wrong with a repository or a directory.
fn of_sandbox(error: &SandboxError) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, error.to_string()).kind(kind);
    if error.is_about_permission() {
        return new(Exit::Error, "not_permitted")
            .hint("Let yourself read and write there, and repeat the command; nothing is lost.");
    }
    match error {
        SandboxError::NoGit { .. } => {
            new(Exit::Error, "no_git").hint("Install git, or put it on the PATH.")
        }
        SandboxError::OldGit { .. } => new(Exit::Error, "old_git"),
        SandboxError::Git { .. } => new(Exit::Error, "git"),
        SandboxError::TooSlow { path, .. } => new(Exit::Error, "git_too_slow")
            .hint(format!(
                "Does the disk answer, and is `git` git itself? Try: git -C {} status",
                path.display()
            ))
            .hint("Then repeat the command; nothing is lost."),
        SandboxError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            new(Exit::NotFound, "not_found")
        }
        SandboxError::File { .. } => new(Exit::Error, "file"),
        SandboxError::BadPlace { hint, .. } => new(Exit::Conflict, "bad_place").hint(hint.clone()),
        SandboxError::NotTrusted { path } => new(Exit::Error, "not_trusted").hint(format!(
            "If you trust it: git config --global --add safe.directory {}",
            path.display()
        )),
        SandboxError::NoBranch { path, branch } => new(Exit::NotFound, "no_branch").hint(format!(
            "Make it (git -C {} branch {branch}), or name another.",
            path.display()
        )),
        SandboxError::ObjectGone { .. } => new(Exit::NotFound, "object_gone"),
        SandboxError::SandboxGone { .. } => new(Exit::NotFound, "sandbox_gone").hint(
            "Start over: planwright retry ID --fresh, after failing or reclaiming the phase.",
        ),
        SandboxError::NothingMatches { .. } => new(Exit::NotFound, "nothing_matches"),
        SandboxError::Uncapturable { .. } | SandboxError::Path(_) => {
            new(Exit::Conflict, "uncapturable")
        }
        SandboxError::Fenced { .. } => new(Exit::Conflict, "fenced"),
        SandboxError::TargetMoved { .. } => {
            new(Exit::Conflict, "target_moved").hint("Repeat the command.")
        }
        SandboxError::Locked { lock } => new(Exit::Conflict, "locked").hint(format!(
            "Repeat the command; if no git is running, remove {}",
            lock.display()
        )),
        SandboxError::Occupied { .. } => new(Exit::Conflict, "occupied").hint("End it first."),
        SandboxError::BadBranchName { .. } => new(Exit::Usage, "bad_branch_name"),
        SandboxError::BranchExists { .. } => {
            new(Exit::Conflict, "branch_exists").hint("Choose another name: --as branch NAME")
        }
        SandboxError::Busy { .. } => new(Exit::Conflict, "busy").hint("Repeat the command."),
        SandboxError::Unsupervised { .. } => new(Exit::Error, "unsupervised"),
        SandboxError::SetUpFailed { .. } => new(Exit::Error, "set_up_failed"),
        SandboxError::Damaged { .. } => new(Exit::Error, "damaged"),
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let message = match error {
            // These begin with a place, which stays as it is written.
            StoreError::Unusable { .. }
            | StoreError::NotAStore { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::NetworkFileSystem { .. }
            | StoreError::Busy { .. }
            | StoreError::Corrupt { .. } => message,
            StoreError::Full { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Database { .. }
            | StoreError::Unsupported { .. } => sentence(&message),
        };
        let base = Self::new(Exit::Error, message);
        match error {
            StoreError::OlderSchema { .. } => {
                base.kind("older_schema").hint("planwright store migrate")
            }
            StoreError::NewerSchema { .. } => base
                .kind("newer_schema")
                .hint("Use the newer planwright that wrote it, or another --store."),
            StoreError::NotAStore { .. } => base
                .kind("not_a_store")
                .hint("Point --store at another file; this one was left as it is."),
            StoreError::NetworkFileSystem { .. } => base.kind("network_file_system").hint(
                "Keep the store on a local disk, or share plans through --store postgres://…",
            ),
            StoreError::Full { .. } => base
                .kind("full")
                .hint("Make room and repeat the command; nothing was stored."),
            StoreError::Unreachable { .. } => base
                .kind("unreachable")
                .hint("Is the server running? Nothing was stored; repeat when it is."),
            StoreError::Busy { .. } => base
                .kind("busy")
                .hint("Nothing was stored; repeat the command."),
            StoreError::Corrupt { .. } => base.kind("corrupt").hint("planwright store verify"),
            StoreError::Unusable { .. } => base
                .kind("unusable")
                .hint("Give another place: --store sqlite:PATH, or set PLANWRIGHT_HOME."),
            StoreError::Database { .. } => base
                .kind("database")
                .hint("Nothing was stored; repeat the command.")
                .hint("planwright doctor"),
            StoreError::Unsupported { .. } => base.kind("unsupported"),
        }
    }
}

impl From<HandleError> for CommandError {
    fn from(error: HandleError) -> Self {
        let message = sentence(&error.to_string());
        match error {
            HandleError::NotAHandle(_) => Self::usage(message)
                .kind("not_a_handle")
                .hint("planwright list"),
            HandleError::Unknown(_) | HandleError::NoPlans => Self::new(Exit::NotFound, message)
                .kind("no_such_plan")
                .hint("planwright list"),
            HandleError::Ambiguous { plans, .. } => {
                let named: Vec<String> = plans.iter().take(5).map(ToString::to_string).collect();
                Self::usage(message)
                    .kind("ambiguous_handle")
                    .hint(format!("Give more of it: {}", named.join(", ")))
            }
            HandleError::Store(error) => error.into(),
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
}

/// The command that carries out a verb on a plan, as it is typed.
pub fn command_for(verb: Verb, id: &str) -> String {
    match verb {
        Verb::Answer => format!("planwright answer {id} \"TEXT\""),
        Verb::Retry => format!("planwright retry {id}"),
        Verb::Revise => format!("planwright revise {id} \"TEXT\""),
        Verb::Revert => format!("planwright revert {id} --reason \"TEXT\""),
        Verb::Approve => format!("planwright approve {id}"),
        Verb::Cancel => format!("planwright cancel {id}"),
        Verb::Waive => format!("planwright waive {id} RULE --reason \"TEXT\""),
        Verb::StartStrategize | Verb::StartExecute => {
            format!("planwright plumbing {verb} {id} --owner NAME")
        }
        Verb::ExecutePlan => format!("planwright plumbing {verb} {id}"),
        Verb::ApplyPlan | Verb::StartApply => format!("planwright apply {id}"),
        Verb::Fail => {
            format!("planwright plumbing fail {id} --epoch E --category actor --message \"TEXT\"")
        }
        Verb::Ask => format!("planwright plumbing ask {id} --epoch E --question \"TEXT\""),
        Verb::Constrain => {
            format!(
                "planwright plumbing constrain {id} --epoch E --kind conflict --message \"TEXT\""
            )
        }
        Verb::CompleteStrategize
        | Verb::CompleteExecute
        | Verb::CompleteApply
        | Verb::OpenChangeset
        | Verb::PrepareApply
        | Verb::WithdrawApply
        | Verb::Renew
        | Verb::Release => format!("planwright plumbing {verb} {id} --epoch E"),
        Verb::RecordChange => {
            format!("planwright plumbing {verb} {id} --epoch E --path PATH --operation modify")
        }
        Verb::SealChangeset => format!("planwright plumbing {verb} {id} --epoch E --changeset C"),
        Verb::RuleOn => format!("planwright approve {id} --rule NAME"),
        Verb::Reclaim => format!("planwright plumbing reclaim {id}"),
        Verb::Undo => format!("planwright undo {id}"),
        Verb::Use | Verb::RecordBases | Verb::ExpireQuestion => format!("planwright status {id}"),
        Verb::CreateAction
        | Verb::ArchiveAction
        | Verb::AddRule
        | Verb::RemoveRule
        | Verb::KeepEvidence
        | Verb::CreateProject
        | Verb::LinkResource
        | Verb::UnlinkResource
        | Verb::RelinkResource
        | Verb::PauseProject
        | Verb::ResumeProject
        | Verb::DeleteProject => "planwright help".to_owned(),
    }
}

fn blocked_by(blocked: &ReconciliationBlocked) -> CommandError {
    let mut message = format!("{blocked}. The plan did not move.");
    let mut hints = Vec::new();
    for failed in &blocked.failed {
        message.push_str(&format!(
            "\n  {}: {}\n    {}",
            failed.rule,
            ui::clean(&failed.evidence),
            ui::clean(&failed.check)
        ));
        if failed.waits == Some(Waits::Person) {
            let holds = format!(
                "planwright approve {} --rule {}",
                blocked.plan, failed.rule.name
            );
            let rejected = format!("{holds} --reject \"TEXT\"");
            hints.extend([holds, rejected]);
        } else if failed.waivable {
            hints.push(format!(
                "planwright waive {} {} --reason \"TEXT\"",
                blocked.plan, failed.rule.name
            ));
        } else {
            hints.push(format!(
                "{} cannot be waived: change the plan, or the rule.",
                failed.rule
            ));
        }
    }
    hints.push(format!("planwright why {}", blocked.plan));
    let data = serde_json::json!({
        "kind": "reconciliation_blocked",
        "plan_id": blocked.plan,
        "gate": blocked.gate,
        "failed": blocked.failed,
    });
    let waits_only = blocked
        .failed
        .iter()
        .all(|one| one.waits == Some(Waits::Person));
    CommandError {
        exit: match waits_only {
            true => Exit::NeedsPerson,
            false => Exit::Blocked,
        },
        message,
        hints,
        data,
    }
}

fn refused(refusal: &Refusal) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, sentence(&refusal.to_string())).kind(kind);
    match refusal {
        Refusal::NoSuchPlan(_) => new(Exit::NotFound, "no_such_plan").hint("planwright list"),
        Refusal::NoSuchAction(_) => new(Exit::NotFound, "no_such_action").hint("planwright action list"),
        Refusal::NoSuchProject(_) => new(Exit::NotFound, "no_such_project").hint("planwright project list"),
        Refusal::NoSuchResource { project, .. } => new(Exit::NotFound, "no_such_resource")
            .hint(format!("planwright project show {project}")),
        Refusal::NoSuchRule { .. } => new(Exit::NotFound, "no_such_rule").hint("planwright invariant list"),
        Refusal::NoRuleOnPlan { plan, .. } => new(Exit::NotFound, "no_such_rule")
            .hint(format!("planwright invariant list --effective {plan}")),
        Refusal::NoSuchChangeset { plan, .. } => new(Exit::NotFound, "no_such_changeset")
            .hint(format!("planwright plumbing changesets {plan}")),
        Refusal::VersionMismatch { .. } => new(Exit::Conflict, "version_mismatch")
            .hint("Look at what changed, then repeat with the new --if-version or without one."),
        Refusal::WrongState { helps, .. } => {
            let mut error = new(Exit::Conflict, "wrong_state");
            if !helps.is_empty() {
                let verbs: Vec<&str> = helps.iter().map(|verb| verb.as_str()).collect();
                error = error.hint(format!("What can be done now: {}", verbs.join(", ")));
            }
            error
        }
        Refusal::Final { .. } => new(Exit::Conflict, "final")
            .hint("What has ended stays as it is; start a new plan to go on."),
        Refusal::Held { holder, expires_at } => {
            let mut error = new(Exit::Conflict, "held");
            error.message = format!(
                "The plan is held by {} since {} (epoch {})",
                holder.owner, holder.since, holder.epoch
            );
            error.data = serde_json::json!({
                "kind": "held",
                "owner": holder.owner,
                "epoch": holder.epoch,
                "since": holder.since,
                "expires_at": expires_at,
            });
            error.hint("Wait for it, or take the lease once it has expired: planwright plumbing reclaim")
        }
        Refusal::Fenced { .. } => new(Exit::Conflict, "fenced")
            .hint("Somebody else took over or the work is finished; do not go on with it."),
        Refusal::NotDue { .. } => new(Exit::Conflict, "not_due"),
        Refusal::LeaseRuns { .. } => {
            new(Exit::Conflict, "lease_runs").hint("It can be reclaimed once it has expired.")
        }
        Refusal::QuestionOpen => new(Exit::Conflict, "question_open"),
        Refusal::NeedsPerson { .. } => new(Exit::NeedsPerson, "needs_person"),
        Refusal::ApprovalVoid(_) => {
            new(Exit::NeedsPerson, "approval_void").hint("Look again, and sign: planwright apply ID")
        }
        Refusal::RuleOfRepository => new(Exit::Usage, "rule_of_repository"),
        Refusal::NothingToJudge { .. } => {
            new(Exit::Usage, "nothing_to_judge").hint("Judge it --at result or --at apply.")
        }
        Refusal::NotAsking { .. } => new(Exit::Usage, "not_asking")
            .hint("To land although it fails: planwright waive ID NAME --reason \"TEXT\""),
        Refusal::NothingToFix => new(Exit::NeedsPerson, "nothing_to_fix")
            .hint("planwright revise ID \"TEXT\""),
        Refusal::NeedsApproval => new(Exit::NeedsPerson, "needs_approval").hint("planwright approve ID"),
        Refusal::NeedsFate => new(Exit::Usage, "needs_fate"),
        Refusal::PointOfNoReturn { .. } => new(Exit::Conflict, "point_of_no_return"),
        Refusal::JudgementStale { .. } => {
            new(Exit::Conflict, "judgement_stale").hint("Repeat the command; plan or rules kept changing.")
        }
        Refusal::ReversionLimit(_) => new(Exit::Conflict, "reversion_limit"),
        Refusal::EmptyResult => new(Exit::Conflict, "empty_result")
            .hint("If that is what was wanted, say so: --allow-empty"),
        Refusal::BasesDoNotFit => new(Exit::Usage, "bases_do_not_fit"),
        Refusal::MovesDoNotFit => new(Exit::Usage, "moves_do_not_fit"),
        Refusal::NotLanded { .. } => new(Exit::Conflict, "not_landed"),
        Refusal::NothingToUndo => new(Exit::Conflict, "nothing_to_undo"),
        Refusal::ActionExists { name, .. } => {
            new(Exit::Conflict, "action_exists").hint(format!("planwright action show {name}"))
        }
        Refusal::ActionArchived { .. } => {
            new(Exit::Conflict, "action_archived").hint("planwright action list")
        }
        Refusal::ActionUsedUp { plan, .. } => {
            new(Exit::Conflict, "action_used_up").hint(format!("planwright status {plan}"))
        }
        Refusal::ProjectExists { name, .. } => new(Exit::Conflict, "project_exists")
            .hint(format!("Look at it: planwright project show {name}"))
            .hint("Change it with project link, unlink or relink, or choose another name."),
        Refusal::ProjectEmpty(name) => new(Exit::Conflict, "project_empty").hint(format!(
            "Add what it works on: planwright project link {name} --git PATH"
        )),
        Refusal::ProjectPaused { project, .. } => new(Exit::Conflict, "project_paused")
            .hint(format!("planwright project resume {project}")),
        Refusal::ProjectInUse { count, plans, .. } => {
            let mut error = new(Exit::Conflict, "project_in_use")
                .hint("Let them end or cancel them; with --force they will not find what they work on.");
            error.data = serde_json::json!({ "kind": "project_in_use", "count": count, "plans": plans });
            error
        }
        Refusal::ResourceExists { project, name } => new(Exit::Conflict, "resource_exists").hint(format!(
            "If it has moved, say so: planwright project relink {project} {name}"
        )),
        Refusal::PlaceTaken { .. } => new(Exit::Conflict, "place_taken"),
        Refusal::ResourceKind { project, name, .. } => new(Exit::Conflict, "resource_kind").hint(format!(
            "Unlink it first: planwright project unlink {project} {name}"
        )),
        Refusal::BadResource { .. } => new(Exit::Usage, "bad_resource"),
        Refusal::NotOfThePlan(_) => new(Exit::NotFound, "no_such_resource"),
        Refusal::NoActor => new(Exit::Usage, "no_actor").hint("planwright config set actor NAME"),
        Refusal::NoGoal => new(Exit::Usage, "no_goal"),
        Refusal::BadText { .. } => new(Exit::Usage, "bad_text"),
        Refusal::Arguments(_) => new(Exit::Usage, "bad_arguments"),
        Refusal::BadDecision { .. } => new(Exit::Usage, "bad_decision"),
        Refusal::RuleExists { scope, name } => new(Exit::Conflict, "rule_exists")
            .hint(format!("Remove it first: {}", removal(scope, name))),
        Refusal::NonOverridable { rule } => new(Exit::Blocked, "non_overridable").hint(format!(
            "It holds until it is removed: {}",
            removal(&rule.scope, &rule.name)
        )),
        Refusal::NodeHasOpenChangeset { open } => new(Exit::Conflict, "node_has_open_changeset").hint(format!(
            "Record into it, or seal it: planwright plumbing seal-changeset {} --epoch {} --changeset {}",
            open.plan, open.epoch, open.id
        )),
        Refusal::NoOpenChangeset { .. } => {
            new(Exit::Conflict, "no_open_changeset").hint("planwright plumbing open-changeset ID --epoch E")
        }
        Refusal::AmbiguousChangeset { open } => {
            let nodes: Vec<String> = open.iter().map(|one| format!("--node {} ({})", one.node, one.id)).collect();
            new(Exit::Conflict, "ambiguous_changeset").hint(format!("One of: {}", nodes.join(", ")))
        }
        Refusal::ReadOnly(_) => new(Exit::Conflict, "read_only"),
    }
}

/// The command that removes a rule.
fn removal(scope: &Scope, name: &RuleName) -> String {
    let scope = match scope {
        Scope::Global => String::new(),
        Scope::Project(project) => format!(" --project {project}"),
        // It is nobody's to remove but by landing on the target.
        Scope::Repository(_) => return "Change planwright.yaml on the target branch.".to_owned(),
        Scope::Action(action) => format!(" --action {action}"),
        Scope::Plan(plan) => format!(" --plan {plan}"),
    };
    format!("planwright invariant remove {name}{scope}")
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
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    const ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

    #[test]
    fn every_verb_has_a_command_that_parses() {
        for verb in Verb::ALL {
            let command = command_for(*verb, ID);
            let typed = command
                .replace("--epoch E", "--epoch 7")
                .replace("--changeset C", &format!("--changeset {ID}"))
                .replace("RULE", "rule")
                .replace("\"TEXT\"", "text");
            let parsed = Cli::try_parse_from(typed.split(' '));
            assert!(parsed.is_ok(), "{verb}: {command}: {parsed:?}");
        }
    }

    #[test]
    fn rules_of_every_scope_can_be_removed_as_it_is_said() {
        let name: RuleName = "calm".parse().unwrap();
        for scope in [
            Scope::Global,
            Scope::Action("acme/tidy".parse().unwrap()),
            Scope::Plan(ID.parse().unwrap()),
        ] {
            let command = removal(&scope, &name);
            let parsed = Cli::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }

    #[test]
    fn a_name_stays_as_it_is_written() {
        assert_eq!(sentence("the plan is final"), "The plan is final");
        assert_eq!(sentence("start-execute was done"), "start-execute was done");
        assert_eq!(sentence("`x` is no plan"), "`x` is no plan");
        assert_eq!(sentence(""), "");
    }
}
