//! How the machine is: how long the disk takes, and whether somebody else keeps the processors busy.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::rounds::median;

/// Writes that are waited for, of which the median counts.
const SYNCS: usize = 40;
/// What a log's page has.
const PAGE: [u8; 4096] = [7; 4096];
/// How long the processors are watched.
const WATCH: Duration = Duration::from_millis(300);

/// What a moment of the machine was like.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Microseconds until a page was on the disk.
    pub fsync_us: f64,
    /// The share of the processors' time that went to others.
    pub busy: f64,
}

/// Looks at the disk of this directory and at the processors. Nothing of ours may run meanwhile.
pub fn look(directory: &Path) -> Result<Moment, String> {
    Ok(Moment {
        busy: busy_share(),
        fsync_us: fsync(directory)?,
    })
}

/// Microseconds that a page takes to the disk of this directory.
pub fn fsync(directory: &Path) -> Result<f64, String> {
    let path = directory.join("fsync-probe");
    let said = |error: std::io::Error| {
        format!(
            "the disk of {} could not be probed: {error}",
            directory.display()
        )
    };
    let mut file = File::create(&path).map_err(said)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let stopwatch = Instant::now();
        file.write_all(&PAGE).map_err(said)?;
        file.sync_data().map_err(said)?;
        times.push(stopwatch.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(said)?;
    Ok(median(times))
}

/// The share of time in which the processors were not idle. Zero where the system does not tell.
fn busy_share() -> f64 {
    let Some((busy_before, all_before)) = processor_ticks() else {
        return 0.0;
    };
    std::thread::sleep(WATCH);
    match processor_ticks() {
        Some((busy, all)) if all > all_before => (busy - busy_before) / (all - all_before),
        _ => 0.0,
    }
}

/// Ticks in which the processors worked, and all ticks. Waiting for a disk is not working.
fn processor_ticks() -> Option<(f64, f64)> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn ticks(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        // What guests take is counted in what users take.
        .take(8)
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let all: f64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((all - idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_disk_is_not_being_busy() {
        let stat = "cpu  10 1 5 80 40 1 1 2 99 99\ncpu0 1 2 3\n";
        assert_eq!(ticks(stat), Some((20.0, 140.0)));
        assert_eq!(ticks(""), None);
        assert_eq!(ticks("cpu  a b\n"), None);
    }

    #[test]
    fn a_disk_that_cannot_be_probed_is_said() {
        let said = fsync(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(said.contains("/nowhere/at/all"), "{said}");
    }
}
