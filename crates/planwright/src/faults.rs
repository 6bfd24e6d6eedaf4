//! Faults a test may ask for through the environment; in release builds there are none.
//!
//! `PLANWRIGHT_FAULT=POINT:ACTION` with the points `decided`, `before-commit`, `after-commit` and
//! the actions `fail` and `kill` (the process ends there, as by SIGKILL).

use store::fault::Faults;

use crate::error::CommandError;

/// The faults this process runs with.
#[cfg(not(debug_assertions))]
pub fn from_environment() -> Result<Faults, CommandError> {
    Ok(Faults::default())
}

/// The faults this process runs with.
#[cfg(debug_assertions)]
#[expect(
    clippy::disallowed_methods,
    reason = "only for tests, and only in debug builds"
)]
pub fn from_environment() -> Result<Faults, CommandError> {
    use store::fault::{Fault, FaultPoint};

    let Ok(wanted) = std::env::var("PLANWRIGHT_FAULT") else {
        return Ok(Faults::default());
    };
    let refuse = || CommandError::usage(format!("PLANWRIGHT_FAULT=`{wanted}` is not POINT:ACTION"));
    let (point, action) = wanted.split_once(':').ok_or_else(refuse)?;
    let point = match point {
        "decided" => FaultPoint::Decided,
        "before-commit" => FaultPoint::BeforeCommit,
        "after-commit" => FaultPoint::AfterCommit,
        _ => return Err(refuse()),
    };
    let kill = match action {
        "fail" => false,
        "kill" => true,
        _ => return Err(refuse()),
    };
    Ok(Faults::new(move |at| {
        if at != point {
            return Fault::None;
        }
        if kill {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        Fault::Fail
    }))
}
