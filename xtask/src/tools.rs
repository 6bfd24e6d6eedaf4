//! Tools that are no part of the toolchain: installed from the registry, once, below the target directory.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::signals::Signals;
use crate::{cargo, child};

/// A program of cargo's own kind, at the version this workspace was tried with.
pub struct Tool {
    /// Its name in the registry, and of its program.
    pub name: &'static str,
    /// Which version.
    pub version: &'static str,
}

impl Tool {
    /// Where its program is; installs it if it is not there.
    pub fn find_or_install(&self, signals: &Signals) -> anyhow::Result<PathBuf> {
        let root = cargo::target_directory()?
            .join("tools")
            .join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        eprintln!(
            "installing {} {} below {}",
            self.name,
            self.version,
            root.display()
        );
        let mut install = cargo::cargo();
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
        let status = child::run(&mut install, signals).context("could not run cargo")?;
        ensure!(status.success(), "installing {} failed", self.name);
        Ok(program)
    }
}
