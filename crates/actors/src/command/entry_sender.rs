//! Sends transcript entries at a limited rate, so that an agent that floods its output does not flood the
//! receiver. Pieces of text that arrive between two sendings become one entry. No other entry is dropped.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use plan::transcript::TranscriptContent;
use sandbox::IsolationLevel;

use crate::RunProgress;

const MIN_SEND_INTERVAL: Duration = Duration::from_millis(100);

/// The longest text made of pieces.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// How many entries may wait for a slow receiver.
const MAX_PENDING: usize = 1024;

pub(crate) struct EntrySender<'a> {
    on_progress: &'a (dyn Fn(RunProgress) + Send + Sync),
    state: Mutex<SenderState>,
    /// Held while entries are sent, so that they arrive in order.
    sending: Mutex<()>,
}

#[derive(Default)]
struct SenderState {
    started: bool,
    sent_at: Option<Instant>,
    pending: Vec<TranscriptContent>,
    /// How much of the last text was omitted.
    omitted_bytes: usize,
}

impl<'a> EntrySender<'a> {
    pub(crate) fn new(on_progress: &'a (dyn Fn(RunProgress) + Send + Sync)) -> Self {
        Self {
            on_progress,
            state: Mutex::default(),
            sending: Mutex::default(),
        }
    }

    /// Reports that the program runs. All entries come after this.
    pub(crate) fn report_start(&self, isolation: IsolationLevel) {
        (self.on_progress)(RunProgress::Started {
            isolation: isolation.to_string(),
        });
        self.lock_state().started = true;
        self.send_due();
    }

    /// Sends entries now or with the next ones.
    pub(crate) fn send(&self, entries: Vec<TranscriptContent>) {
        let mut state = self.lock_state();
        for entry in entries {
            state.push(entry);
        }
        let is_full = state.pending.len() >= MAX_PENDING;
        drop(state);
        match is_full {
            // Wait for the receiver.
            true => self.send_all(),
            false => self.send_due(),
        }
    }

    /// Sends what is pending, if the interval has passed.
    pub(crate) fn send_due(&self) {
        // The receiver may be slow. Other threads must not wait for it: what they leave is sent later.
        let _sending = match self.sending.try_lock() {
            Ok(sending) => sending,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.send_if(|sent_at| sent_at.is_none_or(|at| at.elapsed() >= MIN_SEND_INTERVAL));
    }

    /// Sends everything that is pending.
    pub(crate) fn send_all(&self) {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.send_if(|_| true);
    }

    fn send_if(&self, is_due: impl FnOnce(Option<Instant>) -> bool) {
        let mut state = self.lock_state();
        if !state.started || state.pending.is_empty() || !is_due(state.sent_at) {
            return;
        }
        state.end_text();
        let entries = std::mem::take(&mut state.pending);
        state.sent_at = Some(Instant::now());
        drop(state);
        for entry in entries {
            (self.on_progress)(RunProgress::Entry(entry));
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, SenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SenderState {
    fn push(&mut self, entry: TranscriptContent) {
        if let TranscriptContent::TextDelta { text: piece } = &entry
            && let Some(TranscriptContent::TextDelta { text }) = self.pending.last_mut()
        {
            if self.omitted_bytes == 0 && text.len() + piece.len() <= MAX_TEXT_BYTES {
                text.push_str(piece);
            } else {
                self.omitted_bytes += piece.len();
            }
            return;
        }
        self.end_text();
        self.pending.push(entry);
    }

    /// Ends a text of pieces with a note about what was omitted.
    fn end_text(&mut self) {
        let omitted_bytes = std::mem::take(&mut self.omitted_bytes);
        if omitted_bytes > 0
            && let Some(TranscriptContent::TextDelta { text }) = self.pending.last_mut()
        {
            text.push_str(&format!("[… {omitted_bytes} bytes left out …]\n"));
        }
    }
}
