//! Confining this process, and whatever it becomes or starts, to what a program was given.
//!
//! What a program needs of the system to run at all is listed here and nowhere else. The lists are
//! narrow where a store or somebody's secrets may lie: nothing of `/home`, `/root`, `/tmp`, `/srv` or
//! `/mnt`, and of `/var` and `/run` only what is named. The network stays open: agents need it.

use std::sync::OnceLock;

use super::process_spec::ReachablePaths;
use super::run_ending::IsolationLevel;

/// Programs, libraries, their settings, and what the system says about itself.
#[cfg(target_os = "linux")]
const SYSTEM_READ_PATHS: &[&str] = &[
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
const READABLE_DEVICES: &[&str] = &["/dev/random", "/dev/urandom"];

/// Devices that take what is written to them. Not `/dev/pts`: all terminals of the user are in there, to be
/// read from as they type, and written to.
#[cfg(target_os = "linux")]
const WRITABLE_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Whether Landlock is used if it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LandlockMode {
    /// It is.
    IfAvailable,
    /// It is taken for missing.
    Disabled,
}

/// What this system offers. Nothing is confined by asking, and while a process lives the answer stays
/// the same.
pub fn detect_isolation() -> IsolationLevel {
    static DETECTED_ISOLATION: OnceLock<IsolationLevel> = OnceLock::new();
    *DETECTED_ISOLATION.get_or_init(|| {
        // Only the thread that says so is confined, and it ends with the answer.
        let asked = std::thread::spawn(|| {
            confine_thread(&ReachablePaths::default(), LandlockMode::IfAvailable)
        });
        match asked.join() {
            Ok(Ok(isolation)) => isolation,
            Ok(Err(_)) | Err(_) => IsolationLevel::Unavailable,
        }
    })
}

/// Confines the calling thread, and whatever it becomes or starts, for ever. Where the system offers
/// less than all of it, that much.
#[cfg(target_os = "linux")]
pub(super) fn confine_thread(
    paths: &ReachablePaths,
    landlock: LandlockMode,
) -> Result<IsolationLevel, String> {
    if landlock == LandlockMode::Disabled {
        return Ok(IsolationLevel::Unavailable);
    }
    landlock_rules::restrict_thread(paths).map_err(|error| error.to_string())
}

/// There is nothing that could confine it.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine_to(
    _reach: &ReachablePaths,
    _landlock: LandlockMode,
) -> Result<IsolationLevel, String> {
    Ok(IsolationLevel::Unavailable)
}

#[cfg(target_os = "linux")]
mod landlock_rules {
    use landlock::{
        ABI, Access, AccessFs, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
        RulesetError, RulesetStatus, Scope, path_beneath_rules,
    };

    use super::{
        IsolationLevel, READABLE_DEVICES, ReachablePaths, SYSTEM_READ_PATHS, WRITABLE_DEVICES,
    };

    /// The newest version of which we use everything.
    const NEWEST_ABI: ABI = ABI::V6;

    /// What is missing on an older kernel is left out, and the version that was found says what.
    pub fn restrict_thread(paths: &ReachablePaths) -> Result<IsolationLevel, RulesetError> {
        let reading = AccessFs::from_read(NEWEST_ABI);
        let everything = AccessFs::from_all(NEWEST_ABI);
        let status = Ruleset::default()
            .handle_access(everything)?
            .scope(Scope::from_all(NEWEST_ABI))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM_READ_PATHS, reading))?
            .add_rules(path_beneath_rules(READABLE_DEVICES, AccessFs::ReadFile))?
            .add_rules(path_beneath_rules(WRITABLE_DEVICES, device_write_access()))?
            .add_rules(path_beneath_rules(&paths.readable, reading))?
            .add_rules(path_beneath_rules(&paths.writable, everything))?
            .restrict_self()?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Ok(IsolationLevel::Unavailable);
        }
        Ok(match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => {
                IsolationLevel::from_landlock_abi(effective_abi as u32)
            }
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => {
                IsolationLevel::Unavailable
            }
        })
    }

    /// Opened, written and asked about, but neither made nor removed.
    fn device_write_access() -> landlock::BitFlags<AccessFs> {
        AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev
    }
}
