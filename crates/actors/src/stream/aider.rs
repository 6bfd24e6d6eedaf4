//! The output of `aider --message`, which is text for people: an announcement, messages of the model, each
//! with a line about its tokens, and what was done with them.

use plan::transcript::{FileChangeEntry, FileChangeKind, NoticeLevel};

use super::entry_collector::{EntryCollector, bounded_answer};
use super::json::dollars_to_micros;
use crate::excerpt::TextExcerpt;

/// State between lines.
#[derive(Default)]
pub(super) struct AiderReader {
    section: OutputSection,
    /// The model's message so far.
    message: TextExcerpt,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum OutputSection {
    /// Warnings and notes before the announcement.
    #[default]
    Beginning,
    /// Version, models and repository, up to an empty line.
    Announcement,
    /// Messages and what was done with them.
    Work,
}

impl AiderReader {
    pub(super) fn read_line(&mut self, line: &str, collector: &mut EntryCollector) {
        if is_provider_error(line) {
            return collector.add_error(NoticeLevel::Warning, line);
        }
        match self.section {
            OutputSection::Beginning => {
                if line.starts_with("Aider v") {
                    self.section = OutputSection::Announcement;
                    collector.summary.session_started = true;
                }
                collector.add_notice(NoticeLevel::Info, line);
            }
            OutputSection::Announcement if line.trim().is_empty() => {
                self.section = OutputSection::Work;
            }
            OutputSection::Announcement => collector.add_notice(NoticeLevel::Info, line),
            OutputSection::Work => self.read_work(line, collector),
        }
    }

    fn read_work(&mut self, line: &str, collector: &mut EntryCollector) {
        if let Some(numbers) = line.strip_prefix("Tokens: ") {
            collector.summary.last_error = None;
            add_usage(numbers, collector);
            let message = std::mem::take(&mut self.message);
            if let Some(answer) = bounded_answer(&message.to_text()) {
                collector.summary.answer = Some(answer.trim().to_owned());
            }
            return;
        }
        if let Some(path) = line.strip_prefix("Applied edit to ") {
            // What was printed since the message is about the edit.
            self.message = TextExcerpt::default();
            return collector.add_file_change(FileChangeEntry {
                path: path.trim().to_owned(),
                change: None::<FileChangeKind>,
                line_counts: None,
            });
        }
        if line.starts_with("https://aider.chat/") {
            return;
        }
        self.message.push(line);
        self.message.push("\n");
        collector.add_piece(&format!("{line}\n"));
    }

    /// A message whose tokens were not told.
    pub(super) fn finish(self, collector: &mut EntryCollector) {
        if collector.summary.answer.is_none() && !self.message.is_blank() {
            let answer = bounded_answer(&self.message.to_text());
            collector.summary.answer = answer.map(|answer| answer.trim().to_owned());
        }
    }
}

/// Errors of the library that Aider calls its models with: `litellm.AuthenticationError: …`.
fn is_provider_error(line: &str) -> bool {
    let name = line
        .strip_prefix("litellm.")
        .and_then(|rest| rest.split(':').next());
    name.is_some_and(|name| {
        name.ends_with("Error") || name.ends_with("Exception") || name == "Timeout"
    })
}

/// Adds numbers such as `1.2k sent, 34 received. Cost: $0.0033 message, $0.0033 session.`
fn add_usage(numbers: &str, collector: &mut EntryCollector) {
    let (tokens, costs) = match numbers.split_once(" Cost: ") {
        Some((tokens, costs)) => (tokens, Some(costs)),
        None => (numbers, None),
    };
    let usage = &mut collector.summary.usage;
    for part in tokens.trim_end_matches('.').split(", ") {
        let Some((number, what)) = part.split_once(' ') else {
            continue;
        };
        let count = parse_count(number);
        match what {
            "sent" => usage.input_tokens = usage.input_tokens.saturating_add(count),
            "received" => usage.output_tokens = usage.output_tokens.saturating_add(count),
            // Tokens of a cache are among those sent.
            _ => {}
        }
    }
    let of_session = costs.and_then(|costs| costs.split(", ").last());
    let dollars =
        of_session.and_then(|cost| cost.split(' ').next()?.strip_prefix('$')?.parse().ok());
    if let Some(cost) = dollars.and_then(dollars_to_micros) {
        usage.cost_micros = cost;
    }
}

/// Parses `34`, `1.2k` or `3M`.
fn parse_count(number: &str) -> u64 {
    let (digits, factor) = match number.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => match number.strip_suffix('M') {
            Some(digits) => (digits, 1e6),
            None => (number, 1.0),
        },
    };
    let count = digits.parse::<f64>().unwrap_or(0.0) * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 2^53 and not negative"
    )]
    if (0.0..9e15).contains(&count) {
        count.round() as u64
    } else {
        0
    }
}
