//! Picking: which of the plans that are due a worker takes next.
//!
//! What is nearer to its end comes first; among equals, the project that was served longest ago, so that
//! a project with a thousand plans does not keep another with one waiting. What is remembered of a plan
//! is only what never changes about it.
//!
//! A look is bounded. It sees what is due first and, where that is a lot, a part of the rest, another one each
//! time: nothing stays hidden behind a long queue, or behind what cannot be taken (a paused project, another
//! host's plans).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use plan::{Name, Phase, Plan, PlanId, Timestamp};
use store::{Cursor, Due};

use crate::{Error, Lifecycle};

/// How many of those that are due first in a phase are looked at.
const LOOK_AHEAD: usize = 1000;

/// How many plans are asked for at a time.
const PAGE: usize = 200;

/// How many plans are remembered.
const MOST_KNOWN: usize = 20_000;

/// A plan that could not be taken further is left alone for this long at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// And for this long at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// For so long it is remembered that a plan was tried: long enough to have tried all others meanwhile.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Which plans a worker takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Only {
    /// Those that work on this project.
    pub project: Option<Name>,
    /// Those of this actor.
    pub actor: Option<Name>,
}

/// What becomes of a plan that went no further although it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It is tried again after a while.
    Later,
    /// It is left to others: who wants to be done must not wait for it.
    Never,
}

/// What never changes about a plan.
struct Known {
    project: Option<Name>,
    wanted: bool,
}

/// A plan that was tried and is left alone for a while.
struct Paused {
    until: Instant,
    pause: Duration,
    /// It comes behind those that were due by then.
    behind: Timestamp,
}

/// A place in a line. Ordered as it is served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    since: Timestamp,
    was_tried: bool,
    plan: PlanId,
}

/// What was chosen.
#[derive(Default)]
pub(super) struct Picked {
    pub plans: Vec<PlanId>,
    /// The end of the log when it was looked; nothing if it was not.
    pub seen: Option<Cursor>,
}

/// One look at what is due.
struct Look<'a> {
    lifecycle: &'a Lifecycle,
    busy: &'a BTreeSet<PlanId>,
    now: Instant,
}

/// Chooses among what is due.
pub(super) struct Picker {
    only: Only,
    again: Again,
    known: HashMap<PlanId, Known>,
    paused: HashMap<PlanId, Paused>,
    /// Those of them that wait for means that are set aside for others.
    short: BTreeSet<PlanId>,
    served: HashMap<Option<Name>, u64>,
    turns: u64,
    /// The newest that was seen to be due was so since then.
    seen_until: Timestamp,
    /// Behind whom the next look at the rest of a phase goes on, until it came to the end.
    seen_to: HashMap<Phase, Due>,
}

impl Picker {
    pub fn new(only: Only, again: Again) -> Self {
        Self {
            only,
            again,
            known: HashMap::new(),
            paused: HashMap::new(),
            short: BTreeSet::new(),
            served: HashMap::new(),
            turns: 0,
            seen_until: Timestamp(0),
            seen_to: HashMap::new(),
        }
    }

    /// Up to `most` plans to take further, none of them among `busy`.
    pub fn pick(
        &mut self,
        lifecycle: &Lifecycle,
        busy: &BTreeSet<PlanId>,
        most: usize,
    ) -> Result<Picked, Error> {
        let now = Instant::now();
        if self.again == Again::Later {
            // Of more than that, all are as good as never tried.
            let remembered = match self.paused.len() > MOST_KNOWN {
                true => Duration::ZERO,
                false => REMEMBERED,
            };
            self.paused
                .retain(|_, paused| paused.until + remembered > now);
        }
        // Others may have left something without telling.
        let paused = &mut self.paused;
        self.short.retain(|plan| {
            let waits = paused.get(plan).is_some_and(|paused| paused.until > now);
            if !waits {
                paused.remove(plan);
            }
            waits
        });
        if most == 0 {
            return Ok(Picked::default());
        }
        let look = Look {
            lifecycle,
            busy,
            now,
        };
        let agenda = lifecycle.store.agenda(PAGE)?;
        let mut picked = Vec::new();
        for (phase, first) in agenda.due {
            if picked.len() >= most {
                break;
            }
            let first = ahead(lifecycle, phase, first)?;
            let mut waiting = self.takeable(&look, &first)?;
            let rest = match first.last() {
                Some(last) if first.len() >= LOOK_AHEAD => {
                    self.part_of_the_rest(&look, phase, *last)?
                }
                Some(_) | None => Vec::new(),
            };
            let of_the_rest = self.takeable(&look, &rest)?;
            let newest = first.last().max(rest.last()).map(|due| due.due_at);
            self.seen_until = self.seen_until.max(newest.unwrap_or(self.seen_until));
            waiting.extend(&of_the_rest);
            self.take_turns(waiting, most, &mut picked);
            // Where something was taken there may be more to take.
            if !of_the_rest.iter().any(|due| picked.contains(&due.plan)) {
                match rest.last() {
                    Some(end) if rest.len() == PAGE => self.seen_to.insert(phase, *end),
                    Some(_) | None => self.seen_to.remove(&phase),
                };
            }
        }
        Ok(Picked {
            plans: picked,
            seen: Some(agenda.latest),
        })
    }

