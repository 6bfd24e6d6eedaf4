//! The read interface of a store. Every call queries the database; nothing is cached.

use plan::changeset::{Changeset, ChangesetEntry};
use plan::facts::Lease;
use plan::invariant::{RuleBook, RuleScope};
use plan::judgement::{GateVerdict, RuleEvidence};
use plan::ledger::BudgetLedger;
use plan::review::PlanReview;
use plan::stage::StateName;
use plan::{Action, Digest, Phase, Plan, PlanId, Project, QualifiedName, Timestamp};

use crate::{Cursor, StoreError};

/// Reads committed rows. Each call reads from one snapshot.
///
/// Reads never write: a store that does not exist yet reads as empty and is not created.
pub trait StoreReader {
    fn read_plan(&self, plan_id: PlanId) -> Result<Option<PlanRow>, StoreError>;

    /// Returns a page of plans older than `after`, newest first.
    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError>;

    /// Returns up to `limit` ids that start or end with this fragment (upper case).
    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Returns plans of a phase that the engine can advance now without a person, longest waiting
    /// first, starting after `after`. A due plan can be claimed, moved to the next phase, or has a
    /// question that timed out.
    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError>;

    /// Like [`Self::list_due_plans`], but only plans that can be claimed.
    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError>;

    /// Returns up to `limit` due plans of each phase and the end of the log, from one snapshot.
    /// Workers poll this.
    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError>;

    /// Returns plans whose lease has expired, longest expired first.
    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Reads everything that rules are evaluated on, in one snapshot.
    fn read_snapshot(&self, plan_id: PlanId) -> Result<Option<PlanSnapshot>, StoreError>;

    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError>;

    /// Returns a page of actions with names after `after`, sorted by name.
    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError>;

    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError>;

    /// Returns a page of projects with names after `after`, sorted by name.
    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError>;

    /// Returns the rules and revisions of these scopes, or of all scopes if the list is empty.
    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError>;

    /// Returns all changesets of a plan, oldest first, each with its entries sorted by path.
    fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError>;

    /// Returns what a plan has spent and reserved, and the totals of all plans.
    fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, StoreError>;

    /// Returns what people noted about a plan, sorted by person.
    fn list_reviews(&self, plan_id: PlanId) -> Result<Vec<PlanReview>, StoreError>;

    /// Returns the store's clock, which timestamps every commit.
    fn now(&self) -> Result<Timestamp, StoreError>;
}

/// A plan the engine can advance without a person. Sorts in the order of processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlan {
    pub due_at: Timestamp,
    pub plan_id: PlanId,
}

impl DuePlan {
    /// Returns the key that databases compare to continue after this plan; `None` starts at the
    /// beginning.
    pub(crate) fn sort_key_after(after: Option<Self>) -> (i64, String) {
        match after {
            Some(after) => (after.due_at.0, after.plan_id.to_string()),
            None => (i64::MIN, String::new()),
        }
    }
}

/// Due plans of every phase, as workers poll them.
#[derive(Debug, Clone, PartialEq)]
pub struct DueQueues {
    /// The cursor after the last readable event.
    pub latest_cursor: Cursor,
    /// The head of each phase's queue. Later phases come first, so that plans finish before others
    /// start.
    pub queues: Vec<(Phase, Vec<DuePlan>)>,
}

impl DueQueues {
    /// The order of phases in `queues`.
    pub(crate) const PHASE_ORDER: [Phase; 3] = [Phase::Apply, Phase::Execute, Phase::Strategize];

    /// The queues of a store without plans.
    pub(crate) const EMPTY: Self = Self {
        latest_cursor: Cursor::START,
        queues: Vec::new(),
    };
}

/// A plan's row with its lease and last verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    pub plan: Plan,
    /// Hash of the plan's last event.
    pub head: Digest,
    /// Set while a worker or person holds the plan.
    pub lease: Option<Lease>,
    /// The last verdict that blocked the plan; may belong to an older version.
    pub verdict: Option<GateVerdict>,
}

impl PlanRow {
    /// Returns the verdict if it applies to the plan's current version.
    pub fn current_verdict(&self) -> Option<&GateVerdict> {
        let version = self.plan.version();
        self.verdict
            .as_ref()
            .filter(|verdict| verdict.version == version)
    }

    /// Checks whether a gate blocks the plan in its current version.
    pub fn is_blocked(&self) -> bool {
        self.current_verdict().is_some() || self.plan.is_stuck_on_rules()
    }

    /// Checks whether the plan waits for a person.
    pub fn needs_person(&self) -> bool {
        self.plan.needs_person() || self.is_blocked()
    }
}

/// Selects plans to list. Unset fields match every plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanFilter {
    pub phase: Option<Phase>,
    pub state: Option<StateName>,
    pub action: Option<QualifiedName>,
    /// Only plans that wait for a person.
    pub needs_person: bool,
    /// Only plans that use a resource of this project.
    pub project: Option<QualifiedName>,
    /// Only plans that undo this plan or hold the rest of its result.
    pub origin: Option<PlanId>,
}

impl PlanFilter {
    /// Checks whether a plan matches. The databases do the same in SQL.
    pub fn matches(&self, row: &PlanRow) -> bool {
        let plan = &row.plan;
        self.phase.is_none_or(|phase| plan.phase() == phase)
            && self
                .state
                .is_none_or(|state| plan.stage().state_name() == state)
            && self
                .action
                .as_ref()
                .is_none_or(|action| plan.action() == Some(action))
            && (!self.needs_person || row.needs_person())
            && self
                .project
                .as_ref()
                .is_none_or(|project| plan.projects().contains(project))
            && self
                .origin
                .is_none_or(|origin| plan.origin().other_plan() == Some(origin))
    }
}

/// The input for evaluating a plan's rules.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSnapshot {
    pub row: PlanRow,
    /// The action the plan was created from.
    pub action: Option<Action>,
    /// The rules of the plan's scopes.
    pub rules: RuleBook,
    /// Evidence for the result of the current entry into execute.
    pub evidence: Vec<RuleEvidence>,
}
