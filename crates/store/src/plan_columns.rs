//! The indexed columns of a plan's row, derived from its one encoded value. The same in every
//! database, so that the same queries can be answered from an index.

use plan::{Plan, Timestamp};

/// What is written beside the encoded plan, to be searched by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanColumns {
    /// Its id.
    pub plan_id: String,
    /// Its id backwards: people name plans by the end of the id, and an index finds beginnings.
    pub id_reversed: String,
    /// The number of its events.
    pub version: i64,
    /// Its phase.
    pub phase: &'static str,
    /// Its state.
    pub state: &'static str,
    /// The full name of its action.
    pub action: Option<String>,
    /// It waits for a person.
    pub needs_person: bool,
    /// From when the engine can take it further by itself, if it can.
    pub due_at: Option<Timestamp>,
    /// The whole plan, encoded.
    pub body: String,
    /// The full names of its projects, each once. Frozen when the plan is made.
    pub projects: Vec<String>,
    /// It has not ended.
    pub live: bool,
}

impl PlanColumns {
    /// The columns of a plan.
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
