//! Builds the report of a run from its exit, its output and its report file.

use std::time::Duration;

use plan::Phase;
use plan::guard::GuardBreach;
use plan::stage::FailureCategory;
use sandbox::ProgramExit;

use super::invocation::is_valid_session;
use crate::excerpt::{TextExcerpt, strip_control_chars};
use crate::stream::StreamSummary;
use crate::{Report, ReportOutcome};

/// How many bytes of an output a message quotes.
pub(crate) const MAX_QUOTE_BYTES: usize = 2 * 1024;

/// Why a run was stopped from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminationReason {
    StopRequested,
    /// After this limit.
    TimedOut(Duration),
    /// It used a tool that its guards do not allow, or used its tools too often.
    GuardBreached(GuardBreach),
    /// It did not answer this request within the limit.
    RequestUnanswered {
        request: &'static str,
        limit: Duration,
    },
    /// It said nothing for this long, although no tool was running.
    Silent(Duration),
    /// It does not follow the protocol.
    ProtocolViolated(String),
    /// It asked the person a question, and did not end.
    QuestionAsked,
    /// Nobody answered its question about this tool call within the limit.
    PermissionUnanswered {
        call: String,
        limit: Duration,
    },
}

pub(crate) struct FinishedRun {
    /// As named in the definition.
    pub(crate) program: String,
    pub(crate) phase: Phase,
    /// The last words of the program are about its failure.
    pub(crate) names_its_errors: bool,
    pub(crate) termination: Option<TerminationReason>,
    pub(crate) exit: ProgramExit,
    pub(crate) stream_summary: StreamSummary,
    pub(crate) errors: TextExcerpt,
    /// The last error on standard error that nothing has followed yet.
    pub(crate) last_error: Option<String>,
    pub(crate) report: Option<Report>,
    /// What it asked the person by the tools of its run.
    pub(crate) question: Option<String>,
}

/// Builds the report, with texts that are safe to print. A run succeeds if nothing contradicts it:
/// a program that says it failed has failed, whatever its exit code, and so has one that exits with
/// an error, whatever it reported.
pub(crate) fn build_report(finished_run: FinishedRun) -> Report {
    let outcome = match determine_outcome(&finished_run) {
        ReportOutcome::Failed { category, message } => ReportOutcome::Failed {
            category,
            message: strip_control_chars(&message),
        },
        ReportOutcome::NeedsAnswer { question, timeout } => ReportOutcome::NeedsAnswer {
            question: strip_control_chars(&question),
            timeout,
        },
        outcome @ (ReportOutcome::Done | ReportOutcome::Stopped) => outcome,
    };
    let exit_code = match finished_run.exit {
        ProgramExit::Code(code) => Some(code),
        ProgramExit::Signal(_) | ProgramExit::NotStarted(_) => None,
    };
    let stream_summary = finished_run.stream_summary;
    let written_report = finished_run
        .report
        .unwrap_or_else(|| Report::with_outcome(ReportOutcome::Done));
    let (usage, includes_usage_of) = if written_report.usage == crate::Usage::default() {
        (stream_summary.usage, stream_summary.includes_usage_of)
    } else {
        (written_report.usage, Vec::new())
    };
    Report {
        outcome,
        summary: written_report
            .summary
            .or(stream_summary.answer)
            .as_deref()
            .map(strip_control_chars),
        decisions: written_report.decisions,
        usage,
        includes_usage_of,
        session: written_report
            .session
            .or(stream_summary.session)
            .filter(|session| is_valid_session(session)),
        exit_code,
    }
}

