//! Cargo below cargo: `cargo xtask` is itself started by `cargo run`, which leaves traces in the environment.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

/// A cargo command in the root of the workspace, of the toolchain that built this program.
pub fn cargo_command() -> Command {
    let mut command =
        command_without_cargo_env(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_root());
    command
}

/// A command without the variables that `cargo run` set for this program.
///
/// Build scripts that ask to be rerun when such a variable changes (ring's does) would otherwise run anew each
/// time somebody changes between `cargo xtask test` and plain `cargo test`.
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

/// Where cargo puts what it builds: two up from this program.
pub fn target_directory() -> anyhow::Result<PathBuf> {
    let own_path = std::env::current_exe().context("this program has no path")?;
    let directory = own_path.parent().and_then(|profile| profile.parent());
    Ok(directory
        .context("this program lies in no target directory")?
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cargo_run_sets_is_removed() {
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
