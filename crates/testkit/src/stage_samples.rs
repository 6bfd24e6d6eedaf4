//! Plans in every stage, reached by real commands: what can be done with a plan is tested on all of them.

use plan::actor::{ActorKind, CommandLine};
use plan::changeset::TreePath;
use plan::command::{
    ApplyPlan, AskPermission, AskPerson, CancelPlan, CompleteApply, CompleteExecute,
    CompleteStrategize, ConstrainApply, ExecutePlan, FailRun, NewPlan, PrepareApply, ReleaseLease,
    ReserveBudget, SettleUsage,
};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::judgement::{GateJudgement, PendingVerdictReason, RuleOutcome};
use plan::ledger::{BudgetAmount, GlobalBudget, MeteringLevel};
use plan::plan::{PlanLimits, ProfileSource};
use plan::stage::{ConstraintKind, FailureCategory, ResultContent};
use plan::{ActorDefinition, Command, Epoch, Money, Phase, PlanId, Profile, Span};

use crate::TestClient;
use crate::client::{EXPIRED_LEASE, LONG_LEASE};
use crate::samples;

/// The terms of a sample plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleTerms {
    pub profile: Profile,
    /// The plan lands on the sample resource; otherwise it has none.
    pub has_targets: bool,
    /// The plan knows how its agent is started.
    pub has_agent: bool,
}

impl SampleTerms {
    /// Every combination.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for profile in Profile::ALL {
            for has_targets in [true, false] {
                for has_agent in [true, false] {
                    all.push(Self {
                        profile,
                        has_targets,
                        has_agent,
                    });
                }
            }
        }
        all
    }
}

