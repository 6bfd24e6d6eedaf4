//! Transcripts. An append takes a write turn of its own instead of joining a batch, and does not
//! sync the file: it costs the callers that wait to commit a fraction of a commit.

use plan::transcript::TranscriptEntry;
use plan::{Epoch, PlanId};
use rusqlite::{Connection, params};

use super::connection::run_statement;
use super::error::SqliteError;
use super::read::clamp_page_size;
use super::rows::{decode_json, encode_json, select_all, select_first};
use super::{SqliteStore, statements as sql};
use crate::transcript::split_into_batches;
use crate::{StoreError, StoredTranscriptEntry, TranscriptLog, TranscriptPosition};

/// Entries deleted in one transaction.
const DELETE_BATCH_SIZE: usize = 1000;

impl TranscriptLog for SqliteStore {
    fn append_transcript(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        first_sequence: u64,
        entries: &[TranscriptEntry],
    ) -> Result<(), StoreError> {
        if self.file.is_absent_or_empty() && !entries.is_empty() {
            return Err(StoreError::NoSuchPlan { plan_id });
        }
        let epoch = i64::try_from(epoch.0).unwrap_or(i64::MAX);
        for (first_sequence, batch) in split_into_batches(first_sequence, entries) {
            // Encoded before the turn, which others wait for.
            let bodies: Vec<String> = batch.iter().map(encode_json).collect();
            let is_stored = self.write_unsynced(|connection| {
                insert_entries(connection, plan_id, epoch, first_sequence, &bodies)
            })?;
            if !is_stored {
                return Err(StoreError::NoSuchPlan { plan_id });
            }
        }
        Ok(())
    }

    fn read_transcript(
        &self,
        plan_id: PlanId,
        after: Option<TranscriptPosition>,
        limit: usize,
    ) -> Result<Vec<StoredTranscriptEntry>, StoreError> {
        let (epoch, sequence) = TranscriptPosition::columns_after(after);
        self.read_snapshot_or(Vec::new(), |connection| {
            select_all(
                connection,
                sql::TRANSCRIPT_ENTRIES,
                params![plan_id.to_string(), epoch, sequence, clamp_page_size(limit)],
                |row| {
                    Ok(StoredTranscriptEntry {
                        position: TranscriptPosition::from_columns(row.get(0)?, row.get(1)?),
                        entry: decode_json(row.get_ref(2)?)?,
                    })
                },
            )
        })
    }

    fn find_transcript_end(
        &self,
        plan_id: PlanId,
    ) -> Result<Option<TranscriptPosition>, StoreError> {
        self.read_snapshot_or(None, |connection| {
            let plan_id = plan_id.to_string();
            select_first(connection, sql::TRANSCRIPT_END, [plan_id], |row| {
                Ok(TranscriptPosition::from_columns(row.get(0)?, row.get(1)?))
            })
        })
    }

    fn delete_transcript(&self, plan_id: PlanId) -> Result<u64, StoreError> {
        let mut total = 0;
        if self.file.is_absent_or_empty() {
            return Ok(total);
        }
        loop {
            let deleted = self.write_unsynced(|connection| {
                let mut delete = connection.prepare_cached(sql::DELETE_TRANSCRIPT_ENTRIES)?;
                Ok(delete.execute(params![plan_id.to_string(), DELETE_BATCH_SIZE])?)
            })?;
            total += deleted as u64;
            if deleted < DELETE_BATCH_SIZE {
                return Ok(total);
            }
        }
    }
}

/// Returns whether the plan exists. Only then are the entries stored.
fn insert_entries(
    connection: &Connection,
    plan_id: PlanId,
    epoch: i64,
    first_sequence: i64,
    bodies: &[String],
) -> Result<bool, SqliteError> {
    let plan_id = plan_id.to_string();
    if select_first(connection, sql::PLAN_HEAD, [&plan_id], |_| Ok(()))?.is_none() {
        return Ok(false);
    }
    let mut insert = connection.prepare_cached(sql::INSERT_TRANSCRIPT_ENTRY)?;
    for (sequence, body) in (first_sequence..).zip(bodies) {
        insert.execute(params![plan_id, epoch, sequence, body])?;
    }
    Ok(true)
}

impl SqliteStore {
    /// Writes in a turn of its own, in a transaction that survives a crash of the process and not
    /// necessarily a power loss. The next commit makes it durable.
    pub(super) fn write_unsynced<T>(
        &self,
        write: impl FnOnce(&Connection) -> Result<T, SqliteError>,
    ) -> Result<T, StoreError> {
        let mut turn = self.take_write_turn();
        let written = turn.with_unsynced_connection(self, |connection| {
            self.begin_transaction(connection)?;
            let written = write(connection);
            run_statement(
                connection,
                match written {
                    Ok(_) => sql::COMMIT,
                    Err(_) => sql::ROLLBACK,
                },
            )?;
            written
        });
        if turn.needs_wal_truncation() {
            turn.try_truncate_wal();
        }
        written.map_err(|error| error.into_store_error(self.file.display_path()))
    }
}
