//! What happened to a plan: what its agent said and did, run by run, and a timeline of its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use lifecycle::result_of_event;
use plan::event::Event;
use plan::transcript::{
    ChecklistStatus, NoticeLevel, PermissionStatus, ToolCallEntry, ToolCallStatus, ToolCallUpdate,
    ToolKind, TranscriptContent,
};
use plan::{Epoch, Phase, PlanVersion};
use store::{StoredEvent, StoredTranscriptEntry, TranscriptPosition};

use super::event_words::{EventContext, describe_caller, describe_event};
use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::{format_age, format_elapsed, visible};
use super::{PageAnswer, render};
use crate::routes::request::UrlPath;
use crate::state::ServerState;

const MAX_EVENTS: usize = 300;
const TRANSCRIPT_PAGE_SIZE: usize = 1000;
/// The last entries that are shown; `planwright log --transcript` shows all.
const MAX_SHOWN_ENTRIES: usize = 400;
const MAX_OUTPUT_CHARS: usize = 4000;

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityTemplate {
    head: PlanHead,
    forms: OfferedForms,
    runs: Vec<AgentRun>,
    /// Entries before those that are shown.
    left_out: usize,
    timeline: Vec<TimelineEvent>,
    events: Vec<LoggedEvent>,
}

/// What an agent said and did between two claims.
struct AgentRun {
    title: String,
    entries: Vec<ActivityEntry>,
}

struct ActivityEntry {
    /// Its place in the whole transcript.
    number: usize,
    icon: &'static str,
    what: String,
    text: String,
    class: &'static str,
    /// What a tool returned.
    output: String,
    call_id: Option<String>,
    since_start: String,
}

struct TimelineEvent {
    icon: &'static str,
    class: &'static str,
    text: String,
    by: String,
    age: String,
    /// The result that it made.
    result: Option<u32>,
}

struct LoggedEvent {
    version: u64,
    kind: &'static str,
    by: String,
    age: String,
}

pub async fn show_activity(
    State(state): State<Arc<ServerState>>,
    UrlPath(id): UrlPath<String>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let template = state
        .engine
        .view("log", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "activity")?;
            let store = engine.lifecycle.store();
            let now = store.now()?;
            let has_strategy = engine.lifecycle.get_plan(plan_id)?.plan.strategy_wanted();
            let first = head.version.saturating_sub(MAX_EVENTS as u64);
            let events = store.read_plan_events(plan_id, PlanVersion(first), MAX_EVENTS)?;
            let age = |event: &StoredEvent| format_age(now.0 - event.recorded.at.0);
            let mut runs = RunWriter::new(&events, &head.agent);
            let mut after: Option<TranscriptPosition> = None;
            loop {
                let page = store.read_transcript(plan_id, after, TRANSCRIPT_PAGE_SIZE)?;
                page.iter().for_each(|stored| runs.add_entry(stored));
                if page.len() < TRANSCRIPT_PAGE_SIZE {
                    break;
                }
                after = page.last().map(|stored| stored.position);
            }
            let (runs, left_out) = runs.finish();
            // Counted from the end: the first events may be left out.
            let mut number = head.last_result;
            let mut timeline = Vec::new();
            for stored in events.iter().rev() {
                let event = &stored.recorded.event;
                let result = result_of_event(event).map(|_| number);
                number -= u32::from(result.is_some());
                let words = describe_event(
                    event,
                    EventContext {
                        has_strategy,
                        result,
                    },
                );
                if !words.is_detail {
                    timeline.push(TimelineEvent {
                        icon: words.icon,
                        class: words.class,
                        text: words.text,
                        by: describe_caller(&stored.recorded.by),
                        age: age(stored),
                        result,
                    });
                }
            }
            Ok(ActivityTemplate {
                head,
                forms,
                runs,
                left_out,
                timeline,
                events: events
                    .iter()
                    .rev()
                    .map(|stored| LoggedEvent {
                        version: stored.recorded.version.0,
                        kind: stored.recorded.event.kind(),
                        by: visible(&stored.recorded.by.to_string()),
                        age: age(stored),
                    })
                    .collect(),
            })
        })
        .await?;
    render(&template)
}

/// Collects transcript entries into runs.
struct RunWriter {
    titles: BTreeMap<Epoch, String>,
    runs: Vec<(Epoch, Vec<ActivityEntry>)>,
    count: usize,
}

impl RunWriter {
    fn new(events: &[StoredEvent], agent: &str) -> Self {
        let mut attempts: BTreeMap<Phase, u32> = BTreeMap::new();
        let mut titles = BTreeMap::new();
        for stored in events {
            let Event::Claimed { phase, epoch, .. } = &stored.recorded.event else {
                continue;
            };
            let attempt = attempts.entry(*phase).or_default();
            *attempt += 1;
            let what = match phase {
                Phase::Strategize => "Strategy",
                Phase::Execute => "Work",
                Phase::Apply => "Landing",
            };
            titles.insert(*epoch, format!("{what}, run {attempt} · {agent}"));
        }
        Self {
            titles,
            runs: Vec::new(),
            count: 0,
        }
    }

