//! Gates and budgets under chaos: players change rules, answer them, waive them, sign, revise and land, while
//! others work, spend and are killed. Afterwards no plan may have passed a gate while a rule was not met,
//! nothing may have landed unsigned, and what was charged must be what was used.

#[cfg(feature = "broken")]
pub mod bug;
pub mod spender;

mod by_library;
mod by_program;
mod check;
mod notes;
mod player;
mod rules;
mod statutes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use lifecycle::{Call, Lifecycle, LifecycleError};
use plan::Caller;

use crate::arena::Database;
use crate::crowd::{Crowd, Manners};
use crate::ground::{Cast, Ground};
use crate::trial::{Progress, Trial};
pub use check::Outcome;
use notes::Notes;
use player::{Player, Purse};
use statutes::Statutes;

/// What a trial is played with.
pub struct Settings {
    /// As every trial. There are as many players, and half as many workers.
    pub trial: Trial,
    /// Everybody uses the library, and nobody lands anything: more happens in less time.
    pub by_library: bool,
    /// A planted bug.
    #[cfg(feature = "broken")]
    pub bug: Option<bug::Bug>,
}

/// What all plans together may use in a second of the trial, in tokens.
const PACE: u64 = 600;

/// Between two strokes at the workers, on average.
const BREATH: Duration = Duration::from_secs(2);

/// Plays a trial.
pub fn run(settings: &Settings) -> anyhow::Result<Outcome> {
    let trial = &settings.trial;
    // Those that began in time may end a little later.
    let budget = PACE * (trial.duration.as_secs() + 10);
    let cast = Cast {
        word: "spender",
        output: "claude-json",
        strategizes: false,
        environment: vec![("PLANWRIGHT_BUDGET_TOKENS", budget.to_string())],
    };
    let ground = Ground::prepare(trial, cast)?;
    let (statutes, notes) = (Statutes::default(), Notes::new(&ground.ledger));
    let workers = match settings.by_library {
        true => 0,
        false => (trial.processes / 2).max(1),
    };
    let manners = Manners {
        breath: BREATH,
        // Whoever is stopped during its turn on a file keeps all players out.
        stops: trial.database == Database::Postgres,
    };
    let mut crowd = Crowd::start(&ground, workers, manners)?;
    let over = AtomicBool::new(false);
    let purse = Purse {
        since: Instant::now(),
        pace: PACE,
    };
    let play = |number| -> anyhow::Result<()> {
        let mut player = Player {
            ground: &ground,
            statutes: &statutes,
            notes: &notes,
            lifecycle: engine(settings, &ground),
            random: trial.choices_of(number),
            number,
            by_library: settings.by_library || number % 2 == 1,
            players: trial.processes,
            purse,
            calls: 0,
        };
        while !over.load(Ordering::Relaxed) {
            player
                .play()
                .inspect_err(|_| over.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let play = &play;
        let players = (0..trial.processes).map(|number| scope.spawn(move || play(number)));
        let players: Vec<_> = players.collect();
        let mut random = trial.choices_of(trial.processes);
        let mut progress = Progress::of(trial);
        let mut disturb = || {
            while progress.has_time() && !over.load(Ordering::Relaxed) {
                trial.require_uninterrupted()?;
                std::thread::sleep(Duration::from_millis(50));
                crowd.strike(&ground, &mut random)?;
                progress.tell(|| crowd.told());
            }
            Ok(())
        };
        let disturbed = disturb();
        over.store(true, Ordering::Relaxed);
        // Whoever waits for one that is stopped would wait for ever.
        crowd.wake_everybody()?;
        for player in players {
            player.join().map_err(|_| anyhow!("a player panicked"))??;
        }
        disturbed
    })?;
    let deeds = crowd.dismiss()?;
    statutes.close(&ground)?;
    end(&ground)?;
    // Each that is at work may go a call beyond its share; a worker has three plans at work at most.
    let most = budget + u64::from(trial.processes + 3 * workers) * spender::CALL;
    check::check(settings, &ground, &statutes, &notes, most, &deeds)
}

/// The engine of a player.
fn engine(settings: &Settings, ground: &Ground) -> Lifecycle {
    #[cfg(feature = "broken")]
    if let Some(bug) = settings.bug {
        let store = crate::wrapped::Wrapped::new(Arc::clone(&ground.store), bug::Broken(bug));
        return Lifecycle::on(Arc::new(store));
    }
    let _ = settings;
    Lifecycle::on(Arc::clone(&ground.store))
}

/// Finishes what landed, and ends the rest: nobody works any more.
fn end(ground: &Ground) -> anyhow::Result<()> {
    ground.must(&["doctor", "--fix"])?;
    let call = Call::by(Caller::Person("referee".to_owned()));
    for plan in ground.plans()? {
        match ground.lifecycle.cancel_plan(plan.id, None, &call) {
            Ok(_) | Err(LifecycleError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
