//! Finds programs that tests start, or installs them with Debian's package manager.

use std::env;
use std::process::Command;

use anyhow::{Context, bail};

use crate::child;
use crate::signals::StopSignals;

/// A program that tests start, with the Debian packages that contain it and what it needs.
struct TestTool {
    program: &'static str,
    packages: &'static [&'static str],
    /// What needs it.
    user: &'static str,
}

const TEST_TOOLS: &[TestTool] = &[
    TestTool {
        program: "chromedriver",
        packages: &["chromium", "chromium-driver"],
        user: "the tests of the page",
    },
    TestTool {
        program: "zsh",
        packages: &["zsh"],
        user: "the tests of completions",
    },
    TestTool {
        program: "fish",
        packages: &["fish"],
        user: "the tests of completions",
    },
];

/// Makes sure that the browser and the shells of the tests can be started.
pub fn find_or_install_tools(signals: &StopSignals) -> anyhow::Result<()> {
    let tools = TEST_TOOLS.iter();
    let missing: Vec<&TestTool> = tools.filter(|tool| !is_in_path(tool.program)).collect();
    let Some(first) = missing.first() else {
        return Ok(());
    };
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|tool| tool.packages.iter().copied())
        .collect();
    let advice = format!(
        "On Debian:\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    if !is_in_path("apt-get") || !rustix::process::geteuid().is_root() {
        bail!(
            "{} was not found; {} need it. {advice}",
            first.program,
            first.user
        );
    }
    let install = ["install", "-y", "--no-install-recommends"];
    let install = [&install[..], &packages].concat();
    for arguments in [vec!["update"], install] {
        eprintln!(
            "{} was not found; running: apt-get {}",
            first.program,
            arguments.join(" ")
        );
        let mut command = Command::new("apt-get");
        command
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        let status = child::run_child(&mut command, signals).context("could not run apt-get")?;
        if !status.success() {
            bail!("could not install {}. {advice}", packages.join(" "));
        }
    }
    Ok(())
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
