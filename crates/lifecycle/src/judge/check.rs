//! Rules by command, and rules that ask where an actor is to answer: run in a clean checkout of the result,
//! supervised and confined.
//!
//! What was said of a subject is kept as evidence. Of many who want to know at the same time, one
//! runs it: the others wait for their turn, and find the evidence. The turn is a lock of the system's,
//! which ends with whoever holds it; a result is on one host, and so are all who could run a command on it.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use actors::{
    Actor, Assignment, LimitsTold, Outcome, Progress, Report, SandboxTold, Stop, Workplace,
};
use plan::actor::{ActorKind, CommandLine, Isolation};
use plan::invariant::{Check, Rule, RuleDraft, RuleRef};
use plan::judgement::{Evidence, RuleOutcome, RuleVerdict, Waits};
use plan::ledger::{Amount, Grant};
use plan::{ActorDefinition, Digest, Phase, Plan, Span};
use sandbox::{CheckRecord, sounds_denied};

use super::{Case, Depth, inquiry};
use crate::meter::Meter;
use crate::{Aside, Call, Error, ExprProblem, Lifecycle};

/// How long a command may take if its rule does not say.
const USUAL_TIME: Span = Span::seconds(600);

/// How many commands run at the same time.
const AT_ONCE: usize = 2;

/// How often it is looked whether it is one's turn.
const TURN: Duration = Duration::from_millis(100);

/// How often it is looked whether others left something to judge with.
const MEANS: Duration = Duration::from_secs(1);

/// How long is waited for a store that is away, try by try.
const AWAY: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(16),
];

/// What runs commands as they would be typed.
const SHELL: &str = "/bin/sh";

/// Longest command.
const LONGEST: usize = 16 * 1024;

/// Makes an actor of a definition.
type Hire = dyn Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync;

/// Reads the rules out of a repository's file.
type ReadRules = fn(&str) -> Result<Vec<RuleDraft>, String>;

/// What judging needs of the program it is part of.
#[derive(Clone, Default)]
pub struct Inspectors {
    pub(super) hire: Option<Arc<Hire>>,
    pub(super) read_rules: Option<ReadRules>,
    pub(super) writable: Vec<String>,
    pub(super) readable: Vec<String>,
}

impl Inspectors {
    /// Whoever runs commands, and whoever reads the rules of repositories.
    pub fn new(
        hire: impl Fn(&ActorDefinition) -> Arc<dyn Actor> + Send + Sync + 'static,
        read_rules: ReadRules,
    ) -> Self {
        Self {
            hire: Some(Arc::new(hire)),
            read_rules: Some(read_rules),
            writable: Vec::new(),
            readable: Vec::new(),
        }
    }

    /// With what the person lets commands of rules write and read besides their checkout; paths may begin with `~/`.
    #[must_use]
    pub fn with_reach(mut self, writable: Vec<String>, readable: Vec<String>) -> Self {
        self.writable = writable;
        self.readable = readable;
        self
    }
}

impl Lifecycle {
    /// The engine with inspectors: it runs the commands of rules, and heeds the rules of repositories.
    #[must_use]
    pub fn with_inspectors(mut self, inspectors: Inspectors) -> Self {
        self.inspectors = inspectors;
        self
    }
}

/// Is there anything to run?
pub(super) fn readable(command: &str) -> Result<(), ExprProblem> {
    let problem = |why: &str| Err(ExprProblem(why.to_owned()));
    match command {
        blank if blank.trim().is_empty() => problem("its command is empty"),
        long if long.len() > LONGEST => problem("its command is too long"),
        odd if odd.contains('\0') => problem("its command has a NUL character in it"),
        _ => Ok(()),
    }
}

