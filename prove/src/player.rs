//! A player: chooses what to do next from what it was told, and forgets everything when it is killed.

use std::collections::BTreeMap;

use fastrand::Rng;
use plan::{ChangesetId, Phase, PlanId};

use crate::operation::{Answer, Call, CallId, Operation, Receipt};

/// Fewer live plans than this, and somebody makes a new one.
const ENOUGH_PLANS: usize = 4;

/// Rights that were over stay in mind this long, to be tried again by a holder that does not know better.
const REMEMBERED_CLAIMS: usize = 6;

/// Chooses calls.
pub struct Player {
    number: u32,
    life: u32,
    calls: u32,
    random: Rng,
    through_program: bool,
    plans: BTreeMap<PlanId, String>,
    claims: Vec<Held>,
    rules: Vec<(PlanId, String)>,
    repeat: Option<Call>,
}

/// A phase it claimed.
#[derive(Debug, Clone)]
struct Held {
    plan: PlanId,
    phase: Phase,
    epoch: u64,
    changesets: Vec<ChangesetId>,
}

impl Player {
    /// A player in a new life.
    pub fn new(number: u32, life: u32, seed: u64, through_program: bool) -> Self {
        let seed = seed ^ (u64::from(number) << 32) ^ u64::from(life);
        Self {
            number,
            life,
            calls: 0,
            random: Rng::with_seed(seed),
            through_program,
            plans: BTreeMap::new(),
            claims: Vec::new(),
            rules: Vec::new(),
            repeat: None,
        }
    }

    /// What it does next.
    pub fn next(&mut self) -> Call {
        self.calls += 1;
        let id = CallId {
            player: self.number,
            life: self.life,
            number: self.calls,
        };
        // Whoever did not hear the answer asks again under the same key; so do some who did.
        if let Some(call) = self.repeat.take() {
            return Call { id, ..call };
        }
        let operation = match self.choose() {
            // The program has no word for these.
            Operation::ExpireQuestion { plan } if self.through_program => Operation::Look { plan },
            Operation::UseAndStart { .. } if self.through_program => Operation::Use,
            operation => operation,
        };
        let keyed = !self.through_program && self.one_in(8) && is_repeatable(&operation);
        Call {
            id,
            through_program: self.through_program,
            by_person: self.through_program || !self.one_in(6),
            key: keyed.then(|| id.to_string()),
            operation,
        }
    }

    /// Takes note of an answer.
    pub fn learn(&mut self, call: &Call, answer: &Answer) {
        if call.key.is_some() && (matches!(answer, Answer::Unknown(_)) || self.one_in(3)) {
            self.repeat = Some(call.clone());
        }
        match answer {
            Answer::Done(receipt) => self.learn_done(call, receipt),
            Answer::Saw(plans) => {
                if call.operation == Operation::List {
                    self.plans.clear();
                }
                for seen in plans {
                    self.plans.insert(seen.plan, seen.stage.clone());
                }
            }
            Answer::Refused(refused) => {
                if let (Some(plan), Some(stage)) = (call.operation.plan(), &refused.stage) {
                    self.plans.insert(plan, stage.clone());
                }
            }
            Answer::Blocked | Answer::Failed(_) | Answer::Unknown(_) => {}
        }
    }

    fn learn_done(&mut self, call: &Call, receipt: &Receipt) {
        match &call.operation {
            Operation::Start { phase, .. } => self.learn_claim(*phase, receipt),
            Operation::UseAndStart { .. } => self.learn_claim(Phase::Strategize, receipt),
            Operation::OpenChangeset { plan, epoch, .. } => {
                let held = self
                    .claims
                    .iter_mut()
                    .find(|held| held.plan == *plan && held.epoch == *epoch);
                if let Some(held) = held {
                    held.changesets.extend(receipt.changeset);
                }
            }
            Operation::Complete { plan, .. }
            | Operation::Release { plan, .. }
            | Operation::Fail { plan, .. }
            | Operation::Ask { plan, .. }
            | Operation::Constrain { plan, .. } => {
                // Mostly it knows that this was the end of it.
                if !self.one_in(5) {
                    self.claims.retain(|held| held.plan != *plan);
                }
                self.expect_next(&call.operation);
            }
            Operation::AddRule { plan, rule, .. } => self.rules.push((*plan, rule.clone())),
            Operation::Use => {
                if let Some(plan) = receipt.plan {
                    self.plans.insert(plan, "strategize/queued".to_owned());
                }
            }
            operation => self.expect_next(operation),
        }
    }

