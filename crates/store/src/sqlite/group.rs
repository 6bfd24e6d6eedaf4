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
pub(super) const LARGEST_BATCH: usize = 64;

/// Carries out batches.
pub(super) trait Carrier {
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
    fn carry_out(&self, turn: &mut Self::Turn<'_>, batch: &mut Batch<'_, Self::Work, Self::Answer>);

    /// Something else must be done within this turn, once everybody has been told.
    fn upkeep_is_due(&self, turn: &Self::Turn<'_>) -> bool;

    /// Does it.
    fn upkeep(&self, turn: &mut Self::Turn<'_>);
}

/// One submission in a batch.
pub(super) struct Job<Work, Answer> {
    /// What was submitted.
    pub work: Work,
    /// What came of it; stays `None` only if the carrier panicked.
    pub answer: Option<Answer>,
}

/// The carrier panicked while it had this work in hand. What became of it is not known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Abandoned;

/// Callers that submit work to one carrier.
pub(super) struct Group<Work, Answer>(Mutex<Line<Work, Answer>>);

/// Who leads, and who waits.
struct Line<Work, Answer> {
    led: bool,
    waiting: VecDeque<Arc<Seat<Work, Answer>>>,
}

/// Where one caller waits. A condition variable of its own, so that waking it wakes nobody else.
struct Seat<Work, Answer> {
    state: Mutex<SeatState<Work, Answer>>,
    changed: Condvar,
}

enum SeatState<Work, Answer> {
    /// Its work has not been looked at.
    Waiting(Work),
    /// A leader has its work in hand.
    Taken,
    /// It shall lead, with its own work first.
    Promoted(Work),
    /// It was told.
    Told(Result<Answer, Abandoned>),
}

impl<Work, Answer> Default for Group<Work, Answer> {
    fn default() -> Self {
        Self(Mutex::new(Line {
            led: false,
            waiting: VecDeque::new(),
        }))
    }
}

impl<Work, Answer> Group<Work, Answer> {
    /// Has this work carried out, by this thread or by another.
    pub(super) fn submit<C>(&self, carrier: &C, work: Work) -> Result<Answer, Abandoned>
    where
        C: Carrier<Work = Work, Answer = Answer>,
    {
        match self.sit_down(work) {
            Role::Lead(work) => self.lead(carrier, work),
            Role::Wait(seat) => match seat.wait() {
                Role::Lead(work) => self.lead(carrier, work),
                Role::Wait(told) => told,
            },
        }
    }

    /// How many callers lead a batch, or wait for one that takes their work.
    pub(super) fn in_line(&self) -> usize {
        let line = lock(&self.0);
        usize::from(line.led) + line.waiting.len()
    }

    fn sit_down(&self, work: Work) -> Role<Work, Arc<Seat<Work, Answer>>> {
        let mut line = lock(&self.0);
        if !line.led {
            line.led = true;
            return Role::Lead(work);
        }
        let seat = Arc::new(Seat {
            state: Mutex::new(SeatState::Waiting(work)),
            changed: Condvar::new(),
        });
        line.waiting.push_back(Arc::clone(&seat));
        Role::Wait(seat)
    }

    fn lead<C>(&self, carrier: &C, work: Work) -> Result<Answer, Abandoned>
    where
        C: Carrier<Work = Work, Answer = Answer>,
    {
        let mut batch = Batch {
            group: self,
            leads: true,
            jobs: vec![Job { work, answer: None }],
            seats: Vec::new(),
        };
        let mut turn = carrier.take_turn();
        batch.gather();
        carrier.carry_out(&mut turn, &mut batch);
        if carrier.upkeep_is_due(&turn) {
            batch.tell();
            carrier.upkeep(&mut turn);
        }
        drop(turn);
        // In this order: those who are told may come back with more before the next leader counts
        // who waits, and fewer, larger batches are faster for everybody.
        batch.tell();
        batch.hand_over();
        let own = batch.jobs.first_mut().and_then(|job| job.answer.take());
        own.ok_or(Abandoned)
    }
}

/// To lead, or to wait.
enum Role<Work, Other> {
    Lead(Work),
    Wait(Other),
}

impl<Work, Answer> Seat<Work, Answer> {
    /// Waits until promoted or told.
    fn wait(&self) -> Role<Work, Result<Answer, Abandoned>> {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, SeatState::Taken) {
                SeatState::Promoted(work) => return Role::Lead(work),
                SeatState::Told(answer) => return Role::Wait(answer),
                unchanged @ (SeatState::Waiting(_) | SeatState::Taken) => *state = unchanged,
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// The work, to be carried out by somebody else.
    fn take(&self) -> Option<Work> {
        match std::mem::replace(&mut *lock(&self.state), SeatState::Taken) {
            SeatState::Waiting(work) => Some(work),
            SeatState::Taken | SeatState::Promoted(_) | SeatState::Told(_) => None,
        }
    }

    fn promote(&self) {
        let mut state = lock(&self.state);
        if let SeatState::Waiting(work) = std::mem::replace(&mut *state, SeatState::Taken) {
            *state = SeatState::Promoted(work);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn tell(&self, answer: Result<Answer, Abandoned>) {
        *lock(&self.state) = SeatState::Told(answer);
        self.changed.notify_one();
    }
}

/// A leader's batch. Whatever happens to the leader, dropping it hands the lead over and tells
/// everybody in it: a panic leaves nobody waiting.
pub(super) struct Batch<'a, Work, Answer> {
    group: &'a Group<Work, Answer>,
    leads: bool,
    /// The leader's own first, then those of the seats, in their order.
    jobs: Vec<Job<Work, Answer>>,
    /// Those to be told.
    seats: Vec<Arc<Seat<Work, Answer>>>,
}

impl<Work, Answer> Batch<'_, Work, Answer> {
    /// The jobs, in the order in which they came.
    pub(super) fn jobs(&mut self) -> &mut [Job<Work, Answer>] {
        &mut self.jobs
    }

    /// Takes those that wait into the batch, first come first.
    pub(super) fn gather(&mut self) {
        let mut line = lock(&self.group.0);
        let room = (LARGEST_BATCH - self.jobs.len()).min(line.waiting.len());
        for seat in line.waiting.drain(..room) {
            if let Some(work) = seat.take() {
                self.jobs.push(Job { work, answer: None });
                self.seats.push(seat);
            }
        }
    }

    /// Promotes the first that waits, or leaves the lead to whoever comes.
    fn hand_over(&mut self) {
        if !std::mem::take(&mut self.leads) {
            return;
        }
        let mut line = lock(&self.group.0);
        match line.waiting.pop_front() {
            Some(seat) => seat.promote(),
            None => line.led = false,
        }
    }

    /// Tells each seat its answer. The leader's own stays.
    fn tell(&mut self) {
        for (seat, job) in self.seats.drain(..).zip(self.jobs.iter_mut().skip(1)) {
            seat.tell(job.answer.take().ok_or(Abandoned));
        }
    }
}

impl<Work, Answer> Drop for Batch<'_, Work, Answer> {
    fn drop(&mut self) {
        self.tell();
        self.hand_over();
    }
}

#[cfg(test)]
mod tests;
