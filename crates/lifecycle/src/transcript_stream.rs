//! Follows what agents say and do on a plan, from the transcript in the store.

use std::collections::VecDeque;

use plan::PlanId;
use store::{StoredTranscriptEntry, TranscriptPosition};

use crate::{Lifecycle, LifecycleError};

const ENTRY_PAGE_SIZE: usize = 256;

/// Where a transcript stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptStart {
    Beginning,
    /// With the first entry of the plan's current epoch, which is that of its holder.
    CurrentRun,
    /// After the last entry that is stored now.
    Now,
}

/// Yields the entries of a plan's transcript in order, each once.
///
/// Entries that a former holder stores late belong before those of its successor. If the stream is past them, it does
/// not yield them.
pub struct TranscriptStream<'a> {
    lifecycle: &'a Lifecycle,
    plan_id: PlanId,
    position: Option<TranscriptPosition>,
    buffered: VecDeque<StoredTranscriptEntry>,
}

impl Lifecycle {
    /// Returns a plan's transcript. To follow it, read until there is no entry, wait for a fraction of a second, and read
    /// again: no commit announces an entry.
    pub fn transcript(
        &self,
        plan_id: PlanId,
        start: TranscriptStart,
    ) -> Result<TranscriptStream<'_>, LifecycleError> {
        let position = match start {
            TranscriptStart::Beginning => None,
            TranscriptStart::CurrentRun => {
                let plan = self.get_plan(plan_id)?.plan;
                TranscriptPosition::before_epoch(plan.epoch())
            }
            TranscriptStart::Now => self.store.find_transcript_end(plan_id)?,
        };
        Ok(TranscriptStream {
            lifecycle: self,
            plan_id,
            position,
            buffered: VecDeque::new(),
        })
    }
}

impl TranscriptStream<'_> {
    /// Returns the next stored entry without waiting.
    pub fn next_ready(&mut self) -> Result<Option<StoredTranscriptEntry>, LifecycleError> {
        if self.buffered.is_empty() {
            let store = &self.lifecycle.store;
            let page = store.read_transcript(self.plan_id, self.position, ENTRY_PAGE_SIZE)?;
            self.position = page.last().map(|last| last.position).or(self.position);
            self.buffered = page.into();
        }
        Ok(self.buffered.pop_front())
    }
}
