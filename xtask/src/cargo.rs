//! Runs cargo from `cargo xtask`. `cargo run`, which starts xtask, sets variables that must not be passed on.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

/// A cargo command in the root of the workspace, with the toolchain that built this program.
pub fn cargo_command() -> Command {
    let mut command =
        command_without_cargo_env(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    command
}

/// A command without the variables that `cargo run` set for this program.
///
/// Some build scripts (ring's) rerun when such a variable changes. They would run again whenever you switch between
/// `cargo xtask test` and plain `cargo test`.
pub fn command_without_cargo_env(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_set_by_cargo_run) {
            command.env_remove(&name);
        }
    }
    command
}

pub fn workspace_root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

fn is_set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO"
}

/// Cargo's target directory: two levels above this program.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let own_path = std::env::current_exe().context("this program has no path")?;
    let directory = own_path.parent().and_then(|profile| profile.parent());
    Ok(directory
        .context("this program is not in a target directory")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_cargo_run_are_removed() {
        for name in ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(is_set_by_cargo_run(name), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_TERM_COLOR", "PATH"] {
            assert!(!is_set_by_cargo_run(name), "{name}");
        }
    }

    #[test]
    fn the_root_is_where_the_lock_file_is() {
        assert!(workspace_root().join("Cargo.lock").exists());
    }
}
