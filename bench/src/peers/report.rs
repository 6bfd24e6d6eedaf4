//! Renders the results as tables and charts, into a section of `docs/performance.md`.

use std::fmt::Write as _;
use std::path::Path;

use super::charts::{AxisScale, ChartMark, ChartPanel, ChartRow, draw_chart};
use super::results::{
    BenchResults, IdleLatency, LatencyQuantiles, Measurement, SystemResult, ValueSpread,
    WorkflowRate,
};
use super::systems::{CONCURRENCIES, SystemKind};
use crate::statistics::format_number;

const DOCUMENT: &str = "performance.md";
const SECTION_BEGIN: &str = "<!-- peers: made by `cargo xtask bench peers`; do not edit -->\n";
const SECTION_END: &str = "<!-- peers: end -->";
/// Marks numbers for which some runs stayed noisy.
const NOISY_MARK: &str = " ~";
const MAX_REASON_LENGTH: usize = 160;

const TARGETS_TITLE: &str = "Targets";
const THROUGHPUT_TITLE: &str = "Workflows per second";
const LATENCY_TITLE: &str = "Latency of a workflow";
const IDLE_TITLE: &str = "From idle to the first step";
const COLD_START_TITLE: &str = "Cold start of a command";
const GROWTH_TITLE: &str = "Growth";

/// The tables as Markdown, without charts.
pub fn format_tables(results: &BenchResults) -> String {
    let mut text = String::new();
    for (title, table) in make_tables(results) {
        let _ = writeln!(text, "### {title}\n\n{table}");
    }
    text
}

/// Writes the charts, and replaces the section between the two marks in the document.
pub fn render_document(results: &BenchResults, docs: &Path) -> Result<(), String> {
    let path = docs.join(DOCUMENT);
    let describe = |error: std::io::Error| format!("{}: {error}", path.display());
    let document = std::fs::read_to_string(&path).map_err(describe)?;
    let document = replace_section(&document, &format_section(results)).ok_or(format!(
        "{} needs the lines `{}` and `{SECTION_END}`",
        path.display(),
        SECTION_BEGIN.trim()
    ))?;
    let charts = docs.join("performance");
    std::fs::create_dir_all(&charts).map_err(describe)?;
    for (name, title, panels) in make_charts(results) {
        let svg = draw_chart(title, &panels).map_err(|error| format!("{name}: {error}"))?;
        std::fs::write(charts.join(name), svg).map_err(describe)?;
    }
    std::fs::write(&path, document).map_err(describe)
}

fn replace_section(document: &str, section: &str) -> Option<String> {
    let (before, rest) = document.split_once(SECTION_BEGIN)?;
    let (_, after) = rest.split_once(SECTION_END)?;
    Some(format!(
        "{before}{SECTION_BEGIN}{section}{SECTION_END}{after}"
    ))
}

fn format_section(results: &BenchResults) -> String {
    let machine = &results.machine;
    let versions: Vec<String> = results
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut text = format!(
        "\nMeasured on {}: {}, {} cores, {:.0} GB of memory, {}, {}. Writing and syncing a page took {} µs ({}). {}. \
         Each number is the median of {} runs, with the range in brackets; `~` marks numbers for which some runs stayed \
         noisy.\n\n",
        results.date,
        machine.processor,
        machine.cores,
        machine.memory_gb,
        machine.file_system,
        machine.kernel,
        format_number(results.fsync_us.median),
        format_range(results.fsync_us),
        versions.join(", "),
        results.runs,
    );
    for (title, table) in make_tables(results) {
        let chart = match title {
            THROUGHPUT_TITLE => "![Workflows per second](performance/peers.svg)\n\n",
            LATENCY_TITLE => "![Latency of a workflow](performance/latency.svg)\n\n",
            GROWTH_TITLE => "![Cost with a million plans](performance/growth.svg)\n\n",
            _ => "",
        };
        let _ = writeln!(text, "### {title}\n\n{chart}{table}");
    }
    text
}

fn make_tables(results: &BenchResults) -> Vec<(&'static str, String)> {
    vec![
        (TARGETS_TITLE, format_targets(results)),
        (THROUGHPUT_TITLE, format_throughput(results)),
        (LATENCY_TITLE, format_latency(results)),
        (IDLE_TITLE, format_idle(results)),
        (COLD_START_TITLE, format_cold_start(results)),
        (GROWTH_TITLE, format_growth(results)),
    ]
}

fn format_header(columns: &[&str]) -> String {
    let rule = vec!["---"; columns.len()];
    format!("| {} |\n| {} |\n", columns.join(" | "), rule.join(" | "))
}

fn format_range(spread: ValueSpread) -> String {
    format!(
        "{}–{}",
        format_number(spread.min),
        format_number(spread.max)
    )
}

