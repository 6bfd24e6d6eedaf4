//! `planwright log --transcript`: what agents said.

use std::io::{BufRead, BufReader};

use plan::PlanId;
use sandbox::Run;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ui;

/// How many lines of a run are told at most: the first and the last of them.
const MOST_LINES: usize = 20_000;

/// One line that an agent said.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    ms: u64,
    stream: String,
    text: String,
}

/// Shows the runs of a plan on this host.
pub fn show(app: &App, plan: PlanId) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan)?;
    let runs = lifecycle
        .hands()?
        .workshop
        .runs(plan)
        .map_err(lifecycle::Error::Sandbox)?;
    let mut text = String::new();
    let mut views: Vec<Value> = Vec::new();
    for run in &runs {
        let lines = lines_of(run)?;
        text.push_str(&heading(run));
        for line in &lines {
            let style = match line.stream.as_str() {
                "stdout" => anstyle::Style::new(),
                _ => ui::DIM,
            };
            text.push_str(&format!("{}\n", ui::styled(style, ui::clean(&line.text))));
        }
        views.push(json!({ "epoch": run.epoch, "run": run.record, "lines": lines }));
    }
    if runs.is_empty() {
        text.push_str("No agent has worked on it on this host.\n");
    }
    Ok(Answer::new(
        json!({ "plan_id": row.plan.id, "runs": views }),
        text,
    ))
}

fn heading(run: &Run) -> String {
    let Some(record) = &run.record else {
        return format!(
            "{}\n",
            ui::styled(ui::BOLD, "== a run that goes on, or was killed ==")
        );
    };
    let parts = ui::run(record);
    format!("{}\n", ui::styled(ui::BOLD, format!("== {parts} ==")))
}

/// The lines of a run. What an agent that was killed began to say is left out.
fn lines_of(run: &Run) -> Result<Vec<Line>, CommandError> {
    let path = run.transcript();
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(Exit::Error, message));
        }
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut lines: Vec<Line> = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    if lines.len() > MOST_LINES {
        let left_out = lines.len() - MOST_LINES;
        let tail = lines.split_off(lines.len() - MOST_LINES / 2);
        lines.truncate(MOST_LINES / 2);
        lines.push(Line {
            ms: 0,
            stream: "note".to_owned(),
            text: format!("[{left_out} lines left out]"),
        });
        lines.extend(tail);
    }
    Ok(lines)
}
