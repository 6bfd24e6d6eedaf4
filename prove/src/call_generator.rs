//! Chooses the next call of a client from the answers it got so far. A restarted client knows nothing of them.

use std::collections::BTreeMap;

use fastrand::Rng;
use plan::{ChangesetId, Phase, PlanId};

use crate::operation::{CallAnswer, CallId, CallReceipt, ClientCall, Operation};

/// With fewer live plans than this, clients create new ones.
const MIN_LIVE_PLANS: usize = 4;

/// How many claims a client remembers. It remembers some that have ended, and uses their epochs again like a holder that
/// does not know that its lease is lost.
const MAX_REMEMBERED_CLAIMS: usize = 6;

/// Generates the calls of one client.
pub struct CallGenerator {
    client: u32,
    incarnation: u32,
    calls: u32,
    random: Rng,
    through_program: bool,
    /// The stage of each known plan, as far as the client knows.
    plans: BTreeMap<PlanId, String>,
    claims: Vec<HeldClaim>,
    rules: Vec<(PlanId, String)>,
    /// The call to repeat next, with the same key.
    repeat: Option<ClientCall>,
}

/// A phase that the client claimed.
#[derive(Debug, Clone)]
struct HeldClaim {
    plan_id: PlanId,
    phase: Phase,
    epoch: u64,
    changesets: Vec<ChangesetId>,
}

impl CallGenerator {
    /// A generator that knows no plans yet.
    pub fn new(client: u32, incarnation: u32, seed: u64, through_program: bool) -> Self {
        let seed = seed ^ (u64::from(client) << 32) ^ u64::from(incarnation);
        Self {
            client,
            incarnation,
            calls: 0,
            random: Rng::with_seed(seed),
            through_program,
            plans: BTreeMap::new(),
            claims: Vec::new(),
            rules: Vec::new(),
            repeat: None,
        }
    }

    /// Chooses the next call.
    pub fn next_call(&mut self) -> ClientCall {
        self.calls += 1;
        let id = CallId {
            client: self.client,
            incarnation: self.incarnation,
            number: self.calls,
        };
        // A client that got no answer repeats the call with the same key. Some others do, too.
        if let Some(call) = self.repeat.take() {
            return ClientCall { id, ..call };
        }
        let operation = match self.choose_operation() {
            // The program has no command for these.
            Operation::ExpireQuestion { plan_id } if self.through_program => {
                Operation::Show { plan_id }
            }
            Operation::UseAndStart { .. } if self.through_program => Operation::Use,
            operation => operation,
        };
        let keyed = !self.through_program && self.one_in(8) && accepts_key(&operation);
        ClientCall {
            id,
            through_program: self.through_program,
            by_person: self.through_program || !self.one_in(6),
            key: keyed.then(|| id.to_string()),
            operation,
        }
    }

    /// Updates the client's knowledge with an answer.
    pub fn record_answer(&mut self, call: &ClientCall, answer: &CallAnswer) {
        if call.key.is_some() && (matches!(answer, CallAnswer::Unknown(_)) || self.one_in(3)) {
            self.repeat = Some(call.clone());
        }
        match answer {
            CallAnswer::Done(receipt) => self.record_done(call, receipt),
            CallAnswer::Observed(plans) => {
                if call.operation == Operation::List {
                    self.plans.clear();
                }
                for plan in plans {
                    self.plans.insert(plan.plan_id, plan.stage.clone());
                }
            }
            CallAnswer::Refused(refusal) => {
                if let (Some(plan_id), Some(stage)) = (call.operation.plan_id(), &refusal.stage) {
                    self.plans.insert(plan_id, stage.clone());
                }
            }
            CallAnswer::Blocked | CallAnswer::Failed(_) | CallAnswer::Unknown(_) => {}
        }
    }

    fn record_done(&mut self, call: &ClientCall, receipt: &CallReceipt) {
        match &call.operation {
            Operation::Start { phase, .. } => self.record_claim(*phase, receipt),
            Operation::UseAndStart { .. } => self.record_claim(Phase::Strategize, receipt),
            Operation::OpenChangeset { plan_id, epoch, .. } => {
                let claim = self
                    .claims
                    .iter_mut()
                    .find(|claim| claim.plan_id == *plan_id && claim.epoch == *epoch);
                if let Some(claim) = claim {
                    claim.changesets.extend(receipt.changeset);
                }
            }
            Operation::Complete { plan_id, .. }
            | Operation::Release { plan_id, .. }
            | Operation::Fail { plan_id, .. }
            | Operation::Ask { plan_id, .. }
            | Operation::Constrain { plan_id, .. } => {
                // Usually the client forgets the claim, which has ended.
                if !self.one_in(5) {
                    self.claims.retain(|claim| claim.plan_id != *plan_id);
                }
                self.predict_stage(&call.operation);
            }
            Operation::AddRule { plan_id, rule, .. } => self.rules.push((*plan_id, rule.clone())),
            Operation::Use => {
                if let Some(plan_id) = receipt.plan_id {
                    self.plans.insert(plan_id, "strategize/queued".to_owned());
                }
            }
            operation => self.predict_stage(operation),
        }
    }

