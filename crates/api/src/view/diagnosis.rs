//! The view of why a plan does not move.

use lifecycle::GateStatus;
use plan::changeset::TreePath;
use plan::invariant::Gate;
use plan::judgement::{FailedRule, PendingVerdictReason, RuleCounts};
use plan::ledger::BudgetShortfall;
use plan::project::HostId;
use plan::stage::{ConstraintKind, FailureCategory, ManualLandingReason};
use plan::{Phase, PlanId, Profile, QualifiedName, Timestamp, Verb};
use serde::Serialize;

use super::{PermissionView, QuestionView};
use crate::next_steps::NextStep;

/// Why a plan does not move, and what can be done about it.
#[derive(Debug, Serialize)]
pub struct PlanDiagnosisView {
    pub plan_id: PlanId,
    pub phase: Phase,
    pub state: &'static str,
    /// What its state means comes first, then its rules.
    pub reasons: Vec<DiagnosisReason>,
    /// The gate before the next step, if there is one.
    pub gate: Option<GateStatusView>,
    /// The commands that its state allows, most useful first. Whether the viewer may, and whether they
    /// succeed, is in `next_steps`.
    pub options: Vec<Verb>,
    /// What the viewer can do next, most useful first.
    pub next_steps: Vec<NextStep>,
}

/// One reason why a plan is where it is.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DiagnosisReason {
    /// It landed, finished or was cancelled.
    Ended {
        by: String,
        at: Timestamp,
    },
    /// Somebody works on it.
    Held {
        owner: String,
        since: Timestamp,
        holder: HolderStatus,
    },
    /// The process that worked on it ended; the next worker takes over.
    Interrupted {
        owner: String,
        since: Timestamp,
    },
    /// It waits for a person's answer.
    QuestionOpen(QuestionView),
    /// Its agent waits for a person to allow or reject a tool call.
    PermissionOpen(PermissionView),
    Failed {
        category: FailureCategory,
        message: String,
        at: Timestamp,
    },
    /// A worker tries again at this time.
    RetryAt {
        at: Timestamp,
    },
    ProjectPaused {
        project: QualifiedName,
        by: String,
        at: Timestamp,
    },
    ProjectDeleted {
        project: QualifiedName,
    },
    /// Another host has its repository.
    WaitingForHost {
        host: HostId,
    },
    /// No budget is left for a run.
    OverBudget(BudgetShortfall),
    WaitingForWorker {
        /// How many due plans come before it, if it is due itself.
        plans_ahead: Option<usize>,
    },
    /// Its agent has no definition, so another program must claim the phase.
    WaitingForProgram {
        agent: QualifiedName,
    },
    /// Its result cannot land as it is. The targets are unchanged.
    Constrained {
        category: ConstraintKind,
        message: String,
        paths: Vec<TreePath>,
        /// Commits on the target that are in the way.
        commits: Vec<String>,
    },
    /// The private repository with its result was deleted. The work must be done again.
    ResultMissing,
    /// Its profile lets nobody but a person continue.
    ProfileNeedsPerson {
        profile: Profile,
    },
    /// Its profile lands other results by itself, but not this one.
    ManualLanding {
        profile: Profile,
        cause: ManualLandingReason,
    },
    /// Rules keep it from going on; each of them is a reason of its own.
    GateClosed {
        gate: Gate,
    },
    /// Nothing in its state keeps it from going on.
    CanContinue,
    /// A rule that blocks it.
    RuleBlocks(RuleFindingView),
    /// An advisory rule failed. It does not block.
    RuleWarns(RuleFindingView),
    GateOpen {
        gate: Gate,
        counts: RuleCounts,
    },
}

/// What is known about the holder of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderStatus {
    /// Its process runs on this host.
    Running,
    LeaseValid,
    /// It may have ended; its lease can be reclaimed.
    LeaseExpired,
}

/// A rule that did not pass.
#[derive(Debug, Clone, Serialize)]
pub struct RuleFindingView {
    pub gate: Gate,
    pub rule: String,
    pub scope: String,
    /// The condition.
    pub check: String,
    pub evidence: String,
    pub outcome: RuleFindingOutcome,
    pub waivable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleFindingOutcome {
    Failed,
    /// The check itself cannot run.
    Broken,
    /// A person must judge it.
    NeedsPerson,
    /// Its check has not run on this result yet.
    Unchecked,
}

impl RuleFindingView {
    pub fn new(gate: Gate, failed: &FailedRule) -> Self {
        Self {
            gate,
            rule: failed.rule.name.to_string(),
            scope: failed.rule.scope.to_string(),
            check: failed.check.clone(),
            evidence: failed.evidence.clone(),
            outcome: match failed.waits {
                Some(PendingVerdictReason::Person) => RuleFindingOutcome::NeedsPerson,
                Some(PendingVerdictReason::Check) => RuleFindingOutcome::Unchecked,
                None if failed.broken => RuleFindingOutcome::Broken,
                None => RuleFindingOutcome::Failed,
            },
            waivable: failed.waivable,
        }
    }
}

/// The current state of a gate.
#[derive(Debug, Serialize)]
pub struct GateStatusView {
    pub gate: Gate,
    pub counts: RuleCounts,
    pub failed: Vec<FailedRule>,
    /// Advisory rules that failed.
    pub advice: Vec<FailedRule>,
}

impl From<GateStatus> for GateStatusView {
    fn from(status: GateStatus) -> Self {
        Self {
            gate: status.gate,
            counts: status.counts,
            failed: status.failed_rules,
            advice: status.failed_advisories,
        }
    }
}
