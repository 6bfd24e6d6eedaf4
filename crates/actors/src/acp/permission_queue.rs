//! Tool calls that wait for a person, one question at a time.
//!
//! Agents may ask for several calls at once. A person answers them in order, so that an answer is never taken
//! for another call.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use plan::permission::PermissionRequest;
use plan::permission_question::ProposedToolCall;
use plan::transcript::{PermissionEntry, PermissionStatus, TranscriptContent};

use super::dialogue::PendingPermission;
use crate::Stop;
use crate::stream::EntryCleaner;

/// How many calls of one agent may wait.
const MAX_WAITING: usize = 16;

/// The longest input that a person is shown. A call with a longer one is rejected: nobody can decide what they
/// do not see.
const MAX_INPUT_BYTES: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct PermissionQueue {
    open: Option<OpenQuestion>,
    /// With the reasons why a person is asked.
    waiting: VecDeque<(PendingPermission, String)>,
    /// How long earlier questions were open.
    closed_wait: Duration,
}

struct OpenQuestion {
    pending: PendingPermission,
    summary: String,
    opened_at: Instant,
    /// Ends the wait for the person.
    stop: Stop,
}

impl PermissionQueue {
    /// Adds a call. Returns it, with the reason, if a person cannot be asked about it.
    pub(super) fn push(
        &mut self,
        pending: PendingPermission,
        reason: String,
    ) -> Result<(), (PendingPermission, String)> {
        let input = full_input(&pending.request);
        if input.is_some_and(|input| input.len() > MAX_INPUT_BYTES) {
            let why = format!("{reason}, but what the tool gets is too long to show");
            return Err((pending, why));
        }
        if self.waiting.len() >= MAX_WAITING {
            let why = format!("{reason}, but {MAX_WAITING} other calls already wait");
            return Err((pending, why));
        }
        self.waiting.push_back((pending, reason));
        Ok(())
    }

    /// Opens the next question, unless one is open. Returns its transcript entry, what to ask, and the stop
    /// that withdraws it.
    pub(super) fn open_next(
        &mut self,
        cleaner: &EntryCleaner<'_>,
    ) -> Option<(PermissionEntry, ProposedToolCall, Stop)> {
        if self.open.is_some() {
            return None;
        }
        let (pending, reason) = self.waiting.pop_front()?;
        let entry = pending.request.to_entry(PermissionStatus::Asked, reason);
        // Bounds texts and shows paths as people know them.
        let TranscriptContent::Permission(entry) =
            cleaner.clean_entry(TranscriptContent::Permission(entry))
        else {
            return None;
        };
        let call = ProposedToolCall {
            tool: truncate_tool_name(&entry.tool),
            tool_kind: entry.tool_kind,
            summary: entry.describe_call().into(),
            input: full_input(&pending.request).map(Into::into),
            reason: entry.reason.clone(),
        };
        let stop = Stop::default();
        self.open = Some(OpenQuestion {
            pending,
            summary: call.summary.as_str().to_owned(),
            opened_at: Instant::now(),
            stop: stop.clone(),
        });
        Some((entry, call, stop))
    }

    /// Closes the open question. Returns its call.
    pub(super) fn close_open(&mut self) -> Option<PendingPermission> {
        let open = self.open.take()?;
        self.closed_wait += open.opened_at.elapsed();
        Some(open.pending)
    }

    /// Withdraws the open question. Returns all calls that were not answered.
    pub(super) fn withdraw_all(&mut self) -> Vec<PendingPermission> {
        if let Some(open) = &self.open {
            open.stop.request();
        }
        let open = self.close_open();
        let waiting = self.waiting.drain(..).map(|(pending, _)| pending);
        open.into_iter().chain(waiting).collect()
    }

    /// The call of the open question, and how long it has been open.
    pub(super) fn describe_open(&self) -> Option<(String, Duration)> {
        let open = self.open.as_ref()?;
        Some((open.summary.clone(), open.opened_at.elapsed()))
    }

    /// How long a person was waited for so far.
    pub(super) fn total_wait(&self) -> Duration {
        let open = self.open.as_ref().map(|open| open.opened_at.elapsed());
        self.closed_wait + open.unwrap_or_default()
    }
}

/// What the tool gets. The summary of a call may be shortened, this is not.
fn full_input(request: &PermissionRequest) -> Option<String> {
    let listed = || request.call.inputs.join("\n");
    let input = request.raw_input.clone().unwrap_or_else(listed);
    (!input.is_empty()).then_some(input)
}

fn truncate_tool_name(tool: &str) -> String {
    tool.chars()
        .take(ProposedToolCall::MAX_TOOL_CHARS)
        .collect()
}
