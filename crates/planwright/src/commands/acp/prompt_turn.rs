//! One prompt: starts a plan or revises it, streams what its agent does, and says how it ended.

use std::sync::Arc;

use actors::Stop;
use api::plans::{self, CreatePlanError, CreatePlanRequest, PlanNotice, ReviseRequest};
use lifecycle::DEFAULT_LEASE;
use plan::stage::{FailureCategory, WorkState};
use plan::{PlanId, PlanStage};
use serde_json::{Value, json};
use store::PlanRow;

use super::connection::EditorConnection;
use super::editor_session::{EditorSession, SessionPlan};
use super::landing_offer::{EditorLanding, LandingOffer};
use super::permission_offer::PermissionOffer;
use super::plan_summary::{ShownResult, describe_for_programs, describe_plan};
use super::session_update::message_update;
use super::turn_observer::TurnObserver;
use crate::cli::App;
use crate::commands::run::{DriveEnd, drive_plan, may_ask_permission};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::plan_draft::PlanDraft;
use crate::plan_notices::describe_notices;
use crate::{current_repository, home, ui};

/// What a plan asks after the person stopped its agent. Without a question, a worker would continue the work.
const STOPPED_QUESTION: &str = "You stopped the agent in your editor. What should it do now?";

/// A prompt that runs.
pub struct PromptTurn<'a> {
    pub app: &'a App,
    pub connection: &'a Arc<EditorConnection>,
    pub session: &'a EditorSession,
    /// Requested when the person cancels the prompt, or the program ends.
    pub stop: &'a Stop,
    /// Requested when the program ends.
    pub shutdown: &'a Stop,
    pub landing: EditorLanding,
}

