//! What was measured, as it is kept in `bench/results`. A figure that was not measured is not a number
//! but the reason why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    pub date: String,
    pub machine: Machine,
    /// Runs of which each figure is the median.
    pub runs: usize,
    pub versions: BTreeMap<String, String>,
    /// Microseconds until a page was on the disk, over all probes.
    pub fsync_us: Spread,
    pub contenders: Vec<Measured>,
    pub cold_start: Outcome<Vec<ColdStart>>,
    pub growth: Outcome<Vec<Growth>>,
}

/// Where it was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gb: f64,
    pub kernel: String,
    pub file_system: String,
}

/// A figure, or why there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    Measured(T),
    Absent(String),
}

impl<T> Outcome<T> {
    pub fn measured(&self) -> Option<&T> {
        match self {
            Self::Measured(figure) => Some(figure),
            Self::Absent(_) => None,
        }
    }
}

impl<T> From<Result<T, String>> for Outcome<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(figure) => Self::Measured(figure),
            Err(why) => Self::Absent(why),
        }
    }
}

/// One contender.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub label: String,
    pub kind: String,
    pub version: String,
    pub note: String,
    pub throughput: Vec<Throughput>,
    pub idle: Outcome<Idle>,
}

impl Measured {
    pub fn at(&self, concurrency: usize) -> Option<&Rate> {
        let throughput = self
            .throughput
            .iter()
            .find(|throughput| throughput.concurrency == concurrency)?;
        throughput.rate.measured()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Throughput {
    pub concurrency: usize,
    pub rate: Outcome<Rate>,
}

/// Lives per second, and how long one took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rate {
    pub lives_per_second: Spread,
    /// How many of the runs had a busy machine or a slow disk around them, even when repeated.
    pub noisy_runs: usize,
    pub latency_ms: Quantiles,
}

/// Milliseconds from asking an idle contender until the first step ran.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Idle {
    pub wait_ms: Quantiles,
    /// The same where whoever asks is another process, if that makes a difference.
    pub across_ms: Option<Quantiles>,
}

/// A command line's start to end, in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdStart {
    pub what: String,
    pub planwright_ms: Spread,
    pub python_ms: Spread,
}

/// What something costs among a million plans, in what it costs among a thousand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    pub what: String,
    pub ratio: f64,
}

/// The median, and what it lies between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Of figures of which there is at least one.
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            median: sorted[sorted.len() / 2],
            least: sorted[0],
            most: sorted[sorted.len() - 1],
        }
    }
}

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub p5: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Quantiles {
    /// Of figures of which there is at least one.
    pub fn of(figures: &[f64]) -> Self {
        let mut sorted = figures.to_vec();
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

/// Where the results of the last whole run are kept.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results/peers.json")
}

pub fn load() -> Result<Results, String> {
    let path = path();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "there are no results at {}: {error}; measure first: cargo xtask bench peers",
            path.display()
        )
    })?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn save(results: &Results) -> Result<(), String> {
    let path = path();
    let text = serde_json::to_string_pretty(results).map_err(|error| error.to_string())?;
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("{} could not be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.0, 3.0));
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        let quantiles = Quantiles::of(&hundred);
        assert_eq!(
            (quantiles.p5, quantiles.p50, quantiles.p99),
            (5.0, 50.0, 99.0)
        );
    }
}
