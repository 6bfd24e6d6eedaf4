//! Runs all systems in rounds, repeats noisy runs, and computes each system's results.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::child::run_with_timeout;
use super::driver_install;
use super::durable_postgres::DurablePostgres;
use super::noise::{self, MachineNoise};
use super::results::{
    IdleLatency, LatencyQuantiles, Measurement, SystemResult, ThroughputResult, ValueSpread,
    WorkflowRate,
};
use super::systems::{CONCURRENCIES, SystemKind, SystemStorage, SystemUnderTest};
use crate::statistics::median;

const RUN_TIMEOUT: Duration = Duration::from_secs(300);
/// A disk that is slower than its best sample by this factor is noisy.
const NOISY_FSYNC_FACTOR: f64 = 2.0;
/// A machine is noisy if its CPUs are busier than this while no benchmark runs.
const NOISY_BUSY_SHARE: f64 = 0.25;
/// How often noisy runs are repeated. Never more often than the number of runs.
const MAX_REPEATS: usize = 3;
/// How long a run waits for the machine to become quiet.
const QUIET_TIMEOUT: Duration = Duration::from_secs(10);
const INITIAL_NOISE_SAMPLES: usize = 5;
/// How long a run starts new workflows.
const RUN_SECONDS: usize = 4;
/// Workflows before a run that are not measured: they open connections, prepare statements and compile code.
const WARMUP_WORKFLOWS: usize = 50;
/// Workflows started on an idle system.
const IDLE_WORKFLOWS: usize = 40;

pub struct PeerBench {
    /// Where the drivers and their packages are installed.
    installed: PathBuf,
    /// Where the systems keep their data during a run.
    data: PathBuf,
    runs: usize,
    next_directory: usize,
    pub server: Result<DurablePostgres, String>,
    /// Every measurement of the disk so far.
    pub fsync_samples: Vec<f64>,
}

/// A run without errors.
struct CompletedRun {
    rate: f64,
    latencies: Vec<f64>,
    noisy: bool,
}

/// What a driver prints after `--seconds`.
#[derive(Deserialize)]
struct ThroughputOutput {
    workflows: usize,
    seconds: f64,
    latencies_ms: Vec<f64>,
}

/// What a driver prints after `--idle`.
#[derive(Deserialize)]
struct IdleOutput {
    idle_ms: Vec<f64>,
    idle_across_ms: Option<Vec<f64>>,
}

/// The runs of one system at one concurrency.
struct RunSeries<'a> {
    system: &'a SystemUnderTest,
    concurrency: usize,
    runs: Vec<CompletedRun>,
    /// The first failure. No more runs follow it.
    failure: Option<String>,
}

impl PeerBench {
    /// Copies the drivers, finds the PostgreSQL server and measures the noise of the machine.
    pub fn prepare(installed: &Path, runs: usize) -> Result<Self, String> {
        driver_install::copy_drivers(installed)?;
        let data = installed.join("data");
        // An interrupted run may have left data behind.
        let _ = fs::remove_dir_all(&data);
        fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let server = DurablePostgres::find_server();
        if let Err(reason) = &server {
            eprintln!("{reason}");
        }
        let mut bench = Self {
            installed: installed.to_owned(),
            data,
            runs,
            next_directory: 0,
            server,
            fsync_samples: Vec::new(),
        };
        let samples = (0..INITIAL_NOISE_SAMPLES).map(|_| bench.sample_noise());
        let samples = samples.collect::<Result<Vec<_>, _>>()?;
        let busy_share = median(samples.iter().map(|noise| noise.busy_share).collect());
        eprintln!(
            "fsync takes {:.0} µs (best of {INITIAL_NOISE_SAMPLES} samples)",
            bench.best_fsync_us()
        );
        if busy_share > NOISY_BUSY_SHARE {
            eprintln!(
                "warning: other programs use {:.0} % of the CPUs. Noisy runs are repeated, and marked if they \
                 stay noisy; run this on a quiet machine for better results",
                busy_share * 100.0
            );
        }
        Ok(bench)
    }

    /// Measures throughput and idle latency of these systems. A round runs every system once, so that a noisy phase of
    /// the machine affects all of them.
    pub fn measure_systems(
        &mut self,
        systems: &[&SystemUnderTest],
    ) -> Result<Vec<SystemResult>, String> {
        let mut all_series: Vec<RunSeries<'_>> = Vec::new();
        for system in systems {
            let prepared = self.prepare_system(system);
            if let Err(reason) = &prepared {
                eprintln!("{}: {reason}", system.name);
            }
            for concurrency in CONCURRENCIES {
                all_series.push(RunSeries {
                    system,
                    concurrency,
                    runs: Vec::new(),
                    failure: prepared.clone().err(),
                });
            }
        }
        for round in 1..=self.runs {
            for series in &mut all_series {
                self.run_once(series, &format!("round {round} of {}", self.runs))?;
            }
        }
        for repeat in 1..=MAX_REPEATS.min(self.runs) {
            for series in &mut all_series {
                if series.count_quiet_runs() < self.runs {
                    self.run_once(series, &format!("repeat {repeat}"))?;
                }
            }
        }
        let mut results = Vec::new();
        for system in systems {
            let throughput = all_series
                .iter()
                .filter(|series| series.system.name == system.name)
                .map(|series| ThroughputResult {
                    concurrency: series.concurrency,
                    rate: series.compute_rate(self.runs).into(),
                })
                .collect();
            results.push(self.make_result(system, throughput));
        }
        Ok(results)
    }

