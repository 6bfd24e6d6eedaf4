//! Group commit without a dedicated thread: the first caller leads a batch, and callers that arrive
//! meanwhile join it or the next one.
//!
//! The leader waits for its turn. Its batch takes the callers that wait by then and those that
//! arrive while it runs, up to a limit. Then the leader delivers all answers and promotes the first
//! caller still waiting. It leads exactly one batch, so that no caller works for others forever.
//! Each waiting caller is woken exactly once: with its answer, or to lead.
//!
//! This file only decides who runs a batch; the [`BatchRunner`] decides what it does. That keeps it
//! small enough for a model checker (`--features shuttle`).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::{Condvar, Mutex, lock};

/// Bounds the memory and the duration of a batch.
pub(super) const MAX_BATCH_SIZE: usize = 64;

pub(super) trait BatchRunner {
    type Work;
    type Answer;
    /// The right to run a batch.
    type Turn<'a>
    where
        Self: 'a;

    /// Waits until a batch may run. More work can join the batch meanwhile.
    fn take_turn(&self) -> Self::Turn<'_>;

    /// Runs all jobs and sets their answers. The answers are final when this returns.
    fn run_batch(
        &self,
        turn: &mut Self::Turn<'_>,
        batch: &mut CommitBatch<'_, Self::Work, Self::Answer>,
    );

    /// Checks whether to run maintenance in this turn, after all answers were delivered.
    fn needs_maintenance(&self, turn: &Self::Turn<'_>) -> bool;

    fn run_maintenance(&self, turn: &mut Self::Turn<'_>);
}

pub(super) struct BatchJob<Work, Answer> {
    pub work: Work,
    /// Stays `None` only if the runner panicked.
    pub answer: Option<Answer>,
}

/// The runner panicked during this work. Its outcome is unknown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BatchAbandoned;

/// The callers that submit work to one runner.
pub(super) struct CommitGroup<Work, Answer>(Mutex<CallerQueue<Work, Answer>>);

struct CallerQueue<Work, Answer> {
    has_leader: bool,
    waiting: VecDeque<Arc<QueuedCaller<Work, Answer>>>,
}

/// A waiting caller. It has its own condition variable, so that waking it wakes nobody else.
struct QueuedCaller<Work, Answer> {
    state: Mutex<QueuedCallerState<Work, Answer>>,
    changed: Condvar,
}

enum QueuedCallerState<Work, Answer> {
    /// No leader has taken its work.
    Waiting(Work),
    /// A leader is working on it.
    Taken,
    /// It must lead a batch, with its own work first.
    Promoted(Work),
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
    /// Runs this work, on this thread or as part of another caller's batch.
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

    /// Returns how many callers lead a batch or wait to join one.
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
            // Callers do not have to wait for the maintenance.
            batch.deliver_answers();
            runner.run_maintenance(&mut turn);
        }
        drop(turn);
        // Deliver before handing over: answered callers may submit more work before the next leader
        // gathers its batch, and larger batches are faster for everyone.
        batch.deliver_answers();
        batch.hand_over_lead();
        let own_answer = batch.jobs.first_mut().and_then(|job| job.answer.take());
        own_answer.ok_or(BatchAbandoned)
    }
}

enum CallerRole<Work, Other> {
    Lead(Work),
    Wait(Other),
}

impl<Work, Answer> QueuedCaller<Work, Answer> {
    /// Waits until this caller is promoted or answered.
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

    /// Takes the work, to be run by another thread.
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

/// The batch of one leader. Dropping it answers its callers and hands over the lead, so that a
/// panic leaves nobody waiting.
pub(super) struct CommitBatch<'a, Work, Answer> {
    group: &'a CommitGroup<Work, Answer>,
    is_leader: bool,
    /// The leader's own job first, then one per caller, in order.
    jobs: Vec<BatchJob<Work, Answer>>,
    /// The callers to answer.
    callers: Vec<Arc<QueuedCaller<Work, Answer>>>,
}

impl<Work, Answer> CommitBatch<'_, Work, Answer> {
    pub(super) fn jobs(&mut self) -> &mut [BatchJob<Work, Answer>] {
        &mut self.jobs
    }

    /// Moves waiting callers into the batch, in order of arrival.
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

    /// Promotes the first waiting caller. Without one, the next caller that arrives leads.
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

    /// Answers every caller except the leader.
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
