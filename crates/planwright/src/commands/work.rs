//! `planwright work`: a worker that claims due plans and runs their agents.

use std::io::Write;
use std::num::NonZeroUsize;

use actors::Stop;
use lifecycle::{DriveProgress, Lifecycle, Worker};
use plan::plan::ResultRemedy;
use plan::stage::WorkState;
use plan::{Plan, PlanStage, QualifiedName, Span};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::{actor_set, host, notify, signals, ui};

/// Run a worker that executes due plans until interrupted
///
/// Any number of workers may run at once.
#[derive(Debug, clap::Args)]
pub struct WorkArgs {
    /// Number of plans to run at once
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    /// Exit once no plan is due
    #[arg(long, conflicts_with = "once")]
    drain: bool,
    /// Exit after one plan
    #[arg(long)]
    once: bool,
    /// Run only plans of this project
    #[arg(long, value_name = "NAME")]
    project: Option<QualifiedName>,
    /// Run only plans of this agent
    #[arg(long = "agent", alias = "actor", value_name = "NAME")]
    actor: Option<QualifiedName>,
    /// Lease length in seconds, for tests
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u32).range(1..=3600))]
    lease_seconds: Option<u32>,
}

pub fn run(args: &WorkArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    // Must happen before the engine is opened, because the engine reads the host's id once. The first repository may be
    // registered later, by another process.
    host::register_host(&app.settings.home)?;
    let lifecycle = app.lifecycle()?;
    if let Some(project) = &args.project {
        lifecycle.projects().get_project(project)?;
    }
    let owner = new_owner_name(app);
    let mut worker = make_worker(app, &owner)?
        .concurrency(args.concurrency.get())
        .only_project(args.project.clone())
        .only_actor(args.actor.clone());
    let (format, engine) = (app.format, lifecycle.clone());
    let _redirect = app
        .slow_steps
        .redirect_to(move |plan, line| write_line(format, &engine, plan, line));
    if let Some(seconds) = args.lease_seconds {
        worker = worker.lease(Span::from_seconds(seconds.into()));
    }
    if let Some(actor) = &args.actor
        && !is_defined(app, actor)?
    {
        let _ = writeln!(
            anstream::stderr().lock(),
            "Agent `{actor}` is not defined here. This worker runs only plans that carry its definition."
        );
    }
    if app.format == CliFormat::Human {
        let plans = ui::pluralize(args.concurrency.get() as u64, "plan");
        let _ = writeln!(
            anstream::stderr().lock(),
            "{owner}: up to {plans} at once, {}",
            sandbox::detect_isolation()
        );
    }
    let tally = if args.drain {
        worker.drain(&stop)?
    } else if args.once {
        worker.run_once(&stop)?
    } else {
        worker.run(&stop)?
    };
    let mut text = format!("Worked on {}.\n", ui::pluralize(tally.plans_driven, "plan"));
    if tally.leases_reclaimed > 0 {
        let plans = ui::pluralize(tally.leases_reclaimed, "plan");
        text.push_str(&format!("Took over {plans} from dead workers.\n"));
    }
    if tally.errors > 0 {
        let errors = ui::pluralize(tally.errors, "error");
        text.push_str(&format!("Encountered {errors}.\n"));
    }
    let data = json!({
        "taken": tally.plans_driven,
        "reclaimed": tally.leases_reclaimed,
        "troubles": tally.errors,
        "interrupted": stop.is_requested(),
    });
    let answer = CommandAnswer::new(data, text);
    Ok(if tally.errors > 0 {
        answer.with_hint("planwright doctor")
    } else {
        answer
    })
}

/// Returns whether an agent is known here, apart from those that repositories define.
fn is_defined(app: &App, actor: &QualifiedName) -> Result<bool, CommandError> {
    let catalog = actor_set::read_catalog(&app.settings.home)?;
    let found = catalog.find_definition(actor, &[]);
    // Its definition exists even if it cannot be read.
    Ok(found.is_err() || found.is_ok_and(|found| found.is_some()))
}

/// Makes a worker that logs its progress and notifies the person.
pub fn make_worker(app: &App, owner: &str) -> Result<Worker, CommandError> {
    let lifecycle = app.lifecycle()?;
    let (format, notifier, engine) = (
        app.format,
        notify::PersonNotifier::from_settings(app),
        lifecycle.clone(),
    );
    Ok(Worker::new(lifecycle)
        .owner(owner)
        .actor_set(actor_set::make_worker_actor_set(app)?)
        .on_progress(move |plan, engine_progress| {
            notifier.observe(plan, engine_progress);
            if let Some(line) = describe_progress(plan, engine_progress) {
                write_line(format, &engine, plan, &line);
            }
        }))
}

/// A name for a worker of this process. Process ids are reused; the time makes it unique.
pub fn new_owner_name(app: &App) -> String {
    let moment = app.clock.now().0;
    format!("worker {}-{moment:x}", std::process::id())
}

/// Describes progress for the worker's log; `None` for steps that are not logged.
fn describe_progress(plan: &Plan, engine_progress: &DriveProgress) -> Option<String> {
    Some(match engine_progress {
        DriveProgress::ActorStarted { actor, phase } => format!("{actor} started {phase}"),
        DriveProgress::SentBack(ResultRemedy::Fix) => {
            "failed its rules and was sent back".to_owned()
        }
        DriveProgress::SentBack(ResultRemedy::Revert) => {
            "failed its rules and starts over".to_owned()
        }
        DriveProgress::LandingStarted => "is landing".to_owned(),
        DriveProgress::Idle if plan.stage().is_final() => {
            format!("is {}", plan.stage().state_name())
        }
        DriveProgress::Idle => match plan.stage() {
            PlanStage::Execute(WorkState::Complete) => "needs your review".to_owned(),
            stage => format!("needs you ({stage})"),
        },
        DriveProgress::NearLimit(usage) => format!("is near its limit: {usage}"),
        DriveProgress::Retrying(message) => ui::escape_controls(message),
        DriveProgress::EngineFailure(message) => {
            format!("error: {}", ui::escape_controls(message))
        }
        DriveProgress::AgentRunning { .. }
        | DriveProgress::AgentEntry(_)
        | DriveProgress::LandingEnded(_) => return None,
    })
}

fn write_line(format: CliFormat, engine: &Lifecycle, plan: &Plan, line: &str) {
    let handle = engine.short_handle(plan.id()).unwrap_or_default();
    let _ = match format {
        CliFormat::Human => writeln!(
            anstream::stderr().lock(),
            "{}  {line}  {}",
            ui::style_text(ui::BOLD, handle),
            ui::style_text(ui::DIM, ui::truncate_line(plan.goal().as_str(), 50))
        ),
        CliFormat::Json => writeln!(
            anstream::stdout().lock(),
            "{}",
            json!({ "plan_id": plan.id(), "says": line })
        ),
    };
}