    fn add_entry(&mut self, stored: &StoredTranscriptEntry) {
        let epoch = stored.position.epoch;
        if self.runs.last().is_none_or(|(last, _)| *last != epoch) {
            self.runs.push((epoch, Vec::new()));
        }
        let Some((_, entries)) = self.runs.last_mut() else {
            return;
        };
        let content = &stored.entry.content;
        match content {
            // Parts of one text.
            TranscriptContent::TextDelta { text } => {
                if let Some(last) = entries.last_mut().filter(|last| last.icon == "says") {
                    last.text.push_str(&visible(text));
                    return;
                }
            }
            TranscriptContent::ToolCallUpdate(update) => {
                add_update(entries, update);
                return;
            }
            TranscriptContent::Text { .. }
            | TranscriptContent::Thought { .. }
            | TranscriptContent::ToolCall(_)
            | TranscriptContent::FileChange(_)
            | TranscriptContent::Checklist { .. }
            | TranscriptContent::Permission(_)
            | TranscriptContent::Usage(_)
            | TranscriptContent::Notice { .. } => {}
        }
        let Some(mut entry) = describe_entry(content) else {
            return;
        };
        let seconds = i64::try_from(stored.entry.elapsed_ms / 1000).unwrap_or(i64::MAX);
        entry.since_start = format_elapsed(seconds);
        entry.number = self.count;
        self.count += 1;
        entries.push(entry);
    }

    /// The runs with the last entries, and how many entries were left out.
    fn finish(self) -> (Vec<AgentRun>, usize) {
        let left_out = self.count.saturating_sub(MAX_SHOWN_ENTRIES);
        let titles = self.titles;
        let runs = self.runs.into_iter().map(|(epoch, mut entries)| {
            entries.retain(|entry| entry.number >= left_out);
            AgentRun {
                title: titles.get(&epoch).cloned().unwrap_or_default(),
                entries,
            }
        });
        (
            runs.filter(|run| !run.entries.is_empty()).collect(),
            left_out,
        )
    }
}

/// Adds what a tool returned to its call.
fn add_update(entries: &mut [ActivityEntry], update: &ToolCallUpdate) {
    let mut newest = entries.iter_mut().rev();
    let call = newest.find(|entry| entry.call_id.is_some() && entry.call_id == update.call_id);
    let Some(call) = call else {
        return;
    };
    if let Some(output) = &update.output {
        call.output = visible(&output.chars().take(MAX_OUTPUT_CHARS).collect::<String>());
    }
    if update.status == ToolCallStatus::Failed {
        call.class = "mono failed";
        call.what.push_str(" (failed)");
    }
}

/// What an entry says; `None` if people do not want to see it.
fn describe_entry(content: &TranscriptContent) -> Option<ActivityEntry> {
    let entry = |icon, what: &str, text: &str, class| {
        Some(ActivityEntry {
            number: 0,
            icon,
            what: visible(what),
            text: visible(text),
            class,
            output: String::new(),
            call_id: None,
            since_start: String::new(),
        })
    };
    match content {
        TranscriptContent::Text { text } | TranscriptContent::TextDelta { text } => {
            entry("says", "", text, "says")
        }
        TranscriptContent::Thought { text } => entry("thinks", "", text, "thought muted"),
        TranscriptContent::ToolCall(call) => {
            let (icon, what) = describe_tool(call);
            let mut shown = entry(icon, what, &describe_target(call), "mono")?;
            shown.call_id.clone_from(&call.call_id);
            Some(shown)
        }
        TranscriptContent::FileChange(change) => entry("edit", "Changed", &change.path, "mono"),
        TranscriptContent::Checklist { items } => {
            let lines = items.iter().map(|item| {
                let sign = match item.status {
                    ChecklistStatus::Pending => "\u{25cb}",
                    ChecklistStatus::InProgress => "\u{25b8}",
                    ChecklistStatus::Completed => "\u{2713}",
                };
                format!("{sign} {}", item.text)
            });
            let lines: Vec<String> = lines.collect();
            entry("list", "Steps", &lines.join("\n"), "")
        }
        TranscriptContent::Permission(permission) => {
            let what = match permission.status {
                PermissionStatus::Asked => "Asked to",
                PermissionStatus::Allowed => "Allowed to",
                PermissionStatus::Rejected => "Not allowed to",
                PermissionStatus::Cancelled => "No longer asks to",
            };
            let text = format!("{} ({})", permission.describe_call(), permission.reason);
            entry("key", what, &text, "mono muted")
        }
        TranscriptContent::Notice { level, text } => {
            let class = match level {
                NoticeLevel::Info => "muted",
                NoticeLevel::Warning => "warning",
                NoticeLevel::Error => "failed",
            };
            entry("notice", "", text, class)
        }
        TranscriptContent::ToolCallUpdate(_) | TranscriptContent::Usage(_) => None,
    }
}

/// The icon and the verb of a tool call.
fn describe_tool(call: &ToolCallEntry) -> (&'static str, &str) {
    match call.tool_kind {
        ToolKind::Read => ("read", "Read"),
        ToolKind::Edit => ("edit", "Edited"),
        ToolKind::Delete => ("edit", "Deleted"),
        ToolKind::Move => ("edit", "Moved"),
        ToolKind::Search => ("search", "Searched for"),
        ToolKind::Execute => ("run", "Ran"),
        ToolKind::Fetch => ("fetch", "Fetched"),
        ToolKind::Think => ("thinks", "Thought"),
        ToolKind::Other => ("tool", &call.tool),
    }
}

fn describe_target(call: &ToolCallEntry) -> String {
    match call.tool_kind {
        ToolKind::Execute => call.inputs.join(" "),
        ToolKind::Read
        | ToolKind::Edit
        | ToolKind::Delete
        | ToolKind::Move
        | ToolKind::Search
        | ToolKind::Fetch
        | ToolKind::Think
        | ToolKind::Other => match call.target() {
            Some(target) => target,
            None => call.title.clone().unwrap_or_default(),
        },
    }
}
