//! Settling a COMMIT that was not answered.
//!
//! Every commit writes the id of its submission. To learn what became of one, its id is inserted as
//! aborted, durably, on a new connection. Either that succeeds, and the commit has not happened and
//! never will, because it would collide with this row; or the row is there already and says what
//! happened. If the transaction still runs, the insert waits for its end: the server ends it when it
//! notices that its client is gone, at the latest when it was idle for too long.

use std::time::{Duration, Instant};

use plan::CommandId;

use super::PostgresShared;
use super::connection::PostgresConnection;
use super::error::{PostgresError, corrupt_error};
use super::pipeline::values;
use super::rows::RowColumns;
use super::statements::{ABORT_COMMAND, COMMAND};
use crate::StoreError;

/// How long we go on trying to reach the server.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What became of it.
pub(super) enum PostgresCommitStatus {
    /// It was committed.
    Committed,
    /// It was not, and will not be.
    Aborted,
    /// It could not be learnt.
    Unknown(StoreError),
}

/// Learns what became of a submission, or makes sure that nothing does.
pub(super) fn resolve_in_doubt_commit(
    shared: &PostgresShared,
    command_id: CommandId,
) -> PostgresCommitStatus {
    let deadline = Instant::now() + RESOLVE_TIMEOUT;
    let mut delay = Duration::from_millis(20);
    loop {
        match was_committed(shared, command_id) {
            Ok(true) => return PostgresCommitStatus::Committed,
            Ok(false) => return PostgresCommitStatus::Aborted,
            Err(error) if Instant::now() >= deadline => {
                return PostgresCommitStatus::Unknown(error);
            }
            Err(_) => {
                std::thread::sleep(delay);
                delay = (delay * 2).min(Duration::from_secs(1));
            }
        }
    }
}

/// Was it committed?
fn was_committed(shared: &PostgresShared, command_id: CommandId) -> Result<bool, StoreError> {
    let mut connection = PostgresConnection::open(shared.pool.connection_config())?;
    let calls = vec![
        (ABORT_COMMAND, values![command_id.to_string()]),
        (COMMAND, values![command_id.to_string()]),
    ];
    let rows = connection
        .query_all(None, calls, None)
        .map_err(PostgresError::into_store_error)?;
    match rows[1].first() {
        Some(row) => RowColumns::new(row, shared.place()).get(0),
        None => Err(corrupt_error(shared.place(), "a command vanished")),
    }
}