impl PromptTurn<'_> {
    /// Runs the prompt to its end, and returns the answer to it.
    pub fn run(&self, prompt: &str) -> Result<Value, CommandError> {
        let observer =
            TurnObserver::new(self.connection, &self.session.id, &self.session.repository);
        let slow_steps = observer.clone();
        let _redirected = self
            .app
            .slow_steps
            .redirect_to(move |_, step| slow_steps.send_remark(step));
        for note in self.session.take_notes() {
            observer.send_remark(&note);
        }
        let plan_id = match self.find_open_plan()? {
            Some(row) => self.revise_plan(&row, prompt)?,
            None => self.create_plan(prompt, &observer)?,
        };
        let end = self.drive(plan_id, &observer);
        if self.stop.is_requested() {
            return self.end_stopped(plan_id, end, &observer);
        }
        end?;
        self.end_idle(plan_id, &observer)
    }

    /// Works on the plan, and passes on tool calls that wait for the person.
    fn drive(&self, plan_id: PlanId, observer: &TurnObserver) -> Result<DriveEnd, CommandError> {
        let lifecycle = self.app.lifecycle()?;
        if !may_ask_permission(&lifecycle.get_plan(plan_id)?.plan) {
            return drive_plan(self.app, plan_id, None, self.stop, observer);
        }
        let work_ended = Stop::default();
        let offer = PermissionOffer {
            lifecycle,
            invocation: self.app.invocation.clone(),
            connection: self.connection,
            observer,
            session_id: &self.session.id,
            plan_id,
            landing: self.landing,
            stop: self.stop,
            work_ended: &work_ended,
        };
        std::thread::scope(|threads| {
            threads.spawn(|| offer.offer_until_ended());
            let end = drive_plan(self.app, plan_id, None, self.stop, observer);
            work_ended.request();
            end
        })
    }

    /// The plan that the prompt revises; `None` if it starts one.
    fn find_open_plan(&self) -> Result<Option<PlanRow>, CommandError> {
        let SessionPlan::Open(plan_id) = self.session.plan() else {
            return Ok(None);
        };
        let row = self.app.lifecycle()?.get_plan(plan_id)?;
        // It may have landed elsewhere, for example on the page.
        Ok(Some(row).filter(|row| !row.plan.stage().is_final()))
    }

    fn create_plan(&self, prompt: &str, observer: &TurnObserver) -> Result<PlanId, CommandError> {
        let options = self.session.options();
        let place = current_repository::inspect_directory(&self.session.directory)?;
        let request = CreatePlanRequest {
            plan_id: match self.session.plan() {
                SessionPlan::Reserved(plan_id) => Some(plan_id),
                SessionPlan::Open(_) | SessionPlan::Ended => None,
            },
            goal: Some(prompt.to_owned()),
            actor: options.chosen_agent(),
            ..CreatePlanRequest::default()
        };
        let mut draft = PlanDraft::for_repository(self.app, place, request)?;
        let by_settings = draft.config.default_profile().map(|(profile, _)| profile);
        draft.request.profile = options.chosen_profile(by_settings);
        draft.check_actor().map_err(explain_choice_of_agent)?;
        // An agent may not register projects. The worker that will run the plan may.
        let registration = self.app.new_worker_call(&self.owner());
        let (request, created) = draft.create(self.app, &registration, &self.app.new_call())?;
        let plan = &created.outcome.plan;
        self.session.set_plan(SessionPlan::Open(plan.id()));
        observer.send(&json!({
            "sessionUpdate": "session_info_update",
            "title": ui::truncate_line(plan.goal().as_str(), 70),
        }));
        let lifecycle = self.app.lifecycle()?;
        let handle = lifecycle.short_handle(plan.id())?;
        observer.send_remark(&format!("Plan {handle} starts."));
        for notice in plans::find_source_notices(lifecycle, &request) {
            observer.send(&message_update(&describe_notice(&notice)));
        }
        Ok(plan.id())
    }

    /// Sends the plan back to its agent with the prompt as feedback.
    fn revise_plan(&self, row: &PlanRow, prompt: &str) -> Result<PlanId, CommandError> {
        let plan_id = row.plan.id();
        self.stop_waiting_for_worker(row)?;
        let request = ReviseRequest {
            text: prompt.to_owned(),
            ..ReviseRequest::default()
        };
        plans::revise_plan(
            self.app.lifecycle()?,
            plan_id,
            &request,
            &self.app.new_call(),
        )?;
        Ok(plan_id)
    }

    /// A plan that is queued or held cannot be revised. Takes it from a process that ended, and out of the queue.
    fn stop_waiting_for_worker(&self, row: &PlanRow) -> Result<(), CommandError> {
        let (lifecycle, plan_id) = (self.app.lifecycle()?, row.plan.id());
        if row.plan.stage().holder().is_some() {
            if !plans::is_interrupted(lifecycle, row)? {
                return Err(CommandError::new(
                    CommandExit::Conflict,
                    "Another process is working on this plan. Send the prompt again when it is done.",
                )
                .with_hint("planwright wait ID"));
            }
            let call = self.app.new_worker_call(&self.owner());
            lifecycle
                .leases()
                .reclaim_from_dead_holder(plan_id, &call)?;
        } else if row.plan.stage().queue_entry().is_none() {
            return Ok(());
        } else if row.plan.needs_person() {
            return Err(CommandError::new(
                CommandExit::NeedsPerson,
                "The plan waits until you start it: its profile does not let an agent do that.",
            )
            .with_hint("planwright run ID"));
        }
        self.ask_instead_of_queueing(plan_id, &Stop::default())
    }

    /// Keeps workers from continuing a plan that waits in the queue: makes it wait for the person instead.
    fn ask_instead_of_queueing(&self, plan_id: PlanId, stop: &Stop) -> Result<(), CommandError> {
        let lifecycle = self.app.lifecycle()?;
        let plan = lifecycle.get_plan(plan_id)?.plan;
        let owner = self.owner();
        let call = self.app.new_worker_call(&owner).with_stop(stop);
        match plan.stage() {
            PlanStage::Execute(WorkState::Queued(_)) => {
                let claim =
                    lifecycle
                        .claims()
                        .start_execute(plan_id, &owner, DEFAULT_LEASE, &call)?;
                claim.ask(STOPPED_QUESTION, None)?;
            }
            // A strategy cannot be revised while it waits for an answer, but after a failure.
            PlanStage::Strategize(WorkState::Queued(_)) => {
                let claim =
                    lifecycle
                        .claims()
                        .start_strategize(plan_id, &owner, DEFAULT_LEASE, &call)?;
                claim.fail(
                    FailureCategory::Actor,
                    "You stopped the agent in your editor.",
                )?;
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {}
        }
        Ok(())
    }

    /// Ends a prompt that was cancelled, or that runs when the program ends.
    fn end_stopped(
        &self,
        plan_id: PlanId,
        end: Result<DriveEnd, CommandError>,
        observer: &TurnObserver,
    ) -> Result<Value, CommandError> {
        // When the program ends, workers may continue: nobody said that the work is not wanted.
        if !self.shutdown.is_requested() {
            // If a worker was faster, the standing says so. The stop of this prompt was requested already.
            let _ = self.ask_instead_of_queueing(plan_id, self.shutdown);
        }
        let row = self.app.lifecycle()?.get_plan(plan_id)?;
        let text = match end {
            Ok(DriveEnd::Detached) => "Another process keeps working on the plan.".to_owned(),
            Ok(DriveEnd::Idle | DriveEnd::Interrupted) => {
                "Stopped. The work so far is kept.".to_owned()
            }
            Err(error) => format!("Stopped: {}", error.message),
        };
        observer.send(&message_update(&format!("\n\n{text}")));
        observer.send(&message_update(&describe_plan(self.app, &row, None)?));
        self.finish(&row)
    }

    /// Ends a prompt whose plan needs a person, or has ended.
    fn end_idle(&self, plan_id: PlanId, observer: &TurnObserver) -> Result<Value, CommandError> {
        let row = self.app.lifecycle()?.get_plan(plan_id)?;
        let shown = ShownResult::read(self.app, &row)?;
        let asks =
            self.landing == EditorLanding::Asks && is_landable(&row) && !self.stop.is_requested();
        if let Some(shown) = &shown {
            let repository = &self.session.repository;
            let status = match asks {
                true => "pending",
                false => "completed",
            };
            let mut call = shown.to_tool_call(&row.plan, repository, &shown.title(), status);
            call["sessionUpdate"] = json!("tool_call");
            observer.send(&call);
        }
        let text = describe_plan(self.app, &row, shown.as_ref())?;
        observer.send(&message_update(&text));
        let Some(shown) = shown.filter(|_| asks) else {
            return self.finish(&row);
        };
        let offer = LandingOffer {
            app: self.app,
            connection: self.connection,
            session: self.session,
            stop: self.stop,
        };
        if let Some(text) = offer.ask_and_land(&row, &shown)? {
            observer.send(&message_update(&format!("\n\n{text}\n")));
        }
        self.finish(&self.app.lifecycle()?.get_plan(plan_id)?)
    }

    fn finish(&self, row: &PlanRow) -> Result<Value, CommandError> {
        // A cancelled prompt must be answered as such, whatever was done before.
        let stop_reason = match self.stop.is_requested() {
            true => "cancelled",
            false => "end_turn",
        };
        if row.plan.stage().is_final() {
            self.session.set_plan(SessionPlan::Ended);
        }
        let facts = describe_for_programs(self.app, row)?;
        Ok(json!({ "stopReason": stop_reason, "_meta": facts }))
    }

    /// The worker that runs the plans of this session.
    fn owner(&self) -> String {
        let moment = self.app.clock.now().0;
        let process = std::process::id();
        format!("{} (editor {process}-{moment:x})", home::current_person())
    }
}

