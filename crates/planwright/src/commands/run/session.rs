//! A session: the plan is driven here, or followed while somebody else does, until a person has to do
//! something. On a terminal that person is asked at once.

use std::time::Duration;

use actors::Stop;
use lifecycle::{DriveOutcome, DriveProgress, LeaseWatch, PlanDriver};
use plan::decide::IdleReason;
use plan::{Caller, Phase, Plan, PlanId, QualifiedName};

use super::session_end::{self, SessionDecision};
use super::{LandingConsent, POLL_INTERVAL};
use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui::{ProgressAudience, ProgressDisplay};
use crate::{actor_set, home, notify, signals};

/// How many plans are taken from holders that are gone at a time.
const MAX_RECLAIMED_LEASES: usize = 50;

/// Can the engine have somebody work on this plan, or does that happen elsewhere?
pub fn is_workable(plan: &Plan) -> bool {
    let defined = |phase| {
        plan.actor_for_phase(phase)
            .is_some_and(|actor| plan.actor_definition(actor).is_some())
    };
    defined(Phase::Strategize) && defined(Phase::Execute)
}

/// Goes on with a plan until a person has to do something, and asks them where there is a terminal.
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
        let interrupted = drive_plan(app, plan_id, requester, &stop)?;
        if interrupted {
            let handle = app.lifecycle()?.short_handle(plan_id)?;
            return Err(CommandError::new(
                CommandExit::Interrupted,
                "Interrupted; the plan waits, and nothing it made is lost.",
            )
            .with_hint(format!("planwright run {handle}")));
        }
        match session_end::ask_person(app, plan_id, consent)? {
            SessionDecision::Answer(answer) => return Ok(*answer),
            SessionDecision::Continue => requester = Some(&person),
        }
    }
}

/// Drives the plan, or follows whoever does. Says whether it was interrupted.
fn drive_plan(
    app: &App,
    plan_id: PlanId,
    requester: Option<&Caller>,
    stop: &Stop,
) -> Result<bool, CommandError> {
    let lifecycle = app.lifecycle()?;
    let moment = app.clock.now().0;
    let owner = format!(
        "{} (run {}-{moment:x})",
        home::current_person(),
        std::process::id()
    );
    // Held while it works: whoever comes after a crash need not wait for the lease.
    let presence = lifecycle
        .local_host()?
        .sandboxes
        .register_presence(&owner)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let actor_set = actor_set::make_actor_set(app)?;
    let notifier = notify::PersonNotifier::from_settings(app);
    let progress =
        ProgressDisplay::start(ProgressAudience::for_format(app.format), &app.slow_steps);
    let tell = |plan: &Plan, engine_progress: &DriveProgress| {
        progress.update(plan, engine_progress);
        if *engine_progress == DriveProgress::Idle {
            notifier.notify(plan);
        }
    };
    let drive = PlanDriver {
        lifecycle,
        actor_set: &actor_set,
        owner: &owner,
        lease: lifecycle::DEFAULT_LEASE,
        stop,
        on_progress: &tell,
    };
    let outcome = drive_until_idle(app, plan_id, requester, &drive, &progress);
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
    progress: &ProgressDisplay,
) -> Result<bool, CommandError> {
    let (lifecycle, stop) = (drive.lifecycle, drive.stop);
    let mut watch = LeaseWatch::new(lifecycle::DEFAULT_LEASE);
    loop {
        match drive
            .drive_plan(plan_id, requester.take())
            .map_err(|error| explain_drive_error(app, plan_id, error))?
        {
            DriveOutcome::Stopped => return Ok(true),
            DriveOutcome::Idle(IdleReason::NeedsPerson | IdleReason::Ended)
            | DriveOutcome::Blocked => return Ok(false),
            DriveOutcome::Idle(IdleReason::NotDue(_)) => {
                progress.show_waiting("waiting to try again")
            }
            DriveOutcome::OverBudget(over) => {
                progress.show_waiting(&format!("waiting: {over}"));
                // Those it is set aside for may be gone, and nobody else there to see it.
                let _ = lifecycle.reclaim_expired_leases(MAX_RECLAIMED_LEASES, &app.new_call());
            }
            DriveOutcome::Idle(IdleReason::Held) => {
                progress.show_waiting("somebody else works on it");
                // Refused while whoever has it lives.
                let _ = lifecycle.take_over_lease(plan_id, &mut watch, &app.new_call());
            }
            DriveOutcome::NoActor(name) => return Err(unknown_actor_error(app, plan_id, &name)?),
            DriveOutcome::Unreachable(error) => return Err(error.into()),
        }
        lifecycle.store().wait_for_commit(POLL_INTERVAL)?;
        if stop.wait_for_request(Duration::ZERO) {
            return Ok(true);
        }
    }
}

/// The plan was begun by somebody who knew more about its actor.
fn unknown_actor_error(
    app: &App,
    plan_id: PlanId,
    name: &QualifiedName,
) -> Result<CommandError, CommandError> {
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    let message =
        format!("Nobody here can work as `{name}`: the plan was begun without its definition.");
    Ok(CommandError::new(CommandExit::NotFound, message)
        .with_hint("Work on it through plumbing: planwright help plumbing")
        .with_hint(format!("planwright cancel {handle}")))
}

/// What went wrong; without room on the disk, also how to go on once there is some.
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
                "Free some space; the agent's work is kept. Then go on:".to_owned(),
                format!("planwright run {handle}"),
            ],
            ..error
        },
        Ok(_) | Err(_) => error,
    }
}