    /// Is there something due that no look has come to yet?
    pub fn has_more_to_see(&self) -> bool {
        !self.seen_to.is_empty()
    }

    /// A plan went no further although it was due. It is left alone for a while, longer each time.
    pub fn pause(&mut self, plan: PlanId) {
        let before = self.paused.get(&plan).map(|paused| paused.pause * 2);
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        self.rest(plan, pause);
    }

    /// A plan has nothing to work with until others leave something. It is looked at again soon.
    pub fn wait_for_means(&mut self, plan: PlanId) {
        self.rest(plan, FIRST_PAUSE);
        self.short.insert(plan);
    }

    fn rest(&mut self, plan: PlanId, pause: Duration) {
        let paused = Paused {
            until: Instant::now() + pause,
            pause,
            behind: self.seen_until,
        };
        self.paused.insert(plan, paused);
    }

    /// Somebody is done, and may have left something.
    pub fn means_may_be_free(&mut self) {
        for plan in std::mem::take(&mut self.short) {
            self.paused.remove(&plan);
        }
    }

    /// Is there anybody who only waits for what others may leave?
    pub fn waits_for_means(&self) -> bool {
        !self.short.is_empty()
    }

    /// A plan went further.
    pub fn unpause(&mut self, plan: PlanId) {
        self.paused.remove(&plan);
    }

    /// Those that can be tried now.
    fn takeable(&mut self, look: &Look<'_>, all: &[Due]) -> Result<Vec<Due>, Error> {
        let mut takeable = Vec::new();
        for due in all {
            let plan = &due.plan;
            let rests = self
                .paused
                .get(plan)
                .is_some_and(|paused| match self.again {
                    Again::Later => paused.until > look.now,
                    Again::Never => true,
                });
            if !rests && !look.busy.contains(plan) && self.is_wanted(look.lifecycle, *plan)? {
                takeable.push(*due);
            }
        }
        Ok(takeable)
    }

    /// What is due next behind where the last look ended, and behind `last` in any case.
    fn part_of_the_rest(
        &self,
        look: &Look<'_>,
        phase: Phase,
        last: Due,
    ) -> Result<Vec<Due>, Error> {
        let seen_to = self.seen_to.get(&phase).copied();
        let from = seen_to.map_or(last, |seen_to| seen_to.max(last));
        Ok(look.lifecycle.store.due(phase, Some(from), PAGE)?)
    }

    /// One plan of each project in turn, whoever was served longest ago first; within a project, and among
    /// projects that nobody was served of yet, the one that waited longest.
    fn take_turns(&mut self, waiting: Vec<Due>, most: usize, picked: &mut Vec<PlanId>) {
        let mut waiting: Vec<Place> = waiting.into_iter().map(|due| self.place(due)).collect();
        waiting.sort_unstable();
        let mut queues: HashMap<Option<Name>, VecDeque<Place>> = HashMap::new();
        for place in waiting {
            let known = self.known.get(&place.plan);
            let project = known.and_then(|known| known.project.clone());
            queues.entry(project).or_default().push_back(place);
        }
        while picked.len() < most {
            let last = |project: &Option<Name>| self.served.get(project).copied().unwrap_or(0);
            let next = queues
                .iter()
                .filter_map(|(project, queue)| Some((last(project), *queue.front()?, project)))
                .min_by_key(|(last, place, _)| (*last, *place));
            let Some((_, place, project)) = next else {
                return;
            };
            let project = project.clone();
            self.turns += 1;
            self.served.insert(project.clone(), self.turns);
            queues.entry(project).or_default().pop_front();
            picked.push(place.plan);
        }
    }

    /// Where a plan stands. One that was tried in vain goes to the end of the line: those that are tried over and over
    /// would otherwise keep the rest waiting, where it takes longer to try them all than they are left alone.
    fn place(&self, due: Due) -> Place {
        let paused = self.paused.get(&due.plan);
        Place {
            since: paused.map_or(due.due_at, |paused| paused.behind.max(due.due_at)),
            was_tried: paused.is_some(),
            plan: due.plan,
        }
    }

