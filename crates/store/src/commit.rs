//! The write interface of a store: one submission is read, decided and committed as a unit.

use std::sync::Arc;

use plan::reads::ReadSet;
use plan::{CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Plan, Refusal, Timestamp};

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
