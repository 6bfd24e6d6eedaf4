//! `planwright log`: shows a plan's history, decisions or transcripts, or follows it.

use std::io::Write;
use std::time::{Duration, Instant};

use actors::Stop;
use lifecycle::{CommitWatcher, TranscriptStart};
use plan::{PlanId, RecordedEvent, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::cli::{App, CliFormat};
use crate::commands::event_narrator::EventNarrator;
use crate::commands::transcript::{self, TranscriptStyle};
use crate::commands::transcript_follow;
use crate::commands::{CommandAnswer, PlanArg};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::{DecisionView, EventView};
use crate::{home, signals, ui};

/// Show what happened to a plan
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    #[command(flatten)]
    plan: PlanArg,
    /// Show every event with its details, oldest first
    #[arg(long, conflicts_with_all = ["decisions", "transcript"])]
    events: bool,
    /// Show the decision tree
    #[arg(long, conflicts_with = "transcript")]
    decisions: bool,
    /// Show what agents said and did, and the output of the latest rule checks on this host
    #[arg(long)]
    transcript: bool,
    /// Show the transcript exactly as the agent wrote it
    #[arg(long, conflicts_with_all = ["events", "decisions", "follow"])]
    raw: bool,
    /// Follow the plan until it ends; with --transcript, what its agents say and do on any host
    #[arg(long, conflicts_with = "decisions")]
    follow: bool,
    /// Follow a transcript from now on, without what was said before
    #[arg(long, requires = "transcript", requires = "follow")]
    from_now: bool,
}

impl LogArgs {
    pub fn for_events(plan: PlanArg) -> Self {
        Self {
            events: true,
            ..Self::for_plan(plan)
        }
    }

    pub fn for_decisions(plan: PlanArg) -> Self {
        Self {
            decisions: true,
            ..Self::for_plan(plan)
        }
    }

    fn for_plan(plan: PlanArg) -> Self {
        Self {
            plan,
            events: false,
            decisions: false,
            transcript: false,
            raw: false,
            follow: false,
            from_now: false,
        }
    }

    fn event_formatter(&self) -> EventFormatter {
        if self.events {
            EventFormatter::Events
        } else {
            EventFormatter::Narration(EventNarrator::for_reader(home::current_caller()))
        }
    }
}

pub fn run(args: &LogArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan_id = args.plan.resolve(app)?;
    if args.decisions {
        return show_decisions(app, plan_id);
    }
    if args.transcript && args.follow {
        let start = match args.from_now {
            true => TranscriptStart::Now,
            false => TranscriptStart::Beginning,
        };
        return transcript_follow::follow_transcript(app, plan_id, start);
    }
    if args.transcript || args.raw {
        let style = match args.raw {
            true => TranscriptStyle::Raw,
            false => TranscriptStyle::Readable,
        };
        return transcript::show_transcript(app, plan_id, style);
    }
    if args.follow {
        return follow_plan(app, plan_id, args.event_formatter());
    }
    let history = lifecycle.history().read_history(plan_id)?;
    let views: Vec<EventView> = history.iter().map(EventView::from).collect();
    let now = app.clock.now();
    let text = match args.event_formatter() {
        EventFormatter::Events => events_table(&history, &views),
        EventFormatter::Narration(mut narrator) => history
            .iter()
            .map(|one| narrator.narrate_line(one, &ui::format_age(now, one.at)))
            .collect(),
    };
    Ok(CommandAnswer::new(
        json!({ "plan_id": plan_id, "events": views }),
        text,
    ))
}

fn show_decisions(app: &App, plan_id: PlanId) -> Result<CommandAnswer, CommandError> {
    let nodes = app.lifecycle()?.history().read_decisions(plan_id)?;
    let views: Vec<DecisionView> = nodes.iter().map(DecisionView::from).collect();
    let mut text = String::new();
    write_decision_tree(&views, None, 0, &mut text);
    if text.is_empty() {
        text.push_str("No decisions yet.\n");
    }
    Ok(CommandAnswer::new(
        json!({ "plan_id": plan_id, "decisions": views }),
        text,
    ))
}

fn events_table(history: &[RecordedEvent], views: &[EventView]) -> String {
    let mut table = ui::TextTable::new(["#", "WHEN", "EVENT", "BY", "DETAILS"]);
    let mut narrator = EventNarrator::default();
    for (recorded, view) in history.iter().zip(views) {
        let details_cell = match narrator.describe_landing_event(&recorded.event) {
            Some(landing) => ui::truncate_line(&landing, 300),
            None => ui::truncate_line(&format_details(&view.data), 90),
        };
        table.add_row([
            (view.version.to_string(), ui::DIM),
            (view.at.to_string(), ui::DIM),
            (view.kind.to_owned(), ui::BOLD),
            (view.by.clone(), anstyle::Style::new()),
            (details_cell, anstyle::Style::new()),
        ]);
    }
    table.to_string()
}

/// How to print events for people.
enum EventFormatter {
    /// One row per event, with its fields.
    Events,
    /// One sentence per event.
    Narration(EventNarrator),
}

