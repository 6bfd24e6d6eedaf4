//! Finds cargo tools that are not part of the toolchain, or installs them in the target directory.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child};

/// A cargo subcommand, at the version that this workspace uses.
pub struct CargoTool {
    /// The name of both the package and the program.
    pub name: &'static str,
    pub version: &'static str,
}

impl CargoTool {
    /// Returns the path of the program, and installs it first if necessary.
    pub fn find_or_install(&self, signals: &StopSignals) -> anyhow::Result<PathBuf> {
        let root = cargo::target_directory()?
            .join("tools")
            .join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        if let Some(found) = self.find_on_path() {
            return Ok(found);
        }
        eprintln!(
            "installing {} {} in {}",
            self.name,
            self.version,
            root.display()
        );
        let mut install = cargo::cargo_command();
        install
            .args([
                "install",
                "--locked",
                self.name,
                "--version",
                self.version,
                "--root",
            ])
            .arg(&root);
        let status = child::run_child(&mut install, signals).context("could not run cargo")?;
        ensure!(status.success(), "could not install {}", self.name);
        Ok(program)
    }

    /// The program in PATH, if it has the right version.
    fn find_on_path(&self) -> Option<PathBuf> {
        let path = env::var_os("PATH")?;
        let programs = env::split_paths(&path).map(|directory| directory.join(self.name));
        let found = programs.into_iter().find(|program| program.is_file())?;
        // Cargo passes the subcommand's name as the first argument.
        let verb = self.name.strip_prefix("cargo-")?;
        let output = cargo::command_without_cargo_env(&found)
            .args([verb, "--version"])
            .output()
            .ok()?;
        let version_text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = version_text.split_whitespace().take(2).collect();
        (words == [self.name, self.version]).then_some(found)
    }
}
