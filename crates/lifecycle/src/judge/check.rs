//! Runs slow rule checks, by command or by an actor, in a clean checkout of the result, supervised and confined.
//!
//! The outcome is stored as evidence. If several processes need the same check, one runs it; the others wait
//! for its lock and then find the evidence. The lock is a file lock, so it ends with its process. A local lock
//! is enough, because a result exists on one host only.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use actors::{
    Actor, AssignedSandbox, Assignment, AssignmentLimits, Report, ReportOutcome, RunProgress, Stop,
    Workplace,
};
use plan::actor::{ActorIsolation, ActorKind, CommandLine};
use plan::invariant::{Rule, RuleCheck, RuleDraft, RuleRef};
use plan::judgement::{PendingVerdictReason, RuleEvidence, RuleOutcome, RuleVerdict};
use plan::ledger::{BudgetAmount, BudgetGrant};
use plan::{ActorDefinition, Digest, Phase, Plan, Span};
use sandbox::{CheckRecord, looks_like_permission_error};

use super::{CheckDepth, GateEvaluation, question};
use crate::meter::UsageMeter;
use crate::{Call, EngineProgress, Lifecycle, LifecycleError, RuleProblem};

const DEFAULT_CHECK_TIMEOUT: Span = Span::from_seconds(600);

const MAX_PARALLEL_CHECKS: usize = 2;

/// How often the lock of a check is tried.
const TURN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often to check whether other plans released budget.
const BUDGET_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The pauses between attempts to store evidence.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

const SHELL_PATH: &str = "/bin/sh";

const MAX_COMMAND_BYTES: usize = 16 * 1024;

type RuleActorFactory = dyn Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync;

/// Parses the rules in a repository's `planwright.yaml`.
type RuleFileParser = fn(&str) -> Result<Vec<RuleDraft>, String>;

/// How rule checks are run. Without it, commands stay open and repository rules are not read.
#[derive(Clone, Default)]
pub struct RuleCheckConfig {
    pub(super) make_actor: Option<Arc<RuleActorFactory>>,
    pub(super) read_rules: Option<RuleFileParser>,
    pub(super) writable: Vec<String>,
    pub(super) readable: Vec<String>,
}

impl RuleCheckConfig {
    /// `make_actor` creates the actor that runs a command; `read_rules` parses a repository's rules.
    pub fn new(
        make_actor: impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + 'static,
        read_rules: RuleFileParser,
    ) -> Self {
        Self {
            make_actor: Some(Arc::new(make_actor)),
            read_rules: Some(read_rules),
            writable: Vec::new(),
            readable: Vec::new(),
        }
    }

    /// Sets the paths that rule commands may write and read in addition to their checkout. Paths may begin with `~/`.
    #[must_use]
    pub fn with_allowed_paths(mut self, writable: Vec<String>, readable: Vec<String>) -> Self {
        self.writable = writable;
        self.readable = readable;
        self
    }
}

impl Lifecycle {
    /// Lets the engine run rule commands and read the rules of repositories.
    #[must_use]
    pub fn with_rule_checks(mut self, config: RuleCheckConfig) -> Self {
        self.rule_checks = config;
        self
    }
}

/// Checks that a command is not empty and can be run.
pub(super) fn check_command_text(command: &str) -> Result<(), RuleProblem> {
    let problem = |why: &str| Err(RuleProblem(why.to_owned()));
    match command {
        blank if blank.trim().is_empty() => problem("the command is empty"),
        long if long.len() > MAX_COMMAND_BYTES => problem("the command is too long"),
        with_nul if with_nul.contains('\0') => problem("the command contains a NUL character"),
        _ => Ok(()),
    }
}

