//! Faults a test may ask for through the environment; in release builds there are none.
//!
//! `PLANWRIGHT_FAULT=POINT:ACTION` with the points `decided`, `before-commit`, `after-commit` and
//! the actions `fail` and `kill` (the process ends there, as by SIGKILL).

use store::fault::StoreFaults;

use crate::error::CommandError;

/// The faults of work on repositories this process runs with: `PLANWRIGHT_FAULT=step:STEP:ACTION`.
#[cfg(not(debug_assertions))]
pub fn of_sandboxes() -> Result<sandbox::StepFaults, CommandError> {
    Ok(sandbox::StepFaults::default())
}

/// The faults of work on repositories this process runs with: `PLANWRIGHT_FAULT=step:STEP:ACTION`.
#[cfg(debug_assertions)]
#[expect(
    clippy::disallowed_methods,
    reason = "only for tests, and only in debug builds"
)]
pub fn sandbox_faults() -> Result<sandbox::StepFaults, CommandError> {
    let Ok(wanted) = std::env::var("PLANWRIGHT_FAULT") else {
        return Ok(sandbox::StepFaults::default());
    };
    let Some((step, action)) = wanted
        .strip_prefix("step:")
        .and_then(|rest| rest.split_once(':'))
    else {
        return Ok(sandbox::StepFaults::default());
    };
    let step = sandbox::Step::ALL.iter().find(|one| one.as_str() == step);
    let (Some(step), kill) = (step.copied(), action == "kill") else {
        return Err(CommandError::usage(format!(
            "PLANWRIGHT_FAULT=`{wanted}` names no step"
        )));
    };
    Ok(sandbox::StepFaults::new(move |at| {
        if at != step {
            return Ok(());
        }
        if kill {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        Err(std::io::ErrorKind::StorageFull.into())
    }))
}

/// The faults this process runs with.
#[cfg(not(debug_assertions))]
pub fn from_environment() -> Result<StoreFaults, CommandError> {
    Ok(StoreFaults::default())
}

/// The faults this process runs with.
#[cfg(debug_assertions)]
#[expect(
    clippy::disallowed_methods,
    reason = "only for tests, and only in debug builds"
)]
pub fn store_faults() -> Result<StoreFaults, CommandError> {
    use store::fault::{FaultPoint, StoreFault};

    let Ok(wanted) = std::env::var("PLANWRIGHT_FAULT") else {
        return Ok(StoreFaults::default());
    };
    if wanted.starts_with("step:") {
        return Ok(StoreFaults::default());
    }
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
    Ok(StoreFaults::new(move |at| {
        if at != point {
            return StoreFault::None;
        }
        if kill {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        StoreFault::Fail
    }))
}
