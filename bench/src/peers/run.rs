//! The rounds: who runs when, and which runs count.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::contender::{CONCURRENCIES, Contender, Database, Kind};
use super::results::{Idle, Measured, Outcome, Quantiles, Rate, Spread, Throughput};
use super::server::Server;
use super::{child, probe, setup};
use crate::rounds::median;

/// The longest that a run may take.
const LIMIT: Duration = Duration::from_secs(300);
/// A disk slower than its best by this factor is noisy.
const SLOW: f64 = 2.0;
/// Processors busier than this, with nothing of ours running, are noisy.
const BUSY: f64 = 0.25;
/// How often the noisy runs of one figure are repeated, and never oftener than it has runs.
const REPEATS: usize = 3;
/// How long a run waits for the machine to become quiet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Looks at the machine before anything runs.
const FIRST_LOOKS: usize = 5;
/// How long lives are begun in a run.
const SECONDS: usize = 4;
/// Lives that are not measured: connections are opened, statements prepared, code compiled.
const WARMUP: usize = 50;
/// Starts of an idle contender.
const IDLE: usize = 40;

/// What is needed to run contenders.
pub struct Bench {
    installed: PathBuf,
    data: PathBuf,
    runs: usize,
    number: usize,
    pub server: Result<Server, String>,
    /// Every probe of the disk so far.
    pub probes: Vec<f64>,
}

/// What came of one contender.
pub struct Figures {
    pub throughput: Vec<Throughput>,
    pub idle: Outcome<Idle>,
}

/// One run that went well.
struct Run {
    rate: f64,
    latencies: Vec<f64>,
    noisy: bool,
}

/// What a driver prints.
#[derive(Deserialize)]
struct Lived {
    lives: usize,
    seconds: f64,
    latencies_ms: Vec<f64>,
}

#[derive(Deserialize)]
struct Waited {
    idle_ms: Vec<f64>,
    idle_across_ms: Option<Vec<f64>>,
}

/// The runs of one contender at one concurrency.
struct Cell<'a> {
    contender: &'a Contender,
    concurrency: usize,
    runs: Vec<Run>,
    /// Why there will be no more.
    failed: Option<String>,
}

impl Bench {
    /// Copies the drivers, finds the server and looks at the machine.
    pub fn prepare(installed: &Path, runs: usize) -> Result<Self, String> {
        setup::copy_drivers(installed)?;
        let data = installed.join("data");
        // What an interrupted run left behind.
        let _ = fs::remove_dir_all(&data);
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let server = Server::find();
        if let Err(why) = &server {
            eprintln!("{why}");
        }
        let mut bench = Self {
            installed: installed.to_owned(),
            data,
            runs,
            number: 0,
            server,
            probes: Vec::new(),
        };
        let looks = (0..FIRST_LOOKS).map(|_| bench.look());
        let busy = looks.collect::<Result<Vec<_>, _>>()?;
        let busy = median(busy.iter().map(|moment| moment.busy).collect());
        eprintln!(
            "a page is on the disk after {:.0} µs (best of {FIRST_LOOKS} probes)",
            bench.best()
        );
        if busy > BUSY {
            eprintln!(
                "the machine is busy: others take {:.0} % of its processors. Noisy runs are repeated, and \
                 marked if they stay so; better run this on a quiet machine",
                busy * 100.0
            );
        }
        Ok(bench)
    }

