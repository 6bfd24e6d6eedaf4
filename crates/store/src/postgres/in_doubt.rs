//! Determines the outcome of a COMMIT whose response was lost.
//!
//! Every commit inserts the id of its submission. To learn its outcome, a new connection inserts
//! the same id as aborted, durably. If that succeeds, the commit has not happened and never will,
//! because it would collide with this row. If the row already exists, it records the outcome.
//!
//! If the transaction still runs, the insert waits for its end. The server ends it when it detects
//! that the client is gone, at the latest after the idle timeout.

use std::time::{Duration, Instant};

use plan::CommandId;

use super::PostgresShared;
use super::connection::PostgresConnection;
use super::error::{PostgresError, corrupt_error};
use super::pipeline::values;
use super::rows::RowColumns;
use super::statements::{ABORT_COMMAND, COMMAND_STATUS};
use crate::StoreError;

/// How long to retry while the server is unreachable.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) enum PostgresCommitStatus {
    Committed,
    /// It was not committed and never will be.
    Aborted,
    /// The server could not be asked.
    Unknown(StoreError),
}

/// Determines whether a submission was committed, or prevents that it ever is.
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

fn was_committed(shared: &PostgresShared, command_id: CommandId) -> Result<bool, StoreError> {
    let mut connection = PostgresConnection::open(shared.pool.connection_config())?;
    let calls = vec![
        (ABORT_COMMAND, values![command_id.to_string()]),
        (COMMAND_STATUS, values![command_id.to_string()]),
    ];
    let rows = connection
        .query_all(None, calls, None)
        .map_err(PostgresError::into_store_error)?;
    match rows[1].first() {
        Some(row) => RowColumns::new(row, shared.place()).get(0),
        None => Err(corrupt_error(shared.place(), "a command has disappeared")),
    }
}
