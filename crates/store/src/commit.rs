//! The write interface of a store: one submission is read, decided and committed as a unit.

use std::sync::Arc;

use plan::changeset::TreePath;
use plan::invariant::RuleScope;
use plan::{
    CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Plan, PlanId, QualifiedName,
    Refusal, Timestamp,
};

use crate::StoreError;

/// A pure decision on the rows that were read. The store passes `now` and may call it again on
/// fresher rows.
pub type DecideFn = Box<dyn FnMut(&DecisionFacts, Timestamp) -> Result<Decision, Refusal> + Send>;

/// Reads, decides and commits in one transaction.
///
/// # Crash contract
///
/// - When `commit` returns `Ok`, the whole decision is durable and visible to every reader, even
///   after a power loss.
/// - When it returns [`CommitError::Refused`] or [`CommitError::Failed`], nothing was written and
///   nothing will be.
/// - When it returns [`CommitError::Unknown`], the outcome is unknown. Submitting the same work
///   again under the same [`IdempotencyKey`] is safe.
/// - A crash at any point leaves all of the decision or none of it.
pub trait StoreWriter {
    fn commit(&self, submission: Submission) -> Result<CommitOutcome, CommitError>;
}

/// One request to the write path.
pub struct Submission {
    /// Unique in the store. Stored with the commit, so that a lost response can be resolved.
    pub id: CommandId,
    /// Makes retries safe: a repeated key returns the committed receipt instead of deciding again.
    pub key: Option<IdempotencyKey>,
    /// The rows the decision needs.
    pub reads: ReadSet,
    pub decide: DecideFn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The verb, and the plan if there is one.
    pub scope: String,
    /// Chosen by the caller.
    pub key: String,
    /// Digest of the arguments. The same key with other arguments is a conflict.
    pub fingerprint: Digest,
}

/// The rows a decision needs. They stay locked until the commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// A plan and its lease.
    pub plan: Option<(PlanId, RowAccess)>,
    pub action: Option<(QualifiedName, RowAccess)>,
    /// Scopes with their rules and revisions.
    ///
    /// A command that changes the rules of an action or a plan also reads that action or plan
    /// exclusively. Otherwise a scope without a row yet could appear unnoticed.
    pub rules: Vec<(RuleScope, RowAccess)>,
    /// The plan's open changesets.
    pub changesets: ChangesetReads,
    pub projects: ProjectReads,
    /// Spent and reserved amounts.
    pub ledger: LedgerReads,
}

impl ReadSet {
    /// Returns the union of both sets, each row with the stricter access.
    #[must_use]
    pub fn merge_with(mut self, other: Self) -> Self {
        self.plan = merge_access(self.plan, other.plan);
        self.action = merge_access(self.action, other.action);
        for (scope, access) in other.rules {
            match self.rules.iter_mut().find(|(own, _)| *own == scope) {
                Some((_, own)) => *own = (*own).max(access),
                None => self.rules.push((scope, access)),
            }
        }
        self.changesets = match (self.changesets, other.changesets) {
            (ChangesetReads::None, reads) | (reads, ChangesetReads::None) => reads,
            (ChangesetReads::EntriesAt(mut paths), ChangesetReads::EntriesAt(more)) => {
                paths.extend(more);
                ChangesetReads::EntriesAt(paths)
            }
            (ChangesetReads::All, _) | (_, ChangesetReads::All) => ChangesetReads::All,
        };
        self.projects = self.projects.merge_with(other.projects);
        self.ledger = self.ledger.max(other.ledger);
        self
    }
}

/// Merges two reads of the same row; a set reads at most one plan and one action.
fn merge_access<T>(
    one: Option<(T, RowAccess)>,
    other: Option<(T, RowAccess)>,
) -> Option<(T, RowAccess)> {
    match (one, other) {
        (Some((row, access)), Some((_, other))) => Some((row, access.max(other))),
        (one, other) => one.or(other),
    }
}

/// The lock mode of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowAccess {
    /// Others may read the row; nobody may change it.
    Shared,
    /// The decision may change the row.
    Exclusive,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChangesetReads {
    #[default]
    None,
    /// The changesets, and their entries at these paths.
    EntriesAt(Vec<TreePath>),
    /// The changesets and all their entries.
    All,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LedgerReads {
    #[default]
    None,
    /// The global account, the plan's account and its reservations. The decision may change them,
    /// so commands that read them run one after the other.
    OfPlan,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProjectReads {
    #[default]
    None,
    /// The projects with these names. A project read exclusively comes with the unfinished plans
    /// that use it.
    Named(Vec<(QualifiedName, RowAccess)>),
    /// The projects of the plan's resources, locked against changes. A plan's projects never
    /// change.
    OfPlan,
}

impl ProjectReads {
    fn merge_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, reads) | (reads, Self::None) => reads,
            (Self::OfPlan, Self::OfPlan) => Self::OfPlan,
            // A plan that is created and claimed at once uses only the projects it is created with.
            (Self::Named(named), Self::OfPlan) | (Self::OfPlan, Self::Named(named)) => {
                Self::Named(named)
            }
            (Self::Named(mut named), Self::Named(more)) => {
                for (name, access) in more {
                    match named.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, own)) => *own = (*own).max(access),
                        None => named.push((name, access)),
                    }
                }
                Self::Named(named)
            }
        }
    }
}

/// How many plans that use a project are listed by id. All of them are counted.
pub(crate) const MAX_LIVE_PLANS_NAMED: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub struct CommitOutcome {
    /// The decision's receipt, or the stored one if the key was known.
    pub receipt: CommandReceipt,
    /// The plan as committed; `None` for a repeated key or if no plan was involved.
    pub plan: Option<Arc<Plan>>,
    /// The receipt was committed earlier under the same key.
    pub is_repeat: bool,
}

impl CommitOutcome {
    pub(crate) fn from_decision(decision: &Decision, facts: &DecisionFacts) -> Self {
        let receipt_plan_id = decision.receipt.plan;
        let changed = decision
            .plans
            .iter()
            .map(|change| &change.plan)
            .find(|plan| Some(plan.id) == receipt_plan_id);
        let plan = changed.or(facts.plan.as_ref()).cloned();
        Self {
            receipt: decision.receipt.clone(),
            plan,
            is_repeat: false,
        }
    }
}

/// Why nothing was committed, or why the outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The decision was a refusal.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The key was used before with other arguments.
    #[error("idempotency key `{key}` was used before with other arguments")]
    KeyReused { key: String },
    /// The store failed; nothing was written.
    #[error(transparent)]
    Failed(#[from] StoreError),
    /// The store failed during COMMIT and the outcome could not be determined.
    #[error("the store failed during the commit, and its outcome is unknown: {source}")]
    Unknown {
        /// The submission whose outcome is unknown.
        id: CommandId,
        source: StoreError,
    },
}
