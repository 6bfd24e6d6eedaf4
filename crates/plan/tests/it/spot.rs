//! The 22 states of a plan, and the shortest path to each.

use planwright_plan as plan;

use plan::stage::{ApplyState, WorkState};
use plan::{PlanStage, Profile, Refusal, Verb};

use crate::world::{LandingSetup, PlanWorld, ada, worker};

macro_rules! spots {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Spot { $($name),* }

        impl Spot {
            /// In the order of a plan's life.
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

/// Who drives a plan to its spot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepCaller {
    Person,
    /// A worker does what the profile allows, a person the rest.
    WorkerFirst,
}

impl Spot {
    /// Returns the spot of a stage. The match is exhaustive, so that a new state needs a spot.
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

    /// Returns a plan with targets under `review`, driven here by a person.
    pub fn default_world(self) -> PlanWorld {
        self.reach_world(Profile::Review, LandingSetup::OnTargets, StepCaller::Person)
    }

    /// Returns a plan that real commands drove here from its creation.
    pub fn reach_world(
        self,
        profile: Profile,
        lands: LandingSetup,
        driver: StepCaller,
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
            Self::of_stage(world.plan().stage()),
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

/// Submits a verb. Approves the result first if required.
fn submit_verb(world: &mut PlanWorld, verb: Verb, driver: StepCaller) {
    let plan = world.plan();
    if verb == Verb::ApplyPlan && plan.has_targets() && !plan.lands_automatically() {
        world.submit_as_person(Verb::Approve);
    }
    let caller = match driver {
        StepCaller::Person => ada(),
        StepCaller::WorkerFirst => match world.decide(&worker(), world.default_command(verb)) {
            Err(Refusal::NeedsPerson { .. } | Refusal::NotAuthorized { .. }) => ada(),
            Ok(_) | Err(_) => worker(),
        },
    };
    world.submit_as(&caller, verb);
}
