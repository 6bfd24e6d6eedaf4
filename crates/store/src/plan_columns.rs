//! The indexed columns of a plan's row, derived from the encoded plan. They are the same in every
//! database, so that the same queries can use an index.

use plan::{Plan, Timestamp};

/// The columns of a plan's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanColumns {
    pub plan_id: String,
    /// The id reversed: people abbreviate ids to their last characters, and an index finds only
    /// prefixes.
    pub id_reversed: String,
    /// The number of the plan's events.
    pub version: i64,
    pub phase: &'static str,
    pub state: &'static str,
    /// The full name.
    pub action: Option<String>,
    /// The plan waits for a person.
    pub needs_person: bool,
    /// When the engine can advance the plan by itself; `None` if it cannot.
    pub due_at: Option<Timestamp>,
    /// The whole plan as JSON.
    pub body: String,
    /// Full names, without duplicates. Fixed when the plan is created.
    pub projects: Vec<String>,
    /// The plan has not ended.
    pub live: bool,
}

impl PlanColumns {
    pub fn from_plan(plan: &Plan) -> Self {
        let plan_id = plan.id.to_string();
        Self {
            id_reversed: plan_id.chars().rev().collect(),
            plan_id,
            version: i64::try_from(plan.version.0).expect("BUG: a plan has fewer than 2^63 events"),
            phase: plan.phase().as_str(),
            state: plan.stage.state_name().as_str(),
            action: plan.action.as_ref().map(|name| name.full_name().to_owned()),
            needs_person: plan.needs_person(),
            due_at: plan.due_at(),
            body: serde_json::to_string(plan).expect("BUG: a plan always encodes"),
            projects: plan
                .projects()
                .into_iter()
                .map(|name| name.full_name().to_owned())
                .collect(),
            live: !plan.stage.is_final(),
        }
    }
}
