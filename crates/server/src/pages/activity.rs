//! What happened to a plan: what its agent said and did, and its events.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use plan::PlanVersion;
use plan::transcript::TranscriptContent;
use store::TranscriptPosition;

use super::offered_forms::OfferedForms;
use super::plan_head::{PlanHead, read_head};
use super::visible::{format_age, visible};
use super::{PageAnswer, render};
use crate::state::ServerState;

const MAX_EVENTS: usize = 300;
const TRANSCRIPT_PAGE_SIZE: usize = 1000;
/// The last entries that are shown; `planwright log --transcript` shows all.
const MAX_SHOWN_ENTRIES: usize = 400;

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityTemplate {
    head: PlanHead,
    forms: OfferedForms,
    entries: Vec<ActivityEntry>,
    events: Vec<ActivityEvent>,
}

struct ActivityEntry {
    what: String,
    text: String,
    class: &'static str,
}

struct ActivityEvent {
    version: u64,
    kind: &'static str,
    by: String,
    age: String,
}

pub async fn show_activity(
    State(state): State<Arc<ServerState>>,
    Path(id): Path<String>,
) -> PageAnswer {
    let plan_id = state.engine.resolve_plan(&id).await?;
    let template = state
        .engine
        .view("log", Some(plan_id), move |engine| {
            let (head, forms) = read_head(&engine, plan_id, "activity")?;
            let store = engine.lifecycle.store();
            let now = store.now()?;
            let first = head.version.saturating_sub(MAX_EVENTS as u64);
            let events = store.read_plan_events(plan_id, PlanVersion(first), MAX_EVENTS)?;
            let mut entries: Vec<ActivityEntry> = Vec::new();
            let mut after: Option<TranscriptPosition> = None;
            loop {
                let page = store.read_transcript(plan_id, after, TRANSCRIPT_PAGE_SIZE)?;
                for stored in &page {
                    add_entry(&mut entries, &stored.entry.content);
                }
                if page.len() < TRANSCRIPT_PAGE_SIZE {
                    break;
                }
                after = page.last().map(|stored| stored.position);
            }
            let surplus = entries.len().saturating_sub(MAX_SHOWN_ENTRIES);
            Ok(ActivityTemplate {
                head,
                forms,
                entries: entries.split_off(surplus),
                events: events
                    .iter()
                    .rev()
                    .map(|stored| ActivityEvent {
                        version: stored.recorded.version.0,
                        kind: stored.recorded.event.kind(),
                        by: visible(&stored.recorded.by.to_string()),
                        age: format_age(now.0 - stored.recorded.at.0),
                    })
                    .collect(),
            })
        })
        .await?;
    render(&template)
}

/// Adds what an entry says, if people want to see it.
fn add_entry(entries: &mut Vec<ActivityEntry>, content: &TranscriptContent) {
    let (what, text, class) = match content {
        TranscriptContent::Text { text } => ("says".to_owned(), text.clone(), ""),
        TranscriptContent::TextDelta { text } => {
            if let Some(last) = entries.last_mut().filter(|last| last.what == "says") {
                last.text.push_str(&visible(text));
                return;
            }
            ("says".to_owned(), text.clone(), "")
        }
        TranscriptContent::Thought { text } => ("thinks".to_owned(), text.clone(), "muted"),
        TranscriptContent::ToolCall(call) => {
            let title = call.title.clone();
            let text = title.unwrap_or_else(|| call.inputs.join(" "));
            (call.tool.clone(), text, "mono")
        }
        TranscriptContent::ToolCallUpdate(update) => match &update.output {
            Some(output) => ("returned".to_owned(), output.clone(), "mono muted"),
            None => return,
        },
        TranscriptContent::FileChange(change) => {
            ("changed".to_owned(), change.path.clone(), "mono")
        }
        TranscriptContent::Checklist { items } => {
            let lines = items.iter().map(|item| format!("· {}", item.text));
            ("plans".to_owned(), lines.collect::<Vec<_>>().join("\n"), "")
        }
        TranscriptContent::Permission(permission) => (
            format!("permission {}", permission.status.as_str()),
            format!("{} ({})", permission.describe_call(), permission.reason),
            "mono muted",
        ),
        TranscriptContent::Usage(_) => return,
        TranscriptContent::Notice { text, .. } => ("notice".to_owned(), text.clone(), "muted"),
    };
    entries.push(ActivityEntry {
        what: visible(&what),
        text: visible(&text),
        class,
    });
}