    fn record_claim(&mut self, phase: Phase, receipt: &CallReceipt) {
        let (Some(plan_id), Some(epoch)) = (receipt.plan_id, receipt.epoch) else {
            return;
        };
        self.plans.insert(plan_id, format!("{phase}/processing"));
        self.claims.push(HeldClaim {
            plan_id,
            phase,
            epoch,
            changesets: Vec::new(),
        });
        if self.claims.len() > MAX_REMEMBERED_CLAIMS {
            self.claims.remove(0);
        }
    }

    /// Sets the stage the plan is in now, unless another client was faster.
    fn predict_stage(&mut self, operation: &Operation) {
        let Some((plan_id, stage)) = operation.plan_id().zip(
            operation
                .plan_id()
                .and_then(|plan_id| self.plans.get(&plan_id)),
        ) else {
            return;
        };
        let phase = stage.split('/').next().unwrap_or_default();
        let next = match operation {
            Operation::Complete {
                phase: Phase::Apply,
                ..
            } => "apply/applied".to_owned(),
            Operation::Complete { phase, .. } => format!("{phase}/complete"),
            Operation::ExecutePlan { .. } => "execute/queued".to_owned(),
            Operation::ApplyPlan { .. } => "apply/queued".to_owned(),
            Operation::Ask { .. } => format!("{phase}/awaiting_input"),
            Operation::Fail { .. } | Operation::ExpireQuestion { .. } => format!("{phase}/errored"),
            Operation::Constrain { .. } => format!("{phase}/constrained"),
            Operation::Release { .. }
            | Operation::Reclaim { .. }
            | Operation::Answer { .. }
            | Operation::Retry { .. } => format!("{phase}/queued"),
            Operation::Revise { .. } if phase == "strategize" => "strategize/queued".to_owned(),
            Operation::Revise { .. } => "execute/queued".to_owned(),
            Operation::Revert { .. } => "strategize/queued".to_owned(),
            Operation::Cancel { .. } => format!("{phase}/cancelled"),
            _ => return,
        };
        self.plans.insert(plan_id, next);
    }

    fn choose_operation(&mut self) -> Operation {
        if self.plans.is_empty() && self.calls > 2 && self.random.bool() {
            return Operation::Use;
        }
        if self.plans.is_empty() || self.one_in(10) {
            return Operation::List;
        }
        let live = self.plans.values().filter(|stage| !is_final(stage)).count();
        if live < MIN_LIVE_PLANS && self.one_in(6) {
            return match self.random.bool() {
                true => Operation::Use,
                false => Operation::UseAndStart {
                    lease_ms: self.pick_lease_ms(),
                },
            };
        }
        if !self.claims.is_empty() && self.random.bool() {
            return self.choose_holder_operation();
        }
        let (plan_id, stage) = self.pick_plan();
        if self.one_in(10) {
            return Operation::Show { plan_id };
        }
        if self.one_in(40) {
            return self.choose_rule_operation(plan_id);
        }
        if self.one_in(12) {
            return self.choose_random_operation(plan_id);
        }
        self.choose_fitting_operation(plan_id, &stage)
    }

    /// An operation that needs a lease.
    fn choose_holder_operation(&mut self) -> Operation {
        let claim = self.claims[self.random.usize(..self.claims.len())].clone();
        let HeldClaim {
            plan_id,
            phase,
            epoch,
            ..
        } = claim;
        let roll = self.random.u32(..20);
        match (roll, phase) {
            (0..=1, _) => Operation::Renew {
                plan_id,
                epoch,
                lease_ms: self.pick_lease_ms(),
            },
            (2, _) => Operation::Release { plan_id, epoch },
            (3, _) => Operation::Fail {
                plan_id,
                epoch,
                transient: self.random.bool(),
            },
            (4, _) => Operation::Ask {
                plan_id,
                epoch,
                timeout_ms: self.one_in(2).then_some(50),
            },
            (5..=8, Phase::Execute) => Operation::OpenChangeset {
                plan_id,
                epoch,
                node: self.pick_node(),
            },
            (9..=16, Phase::Execute) => Operation::RecordChange {
                plan_id,
                epoch,
                node: self.pick_node(),
            },
            (17, Phase::Execute) => match claim.changesets.last() {
                Some(changeset) => Operation::SealChangeset {
                    plan_id,
                    epoch,
                    changeset: *changeset,
                },
                None => Operation::OpenChangeset {
                    plan_id,
                    epoch,
                    node: self.pick_node(),
                },
            },
            (5..=8, Phase::Apply) => Operation::PrepareApply { plan_id, epoch },
            (9, Phase::Apply) => Operation::WithdrawApply { plan_id, epoch },
            (10, Phase::Apply) => Operation::Constrain { plan_id, epoch },
            _ => Operation::Complete {
                plan_id,
                phase,
                epoch,
            },
        }
    }

