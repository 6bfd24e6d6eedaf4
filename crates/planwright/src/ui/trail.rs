//! Renders what an agent says and does as a scrolling trail: one line for each thing that happened.

use std::collections::VecDeque;

use plan::transcript::{
    ChecklistItem, ChecklistStatus, FileChangeEntry, FileChangeKind, NoticeLevel, PermissionEntry,
    PermissionStatus, ToolCallEntry, ToolCallStatus, ToolCallUpdate, ToolKind, TranscriptContent,
    TranscriptEntry,
};

use super::{BAD, DIM, GOOD, WARN, escape_controls, pluralize, style_text, truncate_line};

/// Lines of a message in the brief trail. The agent's report shows the last message completely.
const MAX_MESSAGE_LINES: usize = 3;

/// How many lines of text may wait for what follows them. A report shows as many.
const MAX_HELD_LINES: usize = 12;

/// Lines shown of a tool's output.
const MAX_OUTPUT_LINES: usize = 8;

/// Files named in one line of reads.
const MAX_READ_FILES: usize = 3;

/// How many calls without a result are remembered.
const MAX_OPEN_CALLS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrailDetail {
    /// While an agent works: changed files, commands, and the beginning of messages. The last message is
    /// left to the report.
    Brief,
    /// All that was said and done, with the output of tools.
    Full,
}

/// Renders the entries of one run in order. Each call returns whole lines.
pub struct TrailRenderer {
    detail: TrailDetail,
    /// Of the terminal, in columns.
    width: usize,
    /// Text that may turn out to be the last message.
    held_text: String,
    read_targets: Vec<String>,
    open_calls: VecDeque<(ToolCallEntry, u64)>,
    last_checklist: Vec<ChecklistItem>,
}

impl TrailRenderer {
    pub fn new(detail: TrailDetail, width: usize) -> Self {
        Self {
            detail,
            width: width.max(20),
            held_text: String::new(),
            read_targets: Vec::new(),
            open_calls: VecDeque::new(),
            last_checklist: Vec::new(),
        }
    }

    /// The lines that the next entry adds.
    pub fn render_entry(&mut self, entry: &TranscriptEntry) -> String {
        let mut lines = String::new();
        match &entry.content {
            TranscriptContent::Text { text } => {
                self.flush_text(&mut lines);
                self.flush_reads(&mut lines);
                self.held_text = text.clone();
            }
            TranscriptContent::TextDelta { text } => {
                if self.held_text.is_empty() {
                    self.flush_reads(&mut lines);
                }
                self.held_text.push_str(text);
                self.flush_older_text(&mut lines);
            }
            TranscriptContent::Thought { text } => {
                if self.detail == TrailDetail::Full {
                    self.flush_all(&mut lines);
                    for line in wrap_text(text, self.width) {
                        push_line(&mut lines, &style_text(DIM, line));
                    }
                }
            }
            TranscriptContent::ToolCall(call) => {
                self.flush_text(&mut lines);
                self.render_call(call, entry.elapsed_ms, &mut lines);
            }
            TranscriptContent::ToolCallUpdate(update) => {
                self.render_update(update, entry.elapsed_ms, &mut lines);
            }
            TranscriptContent::FileChange(change) => {
                self.flush_all(&mut lines);
                self.render_change(change, &mut lines);
            }
            TranscriptContent::Checklist { items } => {
                if *items != self.last_checklist {
                    self.flush_all(&mut lines);
                    self.push_step("todo", &describe_checklist(items), "", &mut lines);
                    self.last_checklist.clone_from(items);
                }
            }
            TranscriptContent::Permission(permission) => {
                self.render_permission(permission, &mut lines);
            }
            TranscriptContent::Usage(_) => {}
            TranscriptContent::Notice { level, text } => {
                self.flush_all(&mut lines);
                let style = match level {
                    NoticeLevel::Info => DIM,
                    NoticeLevel::Warning => WARN,
                    NoticeLevel::Error => BAD,
                };
                for line in wrap_text(text, self.width) {
                    push_line(&mut lines, &style_text(style, line));
                }
            }
        }
        lines
    }

    /// The message that waits for its end, when no more of it is expected.
    pub fn finish_message(&mut self) -> String {
        let mut lines = String::new();
        if self.detail == TrailDetail::Full {
            self.flush_text(&mut lines);
        }
        lines
    }

