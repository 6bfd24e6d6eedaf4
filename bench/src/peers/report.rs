//! The results as people read them: tables, charts, and their place in `docs/performance.md`.

use std::fmt::Write as _;
use std::path::Path;

use super::contender::CONCURRENCIES;
use super::results::{Idle, Measured, Outcome, Rate, Results};
use super::svg::{self, Mark, Panel, Row, Scale, Tone, exact};

const DOCUMENT: &str = "performance.md";
const BEGIN: &str = "<!-- peers: made by `cargo xtask bench peers`; do not edit -->\n";
const END: &str = "<!-- peers: end -->";
/// A figure of which some runs stayed noisy.
const NOISY: &str = " ~";

/// Everything as Markdown, without charts.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    for (title, table) in sections(results) {
        let _ = writeln!(text, "### {title}\n\n{table}");
    }
    text
}

/// Renders the charts, and the document's section between its two marks.
pub fn render(results: &Results, docs: &Path) -> Result<(), String> {
    let path = docs.join(DOCUMENT);
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    let document = std::fs::read_to_string(&path).map_err(said)?;
    let document = replaced(&document, &section(results)).ok_or(format!(
        "{} has no place for it: the lines `{}` and `{END}` are missing",
        path.display(),
        BEGIN.trim()
    ))?;
    let charts = docs.join("performance");
    std::fs::create_dir_all(&charts).map_err(said)?;
    for (name, chart) in charts_of(results) {
        std::fs::write(charts.join(name), chart).map_err(said)?;
    }
    std::fs::write(&path, document).map_err(said)
}

/// The document with another section between the marks.
fn replaced(document: &str, section: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{section}{END}{after}"))
}

fn section(results: &Results) -> String {
    let machine = &results.machine;
    let versions: Vec<String> = results
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut text = format!(
        "\nMeasured on {}: {}, {} cores, {:.0} GB of memory, {}, {}. A page took {} µs to the disk \
         ({}–{}). {}. Each figure is the median of {} runs, the range in brackets; `~` marks figures of which \
         some runs stayed noisy.\n\n",
        results.date,
        machine.processor,
        machine.cores,
        machine.memory_gb,
        machine.file_system,
        machine.kernel,
        exact(results.fsync_us.median),
        exact(results.fsync_us.least),
        exact(results.fsync_us.most),
        versions.join(", "),
        results.runs,
    );
    for (title, table) in sections(results) {
        let chart = match title {
            THROUGHPUT => "![Lives per second](performance/peers.svg)\n\n",
            LATENCY => "![Milliseconds of a life](performance/latency.svg)\n\n",
            GROWTH => "![Cost among a million plans](performance/growth.svg)\n\n",
            _ => "",
        };
        let _ = writeln!(text, "### {title}\n\n{chart}{table}");
    }
    text
}

const TARGETS: &str = "Targets";
const THROUGHPUT: &str = "Lives per second";
const LATENCY: &str = "How long a life takes";
const IDLE: &str = "From idle to the first step";
const COLD: &str = "A command from nothing";
const GROWTH: &str = "Growth";

fn sections(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        (TARGETS, targets(results)),
        (THROUGHPUT, throughput(results)),
        (LATENCY, latency(results)),
        (IDLE, idle(results)),
        (COLD, cold(results)),
        (GROWTH, growth(results)),
    ]
}

fn throughput(results: &Results) -> String {
    let mut text =
        "| who | version | 1 caller | 32 callers | what a life is |\n| --- | --- | --- | --- | --- |\n"
            .to_owned();
    for one in &results.contenders {
        let cells: Vec<String> = one
            .throughput
            .iter()
            .map(|throughput| match &throughput.rate {
                Outcome::Measured(rate) => {
                    let spread = rate.lives_per_second;
                    let noisy = if rate.noisy_runs > 0 { NOISY } else { "" };
                    let (middle, least, most) = (
                        exact(spread.median),
                        exact(spread.least),
                        exact(spread.most),
                    );
                    format!("**{middle}** ({least}–{most}){noisy}")
                }
                Outcome::Absent(why) => cell(why),
            })
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            one.label,
            one.version,
            cells.join(" | "),
            one.note
        );
    }
    text
}

