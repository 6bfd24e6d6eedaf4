//! `planwright log --transcript --follow`: shows what agents say and do, on any host, as it is stored.

use std::time::{Duration, Instant};

use actors::Stop;
use lifecycle::{Lifecycle, LifecycleError, TranscriptStart};
use plan::transcript::TranscriptEntry;
use plan::{Epoch, PlanId};
use serde::Serialize;
use serde_json::json;
use store::{StoredTranscriptEntry, TranscriptPosition};

use super::log::{has_reader, refuse_if_interrupted, write_line};
use super::transcript::run_heading;
use crate::cli::{App, CliFormat};
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::signals;
use crate::ui::{self, TrailDetail, TrailRenderer};

/// How often to look for new entries: no commit announces them.
const ENTRY_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How long the agent says nothing before a message counts as complete.
const MESSAGE_PAUSE: Duration = Duration::from_secs(1);

/// Prints entries as they are stored, until the plan ends or the reader closes standard output.
pub fn follow_transcript(
    app: &App,
    plan_id: PlanId,
    start: TranscriptStart,
) -> Result<CommandAnswer, CommandError> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    let lifecycle = app.lifecycle()?;
    let mut commits = lifecycle.watch_commits()?;
    let mut transcript = lifecycle.transcript(plan_id, start)?;
    let mut printer = TranscriptPrinter::new(lifecycle, plan_id);
    let mut count: u64 = 0;
    let mut last_entry_at = Instant::now();
    loop {
        // Read before the entries, so that all entries of a plan that has ended are shown.
        let is_final = lifecycle.get_plan(plan_id)?.plan.stage().is_final();
        while let Some(stored) = transcript.next_ready()? {
            count += 1;
            last_entry_at = Instant::now();
            write_line(&match app.format {
                CliFormat::Json => format!("{}\n", json!(TranscriptEntryView::from(&stored))),
                CliFormat::Human => printer.format_entry(&stored)?,
            })?;
        }
        if is_final || !has_reader() {
            write_line(&printer.finish_run())?;
            let data = json!({ "plan_id": plan_id, "entries": count });
            return Ok(CommandAnswer::new(data, String::new()));
        }
        refuse_if_interrupted(app, plan_id, &stop)?;
        if last_entry_at.elapsed() >= MESSAGE_PAUSE {
            write_line(&printer.finish_message())?;
        }
        commits.wait_for_commit(ENTRY_POLL_INTERVAL)?;
    }
}

/// An entry with its place in the transcript.
#[derive(Serialize)]
struct TranscriptEntryView<'a> {
    #[serde(flatten)]
    position: TranscriptPositionView,
    #[serde(flatten)]
    entry: &'a TranscriptEntry,
}

#[derive(Serialize)]
struct TranscriptPositionView {
    epoch: Epoch,
    sequence: u64,
}

impl<'a> From<&'a StoredTranscriptEntry> for TranscriptEntryView<'a> {
    fn from(stored: &'a StoredTranscriptEntry) -> Self {
        let TranscriptPosition { epoch, sequence } = stored.position;
        Self {
            position: TranscriptPositionView { epoch, sequence },
            entry: &stored.entry,
        }
    }
}

/// Formats the entries of one run after the other.
struct TranscriptPrinter<'a> {
    lifecycle: &'a Lifecycle,
    plan_id: PlanId,
    run: Option<(Epoch, TrailRenderer)>,
}

impl<'a> TranscriptPrinter<'a> {
    fn new(lifecycle: &'a Lifecycle, plan_id: PlanId) -> Self {
        Self {
            lifecycle,
            plan_id,
            run: None,
        }
    }

    fn format_entry(&mut self, stored: &StoredTranscriptEntry) -> Result<String, CommandError> {
        let epoch = stored.position.epoch;
        let mut text = String::new();
        if self
            .run
            .as_ref()
            .is_some_and(|(current, _)| *current != epoch)
        {
            text.push_str(&self.finish_run());
        }
        if self.run.is_none() {
            text.push_str(&self.format_heading(epoch)?);
        }
        let (_, renderer) = self.run.get_or_insert_with(|| {
            let renderer = TrailRenderer::new(TrailDetail::Full, ui::terminal_width());
            (epoch, renderer)
        });
        text.push_str(&renderer.render_entry(&stored.entry));
        Ok(text)
    }

    /// Returns the message that waits for its end.
    fn finish_message(&mut self) -> String {
        match &mut self.run {
            Some((_, renderer)) => renderer.finish_message(),
            None => String::new(),
        }
    }

    /// Returns what is left of the current run.
    fn finish_run(&mut self) -> String {
        match self.run.take() {
            Some((_, mut renderer)) => renderer.finish(),
            None => String::new(),
        }
    }

    /// Returns the heading of a run. Its record is only on the host where the agent runs.
    fn format_heading(&self, epoch: Epoch) -> Result<String, CommandError> {
        let run_files = self.lifecycle.local_host()?.sandboxes.runs();
        let runs = run_files
            .list_runs(self.plan_id)
            .map_err(LifecycleError::Sandbox)?;
        Ok(run_heading(runs.iter().find(|run| run.epoch == epoch)))
    }
}
