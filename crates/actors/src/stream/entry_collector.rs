//! Collects what the lines of a stream say, for all formats: entries for the transcript, and the summary
//! of the run.

use std::collections::BTreeMap;

use plan::transcript::{
    ChecklistItem, FileChangeEntry, FileChangeKind, LineCounts, NoticeLevel, ToolCallStatus,
    ToolCallUpdate, TranscriptContent,
};

use super::StreamSummary;
use super::tool_call::ToolCallInput;
use crate::excerpt::TextExcerpt;

/// How many calls whose files are not reported yet are remembered.
const MAX_OPEN_CALLS: usize = 256;

#[derive(Default)]
pub(crate) struct EntryCollector {
    pub(crate) summary: StreamSummary,
    entries: Vec<TranscriptContent>,
    /// Changes of calls that have begun. They are reported when the call succeeds.
    open_changes: BTreeMap<String, Vec<FileChangeEntry>>,
    /// The agent itself said something, so its final answer needs no entry.
    has_text: bool,
}

/// The result of a tool call.
#[derive(Default)]
pub(crate) struct ToolCallResult {
    pub(crate) failed: bool,
    pub(crate) exit_code: Option<i64>,
    pub(crate) output: Option<String>,
    /// What it tells about the file that it changed.
    pub(crate) change: Option<FileChangeKind>,
    pub(crate) line_counts: Option<LineCounts>,
}

impl EntryCollector {
    /// A message that may turn out to be the answer.
    pub(crate) fn add_message(&mut self, text: &str) {
        self.add_remark(text);
        self.has_text |= !text.trim().is_empty();
        if let Some(answer) = bounded_answer(text) {
            self.summary.answer = Some(answer);
        }
    }

    /// A message that is not the answer, such as one of a subagent.
    pub(crate) fn add_remark(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let text = text.to_owned();
            self.entries.push(TranscriptContent::Text { text });
        }
    }

    /// A piece of a message. It may be just a space.
    pub(crate) fn add_piece(&mut self, text: &str) {
        if !text.is_empty() {
            self.has_text = true;
            let text = text.to_owned();
            self.entries.push(TranscriptContent::TextDelta { text });
        }
    }

    pub(crate) fn add_thought(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let text = text.to_owned();
            self.entries.push(TranscriptContent::Thought { text });
        }
    }

    pub(crate) fn add_notice(&mut self, level: NoticeLevel, text: &str) {
        if !text.trim().is_empty() {
            let text = text.to_owned();
            self.entries.push(TranscriptContent::Notice { level, text });
        }
    }

    /// A problem that the agent may still overcome. Unless something else happens, it is why the run
    /// failed.
    pub(crate) fn add_error(&mut self, level: NoticeLevel, text: &str) {
        self.add_notice(level, text);
        self.summary.last_error = Some(text.to_owned());
    }

    /// A failure that ends the run.
    pub(crate) fn add_failure(&mut self, text: &str) {
        self.add_notice(NoticeLevel::Error, text);
        self.summary.failure = Some(text.to_owned());
    }

    pub(crate) fn start_call(&mut self, call_id: Option<&str>, call: &ToolCallInput<'_>) {
        let call_id = call_id.map(str::to_owned);
        self.entries.push(TranscriptContent::ToolCall(
            call.to_entry(call_id.clone(), ToolCallStatus::Started),
        ));
        if let Some(items) = call.checklist() {
            self.add_checklist(items);
        }
        let changes = call.file_changes();
        if let Some(call_id) = call_id
            && !changes.is_empty()
            && self.open_changes.len() < MAX_OPEN_CALLS
        {
            self.open_changes.insert(call_id, changes);
        }
    }

    pub(crate) fn end_call(&mut self, call_id: Option<&str>, result: ToolCallResult) {
        let changes = call_id.and_then(|call_id| self.open_changes.remove(call_id));
        self.entries
            .push(TranscriptContent::ToolCallUpdate(ToolCallUpdate {
                call_id: call_id.map(str::to_owned),
                status: match result.failed {
                    true => ToolCallStatus::Failed,
                    false => ToolCallStatus::Completed,
                },
                exit_code: result.exit_code,
                output: result.output.filter(|output| !output.trim().is_empty()),
            }));
        if !result.failed {
            for mut change in changes.unwrap_or_default() {
                change.change = result.change.or(change.change);
                change.line_counts = result.line_counts.or(change.line_counts);
                self.add_file_change(change);
            }
        }
    }

    /// A call that is reported as a whole.
    pub(crate) fn add_finished_call(&mut self, call: &ToolCallInput<'_>, status: ToolCallStatus) {
        self.entries
            .push(TranscriptContent::ToolCall(call.to_entry(None, status)));
    }

    pub(crate) fn add_file_change(&mut self, change: FileChangeEntry) {
        self.entries.push(TranscriptContent::FileChange(change));
    }

    pub(crate) fn add_checklist(&mut self, items: Vec<ChecklistItem>) {
        self.entries.push(TranscriptContent::Checklist { items });
    }

    /// The answer that the agent gives at the end. Some agents say it nowhere else.
    pub(crate) fn set_final_answer(&mut self, answer: String) {
        if !self.has_text {
            self.add_remark(&answer);
        }
        self.summary.answer = Some(answer);
    }

    pub(crate) fn add_usage(&mut self) {
        self.entries
            .push(TranscriptContent::Usage(self.summary.usage));
    }

    pub(crate) fn take_entries(&mut self) -> Vec<TranscriptContent> {
        std::mem::take(&mut self.entries)
    }
}

/// Shortens an answer; `None` if it is blank.
pub(crate) fn bounded_answer(text: &str) -> Option<String> {
    let excerpt = TextExcerpt::from_text(text);
    (!excerpt.is_blank()).then(|| excerpt.to_text())
}
