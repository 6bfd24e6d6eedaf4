//! A worker of the same host whose clock is ahead: by it, every lease has expired.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Call, Lifecycle, LifecycleError, LocalHost};
use plan::{Caller, Span, Timestamp};
use sandbox::{GitEnv, Sandboxes};
use store::{Clock, SqliteOptions, SqliteStore};

use crate::crowd::LEASE;
use crate::ground::Ground;

/// By so much. Plans that it takes from the killed are due only that much later.
const AHEAD: Duration = LEASE.saturating_mul(2);

/// Takes every plan over that it may take. It works on none.
pub struct Hasty(Option<Lifecycle>);

impl Hasty {
    /// One that shares the home of the trial's workers. PostgreSQL has a clock of its own, which is one for all.
    pub fn on(ground: &Ground) -> Self {
        let hands = LocalHost {
            sandboxes: Sandboxes::new(
                &ground.home,
                GitEnv {
                    program: "git".into(),
                    path: None,
                    home: None,
                    config_home: None,
                    timeout: sandbox::GIT_TIMEOUT,
                },
            ),
            host: "here".parse().expect("BUG: the name of a host"),
        };
        Self(engine(ground).map(|engine| engine.with_local_host(hands)))
    }

    /// One that takes what has expired without asking who runs.
    #[cfg(feature = "broken")]
    pub fn blind(ground: &Ground) -> Self {
        Self(engine(ground))
    }

    /// Looks once.
    pub fn look(&self) -> anyhow::Result<()> {
        const MOST: usize = 100;
        let Some(engine) = &self.0 else {
            return Ok(());
        };
        match engine.reclaim_expired_leases(MOST, &Call::by(Caller::Worker("hasty".to_owned()))) {
            Ok(_) | Err(LifecycleError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn engine(ground: &Ground) -> Option<Lifecycle> {
    let path = ground.address.strip_prefix("sqlite:")?;
    let clock = Clock::default();
    let ahead = Span(i64::try_from(AHEAD.as_micros()).unwrap_or(i64::MAX));
    let ahead = move || -> Timestamp { clock.now().saturating_add(ahead) };
    let options = SqliteOptions {
        clock: Clock::new(ahead),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::new(path, options);
    Some(Lifecycle::on(Arc::new(store)))
}
