//! The 22 places a plan can be in, and the shortest way to each.

use planwright_plan as plan;

use plan::stage::{Landing, Work};
use plan::{Profile, Refusal, Stage, Verb};

use crate::world::{Lands, World, ada, worker};

macro_rules! spots {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Spot { $($name),* }

        impl Spot {
            /// Every spot, in the order of a plan's life.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

spots!(
    StrategizeQueued,
    StrategizeProcessing,
    StrategizeAwaitingInput,
    StrategizeComplete,
    StrategizeErrored,
    StrategizeCancelled,
    ExecuteQueued,
    ExecuteProcessing,
    ExecuteAwaitingInput,
    ExecuteComplete,
    ExecuteErrored,
    ExecuteCancelled,
    ApplyQueued,
    ApplyQueuedPrepared,
    ApplyProcessing,
    ApplyProcessingPrepared,
    ApplyAwaitingInput,
    ApplyAwaitingInputPrepared,
    ApplyErrored,
    ApplyConstrained,
    ApplyApplied,
    ApplyCancelled,
);

/// Who takes a plan to its spot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// A person does everything.
    Person,
    /// A worker does what it may unasked, a person only the rest.
    WorkerFirst,
}

impl Spot {
    /// Where a plan is. Matches every variant, so that a new one has to get a spot.
    pub fn of(stage: &Stage) -> Self {
        match stage {
            Stage::Strategize(work) => match work {
                Work::Queued(_) => Self::StrategizeQueued,
                Work::Processing(_) => Self::StrategizeProcessing,
                Work::AwaitingInput(_) => Self::StrategizeAwaitingInput,
                Work::Complete => Self::StrategizeComplete,
                Work::Errored(_) => Self::StrategizeErrored,
                Work::Cancelled(_) => Self::StrategizeCancelled,
            },
            Stage::Execute(work) => match work {
                Work::Queued(_) => Self::ExecuteQueued,
                Work::Processing(_) => Self::ExecuteProcessing,
                Work::AwaitingInput(_) => Self::ExecuteAwaitingInput,
                Work::Complete => Self::ExecuteComplete,
                Work::Errored(_) => Self::ExecuteErrored,
                Work::Cancelled(_) => Self::ExecuteCancelled,
            },
            Stage::Apply(landing) => match landing {
                Landing::Queued(_, None) => Self::ApplyQueued,
                Landing::Queued(_, Some(_)) => Self::ApplyQueuedPrepared,
                Landing::Processing(_, None) => Self::ApplyProcessing,
                Landing::Processing(_, Some(_)) => Self::ApplyProcessingPrepared,
                Landing::AwaitingInput(_, None) => Self::ApplyAwaitingInput,
                Landing::AwaitingInput(_, Some(_)) => Self::ApplyAwaitingInputPrepared,
                Landing::Errored(_) => Self::ApplyErrored,
                Landing::Constrained(_) => Self::ApplyConstrained,
                Landing::Applied(_) => Self::ApplyApplied,
                Landing::Cancelled(_) => Self::ApplyCancelled,
            },
        }
    }

    /// A plan with targets under `review`, taken here by a person.
    pub fn world(self) -> World {
        self.reach(Profile::Review, Lands::OnTargets, Driver::Person)
    }

    /// A plan taken here by real commands from its use.
    pub fn reach(self, profile: Profile, lands: Lands, driver: Driver) -> World {
        let world = match self.step_before() {
            None => World::new(profile, lands),
            Some((before, verb)) => {
                let mut world = before.reach(profile, lands, driver);
                drive(&mut world, verb, driver);
                world
            }
        };
        assert_eq!(
            Self::of(&world.plan().stage),
            self,
            "{self:?} was not reached"
        );
        world
    }

    fn step_before(self) -> Option<(Self, Verb)> {
        Some(match self {
            Self::StrategizeQueued => return None,
            Self::StrategizeProcessing => (Self::StrategizeQueued, Verb::StartStrategize),
            Self::StrategizeAwaitingInput => (Self::StrategizeProcessing, Verb::Ask),
            Self::StrategizeComplete => (Self::StrategizeProcessing, Verb::CompleteStrategize),
            Self::StrategizeErrored => (Self::StrategizeProcessing, Verb::Fail),
            Self::StrategizeCancelled => (Self::StrategizeProcessing, Verb::Cancel),
            Self::ExecuteQueued => (Self::StrategizeComplete, Verb::ExecutePlan),
            Self::ExecuteProcessing => (Self::ExecuteQueued, Verb::StartExecute),
            Self::ExecuteAwaitingInput => (Self::ExecuteProcessing, Verb::Ask),
            Self::ExecuteComplete => (Self::ExecuteProcessing, Verb::CompleteExecute),
            Self::ExecuteErrored => (Self::ExecuteProcessing, Verb::Fail),
            Self::ExecuteCancelled => (Self::ExecuteProcessing, Verb::Cancel),
            Self::ApplyQueued => (Self::ExecuteComplete, Verb::ApplyPlan),
            Self::ApplyQueuedPrepared => (Self::ApplyProcessingPrepared, Verb::Release),
            Self::ApplyProcessing => (Self::ApplyQueued, Verb::StartApply),
            Self::ApplyProcessingPrepared => (Self::ApplyProcessing, Verb::PrepareApply),
            Self::ApplyAwaitingInput => (Self::ApplyProcessing, Verb::Ask),
            Self::ApplyAwaitingInputPrepared => (Self::ApplyProcessingPrepared, Verb::Ask),
            Self::ApplyErrored => (Self::ApplyProcessing, Verb::Fail),
            Self::ApplyConstrained => (Self::ApplyProcessing, Verb::Constrain),
            Self::ApplyApplied => (Self::ApplyProcessingPrepared, Verb::CompleteApply),
            Self::ApplyCancelled => (Self::ApplyProcessing, Verb::Cancel),
        })
    }
}

/// Carries out a verb; a result is signed first where it has to be.
fn drive(world: &mut World, verb: Verb, driver: Driver) {
    let plan = world.plan();
    if verb == Verb::ApplyPlan && plan.has_targets() && !plan.lands_unasked() {
        world.person(Verb::Approve);
    }
    let caller = match driver {
        Driver::Person => ada(),
        Driver::WorkerFirst => match world.decide(&worker(), world.command(verb)) {
            Err(Refusal::NeedsPerson { .. }) => ada(),
            Ok(_) | Err(_) => worker(),
        },
    };
    world.done_by(&caller, verb);
}
