//! Tools that are no part of the toolchain: those that are there in the right version, or installed from the
//! registry, once, below the target directory.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child};

/// A program of cargo's own kind, at the version this workspace was tried with.
pub struct CargoTool {
    /// Its name in the registry, and of its program.
    pub name: &'static str,
    /// Which version.
    pub version: &'static str,
}

impl CargoTool {
    /// Where its program is; installs it if it is not there.
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
            "installing {} {} below {}",
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
        ensure!(status.success(), "installing {} failed", self.name);
        Ok(program)
    }

    /// The first of this name that the shell would find, if it says to be of this version.
    fn find_on_path(&self) -> Option<PathBuf> {
        let path = env::var_os("PATH")?;
        let programs = env::split_paths(&path).map(|directory| directory.join(self.name));
        let found = programs.into_iter().find(|program| program.is_file())?;
        // As cargo starts it: with its own name as the first word.
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