    fn learn_claim(&mut self, phase: Phase, receipt: &Receipt) {
        let (Some(plan), Some(epoch)) = (receipt.plan, receipt.epoch) else {
            return;
        };
        self.plans.insert(plan, format!("{phase}/processing"));
        self.claims.push(Held {
            plan,
            phase,
            epoch,
            changesets: Vec::new(),
        });
        if self.claims.len() > REMEMBERED_CLAIMS {
            self.claims.remove(0);
        }
    }

    /// Where the plan stands now, unless somebody else was faster.
    fn expect_next(&mut self, operation: &Operation) {
        let Some((plan, stage)) = operation
            .plan()
            .zip(operation.plan().and_then(|plan| self.plans.get(&plan)))
        else {
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
        self.plans.insert(plan, next);
    }

    fn choose(&mut self) -> Operation {
        if self.plans.is_empty() && self.calls > 2 && self.random.bool() {
            return Operation::Use;
        }
        if self.plans.is_empty() || self.one_in(10) {
            return Operation::List;
        }
        let live = self.plans.values().filter(|stage| !is_final(stage)).count();
        if live < ENOUGH_PLANS && self.one_in(6) {
            return match self.random.bool() {
                true => Operation::Use,
                false => Operation::UseAndStart {
                    lease_ms: self.lease(),
                },
            };
        }
        if !self.claims.is_empty() && self.random.bool() {
            return self.as_holder();
        }
        let (plan, stage) = self.some_plan();
        if self.one_in(10) {
            return Operation::Look { plan };
        }
        if self.one_in(40) {
            return self.about_rules(plan);
        }
        if self.one_in(12) {
            return self.whatever(plan);
        }
        self.fitting(plan, &stage)
    }

    /// What a holder does.
    fn as_holder(&mut self) -> Operation {
        let held = self.claims[self.random.usize(..self.claims.len())].clone();
        let Held {
            plan, phase, epoch, ..
        } = held;
        let roll = self.random.u32(..20);
        match (roll, phase) {
            (0..=1, _) => Operation::Renew {
                plan,
                epoch,
                lease_ms: self.lease(),
            },
            (2, _) => Operation::Release { plan, epoch },
            (3, _) => Operation::Fail {
                plan,
                epoch,
                transient: self.random.bool(),
            },
            (4, _) => Operation::Ask {
                plan,
                epoch,
                patience_ms: self.one_in(2).then_some(50),
            },
            (5..=8, Phase::Execute) => Operation::OpenChangeset {
                plan,
                epoch,
                node: self.node(),
            },
            (9..=16, Phase::Execute) => Operation::RecordChange {
                plan,
                epoch,
                node: self.node(),
            },
            (17, Phase::Execute) => match held.changesets.last() {
                Some(changeset) => Operation::SealChangeset {
                    plan,
                    epoch,
                    changeset: *changeset,
                },
                None => Operation::OpenChangeset {
                    plan,
                    epoch,
                    node: self.node(),
                },
            },
            (5..=8, Phase::Apply) => Operation::PrepareApply { plan, epoch },
            (9, Phase::Apply) => Operation::WithdrawApply { plan, epoch },
            (10, Phase::Apply) => Operation::Constrain { plan, epoch },
            _ => Operation::Complete { plan, phase, epoch },
        }
    }

    /// What makes sense for a plan that stands there.
    fn fitting(&mut self, plan: PlanId, stage: &str) -> Operation {
        let (phase, state) = stage.split_once('/').unwrap_or((stage, ""));
        let phase: Phase = phase.parse().unwrap_or(Phase::Strategize);
        let roll = self.random.u32(..10);
        match (state, phase, roll) {
            ("queued", _, _) => Operation::Start {
                plan,
                phase,
                lease_ms: self.lease(),
            },
            ("processing", _, 0..=4) => Operation::Reclaim { plan },
            ("processing", _, 5..=7) => Operation::Look { plan },
            ("processing", _, _) => Operation::Start {
                plan,
                phase,
                lease_ms: self.lease(),
            },
            ("awaiting_input", _, 0..=6) => Operation::Answer { plan },
            ("awaiting_input", _, _) => Operation::ExpireQuestion { plan },
            ("complete", Phase::Strategize, 0) => Operation::Revise { plan },
            ("complete", Phase::Strategize, _) => Operation::ExecutePlan { plan },
            ("complete", _, 0) => Operation::Revise { plan },
            ("complete", _, 1) => Operation::Revert { plan },
            ("complete", _, 2) => Operation::Approve { plan },
            ("complete", _, _) => Operation::ApplyPlan { plan },
            ("errored" | "constrained", _, 0) => Operation::Cancel { plan },
            ("errored" | "constrained", _, 1) => Operation::Revise { plan },
            ("errored" | "constrained", _, 2) => Operation::Revert { plan },
            ("errored" | "constrained", _, _) => Operation::Retry { plan },
            _ => Operation::Look { plan },
        }
    }

    /// What makes no sense, most of the time.
    fn whatever(&mut self, plan: PlanId) -> Operation {
        let epoch = self.random.u64(..8);
        let phase = Phase::ALL[self.random.usize(..3)];
        match self.random.u32(..18) {
            0 => Operation::Start {
                plan,
                phase,
                lease_ms: self.lease(),
            },
            1 => Operation::Complete { plan, phase, epoch },
            2 => Operation::ExecutePlan { plan },
            3 => Operation::ApplyPlan { plan },
            4 => Operation::Approve { plan },
            5 => Operation::PrepareApply { plan, epoch },
            6 => Operation::WithdrawApply { plan, epoch },
            7 => Operation::Constrain { plan, epoch },
            8 => Operation::Renew {
                plan,
                epoch,
                lease_ms: self.lease(),
            },
            9 => Operation::Release { plan, epoch },
            10 => Operation::Fail {
                plan,
                epoch,
                transient: true,
            },
            11 => Operation::Ask {
                plan,
                epoch,
                patience_ms: None,
            },
            12 => Operation::Answer { plan },
            13 => Operation::Retry { plan },
            14 => Operation::Revise { plan },
            15 => Operation::Revert { plan },
            16 => Operation::RecordChange {
                plan,
                epoch,
                node: self.node(),
            },
            _ => Operation::Cancel { plan },
        }
    }

    fn about_rules(&mut self, plan: PlanId) -> Operation {
        if !self.rules.is_empty() && self.random.bool() {
            let (plan, rule) = self.rules.remove(self.random.usize(..self.rules.len()));
            return Operation::RemoveRule { plan, rule };
        }
        Operation::AddRule {
            plan,
            rule: format!("rule-{}", self.random.u32(..3)),
            holds: !self.one_in(3),
        }
    }

    fn some_plan(&mut self) -> (PlanId, String) {
        // Mostly one that still lives.
        let live: Vec<_> = self
            .plans
            .iter()
            .filter(|(_, stage)| !is_final(stage))
            .collect();
        let all: Vec<_> = self.plans.iter().collect();
        let among = if live.is_empty() || self.random.u32(..30) == 0 {
            all
        } else {
            live
        };
        let (plan, stage) = among[self.random.usize(..among.len())];
        (*plan, stage.clone())
    }

    fn node(&mut self) -> String {
        format!("node-{}", self.random.u32(..2))
    }

    /// Short, so that some holders are still alive when theirs has run out. The program counts in seconds.
    fn lease(&mut self) -> u32 {
        match self.through_program {
            true => 1000,
            false => 100 + 100 * self.random.u32(..10),
        }
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.random.u32(..many) == 0
    }
}

/// Is it worth a key? Reads are repeatable as they are, and rules have no key to be told by.
fn is_repeatable(operation: &Operation) -> bool {
    match operation {
        // Two commands; a key belongs to one.
        Operation::UseAndStart { .. } => false,
        Operation::RecordChange { .. } => true,
        other => other.leaves_an_event(),
    }
}

fn is_final(stage: &str) -> bool {
    stage.ends_with("/applied") || stage.ends_with("/cancelled")
}
