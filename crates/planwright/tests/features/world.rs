//! What a scenario knows: its store, its plan, who has seen it, and what was said last.

use std::collections::BTreeMap;
use std::fmt;

use plan::{ChangesetId, Epoch, PlanId};
use planwright::{Call, Caller, Error, ExecutionContext, Lifecycle, Plan, plan};
use testkit::{Dump, Program, Said};

use crate::place::Place;
use crate::steps::threads::Seen;

/// Everything one scenario knows.
#[derive(cucumber::World)]
#[world(init = Self::new)]
pub struct World {
    pub program: Program,
    place: Option<Place>,
    /// The plan the scenario is about.
    pub plan: Option<PlanId>,
    /// The authority of whoever holds it.
    pub epoch: Option<Epoch>,
    /// The changeset that is open.
    pub changeset: Option<ChangesetId>,
    /// Somebody who has been there for a while, with a handle of their own.
    pub worker: Option<Lifecycle>,
    /// What that somebody read.
    pub read: Option<Plan>,
    /// Where the holder records its changes.
    pub context: Option<ExecutionContext>,
    /// The store as it was when the scenario began to look.
    pub before: Option<Dump>,
    /// What came of the last try.
    pub outcome: Option<Outcome>,
    /// What the processes of the last race said.
    pub race: Vec<Said>,
    /// What threads did and saw.
    pub seen: Seen,
    /// How often things happened among threads.
    pub counts: BTreeMap<&'static str, usize>,
    /// The key the last try was made under.
    pub key: Option<String>,
}

/// What came of a try, whether a process made it or a thread.
pub enum Outcome {
    /// A process ended.
    Process(Said),
    /// A call in this process returned.
    Call(Result<(), Error>),
}

impl World {
    fn new() -> Self {
        Self {
            program: Program::new(env!("CARGO_BIN_EXE_planwright")),
            place: None,
            plan: None,
            epoch: None,
            changeset: None,
            worker: None,
            read: None,
            context: None,
            before: None,
            outcome: None,
            race: Vec::new(),
            seen: Seen::default(),
            counts: BTreeMap::new(),
            key: None,
        }
    }

    /// Settles where the plans are kept.
    pub fn settle_at(&mut self, place: Place) {
        if let Some(address) = place.address() {
            self.program.set("PLANWRIGHT_STORE", address);
        }
        self.place = Some(place);
    }

    /// Puts a wire between the processes and their server that can be cut.
    pub fn put_wire_between(&mut self) {
        let place = self.place.as_mut().expect("a store was given");
        place.put_wire_between();
        let through = place.address().expect("a server has an address");
        self.program.set("PLANWRIGHT_STORE", through);
    }

    /// Where the plans are kept.
    pub fn place(&self) -> &Place {
        self.place.as_ref().expect("a store was given")
    }

    /// Somebody new at the store.
    pub fn engine(&self) -> Lifecycle {
        self.place().engine()
    }

    /// The plan the scenario is about.
    pub fn plan(&self) -> PlanId {
        self.plan.expect("a plan was given")
    }

    /// The plan as it is stored.
    pub fn stored(&self) -> Plan {
        self.engine().get_plan(self.plan()).unwrap().plan
    }

    /// The authority of its holder.
    pub fn epoch(&self) -> Epoch {
        self.epoch.expect("somebody holds the plan")
    }

    /// Everything the store shows.
    pub fn dump(&self) -> Dump {
        Dump::of(self.engine().store())
    }

    /// Remembers everything as it is.
    pub fn remember(&mut self) {
        self.before = Some(self.dump());
    }

    /// Everything as it was.
    pub fn before(&self) -> &Dump {
        self.before.as_ref().expect("it was looked at before")
    }

    /// What the last process said.
    pub fn said(&self) -> &Said {
        match &self.outcome {
            Some(Outcome::Process(said)) => said,
            Some(Outcome::Call(_)) | None => panic!("no process was run"),
        }
    }
}

/// Somebody who may be told anything: a person.
pub fn ada() -> Call {
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

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(said) => write!(f, "{said:?}"),
            Self::Call(result) => write!(f, "{result:?}"),
        }
    }
}
