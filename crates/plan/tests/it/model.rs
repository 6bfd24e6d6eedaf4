//! A bounded model check: explores every order of actions up to a depth. Two workers crash, pause
//! and lose answers; a person intervenes; any lease can be reclaimed at any time.
//!
//! The rules under test are the real ones: each step calls [`plan::decide`] on the current rows.
//! The model adds what they protect: a git target, moved by workers that believe they are allowed
//! to. Time stands still and every lease has expired, so that a reclaim is always possible.

use std::collections::{BTreeSet, HashSet};

use planwright_plan as plan;

use plan::{Caller, Decision, Epoch, Event, Phase, Plan, ReceiptOutcome, Refusal, Span, Verb};

use crate::invariants::check_invariants_without_log;
use crate::spot::Spot;
use crate::world::{CommandInput, PlanWorld, ada};

const OWNERS: [&str; 2] = ["w1", "w2"];

/// What a worker believes about its plan. Only the worker itself updates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WorkerBelief {
    epoch: Epoch,
    phase: Phase,
    /// It knows of a stored intent, so it can move the target.
    prepared: bool,
}

/// The single ref that the plan lands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ModelTarget {
    Old,
    New,
    /// The change was there and was then removed.
    Removed,
}

#[derive(Debug, Clone)]
struct ModelState {
    world: PlanWorld,
    workers: [Option<WorkerBelief>; 2],
    target: ModelTarget,
    /// The fence ref. Git refuses to move the target for any other epoch.
    fence: Epoch,
    /// Accepted results, by execute entry.
    taken: BTreeSet<(Phase, u32)>,
}

/// Whether the caller receives the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerDelivery {
    Delivered,
    Lost,
}

#[derive(Debug, Clone, Copy)]
enum ModelAction {
    Worker(usize, Verb, AnswerDelivery),
    /// A person's command, with its variant.
    Person(Verb, usize),
    Reclaim,
    /// A worker crashes and forgets everything.
    Crash(usize),
    TakeFence(usize),
    Land(usize),
    /// The change is removed from the target from outside.
    Remove,
}

/// Everything that decisions depend on. Row counters and timestamps are left out.
#[derive(PartialEq, Eq, Hash)]
struct ModelStateKey {
    spot: Spot,
    vouched: bool,
    holder: Option<(String, Epoch)>,
    epoch: Epoch,
    attempts: (u32, u32),
    entries: Vec<u32>,
    asked: bool,
    signed: bool,
    done: Vec<(Verb, Option<Epoch>)>,
    workers: [Option<WorkerBelief>; 2],
    target: ModelTarget,
    fence: Epoch,
    taken: BTreeSet<(Phase, u32)>,
}

impl ModelState {
    fn start_at(spot: Spot) -> Self {
        let mut world = spot.default_world();
        // The model does not explore rules.
        world.facts.rules = plan::invariant::RuleBook::default();
        if world.plan().approval().is_some() {
            world.edit_plan(|fields| fields["approval"]["rules"] = serde_json::json!([]));
        }
        world.facts.action = None;
        world.log.clear();
        let epoch = world.plan().epoch();
        Self {
            world,
            workers: [None; 2],
            target: ModelTarget::Old,
            fence: epoch,
            taken: BTreeSet::new(),
        }
    }

    fn plan(&self) -> &Plan {
        self.world.plan()
    }

    fn state_key(&self) -> ModelStateKey {
        let plan = self.plan();
        let holder = plan.stage().holder();
        ModelStateKey {
            spot: Spot::of_stage(plan.stage()),
            vouched: is_vouched(plan),
            holder: holder.map(|holder| (holder.owner.clone(), holder.epoch)),
            epoch: plan.epoch(),
            attempts: (plan.attempt(), plan.unattended_attempts()),
            entries: plan.entries().values().copied().collect(),
            asked: plan.asked(),
            signed: plan.valid_approval().is_some(),
            done: (self.world.facts.completions.iter())
                .filter_map(|(verb, done)| Some((*verb, done.as_ref()?.epoch)))
                .collect(),
            workers: self.workers,
            target: self.target,
            fence: self.fence,
            taken: self.taken.clone(),
        }
    }