    /// The lines that are left at the end of the run.
    pub fn finish(&mut self) -> String {
        let mut lines = String::new();
        match self.detail {
            // The report follows.
            TrailDetail::Brief => self.held_text.clear(),
            TrailDetail::Full => self.flush_text(&mut lines),
        }
        self.flush_reads(&mut lines);
        for (call, _) in std::mem::take(&mut self.open_calls) {
            if self.detail == TrailDetail::Brief {
                self.push_call(&call, "", &mut lines);
            }
        }
        lines
    }

    fn render_call(&mut self, call: &ToolCallEntry, elapsed_ms: u64, lines: &mut String) {
        let is_look = matches!(call.tool_kind, ToolKind::Read | ToolKind::Search);
        if self.detail == TrailDetail::Brief && is_look {
            self.read_targets.extend(call.target());
            return;
        }
        // A checklist has an entry of its own.
        if call.tool_kind == ToolKind::Think {
            return;
        }
        if self.detail == TrailDetail::Brief {
            self.flush_reads(lines);
        }
        match (self.detail, call.status) {
            // The files follow.
            (TrailDetail::Brief, ToolCallStatus::Completed) if call.tool_kind == ToolKind::Edit => {
            }
            (TrailDetail::Brief, ToolCallStatus::Started) if call.call_id.is_some() => {
                if self.open_calls.len() == MAX_OPEN_CALLS {
                    self.open_calls.pop_front();
                }
                self.open_calls.push_back((call.clone(), elapsed_ms));
            }
            (_, ToolCallStatus::Failed) => {
                self.push_call(call, &style_text(BAD, "failed"), lines);
            }
            (TrailDetail::Full, ToolCallStatus::Started) => {
                self.push_call(call, "", lines);
                if self.open_calls.len() == MAX_OPEN_CALLS {
                    self.open_calls.pop_front();
                }
                self.open_calls.push_back((call.clone(), elapsed_ms));
            }
            (TrailDetail::Brief | TrailDetail::Full, _) => self.push_call(call, "", lines),
        }
    }

    fn render_update(&mut self, update: &ToolCallUpdate, elapsed_ms: u64, lines: &mut String) {
        if update.status == ToolCallStatus::Started {
            return;
        }
        let position = self
            .open_calls
            .iter()
            .position(|(call, _)| update.call_id.is_some() && call.call_id == update.call_id);
        let open_call = position.and_then(|position| self.open_calls.remove(position));
        let seconds = open_call.as_ref().map_or(0, |(_, started_ms)| {
            elapsed_ms.saturating_sub(*started_ms) / 1000
        });
        let result = describe_result(update, seconds);
        match self.detail {
            TrailDetail::Brief => {
                let Some((call, _)) = open_call else {
                    return;
                };
                let is_told_by_files = matches!(call.tool_kind, ToolKind::Edit | ToolKind::Delete)
                    && update.status == ToolCallStatus::Completed;
                if !is_told_by_files {
                    self.flush_text(lines);
                    self.flush_reads(lines);
                    self.push_call(&call, &result, lines);
                }
            }
            TrailDetail::Full => {
                push_output(update.output.as_deref().unwrap_or_default(), lines);
                let is_command = open_call
                    .as_ref()
                    .is_some_and(|(call, _)| call.tool_kind == ToolKind::Execute);
                if is_command || update.status == ToolCallStatus::Failed {
                    push_line(lines, &format!("        {result}"));
                }
            }
        }
    }

    /// Calls that are simply allowed are shown as calls only.
    fn render_permission(&mut self, permission: &PermissionEntry, lines: &mut String) {
        let verb = match permission.status {
            PermissionStatus::Allowed if self.detail == TrailDetail::Brief => return,
            PermissionStatus::Allowed => "allow",
            PermissionStatus::Asked => "ask",
            PermissionStatus::Rejected => "deny",
            PermissionStatus::Cancelled => "void",
        };
        self.flush_all(lines);
        self.push_step(verb, &permission.describe_call(), &permission.reason, lines);
    }

    fn render_change(&self, change: &FileChangeEntry, lines: &mut String) {
        let verb = match change.change {
            Some(FileChangeKind::Created) => "new",
            Some(FileChangeKind::Deleted) => "del",
            Some(FileChangeKind::Modified) | None => "edit",
        };
        let counts = change
            .line_counts
            .map(|counts| style_line_counts(counts.added, counts.removed));
        let path = truncate_start(
            &escape_controls(&change.path),
            self.width.saturating_sub(22),
        );
        let counts = counts.map_or_else(String::new, |counts| format!(" {counts}"));
        push_line(lines, &format!("  {verb:<5} {path}{counts}"));
    }

