//! What an agent offers: how it continues a session, and which modes and models can be chosen in it.

use serde_json::{Value, json};

use crate::stream::json::{JsonObject, get_array, get_object, get_text};

/// How to open a session, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionOpening {
    /// Continue without hearing the conversation again.
    Resume,
    /// Continue. The agent sends the whole conversation again.
    Load,
    New,
}

impl SessionOpening {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Resume => "session/resume",
            Self::Load => "session/load",
            Self::New => "session/new",
        }
    }
}

/// The ways to continue a session that the result of `initialize` offers, and to open a new one.
pub(super) fn read_openings(initialize_result: &JsonObject) -> Vec<SessionOpening> {
    let capabilities = get_object(initialize_result, "agentCapabilities");
    let sessions = capabilities.and_then(|all| get_object(all, "sessionCapabilities"));
    // A capability is offered by an object, which may be empty.
    let can_resume = sessions.is_some_and(|all| {
        let resume = all.get("resume");
        resume.is_some_and(|resume| !resume.is_null() && *resume != Value::Bool(false))
    });
    let can_load = capabilities
        .is_some_and(|all| all.get("loadSession").and_then(Value::as_bool) == Some(true));
    [
        (can_resume, SessionOpening::Resume),
        (can_load, SessionOpening::Load),
        (true, SessionOpening::New),
    ]
    .into_iter()
    .filter_map(|(is_offered, opening)| is_offered.then_some(opening))
    .collect()
}

/// A request that chooses a mode or a model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SettingRequest {
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// What is set, for people, such as "the mode `plan`".
    pub(super) what: String,
}

/// Something that can be chosen in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionSetting {
    Mode,
    Model,
}

impl SessionSetting {
    fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
        }
    }

    /// The request that chooses `wanted` in a session that was opened with this result. Fails with a message
    /// if the agent does not offer it.
    pub(super) fn request_for(
        self,
        wanted: &str,
        session: &str,
        opened: &JsonObject,
    ) -> Result<SettingRequest, String> {
        let name = self.name();
        let offered = self.own_choices(opened);
        let option = find_config_option(opened, name);
        let option_choices = option.map(config_choices).unwrap_or_default();
        let (method, params) = if let Some(id) = find_choice(&offered, wanted) {
            let key = format!("{name}Id");
            let method = match self {
                Self::Mode => "session/set_mode",
                Self::Model => "session/set_model",
            };
            (method, json!({"sessionId": session, (key): id}))
        } else if let Some(option) = option
            && let Some(value) = find_choice(&option_choices, wanted)
        {
            let config_id = get_text(option, "id").unwrap_or(name);
            let params = json!({"sessionId": session, "configId": config_id, "value": value});
            ("session/set_config_option", params)
        } else {
            let known = offered.into_iter().chain(option_choices);
            let mut known: Vec<String> = known.map(|choice| format!("`{}`", choice.id)).collect();
            known.dedup();
            return Err(match known.is_empty() {
                true => format!("offers no choice of a {name}, so `{wanted}` cannot be chosen"),
                false => format!(
                    "does not offer the {name} `{wanted}`: it offers {}",
                    known.join(", ")
                ),
            });
        };
        Ok(SettingRequest {
            method,
            params,
            what: format!("the {name} `{wanted}`"),
        })
    }

    /// The choices in the field for this setting, which not every agent has.
    fn own_choices(self, opened: &JsonObject) -> Vec<OfferedChoice<'_>> {
        let (field, list, id) = match self {
            Self::Mode => ("modes", "availableModes", "id"),
            Self::Model => ("models", "availableModels", "modelId"),
        };
        let Some(offered) = get_object(opened, field) else {
            return Vec::new();
        };
        read_choices(get_array(offered, list), id)
    }
}

struct OfferedChoice<'a> {
    id: &'a str,
    name: Option<&'a str>,
}

