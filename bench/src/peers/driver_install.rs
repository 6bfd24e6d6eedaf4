//! Copies `bench/peers` into the target directory and installs each driver's pinned packages beside it: a virtual
//! environment or node modules. Packages are installed again only when their pins change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::child::run_with_timeout;

/// Generous, because package registries can be slow.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Holds the pins of the packages that are installed.
const INSTALLED_PINS_FILE: &str = "installed";

/// Copies the drivers into `target`. Installed packages stay.
pub fn copy_drivers(target: &Path) -> Result<(), String> {
    let source = driver_sources();
    let describe = |error: io::Error| format!("could not copy the drivers: {error}");
    for directory in fs::read_dir(&source).map_err(describe)?.flatten() {
        let files = match fs::read_dir(directory.path()) {
            Ok(files) => files,
            Err(_) => continue,
        };
        let copy = target.join(directory.file_name());
        fs::create_dir_all(&copy).map_err(describe)?;
        for file in files.flatten() {
            fs::copy(file.path(), copy.join(file.file_name())).map_err(describe)?;
        }
    }
    Ok(())
}

/// Installs the packages of the driver in `home`, unless the pinned ones are already installed.
pub fn install_packages(home: &Path) -> Result<(), String> {
    let (pins_file, commands) = if home.join("requirements.txt").exists() {
        ("requirements.txt", python_commands(home))
    } else {
        ("package-lock.json", node_commands(home))
    };
    let describe = |error: io::Error| format!("not installed: {error}");
    let pins = fs::read_to_string(home.join(pins_file)).map_err(describe)?;
    if fs::read_to_string(home.join(INSTALLED_PINS_FILE)).is_ok_and(|installed| installed == pins) {
        return Ok(());
    }
    for mut command in commands {
        run_with_timeout(&mut command, INSTALL_TIMEOUT)
            .map_err(|error| format!("not installed: {error}"))?;
    }
    fs::write(home.join(INSTALLED_PINS_FILE), pins).map_err(describe)
}

/// Reads a package's version from `package==version` or `"package": "version"`.
pub fn read_pinned_version(directory: &str, package: &str) -> Option<String> {
    let home = driver_sources().join(directory);
    if let Ok(requirements) = fs::read_to_string(home.join("requirements.txt")) {
        let version_of = |line: &str| {
            line.strip_prefix(package)?
                .strip_prefix("==")
                .map(str::to_owned)
        };
        return requirements.lines().find_map(version_of);
    }
    let manifest = fs::read_to_string(home.join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest).ok()?;
    Some(manifest["dependencies"][package].as_str()?.to_owned())
}

fn driver_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

fn python_commands(home: &Path) -> Vec<Command> {
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

fn node_commands(home: &Path) -> Vec<Command> {
    let mut packages = Command::new("npm");
    packages
        .current_dir(home)
        // The drivers do not need the packages' install scripts, and one of them sends telemetry.
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    vec![packages]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_pins() {
        assert!(read_pinned_version("pgqueuer", "pgqueuer").is_some());
        assert!(read_pinned_version("graphile-worker", "graphile-worker").is_some());
        assert_eq!(read_pinned_version("pgqueuer", "pgq"), None);
        assert_eq!(read_pinned_version("nobody", "nothing"), None);
    }
}