    fn command_input(&self, worker: usize, variant: usize) -> CommandInput {
        CommandInput {
            epoch: self.workers[worker].map_or(Epoch(0), |belief| belief.epoch),
            owner: OWNERS[worker],
            lease: Span(0),
            variant,
            ..self.world.default_input()
        }
    }

    /// Returns the checked state after an action. `None` if the action is impossible or changes
    /// nothing.
    fn after_action(&self, action: ModelAction) -> Option<Self> {
        match action {
            ModelAction::Worker(worker, verb, delivery) => {
                self.after_worker(worker, verb, delivery)
            }
            ModelAction::Person(verb, variant) => {
                let decision = self
                    .world
                    .decide(&ada(), self.world.command_variant(verb, variant));
                Some(self.after_commit(verb, None, &decision.ok()?))
            }
            ModelAction::Reclaim => {
                let command = self.world.command_variant(Verb::Reclaim, 1);
                let decision = self.world.decide(&Caller::Worker("other".into()), command);
                Some(self.after_commit(Verb::Reclaim, None, &decision.ok()?))
            }
            ModelAction::Crash(worker) => {
                self.workers[worker]?;
                let mut next = self.clone();
                next.workers[worker] = None;
                Some(next)
            }
            ModelAction::TakeFence(worker) => {
                let epoch = self.workers[worker]?.epoch;
                (epoch > self.fence).then(|| Self {
                    fence: epoch,
                    ..self.clone()
                })
            }
            ModelAction::Land(worker) => {
                let belief = self.workers[worker]?;
                let taken = self.fence == belief.epoch && self.target == ModelTarget::Old;
                (belief.prepared && taken).then(|| Self {
                    target: ModelTarget::New,
                    ..self.clone()
                })
            }
            ModelAction::Remove => (self.target == ModelTarget::New).then(|| Self {
                target: ModelTarget::Removed,
                ..self.clone()
            }),
        }
    }

    fn after_worker(&self, worker: usize, verb: Verb, delivery: AnswerDelivery) -> Option<Self> {
        let caller = Caller::Worker(OWNERS[worker].into());
        let command = self
            .world
            .command_with(verb, self.command_input(worker, 0))?;
        let epoch = command.epoch().map(|epoch| (epoch, worker));
        let answer = self.world.decide(&caller, command);
        let mut next = match &answer {
            Ok(decision) => self.after_commit(verb, epoch, decision),
            Err(_) if delivery == AnswerDelivery::Lost => return None,
            Err(_) => self.clone(),
        };
        match delivery {
            AnswerDelivery::Delivered => {
                next.workers[worker] = self.belief_after(worker, verb, &answer)
            }
            // After asking to withdraw, a worker must not land until it learns of an intent again.
            // This is the only thing the rules leave to the worker.
            AnswerDelivery::Lost if verb == Verb::WithdrawApply => {
                next.workers[worker].as_mut()?.prepared = false;
            }
            AnswerDelivery::Lost => {}
        }
        Some(next)
    }

    /// Checks a decision and returns the state after it.
    fn after_commit(&self, verb: Verb, by: Option<(Epoch, usize)>, decision: &Decision) -> Self {
        let mut next = self.clone();
        let before = self.plan();
        let events = decision.plans.iter().flat_map(|change| &change.events);
        for recorded in events.filter(|one| one.plan == before.id()) {
            next.check_event(before, &recorded.event);
        }
        if let Some((epoch, worker)) = by
            && !(decision.plans.is_empty() && decision.rows.is_empty())
        {
            let holder = before.stage().holder().expect("only a holder commits");
            assert_eq!(holder.epoch, epoch, "a fenced holder committed {verb}");
            assert_eq!(holder.owner, OWNERS[worker]);
        }
        if before.is_prepared() && decision.receipt.outcome == ReceiptOutcome::Done {
            let allowed = [
                Verb::Release,
                Verb::Reclaim,
                Verb::StartApply,
                Verb::WithdrawApply,
                Verb::CompleteApply,
                Verb::Ask,
                Verb::Answer,
            ];
            assert!(
                allowed.contains(&verb),
                "{verb} past the point of no return"
            );
        }
        next.world.commit(decision);
        next.world.log.clear();
        // Ids are made from this counter. Reset it so that the order of commits does not
        // distinguish states.
        next.world.commits = 1;
        next
    }