    /// An operation that is likely to succeed in this stage.
    fn choose_fitting_operation(&mut self, plan_id: PlanId, stage: &str) -> Operation {
        let (phase, state) = stage.split_once('/').unwrap_or((stage, ""));
        let phase: Phase = phase.parse().unwrap_or(Phase::Strategize);
        let roll = self.random.u32(..10);
        match (state, phase, roll) {
            ("queued", _, _) => Operation::Start {
                plan_id,
                phase,
                lease_ms: self.pick_lease_ms(),
            },
            ("processing", _, 0..=4) => Operation::Reclaim { plan_id },
            ("processing", _, 5..=7) => Operation::Show { plan_id },
            ("processing", _, _) => Operation::Start {
                plan_id,
                phase,
                lease_ms: self.pick_lease_ms(),
            },
            ("awaiting_input", _, 0..=6) => Operation::Answer { plan_id },
            ("awaiting_input", _, _) => Operation::ExpireQuestion { plan_id },
            ("complete", Phase::Strategize, 0) => Operation::Revise { plan_id },
            ("complete", Phase::Strategize, _) => Operation::ExecutePlan { plan_id },
            ("complete", _, 0) => Operation::Revise { plan_id },
            ("complete", _, 1) => Operation::Revert { plan_id },
            ("complete", _, 2) => Operation::Approve { plan_id },
            ("complete", _, _) => Operation::ApplyPlan { plan_id },
            ("errored" | "constrained", _, 0) => Operation::Cancel { plan_id },
            ("errored" | "constrained", _, 1) => Operation::Revise { plan_id },
            ("errored" | "constrained", _, 2) => Operation::Revert { plan_id },
            ("errored" | "constrained", _, _) => Operation::Retry { plan_id },
            _ => Operation::Show { plan_id },
        }
    }

    /// A random operation, refused most of the time.
    fn choose_random_operation(&mut self, plan_id: PlanId) -> Operation {
        let epoch = self.random.u64(..8);
        let phase = Phase::ALL[self.random.usize(..3)];
        match self.random.u32(..18) {
            0 => Operation::Start {
                plan_id,
                phase,
                lease_ms: self.pick_lease_ms(),
            },
            1 => Operation::Complete {
                plan_id,
                phase,
                epoch,
            },
            2 => Operation::ExecutePlan { plan_id },
            3 => Operation::ApplyPlan { plan_id },
            4 => Operation::Approve { plan_id },
            5 => Operation::PrepareApply { plan_id, epoch },
            6 => Operation::WithdrawApply { plan_id, epoch },
            7 => Operation::Constrain { plan_id, epoch },
            8 => Operation::Renew {
                plan_id,
                epoch,
                lease_ms: self.pick_lease_ms(),
            },
            9 => Operation::Release { plan_id, epoch },
            10 => Operation::Fail {
                plan_id,
                epoch,
                transient: true,
            },
            11 => Operation::Ask {
                plan_id,
                epoch,
                timeout_ms: None,
            },
            12 => Operation::Answer { plan_id },
            13 => Operation::Retry { plan_id },
            14 => Operation::Revise { plan_id },
            15 => Operation::Revert { plan_id },
            16 => Operation::RecordChange {
                plan_id,
                epoch,
                node: self.pick_node(),
            },
            _ => Operation::Cancel { plan_id },
        }
    }

    fn choose_rule_operation(&mut self, plan_id: PlanId) -> Operation {
        if !self.rules.is_empty() && self.random.bool() {
            let (plan_id, rule) = self.rules.remove(self.random.usize(..self.rules.len()));
            return Operation::RemoveRule { plan_id, rule };
        }
        Operation::AddRule {
            plan_id,
            rule: format!("rule-{}", self.random.u32(..3)),
            holds: !self.one_in(3),
        }
    }

    fn pick_plan(&mut self) -> (PlanId, String) {
        // Usually one that is not final.
        let live: Vec<_> = self
            .plans
            .iter()
            .filter(|(_, stage)| !is_final(stage))
            .collect();
        let all: Vec<_> = self.plans.iter().collect();
        let candidates = if live.is_empty() || self.random.u32(..30) == 0 {
            all
        } else {
            live
        };
        let (plan_id, stage) = candidates[self.random.usize(..candidates.len())];
        (*plan_id, stage.clone())
    }

    fn pick_node(&mut self) -> String {
        format!("node-{}", self.random.u32(..2))
    }

    /// Short, so that some holders outlive their lease. The program only takes whole seconds.
    fn pick_lease_ms(&mut self) -> u32 {
        match self.through_program {
            true => 1000,
            false => 100 + 100 * self.random.u32(..10),
        }
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.random.u32(..many) == 0
    }
}

/// Whether the operation takes an idempotency key. Reads need none, and rules take none.
fn accepts_key(operation: &Operation) -> bool {
    match operation {
        // Two commands, but a key belongs to one.
        Operation::UseAndStart { .. } => false,
        Operation::RecordChange { .. } => true,
        other => other.writes_event(),
    }
}

fn is_final(stage: &str) -> bool {
    stage.ends_with("/applied") || stage.ends_with("/cancelled")
}
