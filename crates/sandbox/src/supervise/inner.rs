//! The last stage: a process that gives up what the program shall not have, and becomes the program.
//!
//! What it says, it says on a socket that closes when it becomes the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::MISUSED;
use super::confine::{self, Landlock};
use super::ending::Isolated;
use super::errand::{Confinement, Errand};
use super::wire::{self, Said, SentErrand};

/// Becomes the program of the errand on standard input, for the supervising process with this number.
pub(super) fn run(supervisor: &OsStr, landlock: Landlock) -> ExitCode {
    let Ok(socket) = wire::socket_at_standard_input() else {
        return ExitCode::from(MISUSED);
    };
    let why = become_program(&socket, supervisor, landlock);
    // Nobody to tell is nobody who would start anything else.
    let _ = wire::tell(&socket, &Said::NotStarted(why));
    ExitCode::FAILURE
}

/// Returns only to say why not.
fn become_program(socket: &UnixStream, supervisor: &OsStr, landlock: Landlock) -> String {
    if let Err(why) = die_with(supervisor) {
        return why;
    }
    // Out of reach of the terminal, and a group of its own that can be asked to end.
    if let Err(error) = rustix::process::setsid() {
        return format!("it gets no session of its own: {error}");
    }
    let line = wire::next_line(&mut BufReader::new(socket), wire::ERRAND_LIMIT);
    let line = line.map(Option::unwrap_or_default);
    let errand = match line.and_then(|line| wire::read_message::<SentErrand>(&line)) {
        Ok(errand) => errand.unpack(),
        Err(error) => return format!("its errand cannot be read: {error}"),
    };
    let input = match &errand.input {
        None => Stdio::null(),
        // Before anything is out of reach: it is the user who gives it.
        Some(path) => match File::open(path) {
            Ok(file) => Stdio::from(file),
            Err(error) => return format!("its input {} cannot be read: {error}", path.display()),
        },
    };
    let isolation = match confine(&errand.confinement, landlock) {
        Ok(isolation) => isolation,
        Err(error) => return format!("it cannot be confined: {error}"),
    };
    if wire::tell(socket, &Said::Isolated(isolation)).is_err() {
        return "nobody supervises it".to_owned();
    }
    let required = matches!(errand.confinement, Confinement::Required(_));
    if required && !isolation.confines_files() {
        return format!("isolation is required, but it would be {isolation}");
    }
    execute(&errand, input, isolation)
}

/// Whatever ends the supervising process ends this one, and the program that it becomes.
#[cfg(target_os = "linux")]
fn die_with(supervisor: &OsStr) -> Result<(), String> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("it cannot be tied to its supervisor: {error}"))?;
    // It may have ended before that was said.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.as_deref().map(OsStr::new) == Some(supervisor) {
        Ok(())
    } else {
        Err("its supervisor is gone".to_owned())
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_supervisor: &OsStr) -> Result<(), String> {
    Ok(())
}

fn confine(confinement: &Confinement, landlock: Landlock) -> Result<Isolated, String> {
    match confinement {
        Confinement::Off => Ok(Isolated::Off),
        Confinement::WherePossible(reach) | Confinement::Required(reach) => {
            give_up_powers();
            confine::confine_to(reach, landlock)
        }
    }
}

/// Root reads the memory and environment of every process by these, wherever it is confined to. Whoever is
/// not root has none of them to give up.
#[cfg(target_os = "linux")]
fn give_up_powers() {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for power in [
        CapabilitySet::PERFMON,
        CapabilitySet::SYS_PTRACE,
        CapabilitySet::SYS_ADMIN,
    ] {
        let _ = remove_capability_from_bounding_set(power);
    }
}

#[cfg(not(target_os = "linux"))]
fn give_up_powers() {}

/// Executes the program; returns only to say why not.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn execute(errand: &Errand, input: Stdio, isolation: Isolated) -> String {
    let mut words = errand.command.iter();
    let Some(program) = words.next() else {
        return "there is no command".to_owned();
    };
    if !errand.directory.is_dir() {
        return format!("{} is not a directory", errand.directory.display());
    }
    let error = Command::new(program)
        .args(words)
        .env_clear()
        .envs(errand.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&errand.directory)
        .stdin(input)
        .exec();
    let program = Path::new(program).display();
    let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
    if denied && isolation != Isolated::Off {
        return format!("{program}: {error} (confined, it must lie where it may read)");
    }
    format!("{program}: {error}")
}
