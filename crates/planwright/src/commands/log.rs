//! `planwright log`.

use std::io::Write;
use std::time::Duration;

use plan::{PlanId, Recorded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::Answer;
use crate::commands::story::Story;
use crate::commands::transcript::{self, Manner};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;
use crate::wire::{DecisionView, EventView};

/// Show what happened to a plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Every event with all its details, oldest first.
    #[arg(long, conflicts_with_all = ["decisions", "transcript"])]
    events: bool,
    /// Its decision tree.
    #[arg(long, conflicts_with = "transcript")]
    decisions: bool,
    /// What its agents said and did, run by run, and what rules said that were asked last; on this host.
    #[arg(long)]
    transcript: bool,
    /// With --transcript: every line as the agent wrote it.
    #[arg(long, requires = "transcript")]
    raw: bool,
    /// What happens as it happens, until the plan has ended.
    #[arg(long, conflicts_with_all = ["decisions", "transcript"])]
    follow: bool,
}

impl Args {
    /// The events of a plan.
    pub fn events(id: String) -> Self {
        Self {
            events: true,
            ..Self::of(id)
        }
    }

    /// The decision tree of a plan.
    pub fn decisions(id: String) -> Self {
        Self {
            decisions: true,
            ..Self::of(id)
        }
    }

    fn of(id: String) -> Self {
        Self {
            id,
            events: false,
            decisions: false,
            transcript: false,
            raw: false,
            follow: false,
        }
    }

    fn teller(&self) -> Teller {
        if self.events {
            Teller::Events
        } else {
            Teller::Story(Story::default())
        }
    }
}

/// Shows events, decisions or what was said.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan = app.plan(&args.id)?;
    if args.decisions {
        return decisions(app, plan);
    }
    if args.transcript {
        let manner = match args.raw {
            true => Manner::Raw,
            false => Manner::Readable,
        };
        return transcript::show(app, plan, manner);
    }
    if args.follow {
        return follow(app, plan, args.teller());
    }
    let history = lifecycle.history(plan)?;
    let views: Vec<EventView> = history.iter().map(EventView::from).collect();
    let text = match args.teller() {
        Teller::Events => events(&history, &views),
        Teller::Story(mut story) => history.iter().map(|one| story.line(one)).collect(),
    };
    Ok(Answer::new(
        json!({ "plan_id": plan, "events": views }),
        text,
    ))
}

fn decisions(app: &App, plan: PlanId) -> Result<Answer, CommandError> {
    let nodes = app.lifecycle()?.decisions(plan)?;
    let views: Vec<DecisionView> = nodes.iter().map(DecisionView::from).collect();
    let mut text = String::new();
    tree(&views, None, 0, &mut text);
    if text.is_empty() {
        text.push_str("No decisions yet.\n");
    }
    Ok(Answer::new(
        json!({ "plan_id": plan, "decisions": views }),
        text,
    ))
}

/// Every event with its details.
fn events(history: &[Recorded], views: &[EventView]) -> String {
    let mut table = ui::Table::new(["#", "WHEN", "EVENT", "BY", "DETAILS"]);
    let mut story = Story::default();
    for (recorded, view) in history.iter().zip(views) {
        let told = match story.of_landing(&recorded.event) {
            Some(told) => ui::one_line(&told, 300),
            None => ui::one_line(&details(&view.data), 90),
        };
        table.row([
            (view.version.to_string(), ui::DIM),
            (view.at.to_string(), ui::DIM),
            (view.kind.to_owned(), ui::BOLD),
            (view.by.clone(), anstyle::Style::new()),
            (told, anstyle::Style::new()),
        ]);
    }
    table.to_string()
}

/// How events are told to people one by one.
enum Teller {
    /// As they stand in the log.
    Events,
    /// In sentences.
    Story(Story),
}

impl Teller {
    fn line(&mut self, recorded: &Recorded) -> String {
        match self {
            Self::Story(story) => story.line(recorded),
            Self::Events => {
                let view = EventView::from(recorded);
                format!(
                    "{} {}  {}  {}\n",
                    ui::styled(ui::DIM, view.version),
                    ui::styled(ui::DIM, view.at),
                    ui::styled(ui::BOLD, view.kind),
                    ui::one_line(&details(&view.data), 90)
                )
            }
        }
    }
}

/// How long is waited for something to be committed before looking anew.
const LOOK: Duration = Duration::from_millis(500);

/// Tells what happens to a plan as it happens, until nothing can any more or nobody listens.
fn follow(app: &App, plan: PlanId, mut teller: Teller) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut told = 0;
    loop {
        let row = lifecycle.get_plan(plan)?;
        if row.plan.version.0 > told {
            for recorded in lifecycle.history(plan)? {
                if recorded.version.0 > told {
                    told = recorded.version.0;
                    let line = match app.format {
                        Format::Json => format!("{}\n", json!(EventView::from(&recorded))),
                        Format::Human => teller.line(&recorded),
                    };
                    tell(&line)?;
                }
            }
        }
        if row.plan.stage.is_final() || !somebody_listens() {
            let data = json!({ "plan_id": plan, "events": told });
            return Ok(Answer::new(data, String::new()));
        }
        lifecycle.store().wait(LOOK)?;
    }
}

fn tell(line: &str) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    match write!(stdout, "{line}").and_then(|()| stdout.flush()) {
        // A reader that went away has seen enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CommandError::new(
            Exit::Error,
            format!("It cannot be told: {error}"),
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Is there still a reader at the other end? Nothing may happen for long, and then nothing is written that
/// would tell.
fn somebody_listens() -> bool {
    let stdout = std::io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let answered = poll(&mut asked, Some(&now)).is_ok();
    let gone = PollFlags::ERR | PollFlags::NVAL;
    !(answered && asked[0].revents().intersects(gone))
}

/// The details of an event, shortest way: `name=value`, nothing that is empty.
fn details(data: &serde_json::Value) -> String {
    let Some(fields) = data.as_object() else {
        return String::new();
    };
    let told = fields.iter().filter(|(_, value)| !is_empty(value));
    told.map(|(name, value)| match value {
        serde_json::Value::Object(_) => format!("{name}({})", details(value)),
        other => format!("{name}={}", plain(other)),
    })
    .collect::<Vec<_>>()
    .join(" ")
}

/// A value as it is read aloud: of a decision, what was chosen.
fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            items.join("; ")
        }
        serde_json::Value::Object(fields) => match fields.get("choice") {
            Some(choice) => plain(choice),
            None => details(value),
        },
        other => other.to_string(),
    }
}

fn is_empty(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(false) => true,
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(fields) => fields.is_empty(),
        serde_json::Value::Bool(true)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => false,
    }
}

fn tree(nodes: &[DecisionView], parent: Option<u32>, depth: usize, text: &mut String) {
    for node in nodes.iter().filter(|node| node.parent == parent) {
        let indent = "  ".repeat(depth);
        text.push_str(&format!(
            "{indent}{} {} {}\n{indent}    {}\n",
            ui::styled(ui::DIM, node.number),
            ui::styled(ui::BOLD, node.kind),
            ui::one_line(&node.question, 80),
            ui::one_line(&node.choice, 90),
        ));
        tree(nodes, Some(node.number), depth + 1, text);
    }
}
