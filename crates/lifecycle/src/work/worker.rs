//! Workers: take what is due, many plans at once, until asked to stop.
//!
//! A worker signs in under a name of its own, so that others on this host see at once when it is gone
//! and take its plans over. What it takes from the gone or the expired counts as an attempt.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use actors::{Actor, Stop};
use plan::decide::Rest;
use plan::stage::StateName;
use plan::takeover::Liveness;
use plan::{Caller, Name, Plan, PlanId, Span};
use store::PlanFilter;

use super::pick::{Again, Only, Picked, Picker};
use super::{Crew, Drive, Happening, Rested};
use crate::operations::is_left_to_its_holder;
use crate::{Call, Error, LeaseWatch, Lifecycle};

/// For how long a claim holds without a renewal.
pub const LEASE: Span = Span::seconds(30);

/// How often it is looked for holders that are gone.
const LOOK_FOR_THE_GONE: Duration = Duration::from_secs(1);

/// How long is waited for something to be committed before looking anew; also how soon a request to
/// stop is noticed.
const WAIT: Duration = Duration::from_millis(200);

/// How many plans are looked at for holders that are gone.
const MOST_HELD: usize = 500;

/// Told how a plan goes.
type Tell = dyn Fn(&Plan, &Happening) + Send + Sync;

/// Takes plans further until asked to stop.
///
/// ```text
/// Worker::new(&lifecycle).actor("bot", MyBot).run(&stop)
/// ```
pub struct Worker {
    lifecycle: Lifecycle,
    crew: Crew,
    owner: String,
    concurrency: usize,
    lease: Span,
    only: Only,
    tell: Box<Tell>,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often a plan was taken as far as it went.
    pub taken: u64,
    /// How many leases were taken from holders that are gone.
    pub reclaimed: u64,
    /// How often something went wrong that is no plan's fault.
    pub troubles: u64,
}

/// How long a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until asked to stop.
    Stopped,
    /// Until nothing is due.
    Drained,
    /// Until one plan was taken as far as it goes.
    Once,
}

/// A plan that was taken as far as it goes.
struct Ended {
    plan: PlanId,
    /// Nothing if driving it panicked.
    rested: Option<Result<Rested, Error>>,
}

impl Worker {
    /// A worker with nobody in its crew yet.
    pub fn new(lifecycle: &Lifecycle) -> Self {
        Self {
            lifecycle: lifecycle.clone(),
            crew: Crew::default(),
            owner: format!("worker-{}", lifecycle.ids.command()),
            concurrency: 1,
            lease: LEASE,
            only: Only::default(),
            tell: Box::new(|_, _| {}),
        }
    }

    /// With an actor of this program.
    ///
    /// # Panics
    ///
    /// If the name is none.
    #[must_use]
    pub fn actor(mut self, name: &str, actor: impl Actor + 'static) -> Self {
        let name: Name = name.parse().expect("the name of an actor");
        self.crew = self.crew.with(name, actor);
        self
    }

    /// With this crew.
    #[must_use]
    pub fn crew(mut self, crew: Crew) -> Self {
        self.crew = crew;
        self
    }

    /// Under this name, which nobody else uses.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// So many plans at once.
    #[must_use]
    pub fn concurrency(mut self, plans: usize) -> Self {
        self.concurrency = plans.max(1);
        self
    }

    /// With claims that hold for so long without a renewal.
    #[must_use]
    pub fn lease(mut self, lease: Span) -> Self {
        self.lease = lease;
        self
    }

    /// Only plans that work on this project.
    #[must_use]
    pub fn only_project(mut self, project: Option<Name>) -> Self {
        self.only.project = project;
        self
    }

    /// Only plans of this actor.
    #[must_use]
    pub fn only_actor(mut self, actor: Option<Name>) -> Self {
        self.only.actor = actor;
        self
    }

