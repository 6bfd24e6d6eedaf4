//! The measurements of a run, as stored in `bench/results`. A value that could not be measured is stored with the reason.
//!
//! Fields keep their old names in JSON, so that stored results stay readable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::systems::SystemKind;

#[derive(Debug, Serialize, Deserialize)]
pub struct BenchResults {
    pub date: String,
    pub machine: MachineInfo,
    /// How many runs each median is taken from.
    pub runs: usize,
    pub versions: BTreeMap<String, String>,
    /// Microseconds to write and sync one page, over all samples of the disk.
    pub fsync_us: ValueSpread,
    #[serde(rename = "contenders")]
    pub systems: Vec<SystemResult>,
    pub cold_start: Measurement<Vec<ColdStartTimes>>,
    pub growth: Measurement<Vec<GrowthRatio>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MachineInfo {
    pub processor: String,
    pub cores: usize,
    pub memory_gb: f64,
    pub kernel: String,
    pub file_system: String,
}

/// A value, or the reason why it was not measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measurement<T> {
    Measured(T),
    #[serde(rename = "absent")]
    NotMeasured(String),
}

impl<T> Measurement<T> {
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Measured(value) => Some(value),
            Self::NotMeasured(_) => None,
        }
    }
}

impl<T> From<Result<T, String>> for Measurement<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(value) => Self::Measured(value),
            Err(reason) => Self::NotMeasured(reason),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SystemResult {
    pub name: String,
    pub label: String,
    pub kind: SystemKind,
    pub version: String,
    pub note: String,
    pub throughput: Vec<ThroughputResult>,
    pub idle: Measurement<IdleLatency>,
}

impl SystemResult {
    pub fn rate_at(&self, concurrency: usize) -> Option<&WorkflowRate> {
        let throughput = self
            .throughput
            .iter()
            .find(|throughput| throughput.concurrency == concurrency)?;
        throughput.rate.value()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ThroughputResult {
    pub concurrency: usize,
    pub rate: Measurement<WorkflowRate>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkflowRate {
    #[serde(rename = "lives_per_second")]
    pub workflows_per_second: ValueSpread,
    /// How many of the runs stayed noisy even when repeated.
    pub noisy_runs: usize,
    pub latency_ms: LatencyQuantiles,
}

/// Milliseconds from a request to an idle system until the workflow's first step runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IdleLatency {
    pub wait_ms: LatencyQuantiles,
    /// The same if another process makes the request, for systems where that makes a difference.
    #[serde(rename = "across_ms")]
    pub cross_process_ms: Option<LatencyQuantiles>,
}

/// Milliseconds from a command's start to its exit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdStartTimes {
    #[serde(rename = "what")]
    pub command: String,
    pub planwright_ms: ValueSpread,
    pub python_ms: ValueSpread,
}

/// The cost of an operation with a million plans, divided by its cost with a thousand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrowthRatio {
    #[serde(rename = "what")]
    pub operation: String,
    pub ratio: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ValueSpread {
    pub median: f64,
    #[serde(rename = "least")]
    pub min: f64,
    #[serde(rename = "most")]
    pub max: f64,
}

impl ValueSpread {
    /// Panics if `values` is empty.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            median: sorted[sorted.len() / 2],
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyQuantiles {
    pub p5: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p95: f64,
    pub p99: f64,
}

impl LatencyQuantiles {
    /// Panics if `values` is empty.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        Self {
            p5: at(5),
            p25: at(25),
            p50: at(50),
            p75: at(75),
            p95: at(95),
            p99: at(99),
        }
    }
}

/// The results of the last complete run.
fn results_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results/peers.json")
}

pub fn load_results() -> Result<BenchResults, String> {
    let path = results_path();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "could not read {}: {error}. To measure, run: cargo xtask bench peers",
            path.display()
        )
    })?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn save_results(results: &BenchResults) -> Result<(), String> {
    let path = results_path();
    let text = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("could not write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        let spread = ValueSpread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        let quantiles = LatencyQuantiles::of(&hundred);
        assert_eq!(
            (quantiles.p5, quantiles.p50, quantiles.p99),
            (5.0, 50.0, 99.0)
        );
    }

    #[test]
    fn stored_results_are_readable() {
        load_results().unwrap();
    }
}
