//! Steps of a client on plans without a repository, through the library.

use lifecycle::{Claim, LifecycleError, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{ChangesetSelector, FailRun, RecordChange, ReleaseLease, RevertPlan};
use plan::invariant::{RuleCheck, RuleScope};
use plan::judgement::RuleOutcome;
use plan::ledger::{BudgetAmount, MeteringLevel};
use plan::plan::PlanLimits;
use plan::stage::{ApplyState, FailureCategory, ResultContent, WorkState};
use plan::{LandingOptions, Money, Plan, PlanActors, PlanId, PlanStage, Profile, Refusal, Span};

use super::gate_client::GateClient;
use super::spending_actor::{MAX_TOKENS_PER_CALL, MICROS_PER_TOKEN};
use super::trial_records::EpochRecord;

/// Short, so that abandoned claims are soon reclaimed.
const CLAIM_LEASE: Span = Span(800_000);

impl GateClient<'_> {
    /// Creates a plan whose actor does not exist, so that workers leave it to the clients.
    pub(super) fn create_plan_by_library(&mut self) -> anyhow::Result<()> {
        let unknown_actor: plan::QualifiedName = "nobody".parse()?;
        let profiles = [Profile::Manual, Profile::Review, Profile::Auto];
        let request = UseRequest {
            goal: Some("Spend some".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(unknown_actor)),
            profile: self.random.choice(profiles),
            limits: self.random_limits(0),
            ..UseRequest::default()
        };
        let call = self.new_call(true);
        let answer = self.lifecycle.use_action(request, &call);
        match self.accept_answer(answer)? {
            // Most plans get a rule of their own at once.
            Some(created) if self.roll_percent(80) => {
                self.change_rules_in(&RuleScope::Plan(created.plan.id()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Limits that leave some budget beyond the current usage.
    fn random_limits(&mut self, used: u64) -> PlanLimits {
        let tokens = used
            + self
                .random
                .u64(MAX_TOKENS_PER_CALL..6 * MAX_TOKENS_PER_CALL);
        PlanLimits {
            attempts: 9,
            tokens: Some(tokens),
            cost: self
                .roll_percent(40)
                .then_some(Money(tokens * MICROS_PER_TOKEN)),
            ..PlanLimits::default()
        }
    }

    /// Takes the next step of a plan, or comments on it.
    pub(super) fn advance_by_library(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if self.roll_percent(20) {
            return self.judge_or_end_plan(plan);
        }
        let by_person = self.roll_percent(60);
        let call = self.new_call(by_person);
        let (id, owner) = (plan.id(), self.caller_name());
        match plan.stage() {
            PlanStage::Strategize(WorkState::Queued(_)) => {
                let claim =
                    self.lifecycle
                        .claims()
                        .start_strategize(id, &owner, CLAIM_LEASE, &call);
                match self.accept_answer(claim)? {
                    Some(claim) => self.strategize_plan(claim),
                    None => Ok(()),
                }
            }
            PlanStage::Strategize(WorkState::Complete) => {
                let answer = self.lifecycle.execute_plan(id, &call);
                self.accept_answer(answer).map(drop)
            }
            PlanStage::Execute(WorkState::Queued(_)) => {
                let claim = self
                    .lifecycle
                    .claims()
                    .start_execute(id, &owner, CLAIM_LEASE, &call);
                match self.accept_answer(claim)? {
                    Some(claim) => self.execute_plan(claim),
                    None => Ok(()),
                }
            }
            PlanStage::Execute(WorkState::Complete) => {
                let answer = match self.random.u8(..100) {
                    0..70 => self.lifecycle.apply_plan(id, &call),
                    70..80 => self.lifecycle.landing().approve_result(
                        id,
                        &LandingOptions::default(),
                        &call,
                    ),
                    _ => self
                        .lifecycle
                        .revise_plan(id, "Once more", Vec::new(), &call),
                };
                self.accept_answer(answer).map(drop)
            }
            PlanStage::Apply(ApplyState::Queued(..)) => {
                let claim = self
                    .lifecycle
                    .claims()
                    .start_apply(id, &owner, CLAIM_LEASE, &call);
                let Some(claim) = self.accept_answer(claim)? else {
                    return Ok(());
                };
                let landed = claim.complete_apply(Vec::new());
                self.accept_answer(landed).map(drop)
            }
            PlanStage::Strategize(WorkState::Errored(_))
            | PlanStage::Execute(WorkState::Errored(_)) => {
                let used = self.env.store.read_ledger(id)?.plan.settled.tokens;
                let limits = self.random_limits(used);
                let retried = self.lifecycle.retry_phase(id, false, Some(limits), &call);
                self.accept_answer(retried).map(drop)
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
                let taken = self.lifecycle.leases().reclaim_lease(id, &call);
                self.accept_answer(taken).map(drop)
            }
        }
    }

    /// Answers or waives a rule, cancels or reverts the plan. Sometimes as a worker, which may not do that.
    fn judge_or_end_plan(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let by_person = self.roll_percent(85);
        let call = self.new_call(by_person);
        let answer = match (self.pick_rule(plan)?, self.random.u8(..100)) {
            (Some(rule), 0..70) => match &rule.draft.check {
                RuleCheck::Ask(_) => {
                    let outcome = match self.roll_percent(75) {
                        true => RuleOutcome::Held,
                        false => RuleOutcome::Failed("no".to_owned()),
                    };
                    self.lifecycle
                        .rules()
                        .record_ruling(plan.id(), rule.draft.name, outcome, &call)
                }
                _ => {
                    self.lifecycle
                        .rules()
                        .waive_rule(plan.id(), rule.draft.name, "so be it", &call)
                }
            },
            (_, 95..) => self.lifecycle.cancel_plan(plan.id(), Some("enough"), &call),
            (_, 85..) => {
                self.lifecycle
                    .submit_command(plan.id(), RevertPlan::new("another way"), &call)
            }
            (Some(_) | None, _) => return Ok(()),
        };
        self.accept_answer(answer).map(drop)
    }

    fn strategize_plan(&mut self, claim: Claim) -> anyhow::Result<()> {
        match self.spend_budget(&claim)? {
            true => self
                .accept_answer(claim.complete_strategize(Vec::new()))
                .map(drop),
            false => Ok(()),
        }
    }

    fn execute_plan(&mut self, claim: Claim) -> anyhow::Result<()> {
        let plan_id = claim.plan().id();
        if !self.record_changes(&claim)? || !self.spend_budget(&claim)? {
            return Ok(());
        }
        let result = ResultContent {
            report: Some(format!("of {plan_id} by {}", claim.epoch()).into()),
            ..ResultContent::default()
        };
        self.accept_answer(claim.complete_execute(&result))
            .map(drop)
    }

    /// Records changes; `false` if the lease was lost.
    fn record_changes(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (plan_id, epoch) = (claim.plan().id(), claim.epoch());
        let mut files = vec![format!("docs/{epoch}.md")];
        if self.roll_percent(25) {
            files.push(format!("secret/{epoch}.txt"));
        }
        let call = self.new_call(true);
        let opened = self
            .lifecycle
            .open_changeset(plan_id, epoch, Node::main(), &call);
        if self.accept_answer(opened)?.is_none() {
            return Ok(false);
        }
        for path in &files {
            let entry = ChangesetEntry::new(TreePath::new(path.as_str())?, PathOperation::Create);
            let call = self.new_call(true);
            let changeset = ChangesetSelector::Node(Node::main());
            let recorded = self.lifecycle.submit_command(
                plan_id,
                RecordChange::new(epoch, changeset, entry),
                &call,
            );
            if self.accept_answer(recorded)?.is_none() {
                return Ok(false);
            }
            let files = vec![path.clone()];
            self.records
                .add_epoch(&epoch_record(plan_id, epoch.0, files, 0))?;
        }
        Ok(true)
    }

    /// Reserves and spends budget. `false` if that ended the work, or if the client abandons the claim.
    fn spend_budget(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (plan_id, epoch) = (claim.plan().id(), claim.epoch());
        let call = self.new_call(false);
        let answer =
            self.lifecycle
                .budgets()
                .reserve_budget(plan_id, epoch, MeteringLevel::Cost, &call);
        if let Err(LifecycleError::Refused(Refusal::OverBudget(shortfall))) = &answer {
            let call = self.new_call(false);
            let ended = match shortfall.is_spent() {
                true => {
                    let reason = shortfall.to_string();
                    self.lifecycle.submit_command(
                        plan_id,
                        FailRun::new(epoch, FailureCategory::Budget, reason.clone()),
                        &call,
                    )
                }
                // Other runs have reserved it and may return some.
                false => self
                    .lifecycle
                    .submit_command(plan_id, ReleaseLease { epoch }, &call),
            };
            return self.accept_answer(ended).map(|_| false);
        }
        let Some(grant) = self.accept_answer(answer)? else {
            return Ok(false);
        };
        if self.roll_percent(8) {
            return Ok(false);
        }
        let mut used = BudgetAmount::default();
        let mut is_exhausted = false;
        for _ in 0..self.random.u8(1..=4) {
            let tokens = self.random.u64(10..=MAX_TOKENS_PER_CALL);
            used = used.saturating_add(BudgetAmount {
                tokens,
                cost: tokens * MICROS_PER_TOKEN,
                time: 1000,
            });
            is_exhausted = grant.find_exhausted(used).is_some();
            if is_exhausted {
                break;
            }
        }
        // Usage that is settled twice must be charged once.
        for _ in 0..self.random.u8(1..=2) {
            let call = self.new_call(false);
            let settled = self
                .lifecycle
                .budgets()
                .settle_usage(plan_id, epoch, used, &call);
            if self.accept_answer(settled)?.is_none() {
                return Ok(false);
            }
        }
        self.records.add_epoch(&EpochRecord {
            settled: true,
            ..epoch_record(plan_id, epoch.0, Vec::new(), used.tokens)
        })?;
        if is_exhausted && self.roll_percent(50) {
            let call = self.new_call(false);
            let failed = self.lifecycle.submit_command(
                plan_id,
                FailRun::new(epoch, FailureCategory::Budget, "used up"),
                &call,
            );
            return self.accept_answer(failed).map(|_| false);
        }
        Ok(true)
    }
}

fn epoch_record(plan_id: PlanId, epoch: u64, files: Vec<String>, tokens: u64) -> EpochRecord {
    EpochRecord {
        plan_id: plan_id.to_string(),
        epoch,
        files,
        tokens,
        settled: false,
    }
}
