//! The form for a new plan: a goal, or an action with its arguments.

use std::sync::Arc;

use api::view::ActionView;
use askama::Template;
use axum::extract::State;
use plan::QualifiedName;
use serde::Deserialize;

use super::visible::visible;
use super::{PageAnswer, render};
use crate::engine_access::EngineView;
use crate::failure::EngineFailure;
use crate::routes::request::UrlQuery;
use crate::state::ServerState;

const MAX_LISTED: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormQuery {
    /// The action whose arguments the form asks for.
    #[serde(default)]
    action: String,
}

/// What the form offers. Repositories and agents come first that are most likely meant.
pub struct NewPlanForm {
    pub projects: Vec<String>,
    pub actions: Vec<String>,
    pub agents: Vec<String>,
    pub chosen: Option<ActionView>,
    pub chosen_name: String,
}

#[derive(Template)]
#[template(path = "new_plan.html")]
struct NewPlanTemplate {
    form: NewPlanForm,
}

pub async fn show_form(
    State(state): State<Arc<ServerState>>,
    UrlQuery(query): UrlQuery<FormQuery>,
) -> PageAnswer {
    let form = state
        .engine
        .view("run", None, move |engine| read_form(&engine, &query.action))
        .await?;
    render(&NewPlanTemplate { form })
}

/// Reads what a form for a new plan offers, with the arguments of an action if one is named.
pub fn read_form(engine: &EngineView<'_>, action_name: &str) -> Result<NewPlanForm, EngineFailure> {
    let lifecycle = engine.lifecycle;
    let projects = lifecycle.projects().list_projects(None, MAX_LISTED)?;
    let actions = lifecycle.actions().list_actions(None, MAX_LISTED)?;
    let actions: Vec<_> = actions
        .iter()
        .filter(|action| {
            api::actions::is_available(action) && !api::actions::is_frozen(action.name())
        })
        .collect();
    let chosen = actions
        .iter()
        .find(|action| action.name().to_string() == action_name)
        .map(|action| ActionView::from(*action));
    let names: Vec<QualifiedName> = projects
        .iter()
        .map(|project| project.name.clone())
        .collect();
    // One repository with a malformed file must not keep the others from being used.
    let config = engine.read_plan_config(&names);
    let config = config.or_else(|_| engine.read_plan_config(&[]))?;
    let agents = config.actors.available_names(&config.repository.actors);
    let default = config.default_actor().cloned();
    let mut agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    if let Some(default) = default.map(|name| name.to_string()) {
        agents.retain(|name| *name != default);
        agents.insert(0, default);
    }
    Ok(NewPlanForm {
        projects: names.iter().map(ToString::to_string).collect(),
        actions: actions
            .iter()
            .map(|action| action.name().to_string())
            .collect(),
        agents,
        chosen_name: chosen.as_ref().map_or(String::new(), |it| it.name.clone()),
        chosen: chosen.map(|mut action| {
            action.description = visible(&action.description);
            action
        }),
    })
}
