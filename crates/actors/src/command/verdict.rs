//! How a run ended: what its program did, what it said, and what it reported, put together.

use std::time::Duration;

use plan::Phase;
use plan::actor::Output;
use plan::guard::Breach;
use plan::stage::Category;
use sandbox::RunEnded;

use super::words::is_session;
use crate::excerpt::{Excerpt, plain};
use crate::stream::Heard;
use crate::{Outcome, Report};

/// Bytes of an output that a message quotes.
const QUOTED: usize = 2 * 1024;

/// Why a run was ended from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// Somebody asked for it.
    Stopped,
    /// It took longer than this.
    TimedOut(Duration),
    /// It used a tool that it may not use, or used its tools too often.
    Guarded(Breach),
}

/// What is known of a run that ended.
pub(super) struct Evidence {
    /// The program, as the definition names it.
    pub(super) program: String,
    pub(super) phase: Phase,
    /// How it tells of what it does.
    pub(super) output: Output,
    pub(super) cut: Option<Cut>,
    pub(super) ended: RunEnded,
    pub(super) heard: Heard,
    pub(super) errors: Excerpt,
    pub(super) report: Option<Report>,
}

/// What came of it, in words that a terminal only shows. Success has to be said by nobody and contradicted by
/// nothing: a program that says it failed has failed, whatever its exit code, and one that ends with an error
/// has, whatever it reported.
pub(super) fn judge(evidence: Evidence) -> Report {
    let outcome = match outcome(&evidence) {
        Outcome::Failed { category, message } => Outcome::Failed {
            category,
            message: plain(&message),
        },
        Outcome::Asks { question, patience } => Outcome::Asks {
            question: plain(&question),
            patience,
        },
        outcome @ (Outcome::Done | Outcome::Stopped) => outcome,
    };
    let heard = evidence.heard;
    let written = evidence.report.unwrap_or_else(|| Report::of(Outcome::Done));
    let (usage, includes_usage_of) = if written.usage == crate::Usage::default() {
        (heard.usage, heard.includes_usage_of)
    } else {
        (written.usage, Vec::new())
    };
    Report {
        outcome,
        summary: written.summary.or(heard.answer).as_deref().map(plain),
        decisions: written.decisions,
        usage,
        includes_usage_of,
        session: written
            .session
            .or(heard.session)
            .filter(|session| is_session(session)),
    }
}

fn outcome(evidence: &Evidence) -> Outcome {
    let Evidence {
        program,
        ended,
        heard,
        ..
    } = evidence;
    let failed = |category, message: String| Outcome::Failed { category, message };
    match &evidence.cut {
        Some(Cut::Stopped) => return Outcome::Stopped,
        Some(Cut::TimedOut(limit)) => {
            let limit = in_words(*limit);
            let text = format!("{program} took longer than {limit}");
            let trouble = heard.failure.clone().or_else(|| last_trouble(evidence));
            let trouble = trouble.unwrap_or_default();
            return failed(Category::Timeout, with_quote(text, &trouble));
        }
        Some(Cut::Guarded(breach)) => {
            let category = match breach {
                Breach::TooMany(_) => Category::Budget,
                Breach::Denied { .. } | Breach::NotAllowed(_) => Category::Actor,
            };
            return failed(category, format!("{program} was stopped: {breach}"));
        }
        None => {}
    }
    let went_well = match ended {
        RunEnded::NotStarted(_) => {
            return failed(Category::Resource, format!("{program} {ended}"));
        }
        RunEnded::Code(code) => *code == 0,
        RunEnded::Signal(_) => false,
    };
    if let Some(report) = &evidence.report {
        return match &report.outcome {
            Outcome::Done if !went_well => failed(
                Category::Actor,
                with_quote(
                    format!("{program} reported that it is done, but {ended}"),
                    &evidence.errors.ending(QUOTED),
                ),
            ),
            outcome => outcome.clone(),
        };
    }
    if let Some(failure) = &heard.failure {
        let said = Excerpt::of(failure).ending(QUOTED);
        return failed(category_of(failure), format!("{program} failed: {said}"));
    }
    if !went_well {
        let said = heard.answer.as_deref().map(Excerpt::of).unwrap_or_default();
        let quote = match evidence.errors.is_blank() {
            true => said.ending(QUOTED),
            false => without_traces(&evidence.errors.ending(QUOTED)),
        };
        let category = match evidence.output {
            // What a script of somebody's own says on its way out may be about anything.
            Output::Text => Category::Actor,
            _ => category_by_words(&quote),
        };
        return failed(category, with_quote(format!("{program} {ended}"), &quote));
    }
    if evidence.phase == Phase::Strategize && heard.answer.is_none() {
        return failed(
            Category::Actor,
            with_quote(
                format!("{program} ended without a strategy"),
                &evidence.errors.ending(QUOTED),
            ),
        );
    }
    Outcome::Done
}

fn with_quote(text: String, quote: &str) -> String {
    // A terminal would not show what only colours it.
    match plain(quote).trim() {
        "" => text,
        quote => format!("{text}: {quote}"),
    }
}

/// What an agent complained of last where it does not say so in its stream. What a script writes there is no
/// complaint of anything.
fn last_trouble(evidence: &Evidence) -> Option<String> {
    if evidence.output == Output::Text {
        return None;
    }
    let errors = plain(&evidence.errors.ending(QUOTED));
    let starts_a_message = |line: &&str| line.starts_with(char::is_alphabetic);
    errors
        .lines()
        .rev()
        .find(starts_a_message)
        .map(str::to_owned)
}

/// Without the lines that say where in a program it happened.
fn without_traces(errors: &str) -> String {
    let is_of_a_trace = |line: &&str| line.starts_with(' ') && line.trim().starts_with("at ");
    let lines: Vec<&str> = errors.lines().filter(|line| !is_of_a_trace(line)).collect();
    lines.join("\n")
}

/// What sort of failure an agent tells of: by the words, and by the codes of its provider.
fn category_of(failure: &str) -> Category {
    const CODES: &[&str] = &["429", "500", "502", "503", "504", "529"];
    let mut numbers = failure.split(|char: char| !char.is_ascii_alphanumeric());
    match category_by_words(failure) {
        Category::Actor if numbers.any(|number| CODES.contains(&number)) => Category::Transient,
        category => category,
    }
}

/// What sort of failure it is by the words that agents and their providers use.
fn category_by_words(failure: &str) -> Category {
    const USED_UP: &[&str] = &[
        "usage limit",
        "credit balance",
        "insufficient_quota",
        "exceeded your current quota",
        "billing",
        "error_max_turns",
        "error_max_budget",
    ];
    const PASSING: &[&str] = &[
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
    let says = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    if says(USED_UP) {
        Category::Budget
    } else if says(PASSING) {
        Category::Transient
    } else {
        Category::Actor
    }
}

fn in_words(time: Duration) -> String {
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
    fn failures_are_sorted_by_their_words() {
        for (failure, expected) in [
            ("API Error: 529 Overloaded", Category::Transient),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                Category::Transient,
            ),
            ("stream disconnected before completion", Category::Transient),
            ("Rate limit reached", Category::Transient),
            (
                "You've hit your usage limit. Try again in 4 days.",
                Category::Budget,
            ),
            ("Credit balance is too low", Category::Budget),
            (
                "error_max_turns: Reached maximum number of turns",
                Category::Budget,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                Category::Transient,
            ),
            ("Invalid API key", Category::Actor),
            ("line 5290 is wrong", Category::Actor),
        ] {
            assert_eq!(category_of(failure), expected, "{failure}");
        }
    }
}