impl GateEvaluation<'_> {
    /// Returns the outcomes of these rules, from stored evidence or by running them.
    pub(super) fn run_checks(&self, rules: &[&Rule]) -> Result<Vec<RuleOutcome>, LifecycleError> {
        let mut outcomes = Vec::new();
        for chunk in rules.chunks(MAX_PARALLEL_CHECKS) {
            let outcomes_of_chunk: Vec<Result<RuleOutcome, LifecycleError>> =
                std::thread::scope(|scope| {
                    let running = chunk
                        .iter()
                        .map(|rule| scope.spawn(|| self.run_check(rule)));
                    let running: Vec<_> = running.collect();
                    let joined = running.into_iter().map(std::thread::ScopedJoinHandle::join);
                    // A check that panicked stays open, so the gate does not pass.
                    let open = |_| Ok(RuleOutcome::Open(PendingVerdictReason::Check));
                    joined.map(|outcome| outcome.unwrap_or_else(open)).collect()
                });
            for outcome in outcomes_of_chunk {
                outcomes.push(outcome?);
            }
        }
        Ok(outcomes)
    }

    fn run_check(&self, rule: &Rule) -> Result<RuleOutcome, LifecycleError> {
        let reference = rule.reference();
        if let Some(known_outcome) =
            find_known_outcome(&self.snapshot.evidence, &reference, self.subject_digest)
            && !self.should_run_again(&known_outcome)
        {
            return Ok(known_outcome);
        }
        let plan = &self.snapshot.row.plan;
        let request = match &rule.draft.check {
            // Without changes there is nothing to check.
            RuleCheck::Command { .. } if self.gate_subject.tree_changes().is_empty() => {
                return Ok(RuleOutcome::Held);
            }
            RuleCheck::Command { command, timeout } => CheckRequest::Command {
                command,
                time: timeout.unwrap_or(DEFAULT_CHECK_TIMEOUT),
            },
            RuleCheck::Ask(text) => {
                let Some(actor) = find_judging_actor(plan) else {
                    return Ok(RuleOutcome::Open(PendingVerdictReason::Person));
                };
                CheckRequest::Actor { actor, text }
            }
            RuleCheck::Expr(_) | RuleCheck::Allow(_) | RuleCheck::Forbid(_) => {
                return Ok(RuleOutcome::Open(PendingVerdictReason::Check));
            }
        };
        let (CheckDepth::RunChecks, Some(make_actor)) =
            (self.depth, &self.lifecycle.rule_checks.make_actor)
        else {
            return Ok(RuleOutcome::Open(PendingVerdictReason::Check));
        };
        // A check dir is temporary, so git may end while it makes one.
        let sandboxes = self.lifecycle.local_host()?.sandboxes.clone();
        let sandboxes = &sandboxes.with_git_stop(Some(&self.stop));
        let check_name = format!("{reference:?} {}", self.subject_digest);
        let check_id = Digest::hash_bytes(check_name.as_bytes());
        let check_dir = loop {
            let locked = sandboxes.checks().lock_check_dir(plan.id(), check_id)?;
            // Read again after locking: another process may have finished the check.
            if let Some(snapshot) = self.lifecycle.store.read_snapshot(plan.id())?
                && let Some(known_outcome) =
                    find_known_outcome(&snapshot.evidence, &reference, self.subject_digest)
                && !self.should_run_again(&known_outcome)
            {
                return Ok(known_outcome);
            }
            match locked {
                Some(check_dir) => break check_dir,
                None if self.stop.wait_for_request(TURN_POLL_INTERVAL) => {
                    return Err(LifecycleError::Stopped);
                }
                None => {}
            }
        };
        let checkouts = self.visit_changed_resources(|sandbox_key, from, to| {
            let sandbox =
                sandboxes
                    .checks()
                    .make_check_checkout(&check_dir, sandbox_key, from, to)?;
            let sandbox_setups = plan.policy().sandbox_setups.iter();
            let mut sandbox_setups =
                sandbox_setups.filter(|one| one.resource == sandbox_key.resource.name);
            let sandbox_setup = sandbox_setups.next();
            let include = sandbox_setup
                .map(|one| one.include.as_slice())
                .unwrap_or_default();
            sandboxes.copy_ignored_files(sandbox_key, &sandbox, include)?;
            let checkout = AssignedSandbox {
                resource: sandbox_key.resource.name.clone(),
                path: sandbox.path,
            };
            let setup_command = sandbox_setup.and_then(|one| one.setup.clone());
            Ok((
                checkout,
                setup_command,
                sandboxes.runs().list_borrowed_objects(sandbox_key)?,
            ))
        })?;
        let mut environment = CheckEnvironment {
            plan,
            rule,
            make_actor: make_actor.as_ref(),
            config: &self.lifecycle.rule_checks,
            stop: &self.stop,
            run_dir: check_dir.path.join("run"),
            readable: Vec::new(),
            sandboxes: Vec::new(),
        };
        let mut setups = Vec::new();
        for (sandbox, setup, readable) in checkouts {
            setups.extend(setup.map(|setup| (setup, sandbox.clone())));
            environment.sandboxes.push(sandbox);
            environment.readable.extend(readable);
        }
        self.lifecycle
            .report_progress(plan, EngineProgress::CheckingRule(rule));
        let started_at = self.lifecycle.store.now()?;
        let (outcome, used) = match request {
            CheckRequest::Command { command, time } => (
                environment.run_command_rule(command, &setups, time),
                BudgetAmount::default(),
            ),
            CheckRequest::Actor { actor, text } => {
                let question = question::format_question(text, &self.read_changes()?);
                let _actor_guard = self
                    .actor_lock
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let Some(grant) = self.wait_for_grant(actor)? else {
                    return Ok(RuleOutcome::Open(PendingVerdictReason::Person));
                };
                environment.ask_actor(actor, question, grant)
            }
        };
        if self.stop.is_requested() {
            // A stopped check has no verdict, but its usage is charged.
            if used != BudgetAmount::default() {
                self.store_evidence(None, used)?;
            }
            return Err(LifecycleError::Stopped);
        }
        let record = CheckRecord {
            rule: rule.draft.name.clone(),
            subject: self.subject_digest,
            began: started_at,
            ended: self.lifecycle.store.now().unwrap_or(started_at),
            outcome: outcome.clone(),
        };
        // Best effort: only `log` shows this record.
        let _ = sandboxes
            .runs()
            .save_check_run(plan.id(), &environment.run_dir, &record);
        let verdict = RuleVerdict {
            rule: reference,
            outcome: outcome.clone(),
        };
        self.store_evidence(Some(&verdict), used)?;
        Ok(outcome)
    }

    /// A check that could not run is tried again: what it lacks may have been installed since.
    fn should_run_again(&self, known_outcome: &RuleOutcome) -> bool {
        let runs_checks = matches!(self.depth, CheckDepth::RunChecks);
        runs_checks && matches!(known_outcome, RuleOutcome::Broken(_))
    }

    /// Returns the budget for a check by an actor, or nothing if it is spent. Waits while the rest is only reserved
    /// by other plans.
    fn wait_for_grant(
        &self,
        actor: &ActorDefinition,
    ) -> Result<Option<BudgetGrant>, LifecycleError> {
        let plan = &self.snapshot.row.plan;
        let metering = actors::metering(actor);
        loop {
            match self.lifecycle.budgets().preview_grant(plan, metering)? {
                Ok(grant) => return Ok(Some(grant)),
                Err(shortfall) if shortfall.is_spent() => return Ok(None),
                Err(_) if self.stop.wait_for_request(BUDGET_POLL_INTERVAL) => {
                    return Err(LifecycleError::Stopped);
                }
                Err(_) => {}
            }
        }
    }

    /// Stores the verdict and charges the usage. Retries while the store is unavailable, because the check may have
    /// cost money.
    fn store_evidence(
        &self,
        verdict: Option<&RuleVerdict>,
        used: BudgetAmount,
    ) -> Result<(), LifecycleError> {
        let plan = &self.snapshot.row.plan;
        // The key makes retries after an unknown commit safe.
        let judge = Call::by(plan::Caller::Worker("judge".to_owned()));
        let call = judge.with_shared_key(format!("judged {}", self.lifecycle.ids.new_command_id()));
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let verdict = verdict.cloned();
            let stored = self.lifecycle.gates().submit_evidence(
                plan,
                self.subject_digest,
                verdict,
                used,
                &call,
            );
            match (stored, delays.next()) {
                (Err(error), Some(delay)) if error.is_store_unavailable() => {
                    std::thread::sleep(delay);
                }
                (stored, _) => return stored,
            }
        }
    }
}