impl Case<'_> {
    /// What these rules by command say: as somebody found before, or by running them now.
    pub(super) fn check_all(&self, rules: &[&Rule]) -> Result<Vec<RuleOutcome>, Error> {
        let mut outcomes = Vec::new();
        for some in rules.chunks(AT_ONCE) {
            let said: Vec<Result<RuleOutcome, Error>> = std::thread::scope(|scope| {
                let asked = some.iter().map(|rule| scope.spawn(|| self.checked(rule)));
                let asked: Vec<_> = asked.collect();
                let heard = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
                let open = |_| Ok(RuleOutcome::Open(Waits::Check));
                heard.map(|said| said.unwrap_or_else(open)).collect()
            });
            for outcome in said {
                outcomes.push(outcome?);
            }
        }
        Ok(outcomes)
    }

    fn checked(&self, rule: &Rule) -> Result<RuleOutcome, Error> {
        let reference = rule.reference();
        if let Some(known) = known(&self.snapshot.evidence, &reference, self.subject) {
            return Ok(known);
        }
        let plan = &self.snapshot.row.plan;
        let asked = match &rule.draft.check {
            // What changes nothing breaks nothing.
            Check::Command { .. } if self.matter.steps().is_empty() => {
                return Ok(RuleOutcome::Held);
            }
            Check::Command { command, timeout } => Asked::Command {
                command,
                time: timeout.unwrap_or(USUAL_TIME),
            },
            Check::Ask(text) => {
                let Some(actor) = judge_of(plan) else {
                    return Ok(RuleOutcome::Open(Waits::Person));
                };
                Asked::Actor { actor, text }
            }
            Check::Expr(_) | Check::Allow(_) | Check::Forbid(_) => {
                return Ok(RuleOutcome::Open(Waits::Check));
            }
        };
        let (Depth::Check, Some(hire)) = (self.depth, &self.lifecycle.inspectors.hire) else {
            return Ok(RuleOutcome::Open(Waits::Check));
        };
        let workshop = &self.lifecycle.hands()?.workshop;
        let what = format!("{reference:?} {}", self.subject);
        let what = Digest::of(what.as_bytes());
        let trial = loop {
            let trial = workshop.begin_trial(plan.id, what)?;
            // Somebody else may have had their turn before.
            if let Some(snapshot) = self.lifecycle.store.snapshot(plan.id)?
                && let Some(known) = known(&snapshot.evidence, &reference, self.subject)
            {
                return Ok(known);
            }
            match trial {
                Some(trial) => break trial,
                None if self.stop.wait(TURN) => return Err(Error::Stopped),
                None => {}
            }
        };
        let laid_out = self.look_at_each(|room, from, to| {
            let sandbox = workshop.lay_out_trial(&trial, room, from, to)?;
            let wanted = plan.ways.furnishings.iter();
            let mut wanted = wanted.filter(|one| one.resource == room.site.name);
            let wanted = wanted.next();
            let include = wanted.map(|one| one.include.as_slice()).unwrap_or_default();
            workshop.furnish(room, &sandbox, include)?;
            let told = SandboxTold {
                resource: room.site.name.clone(),
                path: sandbox.path,
            };
            let setup = wanted.and_then(|one| one.setup.clone());
            Ok((told, setup, workshop.borrowed(room)?))
        })?;
        let mut bench = Bench {
            plan,
            rule,
            hire: hire.as_ref(),
            inspectors: &self.lifecycle.inspectors,
            stop: &self.stop,
            run: trial.path.join("run"),
            readable: Vec::new(),
            sandboxes: Vec::new(),
        };
        let mut setups = Vec::new();
        for (sandbox, setup, readable) in laid_out {
            setups.extend(setup.map(|setup| (setup, sandbox.clone())));
            bench.sandboxes.push(sandbox);
            bench.readable.extend(readable);
        }
        self.lifecycle.tell(plan, Aside::Checks(rule));
        let began = self.lifecycle.store.now()?;
        let (outcome, used) = match asked {
            Asked::Command { command, time } => {
                (bench.judge(command, &setups, time), Amount::default())
            }
            Asked::Actor { actor, text } => {
                let question = inquiry::question(text, &self.changes()?);
                let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(grant) = self.means_of(actor)? else {
                    return Ok(RuleOutcome::Open(Waits::Person));
                };
                bench.inquire(actor, question, grant)
            }
        };
        if self.stop.is_asked() {
            // What was cut short says nothing of the result, and took what it took.
            if used != Amount::default() {
                self.keep(None, used)?;
            }
            return Err(Error::Stopped);
        }
        let record = CheckRecord {
            rule: rule.draft.name.clone(),
            subject: self.subject,
            began,
            ended: self.lifecycle.store.now().unwrap_or(began),
            outcome: outcome.clone(),
        };
        // What cannot be kept is missed in `log`, and nowhere else.
        let _ = workshop.keep_check(plan.id, &bench.run, &record);
        let verdict = RuleVerdict {
            rule: reference,
            outcome: outcome.clone(),
        };
        self.keep(Some(&verdict), used)?;
        Ok(outcome)
    }

    /// What an actor may use to judge with; nothing if nothing is left. What is only set aside for others is waited
    /// for.
    fn means_of(&self, actor: &ActorDefinition) -> Result<Option<Grant>, Error> {
        let plan = &self.snapshot.row.plan;
        let metering = actors::metering(actor);
        loop {
            match self.lifecycle.in_prospect(plan, metering)? {
                Ok(grant) => return Ok(Some(grant)),
                Err(over) if over.is_spent() => return Ok(None),
                Err(_) if self.stop.wait(MEANS) => return Err(Error::Stopped),
                Err(_) => {}
            }
        }
    }

    /// Keeps what was said, and charges what that took. It was paid for: a store that is away for a moment is waited
    /// for.
    fn keep(&self, said: Option<&RuleVerdict>, used: Amount) -> Result<(), Error> {
        let plan = &self.snapshot.row.plan;
        let judge = Call::by(plan::Caller::Worker("judge".to_owned()));
        let call = judge.with_key(format!("judged {}", self.lifecycle.ids.command()));
        let mut patience = AWAY.into_iter();
        loop {
            let said = said.cloned();
            let kept = self
                .lifecycle
                .keep_evidence(plan, self.subject, said, used, &call);
            match (kept, patience.next()) {
                (Err(error), Some(pause)) if error.is_of_a_store_that_is_away() => {
                    std::thread::sleep(pause);
                }
                (kept, _) => return kept,
            }
        }
    }
}