    fn is_wanted(&mut self, lifecycle: &Lifecycle, plan: PlanId) -> Result<bool, Error> {
        if let Some(known) = self.known.get(&plan) {
            return Ok(known.wanted);
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let Some(row) = lifecycle.store.plan(plan)? else {
            return Ok(false);
        };
        let known = Known {
            project: row.plan.projects().first().map(|name| (*name).clone()),
            wanted: self.only.wants(&row.plan),
        };
        let wanted = known.wanted;
        self.known.insert(plan, known);
        Ok(wanted)
    }
}

impl Only {
    fn wants(&self, plan: &Plan) -> bool {
        let of_project = |project: &Name| plan.projects().contains(project);
        let of_actor =
            |actor: &Name| [&plan.actors.strategy, &plan.actors.execution].contains(&actor);
        self.project.as_ref().is_none_or(of_project) && self.actor.as_ref().is_none_or(of_actor)
    }
}

/// What is due in a phase as far as is looked ahead, behind the first page of it.
fn ahead(lifecycle: &Lifecycle, phase: Phase, first: Vec<Due>) -> Result<Vec<Due>, Error> {
    let mut all = first;
    let mut last_page = all.len();
    while last_page == PAGE && all.len() < LOOK_AHEAD {
        let page = lifecycle.store.due(phase, all.last().copied(), PAGE)?;
        last_page = page.len();
        all.extend(page);
    }
    Ok(all)
}

#[cfg(all(test, not(feature = "shuttle")))]
#[allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]
mod tests {
    use plan::{Actors, Caller};
    use store::MemoryStore;
    use testkit::samples;

    use super::*;
    use crate::{Call, UseRequest};

    fn used(lifecycle: &Lifecycle, project: &str) -> PlanId {
        let request = UseRequest {
            goal: Some("Look around".to_owned()),
            fallback_actors: Some(Actors::both(samples::name("bot"))),
            projects: vec![samples::name(project)],
            ..UseRequest::default()
        };
        let ada = Call::by(Caller::Person("ada".to_owned()));
        lifecycle.use_action(request, &ada).unwrap().plan.id
    }

    /// Plans of two projects, one after the other, and how many looks it takes until one of the second is picked.
    #[track_caller]
    fn check(of_the_first: usize, expected: usize) {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let ada = Call::by(Caller::Person("ada".to_owned()));
        for project in ["large", "small"] {
            let resources = vec![samples::git("code")];
            let name = samples::name(project);
            lifecycle.create_project(&name, resources, &ada).unwrap();
        }
        for _ in 0..of_the_first {
            used(&lifecycle, "large");
        }
        let small = used(&lifecycle, "small");
        let mut picker = Picker::new(Only::default(), Again::Later);
        let mut busy = BTreeSet::new();
        for looks in 1..=20 {
            let picked = picker.pick(&lifecycle, &busy, 1).unwrap().plans;
            assert_eq!(picked.len(), 1);
            if picked == [small] {
                assert_eq!(looks, expected);
                return;
            }
            busy.extend(picked);
        }
        panic!("the plan of the small project was never picked");
    }

    /// Three plans that are due one after the other, the first two of them of the same project.
    fn three(picker: &mut Picker) -> [Due; 3] {
        [(1, 9, "large"), (2, 5, "large"), (3, 1, "small")].map(|(due_at, number, project)| {
            let plan = PlanId::from_parts(1, number);
            let known = Known {
                project: Some(samples::name(project)),
                wanted: true,
            };
            picker.known.insert(plan, known);
            let due_at = Timestamp(due_at);
            Due { due_at, plan }
        })
    }

    /// Ids that are made in the same millisecond say nothing about who was first.
    #[test]
    fn who_waited_longest_comes_first_whatever_its_id() {
        let mut picker = Picker::new(Only::default(), Again::Later);
        let due = three(&mut picker);
        let mut picked = Vec::new();
        picker.take_turns(due.to_vec(), 3, &mut picked);
        assert_eq!(picked, [due[0].plan, due[2].plan, due[1].plan]);
    }

    #[test]
    fn who_was_tried_in_vain_comes_behind_who_was_not() {
        let mut picker = Picker::new(Only::default(), Again::Later);
        let [first, second, _] = three(&mut picker);
        let next = |picker: &mut Picker| {
            let mut picked = Vec::new();
            picker.take_turns(vec![first, second], 1, &mut picked);
            picked
        };
        // Of all that were due by then, and not of those that came afterwards.
        for (seen_until, expected) in [(1, first), (2, second), (3, second)] {
            picker.seen_until = Timestamp(seen_until);
            picker.pause(first.plan);
            assert_eq!(next(&mut picker), [expected.plan], "{seen_until}");
        }
        picker.unpause(first.plan);
        assert_eq!(next(&mut picker), [first.plan]);
    }

    #[test]
    fn a_project_with_many_plans_does_not_keep_another_waiting() {
        check(1, 2);
        check(LOOK_AHEAD - 1, 2);
        // Each look sees another part of what is behind the first of them.
        check(LOOK_AHEAD + PAGE / 2, 2);
        check(LOOK_AHEAD + PAGE * 2, 3);
    }
}
