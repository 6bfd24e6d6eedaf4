//! `cargo xtask bench peers`: the same work for Planwright, for what its databases can do at most, and
//! for its peers, all in one run on one machine.
//!
//! The work is a durable life of three phases, each started and completed. Rounds go through all
//! contenders, so that a mood of the machine falls on all of them; the disk is probed around each run,
//! and runs during which the machine was noisy are repeated. Nothing is estimated: what could not be
//! measured is reported with the reason.

mod child;
mod cold;
mod contender;
mod machine;
mod probe;
mod report;
mod results;
mod run;
mod server;
mod setup;
mod svg;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use contender::{CONTENDERS, Contender, Driver, Kind};
use results::{Growth, Measured, Results, Spread};
use run::Bench;

/// What can be measured besides contenders.
const PARTS: [&str; 2] = ["cold-start", "growth"];
/// A million plans take their time.
const GROWTH_LIMIT: Duration = Duration::from_secs(3600);

/// What to measure.
struct Options {
    only: Vec<String>,
    runs: usize,
}

/// Measures, prints the tables, and after a whole run keeps the results and renders the document.
pub fn measure(words: &[&str]) -> Result<(), String> {
    let options = Options::read(words)?;
    let target = std::env::current_dir().map_err(|error| error.to_string())?;
    let installed = target.join("peers");
    let mut bench = Bench::prepare(&installed, options.runs)?;
    let chosen: Vec<&Contender> = CONTENDERS
        .iter()
        .filter(|contender| options.wants(contender.name))
        .collect();
    let contenders = bench.contenders(&chosen)?;
    let unwanted = "not asked for".to_owned();
    let cold_start = if options.wants("cold-start") {
        eprintln!("cold start");
        bench.in_directory(|directory| cold::measure(&installed, directory))
    } else {
        Err(unwanted.clone())
    };
    let growth = if options.wants("growth") {
        eprintln!("growth: a million plans, some minutes");
        growth(&target)
    } else {
        Err(unwanted)
    };
    let results = Results {
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        machine: machine::describe(&target),
        runs: options.runs,
        versions: versions(&bench),
        fsync_us: Spread::of(&bench.probes),
        contenders,
        cold_start: cold_start.into(),
        growth: growth.into(),
    };
    println!("{}", report::tables(&results));
    if options.only.is_empty() {
        results::save(&results)?;
        render()?;
    } else {
        eprintln!("not kept: only a whole run is");
    }
    Ok(())
}

/// Renders the document and its charts from the results that are kept.
pub fn render() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    report::render(&results::load()?, &root.join("docs"))
}

impl Options {
    fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            only: Vec::new(),
            runs: 5,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            let value = words.next().ok_or(format!("{flag} needs a value"))?;
            match *flag {
                "--only" => options.only.push(known(value)?),
                "--runs" => {
                    options.runs = value.parse().ok().filter(|runs| *runs > 0).ok_or(format!(
                        "--runs needs a number from 1 on, and got `{value}`"
                    ))?;
                }
                _ => return Err(format!("there is no flag {flag}")),
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn known(name: &str) -> Result<String, String> {
    let names: Vec<&str> = CONTENDERS
        .iter()
        .map(|contender| contender.name)
        .chain(PARTS)
        .collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "there is no `{name}` to measure; there are {}",
        names.join(", ")
    ))
}

/// What this program's own `store size` says about growth.
fn growth(target: &Path) -> Result<Vec<Growth>, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.current_dir(target).args(["store", "size"]);
    let said = child::output(&mut command, GROWTH_LIMIT)?;
    let rows: Vec<Growth> = said.lines().filter_map(growth_row).collect();
    if rows.is_empty() {
        return Err("`store size` said nothing about growth".to_owned());
    }
    Ok(rows)
}

/// `| claim, 1,000,000 plans / 1,000 plans | **1.09** (1.0–1.2) | ≤ 1.5 |`.
fn growth_row(line: &str) -> Option<Growth> {
    let mut cells = line.split('|').skip(1);
    let what = cells
        .next()?
        .trim()
        .strip_suffix(", 1,000,000 plans / 1,000 plans")?;
    let ratio = cells.next()?.split("**").nth(1)?.parse().ok()?;
    Some(Growth {
        what: what.to_owned(),
        ratio,
    })
}

fn versions(bench: &Bench) -> BTreeMap<String, String> {
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
        if let Some(version) = machine::version(program) {
            versions.insert(label.to_owned(), version);
        }
    }
    versions
}

impl Contender {
    fn measured(&self, version: String, outcome: run::Figures) -> Measured {
        Measured {
            name: self.name.to_owned(),
            label: self.label.to_owned(),
            kind: match self.kind {
                Kind::Own => "own",
                Kind::Limit => "limit",
                Kind::Peer => "peer",
            }
            .to_owned(),
            version,
            note: self.note.to_owned(),
            throughput: outcome.throughput,
            idle: outcome.idle,
        }
    }

    /// The version that is measured.
    fn version(&self, server: Option<&str>) -> String {
        let version = match self.driver {
            Driver::Python { directory, package } | Driver::Node { directory, package } => {
                setup::pinned_version(directory, package)
            }
            Driver::Own if self.kind == Kind::Own => Some(env!("CARGO_PKG_VERSION").to_owned()),
            Driver::Own if self.name == "pgbench" => server.map(str::to_owned),
            Driver::Own => Some(rusqlite::version().to_owned()),
        };
        version.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_flags_are_said() {
        let said = |words: &[&str]| Options::read(words).err().unwrap_or_default();
        assert!(said(&["--only", "nobody"]).contains("there are planwright-sqlite"));
        assert!(said(&["--runs", "0"]).contains("from 1 on"));
        assert!(said(&["--runs"]).contains("needs a value"));
        assert!(said(&["--fast", "yes"]).contains("no flag --fast"));
        assert_eq!(said(&["--only", "growth", "--runs", "2"]), "");
    }

    #[test]
    fn growth_is_read_from_the_table() {
        let row = growth_row("| claim, 1,000,000 plans / 1,000 plans | **1.09** (1–2) | ≤ 1.5 |");
        let claim = Growth {
            what: "claim".to_owned(),
            ratio: 1.09,
        };
        assert_eq!(row, Some(claim));
        assert_eq!(
            growth_row("| memory, 1,000 → 1,000,000 plans | 15 MB | flat |"),
            None
        );
    }
}
