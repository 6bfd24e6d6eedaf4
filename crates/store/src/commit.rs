//! The one write path.

use std::sync::Arc;

use plan::changeset::TreePath;
use plan::invariant::RuleScope;
use plan::{
    CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Plan, PlanId, QualifiedName,
    Refusal, Timestamp,
};

use crate::StoreError;

/// A pure decision on the rows that were read. May be run more than once, on fresher rows each
/// time; gets `now` from the store.
pub type DecideFn = Box<dyn FnMut(&DecisionFacts, Timestamp) -> Result<Decision, Refusal> + Send>;

/// Reads, decides and commits as one.
///
/// # Crash contract
///
/// - When `commit` returns `Ok`, everything the decision said is durable and visible to every
///   reader; power loss does not take it back.
/// - When it returns [`CommitError::Refused`] or [`CommitError::Failed`], nothing was written and
///   nothing will be.
/// - When it returns [`CommitError::Unknown`], the outcome could not be learnt; submitting the same
///   work again under the same [`Key`] is safe.
/// - A crash at any point leaves all of the decision or none of it.
pub trait StoreWriter {
    /// Carries out one submission.
    fn commit(&self, submission: Submission) -> Result<CommitOutcome, CommitError>;
}

/// One piece of work for the write path.
pub struct Submission {
    /// Unique in the store; written with the work, so that a lost answer can be settled.
    pub id: CommandId,
    /// Makes repeating safe: the answer committed under a key is given again instead of deciding.
    pub key: Option<IdempotencyKey>,
    /// The rows the decision needs.
    pub reads: ReadSet,
    /// The decision.
    pub decide: DecideFn,
}

/// An idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// What it is scoped to: the verb, and the plan if there is one.
    pub scope: String,
    /// What the caller chose.
    pub key: String,
    /// Digest of the arguments; the same key with others is a conflict.
    pub fingerprint: Digest,
}

/// The rows a decision needs. They are held to the commit: nobody changes them in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// A plan, with its lease.
    pub plan: Option<(PlanId, RowAccess)>,
    /// An action.
    pub action: Option<(QualifiedName, RowAccess)>,
    /// Scopes of rules, each with its rules and revision.
    ///
    /// Whoever changes the rules of an action or a plan also reads that action or plan
    /// exclusively, so that a scope without any row yet cannot appear unnoticed.
    pub rules: Vec<(RuleScope, RowAccess)>,
    /// The plan's open changesets.
    pub changesets: ChangesetReads,
    /// Projects.
    pub projects: ProjectReads,
    /// What was used and is set aside.
    pub ledger: LedgerReads,
}

impl ReadSet {
    /// These rows and those, each held as strictly as either asks for.
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

/// One of the same row, held as strictly as either asks for; there is only ever one.
fn merge_access<T>(
    one: Option<(T, RowAccess)>,
    other: Option<(T, RowAccess)>,
) -> Option<(T, RowAccess)> {
    match (one, other) {
        (Some((row, access)), Some((_, other))) => Some((row, access.max(other))),
        (one, other) => one.or(other),
    }
}

/// How a row is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowAccess {
    /// Others may read it too; nobody changes it.
    Shared,
    /// It may be changed by this decision.
    Exclusive,
}

/// How much of a plan's open changesets is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ChangesetReads {
    /// Nothing.
    #[default]
    None,
    /// The changesets, and their entries at these paths.
    EntriesAt(Vec<TreePath>),
    /// The changesets and all their entries.
    All,
}

/// How much of the ledger is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LedgerReads {
    /// Nothing.
    #[default]
    None,
    /// The account of all plans, that of the plan, and what is set aside for its holders. They may be
    /// changed by this decision: whoever reads them waits for their turn at all of them.
    OfPlan,
}

/// Which projects are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProjectReads {
    /// None.
    #[default]
    None,
    /// Those of these names. With one that may be changed come the plans that use it and have not
    /// ended.
    Named(Vec<(QualifiedName, RowAccess)>),
    /// Those of the plan's resources, so that nobody changes them. Which these are is frozen.
    OfPlan,
}

impl ProjectReads {
    fn merge_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, reads) | (reads, Self::None) => reads,
            (Self::OfPlan, Self::OfPlan) => Self::OfPlan,
            // A plan that is made and claimed at once has no projects but those it is made with.
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

/// How many of the plans that use a project are named; all of them are counted.
pub(crate) const MAX_LIVE_PLANS_NAMED: usize = 5;

/// What was committed.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitOutcome {
    /// What the decision answered; the remembered one if the key was known.
    pub receipt: CommandReceipt,
    /// The plan as committed; `None` if the answer was remembered or no plan was concerned.
    pub plan: Option<Arc<Plan>>,
    /// The answer is one committed earlier under the same key.
    pub is_repeat: bool,
}

impl CommitOutcome {
    /// What the caller is told once a decision is committed.
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

/// Why nothing was committed, or why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The decision was no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The key was used before, for something else.
    #[error("idempotency key `{key}` was used before with other arguments")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// The store failed; nothing was written.
    #[error(transparent)]
    Failed(#[from] StoreError),
    /// The store failed while committing, and what became of it could not be learnt.
    #[error(
        "the store failed while committing, and whether it was committed could not be learnt: {source}"
    )]
    Unknown {
        /// The submission.
        id: CommandId,
        /// What failed.
        source: StoreError,
    },
}