    fn check_event(&mut self, before: &Plan, event: &Event) {
        let mut taken = |phase| {
            let entry = (phase, before.entry_number(phase));
            assert!(self.taken.insert(entry), "{entry:?} was taken twice");
        };
        match event {
            Event::Claimed { epoch, .. } => {
                assert!(*epoch > before.epoch(), "epoch {epoch} had a holder");
            }
            Event::StrategizeCompleted { .. } => taken(Phase::Strategize),
            Event::ExecuteCompleted { .. } => taken(Phase::Execute),
            Event::Landed { .. } => taken(Phase::Apply),
            Event::ApplyPrepared { .. } => {
                assert_ne!(self.target, ModelTarget::New, "it would land twice");
                // The new intent starts from the current target.
                self.target = ModelTarget::Old;
            }
            _ => {}
        }
    }

    fn belief_after(
        &self,
        worker: usize,
        verb: Verb,
        answer: &Result<Decision, Refusal>,
    ) -> Option<WorkerBelief> {
        let belief = self.workers[worker];
        let Ok(decision) = answer else {
            // A refused worker reads the state again before it continues.
            return None;
        };
        match verb {
            Verb::StartStrategize | Verb::StartExecute | Verb::StartApply => Some(WorkerBelief {
                epoch: decision.receipt.epoch?,
                phase: self.plan().phase(),
                prepared: self.plan().is_prepared(),
            }),
            Verb::PrepareApply => belief.map(|belief| WorkerBelief {
                prepared: true,
                ..belief
            }),
            Verb::WithdrawApply => belief.map(|belief| WorkerBelief {
                prepared: false,
                ..belief
            }),
            _ => None,
        }
    }

    /// Returns everything that workers, people and the outside could do next.
    fn possible_actions(&self) -> Vec<ModelAction> {
        let mut actions = vec![ModelAction::Reclaim, ModelAction::Remove];
        for worker in 0..self.workers.len() {
            let Some(belief) = self.workers[worker] else {
                let start = match self.plan().phase() {
                    Phase::Strategize => Verb::StartStrategize,
                    Phase::Execute => Verb::StartExecute,
                    Phase::Apply => Verb::StartApply,
                };
                actions.push(ModelAction::Worker(
                    worker,
                    start,
                    AnswerDelivery::Delivered,
                ));
                actions.push(ModelAction::Worker(worker, start, AnswerDelivery::Lost));
                continue;
            };
            actions.extend([
                ModelAction::Crash(worker),
                ModelAction::TakeFence(worker),
                ModelAction::Land(worker),
            ]);
            for verb in self.verbs_for_belief(belief) {
                actions.push(ModelAction::Worker(worker, verb, AnswerDelivery::Delivered));
                actions.push(ModelAction::Worker(worker, verb, AnswerDelivery::Lost));
            }
        }
        for verb in [
            Verb::ExecutePlan,
            Verb::Approve,
            Verb::ApplyPlan,
            Verb::Retry,
            Verb::Revise,
            Verb::Revert,
            Verb::Cancel,
        ] {
            actions.push(ModelAction::Person(verb, 0));
        }
        let answers = if self.plan().is_prepared() {
            0..3
        } else {
            3..4
        };
        actions.extend(answers.map(|variant| ModelAction::Person(Verb::Answer, variant)));
        actions
    }

    /// Returns what a correct worker submits, given its belief and the target.
    fn verbs_for_belief(&self, belief: WorkerBelief) -> Vec<Verb> {
        let mut verbs = vec![Verb::Release];
        match belief.phase {
            Phase::Strategize => verbs.extend([Verb::CompleteStrategize, Verb::Fail, Verb::Ask]),
            Phase::Execute => verbs.extend([Verb::CompleteExecute, Verb::Fail, Verb::Ask]),
            // The target is not touched before the fence holds this worker's epoch.
            Phase::Apply if self.fence != belief.epoch => {}
            Phase::Apply if !belief.prepared => {
                verbs.extend([Verb::PrepareApply, Verb::Constrain, Verb::Fail]);
            }
            Phase::Apply => verbs.extend(match self.target {
                _ if is_vouched(self.plan()) => vec![Verb::CompleteApply],
                ModelTarget::Old => vec![Verb::WithdrawApply],
                ModelTarget::New => vec![Verb::CompleteApply],
                ModelTarget::Removed => vec![Verb::Ask],
            }),
        }
        verbs
    }