fn is_landable(row: &PlanRow) -> bool {
    let is_complete = matches!(row.plan.stage(), PlanStage::Execute(WorkState::Complete));
    is_complete && row.plan.has_targets() && !row.is_blocked()
}

fn describe_notice(notice: &PlanNotice) -> String {
    match notice {
        PlanNotice::UncommittedFiles { count, .. } => format!(
            "{} not visible to the agent.\n\n",
            ui::pluralize(*count as u64, "uncommitted file")
        ),
        PlanNotice::UnconfinedSetup { .. }
        | PlanNotice::UncommittedRules { .. }
        | PlanNotice::UncommittedConfig { .. }
        | PlanNotice::UndefinedActor { .. }
        | PlanNotice::OtherActionInRepository { .. }
        | PlanNotice::ProjectPaused { .. } => {
            let messages = describe_notices(std::slice::from_ref(notice)).into_iter();
            messages
                .map(|message| format!("{}\n\n", message.text))
                .collect()
        }
    }
}

/// Says how to choose an agent in an editor, where the flag of a command is of no use.
fn explain_choice_of_agent(error: CreatePlanError) -> CommandError {
    let several = matches!(error, CreatePlanError::SeveralActors(_));
    let error = CommandError::from(error);
    match several {
        true => CommandError {
            hints: vec![
                "Choose one in the options of this thread.".to_owned(),
                "For all plans: planwright config set actor NAME".to_owned(),
            ],
            ..error
        },
        false => error,
    }
}
