//! Errors as people and scripts get them: what happened, what to do, which exit code. All human
//! wording of failures lives here.

use lifecycle::{Error, HandleError};
use plan::invariant::{RuleName, Scope};
use plan::judgement::Waits;
use plan::ledger::AccountName;
use plan::{Name, Plan, PlanResource, ReconciliationBlocked, Refusal, Verb};
use sandbox::SandboxError;
use store::StoreError;

use crate::commands::is_workable;
use crate::exit::Exit;
use crate::limits;
use crate::nearest::nearest;
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
        SandboxError::Detached { path } => new(Exit::Conflict, "detached")
            .hint(format!(
                "Check out the branch that changes shall land on: git -C {} switch BRANCH",
                path.display()
            ))
            .hint(format!(
                "Or give it a name with its branch: planwright project create NAME --git {} --branch BRANCH",
                path.display()
            )),
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
            "Start over: planwright retry ID --fresh",
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
        SandboxError::WorkedIn { .. } => {
            new(Exit::Conflict, "occupied").hint("Repeat the command once it is done.")
        }
        SandboxError::BadBranchName { .. } => new(Exit::Usage, "bad_branch_name"),
        SandboxError::BranchExists { .. } => {
            new(Exit::Conflict, "branch_exists").hint("Choose another name: --as branch NAME")
        }
        SandboxError::Busy { .. } => new(Exit::Conflict, "busy").hint("Repeat the command."),
        SandboxError::Unsupervised { .. } => new(Exit::Error, "unsupervised"),
        SandboxError::SetUpFailed { .. } => new(Exit::Error, "set_up_failed")
            .hint("It is sandbox.setup in planwright.yaml; the plan waits: planwright retry ID"),
        SandboxError::SetUpStopped { .. } => new(Exit::Interrupted, "stopped"),
        SandboxError::NoSupervisor { .. } => new(Exit::Error, "no_supervisor"),
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

impl CommandError {
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
            if let Some(WayOut::Project(_)) = way_out {
                return self.hint("planwright project list");
            }
            return self;
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

/// What people type for these verbs, most useful first, each once.
pub fn daily_commands(plan: &Plan, verbs: &[Verb], handle: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for verb in verbs {
        let command = daily_command(plan, *verb, handle);
        commands.extend(command.filter(|command| !commands.contains(command)));
    }
    commands
}

/// What people type for a verb, if it is for them.
fn daily_command(plan: &Plan, verb: Verb, handle: &str) -> Option<String> {
    // Whoever works elsewhere works through plumbing.
    let driven_here = is_workable(plan);
    match verb {
        Verb::StartStrategize | Verb::StartExecute | Verb::ExecutePlan if driven_here => {
            Some(format!("planwright run {handle}"))
        }
        Verb::Approve | Verb::ApplyPlan | Verb::StartApply => {
            Some(format!("planwright apply {handle}"))
        }
        // What only the holder can do.
        Verb::CompleteStrategize
        | Verb::CompleteExecute
        | Verb::CompleteApply
        | Verb::PrepareApply
        | Verb::WithdrawApply
        | Verb::Constrain
        | Verb::Renew
        | Verb::Release
        | Verb::Fail
        | Verb::Ask
        | Verb::OpenChangeset
        | Verb::RecordChange
        | Verb::SealChangeset
            if driven_here =>
        {
            Some(format!("planwright wait {handle}"))
        }
        // Sending work back with a word on it is `revise`.
        Verb::Revert => None,
        other => Some(command_for(other, handle)),
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
        Verb::RuleOn => format!("planwright approve {id} --rule RULE"),
        Verb::Reclaim => format!("planwright plumbing reclaim {id}"),
        Verb::Undo => format!("planwright undo {id}"),
        Verb::Use | Verb::RecordBases | Verb::ExpireQuestion | Verb::Reserve | Verb::Settle => {
            format!("planwright status {id}")
        }
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
        way_out: None,
    }
}

fn refused(refusal: &Refusal) -> CommandError {
    let new = |exit, kind: &str| CommandError::new(exit, sentence(&refusal.to_string())).kind(kind);
    match refusal {
        Refusal::NoSuchPlan(_) => new(Exit::NotFound, "no_such_plan").hint("planwright list"),
        Refusal::NoSuchAction(_) => new(Exit::NotFound, "no_such_action").hint("planwright action list"),
        Refusal::NoSuchProject(name) => CommandError {
            way_out: Some(WayOut::Project(name.clone())),
            ..new(Exit::NotFound, "no_such_project")
        },
        Refusal::NoSuchResource { project, .. } => new(Exit::NotFound, "no_such_resource")
            .hint(format!("planwright project show {project}")),
        Refusal::NoSuchRule { .. } => new(Exit::NotFound, "no_such_rule").hint("planwright invariant list"),
        Refusal::NoRuleOnPlan { plan, .. } => new(Exit::NotFound, "no_such_rule")
            .hint(format!("planwright invariant list --effective {plan}")),
        Refusal::NoSuchChangeset { plan, .. } => new(Exit::NotFound, "no_such_changeset")
            .hint(format!("planwright plumbing changesets {plan}")),
        Refusal::VersionMismatch { .. } => new(Exit::Conflict, "version_mismatch")
            .hint("Look at what changed, then repeat with the new --if-version or without one."),
        Refusal::WrongState { verb, helps, .. } => CommandError {
            way_out: Some(WayOut::Instead {
                verb: *verb,
                helps: helps.clone(),
            }),
            ..new(Exit::Conflict, "wrong_state")
        },
        Refusal::Final { .. } => CommandError {
            way_out: Some(WayOut::Ended),
            ..new(Exit::Conflict, "final")
        }
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
            error.way_out = Some(WayOut::Wait);
            error
        }
        Refusal::Fenced { .. } => new(Exit::Conflict, "fenced")
            .hint("Somebody else took over or the work is finished; do not go on with it."),
        Refusal::NotDue { .. } => new(Exit::Conflict, "not_due"),
        Refusal::OverBudget(over) if over.account == AccountName::Global => new(Exit::Conflict, "over_budget")
            .hint(limits::setting(over.means, over.spent, over.limit)),
        Refusal::OverBudget(over) => new(Exit::Conflict, "over_budget")
            .hint(format!("planwright retry ID {}", limits::flag(over.means, over.spent, over.limit))),
        Refusal::LimitTooLow { means, limit, spent } => new(Exit::Conflict, "limit_too_low")
            .hint(format!("planwright retry ID {}", limits::flag(*means, *spent, *limit))),
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
        Refusal::NeedsApproval => new(Exit::NeedsPerson, "needs_approval").hint("planwright apply ID"),
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