/// Who or what is asked.
enum Asked<'a> {
    Command {
        command: &'a str,
        time: Span,
    },
    Actor {
        actor: &'a ActorDefinition,
        text: &'a str,
    },
}

/// Who judges by a plan's rules that ask, if it is not people.
fn judge_of(plan: &Plan) -> Option<&ActorDefinition> {
    let definition = plan.definition(plan.actors.invariant.as_ref()?)?;
    matches!(definition.kind, ActorKind::Command(_)).then_some(definition)
}

/// What is known of a rule and a subject: also that nobody but a person can tell.
fn known(evidence: &[Evidence], rule: &RuleRef, subject: Digest) -> Option<RuleOutcome> {
    let mut evidence = evidence.iter();
    let found = evidence.find(|one| one.verdict.rule == *rule && one.subject == subject)?;
    match &found.verdict.outcome {
        RuleOutcome::Open(Waits::Check) => None,
        outcome => Some(outcome.clone()),
    }
}

/// Where one rule is asked.
struct Bench<'a> {
    plan: &'a Plan,
    rule: &'a Rule,
    hire: &'a Hire,
    inspectors: &'a Inspectors,
    stop: &'a Stop,
    run: PathBuf,
    readable: Vec<PathBuf>,
    sandboxes: Vec<SandboxTold>,
}