    fn push_call(&self, call: &ToolCallEntry, result: &str, lines: &mut String) {
        let verb = match call.tool_kind {
            ToolKind::Read => "read",
            ToolKind::Edit => "edit",
            ToolKind::Delete => "del",
            ToolKind::Move => "move",
            ToolKind::Search => "find",
            ToolKind::Execute => "run",
            ToolKind::Fetch => "fetch",
            ToolKind::Think | ToolKind::Other => "use",
        };
        let target = call.target().unwrap_or_default();
        let target = match call.tool_kind {
            ToolKind::Execute => unwrap_command(&target).to_owned(),
            ToolKind::Think | ToolKind::Other => {
                let tool = call.tool.trim_start_matches("mcp__").replace("__", " ");
                format!("{tool} {target}").trim_end().to_owned()
            }
            ToolKind::Read
            | ToolKind::Edit
            | ToolKind::Delete
            | ToolKind::Move
            | ToolKind::Search
            | ToolKind::Fetch => target,
        };
        self.push_step(verb, &target, result, lines);
    }

    /// A line such as `  run   cargo test · ok · 4 s`, cut to the width.
    fn push_step(&self, verb: &str, target: &str, result: &str, lines: &mut String) {
        let result = match result {
            "" => String::new(),
            result => format!(" · {result}"),
        };
        let result_width = anstream::adapter::strip_str(&result)
            .to_string()
            .chars()
            .count();
        let target = truncate_line(target, self.width.saturating_sub(8 + result_width).max(12));
        push_line(lines, &format!("  {verb:<5} {target}{result}"));
    }

    fn flush_all(&mut self, lines: &mut String) {
        self.flush_text(lines);
        self.flush_reads(lines);
    }

    fn flush_text(&mut self, lines: &mut String) {
        let text = std::mem::take(&mut self.held_text);
        let wrapped = wrap_text(&text, self.width);
        let shown = match self.detail {
            TrailDetail::Brief => wrapped.len().min(MAX_MESSAGE_LINES),
            TrailDetail::Full => wrapped.len(),
        };
        for line in &wrapped[..shown] {
            push_line(lines, line);
        }
        if shown < wrapped.len() {
            push_line(lines, &style_text(DIM, "  …"));
        }
    }

    /// Shows text that cannot be part of the report any more: a program may print for hours.
    fn flush_older_text(&mut self, lines: &mut String) {
        let keep = match self.detail {
            TrailDetail::Brief => MAX_HELD_LINES,
            TrailDetail::Full => 1,
        };
        let ends: Vec<usize> = self
            .held_text
            .match_indices('\n')
            .map(|(at, _)| at + 1)
            .collect();
        let Some(surplus) = ends.len().checked_sub(keep).filter(|surplus| *surplus > 0) else {
            return;
        };
        let rest = self.held_text.split_off(ends[surplus - 1]);
        let older = std::mem::replace(&mut self.held_text, rest);
        for line in wrap_text(&older, self.width) {
            push_line(lines, &line);
        }
    }

    fn flush_reads(&mut self, lines: &mut String) {
        let mut targets = std::mem::take(&mut self.read_targets);
        targets.dedup();
        if targets.is_empty() {
            return;
        }
        let more = targets.len().saturating_sub(MAX_READ_FILES);
        targets.truncate(MAX_READ_FILES);
        let more = match more {
            0 => String::new(),
            more => format!("{more} more"),
        };
        self.push_step("read", &targets.join(", "), &more, lines);
    }
}

/// Wraps a text at words, indented and escaped. Blank lines are left out.
pub fn wrap_text(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in escape_controls(text).replace('\t', "    ").lines() {
        let indent = line.len() - line.trim_start().len();
        let indent = " ".repeat(2 + indent.min(width / 2));
        let mut wrapped = String::new();
        for word in line.split_whitespace() {
            let length = wrapped.chars().count() + 1 + word.chars().count();
            if !wrapped.is_empty() && length > width.saturating_sub(indent.len() + 1) {
                lines.push(format!("{indent}{wrapped}"));
                wrapped.clear();
            }
            if !wrapped.is_empty() {
                wrapped.push(' ');
            }
            wrapped.push_str(word);
        }
        if !wrapped.is_empty() {
            lines.push(format!("{indent}{wrapped}"));
        }
    }
    lines
}

