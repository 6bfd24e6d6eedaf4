//! What the machine and the programs on it are.

use std::path::Path;

use super::child;
use super::results::Machine;

use std::process::Command;
use std::time::Duration;

/// The machine, as far as it tells; `directory` lies on the disk that is measured.
pub fn describe(directory: &Path) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let memory = read("/proc/meminfo");
    Machine {
        processor: field(&cpus, "model name").unwrap_or("unknown").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_gb: field(&memory, "MemTotal")
            .and_then(|value| value.split(' ').next()?.parse::<f64>().ok())
            .map_or(0.0, |kilobytes| (kilobytes / 1024.0 / 1024.0).round()),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        file_system: file_system(&read("/proc/mounts"), directory),
    }
}

/// What a program says its version is; the last word of its first line that begins with a digit.
pub fn version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    let said = child::output(command.arg("--version"), Duration::from_secs(10)).ok()?;
    let word = said
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(word.to_owned())
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The type of the file system with the longest mount point above `directory`.
fn file_system(mounts: &str, directory: &Path) -> String {
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(point, _)| directory.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    mount.map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_point_counts() {
        let mounts = "disk / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/a")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/tmpx")), "ext4");
        assert_eq!(file_system("", Path::new("/tmp")), "unknown");
    }
}