fn latency(results: &Results) -> String {
    let mut text = "| who, milliseconds | 1: median | 95 % | 99 % | 32: median | 95 % | 99 % |\n\
                    | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for one in &results.contenders {
        let mut cells = Vec::new();
        for concurrency in CONCURRENCIES {
            match one.at(concurrency) {
                Some(Rate { latency_ms, .. }) => {
                    cells.extend([latency_ms.p50, latency_ms.p95, latency_ms.p99].map(exact));
                }
                None => cells.extend(["", "", ""].map(str::to_owned)),
            }
        }
        let _ = writeln!(text, "| {} | {} |", one.label, cells.join(" | "));
    }
    text
}

fn idle(results: &Results) -> String {
    let mut text = "| who, milliseconds | median | 95 % |\n| --- | --- | --- |\n".to_owned();
    for one in results.contenders.iter().filter(|one| one.kind != "limit") {
        match &one.idle {
            Outcome::Measured(Idle { wait_ms, across_ms }) => {
                let row = |label: &str, waits: &super::results::Quantiles| {
                    format!(
                        "| {label} | {} | {} |\n",
                        exact(waits.p50),
                        exact(waits.p95)
                    )
                };
                text += &row(&one.label, wait_ms);
                if let Some(across) = across_ms {
                    text += &row(&format!("{}, asked by another process", one.label), across);
                }
            }
            Outcome::Absent(why) => {
                let _ = writeln!(text, "| {} | {} | |", one.label, cell(why));
            }
        }
    }
    text
}

fn cold(results: &Results) -> String {
    match &results.cold_start {
        Outcome::Absent(why) => format!("{}\n", cell(why)),
        Outcome::Measured(rows) => {
            let mut text = "| what, milliseconds | Planwright | Python with sqlalchemy, pydantic, typer, rich | times |\n\
                            | --- | --- | --- | --- |\n"
                .to_owned();
            for row in rows {
                let (ours, theirs) = (row.planwright_ms, row.python_ms);
                let _ = writeln!(
                    text,
                    "| {} | {} ({}–{}) | {} ({}–{}) | **{}** |",
                    row.what,
                    exact(ours.median),
                    exact(ours.least),
                    exact(ours.most),
                    exact(theirs.median),
                    exact(theirs.least),
                    exact(theirs.most),
                    exact(theirs.median / ours.median)
                );
            }
            text
        }
    }
}

fn growth(results: &Results) -> String {
    match &results.growth {
        Outcome::Absent(why) => format!("{}\n", cell(why)),
        Outcome::Measured(rows) => {
            let mut text =
                "| what | among 1,000,000 plans / among 1,000 |\n| --- | --- |\n".to_owned();
            for row in rows {
                let _ = writeln!(text, "| {} | {:.2} |", row.what, row.ratio);
            }
            text
        }
    }
}

/// What was aimed at, and what became of it.
fn targets(results: &Results) -> String {
    let mut text = "| what | figure | target | |\n| --- | --- | --- | --- |\n".to_owned();
    let mut row = |what: &str, figure: Option<f64>, target: f64, upward: bool| {
        let (figure, verdict) = match figure {
            None => ("not measured".to_owned(), ""),
            Some(figure) => {
                let met = if upward {
                    figure >= target
                } else {
                    figure <= target
                };
                (
                    format!("**{}**", exact(figure)),
                    if met { "met" } else { "missed" },
                )
            }
        };
        let sign = if upward { "≥" } else { "≤" };
        let _ = writeln!(text, "| {what} | {figure} | {sign} {target} | {verdict} |");
    };
    for (concurrency, target) in CONCURRENCIES.into_iter().zip([2.5, 10.0]) {
        let ours = rate_of(results, "planwright-sqlite", concurrency);
        let best = best_peer(results, concurrency);
        let (label, name) = best.map_or(("none", ""), |(peer, _)| (&*peer.label, &*peer.name));
        let mark = mark(results, &["planwright-sqlite", name], concurrency);
        let what = format!("SQLite / best peer ({label}), {concurrency} at once{mark}");
        let figure = ours.zip(best).map(|(ours, (_, best))| ours / best);
        row(&what, figure, target, true);
    }
    for concurrency in CONCURRENCIES {
        let ours = rate_of(results, "planwright-postgres-steps", concurrency);
        let limit = rate_of(results, "pgbench", concurrency);
        let figure = ours.zip(limit).map(|(ours, limit)| ours / limit);
        let mark = mark(
            results,
            &["planwright-postgres-steps", "pgbench"],
            concurrency,
        );
        row(
            &format!("PostgreSQL by steps / pgbench, {concurrency} at once{mark}"),
            figure,
            0.7,
            true,
        );
    }
    match results.cold_start.measured() {
        None => row("Python's command / ours", None, 50.0, true),
        Some(rows) => {
            for one in rows {
                let figure = one.python_ms.median / one.planwright_ms.median;
                let what = format!("Python's command / ours: {}", one.what);
                row(&what, Some(figure), 50.0, true);
            }
        }
    }
    match results.growth.measured() {
        None => row("growth to a million plans", None, 1.5, false),
        Some(rows) => {
            for one in rows {
                let what = format!("growth to a million plans: {}", one.what);
                row(&what, Some(one.ratio), 1.5, false);
            }
        }
    }
    text
}

