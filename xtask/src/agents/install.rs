//! Installs agents from npm and PyPI below `target/agents`, each in a directory of its own, and a Node.js for them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, bail, ensure};

use super::catalog::{AgentPackage, NODE_VERSION, PYTHON_VERSION, PackageRegistry};
use crate::child;
use crate::signals::StopSignals;

pub struct AgentPrograms<'a> {
    directory: PathBuf,
    signals: &'a StopSignals,
}

impl<'a> AgentPrograms<'a> {
    pub fn in_directory(directory: PathBuf, signals: &'a StopSignals) -> Self {
        Self { directory, signals }
    }

    /// Installs a package if it is not there in its version. Returns the directory of its programs.
    pub fn find_or_install(&self, package: &AgentPackage) -> anyhow::Result<PathBuf> {
        let prefix = self.directory.join("programs").join(package.name);
        let marker = format!("{}@{}", package.package, package.version);
        self.install_once(&prefix, &marker, || match package.registry {
            PackageRegistry::Npm => self.install_npm_package(package, &prefix),
            PackageRegistry::PyPi => self.install_python_package(package, &prefix),
        })?;
        Ok(prefix.join("bin"))
    }

    /// Installs Node.js if it is not there. Returns the directory of its program.
    pub fn find_or_install_node(&self) -> anyhow::Result<PathBuf> {
        let architecture = match env::consts::ARCH {
            "x86_64" => "x64",
            "aarch64" => "arm64",
            other => bail!("there is no Node.js package for {other}"),
        };
        let name = format!("node-linux-{architecture}");
        let prefix = self.directory.join("node");
        let marker = format!("{name}@{NODE_VERSION}");
        self.install_once(&prefix, &marker, || {
            let mut install = self.polite_command("npm");
            install.args(["install", "--no-fund", "--no-audit", "--prefix"]);
            self.run(install.arg(&prefix).arg(&marker))
        })?;
        Ok(prefix.join("node_modules").join(name).join("bin"))
    }

    /// The installed version is in a file, which is written last.
    fn install_once(
        &self,
        prefix: &Path,
        marker: &str,
        install: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let marker_file = prefix.join("installed");
        if fs::read_to_string(&marker_file).is_ok_and(|text| text.trim() == marker) {
            return Ok(());
        }
        eprintln!("installing {marker} in {}", prefix.display());
        if prefix.exists() {
            fs::remove_dir_all(prefix)?;
        }
        fs::create_dir_all(prefix)?;
        install().with_context(|| format!("could not install {marker}"))?;
        Ok(fs::write(marker_file, marker)?)
    }

    fn install_npm_package(&self, package: &AgentPackage, prefix: &Path) -> anyhow::Result<()> {
        let mut install = self.polite_command("npm");
        install.args(["install", "--global", "--no-fund", "--no-audit"]);
        // Newer versions of npm run no install scripts unless they are allowed.
        install.arg(format!("--allow-scripts={}", package.package));
        install.arg("--prefix").arg(prefix);
        install.arg(format!("{}@{}", package.package, package.version));
        install.env("PATH", self.path_with_node()?);
        self.run(&mut install)
    }

    fn install_python_package(&self, package: &AgentPackage, prefix: &Path) -> anyhow::Result<()> {
        let mut make = self.polite_command(find_python()?);
        self.run(make.args(["-m", "venv"]).arg(prefix))?;
        let mut install = self.polite_command(prefix.join("bin/pip"));
        install.args(["install", "--quiet"]);
        self.run(install.arg(format!("{}=={}", package.package, package.version)))
    }

    /// Installing must not slow down what else happens on this machine. Downloads are kept beside the programs.
    fn polite_command(&self, program: impl Into<OsString>) -> Command {
        let cache = self.directory.join("cache");
        let mut command = Command::new("nice");
        command
            .arg(program.into())
            .env("npm_config_cache", cache.join("npm"))
            .env("npm_config_update_notifier", "false")
            .env("PIP_CACHE_DIR", cache.join("pip"))
            .current_dir(&self.directory)
            .stdout(Stdio::null());
        command
    }

    fn run(&self, command: &mut Command) -> anyhow::Result<()> {
        let status = child::run_child(command, self.signals)?;
        ensure!(status.success(), "{command:?} failed");
        Ok(())
    }

    fn path_with_node(&self) -> anyhow::Result<OsString> {
        let path = env::var_os("PATH").unwrap_or_default();
        let node = self.find_or_install_node()?;
        Ok(env::join_paths(
            [node].into_iter().chain(env::split_paths(&path)),
        )?)
    }
}

/// A Python that all agents support, in PATH or installed by pyenv.
fn find_python() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let name = format!("python{PYTHON_VERSION}");
    let in_path = env::split_paths(&path).map(|directory| directory.join(&name));
    let versions = env::home_dir().map(|home| home.join(".pyenv/versions"));
    let versions = versions.and_then(|versions| fs::read_dir(versions).ok());
    let in_pyenv = versions.into_iter().flatten().flatten();
    let in_pyenv = in_pyenv.map(|version| version.path().join("bin").join(&name));
    // pyenv has a program for each version in PATH, which works only if that version is chosen.
    let works = |python: &PathBuf| {
        let output = Command::new(python).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = in_path.chain(in_pyenv).find(works);
    found.with_context(|| {
        format!("Python {PYTHON_VERSION} was not found. Install it, or leave out its agents.")
    })
}