fn read_choices<'a>(items: &'a [Value], id_key: &str) -> Vec<OfferedChoice<'a>> {
    let items = items.iter().filter_map(Value::as_object);
    let choices = items.filter_map(|item| {
        Some(OfferedChoice {
            id: get_text(item, id_key)?,
            name: get_text(item, "name"),
        })
    });
    choices.collect()
}

/// Finds a choice by its id, the end of an id that is an address, or its name.
fn find_choice<'a>(choices: &[OfferedChoice<'a>], wanted: &str) -> Option<&'a str> {
    let by_id = |choice: &&OfferedChoice<'_>| choice.id == wanted;
    let by_id_end = |choice: &&OfferedChoice<'_>| {
        choice
            .id
            .rsplit_once('#')
            .is_some_and(|(_, end)| end == wanted)
    };
    let by_name = |choice: &&OfferedChoice<'_>| {
        choice
            .name
            .is_some_and(|name| name.eq_ignore_ascii_case(wanted))
    };
    let found = choices
        .iter()
        .find(by_id)
        .or_else(|| choices.iter().find(by_id_end))
        .or_else(|| choices.iter().find(by_name));
    found.map(|choice| choice.id)
}

fn find_config_option<'a>(opened: &'a JsonObject, name: &str) -> Option<&'a JsonObject> {
    let options = || {
        let options = get_array(opened, "configOptions").iter();
        options.filter_map(Value::as_object)
    };
    options()
        .find(|option| get_text(option, "category") == Some(name))
        .or_else(|| options().find(|option| get_text(option, "id") == Some(name)))
}

/// The values of an option. They may be in groups.
fn config_choices(option: &JsonObject) -> Vec<OfferedChoice<'_>> {
    let options = get_array(option, "options");
    let mut choices = read_choices(options, "value");
    for group in options.iter().filter_map(Value::as_object) {
        choices.extend(read_choices(get_array(group, "options"), "value"));
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> JsonObject {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn sessions_are_continued_only_as_offered() {
        let openings = |capabilities: Value| {
            let result = object(json!({ "agentCapabilities": capabilities }));
            read_openings(&result)
        };
        use SessionOpening::{Load, New, Resume};
        let both = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
        assert_eq!(openings(both), [Resume, Load, New]);
        assert_eq!(openings(json!({"loadSession": true})), [Load, New]);
        assert_eq!(
            openings(json!({"loadSession": false, "sessionCapabilities": {"resume": null}})),
            [New]
        );
        assert_eq!(openings(json!(null)), [New]);
    }

    #[test]
    fn modes_and_models_are_chosen_as_the_agent_offers_them() {
        let opened = object(json!({
            "modes": {"availableModes": [{"id": "https://a.example/modes#plan", "name": "Plan"}]},
            "configOptions": [
                {"id": "m", "category": "model", "options": [{"value": "big", "name": "Big One"}]},
                {"id": "mode", "options": [{"name": "group", "options": [{"value": "build"}]}]}
            ]
        }));
        let check = |setting: SessionSetting, wanted: &str, expected: &str| {
            let request = setting.request_for(wanted, "s", &opened);
            let text = match request {
                Ok(request) => format!("{} {}", request.method, request.params),
                Err(message) => message,
            };
            assert_eq!(text, expected);
        };
        let by_mode =
            r#"session/set_mode {"modeId":"https://a.example/modes#plan","sessionId":"s"}"#;
        check(SessionSetting::Mode, "plan", by_mode);
        check(SessionSetting::Mode, "PLAN", by_mode);
        check(
            SessionSetting::Mode,
            "build",
            r#"session/set_config_option {"configId":"mode","sessionId":"s","value":"build"}"#,
        );
        check(
            SessionSetting::Model,
            "big one",
            r#"session/set_config_option {"configId":"m","sessionId":"s","value":"big"}"#,
        );
        check(
            SessionSetting::Model,
            "small",
            "does not offer the model `small`: it offers `big`",
        );
        let nothing = SessionSetting::Mode.request_for("x", "s", &JsonObject::default());
        let message = "offers no choice of a mode, so `x` cannot be chosen";
        assert_eq!(nothing.unwrap_err(), message);
    }
}
