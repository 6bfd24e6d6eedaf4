//! A plan as rows: its terms, written once, and its state with the indexed columns, written at every
//! transition. The columns are the same in every database, so that the same queries can use an
//! index.

use std::sync::Arc;

use plan::{Caller, Plan, PlanState, PlanTerms, Timestamp};
use serde::Deserialize;
use serde_json::Value;

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
    /// The plan's state as JSON.
    pub body: String,
    /// Full names, without duplicates. Fixed when the plan is created.
    pub projects: Vec<String>,
    /// The plan has not ended.
    pub live: bool,
}

impl PlanColumns {
    pub fn from_plan(plan: &Plan) -> Self {
        let plan_id = plan.id().to_string();
        Self {
            id_reversed: plan_id.chars().rev().collect(),
            plan_id,
            version: i64::try_from(plan.version().0)
                .expect("BUG: a plan has fewer than 2^63 events"),
            phase: plan.phase().as_str(),
            state: plan.stage().state_name().as_str(),
            action: plan.action().map(|name| name.full_name().to_owned()),
            needs_person: plan.needs_person(),
            due_at: plan.due_at(),
            body: encode_json(plan.state()),
            projects: plan
                .projects()
                .into_iter()
                .map(|name| name.full_name().to_owned())
                .collect(),
            live: !plan.stage().is_final(),
        }
    }
}

/// The row of a plan's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermsColumns {
    /// The plan that this one undoes or continues.
    pub origin_plan: Option<String>,
    /// The terms as JSON.
    pub body: String,
}

impl TermsColumns {
    pub fn from_plan(plan: &Plan) -> Self {
        Self {
            origin_plan: plan.origin().other_plan().map(|id| id.to_string()),
            body: encode_json(&**plan.terms()),
        }
    }
}

/// Decodes a plan from the bodies of its two rows.
pub fn decode_plan(terms: &str, state: &str) -> Result<Plan, serde_json::Error> {
    let terms: PlanTerms = serde_json::from_str(terms)?;
    Ok(Plan::from_parts(
        Arc::new(terms),
        serde_json::from_str(state)?,
    ))
}

/// Splits a plan that schema 4 stored as one value. Returns the row of its terms and the body of its
/// state. Needs the plan's first event, because the value does not always say who created the plan.
///
/// A plan that cannot be decoded keeps its value in both places. It is as unreadable as before, and
/// the other plans of the store are migrated.
pub fn split_plan(body: &str, first_event: Option<&str>) -> (TermsColumns, String) {
    let split = || -> Result<(TermsColumns, String), serde_json::Error> {
        let first: FirstEvent = serde_json::from_str(first_event.unwrap_or_default())?;
        let mut terms: Value = serde_json::from_str(body)?;
        if let Some(fields) = terms.as_object_mut() {
            fields.insert("created_by".to_owned(), serde_json::to_value(first.by)?);
        }
        let terms: PlanTerms = serde_json::from_value(terms)?;
        let state: PlanState = serde_json::from_str(body)?;
        let plan = Plan::from_parts(Arc::new(terms), state);
        Ok((TermsColumns::from_plan(&plan), encode_json(plan.state())))
    };
    split().unwrap_or_else(|_| {
        let unreadable = TermsColumns {
            origin_plan: None,
            body: body.to_owned(),
        };
        (unreadable, body.to_owned())
    })
}

#[derive(Deserialize)]
struct FirstEvent {
    by: Caller,
}

fn encode_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("BUG: a plan always encodes")
}
