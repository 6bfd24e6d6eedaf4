//! Settling a COMMIT that was not answered.
//!
//! Every commit writes the id of its submission. To learn what became of one, its id is inserted as
//! aborted, durably, on a new connection. Either that succeeds, and the commit has not happened and
//! never will, because it would collide with this row; or the row is there already and says what
//! happened. If the transaction still runs, the insert waits for its end: the server ends it when it
//! notices that its client is gone, at the latest when it was idle for too long.

use std::time::{Duration, Instant};

use plan::CommandId;

use super::Shared;
use super::connection::Connection;
use super::pipeline::values;
use super::rows::Columns;
use super::statements::{ABORT_COMMAND, COMMAND};
use super::trouble::{Trouble, corrupt};
use crate::StoreError;

/// How long we go on trying to reach the server.
const LONGEST: Duration = Duration::from_secs(10);

/// What became of it.
pub(super) enum Settled {
    /// It was committed.
    Committed,
    /// It was not, and will not be.
    NeverHappened,
    /// It could not be learnt.
    Unknown(StoreError),
}

/// Learns what became of a submission, or makes sure that nothing does.
pub(super) fn settle(shared: &Shared, id: CommandId) -> Settled {
    let until = Instant::now() + LONGEST;
    let mut pause = Duration::from_millis(20);
    loop {
        match try_to(shared, id) {
            Ok(true) => return Settled::Committed,
            Ok(false) => return Settled::NeverHappened,
            Err(error) if Instant::now() >= until => return Settled::Unknown(error),
            Err(_) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}

/// Was it committed?
fn try_to(shared: &Shared, id: CommandId) -> Result<bool, StoreError> {
    let mut connection = Connection::open(shared.pool.dial())?;
    let calls = vec![
        (ABORT_COMMAND, values![id.to_string()]),
        (COMMAND, values![id.to_string()]),
    ];
    let rows = connection
        .rows(None, calls, None)
        .map_err(Trouble::into_error)?;
    match rows[1].first() {
        Some(row) => Columns::of(row, shared.place()).get(0),
        None => Err(corrupt(shared.place(), "a command vanished")),
    }
}