    /// Everything about these contenders.
    pub fn contenders(&mut self, chosen: &[&Contender]) -> Result<Vec<Measured>, String> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for contender in chosen {
            let ready = self.ready(contender);
            if let Err(why) = &ready {
                eprintln!("{}: {why}", contender.name);
            }
            for concurrency in CONCURRENCIES {
                cells.push(Cell {
                    contender,
                    concurrency,
                    runs: Vec::new(),
                    failed: ready.clone().err(),
                });
            }
        }
        for round in 1..=self.runs {
            for cell in &mut cells {
                self.run(cell, &format!("round {round} of {}", self.runs))?;
            }
        }
        for repeat in 1..=REPEATS.min(self.runs) {
            for cell in &mut cells {
                if cell.quiet_runs() < self.runs {
                    self.run(cell, &format!("repeat {repeat}"))?;
                }
            }
        }
        let server = self
            .server
            .as_ref()
            .ok()
            .map(|server| server.version.clone());
        let mut measured = Vec::new();
        for contender in chosen {
            let throughput: Vec<Throughput> = cells
                .iter()
                .filter(|cell| cell.contender.name == contender.name)
                .map(|cell| Throughput {
                    concurrency: cell.concurrency,
                    rate: cell.rate(self.runs).into(),
                })
                .collect();
            let failed = throughput.iter().find_map(|one| match &one.rate {
                Outcome::Absent(why) => Some(why.clone()),
                Outcome::Measured(_) => None,
            });
            let idle = match failed {
                Some(why) => Err(why),
                None => self.idle(contender),
            };
            let figures = Figures {
                throughput,
                idle: idle.into(),
            };
            measured.push(contender.measured(contender.version(server.as_deref()), figures));
        }
        Ok(measured)
    }

    /// Does this in an empty directory on the disk that is measured.
    pub fn in_directory<T>(
        &mut self,
        work: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<T, String> {
        self.number += 1;
        let directory = self.data.join(self.number.to_string());
        fs::create_dir_all(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let done = work(&directory);
        let _ = fs::remove_dir_all(&directory);
        done
    }

    /// Installs what it needs and looks for the database it needs.
    fn ready(&self, contender: &Contender) -> Result<(), String> {
        if let (Database::Postgres, Err(why)) = (contender.database, &self.server) {
            return Err(why.clone());
        }
        let Some(directory) = contender.directory() else {
            return Ok(());
        };
        eprintln!("{}: setting it up", contender.name);
        setup::install(&self.installed.join(directory))
    }

    fn look(&mut self) -> Result<probe::Moment, String> {
        let moment = probe::look(&self.data)?;
        self.probes.push(moment.fsync_us);
        Ok(moment)
    }

    /// Looks until it likes what it sees, or has waited long enough.
    fn look_until_quiet(&mut self) -> Result<probe::Moment, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let moment = self.look()?;
            if !self.is_noisy(moment) || Instant::now() > deadline {
                return Ok(moment);
            }
        }
    }

    fn is_noisy(&self, moment: probe::Moment) -> bool {
        moment.fsync_us > SLOW * self.best() || moment.busy > BUSY
    }

    fn best(&self) -> f64 {
        self.probes.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// One run, unless an earlier one failed. Fails itself only if the disk does.
    fn run(&mut self, cell: &mut Cell<'_>, when: &str) -> Result<(), String> {
        if cell.failed.is_some() {
            return Ok(());
        }
        let before = self.look_until_quiet()?;
        let flags = [
            ("--seconds", SECONDS),
            ("--concurrency", cell.concurrency),
            ("--warmup", WARMUP),
        ];
        let lived = self.drive::<Lived>(cell.contender, &flags);
        let after = self.look()?;
        let slowest = before.fsync_us.max(after.fsync_us);
        let noisy = self.is_noisy(before) || self.is_noisy(after);
        let who = format!(
            "{when}: {}, {} at once",
            cell.contender.name, cell.concurrency
        );
        match lived.and_then(Lived::checked) {
            Ok(lived) => {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let rate = lived.lives as f64 / lived.seconds;
                let mark = if noisy { ", noisy" } else { "" };
                eprintln!("{who}: {rate:.0} lives/s (disk {slowest:.0} µs{mark})");
                cell.runs.push(Run {
                    rate,
                    latencies: lived.latencies_ms,
                    noisy,
                });
            }
            Err(why) => {
                eprintln!("{who}: failed: {why}");
                cell.failed = Some(format!("failed: {why}"));
            }
        }
        Ok(())
    }

    fn idle(&mut self, contender: &Contender) -> Result<Idle, String> {
        if contender.kind == Kind::Limit {
            return Err("nobody waits for anything".to_owned());
        }
        eprintln!("idle: {}", contender.name);
        let flags = [("--idle", IDLE), ("--concurrency", 1), ("--warmup", WARMUP)];
        let waited = self.drive::<Waited>(contender, &flags)?;
        let some = |waits: &[f64]| match waits {
            [] => Err("it started nothing".to_owned()),
            waits => Ok(Quantiles::of(waits)),
        };
        Ok(Idle {
            wait_ms: some(&waited.idle_ms)?,
            across_ms: waited.idle_across_ms.as_deref().map(some).transpose()?,
        })
    }

    /// Runs its driver in an empty directory, on an empty database, and reads the line it prints.
    fn drive<T: serde::de::DeserializeOwned>(
        &mut self,
        contender: &Contender,
        flags: &[(&str, usize)],
    ) -> Result<T, String> {
        let mut command = contender.command(&self.installed)?;
        for (flag, value) in flags {
            command.arg(flag).arg(value.to_string());
        }
        let database = format!("bench_{}", self.number);
        if let (Database::Postgres, Ok(server)) = (contender.database, &self.server) {
            command.arg("--postgres").arg(server.create(&database)?);
        }
        let printed = self.in_directory(|directory| {
            command.arg("--directory").arg(directory);
            child::output(&mut command, LIMIT)
        });
        if let (Database::Postgres, Ok(server)) = (contender.database, &self.server) {
            server.remove(&database)?;
        }
        let printed = printed?;
        let line = printed.lines().last().unwrap_or_default();
        serde_json::from_str(line).map_err(|error| format!("it printed no figures: {error}"))
    }
}

