//! `cargo xtask bench peers`: the same work for Planwright, for the bare databases, and for other engines, all in one run
//! on one machine.
//!
//! The work is a durable workflow of three phases, each started and completed. Noise is measured around each run, and
//! noisy runs are repeated. Nothing is estimated: a value that could not be measured is reported with the reason.

mod charts;
mod child;
mod cold_start;
mod driver_install;
mod durable_postgres;
mod machine_info;
mod noise;
mod report;
mod results;
mod rounds;
mod systems;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use results::{BenchResults, GrowthRatio, ValueSpread};
use rounds::PeerBench;
use systems::{SYSTEMS, SystemUnderTest};

/// What `--only` accepts besides the names of systems.
const EXTRA_PARTS: [&str; 2] = ["cold-start", "growth"];
/// Creating a million plans takes several minutes.
const GROWTH_TIMEOUT: Duration = Duration::from_secs(3600);

struct PeersOptions {
    only: Vec<String>,
    runs: usize,
}

/// Measures and prints the tables. A complete run also saves the results and renders the report.
pub fn measure_peers(flags: &[&str]) -> Result<(), String> {
    let options = PeersOptions::parse_flags(flags)?;
    let target = std::env::current_dir().map_err(|error| error.to_string())?;
    let installed = target.join("peers");
    let mut bench = PeerBench::prepare(&installed, options.runs)?;
    let selected: Vec<&SystemUnderTest> = SYSTEMS
        .iter()
        .filter(|system| options.includes(system.name))
        .collect();
    let systems = bench.measure_systems(&selected)?;
    let not_selected = "not selected".to_owned();
    let cold_start = if options.includes("cold-start") {
        eprintln!("cold start");
        bench.run_in_directory(|directory| cold_start::measure_cold_start(&installed, directory))
    } else {
        Err(not_selected.clone())
    };
    let growth = if options.includes("growth") {
        eprintln!("growth: creating a million plans, which takes some minutes");
        measure_growth(&target)
    } else {
        Err(not_selected)
    };
    let results = BenchResults {
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: machine_info::read_machine_info(&target),
        runs: options.runs,
        versions: read_versions(&bench),
        fsync_us: ValueSpread::of(&bench.fsync_samples),
        systems,
        cold_start: cold_start.into(),
        growth: growth.into(),
    };
    println!("{}", report::format_tables(&results));
    if options.only.is_empty() {
        results::save_results(&results)?;
        render_report()?;
    } else {
        eprintln!("results not saved: a run with --only is incomplete");
    }
    Ok(())
}

/// Renders the report and its charts from the saved results.
pub fn render_report() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    report::render_document(&results::load_results()?, &root.join("docs"))
}

impl PeersOptions {
    fn parse_flags(flags: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            only: Vec::new(),
            runs: 5,
        };
        let mut flags = flags.iter();
        while let Some(flag) = flags.next() {
            let value = flags.next().ok_or(format!("{flag} needs a value"))?;
            match *flag {
                "--only" => options.only.push(parse_part(value)?),
                "--runs" => {
                    let runs = value.parse().ok().filter(|runs| *runs > 0);
                    options.runs = runs.ok_or(format!(
                        "--runs needs a number of at least 1, got `{value}`"
                    ))?;
                }
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        Ok(options)
    }

    fn includes(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

fn parse_part(name: &str) -> Result<String, String> {
    let names: Vec<&str> = SYSTEMS
        .iter()
        .map(|system| system.name)
        .chain(EXTRA_PARTS)
        .collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "unknown system `{name}`; choose from {}",
        names.join(", ")
    ))
}

/// Runs `planwright-bench store size` in its own process, whose memory it measures.
fn measure_growth(target: &Path) -> Result<Vec<GrowthRatio>, String> {
    let own_program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own_program);
    command.current_dir(target).args(["store", "size"]);
    let output = child::run_with_timeout(&mut command, GROWTH_TIMEOUT)?;
    let rows: Vec<GrowthRatio> = output.lines().filter_map(parse_growth_row).collect();
    if rows.is_empty() {
        return Err("`store size` printed no growth ratios".to_owned());
    }
    Ok(rows)
}

/// Parses `| claim, 1,000,000 plans / 1,000 plans | **1.09** (1.0–1.2) | ≤ 1.5 |`.
fn parse_growth_row(line: &str) -> Option<GrowthRatio> {
    let mut cells = line.split('|').skip(1);
    let operation = cells
        .next()?
        .trim()
        .strip_suffix(", 1,000,000 plans / 1,000 plans")?;
    let ratio = cells.next()?.split("**").nth(1)?.parse().ok()?;
    Some(GrowthRatio {
        operation: operation.to_owned(),
        ratio,
    })
}

fn read_versions(bench: &PeerBench) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::from([
        (
            "Planwright".to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
        ("SQLite".to_owned(), rusqlite::version().to_owned()),
    ]);
    if let Ok(server) = &bench.server {
        versions.insert("PostgreSQL".to_owned(), server.version.clone());
    }
    for (label, program) in [("Node.js", "node"), ("Python", "python3")] {
        if let Some(version) = machine_info::read_program_version(program) {
            versions.insert(label.to_owned(), version);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_flags_are_reported() {
        let error = |flags: &[&str]| PeersOptions::parse_flags(flags).err().unwrap_or_default();
        assert!(error(&["--only", "nobody"]).contains("choose from planwright-sqlite"));
        assert!(error(&["--runs", "0"]).contains("at least 1"));
        assert!(error(&["--runs"]).contains("needs a value"));
        assert!(error(&["--fast", "yes"]).contains("unknown flag --fast"));
        assert_eq!(error(&["--only", "growth", "--runs", "2"]), "");
    }

    #[test]
    fn growth_is_parsed_from_the_table() {
        let row =
            parse_growth_row("| claim, 1,000,000 plans / 1,000 plans | **1.09** (1–2) | ≤ 1.5 |");
        let claim = GrowthRatio {
            operation: "claim".to_owned(),
            ratio: 1.09,
        };
        assert_eq!(row, Some(claim));
        assert_eq!(
            parse_growth_row("| memory, 1,000 → 1,000,000 plans | 15 MB | flat |"),
            None
        );
    }
}
