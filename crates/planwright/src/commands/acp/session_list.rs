//! Lists the sessions that an editor can load: the plans that editors of this person started.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lifecycle::Lifecycle;
use plan::{Caller, Plan, PlanId, QualifiedName};
use serde_json::{Value, json};
use store::PlanFilter;

use super::session_opening::read_directory;
use crate::cli::App;
use crate::current_repository;
use crate::error::CommandError;
use crate::ui;

/// How many plans one page looks at. Those of others are skipped, so a page may have fewer sessions, or none.
const SCANNED_PLANS: usize = 200;

/// Returns a page of sessions, newest first. Limited to a repository if the editor names a directory.
pub fn list_sessions(
    app: &App,
    params: &Value,
    editor_agent: &Caller,
) -> Result<Value, CommandError> {
    let lifecycle = app.lifecycle()?;
    let wanted = match params["cwd"].is_null() {
        true => None,
        false => {
            let directory =
                read_directory(params).map_err(|failure| CommandError::usage(failure.message))?;
            Some(current_repository::inspect_directory(&directory)?.path)
        }
    };
    let after = params["cursor"].as_str().map(str::parse::<PlanId>);
    let after = after
        .transpose()
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let rows = lifecycle.list_plans(&PlanFilter::default(), after, SCANNED_PLANS)?;
    let next = rows.last().filter(|_| rows.len() == SCANNED_PLANS);
    let mut repositories = RepositoryPaths::new(lifecycle);
    let mut sessions = Vec::new();
    let own = rows.iter().map(|row| &row.plan);
    for plan in own.filter(|plan| plan.created_by() == Some(editor_agent)) {
        // A repository on another host cannot be opened here.
        let Some(directory) = repositories.find(plan) else {
            continue;
        };
        if wanted.as_ref().is_none_or(|wanted| *wanted == directory) {
            sessions.push(json!({
                "sessionId": plan.id(),
                "cwd": directory,
                "title": ui::truncate_line(plan.goal().as_str(), 70),
                "updatedAt": plan.updated_at(),
            }));
        }
    }
    let mut page = json!({ "sessions": sessions });
    if let Some(next) = next {
        page["nextCursor"] = json!(next.plan.id());
    }
    Ok(page)
}

/// Looks up the repositories of plans, each project once.
struct RepositoryPaths<'a> {
    lifecycle: &'a Lifecycle,
    known: BTreeMap<QualifiedName, Option<PathBuf>>,
}

impl<'a> RepositoryPaths<'a> {
    fn new(lifecycle: &'a Lifecycle) -> Self {
        Self {
            lifecycle,
            known: BTreeMap::new(),
        }
    }

    fn find(&mut self, plan: &Plan) -> Option<PathBuf> {
        let project = plan.projects().into_iter().next()?;
        let lifecycle = self.lifecycle;
        let found = self.known.entry(project.clone()).or_insert_with(|| {
            let sandboxes = lifecycle.sandboxes();
            let resources = sandboxes.locate_project_resources(std::slice::from_ref(project));
            let first = resources.ok()?.into_iter().next()?;
            Some(first.location.path().to_owned())
        });
        found.clone()
    }
}
