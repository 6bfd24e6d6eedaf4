//! Group commit without a thread of its own: whoever comes first leads, whoever comes while
//! somebody leads is carried along in the next batch.
//!
//! The leader waits for the turn, takes those that wait by then into its batch, and those that come
//! while it works on them, up to a limit. Then it tells everybody in the batch what came of them,
//! and hands the lead to the first of those still waiting. It leads exactly one batch, so that
//! nobody works for others forever. Each waiting caller is woken exactly once: with its answer, or
//! to lead.
//!
//! What a batch does is the [`Carrier`]'s business; this file only decides who does it, and is
//! therefore small enough to be explored by a model checker (`--features shuttle`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex, lock};

/// Submissions in one batch at most, so that a batch and the memory it needs stay bounded.
pub(super) const MAX_BATCH_SIZE: usize = 64;

/// Carries out batches.
pub(super) trait BatchRunner {
    /// What is submitted.
    type Work;
    /// What comes of it.
    type Answer;
    /// The right to carry out a batch.
    type Turn<'a>
    where
        Self: 'a;

    /// Waits until a batch may be carried out. More work joins the batch meanwhile.
    fn take_turn(&self) -> Self::Turn<'_>;

    /// Carries out all jobs and gives each its answer. When this returns, the answers hold.
    fn run_batch(
        &self,
        turn: &mut Self::Turn<'_>,
        batch: &mut CommitBatch<'_, Self::Work, Self::Answer>,
    );

