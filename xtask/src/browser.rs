//! Finds the browser that tests of the page drive, or installs it with Debian's package manager.

use std::env;
use std::process::Command;

use anyhow::{Context, bail};

use crate::child;
use crate::signals::StopSignals;

const ADVICE: &str = "Install Chromium and its driver. On Debian:\n  \
     sudo apt-get update && sudo apt-get install -y --no-install-recommends chromium chromium-driver";

/// Makes sure that `chromedriver` can be started.
pub fn find_or_install_browser(signals: &StopSignals) -> anyhow::Result<()> {
    if is_in_path("chromedriver") {
        return Ok(());
    }
    if !is_in_path("apt-get") || !rustix::process::geteuid().is_root() {
        bail!("chromedriver was not found; the tests of the page need it. {ADVICE}");
    }
    let install = ["install", "-y", "--no-install-recommends"];
    let install = [&install[..], &["chromium", "chromium-driver"]].concat();
    for arguments in [vec!["update"], install] {
        eprintln!(
            "chromedriver was not found; running: apt-get {}",
            arguments.join(" ")
        );
        let mut command = Command::new("apt-get");
        command
            .args(&arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        let status = child::run_child(&mut command, signals).context("could not run apt-get")?;
        if !status.success() {
            bail!("could not install the browser. {ADVICE}");
        }
    }
    Ok(())
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
