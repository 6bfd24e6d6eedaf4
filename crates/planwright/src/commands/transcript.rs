//! `planwright log --transcript`: shows what agents said and did, and the output of rule checks.

use std::io::{BufRead, BufReader};
use std::path::Path;

use lifecycle::Lifecycle;
use plan::judgement::RuleOutcome;
use plan::transcript::TranscriptEntry;
use plan::{Epoch, PlanId};
use sandbox::{CheckRecord, RecordedRun};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::TranscriptPosition;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::ui::{self, TrailDetail, TrailRenderer};

/// Lines shown per run. Longer transcripts keep the first and the last half.
const MAX_TRANSCRIPT_LINES: usize = 20_000;

/// One line of an agent's output, as stored in the transcript file.
#[derive(Debug, Serialize, Deserialize)]
struct RunOutputLine {
    ms: u64,
    stream: String,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptStyle {
    /// Messages and tool calls, from the store: any host shows them.
    Readable,
    /// Lines as the agent wrote them, from the files of this host.
    Raw,
}

/// How many entries to read at once.
const PAGE_SIZE: usize = 500;

/// The entries of one run.
struct StoredRun {
    epoch: Epoch,
    entries: Vec<TranscriptEntry>,
}

/// Shows the runs of a plan, and its rule checks on this host.
pub fn show_transcript(
    app: &App,
    plan_id: PlanId,
    style: TranscriptStyle,
) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let row = lifecycle.get_plan(plan_id)?;
    let run_files = lifecycle.local_host()?.sandboxes.runs();
    let runs = run_files
        .list_runs(plan_id)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let (mut text, views) = match style {
        TranscriptStyle::Readable => show_stored_runs(lifecycle, plan_id, &runs)?,
        TranscriptStyle::Raw => show_raw_runs(&runs)?,
    };
    let checks = run_files
        .list_check_runs(plan_id)
        .map_err(lifecycle::LifecycleError::Sandbox)?;
    let mut check_views: Vec<Value> = Vec::new();
    for check in &checks {
        let lines = read_lines(&check.transcript)?;
        text.push_str(&check_heading(&check.record));
        text.extend(lines.iter().map(render_line));
        check_views.push(json!({ "check": check.record, "lines": lines }));
    }
    Ok(CommandAnswer::new(
        json!({ "plan_id": row.plan.id(), "runs": views, "checks": check_views }),
        text,
    ))
}

fn show_stored_runs(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    runs: &[RecordedRun],
) -> Result<(String, Vec<Value>), CommandError> {
    let mut stored_runs = read_stored_runs(lifecycle, plan_id)?;
    for run in runs {
        if let Err(at) = stored_runs.binary_search_by_key(&run.epoch, |stored| stored.epoch) {
            let (epoch, entries) = (run.epoch, Vec::new());
            stored_runs.insert(at, StoredRun { epoch, entries });
        }
    }
    let (mut text, mut views) = (String::new(), Vec::new());
    if stored_runs.is_empty() {
        text.push_str("No agent has worked on this plan.\n");
    }
    for stored in &stored_runs {
        let run = runs.iter().find(|run| run.epoch == stored.epoch);
        text.push_str(&run_heading(run));
        let mut renderer = TrailRenderer::new(TrailDetail::Full, ui::terminal_width());
        for entry in &stored.entries {
            text.push_str(&renderer.render_entry(entry));
        }
        text.push_str(&renderer.finish());
        let is_only_in_file = run.is_some_and(|run| run.transcript_path().exists());
        if stored.entries.is_empty() && is_only_in_file {
            let note = "Nothing of it is stored. See what it wrote with --raw.";
            text.push_str(&format!("{}\n", ui::style_text(ui::DIM, note)));
        }
        let record = run.and_then(|run| run.record.as_ref());
        views.push(json!({ "epoch": stored.epoch, "run": record, "entries": stored.entries }));
    }
    Ok((text, views))
}

fn read_stored_runs(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
) -> Result<Vec<StoredRun>, CommandError> {
    let mut runs: Vec<StoredRun> = Vec::new();
    let mut after: Option<TranscriptPosition> = None;
    loop {
        let page = lifecycle
            .store()
            .read_transcript(plan_id, after, PAGE_SIZE)?;
        let Some(last) = page.last() else {
            return Ok(runs);
        };
        after = Some(last.position);
        for stored in page {
            let epoch = stored.position.epoch;
            match runs.last_mut().filter(|run| run.epoch == epoch) {
                Some(run) => run.entries.push(stored.entry),
                None => runs.push(StoredRun {
                    epoch,
                    entries: vec![stored.entry],
                }),
            }
        }
    }
}

fn show_raw_runs(runs: &[RecordedRun]) -> Result<(String, Vec<Value>), CommandError> {
    let (mut text, mut views) = (String::new(), Vec::new());
    if runs.is_empty() {
        text.push_str("No agent has worked on this plan on this host.\n");
    }
    for run in runs {
        let lines = read_lines(&run.transcript_path())?;
        text.push_str(&run_heading(Some(run)));
        text.extend(lines.iter().map(render_line));
        views.push(json!({ "epoch": run.epoch, "run": run.record, "lines": lines }));
    }
    Ok((text, views))
}

/// A line as a program wrote it.
fn render_line(line: &RunOutputLine) -> String {
    let style = match line.stream.as_str() {
        "stdout" => anstyle::Style::new(),
        _ => ui::DIM,
    };
    let text = ui::escape_controls(&line.text);
    format!("{}\n", ui::style_text(style, text))
}

/// A run without a record goes on, was killed, or was on another host.
pub(super) fn run_heading(run: Option<&RecordedRun>) -> String {
    let Some(record) = run.and_then(|run| run.record.as_ref()) else {
        let words = match run {
            Some(_) => "== run in progress, or killed ==",
            None => "== run on another host ==",
        };
        return format!("{}\n", ui::style_text(ui::BOLD, words));
    };
    let parts = ui::describe_run(record);
    format!("{}\n", ui::style_text(ui::BOLD, format!("== {parts} ==")))
}

fn check_heading(check: &CheckRecord) -> String {
    let outcome = match &check.outcome {
        RuleOutcome::Held => "held",
        RuleOutcome::Failed(_) => "failed",
        RuleOutcome::Broken(_) => "could not run",
        RuleOutcome::Open(_) => "is unanswered",
    };
    let words = format!("== rule {} {outcome} ==", check.rule);
    format!("{}\n", ui::style_text(ui::BOLD, words))
}

/// Reads a run's lines. Skips an incomplete last line, which a killed process may leave.
fn read_lines(path: &Path) -> Result<Vec<RunOutputLine>, CommandError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            return Err(CommandError::new(CommandExit::Error, message));
        }
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut lines: Vec<RunOutputLine> = lines
        .filter_map(|line| serde_json::from_str(&line).ok())
        .collect();
    if lines.len() > MAX_TRANSCRIPT_LINES {
        let left_out = lines.len() - MAX_TRANSCRIPT_LINES;
        let tail = lines.split_off(lines.len() - MAX_TRANSCRIPT_LINES / 2);
        lines.truncate(MAX_TRANSCRIPT_LINES / 2);
        lines.push(RunOutputLine {
            ms: 0,
            stream: "note".to_owned(),
            text: format!("[{left_out} lines left out]"),
        });
        lines.extend(tail);
    }
    Ok(lines)
}
