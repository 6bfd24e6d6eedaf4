//! `planwright work`.

use std::io::Write;
use std::num::NonZeroUsize;

use actors::Stop;
use lifecycle::{Happening, Lifecycle, Worker};
use plan::plan::Remedy;
use plan::{Name, Plan, Span};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::Answer;
use crate::error::CommandError;
use crate::wishes::Wishes;
use crate::{crew, notify, signals, ui};

/// Work on whatever is due, until interrupted. Any number of these may run at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// So many plans at once.
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    /// End once nothing is due.
    #[arg(long, conflicts_with = "once")]
    drain: bool,
    /// End after one plan.
    #[arg(long)]
    once: bool,
    /// Only plans of this project.
    #[arg(long, value_name = "NAME")]
    project: Option<Name>,
    /// Only plans of this actor.
    #[arg(long, value_name = "NAME")]
    actor: Option<Name>,
    /// How long others wait for a worker that does not renew its claims. For trials.
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease_seconds: Option<u32>,
}

/// Works.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let stop = Stop::default();
    signals::ask_to_stop(&stop)?;
    let lifecycle = app.lifecycle()?;
    if let Some(project) = &args.project {
        lifecycle.get_project(project)?;
    }
    let moment = app.clock.now().0;
    let owner = format!("worker {}-{moment:x}", std::process::id());
    let format = app.format;
    let (told, engine) = (notify::Told::by(app), lifecycle.clone());
    let mut worker = Worker::new(lifecycle)
        .owner(&owner)
        .crew(crew::standing_crew(app)?)
        .concurrency(args.concurrency.get())
        .only_project(args.project.clone())
        .only_actor(args.actor.clone())
        .telling(move |plan, happening| {
            if *happening == Happening::Rests {
                told.tell(plan);
            }
            if let Some(says) = words(plan, happening) {
                write_line(format, &engine, plan, &says);
            }
        });
    let engine = lifecycle.clone();
    let _told_by = app
        .asides
        .told_by(move |plan, says| write_line(format, &engine, plan, says));
    if let Some(seconds) = args.lease_seconds {
        worker = worker.lease(Span::seconds(seconds.into()));
    }
    if let Some(actor) = &args.actor
        && crew::definition(app, actor, &Wishes::default())?.is_none()
    {
        let _ = writeln!(
            anstream::stderr().lock(),
            "No actor `{actor}` is defined here; only plans that bring its definition along are taken."
        );
    }
    if app.format == Format::Human {
        let plans = ui::count(args.concurrency.get() as u64, "plan");
        let _ = writeln!(
            anstream::stderr().lock(),
            "{owner}: up to {plans} at once, {}",
            sandbox::offered()
        );
    }
    let tally = if args.drain {
        worker.drain(&stop)?
    } else if args.once {
        worker.once(&stop)?
    } else {
        worker.run(&stop)?
    };
    let mut text = format!("Took {} further.\n", ui::count(tally.taken, "plan"));
    if tally.reclaimed > 0 {
        let leases = ui::count(tally.reclaimed, "plan");
        text.push_str(&format!("Took {leases} over from workers that are gone.\n"));
    }
    if tally.troubles > 0 {
        let times = ui::count(tally.troubles, "time");
        text.push_str(&format!("Something went wrong {times}.\n"));
    }
    let data = json!({
        "taken": tally.taken,
        "reclaimed": tally.reclaimed,
        "troubles": tally.troubles,
        "interrupted": stop.is_asked(),
    });
    let answer = Answer::new(data, text);
    Ok(if tally.troubles > 0 {
        answer.hint("planwright doctor")
    } else {
        answer
    })
}

/// What a log says of it, if it does.
fn words(plan: &Plan, happening: &Happening) -> Option<String> {
    Some(match happening {
        Happening::Works { actor, phase } => format!("{actor} works on {phase}"),
        Happening::SentBack(Remedy::Fix) => "does not meet its rules, and goes back".to_owned(),
        Happening::SentBack(Remedy::Revert) => {
            "does not meet its rules, and begins anew".to_owned()
        }
        Happening::Lands => "is being landed".to_owned(),
        Happening::Rests if plan.stage.is_final() => format!("is {}", plan.stage.state()),
        Happening::Rests => format!("waits for a person ({})", plan.stage),
        Happening::NearLimit(how) => format!("nears its limit: {how}"),
        Happening::Retries(what) => ui::clean(what),
        Happening::Trouble(what) => format!("trouble: {}", ui::clean(what)),
        Happening::Progress(_) | Happening::Landed(_) => return None,
    })
}

fn write_line(format: Format, engine: &Lifecycle, plan: &Plan, says: &str) {
    let handle = engine.short_name(plan.id).unwrap_or_default();
    let _ = match format {
        Format::Human => writeln!(
            anstream::stderr().lock(),
            "{}  {says}  {}",
            ui::styled(ui::BOLD, handle),
            ui::styled(ui::DIM, ui::one_line(plan.goal.as_str(), 50))
        ),
        Format::Json => writeln!(
            anstream::stdout().lock(),
            "{}",
            json!({ "plan_id": plan.id, "says": says })
        ),
    };
}
