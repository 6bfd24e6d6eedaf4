//! Confining this process, and whatever it becomes or starts, to what a program was given.
//!
//! What a program needs of the system to run at all is listed here and nowhere else. The lists are
//! narrow where a store or somebody's secrets may lie: nothing of `/home`, `/root`, `/tmp`, `/srv` or
//! `/mnt`, and of `/var` and `/run` only what is named. The network stays open: agents need it.

use std::sync::OnceLock;

use super::ending::Isolated;
use super::errand::Reach;

/// Programs, libraries, their settings, and what the system says about itself.
#[cfg(target_os = "linux")]
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/proc",
    "/sys",
    // Where some systems keep everything that is installed.
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/run/current-system",
    "/run/opengl-driver",
    // What `/etc` leads to: name servers and certificates.
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/mnt/wsl/resolv.conf",
    "/var/lib/ca-certificates",
    // What package managers and interpreters look into.
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/gems",
    "/var/lib/snapd",
    "/var/lib/texmf",
    "/var/cache/fontconfig",
];

/// Devices that give something to read and nothing to break.
#[cfg(target_os = "linux")]
const SOURCES: &[&str] = &["/dev/random", "/dev/urandom"];

/// Devices that take what is written to them. Not `/dev/pts`: all terminals of the user are in there, to be
/// read from as they type, and written to.
#[cfg(target_os = "linux")]
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Whether Landlock is used if it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Landlock {
    /// It is.
    AsFound,
    /// It is taken for missing.
    Denied,
}

/// What this system offers. Nothing is confined by asking, and while a process lives the answer stays
/// the same.
pub fn offered() -> Isolated {
    static OFFERED: OnceLock<Isolated> = OnceLock::new();
    *OFFERED.get_or_init(|| {
        // Only the thread that says so is confined, and it ends with the answer.
        let asked = std::thread::spawn(|| confine_to(&Reach::default(), Landlock::AsFound));
        match asked.join() {
            Ok(Ok(isolation)) => isolation,
            Ok(Err(_)) | Err(_) => Isolated::Unavailable,
        }
    })
}

/// Confines the calling thread, and whatever it becomes or starts, for ever. Where the system offers
/// less than all of it, that much.
#[cfg(target_os = "linux")]
pub(super) fn confine_to(reach: &Reach, landlock: Landlock) -> Result<Isolated, String> {
    if landlock == Landlock::Denied {
        return Ok(Isolated::Unavailable);
    }
    by_landlock::restrict(reach).map_err(|error| error.to_string())
}

/// There is nothing that could confine it.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine_to(_reach: &Reach, _landlock: Landlock) -> Result<Isolated, String> {
    Ok(Isolated::Unavailable)
}

#[cfg(target_os = "linux")]
mod by_landlock {
    use landlock::{
        ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };

    use super::{Isolated, Reach, SINKS, SOURCES, SYSTEM};

    /// The newest version of which we use everything.
    const NEWEST: ABI = ABI::V6;

    /// What is missing on an older kernel is left out, and the version that was found says what.
    pub fn restrict(reach: &Reach) -> Result<Isolated, RulesetError> {
        let reading = AccessFs::from_read(NEWEST);
        let everything = AccessFs::from_all(NEWEST);
        let status = Ruleset::default()
            .handle_access(everything)?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, reading))?
            .add_rules(path_beneath_rules(SOURCES, AccessFs::ReadFile))?
            .add_rules(path_beneath_rules(SINKS, writing_devices()))?
            .add_rules(path_beneath_rules(&reach.readable, reading))?
            .add_rules(path_beneath_rules(&reach.writable, everything))?
            .restrict_self()?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Ok(Isolated::Unavailable);
        }
        Ok(match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => {
                Isolated::by_landlock(effective_abi as u32)
            }
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => Isolated::Unavailable,
        })
    }

    /// Opened, written and asked about, but neither made nor removed.
    fn writing_devices() -> landlock::BitFlags<AccessFs> {
        AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev
    }
}
