//! A session: the plan is driven here, or followed while somebody else does, until a person has to do
//! something. On a terminal that person is asked at once.

use std::time::Duration;

use actors::Stop;
use lifecycle::{Drive, Happening, LeaseWatch, Rested};
use plan::decide::Rest;
use plan::{Caller, Name, Phase, Plan, PlanId};

use super::ending::{self, Wish};
use super::{Consent, LOOK};
use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui::{Audience, Progress};
use crate::{crew, home, notify, signals};

/// How many plans are taken from holders that are gone at a time.
const MOST_GONE: usize = 50;

/// Can the engine have somebody work on this plan, or does that happen elsewhere?
pub fn is_workable(plan: &Plan) -> bool {
    let defined = |phase| {
        plan.actor_in(phase)
            .is_some_and(|actor| plan.definition(actor).is_some())
    };
    defined(Phase::Strategize) && defined(Phase::Execute)
}

/// Goes on with a plan until a person has to do something, and asks them where there is a terminal.
pub fn go_on(app: &App, plan: PlanId, consent: Consent) -> Result<Answer, CommandError> {
    let stop = Stop::default();
    signals::ask_to_stop(&stop)?;
    let person = home::caller();
    let mut asks = Some(&person);
    loop {
        let interrupted = drive(app, plan, asks, &stop)?;
        if interrupted {
            let handle = app.lifecycle()?.short_name(plan)?;
            return Err(CommandError::new(
                Exit::Interrupted,
                "Interrupted; the plan waits, and nothing it made is lost.",
            )
            .hint(format!("planwright run {handle}")));
        }
        match ending::ask(app, plan, consent)? {
            Wish::Answer(answer) => return Ok(*answer),
            Wish::GoOn => asks = Some(&person),
        }
    }
}

/// Drives the plan, or follows whoever does. Says whether it was interrupted.
fn drive(
    app: &App,
    plan: PlanId,
    asks: Option<&Caller>,
    stop: &Stop,
) -> Result<bool, CommandError> {
    let lifecycle = app.lifecycle()?;
    let moment = app.clock.now().0;
    let owner = format!("{} (run {}-{moment:x})", home::person(), std::process::id());
    // Held while it works: whoever comes after a crash need not wait for the lease.
    let presence = lifecycle
        .hands()?
        .workshop
        .sign_in(&owner)
        .map_err(lifecycle::Error::Sandbox)?;
    let crew = crew::crew(app)?;
    let told = notify::Told::by(app);
    let progress = Progress::show(Audience::of(app.format), &app.asides);
    let tell = |plan: &Plan, happening: &Happening| {
        progress.tell(plan, happening);
        if *happening == Happening::Rests {
            told.tell(plan);
        }
    };
    let drive = Drive {
        lifecycle,
        crew: &crew,
        owner: &owner,
        lease: lifecycle::LEASE,
        stop,
        tell: &tell,
    };
    let driven = drive_on(app, plan, asks, &drive, &progress);
    if driven.is_err() {
        presence.end_without_giving_back();
    }
    driven
}

fn drive_on(
    app: &App,
    plan: PlanId,
    mut asks: Option<&Caller>,
    drive: &Drive<'_>,
    progress: &Progress,
) -> Result<bool, CommandError> {
    let (lifecycle, stop) = (drive.lifecycle, drive.stop);
    let mut watch = LeaseWatch::new(lifecycle::LEASE);
    loop {
        match drive
            .go(plan, asks.take())
            .map_err(|error| cut_off(app, plan, error))?
        {
            Rested::Stopped => return Ok(true),
            Rested::Rests(Rest::Person | Rest::Over) | Rested::Blocked => return Ok(false),
            Rested::Rests(Rest::NotDue(_)) => progress.waits("waiting to try again"),
            Rested::OverBudget(over) => {
                progress.waits(&format!("waiting: {over}"));
                // Those it is set aside for may be gone, and nobody else there to see it.
                let _ = lifecycle.reclaim_expired(MOST_GONE, &app.call());
            }
            Rested::Rests(Rest::Held) => {
                progress.waits("somebody else works on it");
                // Refused while whoever has it lives.
                let _ = lifecycle.take_over(plan, &mut watch, &app.call());
            }
            Rested::NobodyFor(name) => return Err(nobody_for(app, plan, &name)?),
            Rested::Unreachable(error) => return Err(error.into()),
        }
        lifecycle.store().wait(LOOK)?;
        if stop.wait(Duration::ZERO) {
            return Ok(true);
        }
    }
}

/// The plan was begun by somebody who knew more about its actor.
fn nobody_for(app: &App, plan: PlanId, name: &Name) -> Result<CommandError, CommandError> {
    let handle = app.lifecycle()?.short_name(plan)?;
    let message =
        format!("Nobody here can work as `{name}`: the plan was begun without its definition.");
    Ok(CommandError::new(Exit::NotFound, message)
        .hint("Work on it through plumbing: planwright help plumbing")
        .hint(format!("planwright cancel {handle}")))
}

/// What went wrong; without room on the disk, also how to go on once there is some.
fn cut_off(app: &App, plan: PlanId, error: lifecycle::Error) -> CommandError {
    let is_full = error.is_out_of_space();
    let error = CommandError::from(error);
    let handle = app.lifecycle().map(|lifecycle| lifecycle.short_name(plan));
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
