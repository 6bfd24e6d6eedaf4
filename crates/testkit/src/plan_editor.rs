//! Builds plans that no command produces, for tests of damage and planted bugs.

use std::sync::Arc;

use plan::{Plan, PlanState, PlanTerms};
use serde_json::{Map, Value};

/// Returns the plan with some of its encoded fields changed. Terms and state share no field names.
pub fn edit_plan(plan: &Plan, edit: impl FnOnce(&mut Map<String, Value>)) -> Plan {
    let encoded = [
        serde_json::to_value(&**plan.terms()),
        serde_json::to_value(plan.state()),
    ];
    let mut fields = Map::new();
    for part in encoded {
        if let Value::Object(part) = part.unwrap() {
            fields.extend(part);
        }
    }
    edit(&mut fields);
    let fields = Value::Object(fields);
    let terms: PlanTerms = serde_json::from_value(fields.clone()).unwrap();
    let state: PlanState = serde_json::from_value(fields).unwrap();
    Plan::from_parts(Arc::new(terms), state)
}
