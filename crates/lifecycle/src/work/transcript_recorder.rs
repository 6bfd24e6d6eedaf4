//! Stores what an agent says and does while it works, in bounded batches, so that every host can show it.
//!
//! A transcript is not worth a run: recording never blocks the agent and never fails. While the store is
//! unavailable, entries wait in bounded memory.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plan::transcript::{NoticeLevel, TranscriptContent, TranscriptEntry};
use plan::{Epoch, PlanId};
use store::TranscriptLog;

/// A batch is written when it has this many entries, or its first one is this old.
const MAX_BATCH_LEN: usize = 64;
const MAX_BATCH_AGE: Duration = Duration::from_millis(500);

/// The pause after a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// How many entries may wait for the store.
const MAX_PENDING: usize = 2_000;

/// How much is stored of one run. After that, only its last entries are.
const MAX_RUN_ENTRIES: usize = 20_000;
const MAX_RUN_BYTES: usize = 16 * 1024 * 1024;
const MAX_LAST_ENTRIES: usize = 100;

/// The longest text made of streamed pieces.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// Records the transcript of one run.
pub(crate) struct TranscriptRecorder<'a> {
    store: &'a (dyn TranscriptLog + Sync),
    plan_id: PlanId,
    epoch: Epoch,
    started_at: Instant,
    state: Mutex<RecorderState>,
    changed: Condvar,
}

#[derive(Default)]
struct RecorderState {
    pending: VecDeque<TranscriptEntry>,
    /// When the first of the pending entries arrived.
    pending_since: Option<Instant>,
    /// Entries that are being written. They stay the same until the write succeeds, because a failed
    /// write may have stored some of them.
    batch: Vec<TranscriptEntry>,
    /// The number of the first entry of the batch.
    next_sequence: u64,
    accepted_entries: usize,
    accepted_bytes: usize,
    /// The last entries of a run that says too much.
    last_entries: VecDeque<TranscriptEntry>,
    /// Entries that are not stored.
    omitted_entries: usize,
    finished: bool,
}

