//! The write interface of a store: one submission is read, decided and committed as a unit.

use std::ops::ControlFlow;
use std::sync::Arc;

use plan::completion::{CompletedCommand, CompletionSearch};
use plan::reads::ReadSet;
use plan::{
    CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Plan, PlanId, PlanVersion,
    RecordedEvent, Refusal, Timestamp, Verb,
};

use crate::StoreError;
use crate::event_codec::event_kind_marker;

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

/// Decides. If the decision needs a verb's last completion, reads it with `read_completion` and
/// decides again. The caller holds the rows, so the log does not change in between.
pub(crate) fn decide_with_completions<E>(
    decide: &mut DecideFn,
    facts: &mut DecisionFacts,
    now: Timestamp,
    mut read_completion: impl FnMut(PlanId, Verb) -> Result<Option<CompletedCommand>, E>,
) -> Result<Result<Decision, Refusal>, E> {
    loop {
        match decide(facts, now) {
            Err(Refusal::CompletionNotRead { verb }) if !facts.completions.contains_key(&verb) => {
                // A plan that the decision itself creates has no log yet.
                let completion = match &facts.plan {
                    Some(plan) => read_completion(plan.id(), verb)?,
                    None => None,
                };
                facts.completions.insert(verb, completion);
            }
            answer => return Ok(answer),
        }
    }
}

/// Looks for a verb's last completion. `read_page` returns events of the given kinds before a
/// version, newest first; an empty page ends the search. Other events may be among them.
pub(crate) fn find_completion<E>(
    verb: Verb,
    mut read_page: impl FnMut(&[String], PlanVersion) -> Result<Vec<RecordedEvent>, E>,
) -> Result<Option<CompletedCommand>, E> {
    let mut search = CompletionSearch::new(verb);
    let kinds = search.event_kinds().iter();
    let markers: Vec<String> = kinds.map(|kind| event_kind_marker(kind)).collect();
    if markers.is_empty() {
        return Ok(None);
    }
    let mut before = PlanVersion(u64::MAX);
    loop {
        let page = read_page(&markers, before)?;
        let Some(oldest) = page.last() else {
            return Ok(None);
        };
        before = oldest.version;
        for recorded in &page {
            if let ControlFlow::Break(found) = search.visit_event(recorded) {
                return Ok(found);
            }
        }
    }
}

/// Events per page of a search for a completion. Nearly always the first or second one answers.
pub(crate) const COMPLETION_PAGE_SIZE: usize = 4;

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
            .find(|plan| Some(plan.id()) == receipt_plan_id);
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
