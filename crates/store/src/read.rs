//! Reading: always from the database, never from memory of an earlier read.

use plan::changeset::{Changeset, Entry};
use plan::facts::Lease;
use plan::invariant::{RuleBook, Scope};
use plan::judgement::{Evidence, Verdict};
use plan::ledger::Ledger;
use plan::stage::StateName;
use plan::{Action, Digest, Name, Phase, Plan, PlanId, Project, Timestamp};

use crate::{Cursor, StoreError};

/// Reads of committed rows. Each call is one snapshot: what it returns was true at one moment.
///
/// Reading never writes: a store that does not exist yet reads as empty, and stays absent.
pub trait Read {
    /// One plan with what is stored beside it.
    fn plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError>;

    /// A page of plans, newest first, older than `after`.
    fn plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError>;

    /// Ids that start or end with this fragment (upper case), at most `limit`.
    fn plans_like(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Plans of a phase that can be taken further now without a person, longest waiting first, behind
    /// `after`: to be claimed, to be moved into the next phase, or with a question whose time is over.
    fn due(&self, phase: Phase, after: Option<Due>, limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Those of them that can be claimed.
    fn claimable(
        &self,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError>;

    /// What is due in every phase, up to `limit` plans of each, and where the log ends: what a worker looks
    /// at over and over, in one snapshot.
    fn agenda(&self, limit: usize) -> Result<Agenda, StoreError>;

    /// Plans whose lease has expired, longest ago first.
    fn expired(&self, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Everything the rules are judged on, in one snapshot.
    fn snapshot(&self, id: PlanId) -> Result<Option<Snapshot>, StoreError>;

    /// One action.
    fn action(&self, name: &Name) -> Result<Option<Action>, StoreError>;

    /// A page of actions by name, after `after`.
    fn actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, StoreError>;

    /// One project.
    fn project(&self, name: &Name) -> Result<Option<Project>, StoreError>;

    /// A page of projects by name, after `after`.
    fn projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, StoreError>;

    /// The rules of these scopes with their revisions; of all scopes if none is named.
    fn rules(&self, scopes: &[Scope]) -> Result<RuleBook, StoreError>;

    /// All changesets of a plan, oldest first, each with its entries by path.
    fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, StoreError>;

    /// What a plan used and what is set aside for it, beside all plans together.
    fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError>;

    /// The store's clock.
    fn now(&self) -> Result<Timestamp, StoreError>;
}

/// A plan that can be taken further. Ordered as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Since when.
    pub due_at: Timestamp,
    /// Which.
    pub plan: PlanId,
}

impl Due {
    /// The place behind one, as databases compare it; without one, before all of them.
    pub(crate) fn behind(after: Option<Self>) -> (i64, String) {
        match after {
            Some(after) => (after.due_at.0, after.plan.to_string()),
            None => (i64::MIN, String::new()),
        }
    }
}

/// What is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Agenda {
    /// The cursor behind everything that can be read now.
    pub latest: Cursor,
    /// The beginning of each phase's queue; what is nearer to its end comes first.
    pub due: Vec<(Phase, Vec<Due>)>,
}

impl Agenda {
    /// The phases, as they come in it.
    pub(crate) const PHASES: [Phase; 3] = [Phase::Apply, Phase::Execute, Phase::Strategize];

    /// Of a store that holds nothing.
    pub(crate) const NOTHING: Self = Self {
        latest: Cursor::START,
        due: Vec::new(),
    };
}

/// A plan with what is stored beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// The plan.
    pub plan: Plan,
    /// Hash of its last event.
    pub head: Digest,
    /// Its lease, while somebody works.
    pub lease: Option<Lease>,
    /// The last judgement that blocked it, of whatever version.
    pub verdict: Option<Verdict>,
}

impl PlanRow {
    /// The verdict that holds the plan as it stands.
    pub fn verdict_now(&self) -> Option<&Verdict> {
        let version = self.plan.version;
        self.verdict
            .as_ref()
            .filter(|verdict| verdict.version == version)
    }

    /// A gate holds the plan as it stands, or would.
    pub fn is_blocked(&self) -> bool {
        self.verdict_now().is_some() || self.plan.is_stuck()
    }

    /// A person has to do something before it goes on.
    pub fn needs_person(&self) -> bool {
        self.plan.needs_person() || self.is_blocked()
    }
}

/// Which plans are listed. What is not said does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanFilter {
    /// In this phase.
    pub phase: Option<Phase>,
    /// In this state.
    pub state: Option<StateName>,
    /// Made of this action.
    pub action: Option<Name>,
    /// Waiting for a person.
    pub needs_person: bool,
    /// Working on a resource of this project.
    pub project: Option<Name>,
}

impl PlanFilter {
    /// Does a plan pass? What the databases say in SQL.
    pub fn matches(&self, row: &PlanRow) -> bool {
        let plan = &row.plan;
        self.phase.is_none_or(|phase| plan.phase() == phase)
            && self.state.is_none_or(|state| plan.stage.state() == state)
            && self
                .action
                .as_ref()
                .is_none_or(|action| plan.action.as_ref() == Some(action))
            && (!self.needs_person || row.needs_person())
            && self
                .project
                .as_ref()
                .is_none_or(|project| plan.projects().contains(project))
    }
}

/// What the rules are judged on.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The plan with what is stored beside it.
    pub row: PlanRow,
    /// The action it was made of.
    pub action: Option<Action>,
    /// The rules of its scopes.
    pub rules: RuleBook,
    /// What rules said of the result of its current entry into execute.
    pub evidence: Vec<Evidence>,
}