/// For example `+9 −3`, in colours.
pub fn style_line_counts(added: u64, removed: u64) -> String {
    format!(
        "{} {}",
        style_text(GOOD, format!("+{added}")),
        style_text(BAD, format!("−{removed}"))
    )
}

/// For example `4 s` or `12 min`.
pub fn format_seconds(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200.. => format!("{} h", seconds / 3600),
    }
}

fn push_line(lines: &mut String, line: &str) {
    lines.push_str(line);
    lines.push('\n');
}

fn push_output(output: &str, lines: &mut String) {
    let mut shown = output.lines();
    for line in shown.by_ref().take(MAX_OUTPUT_LINES) {
        push_line(
            lines,
            &style_text(DIM, format!("        {}", truncate_line(line, 160))),
        );
    }
    let more = shown.count();
    if more > 0 {
        let left_out = format!("        … {} more", pluralize(more as u64, "line"));
        push_line(lines, &style_text(DIM, left_out));
    }
}

/// For example `ok · 4 s` or `exit 101`.
fn describe_result(update: &ToolCallUpdate, seconds: u64) -> String {
    let outcome = match (update.status, update.exit_code) {
        (ToolCallStatus::Failed, Some(code)) => style_text(BAD, format!("exit {code}")),
        (ToolCallStatus::Failed, None) => style_text(BAD, "failed"),
        (ToolCallStatus::Completed | ToolCallStatus::Started, _) => style_text(GOOD, "ok"),
    };
    match seconds {
        0 => outcome,
        seconds => format!("{outcome} · {}", format_seconds(seconds)),
    }
}

/// For example `2 of 5 · Write the test`.
fn describe_checklist(items: &[ChecklistItem]) -> String {
    let find = |status| items.iter().find(|item| item.status == status);
    let is_done = |item: &&ChecklistItem| item.status == ChecklistStatus::Completed;
    let done = items.iter().filter(is_done).count();
    let next = find(ChecklistStatus::InProgress).or(find(ChecklistStatus::Pending));
    match next {
        Some(next) => format!("{done} of {} · {}", items.len(), next.text),
        None => format!("{done} of {}", items.len()),
    }
}

/// Removes what agents wrap around a command: `bash -lc '…'` and `cd . && …`.
fn unwrap_command(command: &str) -> &str {
    let mut command = command.trim();
    if let Some((shell, script)) = command.split_once(" -lc ").or(command.split_once(" -c ")) {
        let name = shell.rsplit('/').next().unwrap_or_default();
        if matches!(name, "bash" | "sh" | "zsh") {
            command = script.trim().trim_matches(['\'', '"']);
        }
    }
    command.trim_start_matches("cd . && ")
}

