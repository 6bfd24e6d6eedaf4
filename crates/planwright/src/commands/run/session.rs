//! A `run` session: drives the plan, or follows the process that does, until a person is needed. On a
//! terminal, asks that person.

use actors::Stop;
use lifecycle::{
    DriveOutcome, DriveProgress, LeaseWatch, Lifecycle, LifecycleError, PlanDriver,
    TranscriptStart, TranscriptStream,
};
use plan::decide::IdleReason;
use plan::takeover::HolderLiveness;
use plan::{Caller, Event, Plan, PlanId, QualifiedName};

use super::permission_prompt::{PermissionPrompter, may_ask_permission};
use super::session_end::{self, SessionDecision};
use super::{LandingConsent, POLL_INTERVAL};
use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui::{self, ProgressAudience, ProgressDisplay};
use crate::{actor_set, home, notify, signals};

/// Expired leases to reclaim in one pass.
const MAX_RECLAIMED_LEASES: usize = 50;

/// Drives a plan until a person is needed, and asks them on a terminal. Repeats while they continue.
pub fn continue_plan(
    app: &App,
    plan_id: PlanId,
    consent: LandingConsent,
) -> Result<CommandAnswer, CommandError> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    let person = home::current_caller();
    let mut requester = Some(&person);
    loop {
        let progress =
            ProgressDisplay::start(ProgressAudience::for_format(app.format), &app.slow_steps);
        let end = drive_with_prompts(app, plan_id, requester, &stop, &progress);
        drop(progress);
        let message = match end? {
            DriveEnd::Idle => None,
            DriveEnd::Interrupted => Some("Interrupted. The work so far is kept."),
            DriveEnd::Detached => Some("Detached. The plan keeps running. To follow it again:"),
        };
        if let Some(message) = message {
            let handle = app.lifecycle()?.short_handle(plan_id)?;
            return Err(CommandError::new(CommandExit::Interrupted, message)
                .with_hint(format!("planwright run {handle}")));
        }
        match session_end::ask_person(app, plan_id, consent)? {
            SessionDecision::Answer(answer) => return Ok(*answer),
            SessionDecision::Continue => requester = Some(&person),
            SessionDecision::Follow => requester = None,
        }
    }
}

/// Drives the plan. On a terminal, asks the person about tool calls that the agent waits for.
fn drive_with_prompts(
    app: &App,
    plan_id: PlanId,
    requester: Option<&Caller>,
    stop: &Stop,
    display: &ProgressDisplay,
) -> Result<DriveEnd, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan = lifecycle.get_plan(plan_id)?.plan;
    if !ui::can_ask_person(app.format) || !may_ask_permission(&plan) {
        return drive_plan(app, plan_id, requester, stop, display);
    }
    let work_ended = Stop::default();
    let prompter = PermissionPrompter {
        lifecycle,
        plan_id,
        display,
        call: app.new_call(),
        session_stop: stop,
        work_ended: &work_ended,
    };
    std::thread::scope(|threads| {
        threads.spawn(|| prompter.ask_until_ended());
        let end = drive_plan(app, plan_id, requester, stop, display);
        work_ended.request();
        end
    })
}

/// Why a session no longer drives or follows its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriveEnd {
    /// A person is needed, or the plan ended.
    Idle,
    /// A signal stopped the work of this process.
    Interrupted,
    /// A signal arrived while another process worked on the plan, which it continues to do.
    Detached,
}

/// Returns what a signal stopped: this process's work, or only following another one's.
fn find_session_stop(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    owner: &str,
) -> Result<DriveEnd, CommandError> {
    let row = lifecycle.get_plan(plan_id)?;
    let is_held_elsewhere = row
        .plan
        .stage()
        .holder()
        .is_some_and(|holder| holder.owner != owner);
    let is_alive = lifecycle.leases().holder_liveness(&row)? != Some(HolderLiveness::Ended);
    Ok(match is_held_elsewhere && is_alive {
        true => DriveEnd::Detached,
        false => DriveEnd::Interrupted,
    })
}

/// Is told what happens while a plan is driven or followed.
pub trait DriveObserver: Sync {
    fn update(&self, plan: &Plan, progress: &DriveProgress);
    /// Nothing happens in this process for now.
    fn show_waiting(&self, reason: &str);
}

impl DriveObserver for ProgressDisplay {
    fn update(&self, plan: &Plan, progress: &DriveProgress) {
        ProgressDisplay::update(self, plan, progress);
    }

    fn show_waiting(&self, reason: &str) {
        ProgressDisplay::show_waiting(self, reason);
    }
}

/// Drives the plan, or follows its holder.
pub fn drive_plan(
    app: &App,
    plan_id: PlanId,
    requester: Option<&Caller>,
    stop: &Stop,
    observer: &dyn DriveObserver,
) -> Result<DriveEnd, CommandError> {
    let lifecycle = app.lifecycle()?;
    let moment = app.clock.now().0;
    let owner = format!(
        "{} (run {}-{moment:x})",
        home::current_person(),
        std::process::id()
    );
    // Registered while it works, so that after a crash others see the dead process and need not wait for
    // the lease to expire.
    let presence = lifecycle
        .local_host()?
        .sandboxes
        .processes()
        .register_presence(&owner)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let actor_set = actor_set::make_actor_set(app)?;
    let notifier = notify::PersonNotifier::from_settings(app);
    let on_progress = |plan: &Plan, engine_progress: &DriveProgress| {
        observer.update(plan, engine_progress);
        notifier.observe(plan, engine_progress);
    };
    let drive = PlanDriver {
        lifecycle,
        actor_set: &actor_set,
        owner: &owner,
        lease: lifecycle::DEFAULT_LEASE,
        stop,
        on_progress: &on_progress,
    };
    let outcome = drive_until_idle(app, plan_id, requester, &drive, observer);
    if outcome.is_err() {
        presence.end_keeping_file();
    }
    outcome
}

