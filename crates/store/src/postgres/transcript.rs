//! Transcripts. An append is one round trip, takes no advisory lock and does not wait for the disk.

use plan::transcript::TranscriptEntry;
use plan::{Epoch, PlanId};

use super::PostgresStore;
use super::error::PostgresError;
use super::migrate::{SUPPORTED_SCHEMA_VERSION, decode_schema_version, require_supported_schema};
use super::pipeline::values;
use super::rows::RowColumns;
use super::statements::{APPEND_TRANSCRIPT, DELETE_TRANSCRIPT, TRANSCRIPT_END, TRANSCRIPT_ENTRIES};
use super::tail::clamp_page_size;
use crate::transcript::split_into_batches;
use crate::{StoreError, StoredTranscriptEntry, TranscriptLog, TranscriptPosition};

const BEGIN_UNSYNCED: &str = "BEGIN; SET LOCAL synchronous_commit TO off";

impl TranscriptLog for PostgresStore {
    fn append_transcript(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        first_sequence: u64,
        entries: &[TranscriptEntry],
    ) -> Result<(), StoreError> {
        let epoch = i64::try_from(epoch.0).unwrap_or(i64::MAX);
        for (first_sequence, batch) in split_into_batches(first_sequence, entries) {
            let bodies: Vec<String> = batch.iter().map(encode_entry).collect();
            let values = || {
                let id = plan_id.to_string();
                values![id, schema_column(), epoch, first_sequence, &bodies]
            };
            // Whether the plan exists.
            if self.write_unsynced(APPEND_TRANSCRIPT, values)? != Some(1) {
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
        let rows = self.shared.read_rows(|_| {
            let limit = clamp_page_size(limit);
            let values = values![plan_id.to_string(), epoch, sequence, limit];
            vec![(TRANSCRIPT_ENTRIES, values)]
        })?;
        let Some([entries]) = rows.as_deref() else {
            return Ok(Vec::new());
        };
        let decode_row = |row| {
            let row = RowColumns::new(row, self.shared.place());
            Ok(StoredTranscriptEntry {
                position: TranscriptPosition::from_columns(row.get(0)?, row.get(1)?),
                entry: row.decode_json(2)?,
            })
        };
        entries.iter().map(decode_row).collect()
    }

    fn find_transcript_end(
        &self,
        plan_id: PlanId,
    ) -> Result<Option<TranscriptPosition>, StoreError> {
        let values = || values![plan_id.to_string()];
        let rows = self
            .shared
            .read_rows(|_| vec![(TRANSCRIPT_END, values())])?;
        let Some([rows]) = rows.as_deref() else {
            return Ok(None);
        };
        let end = rows.first().map(|row| {
            let row = RowColumns::new(row, self.shared.place());
            Ok(TranscriptPosition::from_columns(row.get(0)?, row.get(1)?))
        });
        end.transpose()
    }

    fn delete_transcript(&self, plan_id: PlanId) -> Result<u64, StoreError> {
        let values = || values![plan_id.to_string(), schema_column()];
        let deleted = self.write_unsynced(DELETE_TRANSCRIPT, values)?;
        Ok(deleted.unwrap_or(0).unsigned_abs())
    }
}

impl PostgresStore {
    /// Runs a statement that returns the schema version and a number, and writes only under this
    /// program's schema. Returns the number; `None` if there is no store. Repeated if the
    /// connection is lost, so the statement must be repeatable.
    fn write_unsynced<'a>(
        &self,
        sql: &'static str,
        values: impl Fn() -> Vec<super::pipeline::Value<'a>>,
    ) -> Result<Option<i64>, StoreError> {
        self.shared.run_in_snapshot(|connection, place| {
            let calls = vec![(sql, values())];
            let answers = connection.query_all(Some(BEGIN_UNSYNCED), calls, Some("COMMIT"))?;
            let Some(row) = answers[1].first() else {
                return Ok(0);
            };
            let row = RowColumns::new(row, place);
            decode_schema_version(row)
                .and_then(|found| require_supported_schema(place, found))
                .and_then(|()| row.get(1))
                .map_err(PostgresError::Permanent)
        })
    }
}

/// The column that statements compare with the version of the store.
fn schema_column() -> i32 {
    i32::try_from(SUPPORTED_SCHEMA_VERSION).unwrap_or(i32::MAX)
}

fn encode_entry(entry: &TranscriptEntry) -> String {
    serde_json::to_string(entry).expect("BUG: what is stored always encodes")
}