/// How a rule is checked.
enum CheckRequest<'a> {
    Command {
        command: &'a str,
        time: Span,
    },
    Actor {
        actor: &'a ActorDefinition,
        text: &'a str,
    },
}

/// The actor that answers a plan's `ask` rules. Without one, people do.
fn find_judging_actor(plan: &Plan) -> Option<&ActorDefinition> {
    let definition = plan.actor_definition(plan.actors().invariant.as_ref()?)?;
    definition.kind.program_words().map(|_| definition)
}

/// Finds stored evidence, which may also say that only a person can decide.
fn find_known_outcome(
    evidence: &[RuleEvidence],
    rule: &RuleRef,
    subject: Digest,
) -> Option<RuleOutcome> {
    let mut evidence = evidence.iter();
    let found = evidence.find(|one| one.verdict.rule == *rule && one.subject == subject)?;
    let outcome = &found.verdict.outcome;
    let is_known = *outcome != RuleOutcome::Open(PendingVerdictReason::Check);
    is_known.then(|| outcome.clone())
}

/// The checkouts and settings for one check.
struct CheckEnvironment<'a> {
    plan: &'a Plan,
    rule: &'a Rule,
    make_actor: &'a RuleActorFactory,
    config: &'a RuleCheckConfig,
    stop: &'a Stop,
    run_dir: PathBuf,
    readable: Vec<PathBuf>,
    sandboxes: Vec<AssignedSandbox>,
}