impl<'a> TranscriptRecorder<'a> {
    pub(crate) fn new(
        store: &'a (dyn TranscriptLog + Sync),
        plan_id: PlanId,
        epoch: Epoch,
    ) -> Self {
        Self {
            store,
            plan_id,
            epoch,
            started_at: Instant::now(),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Adds the time to an entry and queues it.
    pub(crate) fn record(&self, content: TranscriptContent) -> TranscriptEntry {
        let elapsed_ms = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let entry = TranscriptEntry {
            elapsed_ms,
            content,
        };
        let mut state = self.lock_state();
        state.accept(entry.clone());
        let is_ready = state.pending.len() >= MAX_BATCH_LEN;
        drop(state);
        if is_ready {
            self.changed.notify_all();
        }
        entry
    }

    /// Writes batches until the run is finished. Runs on a thread of its own.
    pub(crate) fn write_until_finished(&self) {
        let mut failed_at: Option<Instant> = None;
        let mut state = self.lock_state();
        while !state.finished {
            let due_at = match failed_at {
                Some(failed_at) => Some(failed_at + RETRY_INTERVAL),
                None if state.pending.len() >= MAX_BATCH_LEN => Some(Instant::now()),
                None => state.pending_since.map(|since| since + MAX_BATCH_AGE),
            };
            let wait = due_at.map_or(MAX_BATCH_AGE, |due_at| {
                due_at.saturating_duration_since(Instant::now())
            });
            if due_at.is_none() || !wait.is_zero() {
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(state);
            failed_at = match self.write_batch() {
                true => None,
                false => Some(Instant::now()),
            };
            state = self.lock_state();
        }
    }

    /// Ends the run when the guard is dropped: no entry follows.
    pub(crate) fn finish_on_drop(&self) -> FinishGuard<'_, 'a> {
        FinishGuard(self)
    }

    fn finish(&self) {
        let mut state = self.lock_state();
        if !state.finished {
            state.finished = true;
            state.accept_last_entries();
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Writes what is left, as far as the store takes it. Can be repeated.
    pub(crate) fn write_rest(&self) {
        while self.has_rest() && self.write_batch() {}
    }

    fn has_rest(&self) -> bool {
        let state = self.lock_state();
        !state.pending.is_empty() || !state.batch.is_empty()
    }

    /// Writes one batch. Returns whether the store took it.
    fn write_batch(&self) -> bool {
        let mut state = self.lock_state();
        if state.batch.is_empty() {
            let len = state.pending.len().min(MAX_BATCH_LEN);
            state.batch = state.pending.drain(..len).collect();
            state.pending_since = (!state.pending.is_empty()).then(Instant::now);
        }
        let (first_sequence, batch) = (state.next_sequence, std::mem::take(&mut state.batch));
        drop(state);
        let written =
            self.store
                .append_transcript(self.plan_id, self.epoch, first_sequence, &batch);
        let mut state = self.lock_state();
        match written {
            Ok(()) => state.next_sequence += batch.len() as u64,
            Err(_) => state.batch = batch,
        }
        state.batch.is_empty()
    }

    fn lock_state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run of a recorder when dropped.
pub(crate) struct FinishGuard<'r, 'a>(&'r TranscriptRecorder<'a>);

impl Drop for FinishGuard<'_, '_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl RecorderState {
    fn accept(&mut self, entry: TranscriptEntry) {
        let bytes = text_len(&entry.content);
        let is_over_limit =
            self.accepted_entries >= MAX_RUN_ENTRIES || self.accepted_bytes + bytes > MAX_RUN_BYTES;
        if is_over_limit || !self.last_entries.is_empty() {
            if self.last_entries.len() == MAX_LAST_ENTRIES {
                self.last_entries.pop_front();
                self.omitted_entries += 1;
            }
            self.last_entries.push_back(entry);
            return;
        }
        if self.pending.len() >= MAX_PENDING {
            self.omitted_entries += 1;
            return;
        }
        self.accepted_bytes += bytes;
        if let Some(last) = self.pending.back_mut()
            && merge_entries(last, &entry)
        {
            return;
        }
        self.note_omitted(entry.elapsed_ms);
        self.push(entry);
    }

    fn push(&mut self, entry: TranscriptEntry) {
        self.accepted_entries += 1;
        self.pending_since.get_or_insert_with(Instant::now);
        self.pending.push_back(entry);
    }

    fn accept_last_entries(&mut self) {
        let last_entries = std::mem::take(&mut self.last_entries);
        let elapsed_ms = last_entries.front().or(self.pending.back());
        self.note_omitted(elapsed_ms.map_or(0, |entry| entry.elapsed_ms));
        for entry in last_entries {
            self.push(entry);
        }
    }

    /// Adds a notice in the place of entries that are not stored.
    fn note_omitted(&mut self, elapsed_ms: u64) {
        let omitted_entries = std::mem::take(&mut self.omitted_entries);
        if omitted_entries > 0 {
            self.push(TranscriptEntry {
                elapsed_ms,
                content: TranscriptContent::Notice {
                    level: NoticeLevel::Info,
                    text: format!("{omitted_entries} entries were not stored"),
                },
            });
        }
    }
}

/// Joins an entry to the one before it if they are pieces of a text, or both tell the usage.
fn merge_entries(last: &mut TranscriptEntry, entry: &TranscriptEntry) -> bool {
    if let TranscriptContent::TextDelta { text } = &mut last.content
        && let TranscriptContent::TextDelta { text: piece } = &entry.content
        && text.len() + piece.len() <= MAX_TEXT_BYTES
    {
        text.push_str(piece);
        return true;
    }
    if let TranscriptContent::Usage(last_usage) = &mut last.content
        && let TranscriptContent::Usage(usage) = &entry.content
    {
        *last_usage = *usage;
        last.elapsed_ms = entry.elapsed_ms;
        return true;
    }
    false
}

/// The length of an entry's texts, in bytes.
fn text_len(content: &TranscriptContent) -> usize {
    match content {
        TranscriptContent::Text { text }
        | TranscriptContent::TextDelta { text }
        | TranscriptContent::Thought { text }
        | TranscriptContent::Notice { text, .. } => text.len(),
        TranscriptContent::ToolCall(call) => {
            let inputs = call.inputs.iter().map(String::len).sum::<usize>();
            let locations = call.locations.iter().map(|location| location.path.len());
            inputs + locations.sum::<usize>() + call.title.as_ref().map_or(0, String::len)
        }
        TranscriptContent::ToolCallUpdate(update) => update.output.as_ref().map_or(0, String::len),
        TranscriptContent::FileChange(change) => change.path.len(),
        TranscriptContent::Checklist { items } => items.iter().map(|item| item.text.len()).sum(),
        TranscriptContent::Permission(permission) => {
            let inputs = permission.inputs.iter().map(String::len).sum::<usize>();
            inputs + permission.reason.len()
        }
        TranscriptContent::Usage(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use plan::transcript::Usage;
    use store::{StoreError, StoredTranscriptEntry, TranscriptPosition};

    use super::*;

    /// Keeps the first entry of each number. While it fails, it stores the first entry of each call.
    #[derive(Default)]
    struct FlakyLog {
        fails: AtomicBool,
        entries: Mutex<BTreeMap<u64, TranscriptEntry>>,
    }

    impl TranscriptLog for FlakyLog {
        fn append_transcript(
            &self,
            plan_id: PlanId,
            _: Epoch,
            first_sequence: u64,
            entries: &[TranscriptEntry],
        ) -> Result<(), StoreError> {
            let fails = self.fails.load(Ordering::SeqCst);
            let kept = if fails { 1 } else { entries.len() };
            let mut stored = self.entries.lock().unwrap();
            for (sequence, entry) in (first_sequence..).zip(entries).take(kept) {
                stored.entry(sequence).or_insert_with(|| entry.clone());
            }
            match fails {
                true => Err(StoreError::NoSuchPlan { plan_id }),
                false => Ok(()),
            }
        }

        fn read_transcript(
            &self,
            _: PlanId,
            _: Option<TranscriptPosition>,
            _: usize,
        ) -> Result<Vec<StoredTranscriptEntry>, StoreError> {
            Ok(Vec::new())
        }

        fn find_transcript_end(&self, _: PlanId) -> Result<Option<TranscriptPosition>, StoreError> {
            Ok(None)
        }

        fn delete_transcript(&self, _: PlanId) -> Result<u64, StoreError> {
            Ok(0)
        }
    }

    impl FlakyLog {
        fn texts(&self) -> Vec<String> {
            let entries = self.entries.lock().unwrap();
            let numbers: Vec<u64> = entries.keys().copied().collect();
            assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<u64>>());
            let entries = entries.values();
            let texts = entries.map(|entry| entry.content.describe_activity());
            texts.map(Option::unwrap_or_default).collect()
        }
    }

    fn recorder(log: &FlakyLog) -> TranscriptRecorder<'_> {
        TranscriptRecorder::new(log, PlanId::from_parts(1, 1), Epoch(1))
    }

    fn message(text: &str) -> TranscriptContent {
        let text = text.to_owned();
        TranscriptContent::Text { text }
    }

    fn piece(text: &str) -> TranscriptContent {
        let text = text.to_owned();
        TranscriptContent::TextDelta { text }
    }

    #[test]
    fn pieces_and_counts_are_joined() {
        let log = FlakyLog::default();
        let recorder = recorder(&log);
        for content in [
            piece("one "),
            piece("two"),
            TranscriptContent::Usage(Usage::default()),
            TranscriptContent::Usage(Usage::default()),
            message("three"),
            message("four"),
        ] {
            recorder.record(content);
        }
        recorder.finish();
        recorder.write_rest();
        assert_eq!(log.texts(), ["one two", "", "three", "four"]);
    }

    #[test]
    fn entries_are_written_while_the_run_goes_on() {
        let log = FlakyLog::default();
        let recorder = recorder(&log);
        std::thread::scope(|threads| {
            threads.spawn(|| recorder.write_until_finished());
            let _finisher = recorder.finish_on_drop();
            recorder.record(message("first"));
            while log.texts().is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
            recorder.record(message("second"));
        });
        recorder.write_rest();
        assert_eq!(log.texts(), ["first", "second"]);
    }

    /// A write that failed may have stored a part of its batch.
    #[test]
    fn no_entry_is_lost_or_doubled_while_the_store_is_unavailable() {
        let log = FlakyLog::default();
        let recorder = recorder(&log);
        log.fails.store(true, Ordering::SeqCst);
        recorder.record(piece("a"));
        recorder.write_rest();
        recorder.record(piece("b"));
        recorder.record(message("c"));
        recorder.finish();
        recorder.write_rest();
        log.fails.store(false, Ordering::SeqCst);
        recorder.write_rest();
        assert_eq!(log.texts(), ["a", "b", "c"]);
    }

    #[test]
    fn long_outage_is_noted() {
        let log = FlakyLog::default();
        let recorder = recorder(&log);
        for number in 0..MAX_PENDING + 3 {
            recorder.record(message(&format!("entry {number}")));
        }
        recorder.finish();
        recorder.write_rest();
        let texts = log.texts();
        assert_eq!(texts.len(), MAX_PENDING + 1);
        assert_eq!(texts.last().unwrap(), "3 entries were not stored");
    }

    #[test]
    fn run_that_says_too_much_keeps_its_beginning_and_end() {
        let log = FlakyLog::default();
        let recorder = recorder(&log);
        for number in 0..MAX_RUN_ENTRIES + MAX_LAST_ENTRIES + 5 {
            recorder.record(message(&format!("entry {number}")));
            if number % 1000 == 0 {
                recorder.write_rest();
            }
        }
        recorder.finish();
        recorder.write_rest();
        let texts = log.texts();
        assert_eq!(texts.len(), MAX_RUN_ENTRIES + 1 + MAX_LAST_ENTRIES);
        assert_eq!(texts[MAX_RUN_ENTRIES], "5 entries were not stored");
        let last = format!("entry {}", MAX_RUN_ENTRIES + MAX_LAST_ENTRIES + 4);
        assert_eq!(texts.last(), Some(&last));
    }
}