fn rate_of(results: &Results, name: &str, concurrency: usize) -> Option<f64> {
    let one = results.contenders.iter().find(|one| one.name == name)?;
    Some(one.at(concurrency)?.lives_per_second.median)
}

/// Whether what is compared stayed noisy.
fn mark(results: &Results, names: &[&str], concurrency: usize) -> &'static str {
    let compared = |one: &&Measured| names.contains(&one.name.as_str());
    let mut rates = results.contenders.iter().filter(compared);
    let noisy = |one: &Measured| one.at(concurrency).is_some_and(|rate| rate.noisy_runs > 0);
    if rates.any(noisy) { NOISY } else { "" }
}

fn best_peer(results: &Results, concurrency: usize) -> Option<(&Measured, f64)> {
    results
        .contenders
        .iter()
        .filter(|one| one.kind == "peer")
        .filter_map(|one| Some((one, one.at(concurrency)?.lives_per_second.median)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

fn charts_of(results: &Results) -> [(&'static str, String); 3] {
    let panels = |title: &dyn Fn(usize) -> String, unit, mark: &dyn Fn(&Rate) -> Mark| {
        CONCURRENCIES.map(|concurrency| Panel {
            title: title(concurrency),
            unit,
            scale: Scale::Logarithmic,
            rows: rows_at(results, concurrency, mark),
            target: None,
        })
    };
    let at_once = |concurrency| match concurrency {
        1 => "one caller".to_owned(),
        many => format!("{many} callers"),
    };
    let peers = panels(&at_once, "lives/s", &|rate| Mark::Point {
        at: rate.lives_per_second.median,
        from: rate.lives_per_second.least,
        to: rate.lives_per_second.most,
    });
    let latency = panels(&at_once, "ms", &|rate| Mark::Range {
        from: rate.latency_ms.p5,
        middle: rate.latency_ms.p50,
        to: rate.latency_ms.p95,
        far: rate.latency_ms.p99,
    });
    let growth = Panel {
        title: "a claim, a status, a page of the list; the dashed line is the target".to_owned(),
        unit: "times",
        scale: Scale::Linear,
        rows: results
            .growth
            .measured()
            .into_iter()
            .flatten()
            .map(|row| svg::Row {
                label: row.what.clone(),
                tone: Tone::Own,
                mark: Mark::Bar { to: row.ratio },
            })
            .collect(),
        target: Some(1.5),
    };
    [
        (
            "peers.svg",
            svg::draw("Durable three-phase lives per second (logarithmic)", &peers),
        ),
        (
            "latency.svg",
            svg::draw(
                "Milliseconds of a life: 5 % to 95 %, the median, and 99 % (logarithmic)",
                &latency,
            ),
        ),
        (
            "growth.svg",
            svg::draw(
                "Cost among 1,000,000 plans, in costs among 1,000",
                &[growth],
            ),
        ),
    ]
}

fn rows_at(results: &Results, concurrency: usize, mark: &dyn Fn(&Rate) -> Mark) -> Vec<Row> {
    let mut contenders: Vec<&Measured> = results.contenders.iter().collect();
    let rate = |one: &Measured| {
        one.at(concurrency)
            .map_or(0.0, |rate| rate.lives_per_second.median)
    };
    contenders.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    contenders
        .into_iter()
        .map(|one| Row {
            label: one.label.clone(),
            tone: match one.kind.as_str() {
                "own" => Tone::Own,
                "limit" => Tone::Limit,
                _ => Tone::Peer,
            },
            mark: one.at(concurrency).map_or(Mark::Absent, mark),
        })
        .collect()
}

/// A reason within a table: on one line, without what would end its cell.
fn cell(why: &str) -> String {
    let words: Vec<&str> = why.split_whitespace().collect();
    words
        .join(" ")
        .replace('|', "/")
        .chars()
        .take(160)
        .collect()
}