    /// Telling somebody how plans go.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&Plan, &Happening) + Send + Sync + 'static) -> Self {
        self.tell = Box::new(tell);
        self
    }

    /// Works until asked to stop. What it works on then is given back, to be gone on with by others.
    pub fn run(&self, stop: &Stop) -> Result<Tally, Error> {
        self.work(stop, Until::Stopped)
    }

    /// Works until nothing is due.
    pub fn drain(&self, stop: &Stop) -> Result<Tally, Error> {
        self.work(stop, Until::Drained)
    }

    /// Takes one plan as far as it goes, if one is due.
    pub fn once(&self, stop: &Stop) -> Result<Tally, Error> {
        self.work(stop, Until::Once)
    }

    fn work(&self, stop: &Stop, until: Until) -> Result<Tally, Error> {
        let presence = match &self.lifecycle.hands {
            Some(hands) => Some(hands.workshop.sign_in(&self.owner)?),
            None => None,
        };
        let worked = self.work_signed_in(stop, until);
        let is_troubled = worked.as_ref().map_or(true, |tally| tally.troubles > 0);
        if let Some(presence) = presence.filter(|_| is_troubled) {
            presence.end_without_giving_back();
        }
        worked
    }

    fn work_signed_in(&self, stop: &Stop, until: Until) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let again = match until {
            Until::Stopped => Again::Later,
            Until::Drained | Until::Once => Again::Never,
        };
        let mut picker = Picker::new(self.only.clone(), again);
        let mut looked_for_the_gone: Option<Instant> = None;
        let mut watch = LeaseWatch::new(self.lease);
        std::thread::scope(|scope| {
            let (ends, ended): (Sender<Ended>, Receiver<Ended>) = channel();
            let mut busy = BTreeSet::new();
            loop {
                while let Ok(end) = ended.try_recv() {
                    busy.remove(&end.plan);
                    settle(&end, &mut picker, &mut tally);
                }
                let enough = until == Until::Once && tally.taken > 0;
                if stop.is_asked() || enough {
                    break;
                }
                if looked_for_the_gone.is_none_or(|at| at.elapsed() >= LOOK_FOR_THE_GONE) {
                    match self.take_from_the_gone(&busy, &mut watch) {
                        Ok(taken) => tally.reclaimed += taken,
                        Err(_) => tally.troubles += 1,
                    }
                    looked_for_the_gone = Some(Instant::now());
                }
                let most = match until {
                    Until::Once => 1,
                    Until::Stopped | Until::Drained => self.concurrency,
                };
                let free = most.saturating_sub(busy.len());
                let picked = picker.pick(&self.lifecycle, &busy, free);
                let (picked, seen) = match picked {
                    Ok(Picked { plans, seen }) => (plans, seen),
                    // A store that is away for a moment must not end a worker that has plans in hand.
                    Err(_) if until == Until::Stopped => {
                        tally.troubles += 1;
                        (Vec::new(), None)
                    }
                    Err(error) => {
                        finish(&mut busy, &ended, &mut picker, &mut tally);
                        return Err(error);
                    }
                };
                let unseen = picker.has_more_to_see() && until != Until::Stopped;
                let waited_for = match until {
                    Until::Stopped => true,
                    Until::Drained => unseen || picker.waits_for_means(),
                    Until::Once => unseen,
                };
                if picked.is_empty() && busy.is_empty() && !waited_for {
                    break;
                }
                for plan in picked {
                    busy.insert(plan);
                    let ends = ends.clone();
                    scope.spawn(move || {
                        // Whoever panics must not leave the worker waiting for their end.
                        let drive = AssertUnwindSafe(|| self.drive(stop).go(plan, None));
                        let rested = catch_unwind(drive).ok();
                        // Nobody listens any more once the worker has stopped.
                        let _ = ends.send(Ended { plan, rested });
                    });
                }
                if busy.len() >= most {
                    // Nothing can be taken before something ends, whatever is committed meanwhile.
                    if let Ok(end) = ended.recv_timeout(WAIT) {
                        busy.remove(&end.plan);
                        settle(&end, &mut picker, &mut tally);
                    }
                    continue;
                }
                if unseen {
                    continue;
                }
                // What was committed since it was looked is not waited for.
                let unchanged = match (seen, self.lifecycle.store.latest()) {
                    (Some(seen), Ok(now)) => seen == now,
                    (None, _) | (_, Err(_)) => true,
                };
                if unchanged && self.lifecycle.store.wait(WAIT).is_err() {
                    stop.wait(WAIT);
                }
            }
            finish(&mut busy, &ended, &mut picker, &mut tally);
            Ok(tally)
        })
    }

    fn drive<'a>(&'a self, stop: &'a Stop) -> Drive<'a> {
        Drive {
            lifecycle: &self.lifecycle,
            crew: &self.crew,
            owner: &self.owner,
            lease: self.lease,
            stop,
            tell: self.tell.as_ref(),
        }
    }

    /// Takes plans from holders whose lease expired, and from those that signed in on this host and are
    /// gone or no longer renew their leases. What somebody else took first is left to them.
    fn take_from_the_gone(
        &self,
        in_hand: &BTreeSet<PlanId>,
        watch: &mut LeaseWatch,
    ) -> Result<u64, Error> {
        let call = Call::by(Caller::Worker(self.owner.clone()));
        let expired = self
            .lifecycle
            .reclaim_expired_but(in_hand, MOST_HELD, &call)?;
        expired.iter().for_each(|plan| self.tell_if_halted(plan));
        let mut taken = expired.len() as u64;
        if self.lifecycle.hands.is_none() {
            return Ok(taken);
        }
        let held = PlanFilter {
            state: Some(StateName::Processing),
            ..PlanFilter::default()
        };
        let rows = self.lifecycle.list_plans(&held, None, MOST_HELD)?;
        watch.keep_only(&rows);
        for row in &rows {
            let Some(holder) = row.plan.stage.holder() else {
                continue;
            };
            let taken_over = if holder.owner == self.owner {
                // Ours, and nobody here works on it: what came of it could not be stored.
                if in_hand.contains(&row.plan.id) {
                    continue;
                }
                self.lifecycle.take_back(row.plan.id, holder.epoch, &call)
            } else {
                match self.lifecycle.holder_liveness(row)? {
                    Some(Liveness::Running | Liveness::Ended) => {
                        self.lifecycle.take_over_as_seen(row, watch, &call)
                    }
                    Some(Liveness::Unknown) | None => continue,
                }
            };
            match taken_over {
                Ok(done) => {
                    self.tell_if_halted(&done.plan);
                    taken += 1;
                }
                Err(Error::Refused(refusal)) if is_left_to_its_holder(&refusal) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// What was lost once too often waits for a person. Nobody drives it any more who could tell.
    fn tell_if_halted(&self, plan: &Plan) {
        if plan.stage.failure().is_some() {
            (self.tell)(plan, &Happening::Rests);
        }
    }
}

/// Waits for what is in hand to come to its end.
fn finish(
    busy: &mut BTreeSet<PlanId>,
    ended: &Receiver<Ended>,
    picker: &mut Picker,
    tally: &mut Tally,
) {
    while !busy.is_empty() {
        let Ok(end) = ended.recv() else {
            return;
        };
        busy.remove(&end.plan);
        settle(&end, picker, tally);
    }
}

/// What is left alone for a while, and what is counted.
fn settle(end: &Ended, picker: &mut Picker, tally: &mut Tally) {
    match &end.rested {
        Some(Ok(Rested::Rests(Rest::Person | Rest::Over))) => {
            picker.unpause(end.plan);
            tally.taken += 1;
        }
        // Somebody else has it, or it is not due any more.
        Some(Ok(Rested::Rests(Rest::Held | Rest::NotDue(_)))) => picker.unpause(end.plan),
        Some(Ok(Rested::Blocked | Rested::NobodyFor(_) | Rested::Unreachable(_))) => {
            picker.pause(end.plan);
        }
        Some(Ok(Rested::OverBudget(_))) => return picker.wait_for_means(end.plan),
        Some(Ok(Rested::Stopped)) => {}
        Some(Err(_)) | None => {
            picker.pause(end.plan);
            tally.troubles += 1;
        }
    }
    picker.means_may_be_free();
}
