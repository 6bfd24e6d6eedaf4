//! Views of plans in lists.

use lifecycle::ClaimObstacle;
use plan::project::HostId;
use plan::{PlanId, QualifiedName, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::UsageView;
use crate::next_steps::NextStep;
use crate::standing::PlanStanding;

/// A plan in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanSummary {
    #[schema(value_type = String)]
    pub plan_id: PlanId,
    /// The shortest unique suffix of the id.
    pub handle: String,
    /// The first line of its goal.
    pub goal: String,
    pub action: Option<String>,
    #[schema(value_type = String)]
    pub phase: &'static str,
    #[schema(value_type = String)]
    pub state: &'static str,
    /// The status word that people see.
    #[schema(value_type = String)]
    pub standing: PlanStanding,
    /// The number of the plan's events.
    pub version: u64,
    /// The plan waits for a person.
    pub needs_person: bool,
    #[schema(value_type = String)]
    pub updated_at: Timestamp,
    /// What the viewer can do next, most useful first.
    pub next_steps: Vec<NextStep>,
    /// The plan that this one undoes.
    #[schema(value_type = Option<String>)]
    pub undo_of: Option<PlanId>,
    /// The plan whose unlanded rest this one holds.
    #[schema(value_type = Option<String>)]
    pub rest_of: Option<PlanId>,
    /// The plan that undid this one.
    #[schema(value_type = Option<String>)]
    pub undone_by: Option<PlanId>,
    /// Set if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<UsageView>,
    /// Its limit, in millionths of a US dollar. Set if the usage was asked for and is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit_micros: Option<u64>,
}

impl PlanSummary {
    /// Returns the step that continues a plan that waits for a person or was interrupted. Any other plan goes
    /// on by itself, or has ended.
    pub fn step_to_continue(&self) -> Option<&NextStep> {
        let is_stopped = self.needs_person || self.standing == PlanStanding::Interrupted;
        self.next_steps.first().filter(|_| is_stopped)
    }
}

/// A page of plans, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanListPage {
    pub plans: Vec<PlanSummary>,
    /// The last plan of this page, if there are more.
    #[schema(value_type = Option<String>)]
    pub next: Option<PlanId>,
}

/// What needs the viewer, and what waits for something else.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlanOverview {
    pub needs_me: Vec<PlanSummary>,
    /// More plans need the viewer than are listed.
    pub more: bool,
    /// Landings that a crash on this host interrupted.
    pub unfinished_landings: Vec<PlanSummary>,
    /// Other plans whose process ended without releasing them.
    pub interrupted: Vec<PlanSummary>,
    /// Plans that an agent or a landing works on now.
    pub running: Vec<PlanSummary>,
    pub waiting: Vec<WaitingPlan>,
    /// The store has any plan.
    pub has_plans: bool,
}

/// A queued plan that needs no person.
#[derive(Debug, Serialize, ToSchema)]
pub struct WaitingPlan {
    #[serde(flatten)]
    pub summary: PlanSummary,
    pub reason: WaitReason,
}

/// What a queued plan waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitReason {
    Worker,
    /// Another host has its repository.
    Host {
        #[schema(value_type = String)]
        host: HostId,
    },
    ProjectPaused {
        #[schema(value_type = String)]
        project: QualifiedName,
        #[schema(value_type = String)]
        at: Timestamp,
        by: String,
    },
    ProjectDeleted {
        #[schema(value_type = String)]
        project: QualifiedName,
    },
}

impl WaitReason {
    pub fn of_obstacle(obstacle: Option<ClaimObstacle>) -> Self {
        match obstacle {
            None => Self::Worker,
            Some(ClaimObstacle::Host(host)) => Self::Host { host },
            Some(ClaimObstacle::ProjectDeleted(project)) => Self::ProjectDeleted { project },
            Some(ClaimObstacle::ProjectPaused { project, paused }) => Self::ProjectPaused {
                project,
                at: paused.at,
                by: paused.by.to_string(),
            },
        }
    }
}
