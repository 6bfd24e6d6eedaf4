//! The launcher, the last stage: a process that gives up rights the program must not have, and then
//! executes the program.
//!
//! It reports on a socket that closes when the program is executed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use super::MISUSE_EXIT_CODE;
use super::confine::{self, LandlockMode};
use super::messages::{self, LauncherMessage, ProcessSpecMessage};
use super::process_spec::{Confinement, ProcessSpec};
use super::run_ending::IsolationLevel;

/// Executes the program of the spec on standard input. `supervisor` is the process id of the
/// supervising process.
pub(super) fn run_launcher(supervisor: &OsStr, landlock: LandlockMode) -> ExitCode {
    let Ok(socket) = messages::open_stdin_socket() else {
        return ExitCode::from(MISUSE_EXIT_CODE);
    };
    let why = become_program(&socket, supervisor, landlock);
    // If the supervising process is gone, the report is lost.
    let _ = messages::send_message(&socket, &LauncherMessage::NotStarted(why));
    ExitCode::FAILURE
}

/// Returns only if it fails, with the reason.
fn become_program(socket: &UnixStream, supervisor: &OsStr, landlock: LandlockMode) -> String {
    if let Err(why) = tie_to_supervisor(supervisor) {
        return why;
    }
    // A new session: detached from the terminal, and a process group that can be signalled.
    if let Err(error) = rustix::process::setsid() {
        return format!("it cannot get its own session: {error}");
    }
    let line = messages::read_limited_line(&mut BufReader::new(socket), messages::MAX_SPEC_BYTES);
    let line = line.map(Option::unwrap_or_default);
    let spec = match line.and_then(|line| messages::decode_message::<ProcessSpecMessage>(&line)) {
        Ok(message) => message.into_spec(),
        Err(error) => return format!("its process spec cannot be read: {error}"),
    };
    let input = match &spec.input {
        None => Stdio::null(),
        // Opened before confinement, with the user's rights.
        Some(path) => match File::open(path) {
            Ok(file) => Stdio::from(file),
            Err(error) => return format!("its input {} cannot be read: {error}", path.display()),
        },
    };
    let isolation = match apply_confinement(&spec.confinement, landlock) {
        Ok(isolation) => isolation,
        Err(error) => return format!("it cannot be confined: {error}"),
    };
    if messages::send_message(socket, &LauncherMessage::Isolated(isolation)).is_err() {
        return "its supervisor is gone".to_owned();
    }
    let required = matches!(spec.confinement, Confinement::Required(_));
    if required && !isolation.confines_files() {
        return format!("isolation is required, but it would be {isolation}");
    }
    exec_program(&spec, input, isolation)
}

/// The kernel kills this process, and the program it becomes, when the supervising process ends.
#[cfg(target_os = "linux")]
fn tie_to_supervisor(supervisor: &OsStr) -> Result<(), String> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("it cannot be tied to its supervisor: {error}"))?;
    // The supervising process may have ended before that call.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    if parent.as_deref().map(OsStr::new) == Some(supervisor) {
        Ok(())
    } else {
        Err("its supervisor is gone".to_owned())
    }
}

#[cfg(not(target_os = "linux"))]
fn tie_to_supervisor(_supervisor: &OsStr) -> Result<(), String> {
    Ok(())
}

fn apply_confinement(
    confinement: &Confinement,
    landlock: LandlockMode,
) -> Result<IsolationLevel, String> {
    match confinement {
        Confinement::Off => Ok(IsolationLevel::Off),
        Confinement::WherePossible(paths) | Confinement::Required(paths) => {
            drop_capabilities();
            confine::confine_thread(paths, landlock)
        }
    }
}

/// With these, root could read the memory and environment of every process in spite of confinement.
/// Other users do not have them, so errors are ignored.
#[cfg(target_os = "linux")]
fn drop_capabilities() {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for capability in [
        CapabilitySet::PERFMON,
        CapabilitySet::SYS_PTRACE,
        CapabilitySet::SYS_ADMIN,
    ] {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

#[cfg(not(target_os = "linux"))]
fn drop_capabilities() {}

/// Executes the program. Returns only if it fails, with the reason.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
fn exec_program(spec: &ProcessSpec, input: Stdio, isolation: IsolationLevel) -> String {
    let mut words = spec.command.iter();
    let Some(program) = words.next() else {
        return "there is no command".to_owned();
    };
    if !spec.directory.is_dir() {
        return format!("{} is not a directory", spec.directory.display());
    }
    let error = Command::new(program)
        .args(words)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.directory)
        .stdin(input)
        .exec();
    let program = Path::new(program).display();
    let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
    if denied && isolation != IsolationLevel::Off {
        return format!("{program}: {error} (a confined program must be in a readable path)");
    }
    format!("{program}: {error}")
}
