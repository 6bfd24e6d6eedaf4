//! What a decision is made on, and what it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::changeset::{Changeset, ChangesetEntry, TreePath};
use crate::invariant::{Rule, RuleBook, RuleName, RuleScope};
use crate::judgement::{GateVerdict, RuleEvidence};
use crate::ledger::{AccountName, BudgetAccount, BudgetGrant, BudgetLedger, BudgetReservation};
use crate::{
    Action, ChangesetId, Epoch, GateBlocked, Plan, PlanId, PlanVersion, Project, QualifiedName,
    RecordedEvent, Timestamp, Verb,
};

/// The rows that were read for a decision, in one snapshot that holds to the commit.
#[derive(Debug, Clone, Default)]
pub struct DecisionFacts {
    /// The plan, if there is one. Shared: it is copied by whoever takes it further, and by nobody else.
    pub plan: Option<Arc<Plan>>,
    /// Its lease, while somebody works.
    pub lease: Option<Lease>,
    /// The action.
    pub action: Option<Action>,
    /// The rules of the scopes that were asked for.
    pub rules: RuleBook,
    /// The plan's open changesets.
    pub changesets: Vec<Changeset>,
    /// Their entries, as far as they were asked for.
    pub entries: Vec<(ChangesetId, ChangesetEntry)>,
    /// The projects that were asked for and exist.
    pub projects: Vec<Project>,
    /// Plans that use the projects that may be changed.
    pub live_plans: LivePlans,
    /// What was used and is set aside, if it was asked for.
    pub ledger: BudgetLedger,
}

/// Plans that use a project and have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LivePlans {
    /// How many.
    pub count: u64,
    /// Some of them, newest first.
    pub newest: Vec<PlanId>,
}

/// Until when a holder may go on unless it renews. A row of its own: a renewal is not an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The plan.
    pub plan: PlanId,
    /// The holder.
    pub owner: String,
    /// Its authority.
    pub epoch: Epoch,
    /// Expiry permits reclaim; authority is the epoch.
    pub expires_at: Timestamp,
}

/// What is to be committed, all at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Plans that change or come to be.
    pub plans: Vec<PlanChange>,
    /// Other rows.
    pub rows: Vec<RowWrite>,
    /// What the caller is told once it is committed.
    pub receipt: CommandReceipt,
}

/// One plan's step: its events, and what they make of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChange {
    /// The plan after the events.
    pub plan: Arc<Plan>,
    /// The events, at least one.
    pub events: Vec<RecordedEvent>,
}

/// A row to be written beside the plan and its events.
#[derive(Debug, Clone, PartialEq)]
pub enum RowWrite {
    /// Store or replace an action.
    PutAction(Action),
    /// Store or replace a project.
    PutProject(Project),
    /// Remove a project.
    DropProject(QualifiedName),
    /// Store a rule; its revision becomes its scope's.
    PutRule(Rule),
    /// Remove a rule.
    DropRule {
        /// Its scope.
        scope: RuleScope,
        /// Its name.
        name: RuleName,
        /// The scope's revision from now on.
        revision: u64,
    },
    /// Store or extend a lease.
    PutLease(Lease),
    /// End a lease.
    DropLease(PlanId),
    /// Store or seal a changeset.
    PutChangeset(Changeset),
    /// Store or replace an entry.
    PutEntry(ChangesetId, ChangesetEntry),
    /// Remove an entry: its changes cancelled out.
    DropEntry(ChangesetId, TreePath),
    /// Keep why a gate did not open; replaces the plan's last.
    PutVerdict(GateVerdict),
    /// Keep what a rule said of a result.
    PutEvidence(RuleEvidence),
    /// Store or replace what came of an account.
    PutAccount(AccountName, BudgetAccount),
    /// Store or replace what is set aside for a holder.
    PutReservation(BudgetReservation),
    /// Nothing is set aside any more for this holder, and nothing is to be told of it.
    DropReservation(PlanId, Epoch),
}

/// What came of a command; remembered under its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandReceipt {
    /// What was asked.
    pub verb: Verb,
    /// What came of it.
    pub outcome: ReceiptOutcome,
    /// The plan it was about or that came to be.
    pub plan: Option<PlanId>,
    /// Its version after the commit.
    pub version: Option<PlanVersion>,
    /// The authority that was given.
    pub epoch: Option<Epoch>,
    /// The changeset that was opened or written to.
    pub changeset: Option<ChangesetId>,
    /// What the holder may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Box<BudgetGrant>>,
    /// When.
    pub at: Timestamp,
}

/// How a committed command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    /// It was done.
    Done,
    /// The same caller had done it before; nothing changed.
    AlreadyDone,
    /// A gate did not open; the plan did not move, the verdict is stored beside it.
    Blocked(GateBlocked),
}
