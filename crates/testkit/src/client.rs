//! A client that submits commands to a store, as the engine does.
//!
//! The first part submits commands and returns the answers. The second part creates plans in a
//! given state and panics if that fails.

use std::sync::Arc;

use plan::action::ActionDefinition;
use plan::command::NewPlan;
use plan::command::{
    AddRule, ApplyPlan, ApproveResult, ClaimPhase, CompleteApply, CompleteExecute,
    CompleteStrategize, CreateAction, CreatePlan, ExecutePlan, PrepareApply, RemoveRule,
};
use plan::invariant::{Gate, RuleDraft, RuleScope};
use plan::judgement::{GateJudgement, PlanTargets, RuleOutcome, RuleVerdict};
use plan::reads::CommandTarget;
use plan::{
    Caller, Command, DecisionFacts, DecisionRequest, Digest, Epoch, Phase, Plan, PlanId,
    QualifiedName, ReceiptOutcome, Span, Timestamp,
};
use store::{CommitError, CommitOutcome, IdempotencyKey, Store, Submission};

use crate::ids::TestIds;
use crate::samples;

/// A lease that outlasts every test.
pub const LONG_LEASE: Span = Span::from_seconds(3600);
/// A lease that has expired when it begins, on any clock.
pub const EXPIRED_LEASE: Span = Span::from_seconds(-60);

#[derive(Clone)]
pub struct TestClient {
    store: Arc<dyn Store>,
    ids: Arc<TestIds>,
    caller: Caller,
    decision_time: Option<Timestamp>,
}

impl TestClient {
    /// Creates a client for a person.
    pub fn new(store: Arc<dyn Store>, ids: Arc<TestIds>) -> Self {
        Self {
            store,
            ids,
            caller: Caller::Person("ada".to_owned()),
            decision_time: None,
        }
    }

    /// Returns a client of the same store for another person.
    #[must_use]
    pub fn as_person(&self, name: &str) -> Self {
        Self {
            caller: Caller::Person(name.to_owned()),
            ..self.clone()
        }
    }

    /// Returns a client of the same store for a worker.
    #[must_use]
    pub fn as_worker(&self, name: &str) -> Self {
        Self {
            caller: Caller::Worker(name.to_owned()),
            ..self.clone()
        }
    }

    /// Returns a client of the same store for an agent.
    #[must_use]
    pub fn as_agent(&self, name: &str) -> Self {
        Self {
            caller: Caller::Agent(name.to_owned()),
            ..self.clone()
        }
    }

