//! A supervising program, and a worker that can be killed, for the supervision tests.

use std::ffi::OsString;
use std::process::ExitCode;

use planwright_sandbox::{Confinement, ProcessSpec, Supervisor};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    match rest.split_first() {
        Some((verb, rest)) if verb == "supervise" => planwright_sandbox::run_supervisor(rest),
        Some((verb, rest)) if verb == "work" => run_worker(program, rest),
        _ => ExitCode::from(2),
    }
}

/// `work DIRECTORY LOCK COMMAND…`: runs a command to its end, like a worker. The directory is an
/// argument of its supervising processes, so that tests can find them.
fn run_worker(program: OsString, words: &[OsString]) -> ExitCode {
    let [directory, lock, command @ ..] = words else {
        return ExitCode::from(2);
    };
    let spec = ProcessSpec {
        command: command.to_vec(),
        directory: directory.into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        input: None,
        confinement: Confinement::Off,
        locks: vec![lock.into()],
    };
    let words = vec![program, "supervise".into(), directory.clone()];
    let ended = Supervisor::new(words)
        .with_idle_process()
        .start_program(&spec)
        .and_then(planwright_sandbox::SupervisedRun::wait);
    match ended {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