macro_rules! stage_samples {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A stage, with the details that change what can be done next.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum StageSample { $($(#[$doc])* $name),* }

        impl StageSample {
            /// In the order of a plan's life.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

stage_samples!(
    StrategizeQueued,
    StrategizeProcessing,
    StrategizeInterrupted,
    StrategizeAwaitingInput,
    StrategizeComplete,
    StrategizeErrored,
    StrategizeCancelled,
    ExecuteQueued,
    ExecuteProcessing,
    ExecuteInterrupted,
    /// Its agent waits for a person to decide a tool call.
    ExecuteAwaitingPermission,
    ExecuteAwaitingInput,
    ExecuteComplete,
    /// The result fails a rule. The profile decides whether the engine sends it back.
    ExecuteUnmetRule,
    /// A rule blocked its landing.
    ExecuteBlocked,
    /// A rule that asks a person blocked its landing.
    ExecuteBlockedByQuestion,
    ExecuteErrored,
    /// Its limit is used up.
    ExecuteOverBudget,
    ExecuteCancelled,
    ApplyQueued,
    ApplyQueuedPrepared,
    ApplyProcessing,
    ApplyInterrupted,
    ApplyProcessingPrepared,
    ApplyInterruptedPrepared,
    ApplyAwaitingInput,
    ApplyAwaitingInputPrepared,
    ApplyErrored,
    ApplyConflict,
    /// The target has every change already.
    ApplyWithoutChanges,
    /// A rule failed on the merged result.
    ApplyGateConstrained,
    ApplyLocalEdits,
    ApplyOperationInProgress,
    ApplyApprovalVoid,
    ApplyApplied,
    ApplyCancelled,
);

impl StageSample {
    /// Returns whether plans with these terms get there.
    pub fn is_possible(self, terms: SampleTerms) -> bool {
        // Without targets nothing is prepared.
        let needs_targets = matches!(
            self,
            Self::ApplyQueuedPrepared
                | Self::ApplyProcessingPrepared
                | Self::ApplyInterruptedPrepared
                | Self::ApplyAwaitingInputPrepared
                | Self::ApplyGateConstrained
        );
        terms.has_targets || !needs_targets
    }

    /// Creates a plan as `author` and drives it there as a person. The store must have the sample project.
    pub fn create_plan(
        self,
        author: &TestClient,
        person: &TestClient,
        terms: SampleTerms,
    ) -> PlanId {
        let limits = match self {
            Self::ExecuteOverBudget => PlanLimits {
                cost: Some(Money(1_000_000)),
                ..PlanLimits::default()
            },
            _ => PlanLimits::default(),
        };
        let plan_id = author.add_plan(make_new_plan(author, terms, limits));
        let driver = SampleDriver {
            client: person,
            plan_id,
            has_targets: terms.has_targets,
        };
        driver.drive_to(self);
        plan_id
    }
}

fn make_new_plan(author: &TestClient, terms: SampleTerms, limits: PlanLimits) -> NewPlan {
    let plan_id = author.ids().next_plan_id();
    let base = samples::plan_for_goal(plan_id, &format!("sample {plan_id}"));
    let definition = ActorDefinition {
        name: samples::parse_name("robot"),
        description: None,
        kind: ActorKind::Command(Box::new(CommandLine {
            command: vec!["robot".to_owned()],
            ..CommandLine::default()
        })),
    };
    NewPlan {
        definitions: match terms.has_agent {
            true => vec![definition],
            false => Vec::new(),
        },
        profile: Some((terms.profile, ProfileSource::Flag)),
        projects: match terms.has_targets {
            true => base.projects,
            false => Vec::new(),
        },
        limits,
        ..base
    }
}

/// Drives one plan as a person.
struct SampleDriver<'a> {
    client: &'a TestClient,
    plan_id: PlanId,
    has_targets: bool,
}

impl SampleDriver<'_> {
    fn drive_to(&self, sample: StageSample) {
        match sample {
            StageSample::StrategizeQueued => {}
            StageSample::StrategizeProcessing => {
                self.claim(Phase::Strategize, LONG_LEASE);
            }
            StageSample::StrategizeInterrupted => {
                self.claim(Phase::Strategize, EXPIRED_LEASE);
            }
            StageSample::StrategizeAwaitingInput => self.ask(Phase::Strategize),
            StageSample::StrategizeComplete => self.complete_strategize(),
            StageSample::StrategizeErrored => self.fail(Phase::Strategize),
            StageSample::StrategizeCancelled => self.cancel(),
            StageSample::ExecuteQueued => self.enter_execute(),
            StageSample::ExecuteProcessing => {
                self.enter_execute();
                self.claim(Phase::Execute, LONG_LEASE);
            }
            StageSample::ExecuteInterrupted => {
                self.enter_execute();
                self.claim(Phase::Execute, EXPIRED_LEASE);
            }
            StageSample::ExecuteAwaitingPermission => {
                self.enter_execute();
                let epoch = self.claim(Phase::Execute, LONG_LEASE);
                let call = samples::sample_tool_call();
                self.submit(AskPermission { epoch, call });
            }
            StageSample::ExecuteAwaitingInput => {
                self.enter_execute();
                self.ask(Phase::Execute);
            }
            StageSample::ExecuteComplete => self.complete_execute(),
            StageSample::ExecuteUnmetRule => {
                self.add_rule(RuleCheck::Expr("false".to_owned()), Gate::Result);
                self.complete_execute();
            }
            StageSample::ExecuteBlocked => {
                self.complete_execute();
                self.block_apply(RuleCheck::Expr("false".to_owned()));
            }
            StageSample::ExecuteBlockedByQuestion => {
                self.complete_execute();
                self.block_apply(RuleCheck::Ask("Is it good?".to_owned()));
            }
            StageSample::ExecuteErrored => {
                self.enter_execute();
                self.fail(Phase::Execute);
            }
            StageSample::ExecuteOverBudget => self.use_up_budget(),
            StageSample::ExecuteCancelled => {
                self.enter_execute();
                self.cancel();
            }
            StageSample::ApplyQueued => self.enter_apply(),
            StageSample::ApplyQueuedPrepared => {
                let epoch = self.prepare(LONG_LEASE);
                self.submit(ReleaseLease { epoch });
            }
            StageSample::ApplyProcessing => {
                self.start_landing(LONG_LEASE);
            }
            StageSample::ApplyInterrupted => {
                self.start_landing(EXPIRED_LEASE);
            }
            StageSample::ApplyProcessingPrepared => {
                self.prepare(LONG_LEASE);
            }
            StageSample::ApplyInterruptedPrepared => {
                self.prepare(EXPIRED_LEASE);
            }
            StageSample::ApplyAwaitingInput => {
                let epoch = self.start_landing(LONG_LEASE);
                self.ask_under(epoch);
            }
            StageSample::ApplyAwaitingInputPrepared => {
                let epoch = self.prepare(LONG_LEASE);
                self.ask_under(epoch);
            }
            StageSample::ApplyErrored => {
                let epoch = self.start_landing(LONG_LEASE);
                self.fail_under(epoch, FailureCategory::Resource);
            }
            StageSample::ApplyConflict => {
                let paths = vec![samples::tree_path("a.txt")];
                self.constrain(ConstraintKind::Conflict, paths);
            }
            StageSample::ApplyWithoutChanges => {
                self.constrain(ConstraintKind::Conflict, Vec::new())
            }
            StageSample::ApplyGateConstrained => self.constrain_by_rule(),
            StageSample::ApplyLocalEdits => self.constrain(ConstraintKind::LocalEdits, Vec::new()),
            StageSample::ApplyOperationInProgress => {
                self.constrain(ConstraintKind::OperationInProgress, Vec::new());
            }
            StageSample::ApplyApprovalVoid => {
                self.constrain(ConstraintKind::ApprovalVoid, Vec::new());
            }
            StageSample::ApplyApplied => self.land(),
            StageSample::ApplyCancelled => {
                self.enter_apply();
                self.cancel();
            }
        }
    }

    fn submit(&self, command: impl Into<Command>) {
        self.client.must_submit(self.plan_id, command.into());
    }

    fn judge(&self, gate: Gate) -> GateJudgement {
        self.client.judge_rules(self.plan_id, gate)
    }

    fn claim(&self, phase: Phase, lease: Span) -> Epoch {
        let command = self.client.start_command(self.plan_id, phase, lease);
        let committed = self.client.must_submit(self.plan_id, command);
        committed.receipt.epoch.unwrap()
    }

    fn complete_strategize(&self) {
        let epoch = self.claim(Phase::Strategize, LONG_LEASE);
        self.submit(CompleteStrategize {
            epoch,
            decisions: Vec::new(),
        });
    }

    fn enter_execute(&self) {
        self.complete_strategize();
        let judgement = self.judge(Gate::Execute);
        self.submit(ExecutePlan { judgement });
    }

    fn complete_execute(&self) {
        self.enter_execute();
        let epoch = self.claim(Phase::Execute, LONG_LEASE);
        let word = self.plan_id.to_string();
        let result = match self.has_targets {
            true => samples::result_content(&word),
            false => ResultContent {
                report: Some(format!("did {word}").into()),
                trees: Vec::new(),
            },
        };
        self.submit(CompleteExecute {
            epoch,
            result,
            captured: Vec::new(),
            allow_empty: false,
            judgement: self.judge(Gate::Result),
        });
    }

    fn enter_apply(&self) {
        self.complete_execute();
        if self.has_targets {
            self.submit(samples::approve_command());
        }
        let judgement = self.judge(Gate::Apply);
        self.submit(ApplyPlan { judgement });
    }

    fn start_landing(&self, lease: Span) -> Epoch {
        self.enter_apply();
        self.claim(Phase::Apply, lease)
    }

    fn prepare(&self, lease: Span) -> Epoch {
        let epoch = self.start_landing(lease);
        self.submit(PrepareApply {
            epoch,
            moves: samples::landing_moves(),
            judgement: self.judge(Gate::Apply),
        });
        epoch
    }

    fn land(&self) {
        let landed = vec![samples::RESOURCE_NAME.to_owned()];
        let (epoch, landed) = match self.has_targets {
            true => (self.prepare(LONG_LEASE), landed),
            false => (self.start_landing(LONG_LEASE), Vec::new()),
        };
        self.submit(CompleteApply {
            epoch,
            landed,
            rest: None,
        });
    }

    fn constrain(&self, kind: ConstraintKind, paths: Vec<TreePath>) {
        let epoch = self.start_landing(LONG_LEASE);
        self.constrain_under(epoch, kind, paths);
    }

    fn constrain_under(&self, epoch: Epoch, kind: ConstraintKind, paths: Vec<TreePath>) {
        self.submit(ConstrainApply {
            epoch,
            kind,
            message: "it is in the way".to_owned(),
            paths,
            commits: Vec::new(),
        });
    }

    /// As a landing does whose rules fail on the merged result.
    fn constrain_by_rule(&self) {
        let epoch = self.start_landing(LONG_LEASE);
        self.add_rule(RuleCheck::Expr("false".to_owned()), Gate::Apply);
        let prepare = PrepareApply {
            epoch,
            moves: samples::landing_moves(),
            judgement: self.judge(Gate::Apply),
        };
        self.client
            .submit_for_plan(self.plan_id, prepare.into())
            .unwrap();
        self.constrain_under(epoch, ConstraintKind::Gate, Vec::new());
    }

    /// Tries to move it to apply, which the rule blocks.
    fn block_apply(&self, check: RuleCheck) {
        if self.has_targets {
            self.submit(samples::approve_command());
        }
        let asks = matches!(check, RuleCheck::Ask(_));
        self.add_rule(check, Gate::Apply);
        if self.has_targets {
            // The rule voided the approval.
            self.submit(samples::approve_command());
        }
        let mut judgement = self.judge(Gate::Apply);
        if asks {
            for verdict in &mut judgement.verdicts {
                verdict.outcome = RuleOutcome::Open(PendingVerdictReason::Person);
            }
        }
        self.client
            .submit_for_plan(self.plan_id, ApplyPlan { judgement }.into())
            .unwrap();
    }

    fn add_rule(&self, check: RuleCheck, gate: Gate) {
        let draft = RuleDraft {
            name: "sample-rule".parse().unwrap(),
            check,
            at: vec![gate],
            advisory: false,
            non_overridable: false,
        };
        self.client.add_rule(RuleScope::Plan(self.plan_id), draft);
    }

    fn use_up_budget(&self) {
        self.enter_execute();
        let epoch = self.claim(Phase::Execute, LONG_LEASE);
        self.submit(ReserveBudget {
            epoch,
            metering: MeteringLevel::default(),
            budget: GlobalBudget::default(),
        });
        let used = BudgetAmount {
            cost: 1_000_000,
            ..BudgetAmount::default()
        };
        self.submit(SettleUsage { epoch, used });
        self.fail_under(epoch, FailureCategory::Budget);
    }

    fn ask(&self, phase: Phase) {
        let epoch = self.claim(phase, LONG_LEASE);
        self.ask_under(epoch);
    }

    fn ask_under(&self, epoch: Epoch) {
        self.submit(AskPerson {
            epoch,
            question: "Which one?".to_owned(),
            answer_timeout: None,
        });
    }

    fn fail(&self, phase: Phase) {
        let epoch = self.claim(phase, LONG_LEASE);
        self.fail_under(epoch, FailureCategory::Actor);
    }

    fn fail_under(&self, epoch: Epoch, category: FailureCategory) {
        self.submit(FailRun {
            epoch,
            category,
            message: "it failed".to_owned(),
        });
    }

    fn cancel(&self) {
        self.submit(CancelPlan { reason: None });
    }
}
