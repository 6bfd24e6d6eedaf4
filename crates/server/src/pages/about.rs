//! Everything else, to look at: projects, actions, rules and sessions.

use std::sync::Arc;

use api::view::{ActionView, ProjectView, RuleView};
use askama::Template;
use axum::Extension;
use axum::extract::State;

use super::visible::visible;
use super::{PageAnswer, render};
use crate::guard::CurrentSession;
use crate::problem::Problem;
use crate::session::SessionView;
use crate::state::ServerState;

const MAX_LISTED: usize = 200;

#[derive(Template)]
#[template(path = "about.html")]
struct AboutTemplate {
    projects: Vec<ProjectView>,
    actions: Vec<ActionView>,
    rules: Vec<AboutRule>,
    sessions: Vec<SessionView>,
    version: &'static str,
}

struct AboutRule {
    name: String,
    scope: String,
    kind: &'static str,
    check: String,
}

pub async fn show_about(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<CurrentSession>,
) -> PageAnswer {
    let sessions = state.sessions.list_sessions(&session.session_id);
    let sessions = sessions.map_err(|error| {
        Problem::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "sessions_unreadable",
            format!("Cannot read the sessions: {error}"),
        )
    })?;
    let (projects, actions, rules) = state
        .engine
        .view("project list", None, |engine| {
            let lifecycle = engine.lifecycle;
            let projects = lifecycle.projects().list_projects(None, MAX_LISTED)?;
            let actions = lifecycle.actions().list_actions(None, MAX_LISTED)?;
            let rules = lifecycle.rules().list_rules()?;
            let rules = rules.rules.iter().map(|rule| {
                let view = RuleView::from(rule);
                AboutRule {
                    check: visible(&rule.draft.check.source()),
                    name: view.name,
                    scope: view.scope,
                    kind: view.kind,
                }
            });
            Ok((
                projects.iter().map(ProjectView::from).collect(),
                actions.iter().map(ActionView::from).collect(),
                rules.collect(),
            ))
        })
        .await?;
    render(&AboutTemplate {
        projects,
        actions,
        rules,
        sessions,
        version: env!("CARGO_PKG_VERSION"),
    })
}