    fn make_result(
        &mut self,
        system: &SystemUnderTest,
        throughput: Vec<ThroughputResult>,
    ) -> SystemResult {
        let failure = throughput.iter().find_map(|result| match &result.rate {
            Measurement::NotMeasured(reason) => Some(reason.clone()),
            Measurement::Measured(_) => None,
        });
        let idle = match failure {
            Some(reason) => Err(reason),
            None => self.measure_idle(system),
        };
        let server_version = self.server.as_ref().ok().map(|server| &*server.version);
        SystemResult {
            name: system.name.to_owned(),
            label: system.label.to_owned(),
            kind: system.kind,
            version: system.read_version(server_version).unwrap_or_default(),
            note: system.note.to_owned(),
            throughput,
            idle: idle.into(),
        }
    }

    /// Runs `work` in an empty directory on the measured disk, and removes the directory.
    pub fn run_in_directory<T>(
        &mut self,
        work: impl FnOnce(&Path) -> Result<T, String>,
    ) -> Result<T, String> {
        self.next_directory += 1;
        let directory = self.data.join(self.next_directory.to_string());
        fs::create_dir_all(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let result = work(&directory);
        let _ = fs::remove_dir_all(&directory);
        result
    }

    /// Installs the system's packages, and checks that its database is available.
    fn prepare_system(&self, system: &SystemUnderTest) -> Result<(), String> {
        if let (SystemStorage::Postgres, Err(reason)) = (system.storage, &self.server) {
            return Err(reason.clone());
        }
        let Some(directory) = system.driver_directory() else {
            return Ok(());
        };
        eprintln!("{}: installing packages", system.name);
        driver_install::install_packages(&self.installed.join(directory))
    }

    fn sample_noise(&mut self) -> Result<MachineNoise, String> {
        let sample = noise::sample_noise(&self.data)?;
        self.fsync_samples.push(sample.fsync_us);
        Ok(sample)
    }

    /// Samples until the machine is quiet or the timeout is over. Returns the last sample.
    fn wait_until_quiet(&mut self) -> Result<MachineNoise, String> {
        let deadline = Instant::now() + QUIET_TIMEOUT;
        loop {
            let sample = self.sample_noise()?;
            if !self.is_noisy(sample) || Instant::now() > deadline {
                return Ok(sample);
            }
        }
    }

    fn is_noisy(&self, sample: MachineNoise) -> bool {
        sample.fsync_us > NOISY_FSYNC_FACTOR * self.best_fsync_us()
            || sample.busy_share > NOISY_BUSY_SHARE
    }

    fn best_fsync_us(&self) -> f64 {
        let samples = self.fsync_samples.iter().copied();
        samples.fold(f64::INFINITY, f64::min)
    }

    /// Runs the system once, unless it failed before. Returns an error only if the disk fails.
    fn run_once(&mut self, series: &mut RunSeries<'_>, progress: &str) -> Result<(), String> {
        if series.failure.is_some() {
            return Ok(());
        }
        let before = self.wait_until_quiet()?;
        let flags = [
            ("--seconds", RUN_SECONDS),
            ("--concurrency", series.concurrency),
            ("--warmup", WARMUP_WORKFLOWS),
        ];
        let output = self.run_driver::<ThroughputOutput>(series.system, &flags);
        let after = self.sample_noise()?;
        let fsync_us = before.fsync_us.max(after.fsync_us);
        let noisy = self.is_noisy(before) || self.is_noisy(after);
        let label = format!(
            "{progress}: {}, concurrency {}",
            series.system.name, series.concurrency
        );
        match output.and_then(ThroughputOutput::validate) {
            Ok(output) => {
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let rate = output.workflows as f64 / output.seconds;
                let mark = if noisy { ", noisy" } else { "" };
                eprintln!("{label}: {rate:.0} workflows/s (fsync {fsync_us:.0} µs{mark})");
                series.runs.push(CompletedRun {
                    rate,
                    latencies: output.latencies_ms,
                    noisy,
                });
            }
            Err(error) => {
                eprintln!("{label}: failed: {error}");
                series.failure = Some(format!("failed: {error}"));
            }
        }
        Ok(())
    }

    fn measure_idle(&mut self, system: &SystemUnderTest) -> Result<IdleLatency, String> {
        if system.kind == SystemKind::Baseline {
            return Err("a baseline has no idle state".to_owned());
        }
        eprintln!("idle: {}", system.name);
        let flags = [
            ("--idle", IDLE_WORKFLOWS),
            ("--concurrency", 1),
            ("--warmup", WARMUP_WORKFLOWS),
        ];
        let output = self.run_driver::<IdleOutput>(system, &flags)?;
        let quantiles = |waits: &[f64]| match waits {
            [] => Err("the driver started no workflow".to_owned()),
            waits => Ok(LatencyQuantiles::of(waits)),
        };
        Ok(IdleLatency {
            wait_ms: quantiles(&output.idle_ms)?,
            cross_process_ms: output
                .idle_across_ms
                .as_deref()
                .map(quantiles)
                .transpose()?,
        })
    }

    /// Runs the system's driver with an empty directory and an empty database, and parses the last line it prints.
    fn run_driver<T: serde::de::DeserializeOwned>(
        &mut self,
        system: &SystemUnderTest,
        flags: &[(&str, usize)],
    ) -> Result<T, String> {
        let mut command = system.driver_command(&self.installed)?;
        for (flag, value) in flags {
            command.arg(flag).arg(value.to_string());
        }
        let database = format!("bench_{}", self.next_directory);
        if let (SystemStorage::Postgres, Ok(server)) = (system.storage, &self.server) {
            let url = server.create_database(&database)?;
            command.arg("--postgres").arg(url);
        }
        let output = self.run_in_directory(|directory| {
            command.arg("--directory").arg(directory);
            run_with_timeout(&mut command, RUN_TIMEOUT)
        });
        if let (SystemStorage::Postgres, Ok(server)) = (system.storage, &self.server) {
            server.drop_database(&database)?;
        }
        let output = output?;
        let line = output.lines().last().unwrap_or_default();
        serde_json::from_str(line)
            .map_err(|error| format!("the driver printed no results: {error}"))
    }
}

impl ThroughputOutput {
    fn validate(self) -> Result<Self, String> {
        if self.workflows == 0 || self.workflows != self.latencies_ms.len() || self.seconds <= 0.0 {
            return Err("the driver's results are inconsistent".to_owned());
        }
        Ok(self)
    }
}

impl RunSeries<'_> {
    fn count_quiet_runs(&self) -> usize {
        self.runs.iter().filter(|run| !run.noisy).count()
    }

