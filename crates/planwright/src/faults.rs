//! Fault injection for tests through `PLANWRIGHT_FAULT`. Release builds inject nothing.
//!
//! `PLANWRIGHT_FAULT=POINT:ACTION` with the points `decided`, `before-commit`, `after-commit` and
//! the actions `fail` and `kill` (SIGKILL to this process).

use store::fault::StoreFaults;

use crate::error::CommandError;

/// Faults of repository work. None in release builds.
#[cfg(not(debug_assertions))]
pub fn sandbox_faults() -> Result<sandbox::StepFaults, CommandError> {
    Ok(sandbox::StepFaults::default())
}

/// Faults of repository work: `PLANWRIGHT_FAULT=step:STEP:ACTION`.
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
    let step = sandbox::SandboxStep::ALL
        .iter()
        .find(|one| one.as_str() == step);
    let (Some(step), kill) = (step.copied(), action == "kill") else {
        return Err(CommandError::usage(format!(
            "PLANWRIGHT_FAULT=`{wanted}` does not name a step"
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

/// Faults of the store. None in release builds.
#[cfg(not(debug_assertions))]
pub fn store_faults() -> Result<StoreFaults, CommandError> {
    Ok(StoreFaults::default())
}

/// Faults of the store: `PLANWRIGHT_FAULT=POINT:ACTION`.
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
