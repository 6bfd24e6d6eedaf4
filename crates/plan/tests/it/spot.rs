//! The 22 places a plan can be in, and the shortest way to each.

use planwright_plan as plan;

use plan::stage::{ApplyState, WorkState};
use plan::{PlanStage, Profile, Refusal, Verb};

use crate::world::{LandingSetup, PlanWorld, ada, worker};

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
pub enum PlanDriver {
    /// A person does everything.
    Person,
    /// A worker does what it may unasked, a person only the rest.
    WorkerFirst,
}

impl Spot {
    /// Where a plan is. Matches every variant, so that a new one has to get a spot.
    pub fn of_stage(stage: &PlanStage) -> Self {
        match stage {
            PlanStage::Strategize(work) => match work {
                WorkState::Queued(_) => Self::StrategizeQueued,
                WorkState::Processing(_) => Self::StrategizeProcessing,
                WorkState::AwaitingInput(_) => Self::StrategizeAwaitingInput,
                WorkState::Complete => Self::StrategizeComplete,
                WorkState::Errored(_) => Self::StrategizeErrored,
                WorkState::Cancelled(_) => Self::StrategizeCancelled,
            },
            PlanStage::Execute(work) => match work {
                WorkState::Queued(_) => Self::ExecuteQueued,
                WorkState::Processing(_) => Self::ExecuteProcessing,
                WorkState::AwaitingInput(_) => Self::ExecuteAwaitingInput,
                WorkState::Complete => Self::ExecuteComplete,
                WorkState::Errored(_) => Self::ExecuteErrored,
                WorkState::Cancelled(_) => Self::ExecuteCancelled,
            },
            PlanStage::Apply(landing) => match landing {
                ApplyState::Queued(_, None) => Self::ApplyQueued,
                ApplyState::Queued(_, Some(_)) => Self::ApplyQueuedPrepared,
                ApplyState::Processing(_, None) => Self::ApplyProcessing,
                ApplyState::Processing(_, Some(_)) => Self::ApplyProcessingPrepared,
                ApplyState::AwaitingInput(_, None) => Self::ApplyAwaitingInput,
                ApplyState::AwaitingInput(_, Some(_)) => Self::ApplyAwaitingInputPrepared,
                ApplyState::Errored(_) => Self::ApplyErrored,
                ApplyState::Constrained(_) => Self::ApplyConstrained,
                ApplyState::Applied(_) => Self::ApplyApplied,
                ApplyState::Cancelled(_) => Self::ApplyCancelled,
            },
        }
    }

    /// A plan with targets under `review`, taken here by a person.
    pub fn default_world(self) -> PlanWorld {
        self.reach_world(Profile::Review, LandingSetup::OnTargets, PlanDriver::Person)
    }

    /// A plan taken here by real commands from its use.
    pub fn reach_world(
        self,
        profile: Profile,
        lands: LandingSetup,
        driver: PlanDriver,
    ) -> PlanWorld {
        let world = match self.step_before() {
            None => PlanWorld::new(profile, lands),
            Some((before, verb)) => {
                let mut world = before.reach_world(profile, lands, driver);
                submit_verb(&mut world, verb, driver);
                world
            }
        };
        assert_eq!(
            Self::of_stage(&world.plan().stage),
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
fn submit_verb(world: &mut PlanWorld, verb: Verb, driver: PlanDriver) {
    let plan = world.plan();
    if verb == Verb::ApplyPlan && plan.has_targets() && !plan.lands_automatically() {
        world.submit_as_person(Verb::Approve);
    }
    let caller = match driver {
        PlanDriver::Person => ada(),
        PlanDriver::WorkerFirst => match world.decide(&worker(), world.default_command(verb)) {
            Err(Refusal::NeedsPerson { .. }) => ada(),
            Ok(_) | Err(_) => worker(),
        },
    };
    world.submit_as(&caller, verb);
}
