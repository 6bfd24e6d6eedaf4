//! Confines a thread, and everything it becomes or starts, to the paths that a program was given.
//!
//! The system paths that every program needs are listed only here. The lists are narrow where
//! secrets or a store may be: nothing of `/home`, `/root`, `/tmp`, `/srv` or `/mnt`, and of `/var`
//! and `/run` only single entries. The network is not confined, because agents need it.

use std::sync::OnceLock;

use super::process_spec::ReachablePaths;
use super::run_ending::IsolationLevel;

/// Programs, libraries, their configuration, and information about the system.
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
    // Package stores of some distributions.
    "/nix/store",
    "/nix/var/nix/profiles",
    "/gnu/store",
    "/snap",
    "/home/linuxbrew/.linuxbrew",
    "/run/current-system",
    "/run/opengl-driver",
    // Targets of symlinks in `/etc`: name servers and certificates.
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/mnt/wsl/resolv.conf",
    "/var/lib/ca-certificates",
    // Read by package managers and interpreters.
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/gems",
    "/var/lib/snapd",
    "/var/lib/texmf",
    "/var/cache/fontconfig",
];

#[cfg(target_os = "linux")]
const READABLE_DEVICES: &[&str] = &["/dev/random", "/dev/urandom"];

/// Not `/dev/pts`: it contains all terminals of the user, which could be read while they type and
/// written to.
#[cfg(target_os = "linux")]
const WRITABLE_DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LandlockMode {
    IfAvailable,
    /// Behave as if Landlock were not available, for tests.
    Disabled,
}

/// What this system supports. Confines nothing. The answer is cached for the process.
pub fn detect_isolation() -> IsolationLevel {
    static DETECTED_ISOLATION: OnceLock<IsolationLevel> = OnceLock::new();
    *DETECTED_ISOLATION.get_or_init(|| {
        // Landlock confines the calling thread only, and this thread ends with the answer.
        let probe = std::thread::spawn(|| {
            confine_thread(&ReachablePaths::default(), LandlockMode::IfAvailable)
        });
        match probe.join() {
            Ok(Ok(isolation)) => isolation,
            Ok(Err(_)) | Err(_) => IsolationLevel::Unavailable,
        }
    })
}

/// Confines the calling thread, and everything it becomes or starts, permanently, as far as the
/// kernel supports it.
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

/// Only Linux has Landlock.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine_thread(
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

    /// The newest version whose features are all used.
    const NEWEST_ABI: ABI = ABI::V6;

    /// Features that an older kernel lacks are skipped; the returned version tells which.
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

    /// Open, read, write and ioctl, but neither create nor remove.
    fn device_write_access() -> landlock::BitFlags<AccessFs> {
        AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::IoctlDev
    }
}
