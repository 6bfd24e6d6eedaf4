//! Random walks: sequences of valid and invalid commands by people and workers.
//!
//! A walk is generated before its plan is known, so that proptest can shrink it. A move therefore
//! selects its command by what the plan allows, or by verb.

use planwright_plan as plan;

use plan::decide::available_verbs;
use plan::{Caller, Command, Decision, Epoch, Event, Phase, Plan, Profile, Refusal, Span, Verb};
use proptest::prelude::*;
use proptest::sample::select;

use crate::spot::{Spot, StepCaller};
use crate::world::{
    ANSWER_TIMEOUT, CommandInput, JudgementVariant, LEASE_LENGTH, LandingSetup, PlanWorld, ada,
};

/// One step of a walk, resolved to a command when its plan is known.
#[derive(Debug, Clone)]
pub struct WalkMove {
    pick: CommandPick,
    by: MoveCaller,
    epoch: EpochPick,
    judged: JudgementVariant,
    wait: Span,
    variant: usize,
}

#[derive(Debug, Clone, Copy)]
enum CommandPick {
    /// One of the plan's available verbs, except `cancel`, which would end most walks.
    Hint(usize),
    /// A verb that is accepted but not listed as available.
    Beside(usize),
    Verb(Verb),
}

#[derive(Debug, Clone, Copy)]
enum MoveCaller {
    Ada,
    Worker(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum EpochPick {
    Right,
    Stale(u64),
    Future(u64),
}

#[derive(Debug, Clone)]
pub struct RandomWalk {
    pub profile: Profile,
    pub lands: LandingSetup,
    /// Where the walk starts. Late spots are hard to reach from the beginning.
    pub from: Spot,
    pub moves: Vec<WalkMove>,
}

/// A move and its outcome.
pub struct WalkStep<'a> {
    pub before: &'a PlanWorld,
    pub after: &'a PlanWorld,
    pub caller: Caller,
    pub command: Command,
    pub judged: JudgementVariant,
    pub answer: Result<Decision, Refusal>,
}

impl WalkStep<'_> {
    pub fn plan_before(&self) -> &Plan {
        self.before.plan()
    }

    pub fn plan(&self) -> &Plan {
        self.after.plan()
    }

    /// Returns the events that the step added.
    pub fn new_events(&self) -> impl Iterator<Item = &Event> {
        let since = self.before.log.len();
        self.after.log[since..].iter().map(|one| &one.event)
    }
}

/// Returns verbs that are accepted in this state but not listed as available.
fn verbs_beside_hints(world: &PlanWorld) -> Vec<Verb> {
    let plan = world.plan();
    if plan.stage().question().is_some() {
        return vec![Verb::ExpireQuestion];
    }
    match (plan.stage().holder(), plan.phase()) {
        (Some(_), Phase::Execute) if world.facts.changesets.is_empty() => {
            vec![Verb::OpenChangeset, Verb::Reclaim]
        }
        (Some(_), Phase::Execute) => vec![
            Verb::OpenChangeset,
            Verb::RecordChange,
            Verb::SealChangeset,
            Verb::Renew,
            Verb::Reclaim,
        ],
        (Some(_), Phase::Strategize | Phase::Apply) => vec![Verb::Renew, Verb::Reclaim],
        (None, _) => vec![Verb::Waive],
    }
}

pub fn any_walk() -> impl Strategy<Value = RandomWalk> {
    let profile = select(&Profile::ALL[..]);
    let lands = prop_oneof![
        4 => Just(LandingSetup::OnTargets),
        1 => Just(LandingSetup::ReadOnly),
        1 => Just(LandingSetup::Projectless),
    ];
    let from = prop_oneof![
        1 => Just(Spot::StrategizeQueued),
        1 => Just(Spot::ExecuteProcessing),
        3 => select(Spot::ALL),
    ];
    let moves = prop::collection::vec(any_move(), 10..50);
    (profile, lands, from, moves).prop_map(|(profile, lands, from, moves)| RandomWalk {
        profile,
        lands,
        from,
        moves,
    })
}

