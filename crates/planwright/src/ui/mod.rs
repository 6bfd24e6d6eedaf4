//! Output for people: styles, tables, prompts and progress. The output streams
//! strip colour if there is no terminal.

mod age;
mod ask;
mod escape;
mod patch;
mod progress;
mod table;
mod trail;
mod wrap;

pub use age::{format_age, format_delay};
pub use ask::{
    PromptOutcome, ask_beside_work, ask_person, ask_person_while, can_ask_person,
    discard_typed_input,
};
pub use escape::{escape_controls, escape_except_colours, escape_line_bytes};
pub use patch::render_patch;
pub use progress::{ProgressAudience, ProgressDisplay, SlowStepReporter, terminal_width};
pub use table::TextTable;
pub use trail::{
    TrailDetail, TrailRenderer, format_seconds, style_line_counts, truncate_start, wrap_text,
};
pub use wrap::{stderr_width, stdout_width, wrap_hanging, wrap_rows};

use anstyle::{AnsiColor, Style};
use api::standing::{PlanStanding, StandingTone};
use plan::ledger::BudgetUnit;
use plan::plan::PlanLimits;
use sandbox::RunRecord;

pub const BOLD: Style = Style::new().bold();
/// For details.
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For warnings and plans that wait for a person.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// For errors and failed plans.
pub const BAD: Style = AnsiColor::Red.on_default();
/// For commands to type.
pub const CODE: Style = AnsiColor::Cyan.on_default();

pub fn style_text(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The first line of a text, escaped and cut to `width` characters. Ends with `…` if anything was cut.
pub fn truncate_line(text: &str, width: usize) -> String {
    let line = escape_controls(text.lines().next().unwrap_or_default()).replace('\t', " ");
    let more = text.lines().nth(1).is_some();
    if line.chars().count() <= width && !more {
        return line;
    }
    let mut short: String = line.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Formats millionths of a US dollar: `$0.42`.
pub fn format_money(micros: u64) -> String {
    plan::Money(micros).to_string()
}

/// Formats limits: `3 attempts, 1h each, $3.50 in total`.
pub fn format_limits(limits: PlanLimits) -> String {
    let attempts = pluralize(limits.attempts, "attempt");
    let mut parts = vec![match limits.timeout {
        Some(timeout) => format!("{attempts}, {timeout} each"),
        None => format!("{attempts}, no time limit"),
    }];
    for unit in BudgetUnit::ALL {
        let limit = limits
            .limit_for(unit)
            .map(|limit| unit.format_amount(limit));
        parts.extend(limit.map(|limit| format!("{limit} in total")));
    }
    parts.join(", ")
}

/// Formats what was spent: `$2.00 of $2.50`, or only the amount without a limit.
pub fn format_spent(unit: BudgetUnit, spent: u64, limit: Option<u64>) -> String {
    match limit {
        Some(limit) => format!(
            "{} of {}",
            unit.format_amount(spent),
            unit.format_amount(limit)
        ),
        None => unit.format_amount(spent),
    }
}

/// Formats an agent's run in one line: agent, phase, outcome, isolation, usage.
pub fn describe_run(record: &RunRecord) -> String {
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
        parts.push(format_money(record.cost_micros));
    }
    escape_controls(&parts.join(" · "))
}

/// Formats a count: `1 plan`, `2 plans`.
pub fn pluralize(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        several => format!("{several} {noun}s"),
    }
}

/// Formats a plan's standing in its colour.
pub fn style_standing(standing: PlanStanding) -> String {
    style_text(standing_style(standing), standing.as_str())
}

pub fn standing_style(standing: PlanStanding) -> Style {
    match standing.tone() {
        StandingTone::Good => GOOD,
        StandingTone::Neutral => Style::new(),
        StandingTone::Quiet => DIM,
        StandingTone::Attention => WARN,
        StandingTone::Bad => BAD,
    }
}
