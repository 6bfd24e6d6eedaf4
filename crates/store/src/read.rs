//! Reading: always from the database, never from memory of an earlier read.

use plan::changeset::{Changeset, ChangesetEntry};
use plan::facts::Lease;
use plan::invariant::{RuleBook, RuleScope};
use plan::judgement::{GateVerdict, RuleEvidence};
use plan::ledger::BudgetLedger;
use plan::stage::StateName;
use plan::{Action, Digest, Phase, Plan, PlanId, Project, QualifiedName, Timestamp};

use crate::{Cursor, StoreError};

/// Reads of committed rows. Each call is one snapshot: what it returns was true at one moment.
///
/// Reading never writes: a store that does not exist yet reads as empty, and stays absent.
pub trait StoreReader {
    /// One plan with what is stored beside it.
    fn read_plan(&self, plan_id: PlanId) -> Result<Option<PlanRow>, StoreError>;

    /// A page of plans, newest first, older than `after`.
    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError>;

    /// Ids that start or end with this fragment (upper case), at most `limit`.
    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Plans of a phase that can be taken further now without a person, longest waiting first, behind
    /// `after`: to be claimed, to be moved into the next phase, or with a question whose time is over.
    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError>;

    /// Those of them that can be claimed.
    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError>;

    /// What is due in every phase, up to `limit` plans of each, and where the log ends: what a worker looks
    /// at over and over, in one snapshot.
    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError>;

    /// Plans whose lease has expired, longest ago first.
    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Everything the rules are judged on, in one snapshot.
    fn read_snapshot(&self, plan_id: PlanId) -> Result<Option<PlanSnapshot>, StoreError>;

    /// One action.
    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError>;

    /// A page of actions by name, after `after`.
    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError>;

    /// One project.
    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError>;

    /// A page of projects by name, after `after`.
    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError>;

    /// The rules of these scopes with their revisions; of all scopes if none is named.
    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError>;

    /// All changesets of a plan, oldest first, each with its entries by path.
    fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError>;

    /// What a plan used and what is set aside for it, beside all plans together.
    fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, StoreError>;

    /// The store's clock.
    fn now(&self) -> Result<Timestamp, StoreError>;
}

/// A plan that can be taken further. Ordered as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlan {
    /// Since when.
    pub due_at: Timestamp,
    /// Which.
    pub plan_id: PlanId,
}

impl DuePlan {
    /// The place behind one, as databases compare it; without one, before all of them.
    pub(crate) fn sort_key_after(after: Option<Self>) -> (i64, String) {
        match after {
            Some(after) => (after.due_at.0, after.plan_id.to_string()),
            None => (i64::MIN, String::new()),
        }
    }
}

/// What is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueQueues {
    /// The cursor behind everything that can be read now.
    pub latest_cursor: Cursor,
    /// The beginning of each phase's queue; what is nearer to its end comes first.
    pub queues: Vec<(Phase, Vec<DuePlan>)>,
}

impl DueQueues {
    /// The phases, as they come in it.
    pub(crate) const PHASE_ORDER: [Phase; 3] = [Phase::Apply, Phase::Execute, Phase::Strategize];

    /// Of a store that holds nothing.
    pub(crate) const EMPTY: Self = Self {
        latest_cursor: Cursor::START,
        queues: Vec::new(),
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
    pub verdict: Option<GateVerdict>,
}

impl PlanRow {
    /// The verdict that holds the plan as it stands.
    pub fn current_verdict(&self) -> Option<&GateVerdict> {
        let version = self.plan.version;
        self.verdict
            .as_ref()
            .filter(|verdict| verdict.version == version)
    }

    /// A gate holds the plan as it stands, or would.
    pub fn is_blocked(&self) -> bool {
        self.current_verdict().is_some() || self.plan.is_stuck_on_rules()
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
    pub action: Option<QualifiedName>,
    /// Waiting for a person.
    pub needs_person: bool,
    /// Working on a resource of this project.
    pub project: Option<QualifiedName>,
}

impl PlanFilter {
    /// Does a plan pass? What the databases say in SQL.
    pub fn matches(&self, row: &PlanRow) -> bool {
        let plan = &row.plan;
        self.phase.is_none_or(|phase| plan.phase() == phase)
            && self
                .state
                .is_none_or(|state| plan.stage.state_name() == state)
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
pub struct PlanSnapshot {
    /// The plan with what is stored beside it.
    pub row: PlanRow,
    /// The action it was made of.
    pub action: Option<Action>,
    /// The rules of its scopes.
    pub rules: RuleBook,
    /// What rules said of the result of its current entry into execute.
    pub evidence: Vec<RuleEvidence>,
}
