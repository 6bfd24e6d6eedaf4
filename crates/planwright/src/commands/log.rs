//! `planwright log`.

use std::io::Write;
use std::time::Duration;

use plan::how::Shape;
use plan::stage::RefMove;
use plan::{Event, How, PlanId};
use serde_json::json;

use crate::cli::{App, Format};
use crate::commands::{Answer, transcript};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;
use crate::wire::{DecisionView, EventView};

/// Show what happened to a plan.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan.
    id: String,
    /// Its events, oldest first; this is the default.
    #[arg(long, conflicts_with_all = ["decisions", "transcript"])]
    events: bool,
    /// Its decision tree.
    #[arg(long, conflicts_with = "transcript")]
    decisions: bool,
    /// What its agents said, run by run; of runs on this host.
    #[arg(long)]
    transcript: bool,
    /// Its events as they happen, until it has ended.
    #[arg(long, conflicts_with_all = ["decisions", "transcript"])]
    follow: bool,
}

impl Args {
    /// The events of a plan.
    pub fn events(id: String) -> Self {
        Self {
            id,
            events: true,
            decisions: false,
            transcript: false,
            follow: false,
        }
    }

    /// The decision tree of a plan.
    pub fn decisions(id: String) -> Self {
        Self {
            id,
            events: false,
            decisions: true,
            transcript: false,
            follow: false,
        }
    }
}

/// Shows events or decisions.
pub fn run(args: &Args, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let plan = app.plan(&args.id)?;
    if args.decisions {
        let nodes = lifecycle.decisions(plan)?;
        let views: Vec<DecisionView> = nodes.iter().map(DecisionView::from).collect();
        let mut text = String::new();
        tree(&views, None, 0, &mut text);
        if text.is_empty() {
            text.push_str("No decisions yet.\n");
        }
        return Ok(Answer::new(
            json!({ "plan_id": plan, "decisions": views }),
            text,
        ));
    }
    if args.transcript {
        return transcript::show(app, plan);
    }
    if args.follow {
        return follow(app, plan);
    }
    let history = lifecycle.history(plan)?;
    let mut table = ui::Table::new(["#", "WHEN", "EVENT", "BY", "DETAILS"]);
    let views: Vec<EventView> = history.iter().map(EventView::from).collect();
    let mut landing = Landing::default();
    for (recorded, view) in history.iter().zip(&views) {
        let told = landing.told(&recorded.event);
        table.row([
            (view.version.to_string(), ui::DIM),
            (view.at.to_string(), ui::DIM),
            (view.kind.to_owned(), ui::BOLD),
            (view.by.clone(), anstyle::Style::new()),
            (
                match told {
                    Some(told) => ui::one_line(&told, 300),
                    None => ui::one_line(&details(&view.data), 90),
                },
                anstyle::Style::new(),
            ),
        ]);
    }
    Ok(Answer::new(
        json!({ "plan_id": plan, "events": views }),
        table.to_string(),
    ))
}

/// How long is waited for something to be committed before looking anew.
const LOOK: Duration = Duration::from_millis(500);

/// Tells the events of a plan as they happen, until nothing can happen to it any more.
fn follow(app: &App, plan: PlanId) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut told = 0;
    loop {
        let row = lifecycle.get_plan(plan)?;
        if row.plan.version.0 > told {
            for recorded in lifecycle.history(plan)? {
                if recorded.version.0 > told {
                    told = recorded.version.0;
                    tell(app, &EventView::from(&recorded))?;
                }
            }
        }
        if row.plan.stage.is_final() {
            let data = json!({ "plan_id": plan, "events": told });
            return Ok(Answer::new(data, String::new()));
        }
        lifecycle.store().wait(LOOK)?;
    }
}

fn tell(app: &App, view: &EventView) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    let line = match app.format {
        Format::Json => json!(view).to_string(),
        Format::Human => format!(
            "{} {}  {}  {}",
            ui::styled(ui::DIM, view.version),
            ui::styled(ui::DIM, view.at),
            ui::styled(ui::BOLD, view.kind),
            ui::one_line(&details(&view.data), 90)
        ),
    };
    let told = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    // A reader that went away has seen enough.
    told.map_err(|error| CommandError::new(Exit::Error, format!("It cannot be told: {error}")))
}

/// What is known of a landing on the way through the events.
#[derive(Default)]
struct Landing {
    how: How,
    moves: Vec<RefMove>,
}

impl Landing {
    /// Of an event about a landing, what a person wants to know: where to, what, and how.
    fn told(&mut self, event: &Event) -> Option<String> {
        let each = |moves: &[RefMove], told: fn(&RefMove) -> String| {
            let moves: Vec<String> = moves.iter().map(told).collect();
            moves.join("; ")
        };
        match event {
            Event::Approved { how, .. } => {
                self.how = how.clone();
                None
            }
            Event::ApplyPrepared { intent, .. } if !intent.moves.is_empty() => {
                self.moves.clone_from(&intent.moves);
                Some(each(&self.moves, about_to_move))
            }
            Event::Landed { .. } if !self.moves.is_empty() => {
                let way = match &self.how.shape {
                    Shape::Commit if self.how.merge => "as a merge commit",
                    Shape::Commit => "as one commit",
                    Shape::Branch(_) => "as a branch",
                    Shape::Uncommitted => "uncommitted",
                };
                Some(format!("{way}: {}", each(&self.moves, moved)))
            }
            _ => None,
        }
    }
}

fn about_to_move(step: &RefMove) -> String {
    let new = short(&step.new);
    match branch(step) {
        Some(branch) if step.old.bytes().all(|digit| digit == b'0') => {
            format!("{}: new branch {branch} at {new}", step.resource)
        }
        Some(branch) => format!("{}: {branch} {} → {new}", step.resource, short(&step.old)),
        None => format!("{}: working tree, {new}", step.resource),
    }
}

fn moved(step: &RefMove) -> String {
    let target = branch(step).unwrap_or("working tree");
    format!("{}: {target}, {}", step.resource, short(&step.new))
}

/// The branch that moves; nothing if it is the working tree alone.
fn branch(step: &RefMove) -> Option<&str> {
    step.target.strip_prefix("refs/heads/")
}

fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
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
