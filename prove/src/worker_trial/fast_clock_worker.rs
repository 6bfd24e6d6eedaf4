//! A worker on the same host whose clock is ahead, so that it sees every lease as expired.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Call, Lifecycle, LifecycleError, LocalHost};
use plan::{Caller, Span, Timestamp};
use sandbox::{GitEnv, Sandboxes};
use store::{Clock, SqliteOptions, SqliteStore};

use crate::trial_env::TrialEnv;
use crate::worker_group::WORKER_LEASE;

/// How far the clock is ahead. Plans that it reclaims from killed workers become due that much later.
const CLOCK_OFFSET: Duration = WORKER_LEASE.saturating_mul(2);

/// Reclaims every lease that it may, and runs no actors. Does nothing on PostgreSQL, where all workers use the server's
/// clock.
pub struct FastClockWorker(Option<Lifecycle>);

impl FastClockWorker {
    /// Uses the home directory of the trial's workers, so it sees which of them are running.
    pub fn new(env: &TrialEnv) -> Self {
        let local_host = LocalHost {
            sandboxes: Sandboxes::new(
                &env.home,
                GitEnv {
                    program: "git".into(),
                    path: None,
                    home: None,
                    config_home: None,
                    timeout: sandbox::GIT_TIMEOUT,
                    stop: None,
                },
            ),
            host: "here".parse().expect("BUG: the name of a host"),
        };
        Self(open_engine(env).map(|engine| engine.with_local_host(local_host)))
    }

    /// Planted bug: reclaims expired leases without checking whether their holders are running.
    #[cfg(feature = "broken")]
    pub fn without_process_check(env: &TrialEnv) -> Self {
        Self(open_engine(env))
    }

    pub fn reclaim_expired(&self) -> anyhow::Result<()> {
        const MAX_LEASES: usize = 100;
        let Some(engine) = &self.0 else {
            return Ok(());
        };
        let call = Call::by(Caller::Worker("fast-clock".to_owned()));
        match engine.leases().reclaim_expired_leases(MAX_LEASES, &call) {
            Ok(_) | Err(LifecycleError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_engine(env: &TrialEnv) -> Option<Lifecycle> {
    let path = env.store_address.strip_prefix("sqlite:")?;
    let clock = Clock::default();
    let offset = Span(i64::try_from(CLOCK_OFFSET.as_micros()).unwrap_or(i64::MAX));
    let fast_clock = move || -> Timestamp { clock.now().saturating_add(offset) };
    let options = SqliteOptions {
        clock: Clock::new(fast_clock),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::new(path, options);
    Some(Lifecycle::on(Arc::new(store)))
}