fn drive_until_idle(
    app: &App,
    plan_id: PlanId,
    mut requester: Option<&Caller>,
    drive: &PlanDriver<'_>,
    progress: &dyn DriveObserver,
) -> Result<DriveEnd, CommandError> {
    let (lifecycle, stop) = (drive.lifecycle, drive.stop);
    let mut watch = LeaseWatch::new(lifecycle::DEFAULT_LEASE);
    let mut commits = lifecycle.watch_commits()?;
    // What another process's agent says, from the start of its run.
    let mut transcript = None;
    let mut retry_note = None;
    loop {
        let mut held_elsewhere = None;
        match drive
            .drive_plan(plan_id, requester.take())
            .map_err(|error| explain_drive_error(app, plan_id, error))?
        {
            DriveOutcome::Stopped => {
                return find_session_stop(lifecycle, plan_id, drive.owner);
            }
            DriveOutcome::Idle(IdleReason::NeedsPerson | IdleReason::Ended)
            | DriveOutcome::Blocked => return Ok(DriveEnd::Idle),
            DriveOutcome::Idle(IdleReason::NotDue(_)) => {
                let plan = lifecycle.get_plan(plan_id)?.plan;
                // The log is read once for each attempt.
                let known = retry_note
                    .take()
                    .filter(|(version, _)| *version == plan.version());
                let (version, note) = match known {
                    Some(known) => known,
                    None => (plan.version(), describe_retry(lifecycle, &plan)?),
                };
                progress.show_waiting(&note);
                retry_note = Some((version, note));
            }
            DriveOutcome::OverBudget(over) => {
                progress.show_waiting(&format!("waiting: {over}"));
                // The budget may be reserved by dead holders, and there may be no worker to reclaim it.
                let _ = lifecycle.leases().reclaim_expired_leases(
                    MAX_RECLAIMED_LEASES,
                    &app.new_worker_call(drive.owner),
                );
            }
            DriveOutcome::Idle(IdleReason::Held) => {
                progress.show_waiting("another process is working on it");
                // Refused while the holder is alive.
                let _ = lifecycle.leases().take_over_lease(
                    plan_id,
                    &mut watch,
                    &app.new_worker_call(drive.owner),
                );
                held_elsewhere = Some(lifecycle.get_plan(plan_id)?);
            }
            DriveOutcome::NoActor(name) => return Err(unknown_actor_error(app, plan_id, &name)?),
            DriveOutcome::Unreachable(error) => return Err(error.into()),
        }
        match held_elsewhere {
            Some(row) => {
                let transcript = match &mut transcript {
                    Some(transcript) => transcript,
                    None => transcript
                        .insert(lifecycle.transcript(plan_id, TranscriptStart::CurrentRun)?),
                };
                commits.wait_for_holder(&row, stop, || {
                    show_new_entries(&row.plan, transcript, progress)
                })?;
            }
            None => {
                transcript = None;
                commits.wait_for_commit(POLL_INTERVAL)?;
            }
        }
        if stop.is_requested() {
            return find_session_stop(lifecycle, plan_id, drive.owner);
        }
    }
}

/// Says why the plan waits for another attempt.
fn describe_retry(lifecycle: &Lifecycle, plan: &Plan) -> Result<String, CommandError> {
    const MAX_REASON_CHARS: usize = 100;
    let history = lifecycle.history().read_history(plan.id())?;
    let failure = history
        .iter()
        .rev()
        .find_map(|recorded| match &recorded.event {
            Event::Failed { failure } => Some(failure.message.first_line()),
            _ => None,
        });
    let reason = ui::truncate_line(
        failure.unwrap_or("the last attempt failed"),
        MAX_REASON_CHARS,
    );
    let (attempt, most) = (plan.unattended_attempts(), plan.limits().attempts);
    Ok(format!("waiting to retry ({attempt} of {most}): {reason}"))
}

/// Shows what another process's agent did since the last call, as the terminal of that process does.
fn show_new_entries(
    plan: &Plan,
    transcript: &mut TranscriptStream<'_>,
    progress: &dyn DriveObserver,
) -> Result<(), LifecycleError> {
    while let Some(stored) = transcript.next_ready()? {
        progress.update(plan, &DriveProgress::AgentEntry(stored.entry));
    }
    Ok(())
}

fn unknown_actor_error(
    app: &App,
    plan_id: PlanId,
    name: &QualifiedName,
) -> Result<CommandError, CommandError> {
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    let message = format!("Unknown agent `{name}`: the plan was created without its definition.");
    Ok(CommandError::new(CommandExit::NotFound, message)
        .with_hint("Work on it with plumbing commands: planwright help plumbing")
        .with_hint(format!("planwright cancel {handle}")))
}

/// Converts the error. If the disk is full, replaces the hints with how to continue.
fn explain_drive_error(
    app: &App,
    plan_id: PlanId,
    error: lifecycle::LifecycleError,
) -> CommandError {
    let is_full = error.is_out_of_space();
    let error = CommandError::from(error);
    let handle = app
        .lifecycle()
        .map(|lifecycle| lifecycle.short_handle(plan_id));
    match handle {
        Ok(Ok(handle)) if is_full => CommandError {
            hints: vec![
                "Free some space; the agent's work is kept. Then continue:".to_owned(),
                format!("planwright run {handle}"),
            ],
            ..error
        },
        Ok(_) | Err(_) => error,
    }
}