impl CheckEnvironment<'_> {
    /// Sets up the checkouts and runs the command. The set-up is confined too, because an agent may have
    /// changed its scripts.
    fn run_command_rule(
        &self,
        command: &str,
        setups: &[(String, AssignedSandbox)],
        time: Span,
    ) -> RuleOutcome {
        for (setup, sandbox) in setups {
            let report = self.run_shell(setup, std::slice::from_ref(sandbox), time);
            match outcome_from_report(report) {
                RuleOutcome::Held => {}
                RuleOutcome::Failed(why) => {
                    return RuleOutcome::Failed(format!("setting up the checkout failed: {why}"));
                }
                RuleOutcome::Broken(why) => {
                    return RuleOutcome::Broken(format!("setting up the checkout: {why}"));
                }
                open @ RuleOutcome::Open(_) => return open,
            }
        }
        outcome_from_report(self.run_shell(command, &self.sandboxes, time))
    }

    /// Asks an actor for a verdict and returns it with the usage. Stops the actor when its budget is exhausted.
    fn ask_actor(
        &self,
        actor: &ActorDefinition,
        question: String,
        grant: BudgetGrant,
    ) -> (RuleOutcome, BudgetAmount) {
        let assignment = Assignment {
            goal: question,
            ..self.build_assignment(&self.sandboxes)
        };
        let stop = Stop::default();
        let meter = UsageMeter::new(grant, stop.clone());
        let report = std::thread::scope(|scope| {
            // Dropping the guard ends the monitoring thread, also after a panic.
            let (_asking_guard, ended) = channel::<()>();
            let (meter, stop) = (&meter, &stop);
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TURN_POLL_INTERVAL) {
                    meter.check_limits();
                    if self.stop.is_requested() {
                        stop.request();
                    }
                }
            });
            let progress = |progress: RunProgress| {
                if let Some(usage) = progress.usage() {
                    meter.record_usage(usage);
                }
            };
            self.run_actor(
                actor,
                &assignment,
                Some(DEFAULT_CHECK_TIMEOUT),
                stop,
                &progress,
            )
        });
        (
            question::parse_verdict(&report),
            meter.total_usage(report.usage),
        )
    }

    fn run_shell(&self, command: &str, sandboxes: &[AssignedSandbox], time: Span) -> Report {
        let words = [SHELL_PATH, "-c", command].map(str::to_owned);
        let line = CommandLine {
            command: words.to_vec(),
            timeout: Some(time),
            isolation: ActorIsolation::WherePossible,
            writable: self.config.writable.clone(),
            readable: self.config.readable.clone(),
            ..CommandLine::default()
        };
        let definition = ActorDefinition {
            name: self.plan.actors().execution.clone(),
            kind: ActorKind::Command(Box::new(line)),
            description: None,
        };
        self.run_actor(
            &definition,
            &self.build_assignment(sandboxes),
            None,
            self.stop,
            &|_| {},
        )
    }

    fn run_actor(
        &self,
        definition: &ActorDefinition,
        assignment: &Assignment,
        time: Option<Span>,
        stop: &Stop,
        progress: &(dyn Fn(RunProgress) + Send + Sync),
    ) -> Report {
        let mut builder = std::fs::DirBuilder::new();
        if let Err(error) = builder.recursive(true).mode(0o700).create(&self.run_dir) {
            return Report::failed(plan::stage::FailureCategory::Resource, error.to_string());
        }
        let workplace = Workplace {
            run_dir: self.run_dir.clone(),
            readable_paths: self.readable.clone(),
            lock_files: Vec::new(),
            time_limit: time.map(Span::as_duration),
            strategy_wanted: false,
            profile: self.plan.profile(),
            stop: stop.clone(),
            ask_person: None,
            record_decision: None,
            on_progress: progress,
        };
        (self.make_actor)(definition).work(assignment, &workplace)
    }

    fn build_assignment(&self, sandboxes: &[AssignedSandbox]) -> Assignment {
        Assignment {
            plan: self.plan.id(),
            phase: Phase::Execute,
            attempt: self.plan.attempt(),
            run_key: format!("{}-rule-{}", self.plan.id(), self.rule.draft.name),
            goal: format!("Does rule {} hold?", self.rule.draft.name),
            description: None,
            arguments: self.plan.arguments().clone(),
            read_only: true,
            sandboxes: sandboxes.to_vec(),
            rules: Vec::new(),
            strategy: Vec::new(),
            feedback: Vec::new(),
            revises: false,
            dropped: Vec::new(),
            taken_out: Vec::new(),
            conflicts: Vec::new(),
            answers: Vec::new(),
            findings: Vec::new(),
            limits: AssignmentLimits::default(),
            earlier: None,
        }
    }
}