impl Bench<'_> {
    /// What the command says, once the checkouts are set up. That too is done in here: what an agent wrote
    /// into a set-up script gets no further than the agent did.
    fn judge(&self, command: &str, setups: &[(String, SandboxTold)], time: Span) -> RuleOutcome {
        for (setup, sandbox) in setups {
            let report = self.start(setup, std::slice::from_ref(sandbox), time);
            if let RuleOutcome::Failed(why) = said_by(report) {
                return RuleOutcome::Failed(format!("its checkout could not be set up: {why}"));
            }
        }
        said_by(self.start(command, &self.sandboxes, time))
    }

    /// What an actor says when it is asked, and what that took. It is stopped when nothing is left of what it
    /// may use.
    fn inquire(
        &self,
        actor: &ActorDefinition,
        question: String,
        grant: Grant,
    ) -> (RuleOutcome, Amount) {
        let assignment = Assignment {
            goal: question,
            ..self.assignment(&self.sandboxes)
        };
        let stop = Stop::default();
        let meter = Meter::new(grant, stop.clone());
        let report = std::thread::scope(|scope| {
            // Ends with whoever holds the other side, also if that panics.
            let (_asking, ended) = channel::<()>();
            let (meter, stop) = (&meter, &stop);
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(TURN) {
                    meter.look();
                    if self.stop.is_asked() {
                        stop.ask();
                    }
                }
            });
            let progress = |progress: Progress| {
                if let Progress::Used(usage) = progress {
                    meter.tell(usage);
                }
            };
            self.hire(actor, &assignment, Some(USUAL_TIME), stop, &progress)
        });
        (inquiry::verdict(&report), meter.used(report.usage))
    }

    fn start(&self, command: &str, sandboxes: &[SandboxTold], time: Span) -> Report {
        let words = [SHELL, "-c", command].map(str::to_owned);
        let line = CommandLine {
            command: words.to_vec(),
            timeout: Some(time),
            isolation: Isolation::WherePossible,
            writable: self.inspectors.writable.clone(),
            readable: self.inspectors.readable.clone(),
            ..CommandLine::default()
        };
        let definition = ActorDefinition {
            name: self.plan.actors.execution.clone(),
            kind: ActorKind::Command(Box::new(line)),
            description: None,
        };
        self.hire(
            &definition,
            &self.assignment(sandboxes),
            None,
            self.stop,
            &|_| {},
        )
    }

    fn hire(
        &self,
        definition: &ActorDefinition,
        assignment: &Assignment,
        time: Option<Span>,
        stop: &Stop,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Report {
        let mut builder = std::fs::DirBuilder::new();
        if let Err(error) = builder.recursive(true).mode(0o700).create(&self.run) {
            return Report::failed(plan::stage::Category::Resource, error.to_string());
        }
        let workplace = Workplace {
            run: self.run.clone(),
            readable: self.readable.clone(),
            locks: Vec::new(),
            time: time.map(Span::as_duration),
            strategy_wanted: false,
            stop: stop.clone(),
            progress,
        };
        (self.hire)(definition).work(assignment, &workplace)
    }

    fn assignment(&self, sandboxes: &[SandboxTold]) -> Assignment {
        Assignment {
            plan: self.plan.id,
            phase: Phase::Execute,
            attempt: self.plan.attempt,
            run_key: format!("{}-rule-{}", self.plan.id, self.rule.draft.name),
            goal: format!("Does rule {} hold?", self.rule.draft.name),
            description: None,
            arguments: self.plan.arguments.clone(),
            read_only: true,
            sandboxes: sandboxes.to_vec(),
            rules: Vec::new(),
            strategy: Vec::new(),
            feedback: Vec::new(),
            revises: false,
            dropped: Vec::new(),
            conflicts: Vec::new(),
            answers: Vec::new(),
            findings: Vec::new(),
            limits: LimitsTold::default(),
            earlier: None,
        }
    }
}

/// What a person can do about a command that was kept from something.
const HINT_TO_OPEN: &str = "\nCommands of rules run confined: they write their checkout and a temporary directory. If this one was \
                            denied access, allow the path: planwright config set sandbox.writable PATHS (or sandbox.readable)";

/// Only an end without an error is a pass, whatever else was reported.
fn said_by(report: Report) -> RuleOutcome {
    match report.outcome {
        Outcome::Done => RuleOutcome::Held,
        Outcome::Failed { message, .. } => {
            // The shell is ours; what is told is how the rule's own command ended.
            let own = message.strip_prefix(SHELL).map(|end| format!("it{end}"));
            let mut own = own.unwrap_or(message);
            if sounds_denied(&own) && sandbox::offered().confines_files() {
                own.push_str(HINT_TO_OPEN);
            }
            RuleOutcome::Failed(own)
        }
        Outcome::Asks { question, .. } => {
            RuleOutcome::Failed(format!("it asks instead of judging: {question}"))
        }
        Outcome::Stopped => RuleOutcome::Failed("it was stopped".to_owned()),
    }
}