fn format_throughput(results: &BenchResults) -> String {
    let mut text = format_header(&[
        "system",
        "version",
        "1 caller",
        "32 callers",
        "what a workflow is",
    ]);
    for system in &results.systems {
        let cells: Vec<String> = system
            .throughput
            .iter()
            .map(|throughput| match &throughput.rate {
                Measurement::Measured(rate) => {
                    let spread = rate.workflows_per_second;
                    let mark = if rate.noisy_runs > 0 { NOISY_MARK } else { "" };
                    let median = format_number(spread.median);
                    format!("**{median}** ({}){mark}", format_range(spread))
                }
                Measurement::NotMeasured(reason) => format_reason(reason),
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            system.label,
            system.version,
            cells.join(" | "),
            system.note
        );
    }
    text
}

fn format_latency(results: &BenchResults) -> String {
    let mut text = format_header(&[
        "system, milliseconds",
        "1 caller: median",
        "95 %",
        "99 %",
        "32 callers: median",
        "95 %",
        "99 %",
    ]);
    for system in &results.systems {
        let mut cells = Vec::new();
        for concurrency in CONCURRENCIES {
            match system.rate_at(concurrency) {
                Some(WorkflowRate { latency_ms, .. }) => cells
                    .extend([latency_ms.p50, latency_ms.p95, latency_ms.p99].map(format_number)),
                None => cells.extend(["", "", ""].map(str::to_owned)),
            }
        }
        let _ = writeln!(text, "| {} | {} |", system.label, cells.join(" | "));
    }
    text
}

fn format_idle(results: &BenchResults) -> String {
    let mut text = format_header(&["system, milliseconds", "median", "95 %"]);
    let has_idle_state = |system: &&SystemResult| system.kind != SystemKind::Baseline;
    for system in results.systems.iter().filter(has_idle_state) {
        let label = &system.label;
        match &system.idle {
            Measurement::Measured(IdleLatency {
                wait_ms,
                cross_process_ms,
            }) => {
                let mut write_row = |label: &str, waits: &LatencyQuantiles| {
                    let (median, p95) = (format_number(waits.p50), format_number(waits.p95));
                    let _ = writeln!(text, "| {label} | {median} | {p95} |");
                };
                write_row(label, wait_ms);
                if let Some(waits) = cross_process_ms {
                    write_row(&format!("{label}, requested by another process"), waits);
                }
            }
            Measurement::NotMeasured(reason) => {
                let _ = writeln!(text, "| {label} | {} | |", format_reason(reason));
            }
        }
    }
    text
}

fn format_cold_start(results: &BenchResults) -> String {
    let rows = match &results.cold_start {
        Measurement::NotMeasured(reason) => return format!("{}\n", format_reason(reason)),
        Measurement::Measured(rows) => rows,
    };
    let mut text = format_header(&[
        "command, milliseconds",
        "Planwright",
        "Python with sqlalchemy, pydantic, typer, rich",
        "ratio",
    ]);
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} ({}) | {} ({}) | **{}** |",
            row.command,
            format_number(row.planwright_ms.median),
            format_range(row.planwright_ms),
            format_number(row.python_ms.median),
            format_range(row.python_ms),
            format_number(row.python_ms.median / row.planwright_ms.median)
        );
    }
    text
}

fn format_growth(results: &BenchResults) -> String {
    let rows = match &results.growth {
        Measurement::NotMeasured(reason) => return format!("{}\n", format_reason(reason)),
        Measurement::Measured(rows) => rows,
    };
    let mut text = format_header(&["operation", "with 1,000,000 plans / with 1,000"]);
    for row in rows {
        let _ = writeln!(text, "| {} | {:.2} |", row.operation, row.ratio);
    }
    text
}

fn format_targets(results: &BenchResults) -> String {
    let mut text = format_header(&["what", "figure", "target", ""]);
    let mut write_row = |what: &str, figure: Option<f64>, target: f64, is_minimum: bool| {
        let (figure, verdict) = match figure {
            None => ("not measured".to_owned(), ""),
            Some(figure) => {
                let met = if is_minimum {
                    figure >= target
                } else {
                    figure <= target
                };
                (
                    format!("**{}**", format_number(figure)),
                    if met { "met" } else { "missed" },
                )
            }
        };
        let sign = if is_minimum { "≥" } else { "≤" };
        let _ = writeln!(text, "| {what} | {figure} | {sign} {target} | {verdict} |");
    };
    for (concurrency, target) in CONCURRENCIES.into_iter().zip([2.5, 10.0]) {
        let own_rate = find_rate(results, "planwright-sqlite", concurrency);
        let best = find_best_peer(results, concurrency);
        let (label, name) = best.map_or(("none", ""), |(peer, _)| (&*peer.label, &*peer.name));
        let mark = noise_mark(results, &["planwright-sqlite", name], concurrency);
        let callers = format_callers(concurrency);
        let what = format!("SQLite / best peer ({label}), {callers}{mark}");
        let ratio = own_rate.zip(best).map(|(own, (_, best))| own / best);
        write_row(&what, ratio, target, true);
    }
    for concurrency in CONCURRENCIES {
        let compared = ["planwright-postgres-steps", "pgbench"];
        let [own_rate, baseline] = compared.map(|name| find_rate(results, name, concurrency));
        let mark = noise_mark(results, &compared, concurrency);
        let callers = format_callers(concurrency);
        let what = format!("PostgreSQL by steps / pgbench, {callers}{mark}");
        let ratio = own_rate.zip(baseline).map(|(own, baseline)| own / baseline);
        write_row(&what, ratio, 0.7, true);
    }
    match results.cold_start.value() {
        None => write_row("cold start, Python / Planwright", None, 50.0, true),
        Some(rows) => {
            for row in rows {
                let ratio = row.python_ms.median / row.planwright_ms.median;
                let what = format!("cold start, Python / Planwright: {}", row.command);
                write_row(&what, Some(ratio), 50.0, true);
            }
        }
    }
    match results.growth.value() {
        None => write_row("growth to a million plans", None, 1.5, false),
        Some(rows) => {
            for row in rows {
                let what = format!("growth to a million plans: {}", row.operation);
                write_row(&what, Some(row.ratio), 1.5, false);
            }
        }
    }
    text
}

