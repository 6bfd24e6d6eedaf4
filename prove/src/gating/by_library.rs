//! Plans that land on nothing, taken further through the library.

use lifecycle::{Claim, LifecycleError, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::ChangesetSelector as Target;
use plan::invariant::RuleCheck;
use plan::judgement::RuleOutcome;
use plan::ledger::{BudgetAmount, MeteringLevel};
use plan::plan::PlanLimits;
use plan::stage::{ApplyState, FailureCategory, ResultContent, WorkState};
use plan::{LandingOptions, Money, Plan, PlanActors, PlanId, PlanStage, Profile, Refusal, Span};

use super::notes::Note;
use super::player::Player;
use super::spender::{CALL, PRICE};

/// For how long a claim holds; those that are given up are soon taken over.
const LEASE: Span = Span(800_000);

impl Player<'_> {
    /// Makes a plan that nobody's worker can work on.
    pub(super) fn make_by_library(&mut self) -> anyhow::Result<()> {
        let nobody: plan::QualifiedName = "nobody".parse()?;
        let profiles = [Profile::Manual, Profile::Review, Profile::Auto];
        let request = UseRequest {
            goal: Some("Spend some".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(nobody)),
            profile: self.random.choice(profiles),
            limits: self.limits(0),
            ..UseRequest::default()
        };
        let call = self.call(true);
        let made = self.lifecycle.use_action(request, &call);
        match self.heard(made)? {
            // Most have a rule of their own from the start.
            Some(made) if self.chance(80) => self.legislate(&made.plan, true),
            Some(_) | None => Ok(()),
        }
    }

    /// Limits that leave something beyond what is used.
    fn limits(&mut self, used: u64) -> PlanLimits {
        let tokens = used + self.random.u64(CALL..6 * CALL);
        PlanLimits {
            attempts: 9,
            tokens: Some(tokens),
            cost: self.chance(40).then_some(Money(tokens * PRICE)),
            ..PlanLimits::default()
        }
    }

    /// One step further, or a word about it.
    pub(super) fn go_on_by_library(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if self.chance(20) {
            return self.have_a_say(plan);
        }
        let by_person = self.chance(60);
        let call = self.call(by_person);
        let (id, owner) = (plan.id, self.name());
        match &plan.stage {
            PlanStage::Strategize(WorkState::Queued(_)) => {
                let claim = self.lifecycle.start_strategize(id, &owner, LEASE, &call);
                match self.heard(claim)? {
                    Some(claim) => self.think(claim),
                    None => Ok(()),
                }
            }
            PlanStage::Strategize(WorkState::Complete) => {
                let moved = self.lifecycle.execute_plan(id, &call);
                self.heard(moved).map(drop)
            }
            PlanStage::Execute(WorkState::Queued(_)) => {
                let claim = self.lifecycle.start_execute(id, &owner, LEASE, &call);
                match self.heard(claim)? {
                    Some(claim) => self.work(claim),
                    None => Ok(()),
                }
            }
            PlanStage::Execute(WorkState::Complete) => {
                let moved = match self.random.u8(..100) {
                    0..70 => self.lifecycle.apply_plan(id, &call),
                    70..80 => self
                        .lifecycle
                        .approve_result(id, &LandingOptions::default(), &call),
                    _ => self
                        .lifecycle
                        .revise_plan(id, "Once more", Vec::new(), &call),
                };
                self.heard(moved).map(drop)
            }
            PlanStage::Apply(ApplyState::Queued(..)) => {
                let claim = self.lifecycle.start_apply(id, &owner, LEASE, &call);
                let Some(claim) = self.heard(claim)? else {
                    return Ok(());
                };
                let landed = claim.complete_apply(Vec::new());
                self.heard(landed).map(drop)
            }
            PlanStage::Strategize(WorkState::Errored(_))
            | PlanStage::Execute(WorkState::Errored(_)) => {
                let used = self.ground.store.read_ledger(id)?.plan.settled.tokens;
                let limits = self.limits(used);
                let retried = self.lifecycle.retry_phase(id, false, Some(limits), &call);
                self.heard(retried).map(drop)
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
                let taken = self.lifecycle.reclaim_lease(id, &call);
                self.heard(taken).map(drop)
            }
        }
    }

    /// What people say beside the work; sometimes somebody says it who is no person.
    fn have_a_say(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let by_person = self.chance(85);
        let call = self.call(by_person);
        let said = match (self.some_rule(plan)?, self.random.u8(..100)) {
            (Some(rule), 0..70) => match &rule.draft.check {
                RuleCheck::Ask(_) => {
                    let outcome = match self.chance(75) {
                        true => RuleOutcome::Held,
                        false => RuleOutcome::Failed("no".to_owned()),
                    };
                    self.lifecycle
                        .record_ruling(plan.id, rule.draft.name, outcome, &call)
                }
                _ => self
                    .lifecycle
                    .waive_rule(plan.id, rule.draft.name, "so be it", &call),
            },
            (_, 95..) => self.lifecycle.cancel_plan(plan.id, Some("enough"), &call),
            (_, 85..) => self
                .lifecycle
                .revert_to_strategize(plan.id, "another way", &call),
            (Some(_) | None, _) => return Ok(()),
        };
        self.heard(said).map(drop)
    }

    fn think(&mut self, claim: Claim) -> anyhow::Result<()> {
        match self.spend(&claim)? {
            true => self.heard(claim.complete_strategize(Vec::new())).map(drop),
            false => Ok(()),
        }
    }

    fn work(&mut self, claim: Claim) -> anyhow::Result<()> {
        let plan = claim.plan().id;
        if !self.change(&claim)? || !self.spend(&claim)? {
            return Ok(());
        }
        let result = ResultContent {
            report: Some(format!("of {plan} by {}", claim.epoch()).into()),
            ..ResultContent::default()
        };
        self.heard(claim.complete_execute(&result)).map(drop)
    }

    /// Records what changed; `false` if the plan was taken away.
    fn change(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (plan, epoch) = (claim.plan().id, claim.epoch());
        let mut files = vec![format!("docs/{epoch}.md")];
        if self.chance(25) {
            files.push(format!("secret/{epoch}.txt"));
        }
        let call = self.call(true);
        let opened = self
            .lifecycle
            .open_changeset(plan, epoch, Node::main(), &call);
        if self.heard(opened)?.is_none() {
            return Ok(false);
        }
        for path in &files {
            let entry = ChangesetEntry::new(TreePath::new(path.as_str())?, PathOperation::Create);
            let call = self.call(true);
            let into = Target::Node(Node::main());
            let recorded = self
                .lifecycle
                .record_change(plan, epoch, into, entry, &call);
            if self.heard(recorded)?.is_none() {
                return Ok(false);
            }
            let files = vec![path.clone()];
            self.notes.run(&note(plan, epoch.0, files, 0))?;
        }
        Ok(true)
    }

    /// Uses what it may, call by call. `false` if that ended the work, or it was given up without a word.
    fn spend(&mut self, claim: &Claim) -> anyhow::Result<bool> {
        let (plan, epoch) = (claim.plan().id, claim.epoch());
        let call = self.call(false);
        let granted = self
            .lifecycle
            .reserve_budget(plan, epoch, MeteringLevel::Cost, &call);
        if let Err(LifecycleError::Refused(Refusal::OverBudget(over))) = &granted {
            let call = self.call(false);
            let ended = match over.is_spent() {
                true => {
                    let why = over.to_string();
                    self.lifecycle
                        .fail_work(plan, epoch, FailureCategory::Budget, &why, &call)
                }
                // Others have it, and may leave something.
                false => self.lifecycle.release_lease(plan, epoch, &call),
            };
            return self.heard(ended).map(|_| false);
        }
        let Some(grant) = self.heard(granted)? else {
            return Ok(false);
        };
        if self.chance(8) {
            return Ok(false);
        }
        let mut used = BudgetAmount::default();
        let mut over = false;
        for _ in 0..self.random.u8(1..=4) {
            let tokens = self.random.u64(10..=CALL);
            used = used.saturating_add(BudgetAmount {
                tokens,
                cost: tokens * PRICE,
                time: 1000,
            });
            over = grant.find_exhausted(used).is_some();
            if over {
                break;
            }
        }
        // Told twice, it is charged once.
        for _ in 0..self.random.u8(1..=2) {
            let call = self.call(false);
            let settled = self.lifecycle.settle_usage(plan, epoch, used, &call);
            if self.heard(settled)?.is_none() {
                return Ok(false);
            }
        }
        self.notes.run(&Note {
            told: true,
            ..note(plan, epoch.0, Vec::new(), used.tokens)
        })?;
        if over && self.chance(50) {
            let call = self.call(false);
            let failed =
                self.lifecycle
                    .fail_work(plan, epoch, FailureCategory::Budget, "used up", &call);
            return self.heard(failed).map(|_| false);
        }
        Ok(true)
    }
}

fn note(plan: PlanId, epoch: u64, files: Vec<String>, tokens: u64) -> Note {
    Note {
        plan: plan.to_string(),
        epoch,
        files,
        tokens,
        told: false,
    }
}