    /// Returns a client whose commands are decided at this time instead of the store's. Gives plans
    /// a past, and extreme times, on any store's clock.
    #[must_use]
    pub fn with_decision_time(&self, decision_time: Timestamp) -> Self {
        Self {
            decision_time: Some(decision_time),
            ..self.clone()
        }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    pub fn ids(&self) -> &TestIds {
        &self.ids
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The caller's name.
    pub fn caller_name(&self) -> String {
        self.caller.name().to_owned()
    }

    /// Submits a command that does not concern an existing plan.
    pub fn submit(&self, command: Command) -> Result<CommitOutcome, CommitError> {
        self.store.commit(self.build_submission(None, command))
    }

    /// Submits a command for a plan.
    pub fn submit_for_plan(
        &self,
        plan_id: PlanId,
        command: Command,
    ) -> Result<CommitOutcome, CommitError> {
        self.store
            .commit(self.build_submission(Some(plan_id), command))
    }

    /// Submits a command under an idempotency key. `arguments` identifies the request, without the
    /// ids that differ between attempts.
    pub fn submit_with_key(
        &self,
        key: &str,
        arguments: &str,
        plan_id: Option<PlanId>,
        command: Command,
    ) -> Result<CommitOutcome, CommitError> {
        let verb = command.verb();
        let scope = match plan_id {
            Some(plan) => format!("{verb} {plan}"),
            None => verb.to_string(),
        };
        let mut submission = self.build_submission(plan_id, command);
        submission.key = Some(IdempotencyKey {
            scope,
            key: key.to_owned(),
            fingerprint: Digest::hash_bytes(arguments.as_bytes()),
        });
        self.store.commit(submission)
    }

    /// Builds the submission for a command.
    pub fn build_submission(&self, plan_id: Option<PlanId>, command: Command) -> Submission {
        let reads = command.reads(&self.resolve_target(plan_id, &command));
        let request = DecisionRequest {
            command,
            plan_id,
            caller: self.caller.clone(),
            if_version: None,
        };
        let decision_time = self.decision_time;
        Submission {
            id: self.ids.next_command_id(),
            key: None,
            reads,
            decide: Box::new(move |facts, now| {
                let now = decision_time.unwrap_or(now);
                if relies_on_projects(&request.command) {
                    plan::decide(&with_sample_project(facts), &request, now)
                } else {
                    plan::decide(facts, &request, now)
                }
            }),
        }
    }

    /// Looks up what a command needs before its decision. Only reads frozen fields, so that is
    /// safe.
    fn resolve_target(&self, plan_id: Option<PlanId>, command: &Command) -> CommandTarget {
        let rule_plan_id = match command {
            Command::AddRule(AddRule { scope, .. })
            | Command::RemoveRule(RemoveRule { scope, .. }) => match scope {
                RuleScope::Plan(plan) => Some(*plan),
                RuleScope::Global
                | RuleScope::Project(_)
                | RuleScope::Repository(_)
                | RuleScope::WorkingTree(_)
                | RuleScope::Action(_) => None,
            },
            _ => None,
        };
        let plan_id = plan_id.or(rule_plan_id);
        let stored = plan_id.and_then(|id| self.store.read_plan(id).unwrap());
        let subject = stored
            .map(|row| CommandTarget::for_plan(&row.plan))
            .unwrap_or_default();
        CommandTarget { plan_id, ..subject }
    }

    /// Evaluates the rules of a stored plan: an expression `true` holds, every other fails.
    pub fn judge_rules(&self, plan_id: PlanId, gate: Gate) -> GateJudgement {
        let snapshot = self.store.read_snapshot(plan_id).unwrap().unwrap();
        let verdict = |rule: &plan::invariant::Rule| RuleVerdict {
            rule: rule.reference(),
            outcome: match rule.draft.check.source().as_str() {
                "true" => RuleOutcome::Held,
                other => RuleOutcome::Failed(format!("`{other}` is not true")),
            },
        };
        GateJudgement {
            version: snapshot.row.plan.version(),
            revisions: snapshot.rules.revisions.clone(),
            verdicts: snapshot
                .rules
                .effective_rules_at(gate.judged_gates())
                .into_iter()
                .map(verdict)
                .collect(),
            ..GateJudgement::default()
        }
    }

    /// Builds the command that claims a phase, with a judgement if the plan needs one.
    pub fn start_command(&self, plan_id: PlanId, phase: Phase, lease: Span) -> Command {
        Command::from(ClaimPhase {
            phase,
            owner: self.caller_name(),
            lease,
            judgement: match phase {
                Phase::Strategize => Some(self.judge_rules(plan_id, Gate::Strategize)),
                Phase::Execute | Phase::Apply => None,
            },
        })
    }
}

/// Creates plans in a given state.
impl TestClient {
    pub fn load_plan(&self, plan_id: PlanId) -> Plan {
        self.store.read_plan(plan_id).unwrap().unwrap().plan
    }

    /// Submits a command and panics unless it succeeds.
    #[track_caller]
    pub fn must_submit(&self, plan_id: PlanId, command: Command) -> CommitOutcome {
        expect_done(self.submit_for_plan(plan_id, command))
    }

    #[track_caller]
    pub fn add_action(&self, definition: ActionDefinition) -> QualifiedName {
        let name = definition.name.clone();
        expect_done(self.submit(Command::from(CreateAction(definition))));
        name
    }

    #[track_caller]
    pub fn add_rule(&self, scope: RuleScope, draft: RuleDraft) {
        expect_done(self.submit(Command::from(AddRule { scope, draft })));
    }

    #[track_caller]
    pub fn add_plan(&self, new_plan: NewPlan) -> PlanId {
        let plan_id = new_plan.id;
        expect_done(self.submit(Command::from(CreatePlan(new_plan))));
        plan_id
    }

    /// Creates a plan in strategize/queued.
    #[track_caller]
    pub fn create_queued_plan(&self, goal: &str) -> PlanId {
        self.add_plan(samples::plan_for_goal(self.ids.next_plan_id(), goal))
    }

    /// Claims the phase a plan waits in.
    #[track_caller]
    pub fn claim_phase(&self, plan_id: PlanId, lease: Span) -> Epoch {
        let phase = self.load_plan(plan_id).phase();
        let committed = self.must_submit(plan_id, self.start_command(plan_id, phase, lease));
        committed.receipt.epoch.unwrap()
    }

    /// Creates a plan in strategize/complete.
    #[track_caller]
    pub fn create_strategized_plan(&self, goal: &str) -> PlanId {
        let plan_id = self.create_queued_plan(goal);
        let epoch = self.claim_phase(plan_id, LONG_LEASE);
        self.must_submit(
            plan_id,
            Command::from(CompleteStrategize {
                epoch,
                decisions: Vec::new(),
            }),
        );
        plan_id
    }

    /// Creates a plan in execute/processing.
    #[track_caller]
    pub fn create_executing_plan(&self, goal: &str, lease: Span) -> (PlanId, Epoch) {
        let plan_id = self.create_strategized_plan(goal);
        let judgement = self.judge_rules(plan_id, Gate::Execute);
        self.must_submit(plan_id, Command::from(ExecutePlan { judgement }));
        (plan_id, self.claim_phase(plan_id, lease))
    }

    /// Creates a plan in execute/complete.
    #[track_caller]
    pub fn create_executed_plan(&self, goal: &str) -> PlanId {
        let (plan_id, epoch) = self.create_executing_plan(goal, LONG_LEASE);
        self.must_submit(
            plan_id,
            Command::from(CompleteExecute {
                epoch,
                result: samples::result_content(goal),
                captured: Vec::new(),
                allow_empty: false,
                judgement: self.judge_rules(plan_id, Gate::Result),
            }),
        );
        plan_id
    }

    /// Creates a plan in apply/processing.
    #[track_caller]
    pub fn create_landing_plan(&self, goal: &str) -> (PlanId, Epoch) {
        let plan_id = self.create_executed_plan(goal);
        self.must_submit(
            plan_id,
            Command::from(ApproveResult {
                options: plan::LandingOptions::default(),
                targets: PlanTargets::default(),
                once: false,
                lands: false,
            }),
        );
        let judgement = self.judge_rules(plan_id, Gate::Apply);
        self.must_submit(plan_id, Command::from(ApplyPlan { judgement }));
        (plan_id, self.claim_phase(plan_id, LONG_LEASE))
    }

    /// Creates a plan in apply/applied.
    #[track_caller]
    pub fn create_landed_plan(&self, goal: &str) -> PlanId {
        let (plan_id, epoch) = self.create_landing_plan(goal);
        self.must_submit(
            plan_id,
            Command::from(PrepareApply {
                epoch,
                moves: samples::landing_moves(),
                judgement: self.judge_rules(plan_id, Gate::Apply),
            }),
        );
        self.must_submit(
            plan_id,
            Command::from(CompleteApply {
                epoch,
                landed: vec![samples::RESOURCE_NAME.to_owned()],
                rest: None,
            }),
        );
        plan_id
    }
}

/// Checks whether the decision requires the plan's projects to exist.
fn relies_on_projects(command: &Command) -> bool {
    matches!(
        command,
        Command::CreatePlan(_) | Command::ClaimPhase(_) | Command::UndoLanding(_)
    )
}

/// Adds the project of sample plans to the facts, as if it were stored. Most tests concern plans
/// and start with an empty store.
fn with_sample_project(facts: &DecisionFacts) -> DecisionFacts {
    let mut facts = facts.clone();
    let sample = samples::sample_project();
    if facts.projects.iter().all(|known| known.name != sample.name) {
        facts.projects.push(sample);
    }
    facts
}

/// Returns the outcome; panics with the error.
#[track_caller]
pub fn expect_done(answer: Result<CommitOutcome, CommitError>) -> CommitOutcome {
    let committed = match answer {
        Ok(committed) => committed,
        Err(error) => panic!("the command failed: {error:?}"),
    };
    assert_eq!(committed.receipt.outcome, ReceiptOutcome::Done);
    committed
}
