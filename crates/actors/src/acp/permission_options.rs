//! Answers to `session/request_permission`: one of the options that the agent offers.

use serde_json::{Value, json};

use crate::stream::json::{JsonObject, get_array, get_text};

/// What the agent offers, and only for this call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PermissionOptions {
    allow_once: Option<String>,
    reject: Option<String>,
}

impl PermissionOptions {
    pub(super) fn from_params(params: &JsonObject) -> Self {
        let options = get_array(params, "options").iter();
        let options: Vec<&JsonObject> = options.filter_map(Value::as_object).collect();
        let find = |kind: &str| {
            let mut of_kind = options
                .iter()
                .filter(|option| get_text(option, "kind") == Some(kind));
            let id = of_kind.find_map(|option| get_text(option, "optionId"));
            id.map(str::to_owned)
        };
        Self {
            allow_once: find("allow_once"),
            // Rejecting forever is still a rejection, while allowing forever is more than was asked.
            reject: find("reject_once").or_else(|| find("reject_always")),
        }
    }

    /// Can the call be allowed without allowing more?
    pub(super) fn can_allow_once(&self) -> bool {
        self.allow_once.is_some()
    }

    pub(super) fn allow_result(&self) -> Value {
        select_option(self.allow_once.as_deref())
    }

    pub(super) fn reject_result(&self) -> Value {
        select_option(self.reject.as_deref())
    }
}

/// The answer if the turn was cancelled.
pub(super) fn cancelled_result() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn select_option(id: Option<&str>) -> Value {
    match id {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => cancelled_result(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kinds: &[(&str, &str)]) -> PermissionOptions {
        let options: Vec<Value> = kinds
            .iter()
            .map(|(id, kind)| json!({"optionId": id, "kind": kind, "name": "x"}))
            .collect();
        let mut params = JsonObject::default();
        params.insert("options".to_owned(), options.into());
        PermissionOptions::from_params(&params)
    }

    #[test]
    fn only_options_for_one_call_are_used_to_allow() {
        let chosen = |result: Value| {
            let id = result["outcome"]["optionId"].as_str().map(str::to_owned);
            id.unwrap_or_else(|| result["outcome"]["outcome"].as_str().unwrap().to_owned())
        };
        let all = options(&[
            ("forever", "allow_always"),
            ("yes", "allow_once"),
            ("yes-and-switch", "allow_once"),
            ("never", "reject_always"),
            ("no", "reject_once"),
        ]);
        assert_eq!(chosen(all.allow_result()), "yes");
        assert_eq!(chosen(all.reject_result()), "no");
        let few = options(&[("forever", "allow_always"), ("never", "reject_always")]);
        assert!(!few.can_allow_once());
        assert_eq!(chosen(few.allow_result()), "cancelled");
        assert_eq!(chosen(few.reject_result()), "never");
        assert_eq!(chosen(options(&[]).reject_result()), "cancelled");
    }
}