impl Lived {
    /// What says nothing is not a figure.
    fn checked(self) -> Result<Self, String> {
        if self.lives == 0 || self.lives != self.latencies_ms.len() || self.seconds <= 0.0 {
            return Err("its figures do not add up".to_owned());
        }
        Ok(self)
    }
}

impl Cell<'_> {
    fn quiet_runs(&self) -> usize {
        self.runs.iter().filter(|run| !run.noisy).count()
    }

    /// The figure of so many runs, the quiet ones first. One failure is enough for there to be none.
    fn rate(&self, runs: usize) -> Result<Rate, String> {
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        let mut counted: Vec<&Run> = self.runs.iter().collect();
        counted.sort_by_key(|run| run.noisy);
        counted.truncate(runs);
        let rates: Vec<f64> = counted.iter().map(|run| run.rate).collect();
        let latencies: Vec<f64> = counted
            .iter()
            .flat_map(|run| run.latencies.iter().copied())
            .collect();
        if rates.is_empty() {
            return Err("it was not run".to_owned());
        }
        Ok(Rate {
            lives_per_second: Spread::of(&rates),
            noisy_runs: counted.iter().filter(|run| run.noisy).count(),
            latency_ms: Quantiles::of(&latencies),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender::CONTENDERS;
    use super::*;

    fn cell(runs: &[(f64, bool)], failed: Option<&str>) -> Cell<'static> {
        Cell {
            contender: &CONTENDERS[0],
            concurrency: 1,
            runs: runs
                .iter()
                .map(|(rate, noisy)| Run {
                    rate: *rate,
                    latencies: vec![1.0],
                    noisy: *noisy,
                })
                .collect(),
            failed: failed.map(str::to_owned),
        }
    }

    #[test]
    fn quiet_runs_count_before_noisy_ones() {
        let rate = cell(
            &[(1.0, true), (5.0, false), (2.0, true), (6.0, false)],
            None,
        )
        .rate(3)
        .unwrap();
        assert_eq!(rate.noisy_runs, 1);
        assert_eq!(rate.lives_per_second.most, 6.0);
        assert_eq!(rate.lives_per_second.least, 1.0);
    }

    #[test]
    fn what_failed_once_has_no_figure() {
        let failed = cell(&[(5.0, false)], Some("failed: it fell over"));
        assert_eq!(failed.rate(1).unwrap_err(), "failed: it fell over");
        assert!(cell(&[], None).rate(1).is_err());
    }

    #[test]
    fn figures_that_do_not_add_up_are_none() {
        let lived = |lives, seconds| Lived {
            lives,
            seconds,
            latencies_ms: vec![1.0],
        };
        assert!(lived(1, 1.0).checked().is_ok());
        assert!(lived(2, 1.0).checked().is_err());
        assert!(lived(0, 1.0).checked().is_err());
        assert!(lived(1, 0.0).checked().is_err());
    }
}
