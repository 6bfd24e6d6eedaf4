//! Opens sessions: new ones, and those of plans that exist.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan::PlanId;
use sandbox::GitLocation;
use serde_json::{Value, json};

use super::connection::{INVALID_REQUEST, RequestFailure};
use super::editor_server::{EditorServer, unknown_session};
use super::editor_session::{EditorSession, SessionPlan};
use super::plan_summary::{ShownResult, describe_plan};
use super::session_history::read_history;
use super::session_options::SessionOptions;
use super::session_update::message_update;
use crate::cli::App;
use crate::current_repository;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::plan_draft::PlanDraft;

/// A bound for an editor that opens sessions without end.
const MAX_SESSIONS: usize = 1000;

/// Whether the conversation is shown again when a session is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryReplay {
    Full,
    None,
}

impl EditorServer {
    pub fn open_session(&self, params: &Value) -> Result<Value, RequestFailure> {
        let directory = read_directory(params)?;
        let app = self.open_app()?;
        let opened = (|| {
            let place = current_repository::inspect_directory(&directory)?;
            let options = read_options(&app, &place)?;
            Ok((place, options, app.lifecycle()?.new_plan_id()))
        })();
        let (place, options, plan_id) =
            opened.map_err(|error| self.describe_failure(&app, error, None))?;
        let session = EditorSession::new(
            plan_id.to_string(),
            directory,
            place.path,
            options.clone(),
            SessionPlan::Reserved(plan_id),
        );
        self.add_session(session, params)?;
        Ok(json!({
            "sessionId": plan_id,
            "configOptions": options.to_config_options(),
            "modes": options.to_modes(),
        }))
    }

    pub fn continue_session(
        &self,
        params: &Value,
        replay: HistoryReplay,
    ) -> Result<Value, RequestFailure> {
        let directory = read_directory(params)?;
        let id = params["sessionId"].as_str().unwrap_or_default();
        let plan_id: PlanId = id.parse().map_err(|_| unknown_session(id))?;
        if let Ok(same) = self.find_session(params) {
            same.check_idle()?;
        }
        let app = self.open_app()?;
        self.find_continued_plan(&app, &directory, plan_id)
            .and_then(|session| {
                if replay == HistoryReplay::Full {
                    self.replay_history(&app, &session, plan_id)?;
                }
                Ok(session)
            })
            .map_err(|error| self.describe_failure(&app, error, Some(plan_id)))
            .and_then(|session| {
                let options = session.options();
                self.add_session(session, params)?;
                Ok(json!({
                    "configOptions": options.to_config_options(),
                    "modes": options.to_modes(),
                }))
            })
    }

    /// Checks that a plan is one of this person's editors, and that it works on the repository of the directory.
    fn find_continued_plan(
        &self,
        app: &App,
        directory: &Path,
        plan_id: PlanId,
    ) -> Result<EditorSession, CommandError> {
        let lifecycle = app.lifecycle()?;
        let plan = lifecycle.get_plan(plan_id)?.plan;
        if plan.created_by() != Some(&self.editor_agent) {
            return Err(CommandError::new(
                CommandExit::NeedsPerson,
                "This plan was not started from an editor.",
            )
            .with_hint("planwright run ID"));
        }
        let place = current_repository::inspect_directory(directory)?;
        let projects: Vec<_> = plan.projects().into_iter().cloned().collect();
        let resources = lifecycle.sandboxes().locate_project_resources(&projects)?;
        if resources
            .iter()
            .all(|one| one.location.path() != place.path)
        {
            return Err(CommandError::usage(format!(
                "This plan does not work on the repository {}.",
                place.path.display()
            )));
        }
        let is_final = plan.stage().is_final();
        let options = match is_final {
            // The next prompt starts another plan.
            true => read_options(app, &place)?,
            false => SessionOptions::of_plan(&plan),
        };
        Ok(EditorSession::new(
            plan_id.to_string(),
            directory.to_owned(),
            place.path,
            options,
            match is_final {
                true => SessionPlan::Ended,
                false => SessionPlan::Open(plan_id),
            },
        ))
    }

    fn replay_history(
        &self,
        app: &App,
        session: &EditorSession,
        plan_id: PlanId,
    ) -> Result<(), CommandError> {
        for update in read_history(app, plan_id, &session.repository)? {
            self.connection.send_update(&session.id, &update);
        }
        let row = app.lifecycle()?.get_plan(plan_id)?;
        let shown = ShownResult::read(app, &row)?;
        let text = describe_plan(app, &row, shown.as_ref())?;
        self.connection
            .send_update(&session.id, &message_update(&text));
        Ok(())
    }

    /// Adds a session. One that is continued takes the place of the same one, unless a prompt of it runs.
    fn add_session(&self, session: EditorSession, params: &Value) -> Result<(), RequestFailure> {
        let servers = params["mcpServers"].as_array();
        if servers.is_some_and(|servers| !servers.is_empty()) {
            session.add_note("The MCP servers of the editor are not passed on to the agent.");
        }
        let mut sessions = self.lock_sessions();
        if let Some(same) = sessions.get(&session.id) {
            same.check_idle()?;
        } else if sessions.len() >= MAX_SESSIONS {
            return Err(RequestFailure::new(
                INVALID_REQUEST,
                "Too many sessions are open. Close some, or restart the agent.",
            ));
        }
        sessions.insert(session.id.clone(), Arc::new(session));
        Ok(())
    }
}

fn read_options(app: &App, place: &GitLocation) -> Result<SessionOptions, CommandError> {
    let draft = PlanDraft::for_repository(app, place.clone(), Default::default())?;
    SessionOptions::for_new_plan(&draft.config)
}

pub fn read_directory(params: &Value) -> Result<PathBuf, RequestFailure> {
    let directory = PathBuf::from(params["cwd"].as_str().unwrap_or_default());
    match directory.is_absolute() {
        true => Ok(directory),
        false => Err(RequestFailure::invalid_params(
            "`cwd` must be the absolute path of a git repository, or of a directory in one.",
        )),
    }
}
