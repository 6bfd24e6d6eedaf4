//! Finds axe-core, which checks the page's accessibility in tests, or gets it from the npm registry.
//!
//! It is unpacked below the target directory. The repository does not contain it, and the product does not use it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::signals::StopSignals;
use crate::{cargo, child};

const AXE_VERSION: &str = "4.14.0";

const ADVICE: &str = "The tests of the page's accessibility need axe-core, and npm to get it. On Debian:\n  \
     sudo apt-get install -y npm";

/// Makes sure that `target/axe-core/package/axe.min.js` exists.
pub fn find_or_install_axe(signals: &StopSignals) -> anyhow::Result<()> {
    let directory = cargo::target_directory()?.join("axe-core");
    let version_file = directory.join("version");
    let is_current = std::fs::read_to_string(&version_file).is_ok_and(|text| text == AXE_VERSION);
    if is_current && script_in(&directory).is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(&directory)?;
    eprintln!("axe-core {AXE_VERSION} was not found; getting it from the npm registry");
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", &format!("axe-core@{AXE_VERSION}")]);
    run(pack, &directory, signals)?;
    let mut unpack = Command::new("tar");
    unpack.args(["-xzf", &format!("axe-core-{AXE_VERSION}.tgz")]);
    run(unpack, &directory, signals)?;
    if !script_in(&directory).is_file() {
        bail!("axe-core {AXE_VERSION} has no axe.min.js. {ADVICE}");
    }
    std::fs::write(version_file, AXE_VERSION)?;
    Ok(())
}

fn script_in(directory: &Path) -> PathBuf {
    directory.join("package/axe.min.js")
}

fn run(mut command: Command, directory: &Path, signals: &StopSignals) -> anyhow::Result<()> {
    command.current_dir(directory);
    let status = child::run_child(&mut command, signals).context(ADVICE)?;
    if !status.success() {
        bail!("{command:?} failed. {ADVICE}");
    }
    Ok(())
}