    /// Computes the rate from at most `max_runs` runs, quiet ones first. A single failure means no rate.
    fn compute_rate(&self, max_runs: usize) -> Result<WorkflowRate, String> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let mut counted: Vec<&CompletedRun> = self.runs.iter().collect();
        counted.sort_by_key(|run| run.noisy);
        counted.truncate(max_runs);
        let rates: Vec<f64> = counted.iter().map(|run| run.rate).collect();
        let latencies: Vec<f64> = counted
            .iter()
            .flat_map(|run| run.latencies.iter().copied())
            .collect();
        if rates.is_empty() {
            return Err("not run".to_owned());
        }
        Ok(WorkflowRate {
            workflows_per_second: ValueSpread::of(&rates),
            noisy_runs: counted.iter().filter(|run| run.noisy).count(),
            latency_ms: LatencyQuantiles::of(&latencies),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::systems::SYSTEMS;
    use super::*;

    fn make_series(runs: &[(f64, bool)], failure: Option<&str>) -> RunSeries<'static> {
        RunSeries {
            system: &SYSTEMS[0],
            concurrency: 1,
            runs: runs
                .iter()
                .map(|(rate, noisy)| CompletedRun {
                    rate: *rate,
                    latencies: vec![1.0],
                    noisy: *noisy,
                })
                .collect(),
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn quiet_runs_are_preferred_to_noisy_ones() {
        let runs = [(1.0, true), (5.0, false), (2.0, true), (6.0, false)];
        let rate = make_series(&runs, None).compute_rate(3).unwrap();
        assert_eq!(rate.noisy_runs, 1);
        assert_eq!(rate.workflows_per_second.max, 6.0);
        assert_eq!(rate.workflows_per_second.min, 1.0);
    }

    #[test]
    fn a_failed_system_has_no_rate() {
        let failed = make_series(&[(5.0, false)], Some("failed: out of memory"));
        assert_eq!(failed.compute_rate(1).unwrap_err(), "failed: out of memory");
        assert!(make_series(&[], None).compute_rate(1).is_err());
    }

    #[test]
    fn inconsistent_output_is_rejected() {
        let is_valid = |workflows, seconds| {
            let output = ThroughputOutput {
                workflows,
                seconds,
                latencies_ms: vec![1.0],
            };
            output.validate().is_ok()
        };
        assert!(is_valid(1, 1.0));
        assert!(!is_valid(2, 1.0));
        assert!(!is_valid(0, 1.0));
        assert!(!is_valid(1, 0.0));
    }
}
