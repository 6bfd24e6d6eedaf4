//! Turns `session/update` notifications into transcript entries, and keeps what the report needs: answer,
//! usage and checklist.

use plan::permission::PermissionRequest;
use plan::transcript::{ChecklistItem, TranscriptContent};

use super::agent_flavor::AgentFlavor;
use super::tool_call_tracker::ToolCallTracker;
use super::turn_error::TurnError;
use super::usage_count::UsageCount;
use crate::excerpt::TextExcerpt;
use crate::stream::EntryCleaner;
use crate::stream::json::{JsonObject, get_array, get_object, get_text};
use crate::stream::tool_call::parse_checklist_item;
use crate::{EarlierSession, Usage};

/// The longest thought that is collected from pieces.
const MAX_THOUGHT_BYTES: usize = 16 * 1024;

pub(super) struct UpdateReader {
    flavor: AgentFlavor,
    tool_calls: ToolCallTracker,
    usage: UsageCount,
    turn_error: TurnError,
    /// Text since the last tool call: an answer comes in pieces.
    message: TextExcerpt,
    message_id: Option<String>,
    thought: String,
    /// The last message that is not blank.
    answer: Option<String>,
    checklist: Vec<ChecklistItem>,
}

impl UpdateReader {
    pub(super) fn new() -> Self {
        let flavor = AgentFlavor::default();
        Self {
            flavor,
            tool_calls: ToolCallTracker::default(),
            usage: UsageCount::new(flavor.token_counting),
            turn_error: TurnError::default(),
            message: TextExcerpt::default(),
            message_id: None,
            thought: String::new(),
            answer: None,
            checklist: Vec::new(),
        }
    }

    pub(super) fn set_flavor(&mut self, flavor: AgentFlavor) {
        self.flavor = flavor;
        self.usage.counting = flavor.token_counting;
    }

    /// The session that is continued; `None` for a new one.
    pub(super) fn continue_session(&mut self, earlier: Option<EarlierSession>) {
        self.usage.continue_session(earlier);
    }

    pub(super) fn usage(&self) -> Usage {
        self.usage.usage()
    }

    pub(super) fn answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    pub(super) fn checklist(&self) -> &[ChecklistItem] {
        &self.checklist
    }

    pub(super) fn turn_error(&self) -> &TurnError {
        &self.turn_error
    }

    pub(super) fn has_running_call(&self) -> bool {
        self.tool_calls.has_running_call()
    }

    /// Reads the update of a notification.
    pub(super) fn read_update(&mut self, update: &JsonObject) -> Vec<TranscriptContent> {
        let usage_before = self.usage.usage();
        let kind = get_text(update, "sessionUpdate").unwrap_or_default();
        let mut entries = match kind {
            "agent_thought_chunk" => Vec::new(),
            _ => self.take_thought(),
        };
        match kind {
            "agent_message_chunk" => entries.extend(self.read_message_chunk(update)),
            "agent_thought_chunk" => entries.extend(self.read_thought_chunk(update)),
            "tool_call" | "tool_call_update" => {
                self.turn_error.read_progress();
                self.message = TextExcerpt::default();
                entries.extend(self.tool_calls.read_update(update, self.flavor));
            }
            "plan" => entries.extend(self.read_plan(update)),
            "session_info_update" => {
                let meta = get_object(update, "_meta");
                entries.extend(meta.and_then(|meta| self.turn_error.read_meta(meta)));
            }
            "usage_update" => self.usage.read_usage_update(update),
            // Commands, modes, options and the like are of no use here, and new kinds may come.
            _ => {}
        }
        entries.extend(self.usage_entry_since(usage_before));
        entries
    }

    /// Reads the result of the prompt, which ends the turn.
    pub(super) fn read_prompt_result(&mut self, result: &JsonObject) -> Vec<TranscriptContent> {
        let usage_before = self.usage.usage();
        self.usage.read_prompt_result(result);
        let mut entries = self.take_thought();
        entries.extend(self.usage_entry_since(usage_before));
        entries
    }

    /// Reads the tool call of a permission request.
    pub(super) fn read_permission_request(
        &mut self,
        tool_call: &JsonObject,
        cleaner: &EntryCleaner<'_>,
    ) -> (PermissionRequest, Vec<TranscriptContent>) {
        self.message = TextExcerpt::default();
        let mut entries = self.take_thought();
        let (request, entry) = self
            .tool_calls
            .read_request(tool_call, self.flavor, cleaner);
        entries.extend(entry);
        (request, entries)
    }

    fn read_message_chunk(&mut self, update: &JsonObject) -> Option<TranscriptContent> {
        if let Some(meta) = get_object(update, "_meta") {
            self.usage.read_message_meta(meta);
        }
        let text = chunk_text(update)?;
        if self.flavor.reports_errors_in_messages
            && let Some(notice) = self.turn_error.read_message(text)
        {
            return Some(notice);
        }
        let message_id = get_text(update, "messageId");
        if message_id != self.message_id.as_deref() {
            self.message = TextExcerpt::default();
            self.message_id = message_id.map(str::to_owned);
        }
        self.message.push(text);
        if !self.message.is_blank() {
            self.answer = Some(self.message.to_text());
        }
        let text = text.to_owned();
        Some(TranscriptContent::TextDelta { text })
    }

    fn read_thought_chunk(&mut self, update: &JsonObject) -> Vec<TranscriptContent> {
        let Some(text) = chunk_text(update) else {
            return Vec::new();
        };
        self.thought.push_str(text);
        match self.thought.len() > MAX_THOUGHT_BYTES {
            true => self.take_thought(),
            false => Vec::new(),
        }
    }

    fn take_thought(&mut self) -> Vec<TranscriptContent> {
        let text = std::mem::take(&mut self.thought);
        match text.trim().is_empty() {
            true => Vec::new(),
            false => vec![TranscriptContent::Thought { text }],
        }
    }

    fn read_plan(&mut self, update: &JsonObject) -> Option<TranscriptContent> {
        let items = get_array(update, "entries").iter();
        let items: Vec<ChecklistItem> = items
            .filter_map(|item| parse_checklist_item(item.as_object()?))
            .collect();
        if items.is_empty() || items == self.checklist {
            return None;
        }
        self.checklist.clone_from(&items);
        Some(TranscriptContent::Checklist { items })
    }

    fn usage_entry_since(&self, before: Usage) -> Option<TranscriptContent> {
        let usage = self.usage.usage();
        (usage != before).then_some(TranscriptContent::Usage(usage))
    }
}

/// The text of a chunk; `None` if it has none, as an image does.
fn chunk_text(update: &JsonObject) -> Option<&str> {
    let text = get_text(get_object(update, "content")?, "text")?;
    (!text.is_empty()).then_some(text)
}