    /// Something else must be done within this turn, once everybody has been told.
    fn needs_maintenance(&self, turn: &Self::Turn<'_>) -> bool;

    /// Does it.
    fn run_maintenance(&self, turn: &mut Self::Turn<'_>);
}

/// One submission in a batch.
pub(super) struct BatchJob<Work, Answer> {
    /// What was submitted.
    pub work: Work,
    /// What came of it; stays `None` only if the carrier panicked.
    pub answer: Option<Answer>,
}

/// The carrier panicked while it had this work in hand. What became of it is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BatchAbandoned;

/// Callers that submit work to one carrier.
pub(super) struct CommitGroup<Work, Answer>(Mutex<CallerQueue<Work, Answer>>);

/// Who leads, and who waits.
struct CallerQueue<Work, Answer> {
    has_leader: bool,
    waiting: VecDeque<Arc<QueuedCaller<Work, Answer>>>,
}

/// Where one caller waits. A condition variable of its own, so that waking it wakes nobody else.
struct QueuedCaller<Work, Answer> {
    state: Mutex<QueuedCallerState<Work, Answer>>,
    changed: Condvar,
}

enum QueuedCallerState<Work, Answer> {
    /// Its work has not been looked at.
    Waiting(Work),
    /// A leader has its work in hand.
    Taken,
    /// It shall lead, with its own work first.
    Promoted(Work),
    /// It was told.
    Answered(Result<Answer, BatchAbandoned>),
}

impl<Work, Answer> Default for CommitGroup<Work, Answer> {
    fn default() -> Self {
        Self(Mutex::new(CallerQueue {
            has_leader: false,
            waiting: VecDeque::new(),
        }))
    }
}

impl<Work, Answer> CommitGroup<Work, Answer> {
    /// Has this work carried out, by this thread or by another.
    pub(super) fn submit<C>(&self, runner: &C, work: Work) -> Result<Answer, BatchAbandoned>
    where
        C: BatchRunner<Work = Work, Answer = Answer>,
    {
        match self.join_queue(work) {
            CallerRole::Lead(work) => self.lead_batch(runner, work),
            CallerRole::Wait(caller) => match caller.wait_for_role() {
                CallerRole::Lead(work) => self.lead_batch(runner, work),
                CallerRole::Wait(answer) => answer,
            },
        }
    }

    /// How many callers lead a batch, or wait for one that takes their work.
    pub(super) fn queued_callers(&self) -> usize {
        let queue = lock(&self.0);
        usize::from(queue.has_leader) + queue.waiting.len()
    }

    fn join_queue(&self, work: Work) -> CallerRole<Work, Arc<QueuedCaller<Work, Answer>>> {
        let mut queue = lock(&self.0);
        if !queue.has_leader {
            queue.has_leader = true;
            return CallerRole::Lead(work);
        }
        let caller = Arc::new(QueuedCaller {
            state: Mutex::new(QueuedCallerState::Waiting(work)),
            changed: Condvar::new(),
        });
        queue.waiting.push_back(Arc::clone(&caller));
        CallerRole::Wait(caller)
    }

    fn lead_batch<C>(&self, runner: &C, work: Work) -> Result<Answer, BatchAbandoned>
    where
        C: BatchRunner<Work = Work, Answer = Answer>,
    {
        let mut batch = CommitBatch {
            group: self,
            is_leader: true,
            jobs: vec![BatchJob { work, answer: None }],
            callers: Vec::new(),
        };
        let mut turn = runner.take_turn();
        batch.gather_waiting();
        runner.run_batch(&mut turn, &mut batch);
        if runner.needs_maintenance(&turn) {
            batch.deliver_answers();
            runner.run_maintenance(&mut turn);
        }
        drop(turn);
        // In this order: those who are told may come back with more before the next leader counts
        // who waits, and fewer, larger batches are faster for everybody.
        batch.deliver_answers();
        batch.hand_over_lead();
        let own_answer = batch.jobs.first_mut().and_then(|job| job.answer.take());
        own_answer.ok_or(BatchAbandoned)
    }
}

/// To lead, or to wait.
enum CallerRole<Work, Other> {
    Lead(Work),
    Wait(Other),
}

impl<Work, Answer> QueuedCaller<Work, Answer> {
    /// Waits until promoted or told.
    fn wait_for_role(&self) -> CallerRole<Work, Result<Answer, BatchAbandoned>> {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, QueuedCallerState::Taken) {
                QueuedCallerState::Promoted(work) => return CallerRole::Lead(work),
                QueuedCallerState::Answered(answer) => return CallerRole::Wait(answer),
                unchanged @ (QueuedCallerState::Waiting(_) | QueuedCallerState::Taken) => {
                    *state = unchanged
                }
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// The work, to be carried out by somebody else.
    fn take_work(&self) -> Option<Work> {
        match std::mem::replace(&mut *lock(&self.state), QueuedCallerState::Taken) {
            QueuedCallerState::Waiting(work) => Some(work),
            QueuedCallerState::Taken
            | QueuedCallerState::Promoted(_)
            | QueuedCallerState::Answered(_) => None,
        }
    }

    fn promote_to_leader(&self) {
        let mut state = lock(&self.state);
        if let QueuedCallerState::Waiting(work) =
            std::mem::replace(&mut *state, QueuedCallerState::Taken)
        {
            *state = QueuedCallerState::Promoted(work);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn deliver_answer(&self, answer: Result<Answer, BatchAbandoned>) {
        *lock(&self.state) = QueuedCallerState::Answered(answer);
        self.changed.notify_one();
    }
}

/// A leader's batch. Whatever happens to the leader, dropping it hands the lead over and tells
/// everybody in it: a panic leaves nobody waiting.
pub(super) struct CommitBatch<'a, Work, Answer> {
    group: &'a CommitGroup<Work, Answer>,
    is_leader: bool,
    /// The leader's own first, then those of the seats, in their order.
    jobs: Vec<BatchJob<Work, Answer>>,
    /// Those to be told.
    callers: Vec<Arc<QueuedCaller<Work, Answer>>>,
}

impl<Work, Answer> CommitBatch<'_, Work, Answer> {
    /// The jobs, in the order in which they came.
    pub(super) fn jobs(&mut self) -> &mut [BatchJob<Work, Answer>] {
        &mut self.jobs
    }

    /// Takes those that wait into the batch, first come first.
    pub(super) fn gather_waiting(&mut self) {
        let mut queue = lock(&self.group.0);
        let room = (MAX_BATCH_SIZE - self.jobs.len()).min(queue.waiting.len());
        for caller in queue.waiting.drain(..room) {
            if let Some(work) = caller.take_work() {
                self.jobs.push(BatchJob { work, answer: None });
                self.callers.push(caller);
            }
        }
    }

    /// Promotes the first that waits, or leaves the lead to whoever comes.
    fn hand_over_lead(&mut self) {
        if !std::mem::take(&mut self.is_leader) {
            return;
        }
        let mut queue = lock(&self.group.0);
        match queue.waiting.pop_front() {
            Some(caller) => caller.promote_to_leader(),
            None => queue.has_leader = false,
        }
    }

    /// Tells each seat its answer. The leader's own stays.
    fn deliver_answers(&mut self) {
        for (caller, job) in self.callers.drain(..).zip(self.jobs.iter_mut().skip(1)) {
            caller.deliver_answer(job.answer.take().ok_or(BatchAbandoned));
        }
    }
}

impl<Work, Answer> Drop for CommitBatch<'_, Work, Answer> {
    fn drop(&mut self) {
        self.deliver_answers();
        self.hand_over_lead();
    }
}

#[cfg(test)]
mod tests;