    fn check_state(&self) {
        check_invariants_without_log(&self.world);
        let plan = self.plan();
        let spot = Spot::of_stage(plan.stage());
        match self.target {
            ModelTarget::New => assert!(
                plan.is_prepared() || spot == Spot::ApplyApplied,
                "the change is in the target, the plan in {}",
                plan.stage()
            ),
            ModelTarget::Old => assert_ne!(spot, Spot::ApplyApplied, "applied without the change"),
            ModelTarget::Removed => {}
        }
    }
}

fn is_vouched(plan: &Plan) -> bool {
    plan.stage()
        .intent()
        .is_some_and(|intent| intent.vouched.is_some())
}

/// Explores all states up to a depth. Returns their number and the spots they reach.
fn explore_states(
    start: ModelState,
    depth: usize,
    inside: impl Fn(&Plan) -> bool,
) -> (usize, BTreeSet<Spot>) {
    let mut known = HashSet::from([start.state_key()]);
    let mut spots = BTreeSet::new();
    let mut paths = StatePaths::default();
    let mut level = vec![(start, None)];
    for _ in 0..depth {
        let mut next_level = Vec::new();
        for (state, way) in level {
            spots.insert(Spot::of_stage(state.plan().stage()));
            if !inside(state.plan()) {
                continue;
            }
            for action in state.possible_actions() {
                paths.here = Some((way, action));
                let Some(next) = state.after_action(action) else {
                    continue;
                };
                if known.insert(next.state_key()) {
                    next.check_state();
                    next_level.push((next, Some(paths.record_path())));
                }
            }
        }
        level = next_level;
    }
    paths.here = None;
    spots.extend(
        level
            .iter()
            .map(|(state, _)| Spot::of_stage(state.plan().stage())),
    );
    (known.len(), spots)
}

/// The path to each state, printed when a check fails.
#[derive(Default)]
struct StatePaths {
    steps: Vec<(Option<usize>, ModelAction)>,
    here: Option<(Option<usize>, ModelAction)>,
}

impl StatePaths {
    fn record_path(&mut self) -> usize {
        self.steps.extend(self.here);
        self.steps.len() - 1
    }
}

impl Drop for StatePaths {
    fn drop(&mut self) {
        let mut actions = Vec::new();
        let mut here = self.here;
        while let Some((before, action)) = here {
            actions.push(format!("{action:?}"));
            here = before.map(|index| self.steps[index]);
        }
        actions.reverse();
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failing test has to say how")]
            {
                eprintln!("after {}", actions.join(", "));
            }
        }
    }
}

#[test]
fn model_of_two_workers_and_a_person_during_work() {
    let (states, spots) = explore_states(ModelState::start_at(Spot::StrategizeQueued), 8, |plan| {
        plan.phase() != Phase::Apply
    });
    assert!(states > 20_000, "{states}");
    let all = Spot::ALL
        .iter()
        .filter(|spot| **spot < Spot::ApplyQueued)
        .all(|spot| spots.contains(spot));
    assert!(all, "{spots:?}");
}

#[test]
fn model_of_two_workers_and_a_person_during_landing() {
    let (states, spots) = explore_states(ModelState::start_at(Spot::ApplyQueued), 10, |plan| {
        plan.phase() == Phase::Apply && !plan.stage().is_final()
    });
    assert!(states > 20_000, "{states}");
    // Questions before the point of no return are covered by the other model.
    let all = Spot::ALL
        .iter()
        .filter(|spot| **spot >= Spot::ApplyQueued && **spot != Spot::ApplyAwaitingInput)
        .all(|spot| spots.contains(spot));
    assert!(all, "{spots:?}");
}
