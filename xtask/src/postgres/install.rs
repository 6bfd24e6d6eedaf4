//! Installs PostgreSQL with the system's package manager, if that works without a password.

use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::child;
use crate::signals::StopSignals;

/// Installs PostgreSQL's server programs, or returns an error with the command to type.
pub fn install_postgres(signals: &StopSignals) -> anyhow::Result<()> {
    let Some(manager) = PackageManager::ALL
        .into_iter()
        .find(|manager| is_in_path(manager.program()))
    else {
        bail!(
            "PostgreSQL's server programs (initdb, postgres, pg_ctl) were not found, and neither was a \
             known package manager. Install PostgreSQL and add its bin directory to PATH"
        );
    };
    let Some(commands) = manager.install_commands(InstallRights::of_current_process()) else {
        bail!(
            "PostgreSQL's server programs (initdb, postgres, pg_ctl) were not found, and installing them \
             needs root. Run:\n  {}",
            manager.manual_command()
        );
    };
    if manager == PackageManager::AptGet {
        eprintln!("note: Debian's package also creates a cluster `main`, which xtask does not use");
    }
    for arguments in commands {
        eprintln!("PostgreSQL was not found; running: {}", arguments.join(" "));
        let mut command = Command::new(arguments[0]);
        command
            .args(&arguments[1..])
            .envs(NONINTERACTIVE_ENV.split_once('='));
        let status = child::run_child(&mut command, signals)
            .with_context(|| format!("could not run {}", arguments[0]))?;
        if !status.success() {
            bail!(
                "could not install PostgreSQL. Try it yourself, then run xtask again:\n  {}",
                manager.manual_command()
            );
        }
    }
    Ok(())
}

/// Keeps Debian's packages from asking questions. Other package managers ignore it.
const NONINTERACTIVE_ENV: &str = "DEBIAN_FRONTEND=noninteractive";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackageManager {
    AptGet,
    Dnf,
    Apk,
    Pacman,
    Brew,
}

/// How this process can install packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstallRights {
    Root,
    /// `sudo` asks for no password.
    Sudo,
    User,
}

impl InstallRights {
    fn of_current_process() -> Self {
        if rustix::process::geteuid().is_root() {
            return Self::Root;
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "true"])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        match sudo.status() {
            Ok(status) if status.success() => Self::Sudo,
            _ => Self::User,
        }
    }
}

impl PackageManager {
    const ALL: [Self; 5] = [Self::AptGet, Self::Dnf, Self::Apk, Self::Pacman, Self::Brew];

    fn program(self) -> &'static str {
        match self {
            Self::AptGet => "apt-get",
            Self::Dnf => "dnf",
            Self::Apk => "apk",
            Self::Pacman => "pacman",
            Self::Brew => "brew",
        }
    }

    /// The commands that install the server, in order. `None` if these rights are not sufficient.
    fn install_commands(self, rights: InstallRights) -> Option<Vec<Vec<&'static str>>> {
        let prefix: &[&str] = match (self, rights) {
            // Homebrew installs for its user and refuses to run as root.
            (Self::Brew, InstallRights::Root) => return None,
            (Self::Brew, InstallRights::Sudo | InstallRights::User) | (_, InstallRights::Root) => {
                &[]
            }
            // sudo does not pass our environment on.
            (_, InstallRights::Sudo) => &["sudo", "-n", "env", NONINTERACTIVE_ENV],
            (_, InstallRights::User) => return None,
        };
        Some(
            self.base_commands()
                .iter()
                .map(|command| [prefix, command].concat())
                .collect(),
        )
    }

    /// What a person has to type.
    fn manual_command(self) -> String {
        let prefix = if self == Self::Brew { "" } else { "sudo " };
        let lines: Vec<String> = self
            .base_commands()
            .iter()
            .map(|command| format!("{prefix}{}", command.join(" ")))
            .collect();
        lines.join(" && ")
    }

    fn base_commands(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::AptGet => &[
                &["apt-get", "update"],
                &[
                    "apt-get",
                    "install",
                    "-y",
                    "--no-install-recommends",
                    "postgresql",
                ],
            ],
            Self::Dnf => &[&[
                "dnf",
                "install",
                "-y",
                "postgresql-server",
                "postgresql-contrib",
            ]],
            Self::Apk => &[&["apk", "add", "postgresql"]],
            Self::Pacman => &[&["pacman", "-Sy", "--noconfirm", "--needed", "postgresql"]],
            Self::Brew => &[&["brew", "install", "postgresql@17"]],
        }
    }
}

fn is_in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_commands(manager: PackageManager, rights: InstallRights, expected: Option<&[&str]>) {
        let commands = manager.install_commands(rights);
        let lines: Option<Vec<String>> =
            commands.map(|commands| commands.iter().map(|words| words.join(" ")).collect());
        let expected = expected.map(|lines| {
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<String>>()
        });
        assert_eq!(lines, expected);
    }

    #[test]
    fn commands_fit_the_rights() {
        check_commands(
            PackageManager::AptGet,
            InstallRights::Root,
            Some(&[
                "apt-get update",
                "apt-get install -y --no-install-recommends postgresql",
            ]),
        );
        check_commands(
            PackageManager::Apk,
            InstallRights::Sudo,
            Some(&["sudo -n env DEBIAN_FRONTEND=noninteractive apk add postgresql"]),
        );
        check_commands(PackageManager::Dnf, InstallRights::User, None);
        check_commands(
            PackageManager::Brew,
            InstallRights::User,
            Some(&["brew install postgresql@17"]),
        );
        check_commands(PackageManager::Brew, InstallRights::Root, None);
    }

    #[test]
    fn advice_can_be_pasted() {
        assert_eq!(
            PackageManager::AptGet.manual_command(),
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends postgresql"
        );
        assert_eq!(
            PackageManager::Brew.manual_command(),
            "brew install postgresql@17"
        );
    }
}
