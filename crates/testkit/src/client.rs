//! Somebody who submits commands to a store, the way the engine does.
//!
//! The first half submits and tells what came of it; the second half takes plans to where a test
//! begins, and panics if that fails.

use std::sync::Arc;

use lifecycle::{Subject, reads_for};
use plan::action::ActionDefinition;
use plan::command::NewPlan;
use plan::invariant::{Gate, RuleDraft, Scope};
use plan::judgement::{Judgement, RuleOutcome, RuleVerdict, Targets};
use plan::{
    Caller, Command, Digest, Epoch, Facts, Name, Outcome, Phase, Plan, PlanId, Request, Span,
    Timestamp,
};
use store::{CommitError, Committed, Key, Store, Submission};

use crate::ids::Ids;
use crate::samples;

/// A lease that does not end while a test runs.
pub const LONG: Span = Span::seconds(3600);
/// A lease that has ended when it begins, whatever clock the store has.
pub const OVER: Span = Span::seconds(-60);

/// Somebody at a store.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    caller: Caller,
    moment: Option<Timestamp>,
}

impl Client {
    /// A person at this store.
    pub fn new(store: Arc<dyn Store>, ids: Arc<Ids>) -> Self {
        Self {
            store,
            ids,
            caller: Caller::Person("ada".to_owned()),
            moment: None,
        }
    }

    /// The same place, another person.
    #[must_use]
    pub fn person(&self, name: &str) -> Self {
        Self {
            caller: Caller::Person(name.to_owned()),
            ..self.clone()
        }
    }

    /// The same place, a worker.
    #[must_use]
    pub fn worker(&self, name: &str) -> Self {
        Self {
            caller: Caller::Worker(name.to_owned()),
            ..self.clone()
        }
    }

    /// One whose commands are decided at this moment instead of the store's. How plans get a past,
    /// and extreme times, whatever clock the store has.
    #[must_use]
    pub fn deciding_at(&self, moment: Timestamp) -> Self {
        Self {
            moment: Some(moment),
            ..self.clone()
        }
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Where its ids come from.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The name it goes by.
    pub fn name(&self) -> String {
        match &self.caller {
            Caller::Person(name) | Caller::Worker(name) => name.clone(),
        }
    }

    /// Submits a command that is not about an existing plan.
    pub fn submit(&self, command: Command) -> Result<Committed, CommitError> {
        self.store.commit(self.submission(None, command))
    }

    /// Submits a command about a plan.
    pub fn on(&self, plan: PlanId, command: Command) -> Result<Committed, CommitError> {
        self.store.commit(self.submission(Some(plan), command))
    }

    /// Submits a command under an idempotency key. `arguments` stands for what was asked, without
    /// the ids that are made anew for every try.
    pub fn with_key(
        &self,
        key: &str,
        arguments: &str,
        plan: Option<PlanId>,
        command: Command,
    ) -> Result<Committed, CommitError> {
        let verb = command.verb();
        let scope = match plan {
            Some(plan) => format!("{verb} {plan}"),
            None => verb.to_string(),
        };
        let mut submission = self.submission(plan, command);
        submission.key = Some(Key {
            scope,
            key: key.to_owned(),
            fingerprint: Digest::of(arguments.as_bytes()),
        });
        self.store.commit(submission)
    }

    /// What is handed to the store for a command.
    pub fn submission(&self, plan: Option<PlanId>, command: Command) -> Submission {
        let reads = reads_for(&command, &self.subject_of(plan, &command));
        let request = Request {
            command,
            plan,
            caller: self.caller.clone(),
            if_version: None,
        };
        let moment = self.moment;
        Submission {
            id: self.ids.command(),
            key: None,
            reads,
            decide: Box::new(move |facts, now| {
                let now = moment.unwrap_or(now);
                if relies_on_projects(&request.command) {
                    plan::decide(&with_sample_project(facts), &request, now)
                } else {
                    plan::decide(facts, &request, now)
                }
            }),
        }
    }

    /// What a command is about; frozen, so it may be looked up before.
    fn subject_of(&self, plan: Option<PlanId>, command: &Command) -> Subject {
        let ruled = match command {
            Command::AddRule { scope, .. } | Command::RemoveRule { scope, .. } => match scope {
                Scope::Plan(plan) => Some(*plan),
                Scope::Global
                | Scope::Project(_)
                | Scope::Repository(_)
                | Scope::WorkingTree(_)
                | Scope::Action(_) => None,
            },
            _ => None,
        };
        let plan = plan.or(ruled);
        let stored = plan.and_then(|id| self.store.plan(id).unwrap());
        let subject = stored.map(|row| Subject::of(&row.plan)).unwrap_or_default();
        Subject { plan, ..subject }
    }

    /// What the rules say of a plan as it is stored: a check that reads `true` holds, every other
    /// fails.
    pub fn judge(&self, plan: PlanId, gate: Gate) -> Judgement {
        let snapshot = self.store.snapshot(plan).unwrap().unwrap();
        let verdict = |rule: &plan::invariant::Rule| RuleVerdict {
            rule: rule.reference(),
            outcome: match rule.draft.check.source().as_str() {
                "true" => RuleOutcome::Held,
                other => RuleOutcome::Failed(format!("`{other}` is not true")),
            },
        };
        Judgement {
            version: snapshot.row.plan.version,
            revisions: snapshot.rules.revisions.clone(),
            verdicts: snapshot
                .rules
                .effective_at(gate.judged_with())
                .into_iter()
                .map(verdict)
                .collect(),
            ..Judgement::default()
        }
    }

    /// The command that claims a phase, judged if that is asked for.
    pub fn start(&self, plan: PlanId, phase: Phase, lease: Span) -> Command {
        Command::Start {
            phase,
            owner: self.name(),
            lease,
            judgement: match phase {
                Phase::Strategize => Some(self.judge(plan, Gate::Strategize)),
                Phase::Execute | Phase::Apply => None,
            },
        }
    }
}

/// Taking plans to where a test begins.
impl Client {
    /// A plan as it is stored.
    pub fn plan(&self, id: PlanId) -> Plan {
        self.store.plan(id).unwrap().unwrap().plan
    }

