//! Looks: colours, tables, and the words people see for states. Colour is stripped where there is
//! no terminal by the stream that prints.

mod age;
mod ask;
mod patch;
mod progress;
mod table;
mod visible;

pub use age::age;
pub use ask::{ask, can_be_asked};
pub use patch::patch;
pub use progress::{Asides, Audience, Progress};
pub use table::Table;
pub use visible::{clean, clean_line, only_colours};

use anstyle::{AnsiColor, Style};
use plan::ledger::Means;
use plan::plan::Limits;
use plan::stage::{ConstraintKind, Landing, Work};
use plan::{Plan, Stage};
use sandbox::RunRecord;
use store::PlanRow;

/// For what matters most.
pub const BOLD: Style = Style::new().bold();
/// For what can be passed over.
pub const DIM: Style = Style::new().dimmed();
/// For what is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For what waits for a person.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// For what went wrong.
pub const BAD: Style = AnsiColor::Red.on_default();
/// For what can be typed.
pub const CODE: Style = AnsiColor::Cyan.on_default();

/// Text in a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// One line of at most so many characters.
pub fn one_line(text: &str, width: usize) -> String {
    let line = clean(text.lines().next().unwrap_or_default()).replace('\t', " ");
    let more = text.lines().nth(1).is_some();
    if line.chars().count() <= width && !more {
        return line;
    }
    let mut short: String = line.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// An amount of money: `$0.42`.
pub fn money(micros: u64) -> String {
    plan::Money(micros).to_string()
}

/// What a plan may use.
pub fn limits(limits: Limits) -> String {
    let attempts = count(limits.attempts, "attempt");
    let mut parts = vec![match limits.timeout {
        Some(timeout) => format!("{attempts}, {timeout} each"),
        None => format!("{attempts}, no time limit"),
    }];
    for means in Means::ALL {
        let limit = limits.of(means).map(|limit| means.shown(limit));
        parts.extend(limit.map(|limit| format!("{limit} in all")));
    }
    parts.join(", ")
}

/// What was used of a limit, if there is one.
pub fn spent(means: Means, spent: u64, limit: Option<u64>) -> String {
    match limit {
        Some(limit) => format!("{} of {}", means.shown(spent), means.shown(limit)),
        None => means.shown(spent),
    }
}

/// A run of an actor: who, what, how it ended, how it was confined, what it used.
pub fn run(record: &RunRecord) -> String {
    let mut parts = vec![
        record.actor.to_string(),
        record.phase.to_string(),
        record.outcome.clone(),
    ];
    parts.extend(record.isolation.clone());
    let tokens = record.input_tokens + record.output_tokens;
    if tokens > 0 {
        parts.push(format!("{tokens} tokens"));
    }
    if record.cost_micros > 0 {
        parts.push(money(record.cost_micros));
    }
    clean(&parts.join(" · "))
}

/// So many of something, as people say it: `1 plan`, `2 plans`.
pub fn count(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        several => format!("{several} {what}s"),
    }
}

/// The words for where a plan stands, and how they look.
pub fn standing(row: &PlanRow) -> (&'static str, Style) {
    if row.is_blocked() {
        return ("blocked", BAD);
    }
    match &row.plan.stage {
        Stage::Strategize(work) => work_words(work, "thinking", "strategy ready", &row.plan),
        Stage::Execute(work) => work_words(work, "working", "needs review", &row.plan),
        Stage::Apply(landing) => match landing {
            Landing::Queued(..) => ("waiting", DIM),
            Landing::Processing(..) => ("landing", Style::new()),
            Landing::AwaitingInput(..) => ("needs answer", WARN),
            Landing::Errored(_) => ("failed", BAD),
            Landing::Constrained(one) if one.kind == ConstraintKind::Gate => ("blocked", BAD),
            Landing::Constrained(_) => ("conflict", BAD),
            Landing::Applied(_) if row.plan.has_targets() => ("landed", GOOD),
            Landing::Applied(_) => ("done", GOOD),
            Landing::Cancelled(_) => ("cancelled", DIM),
        },
    }
}

fn work_words(
    work: &Work,
    busy: &'static str,
    ready: &'static str,
    plan: &Plan,
) -> (&'static str, Style) {
    match work {
        Work::Queued(_) if plan.needs_person() => ("waiting for you", WARN),
        Work::Queued(_) => ("waiting", DIM),
        Work::Processing(_) => (busy, Style::new()),
        Work::AwaitingInput(_) => ("needs answer", WARN),
        Work::Complete if plan.needs_person() => (ready, WARN),
        Work::Complete => ("ready", Style::new()),
        Work::Errored(_) => ("failed", BAD),
        Work::Cancelled(_) => ("cancelled", DIM),
    }
}
