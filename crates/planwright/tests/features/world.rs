//! What a scenario knows: its store, its plan, who has seen it, and what was said last.

use std::collections::BTreeMap;
use std::fmt;

use plan::{ChangesetId, Epoch, PlanId};
use planwright::{Call, Caller, ExecutionContext, Lifecycle, LifecycleError, Plan, plan};
use testkit::{StoreDump, TestProgram, TestRunOutput};

use crate::scenario_store::ScenarioStore;
use crate::steps::threads::ThreadResults;

/// Everything one scenario knows.
#[derive(cucumber::World)]
#[world(init = Self::new)]
pub struct World {
    pub program: TestProgram,
    store: Option<ScenarioStore>,
    /// The plan the scenario is about.
    pub plan: Option<PlanId>,
    /// The authority of whoever holds it.
    pub epoch: Option<Epoch>,
    /// The changeset that is open.
    pub changeset: Option<ChangesetId>,
    /// Somebody who has been there for a while, with a handle of their own.
    pub worker: Option<Lifecycle>,
    /// What that somebody read.
    pub plan_as_read: Option<Plan>,
    /// Where the holder records its changes.
    pub context: Option<ExecutionContext>,
    /// The store as it was when the scenario began to look.
    pub before: Option<StoreDump>,
    /// What came of the last try.
    pub outcome: Option<TryOutcome>,
    /// What the processes of the last race said.
    pub race_outputs: Vec<TestRunOutput>,
    /// What threads did and saw.
    pub thread_results: ThreadResults,
    /// How often things happened among threads.
    pub counts: BTreeMap<&'static str, usize>,
    /// The key the last try was made under.
    pub key: Option<String>,
}

/// What came of a try, whether a process made it or a thread.
pub enum TryOutcome {
    /// A process ended.
    Process(TestRunOutput),
    /// A call in this process returned.
    Call(Result<(), LifecycleError>),
}

impl World {
    fn new() -> Self {
        Self {
            program: TestProgram::new(env!("CARGO_BIN_EXE_planwright")),
            store: None,
            plan: None,
            epoch: None,
            changeset: None,
            worker: None,
            plan_as_read: None,
            context: None,
            before: None,
            outcome: None,
            race_outputs: Vec::new(),
            thread_results: ThreadResults::default(),
            counts: BTreeMap::new(),
            key: None,
        }
    }

    /// Settles where the plans are kept.
    pub fn use_store(&mut self, place: ScenarioStore) {
        if let Some(address) = place.address() {
            self.program.set_variable("PLANWRIGHT_STORE", address);
        }
        self.store = Some(place);
    }

    /// Puts a wire between the processes and their server that can be cut.
    pub fn insert_proxy(&mut self) {
        let place = self.store.as_mut().expect("a store was given");
        place.insert_proxy();
        let through = place.address().expect("a server has an address");
        self.program.set_variable("PLANWRIGHT_STORE", through);
    }

    /// Where the plans are kept.
    pub fn store(&self) -> &ScenarioStore {
        self.store.as_ref().expect("a store was given")
    }

    /// Somebody new at the store.
    pub fn open_engine(&self) -> Lifecycle {
        self.store().open_engine()
    }

    /// The plan the scenario is about.
    pub fn plan_id(&self) -> PlanId {
        self.plan.expect("a plan was given")
    }

    /// The plan as it is stored.
    pub fn stored_plan(&self) -> Plan {
        self.open_engine().get_plan(self.plan_id()).unwrap().plan
    }

    /// The authority of its holder.
    pub fn epoch(&self) -> Epoch {
        self.epoch.expect("somebody holds the plan")
    }

    /// Everything the store shows.
    pub fn dump_store(&self) -> StoreDump {
        StoreDump::read_store(self.open_engine().store())
    }

    /// Remembers everything as it is.
    pub fn remember_store(&mut self) {
        self.before = Some(self.dump_store());
    }

    /// Everything as it was.
    pub fn store_before(&self) -> &StoreDump {
        self.before.as_ref().expect("it was looked at before")
    }

    /// What the last process said.
    pub fn last_output(&self) -> &TestRunOutput {
        match &self.outcome {
            Some(TryOutcome::Process(said)) => said,
            Some(TryOutcome::Call(_)) | None => panic!("no process was run"),
        }
    }
}

/// Somebody who may be told anything: a person.
pub fn call_by_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("plan", &self.plan)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TryOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(said) => write!(f, "{said:?}"),
            Self::Call(result) => write!(f, "{result:?}"),
        }
    }
}