    /// Submits, and insists that it is done.
    #[track_caller]
    pub fn must(&self, plan: PlanId, command: Command) -> Committed {
        done(self.on(plan, command))
    }

    /// A new action.
    #[track_caller]
    pub fn add_action(&self, definition: ActionDefinition) -> Name {
        let name = definition.name.clone();
        done(self.submit(Command::CreateAction(definition)));
        name
    }

    /// A new rule.
    #[track_caller]
    pub fn add_rule(&self, scope: Scope, draft: RuleDraft) {
        done(self.submit(Command::AddRule { scope, draft }));
    }

    /// A new plan.
    #[track_caller]
    pub fn add_plan(&self, new: NewPlan) -> PlanId {
        let id = new.id;
        done(self.submit(Command::Use(new)));
        id
    }

    /// A new plan for a goal: strategize/queued.
    #[track_caller]
    pub fn queued(&self, goal: &str) -> PlanId {
        self.add_plan(samples::goal(self.ids.plan(), goal))
    }

    /// Claims the phase a plan waits in.
    #[track_caller]
    pub fn claim(&self, plan: PlanId, lease: Span) -> Epoch {
        let phase = self.plan(plan).phase();
        let claimed = self.must(plan, self.start(plan, phase, lease));
        claimed.receipt.epoch.unwrap()
    }

    /// A new plan whose strategy is in: strategize/complete.
    #[track_caller]
    pub fn strategized(&self, goal: &str) -> PlanId {
        let plan = self.queued(goal);
        let epoch = self.claim(plan, LONG);
        self.must(
            plan,
            Command::CompleteStrategize {
                epoch,
                decisions: Vec::new(),
            },
        );
        plan
    }

    /// A new plan that is being executed: execute/processing.
    #[track_caller]
    pub fn executing(&self, goal: &str, lease: Span) -> (PlanId, Epoch) {
        let plan = self.strategized(goal);
        let judgement = self.judge(plan, Gate::Execute);
        self.must(plan, Command::ExecutePlan { judgement });
        (plan, self.claim(plan, lease))
    }

    /// A new plan with a result: execute/complete.
    #[track_caller]
    pub fn finished(&self, goal: &str) -> PlanId {
        let (plan, epoch) = self.executing(goal, LONG);
        self.must(
            plan,
            Command::CompleteExecute {
                epoch,
                result: samples::result(goal),
                captured: Vec::new(),
                allow_empty: false,
                judgement: self.judge(plan, Gate::Result),
            },
        );
        plan
    }

    /// A new plan that is being landed: apply/processing.
    #[track_caller]
    pub fn landing(&self, goal: &str) -> (PlanId, Epoch) {
        let plan = self.finished(goal);
        self.must(
            plan,
            Command::Approve {
                how: plan::How::default(),
                targets: Targets::default(),
                once: false,
            },
        );
        let judgement = self.judge(plan, Gate::Apply);
        self.must(plan, Command::ApplyPlan { judgement });
        (plan, self.claim(plan, LONG))
    }

    /// A new plan that landed: apply/applied.
    #[track_caller]
    pub fn landed(&self, goal: &str) -> PlanId {
        let (plan, epoch) = self.landing(goal);
        self.must(
            plan,
            Command::PrepareApply {
                epoch,
                moves: samples::landing(),
                judgement: self.judge(plan, Gate::Apply),
            },
        );
        self.must(
            plan,
            Command::CompleteApply {
                epoch,
                landed: vec![samples::RESOURCE.to_owned()],
                rest: None,
            },
        );
        plan
    }
}

/// Does what is decided depend on the plan's projects being there?
fn relies_on_projects(command: &Command) -> bool {
    matches!(
        command,
        Command::Use(_) | Command::Start { .. } | Command::Undo(_)
    )
}

/// The facts with the project of sample plans, which is there without being stored: most tests are
/// about plans, and begin with an empty store.
fn with_sample_project(facts: &Facts) -> Facts {
    let mut facts = facts.clone();
    let sample = samples::project();
    if facts.projects.iter().all(|known| known.name != sample.name) {
        facts.projects.push(sample);
    }
    facts
}

/// Insists that something was done.
#[track_caller]
pub fn done(answer: Result<Committed, CommitError>) -> Committed {
    let committed = match answer {
        Ok(committed) => committed,
        Err(error) => panic!("this should have been done: {error:?}"),
    };
    assert_eq!(committed.receipt.outcome, Outcome::Done);
    committed
}
