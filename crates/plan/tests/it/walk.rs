//! Random walks: sequences of commands, right and wrong, by people and workers.
//!
//! A walk is made before the plan it meets is known, so that it can be made smaller when a property
//! fails: a move names its command by what the plan is open to, or by its verb.

use planwright_plan as plan;

use plan::decide::options;
use plan::{Caller, Command, Decision, Epoch, Event, Phase, Plan, Profile, Refusal, Span, Verb};
use proptest::prelude::*;
use proptest::sample::select;

use crate::spot::{Driver, Spot};
use crate::world::{How, Judged, LEASE, Lands, PATIENCE, World, ada};

/// One command to be, before the plan it meets is known.
#[derive(Debug, Clone)]
pub struct Move {
    pick: Pick,
    by: By,
    epoch: Authority,
    judged: Judged,
    wait: Span,
    variant: usize,
}

#[derive(Debug, Clone, Copy)]
enum Pick {
    /// One of the verbs the plan is said to be open to, but for `cancel`, which ends most walks.
    Hint(usize),
    /// One that is carried out beside them.
    Beside(usize),
    Verb(Verb),
}

#[derive(Debug, Clone, Copy)]
enum By {
    Ada,
    Worker(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum Authority {
    Right,
    Stale(u64),
    Future(u64),
}

#[derive(Debug, Clone)]
pub struct Walk {
    pub profile: Profile,
    pub lands: Lands,
    /// Where it begins: the later places are far from home.
    pub from: Spot,
    pub moves: Vec<Move>,
}

/// A move as it came out.
pub struct Step<'a> {
    pub before: &'a World,
    pub after: &'a World,
    pub caller: Caller,
    pub command: Command,
    pub judged: Judged,
    pub answer: Result<Decision, Refusal>,
}

impl Step<'_> {
    pub fn old(&self) -> &Plan {
        self.before.plan()
    }

    pub fn plan(&self) -> &Plan {
        self.after.plan()
    }

    /// What was added to the plan's log.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        let since = self.before.log.len();
        self.after.log[since..].iter().map(|one| &one.event)
    }
}

/// Verbs that are no hints and yet carried out where the plan is.
fn beside(world: &World) -> Vec<Verb> {
    let plan = world.plan();
    if plan.stage.question().is_some() {
        return vec![Verb::ExpireQuestion];
    }
    match (plan.stage.holder(), plan.phase()) {
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

pub fn walks() -> impl Strategy<Value = Walk> {
    let profile = select(&Profile::ALL[..]);
    let lands = prop_oneof![
        4 => Just(Lands::OnTargets),
        1 => Just(Lands::ReadOnly),
        1 => Just(Lands::Projectless),
    ];
    let from = prop_oneof![
        1 => Just(Spot::StrategizeQueued),
        1 => Just(Spot::ExecuteProcessing),
        3 => select(Spot::ALL),
    ];
    let moves = prop::collection::vec(moves(), 10..50);
    (profile, lands, from, moves).prop_map(|(profile, lands, from, moves)| Walk {
        profile,
        lands,
        from,
        moves,
    })
}

fn moves() -> impl Strategy<Value = Move> {
    let of_a_plan = Verb::ALL
        .iter()
        .copied()
        .filter(|verb| {
            let world = Spot::StrategizeQueued.world();
            world.command_with(*verb, world.usual()).is_some()
        })
        .collect::<Vec<_>>();
    // The first hint leads on; otherwise most walks would end before they got anywhere.
    let pick = prop_oneof![
        6 => Just(Pick::Hint(0)),
        4 => (1_usize..5).prop_map(Pick::Hint),
        4 => select(of_a_plan).prop_map(Pick::Verb),
        5 => (0_usize..5).prop_map(Pick::Beside),
    ];
    let by = prop_oneof![
        3 => Just(By::Ada),
        2 => Just(By::Worker("w1")),
        1 => Just(By::Worker("w2")),
    ];
    let epoch = prop_oneof![
        8 => Just(Authority::Right),
        1 => (1_u64..4).prop_map(Authority::Stale),
        1 => (1_u64..4).prop_map(Authority::Future),
    ];
    let judged = prop_oneof![8 => Just(Judged::Held), 2 => select(&Judged::ALL[..])];
    let wait = prop_oneof![
        4 => Just(Span::seconds(1)),
        1 => Just(LEASE),
        3 => Just(PATIENCE),
        // Clocks are set back, too.
        1 => Just(Span::seconds(-100)),
    ];
    let variant = prop_oneof![3 => Just(0_usize), 2 => 1_usize..6];
    (pick, by, epoch, judged, wait, variant).prop_map(|(pick, by, epoch, judged, wait, variant)| {
        Move {
            pick,
            by,
            epoch,
            judged,
            wait,
            variant,
        }
    })
}

/// Goes along, and shows every step.
pub fn go(walk: &Walk, mut see: impl FnMut(&Step<'_>)) -> World {
    let mut world = walk
        .from
        .reach(walk.profile, walk.lands, Driver::WorkerFirst);
    for one in &walk.moves {
        world.wait(one.wait);
        let Some((caller, command)) = command_of(&world, one) else {
            continue;
        };
        let before = world.clone();
        let answer = world.submit(&caller, command.clone());
        see(&Step {
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

fn command_of(world: &World, one: &Move) -> Option<(Caller, Command)> {
    let verb = match one.pick {
        Pick::Verb(verb) => verb,
        Pick::Beside(index) => {
            let beside = beside(world);
            beside[index % beside.len()]
        }
        Pick::Hint(index) => {
            let mut hints = options(world.plan());
            hints.retain(|verb| *verb != Verb::Cancel);
            *hints.get(index % hints.len().max(1))?
        }
    };
    let current = world.plan().epoch.0;
    let epoch = match one.epoch {
        Authority::Right => current,
        Authority::Stale(by) => current.checked_sub(by)?,
        Authority::Future(by) => current + by,
    };
    let (caller, owner) = match one.by {
        By::Ada => (ada(), "ada"),
        By::Worker(owner) => (Caller::Worker(owner.into()), owner),
    };
    let how = How {
        epoch: Epoch(epoch),
        judged: one.judged,
        owner,
        lease: LEASE,
        variant: one.variant,
    };
    Some((caller, world.command_with(verb, how)?))
}