impl EventFormatter {
    fn format_event(&mut self, recorded: &RecordedEvent, now: Timestamp) -> String {
        match self {
            Self::Narration(narrator) => {
                let line = narrator.narrate_line(recorded, &ui::format_age(now, recorded.at));
                match ui::stdout_width() {
                    Some(width) => ui::wrap_rows(&line, width),
                    None => line,
                }
            }
            Self::Events => {
                let view = EventView::from(recorded);
                format!(
                    "{} {}  {}  {}\n",
                    ui::style_text(ui::DIM, view.version),
                    ui::style_text(ui::DIM, view.at),
                    ui::style_text(ui::BOLD, view.kind),
                    ui::truncate_line(&format_details(&view.data), 90)
                )
            }
        }
    }
}

/// When to read the plan again without a commit: a notification can be lost.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// How soon it is noticed that nobody reads standard output any more.
const READER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Prints events as they are committed, until the plan ends or the reader closes standard output.
fn follow_plan(
    app: &App,
    plan_id: PlanId,
    mut formatter: EventFormatter,
) -> Result<CommandAnswer, CommandError> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    let lifecycle = app.lifecycle()?;
    let mut commits = lifecycle.watch_commits()?;
    let mut last_version = 0;
    loop {
        refuse_if_interrupted(app, plan_id, &stop)?;
        let row = lifecycle.get_plan(plan_id)?;
        if row.plan.version().0 > last_version {
            for recorded in lifecycle.history().read_history(plan_id)? {
                if recorded.version.0 > last_version {
                    last_version = recorded.version.0;
                    let line = match app.format {
                        CliFormat::Json => format!("{}\n", json!(EventView::from(&recorded))),
                        CliFormat::Human => formatter.format_event(&recorded, app.clock.now()),
                    };
                    write_line(&line)?;
                }
            }
        }
        let is_final = row.plan.stage().is_final();
        if is_final || !wait_for_commit_or_reader_end(&mut commits, &stop)? {
            let data = json!({ "plan_id": plan_id, "events": last_version });
            return Ok(CommandAnswer::new(data, String::new()));
        }
    }
}

/// Says that a signal only ended the following.
pub(super) fn refuse_if_interrupted(
    app: &App,
    plan_id: PlanId,
    stop: &Stop,
) -> Result<(), CommandError> {
    if !stop.is_requested() {
        return Ok(());
    }
    let handle = app.lifecycle()?.short_handle(plan_id)?;
    let message = "Detached. The plan is not affected. To follow it again:";
    Err(CommandError::new(CommandExit::Interrupted, message)
        .with_hint(format!("planwright log {handle} --follow")))
}

/// Waits for a commit, but not longer than until the plan should be read in any case. Returns `false` once
/// nobody reads standard output any more.
fn wait_for_commit_or_reader_end(
    commits: &mut CommitWatcher<'_>,
    stop: &Stop,
) -> Result<bool, CommandError> {
    let started = Instant::now();
    while has_reader() {
        if stop.is_requested() {
            return Ok(true);
        }
        if commits.wait_for_commit(READER_CHECK_INTERVAL)? || started.elapsed() >= READ_INTERVAL {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn write_line(line: &str) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    match write!(stdout, "{line}").and_then(|()| stdout.flush()) {
        // The reader closed the pipe; `has_reader` ends the loop.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CommandError::new(
            CommandExit::Error,
            format!("Can't write to standard output: {error}"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns whether standard output still has a reader. Needed because a quiet plan writes nothing, so a
/// closed pipe would not show up as a write error.
pub(super) fn has_reader() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let no_wait = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let succeeded = poll(&mut polled, Some(&no_wait)).is_ok();
    let closed = PollFlags::ERR | PollFlags::NVAL;
    !(succeeded && polled[0].revents().intersects(closed))
}

/// Formats an event's fields as `name=value`, without empty ones.
fn format_details(data: &serde_json::Value) -> String {
    let Some(fields) = data.as_object() else {
        return String::new();
    };
    let nonempty_fields = fields.iter().filter(|(_, value)| !is_empty_value(value));
    nonempty_fields
        .map(|(name, value)| match value {
            serde_json::Value::Object(_) => format!("{name}({})", format_details(value)),
            other => format!("{name}={}", format_value(other)),
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Formats a value; for a decision, only its choice.
fn format_value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(format_value).collect();
            items.join("; ")
        }
        serde_json::Value::Object(fields) => match fields.get("choice") {
            Some(choice) => format_value(choice),
            None => format_details(value),
        },
        other => other.to_string(),
    }
}

fn is_empty_value(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => true,
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(fields) => fields.is_empty(),
        serde_json::Value::Bool(true)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => false,
    }
}

fn write_decision_tree(
    nodes: &[DecisionView],
    parent: Option<u32>,
    depth: usize,
    text: &mut String,
) {
    for node in nodes.iter().filter(|node| node.parent == parent) {
        let indent = "  ".repeat(depth);
        text.push_str(&format!(
            "{indent}{} {} {}\n{indent}    {}\n",
            ui::style_text(ui::DIM, node.number),
            ui::style_text(ui::BOLD, node.kind),
            ui::truncate_line(&node.question, 80),
            ui::truncate_line(&node.choice, 90),
        ));
        write_decision_tree(nodes, Some(node.number), depth + 1, text);
    }
}