fn determine_outcome(finished_run: &FinishedRun) -> ReportOutcome {
    let FinishedRun {
        program,
        exit,
        stream_summary,
        ..
    } = finished_run;
    let failed = |category, message: String| ReportOutcome::Failed { category, message };
    match &finished_run.termination {
        Some(TerminationReason::StopRequested) => return ReportOutcome::Stopped,
        Some(TerminationReason::TimedOut(limit)) => {
            let limit = format_duration(*limit);
            let text = format!("{program} took longer than {limit}");
            let trouble = stream_summary
                .failure
                .clone()
                .or_else(|| finished_run.last_error.clone());
            let trouble = trouble.unwrap_or_default();
            return failed(FailureCategory::Timeout, append_quote(text, &trouble));
        }
        Some(TerminationReason::GuardBreached(breach)) => {
            let category = match breach {
                GuardBreach::TooMany(_) => FailureCategory::Budget,
                GuardBreach::Denied { .. } | GuardBreach::NotAllowed(_) => FailureCategory::Actor,
            };
            return failed(category, format!("{program} was stopped: {breach}"));
        }
        Some(TerminationReason::RequestUnanswered { request, limit }) => {
            let limit = format_duration(*limit);
            let text = format!("{program} did not answer `{request}` within {limit}");
            let quote = finished_run.errors.last_lines(MAX_QUOTE_BYTES);
            return failed(FailureCategory::Timeout, append_quote(text, &quote));
        }
        Some(TerminationReason::Silent(limit)) => {
            let limit = format_duration(*limit);
            let text = format!("{program} said nothing for {limit}");
            let quote = finished_run.errors.last_lines(MAX_QUOTE_BYTES);
            return failed(FailureCategory::Timeout, append_quote(text, &quote));
        }
        Some(TerminationReason::PermissionUnanswered { call, limit }) => {
            let limit = format_duration(*limit);
            return ReportOutcome::NeedsAnswer {
                question: format!(
                    "{program} wanted to {call}, and nobody allowed or rejected it within {limit}. \
                     How should it go on?"
                ),
                timeout: None,
            };
        }
        Some(TerminationReason::ProtocolViolated(how)) => {
            return failed(FailureCategory::Actor, format!("{program} {how}"));
        }
        Some(TerminationReason::QuestionAsked) | None => {}
    }
    if let Some(question) = &finished_run.question {
        return ReportOutcome::NeedsAnswer {
            question: question.clone(),
            timeout: None,
        };
    }
    let exited_cleanly = match exit {
        ProgramExit::NotStarted(_) => {
            return failed(FailureCategory::Resource, format!("{program} {exit}"));
        }
        ProgramExit::Code(code) => *code == 0,
        ProgramExit::Signal(_) => false,
    };
    if let Some(report) = &finished_run.report {
        return match &report.outcome {
            ReportOutcome::Done if !exited_cleanly => failed(
                FailureCategory::Actor,
                append_quote(
                    format!("{program} reported success, but {exit}"),
                    &finished_run.errors.last_lines(MAX_QUOTE_BYTES),
                ),
            ),
            outcome => outcome.clone(),
        };
    }
    if let Some(failure) = &stream_summary.failure {
        let quote = TextExcerpt::from_text(failure).last_lines(MAX_QUOTE_BYTES);
        return failed(
            categorize_failure(failure),
            format!("{program} failed: {quote}"),
        );
    }
    if !exited_cleanly {
        let answer = stream_summary
            .answer
            .as_deref()
            .map(TextExcerpt::from_text)
            .unwrap_or_default();
        let quote = match finished_run.errors.is_blank() {
            true => answer.last_lines(MAX_QUOTE_BYTES),
            false => strip_stack_traces(&finished_run.errors.last_lines(MAX_QUOTE_BYTES)),
        };
        let category = match finished_run.names_its_errors {
            true => categorize_by_words(&quote),
            false => FailureCategory::Actor,
        };
        return failed(category, append_quote(format!("{program} {exit}"), &quote));
    }
    if finished_run.phase == Phase::Strategize && stream_summary.answer.is_none() {
        return failed(
            FailureCategory::Actor,
            append_quote(
                format!("{program} ended without a strategy"),
                &finished_run.errors.last_lines(MAX_QUOTE_BYTES),
            ),
        );
    }
    ReportOutcome::Done
}

fn append_quote(text: String, quote: &str) -> String {
    // Escape sequences alone are not worth quoting.
    match strip_control_chars(quote).trim() {
        "" => text,
        quote => format!("{text}: {quote}"),
    }
}

/// Removes stack frames.
fn strip_stack_traces(errors: &str) -> String {
    let is_stack_frame = |line: &&str| line.starts_with(' ') && line.trim().starts_with("at ");
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| !is_stack_frame(line))
        .collect();
    lines.join("\n")
}

/// Categorizes a failure that an agent reported, by its words and by HTTP status codes.
pub(crate) fn categorize_failure(failure: &str) -> FailureCategory {
    const TRANSIENT_STATUS_CODES: &[&str] = &["429", "500", "502", "503", "504", "529"];
    let mut numbers = failure.split(|char: char| !char.is_ascii_alphanumeric());
    match categorize_by_words(failure) {
        FailureCategory::Actor
            if numbers.any(|number| TRANSIENT_STATUS_CODES.contains(&number)) =>
        {
            FailureCategory::Transient
        }
        category => category,
    }
}

/// Categorizes a failure by phrases that agents and their providers use.
fn categorize_by_words(failure: &str) -> FailureCategory {
    const BUDGET_PHRASES: &[&str] = &[
        "usage limit",
        "credit balance",
        "insufficient_quota",
        "exceeded your current quota",
        "billing",
        "error_max_turns",
        "error_max_budget",
    ];
    const TRANSIENT_PHRASES: &[&str] = &[
        "rate limit",
        "rate_limit",
        "ratelimit",
        "too many requests",
        "overloaded",
        "network",
        "connection",
        "econnreset",
        "econnrefused",
        "enotfound",
        "etimedout",
        "eai_again",
        "fetch failed",
        "error sending request",
        "stream disconnected",
        "timed out",
        "timeout",
        "temporarily unavailable",
        "service unavailable",
        "bad gateway",
        "internal server error",
        "high demand",
        "temporary error",
        "resource_exhausted",
    ];
    let failure = failure.to_ascii_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    if contains_any(BUDGET_PHRASES) {
        FailureCategory::Budget
    } else if contains_any(TRANSIENT_PHRASES) {
        FailureCategory::Transient
    } else {
        FailureCategory::Actor
    }
}

fn format_duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_categorized_by_their_words() {
        for (failure, expected) in [
            ("API Error: 529 Overloaded", FailureCategory::Transient),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                FailureCategory::Transient,
            ),
            (
                "stream disconnected before completion",
                FailureCategory::Transient,
            ),
            ("Rate limit reached", FailureCategory::Transient),
            (
                "You've hit your usage limit. Try again in 4 days.",
                FailureCategory::Budget,
            ),
            ("Credit balance is too low", FailureCategory::Budget),
            (
                "error_max_turns: Reached maximum number of turns",
                FailureCategory::Budget,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                FailureCategory::Transient,
            ),
            ("Invalid API key", FailureCategory::Actor),
            ("line 5290 is wrong", FailureCategory::Actor),
        ] {
            assert_eq!(categorize_failure(failure), expected, "{failure}");
        }
    }
}