const DENIED_ACCESS_HINT: &str = "\nRule commands are confined: they can write only to their checkout and a temporary directory. If this one was \
                            denied access, allow the path: planwright config set sandbox.writable PATHS (or sandbox.readable)";

/// Exit code of a shell that found a program but could not execute it.
const NOT_EXECUTABLE: i32 = 126;

/// Exit code of a shell that did not find a program, or not the interpreter in its first line.
const NOT_FOUND: i32 = 127;

/// Says that a command cannot run, which program is missing, and what helps.
fn explain_broken_command(message: &str) -> String {
    let remedy = "Install it or correct the rule; sending the result back would not help.";
    match find_missing_program(message) {
        Some(program) => {
            format!(
                "the command cannot run, because `{program}` is missing or not executable. {remedy}\n{message}"
            )
        }
        None => {
            format!("the command cannot run, because a program is missing. {remedy}\n{message}")
        }
    }
}

/// Finds the program that a shell or `env` complains about last.
fn find_missing_program(message: &str) -> Option<String> {
    const COMPLAINTS: [&str; 4] = [
        "not found",
        "command not found",
        "No such file or directory",
        "Permission denied",
    ];
    message.lines().rev().find_map(|line| {
        let complaint = COMPLAINTS
            .into_iter()
            .find_map(|complaint| line.trim_end().strip_suffix(complaint));
        let before = complaint?.strip_suffix(": ")?;
        let (_, program) = before.rsplit_once(": ").unwrap_or(("", before));
        let program = program.trim_matches(|letter| "`'\"\u{2018}\u{2019}".contains(letter));
        (!program.is_empty()).then(|| program.to_owned())
    })
}

/// A rule holds only if its command ended without an error.
fn outcome_from_report(report: Report) -> RuleOutcome {
    let exit_code = report.exit_code;
    match report.outcome {
        ReportOutcome::Done => RuleOutcome::Held,
        ReportOutcome::Failed { message, .. } => {
            // The shell is an implementation detail: the message is about the rule's command.
            let rule_message = message
                .strip_prefix(SHELL_PATH)
                .map(|rest| format!("it{rest}"));
            let mut rule_message = rule_message.unwrap_or(message);
            if looks_like_permission_error(&rule_message)
                && sandbox::detect_isolation().confines_files()
            {
                rule_message.push_str(DENIED_ACCESS_HINT);
            }
            match exit_code {
                Some(NOT_EXECUTABLE | NOT_FOUND) => {
                    RuleOutcome::Broken(explain_broken_command(&rule_message))
                }
                Some(_) | None => RuleOutcome::Failed(rule_message),
            }
        }
        ReportOutcome::NeedsAnswer { question, .. } => RuleOutcome::Failed(format!(
            "the command asked a question instead of passing or failing: {question}"
        )),
        ReportOutcome::Stopped => RuleOutcome::Failed("the command was stopped".to_owned()),
    }
}
