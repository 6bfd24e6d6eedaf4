//! Measures how noisy the machine is: the latency of its disk, and the CPU time that other programs use.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::statistics::median;

const FSYNC_SAMPLES: usize = 40;
/// The size of a page in a database's log.
const LOG_PAGE: [u8; 4096] = [7; 4096];
const CPU_SAMPLE_DURATION: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy)]
pub struct MachineNoise {
    /// Microseconds to write and sync one page.
    pub fsync_us: f64,
    /// The share of CPU time that is not idle.
    pub busy_share: f64,
}

/// Measures the CPUs and the disk of this directory. No benchmark may run meanwhile.
pub fn sample_noise(directory: &Path) -> Result<MachineNoise, String> {
    Ok(MachineNoise {
        busy_share: measure_busy_share(),
        fsync_us: measure_fsync(directory)?,
    })
}

/// The median microseconds to write and sync one page.
fn measure_fsync(directory: &Path) -> Result<f64, String> {
    let path = directory.join("fsync-probe");
    let describe = |error: std::io::Error| {
        format!(
            "could not measure the disk of {}: {error}",
            directory.display()
        )
    };
    let mut file = File::create(&path).map_err(describe)?;
    let mut times = Vec::with_capacity(FSYNC_SAMPLES);
    for _ in 0..FSYNC_SAMPLES {
        let stopwatch = Instant::now();
        file.write_all(&LOG_PAGE).map_err(describe)?;
        file.sync_data().map_err(describe)?;
        times.push(stopwatch.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(describe)?;
    Ok(median(times))
}

/// Zero on systems without `/proc/stat`.
fn measure_busy_share() -> f64 {
    let Some((busy_before, total_before)) = read_cpu_ticks() else {
        return 0.0;
    };
    std::thread::sleep(CPU_SAMPLE_DURATION);
    match read_cpu_ticks() {
        Some((busy, total)) if total > total_before => {
            (busy - busy_before) / (total - total_before)
        }
        _ => 0.0,
    }
}

fn read_cpu_ticks() -> Option<(f64, f64)> {
    parse_cpu_ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Busy ticks and all ticks of all CPUs. Waiting for the disk counts as idle.
fn parse_cpu_ticks(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        // The guest times that follow are already part of the user times.
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let total: f64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((total - idle, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_disk_counts_as_idle() {
        let stat = "cpu  10 1 5 80 40 1 1 2 99 99\ncpu0 1 2 3\n";
        assert_eq!(parse_cpu_ticks(stat), Some((20.0, 140.0)));
        assert_eq!(parse_cpu_ticks(""), None);
        assert_eq!(parse_cpu_ticks("cpu  a b\n"), None);
    }

    #[test]
    fn a_disk_error_names_the_directory() {
        let message = measure_fsync(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(message.contains("/nowhere/at/all"), "{message}");
    }
}
