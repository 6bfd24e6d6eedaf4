//! Reads the machine's hardware and the versions of its programs, for the report.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::child::run_with_timeout;
use super::results::MachineInfo;

const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// `directory` is on the disk that the benchmarks use.
pub fn read_machine_info(directory: &Path) -> MachineInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let memory = read("/proc/meminfo");
    MachineInfo {
        processor: find_field(&cpus, "model name")
            .unwrap_or("unknown")
            .to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_gb: find_field(&memory, "MemTotal")
            .and_then(|value| value.split(' ').next()?.parse::<f64>().ok())
            .map_or(0.0, |kilobytes| (kilobytes / 1024.0 / 1024.0).round()),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        file_system: find_file_system(&read("/proc/mounts"), directory),
    }
}

/// Runs `program --version` and returns the first word that starts with a digit.
pub fn read_program_version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = run_with_timeout(command.arg("--version"), VERSION_TIMEOUT).ok()?;
    let version = output
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(version.to_owned())
}

fn find_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The type of the file system with the longest mount point above `directory`.
fn find_file_system(mounts: &str, directory: &Path) -> String {
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| directory.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    mount.map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let mounts = "disk / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        assert_eq!(find_file_system(mounts, Path::new("/tmp/a")), "tmpfs");
        assert_eq!(find_file_system(mounts, Path::new("/tmpx")), "ext4");
        assert_eq!(find_file_system("", Path::new("/tmp")), "unknown");
    }
}
