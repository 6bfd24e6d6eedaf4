//! Views of changes to plans.

use super::schema::PathSchema;
use lifecycle::OperationOutcome;
use plan::changeset::TreePath;
use plan::{ChangesetId, PlanId, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::PlanView;

/// What a command did to a plan.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanChangeView {
    #[serde(flatten)]
    pub plan: ChangedPlanView,
    /// The changeset that the command opened or wrote to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub changeset_id: Option<ChangesetId>,
    pub receipt: ReceiptView,
}

/// The plan after a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ChangedPlanView {
    Read(Box<PlanView>),
    /// The change is committed, but the plan could not be read back.
    Unread {
        #[schema(value_type = String)]
        plan_id: PlanId,
    },
}

/// A plan that landed.
#[derive(Debug, Serialize, ToSchema)]
pub struct LandedPlanView {
    #[serde(flatten)]
    pub change: PlanChangeView,
    /// Files that a person saved during the landing. They keep the person's version.
    #[schema(value_type = Vec<PathSchema>)]
    pub kept: Vec<TreePath>,
    /// A new plan with what did not land.
    #[schema(value_type = Option<String>)]
    pub rest: Option<PlanId>,
}

/// What was committed. The same for every repetition under one idempotency key.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct ReceiptView {
    /// The plan's version after the command.
    pub version: Option<u64>,
    /// The epoch of the lease that the command took.
    pub epoch: Option<u64>,
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// The command had been done before; nothing changed this time.
    pub repeated: bool,
}

impl PlanChangeView {
    pub fn new(outcome: &OperationOutcome, plan: PlanView) -> Self {
        Self {
            plan: ChangedPlanView::Read(Box::new(plan)),
            ..Self::of_receipt(outcome)
        }
    }

    /// The view without the plan. The change is committed even if the plan cannot be read back, so an error would
    /// make callers repeat it.
    pub fn of_receipt(outcome: &OperationOutcome) -> Self {
        Self {
            plan: ChangedPlanView::Unread {
                plan_id: outcome.plan.id(),
            },
            changeset_id: outcome.receipt.changeset,
            receipt: ReceiptView::from(outcome),
        }
    }
}

impl From<&OperationOutcome> for ReceiptView {
    fn from(outcome: &OperationOutcome) -> Self {
        Self {
            version: outcome.receipt.version.map(|version| version.0),
            epoch: outcome.receipt.epoch.map(|epoch| epoch.0),
            at: outcome.receipt.at,
            repeated: outcome.repeated,
        }
    }
}