/// Cuts a path at its beginning.
pub fn truncate_start(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let kept: String = path.chars().skip(length + 1 - width).collect();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use plan::transcript::{LineCounts, Usage};

    use super::*;

    fn call(id: &str, tool_kind: ToolKind, input: &str) -> TranscriptContent {
        TranscriptContent::ToolCall(ToolCallEntry {
            call_id: Some(id.to_owned()),
            tool: "tool".to_owned(),
            tool_kind,
            inputs: vec![input.to_owned()],
            title: None,
            locations: Vec::new(),
            status: ToolCallStatus::Started,
        })
    }

    fn result(id: &str, exit_code: i64, output: &str) -> TranscriptContent {
        TranscriptContent::ToolCallUpdate(ToolCallUpdate {
            call_id: Some(id.to_owned()),
            status: match exit_code {
                0 => ToolCallStatus::Completed,
                _ => ToolCallStatus::Failed,
            },
            exit_code: Some(exit_code),
            output: Some(output.to_owned()),
        })
    }

    fn text(text: &str) -> TranscriptContent {
        let text = text.to_owned();
        TranscriptContent::Text { text }
    }

    fn piece(text: &str) -> TranscriptContent {
        let text = text.to_owned();
        TranscriptContent::TextDelta { text }
    }

    /// Renders entries that follow each other after four seconds each.
    fn render(detail: TrailDetail, width: usize, entries: &[TranscriptContent]) -> String {
        let mut renderer = TrailRenderer::new(detail, width);
        let mut lines = String::new();
        for (number, content) in (0..).zip(entries) {
            lines.push_str(&renderer.render_entry(&TranscriptEntry {
                elapsed_ms: number * 4000,
                content: content.clone(),
            }));
        }
        lines.push_str(&renderer.finish());
        anstream::adapter::strip_str(&lines).to_string()
    }

    fn sample_run() -> Vec<TranscriptContent> {
        vec![
            text("I look at the retry test first, because it fails only now and then."),
            call("1", ToolKind::Read, "src/retry.rs"),
            result("1", 0, "fn retry() {}"),
            call("2", ToolKind::Search, "retry"),
            result("2", 0, "src/retry.rs"),
            call("3", ToolKind::Edit, "src/retry.rs"),
            result("3", 0, "updated"),
            TranscriptContent::FileChange(FileChangeEntry {
                path: "src/retry.rs".to_owned(),
                change: Some(FileChangeKind::Modified),
                line_counts: Some(LineCounts {
                    added: 9,
                    removed: 3,
                }),
            }),
            call(
                "4",
                ToolKind::Execute,
                "bash -lc 'cd . && cargo test retry'",
            ),
            result("4", 0, "ok"),
            call("5", ToolKind::Execute, "cargo clippy"),
            result("5", 101, "error: unused"),
            TranscriptContent::Usage(Usage::default()),
            text("The test raced the clock."),
        ]
    }

    #[test]
    fn brief_trail_has_a_line_for_each_change_and_command() {
        let expected = "  I look at the retry test first, because it fails only now
  and then.
  read  src/retry.rs, retry
  edit  src/retry.rs +9 −3
  run   cargo test retry · ok · 4 s
  run   cargo clippy · exit 101 · 4 s
";
        assert_eq!(render(TrailDetail::Brief, 60, &sample_run()), expected);
    }

    #[test]
    fn full_trail_shows_output_and_the_last_message() {
        let rendered = render(TrailDetail::Full, 60, &sample_run());
        for part in [
            "  read  src/retry.rs\n        fn retry() {}\n",
            "  run   cargo clippy\n        error: unused\n",
            "  The test raced the clock.\n",
        ] {
            assert!(rendered.contains(part), "{part} in\n{rendered}");
        }
    }

    #[test]
    fn streamed_pieces_are_one_message() {
        let pieces = [
            piece("Now"),
            piece(" "),
            piece("I look."),
            call("1", ToolKind::Execute, "ls"),
            result("1", 0, ""),
            piece("Done."),
        ];
        let expected = "  Now I look.\n  run   ls · ok · 4 s\n";
        assert_eq!(render(TrailDetail::Brief, 60, &pieces), expected);
        assert!(render(TrailDetail::Full, 60, &pieces).ends_with("  Done.\n"));
    }

    /// A program that only prints text shows it as it goes; its last lines are the report.
    #[test]
    fn plain_output_scrolls_and_leaves_its_end_to_the_report() {
        let lines: Vec<TranscriptContent> = (0..20)
            .map(|number| piece(&format!("line {number}\n")))
            .collect();
        let brief = render(TrailDetail::Brief, 60, &lines);
        assert!(
            brief.starts_with("  line 0\n") && brief.ends_with("  line 7\n"),
            "{brief}"
        );
        let full = render(TrailDetail::Full, 60, &lines);
        assert!(full.ends_with("  line 19\n"), "{full}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let long = "x".repeat(300);
        let words = "many words ".repeat(40);
        let entries = [
            text(&words),
            call("1", ToolKind::Execute, &format!("echo {long}")),
            result("1", 1, ""),
            call("2", ToolKind::Read, &long),
            TranscriptContent::FileChange(FileChangeEntry {
                path: format!("{long}/a.rs"),
                change: None,
                line_counts: Some(LineCounts {
                    added: 12345,
                    removed: 67890,
                }),
            }),
        ];
        let rendered = render(TrailDetail::Brief, 60, &entries);
        for line in rendered.lines() {
            assert!(line.chars().count() <= 60, "{line}");
        }
        assert!(rendered.contains("/a.rs +12345 −67890"), "{rendered}");
    }

    #[test]
    fn text_cannot_command_the_terminal() {
        let rendered = render(
            TrailDetail::Full,
            60,
            &[
                text("a\u{1b}[2Jb"),
                call("1", ToolKind::Execute, "\u{1b}]0;x\u{7}"),
            ],
        );
        assert!(!rendered.contains(['\u{1b}', '\u{7}']), "{rendered:?}");
    }
}
