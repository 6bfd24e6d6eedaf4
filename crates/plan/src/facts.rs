//! The input of a decision (facts) and its output (plan changes, rows and a receipt).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::changeset::{Changeset, ChangesetEntry, TreePath};
use crate::completion::KnownCompletions;
use crate::invariant::{Rule, RuleBook, RuleName, RuleScope};
use crate::judgement::{GateVerdict, RuleEvidence};
use crate::ledger::{AccountName, BudgetAccount, BudgetGrant, BudgetLedger, BudgetReservation};
use crate::review::PlanReview;
use crate::{
    Action, ChangesetId, Epoch, GateBlocked, Plan, PlanId, PlanVersion, Project, QualifiedName,
    RecordedEvent, Timestamp, Verb,
};

/// The rows read for a decision. The store guarantees that they are unchanged at commit.
#[derive(Debug, Clone, Default)]
pub struct DecisionFacts {
    /// Shared; copied only when an event changes it.
    pub plan: Option<Arc<Plan>>,
    /// Set while the plan is held.
    pub lease: Option<Lease>,
    pub action: Option<Action>,
    /// Rules of the requested scopes.
    pub rules: RuleBook,
    pub changesets: Vec<Changeset>,
    /// Entries of those changesets, if requested.
    pub entries: Vec<(ChangesetId, ChangesetEntry)>,
    /// The requested projects that exist.
    pub projects: Vec<Project>,
    /// Unfinished plans that use the project to be changed.
    pub live_plans: LivePlans,
    /// Spent and reserved budget, if requested.
    pub ledger: BudgetLedger,
    /// What people noted about the plan, if requested.
    pub reviews: Vec<PlanReview>,
    /// Read from the log, and only if the decision asks for it: see
    /// [`Refusal::CompletionNotRead`](crate::Refusal::CompletionNotRead).
    pub completions: KnownCompletions,
}

/// Unfinished plans that use a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LivePlans {
    pub count: u64,
    /// A few of them, newest first.
    pub newest: Vec<PlanId>,
}

/// A holder's right to work on a plan. Stored in its own row, because a renewal is not an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub plan: PlanId,
    /// Name of the holder.
    pub owner: String,
    /// Decides who holds the plan; the expiry does not.
    pub epoch: Epoch,
    /// From this time on, others may reclaim the plan. Until they do, the holder can still renew.
    pub expires_at: Timestamp,
}

/// What to commit, in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Changed and new plans.
    pub plans: Vec<PlanChange>,
    pub rows: Vec<RowWrite>,
    /// Returned to the caller after the commit.
    pub receipt: CommandReceipt,
}

/// New events of one plan, and the plan after them.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChange {
    pub plan: Arc<Plan>,
    /// Never empty.
    pub events: Vec<RecordedEvent>,
}

/// A row to write, in addition to the plan and its events.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWrite {
    PutAction(Action),
    PutProject(Project),
    DropProject(QualifiedName),
    /// Also sets the scope's revision to the rule's.
    PutRule(Rule),
    DropRule {
        scope: RuleScope,
        name: RuleName,
        /// The scope's new revision.
        revision: u64,
    },
    PutLease(Lease),
    DropLease(PlanId),
    PutChangeset(Changeset),
    PutEntry(ChangesetId, ChangesetEntry),
    /// Removes an entry whose changes cancelled out.
    DropEntry(ChangesetId, TreePath),
    /// Stores why a gate did not open. Replaces the plan's previous verdict.
    PutVerdict(GateVerdict),
    PutEvidence(RuleEvidence),
    PutAccount(AccountName, BudgetAccount),
    PutReservation(BudgetReservation),
    /// Removes a settled reservation.
    DropReservation(PlanId, Epoch),
    PutReview(PlanReview),
    /// Removes what anybody noted about a plan that ended.
    DropReviews(PlanId),
}

/// The outcome of a command. Stored under the idempotency key, so that a repeated command gets the
/// same receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandReceipt {
    pub verb: Verb,
    pub outcome: ReceiptOutcome,
    /// The plan that the command changed or created.
    pub plan: Option<PlanId>,
    /// The plan's version after the commit.
    pub version: Option<PlanVersion>,
    /// The epoch of the claim, or the one that the command carried.
    pub epoch: Option<Epoch>,
    /// The changeset that was opened, written to or sealed.
    pub changeset: Option<ChangesetId>,
    /// Set by `reserve`: what the run may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Box<BudgetGrant>>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    Done,
    /// The same holder did it earlier; nothing changed.
    AlreadyDone,
    /// A gate did not open. The plan is unchanged; only the verdict was stored.
    Blocked(GateBlocked),
}
