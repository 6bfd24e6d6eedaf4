//! Installs the peers: a copy of `bench/peers` in the target directory, with a virtual environment or
//! node modules beside each driver. Pinned, and done once until what is pinned changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child;

/// The registry may be far away.
const LIMIT: Duration = Duration::from_secs(600);
const STAMP: &str = "installed";

/// Copies the drivers into `target` anew. What is installed beside them stays.
pub fn copy_drivers(target: &Path) -> Result<(), String> {
    let source = source();
    let said = |error: io::Error| format!("the drivers could not be copied: {error}");
    for directory in fs::read_dir(&source).map_err(said)?.flatten() {
        let files = match fs::read_dir(directory.path()) {
            Ok(files) => files,
            Err(_) => continue,
        };
        let copy = target.join(directory.file_name());
        fs::create_dir_all(&copy).map_err(said)?;
        for file in files.flatten() {
            fs::copy(file.path(), copy.join(file.file_name())).map_err(said)?;
        }
    }
    Ok(())
}

/// Installs what the driver in `home` needs, unless it is there. Why not, in one line.
pub fn install(home: &Path) -> Result<(), String> {
    let (pinned, commands) = if home.join("requirements.txt").exists() {
        ("requirements.txt", python(home))
    } else {
        ("package-lock.json", node(home))
    };
    let said = |error: io::Error| format!("not installed: {error}");
    let pins = fs::read_to_string(home.join(pinned)).map_err(said)?;
    if fs::read_to_string(home.join(STAMP)).is_ok_and(|stamp| stamp == pins) {
        return Ok(());
    }
    for mut command in commands {
        child::output(&mut command, LIMIT).map_err(|why| format!("not installed: {why}"))?;
    }
    fs::write(home.join(STAMP), pins).map_err(said)
}

/// The version that was pinned: of a line `package==version`, or of `"package": "version"`.
pub fn pinned_version(directory: &str, package: &str) -> Option<String> {
    let home = source().join(directory);
    if let Ok(requirements) = fs::read_to_string(home.join("requirements.txt")) {
        let line = |line: &str| {
            line.strip_prefix(package)?
                .strip_prefix("==")
                .map(str::to_owned)
        };
        return requirements.lines().find_map(line);
    }
    let manifest = fs::read_to_string(home.join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest).ok()?;
    Some(manifest["dependencies"][package].as_str()?.to_owned())
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

fn python(home: &Path) -> Vec<Command> {
    let mut environment = Command::new("python3");
    environment
        .args(["-m", "venv", "--clear"])
        .arg(home.join("venv"));
    let mut packages = Command::new(home.join("venv/bin/pip"));
    packages
        .args(["install", "--quiet", "--no-deps", "--requirement"])
        .arg(home.join("requirements.txt"));
    vec![environment, packages]
}

fn node(home: &Path) -> Vec<Command> {
    let mut packages = Command::new("npm");
    packages
        .current_dir(home)
        // No package's script runs here: none needs to, and one of them would tell others about it.
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    vec![packages]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_they_are_pinned() {
        assert!(pinned_version("pgqueuer", "pgqueuer").is_some());
        assert!(pinned_version("graphile-worker", "graphile-worker").is_some());
        assert_eq!(pinned_version("pgqueuer", "pgq"), None);
        assert_eq!(pinned_version("nobody", "nothing"), None);
    }
}