fn format_callers(concurrency: usize) -> String {
    match concurrency {
        1 => "1 caller".to_owned(),
        many => format!("{many} callers"),
    }
}

fn find_rate(results: &BenchResults, name: &str, concurrency: usize) -> Option<f64> {
    let system = results.systems.iter().find(|system| system.name == name)?;
    Some(system.rate_at(concurrency)?.workflows_per_second.median)
}

/// The mark if one of these systems had noisy runs.
fn noise_mark(results: &BenchResults, names: &[&str], concurrency: usize) -> &'static str {
    let is_noisy = |system: &SystemResult| {
        names.contains(&&*system.name)
            && system
                .rate_at(concurrency)
                .is_some_and(|rate| rate.noisy_runs > 0)
    };
    if results.systems.iter().any(is_noisy) {
        NOISY_MARK
    } else {
        ""
    }
}

fn find_best_peer(results: &BenchResults, concurrency: usize) -> Option<(&SystemResult, f64)> {
    results
        .systems
        .iter()
        .filter(|system| system.kind == SystemKind::Peer)
        .filter_map(|system| {
            let rate = system.rate_at(concurrency)?;
            Some((system, rate.workflows_per_second.median))
        })
        .max_by(|(_, first), (_, second)| first.total_cmp(second))
}

/// The charts' file names, titles and panels.
fn make_charts(results: &BenchResults) -> [(&'static str, &'static str, Vec<ChartPanel>); 3] {
    let make_panels = |unit, make_mark: &dyn Fn(&WorkflowRate) -> ChartMark| {
        let make_panel = |concurrency| ChartPanel {
            title: format_callers(concurrency),
            unit,
            scale: AxisScale::Logarithmic,
            rows: make_rows(results, concurrency, make_mark),
            target: None,
        };
        CONCURRENCIES.map(make_panel).into()
    };
    let throughput = make_panels("workflows/s", &|rate| ChartMark::Dot {
        value: rate.workflows_per_second.median,
        min: rate.workflows_per_second.min,
        max: rate.workflows_per_second.max,
    });
    let latency = make_panels("ms", &|rate| ChartMark::Range {
        low: rate.latency_ms.p5,
        median: rate.latency_ms.p50,
        high: rate.latency_ms.p95,
        extreme: rate.latency_ms.p99,
    });
    let growth = ChartPanel {
        title: "claim, status and list page; the dashed line is the target".to_owned(),
        unit: "ratio",
        scale: AxisScale::Linear,
        rows: results
            .growth
            .value()
            .into_iter()
            .flatten()
            .map(|row| ChartRow {
                label: row.operation.clone(),
                kind: SystemKind::Planwright,
                mark: Some(ChartMark::Bar { value: row.ratio }),
            })
            .collect(),
        target: Some(1.5),
    };
    [
        (
            "peers.svg",
            "Durable three-phase workflows per second (logarithmic)",
            throughput,
        ),
        (
            "latency.svg",
            "Milliseconds per workflow: 5 % to 95 %, the median, and 99 % (logarithmic)",
            latency,
        ),
        (
            "growth.svg",
            "Cost with 1,000,000 plans, divided by the cost with 1,000",
            vec![growth],
        ),
    ]
}

/// One row per system, fastest first.
fn make_rows(
    results: &BenchResults,
    concurrency: usize,
    make_mark: &dyn Fn(&WorkflowRate) -> ChartMark,
) -> Vec<ChartRow> {
    let mut systems: Vec<&SystemResult> = results.systems.iter().collect();
    let rate = |system: &SystemResult| {
        system
            .rate_at(concurrency)
            .map_or(0.0, |rate| rate.workflows_per_second.median)
    };
    systems.sort_by(|first, second| rate(second).total_cmp(&rate(first)));
    systems
        .into_iter()
        .map(|system| ChartRow {
            label: system.label.clone(),
            kind: system.kind,
            mark: system.rate_at(concurrency).map(make_mark),
        })
        .collect()
}

/// Fits a reason into a table cell: one line, no `|`, limited length.
fn format_reason(reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    words
        .join(" ")
        .replace('|', "/")
        .chars()
        .take(MAX_REASON_LENGTH)
        .collect()
}