fn any_move() -> impl Strategy<Value = WalkMove> {
    let of_a_plan = Verb::ALL
        .iter()
        .copied()
        .filter(|verb| {
            let world = Spot::StrategizeQueued.default_world();
            world.command_with(*verb, world.default_input()).is_some()
        })
        .collect::<Vec<_>>();
    // Prefer the first available verb, which moves the plan forward. Otherwise most walks would end
    // early.
    let pick = prop_oneof![
        6 => Just(CommandPick::Hint(0)),
        4 => (1_usize..5).prop_map(CommandPick::Hint),
        4 => select(of_a_plan).prop_map(CommandPick::Verb),
        5 => (0_usize..5).prop_map(CommandPick::Beside),
    ];
    let by = prop_oneof![
        3 => Just(MoveCaller::Ada),
        2 => Just(MoveCaller::Worker("w1")),
        1 => Just(MoveCaller::Worker("w2")),
    ];
    let epoch = prop_oneof![
        8 => Just(EpochPick::Right),
        1 => (1_u64..4).prop_map(EpochPick::Stale),
        1 => (1_u64..4).prop_map(EpochPick::Future),
    ];
    let judged =
        prop_oneof![8 => Just(JudgementVariant::Held), 2 => select(&JudgementVariant::ALL[..])];
    let wait = prop_oneof![
        4 => Just(Span::from_seconds(1)),
        1 => Just(LEASE_LENGTH),
        3 => Just(ANSWER_TIMEOUT),
        // Clocks can also go backwards.
        1 => Just(Span::from_seconds(-100)),
    ];
    let variant = prop_oneof![3 => Just(0_usize), 2 => 1_usize..6];
    (pick, by, epoch, judged, wait, variant).prop_map(|(pick, by, epoch, judged, wait, variant)| {
        WalkMove {
            pick,
            by,
            epoch,
            judged,
            wait,
            variant,
        }
    })
}

/// Runs a walk and calls `see` after every step.
pub fn run_walk(walk: &RandomWalk, mut see: impl FnMut(&WalkStep<'_>)) -> PlanWorld {
    let mut world = walk
        .from
        .reach_world(walk.profile, walk.lands, StepCaller::WorkerFirst);
    for one in &walk.moves {
        world.advance_clock(one.wait);
        let Some((caller, command)) = command_for_move(&world, one) else {
            continue;
        };
        let before = world.clone();
        let answer = world.submit(&caller, command.clone());
        see(&WalkStep {
            before: &before,
            after: &world,
            caller,
            command,
            judged: one.judged,
            answer,
        });
    }
    world
}

fn command_for_move(world: &PlanWorld, one: &WalkMove) -> Option<(Caller, Command)> {
    let verb = match one.pick {
        CommandPick::Verb(verb) => verb,
        CommandPick::Beside(index) => {
            let beside = verbs_beside_hints(world);
            beside[index % beside.len()]
        }
        CommandPick::Hint(index) => {
            let mut hints = available_verbs(world.plan());
            hints.retain(|verb| *verb != Verb::Cancel);
            *hints.get(index % hints.len().max(1))?
        }
    };
    let current = world.plan().epoch().0;
    let epoch = match one.epoch {
        EpochPick::Right => current,
        EpochPick::Stale(by) => current.checked_sub(by)?,
        EpochPick::Future(by) => current + by,
    };
    let (caller, owner) = match one.by {
        MoveCaller::Ada => (ada(), "ada"),
        MoveCaller::Worker(owner) => (Caller::Worker(owner.into()), owner),
    };
    let input = CommandInput {
        epoch: Epoch(epoch),
        judged: one.judged,
        owner,
        lease: LEASE_LENGTH,
        variant: one.variant,
    };
    Some((caller, world.command_with(verb, input)?))
}
