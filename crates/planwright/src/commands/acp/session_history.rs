//! Shows the history of a plan to an editor that loads its session.

use std::collections::VecDeque;
use std::path::Path;

use actors::{AssignedComment, Finding};
use lifecycle::TranscriptStart;
use plan::{Epoch, Event, PlanId, RecordedEvent};
use serde_json::Value;
use store::StoredTranscriptEntry;

use super::session_update::{UpdateWriter, prompt_update, thought_update};
use crate::cli::App;
use crate::error::CommandError;

/// Earlier updates are left out.
const MAX_UPDATES: usize = 2000;

/// Returns what happened to a plan as updates: prompts, and what the agent said and did after each.
pub fn read_history(
    app: &App,
    plan_id: PlanId,
    repository: &Path,
) -> Result<Vec<Value>, CommandError> {
    let lifecycle = app.lifecycle()?;
    let mut history = SessionReplay {
        writer: UpdateWriter::new(repository),
        updates: VecDeque::new(),
        omitted: 0,
    };
    let mut transcript = lifecycle.transcript(plan_id, TranscriptStart::Beginning)?;
    let mut next_entry = transcript.next_ready()?;
    for recorded in lifecycle.history().read_history(plan_id)? {
        let Some((prompt, begins_at)) = find_prompt(&recorded) else {
            continue;
        };
        // What was said before this prompt belongs to earlier runs.
        while let Some(entry) = next_entry.take_if(|entry| entry.position.epoch < begins_at) {
            history.add_entry(&entry);
            next_entry = transcript.next_ready()?;
        }
        history.add(prompt_update(&prompt));
    }
    while let Some(entry) = next_entry {
        history.add_entry(&entry);
        next_entry = transcript.next_ready()?;
    }
    Ok(history.into_updates())
}

/// Returns what a person said with an event, and the first epoch of the work that followed.
fn find_prompt(recorded: &RecordedEvent) -> Option<(String, Epoch)> {
    match &recorded.event {
        Event::Created(created) => Some((created.goal.to_string(), Epoch(0))),
        Event::Revised {
            feedback,
            comments,
            epoch,
            automatic: false,
            ..
        } => {
            let sent = Finding {
                comments: comments.iter().map(AssignedComment::new).collect(),
                ..Finding::new(String::new(), feedback)
            };
            Some((sent.full_text(), *epoch))
        }
        _ => None,
    }
}

struct SessionReplay {
    writer: UpdateWriter,
    updates: VecDeque<Value>,
    omitted: usize,
}

impl SessionReplay {
    fn add_entry(&mut self, entry: &StoredTranscriptEntry) {
        let epoch = entry.position.epoch;
        if let Some(update) = self.writer.describe_entry(epoch, &entry.entry.content) {
            self.add(update);
        }
    }

    fn add(&mut self, update: Value) {
        if self.updates.len() == MAX_UPDATES {
            self.updates.pop_front();
            self.omitted += 1;
        }
        self.updates.push_back(update);
    }

    fn into_updates(self) -> Vec<Value> {
        let note = (self.omitted > 0).then(|| {
            let text = format!("{} earlier updates are not shown.", self.omitted);
            thought_update(&text)
        });
        note.into_iter().chain(self.updates).collect()
    }
}
