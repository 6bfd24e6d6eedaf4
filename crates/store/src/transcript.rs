//! The transcript interface of a store: what agents said and did, kept for every surface to show.

use plan::transcript::TranscriptEntry;
use plan::{Epoch, PlanId};

use crate::StoreError;

/// Entries written in one transaction. Bounds how long an append holds up other writers.
pub(crate) const APPEND_BATCH_SIZE: usize = 128;

/// Stores and reads transcripts.
///
/// # Contract
///
/// - A transcript is not part of its plan: an append changes neither the plan, its version nor its
///   log, takes no lock that a decision takes, and does not end
///   [`EventLog::wait_for_commit`](crate::EventLog::wait_for_commit) of other callers on purpose.
///   Readers poll while they show a transcript.
/// - An entry is identified by plan, epoch and sequence. The first one stored under an identity
///   stays: appending it again, or another in its place, changes nothing. So a caller that got an
///   error repeats the call.
/// - When an append returns `Ok`, every reader sees its entries. They survive a crash of the
///   process. A power loss, or a crash of the database server, may take the last ones: an entry is
///   not worth a wait for the disk.
/// - When it fails, the first entries of the call may be stored.
/// - Epochs are not fenced: a holder that lost its lease may still append what its agent did. Its
///   entries keep their epoch and so come before those of its successor, however late they arrive.
///   A reader that is past them does not see them.
pub trait TranscriptLog {
    /// Stores entries of one epoch. The first one gets the number `first_sequence`, the others the
    /// numbers after it.
    fn append_transcript(
        &self,
        plan_id: PlanId,
        epoch: Epoch,
        first_sequence: u64,
        entries: &[TranscriptEntry],
    ) -> Result<(), StoreError>;

    /// Returns a page of a plan's entries after a position, in order; `None` starts at the
    /// beginning.
    fn read_transcript(
        &self,
        plan_id: PlanId,
        after: Option<TranscriptPosition>,
        limit: usize,
    ) -> Result<Vec<StoredTranscriptEntry>, StoreError>;

    /// Returns the position of a plan's last entry.
    fn find_transcript_end(
        &self,
        plan_id: PlanId,
    ) -> Result<Option<TranscriptPosition>, StoreError>;

    /// Deletes a plan's entries, and returns how many there were. The plan keeps everything else.
    fn delete_transcript(&self, plan_id: PlanId) -> Result<u64, StoreError>;
}

/// The place of an entry in its plan's transcript. Sorts in reading order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TranscriptPosition {
    pub epoch: Epoch,
    pub sequence: u64,
}

impl TranscriptPosition {
    /// Returns the position to read an epoch's entries after, and those of later epochs; `None` for
    /// the first possible epoch.
    pub fn before_epoch(epoch: Epoch) -> Option<Self> {
        Some(Self {
            epoch: Epoch(epoch.0.checked_sub(1)?),
            sequence: u64::MAX,
        })
    }

    /// Returns the columns to compare with. Stored numbers never exceed the database's integers.
    pub(crate) fn columns_after(after: Option<Self>) -> (i64, i64) {
        let to_column = |number| i64::try_from(number).unwrap_or(i64::MAX);
        after.map_or((-1, -1), |after| {
            (to_column(after.epoch.0), to_column(after.sequence))
        })
    }

    pub(crate) fn from_columns(epoch: i64, sequence: i64) -> Self {
        Self {
            epoch: Epoch(epoch.unsigned_abs()),
            sequence: sequence.unsigned_abs(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTranscriptEntry {
    pub position: TranscriptPosition,
    pub entry: TranscriptEntry,
}

/// Splits the entries of an append into batches, each with the number of its first entry.
pub(crate) fn split_into_batches(
    first_sequence: u64,
    entries: &[TranscriptEntry],
) -> impl Iterator<Item = (i64, &[TranscriptEntry])> {
    let batches = entries.chunks(APPEND_BATCH_SIZE).enumerate();
    batches.map(move |(number, batch)| {
        let sequence = first_sequence.saturating_add((number * APPEND_BATCH_SIZE) as u64);
        (i64::try_from(sequence).unwrap_or(i64::MAX), batch)
    })
}
