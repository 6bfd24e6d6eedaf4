//! One session of an editor: where it works, what is chosen for it, its plan, and the prompt that runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actors::Stop;
use plan::PlanId;

use super::connection::{INVALID_REQUEST, RequestFailure};
use super::session_options::SessionOptions;

/// A session is named after its first plan, so that it can be found again.
pub struct EditorSession {
    pub id: String,
    /// The working directory that the editor named. It may be below the repository.
    pub directory: PathBuf,
    /// The root of the repository.
    pub repository: PathBuf,
    state: Mutex<SessionState>,
}

struct SessionState {
    options: SessionOptions,
    plan: SessionPlan,
    /// Stops the prompt that runs.
    turn: Option<Stop>,
    /// What the person should know, said with the next prompt.
    notes: Vec<String>,
}

/// The plan that the prompts of a session are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPlan {
    /// The first prompt starts a plan with this id.
    Reserved(PlanId),
    /// Prompts revise this plan.
    Open(PlanId),
    /// The plan landed or was cancelled. The next prompt starts another one.
    Ended,
}

impl EditorSession {
    pub fn new(
        id: String,
        directory: PathBuf,
        repository: PathBuf,
        options: SessionOptions,
        plan: SessionPlan,
    ) -> Self {
        Self {
            id,
            directory,
            repository,
            state: Mutex::new(SessionState {
                options,
                plan,
                turn: None,
                notes: Vec::new(),
            }),
        }
    }

    pub fn options(&self) -> SessionOptions {
        self.lock_state().options.clone()
    }

    /// Changes the options for the next plan. A plan keeps its agent and its profile.
    pub fn change_options(
        &self,
        change: impl FnOnce(&mut SessionOptions) -> Result<bool, RequestFailure>,
    ) -> Result<SessionOptions, RequestFailure> {
        let mut state = self.lock_state();
        let mut changed = state.options.clone();
        let is_other = change(&mut changed)?;
        let is_fixed = state.turn.is_some() || matches!(state.plan, SessionPlan::Open(_));
        if is_other && is_fixed {
            return Err(RequestFailure::new(
                INVALID_REQUEST,
                "The plan of this session keeps its agent and profile. Start a new session to choose others.",
            ));
        }
        state.options = changed.clone();
        Ok(changed)
    }

    pub fn plan(&self) -> SessionPlan {
        self.lock_state().plan
    }

    pub fn set_plan(&self, plan: SessionPlan) {
        self.lock_state().plan = plan;
    }

    pub fn add_note(&self, note: impl Into<String>) {
        self.lock_state().notes.push(note.into());
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.lock_state().notes)
    }

    /// Begins a prompt. Refused while another one runs.
    pub fn begin_turn(self: &Arc<Self>) -> Result<SessionTurn, RequestFailure> {
        let mut state = self.lock_state();
        refuse_busy(&state)?;
        Ok(SessionTurn {
            stop: state.turn.insert(Stop::default()).clone(),
            session: Arc::clone(self),
        })
    }

    /// Refuses what cannot be done while a prompt runs.
    pub fn check_idle(&self) -> Result<(), RequestFailure> {
        refuse_busy(&self.lock_state())
    }

    /// Stops the prompt that runs, if there is one.
    pub fn cancel_turn(&self) {
        if let Some(stop) = &self.lock_state().turn {
            stop.request();
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse_busy(state: &SessionState) -> Result<(), RequestFailure> {
    match &state.turn {
        None => Ok(()),
        Some(_) => Err(RequestFailure::new(
            INVALID_REQUEST,
            "This session is busy with a prompt. Wait until it ends, or cancel it.",
        )),
    }
}

/// A prompt that runs in a session. The session is free again when this is dropped.
pub struct SessionTurn {
    pub session: Arc<EditorSession>,
    /// Requested when the person cancels the prompt, or the program ends.
    pub stop: Stop,
}

impl Drop for SessionTurn {
    fn drop(&mut self) {
        self.session.lock_state().turn = None;
    }
}
