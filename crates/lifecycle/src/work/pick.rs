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

use plan::{Phase, Plan, PlanId, QualifiedName, Timestamp};
use store::{Cursor, DuePlan};

use crate::{Lifecycle, LifecycleError};

/// How many of those that are due first in a phase are looked at.
const MAX_LOOK_AHEAD: usize = 1000;

/// How many plans are asked for at a time.
const DUE_PAGE_SIZE: usize = 200;

/// How many plans are remembered.
const MAX_KNOWN_PLANS: usize = 20_000;

/// A plan that could not be taken further is left alone for this long at first.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);

/// And for this long at most.
const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// For so long it is remembered that a plan was tried: long enough to have tried all others meanwhile.
const ATTEMPT_RETENTION: Duration = Duration::from_secs(600);

/// Which plans a worker takes.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkFilter {
    /// Those that work on this project.
    pub project: Option<QualifiedName>,
    /// Those of this actor.
    pub actor: Option<QualifiedName>,
}

/// What becomes of a plan that went no further although it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// It is tried again after a while.
    Later,
    /// It is left to others: who wants to be done must not wait for it.
    Never,
}

/// What never changes about a plan.
struct KnownPlan {
    project: Option<QualifiedName>,
    is_accepted: bool,
}

/// A plan that was tried and is left alone for a while.
struct PausedPlan {
    until: Instant,
    backoff: Duration,
    /// It comes behind those that were due by then.
    queue_after: Timestamp,
}

/// A place in a line. Ordered as it is served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    since: Timestamp,
    was_tried: bool,
    plan_id: PlanId,
}

/// What was chosen.
#[derive(Default)]
pub(super) struct PickedPlans {
    pub plans: Vec<PlanId>,
    /// The end of the log when it was looked; nothing if it was not.
    pub log_end: Option<Cursor>,
}

/// One look at what is due.
struct DueScan<'a> {
    lifecycle: &'a Lifecycle,
    busy: &'a BTreeSet<PlanId>,
    now: Instant,
}

/// Chooses among what is due.
pub(super) struct PlanPicker {
    filter: WorkFilter,
    retry_policy: RetryPolicy,
    known: HashMap<PlanId, KnownPlan>,
    paused: HashMap<PlanId, PausedPlan>,
    /// Those of them that wait for means that are set aside for others.
    budget_waiters: BTreeSet<PlanId>,
    last_served: HashMap<Option<QualifiedName>, u64>,
    turns: u64,
    /// The newest that was seen to be due was so since then.
    newest_seen_due: Timestamp,
    /// Behind whom the next look at the rest of a phase goes on, until it came to the end.
    scan_positions: HashMap<Phase, DuePlan>,
}

impl PlanPicker {
    pub fn new(filter: WorkFilter, retry_policy: RetryPolicy) -> Self {
        Self {
            filter,
            retry_policy,
            known: HashMap::new(),
            paused: HashMap::new(),
            budget_waiters: BTreeSet::new(),
            last_served: HashMap::new(),
            turns: 0,
            newest_seen_due: Timestamp(0),
            scan_positions: HashMap::new(),
        }
    }

    /// Up to `most` plans to take further, none of them among `busy`.
    pub fn pick_plans(
        &mut self,
        lifecycle: &Lifecycle,
        busy: &BTreeSet<PlanId>,
        limit: usize,
    ) -> Result<PickedPlans, LifecycleError> {
        let now = Instant::now();
        if self.retry_policy == RetryPolicy::Later {
            // Of more than that, all are as good as never tried.
            let retention = match self.paused.len() > MAX_KNOWN_PLANS {
                true => Duration::ZERO,
                false => ATTEMPT_RETENTION,
            };
            self.paused
                .retain(|_, paused| paused.until + retention > now);
        }
        // Others may have left something without telling.
        let paused = &mut self.paused;
        self.budget_waiters.retain(|plan| {
            let is_waiting = paused.get(plan).is_some_and(|paused| paused.until > now);
            if !is_waiting {
                paused.remove(plan);
            }
            is_waiting
        });
        if limit == 0 {
            return Ok(PickedPlans::default());
        }
        let scan = DueScan {
            lifecycle,
            busy,
            now,
        };
        let agenda = lifecycle.store.read_due_queues(DUE_PAGE_SIZE)?;
        let mut picked = Vec::new();
        for (phase, first) in agenda.queues {
            if picked.len() >= limit {
                break;
            }
            let first = read_due_plans(lifecycle, phase, first)?;
            let mut waiting = self.select_takeable(&scan, &first)?;
            let rest = match first.last() {
                Some(last) if first.len() >= MAX_LOOK_AHEAD => {
                    self.read_next_part(&scan, phase, *last)?
                }
                Some(_) | None => Vec::new(),
            };
            let takeable_rest = self.select_takeable(&scan, &rest)?;
            let newest = first.last().max(rest.last()).map(|due| due.due_at);
            self.newest_seen_due = self
                .newest_seen_due
                .max(newest.unwrap_or(self.newest_seen_due));
            waiting.extend(&takeable_rest);
            self.pick_in_turns(waiting, limit, &mut picked);
            // Where something was taken there may be more to take.
            if !takeable_rest
                .iter()
                .any(|due| picked.contains(&due.plan_id))
            {
                match rest.last() {
                    Some(end) if rest.len() == DUE_PAGE_SIZE => {
                        self.scan_positions.insert(phase, *end)
                    }
                    Some(_) | None => self.scan_positions.remove(&phase),
                };
            }
        }
        Ok(PickedPlans {
            plans: picked,
            log_end: Some(agenda.latest_cursor),
        })
    }

    /// Is there something due that no look has come to yet?
    pub fn has_unseen_plans(&self) -> bool {
        !self.scan_positions.is_empty()
    }

    /// A plan went no further although it was due. It is left alone for a while, longer each time.
    pub fn pause_plan(&mut self, plan_id: PlanId) {
        let before = self.paused.get(&plan_id).map(|paused| paused.backoff * 2);
        let backoff = before.unwrap_or(INITIAL_BACKOFF).min(MAX_BACKOFF);
        self.pause_for(plan_id, backoff);
    }

    /// A plan has nothing to work with until others leave something. It is looked at again soon.
    pub fn wait_for_budget(&mut self, plan_id: PlanId) {
        self.pause_for(plan_id, INITIAL_BACKOFF);
        self.budget_waiters.insert(plan_id);
    }

    fn pause_for(&mut self, plan_id: PlanId, backoff: Duration) {
        let paused = PausedPlan {
            until: Instant::now() + backoff,
            backoff,
            queue_after: self.newest_seen_due,
        };
        self.paused.insert(plan_id, paused);
    }

    /// Somebody is done, and may have left something.
    pub fn retry_budget_waiters(&mut self) {
        for plan_id in std::mem::take(&mut self.budget_waiters) {
            self.paused.remove(&plan_id);
        }
    }

    /// Is there anybody who only waits for what others may leave?
    pub fn has_budget_waiters(&self) -> bool {
        !self.budget_waiters.is_empty()
    }

    /// A plan went further.
    pub fn unpause_plan(&mut self, plan_id: PlanId) {
        self.paused.remove(&plan_id);
    }

    /// Those that can be tried now.
    fn select_takeable(
        &mut self,
        scan: &DueScan<'_>,
        all: &[DuePlan],
    ) -> Result<Vec<DuePlan>, LifecycleError> {
        let mut takeable = Vec::new();
        for due in all {
            let plan_id = &due.plan_id;
            let is_paused =
                self.paused
                    .get(plan_id)
                    .is_some_and(|paused| match self.retry_policy {
                        RetryPolicy::Later => paused.until > scan.now,
                        RetryPolicy::Never => true,
                    });
            if !is_paused
                && !scan.busy.contains(plan_id)
                && self.is_plan_accepted(scan.lifecycle, *plan_id)?
            {
                takeable.push(*due);
            }
        }
        Ok(takeable)
    }

    /// What is due next behind where the last look ended, and behind `last` in any case.
    fn read_next_part(
        &self,
        scan: &DueScan<'_>,
        phase: Phase,
        last: DuePlan,
    ) -> Result<Vec<DuePlan>, LifecycleError> {
        let scan_position = self.scan_positions.get(&phase).copied();
        let from = scan_position.map_or(last, |seen_to| seen_to.max(last));
        Ok(scan
            .lifecycle
            .store
            .list_due_plans(phase, Some(from), DUE_PAGE_SIZE)?)
    }

    /// One plan of each project in turn, whoever was served longest ago first; within a project, and among
    /// projects that nobody was served of yet, the one that waited longest.
    fn pick_in_turns(&mut self, waiting: Vec<DuePlan>, limit: usize, picked: &mut Vec<PlanId>) {
        let mut positions: Vec<QueuePosition> = waiting
            .into_iter()
            .map(|due| self.queue_position(due))
            .collect();
        positions.sort_unstable();
        let mut queues: HashMap<Option<QualifiedName>, VecDeque<QueuePosition>> = HashMap::new();
        for position in positions {
            let known = self.known.get(&position.plan_id);
            let project = known.and_then(|known| known.project.clone());
            queues.entry(project).or_default().push_back(position);
        }
        while picked.len() < limit {
            let last = |project: &Option<QualifiedName>| {
                self.last_served.get(project).copied().unwrap_or(0)
            };
            let next = queues
                .iter()
                .filter_map(|(project, queue)| Some((last(project), *queue.front()?, project)))
                .min_by_key(|(last, position, _)| (*last, *position));
            let Some((_, position, project)) = next else {
                return;
            };
            let project = project.clone();
            self.turns += 1;
            self.last_served.insert(project.clone(), self.turns);
            queues.entry(project).or_default().pop_front();
            picked.push(position.plan_id);
        }
    }

    /// Where a plan stands. One that was tried in vain goes to the end of the line: those that are tried over and over
    /// would otherwise keep the rest waiting, where it takes longer to try them all than they are left alone.
    fn queue_position(&self, due: DuePlan) -> QueuePosition {
        let paused = self.paused.get(&due.plan_id);
        QueuePosition {
            since: paused.map_or(due.due_at, |paused| paused.queue_after.max(due.due_at)),
            was_tried: paused.is_some(),
            plan_id: due.plan_id,
        }
    }

    fn is_plan_accepted(
        &mut self,
        lifecycle: &Lifecycle,
        plan_id: PlanId,
    ) -> Result<bool, LifecycleError> {
        if let Some(known) = self.known.get(&plan_id) {
            return Ok(known.is_accepted);
        }
        if self.known.len() >= MAX_KNOWN_PLANS {
            self.known.clear();
        }
        let Some(row) = lifecycle.store.read_plan(plan_id)? else {
            return Ok(false);
        };
        let known = KnownPlan {
            project: row.plan.projects().first().map(|name| (*name).clone()),
            is_accepted: self.filter.accepts_plan(&row.plan),
        };
        let is_accepted = known.is_accepted;
        self.known.insert(plan_id, known);
        Ok(is_accepted)
    }
}

impl WorkFilter {
    fn accepts_plan(&self, plan: &Plan) -> bool {
        let of_project = |project: &QualifiedName| plan.projects().contains(project);
        let of_actor = |actor: &QualifiedName| {
            [&plan.actors.strategy, &plan.actors.execution].contains(&actor)
        };
        self.project.as_ref().is_none_or(of_project) && self.actor.as_ref().is_none_or(of_actor)
    }
}

/// What is due in a phase as far as is looked ahead, behind the first page of it.
fn read_due_plans(
    lifecycle: &Lifecycle,
    phase: Phase,
    first: Vec<DuePlan>,
) -> Result<Vec<DuePlan>, LifecycleError> {
    let mut all = first;
    let mut last_page = all.len();
    while last_page == DUE_PAGE_SIZE && all.len() < MAX_LOOK_AHEAD {
        let page = lifecycle
            .store
            .list_due_plans(phase, all.last().copied(), DUE_PAGE_SIZE)?;
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
    use plan::{Caller, PlanActors};
    use store::MemoryStore;
    use testkit::samples;

    use super::*;
    use crate::{Call, UseRequest};

    fn create_plan(lifecycle: &Lifecycle, project: &str) -> PlanId {
        let request = UseRequest {
            goal: Some("Look around".to_owned()),
            fallback_actors: Some(PlanActors::for_both_phases(samples::parse_name("bot"))),
            projects: vec![samples::parse_name(project)],
            ..UseRequest::default()
        };
        let ada = Call::by(Caller::Person("ada".to_owned()));
        lifecycle.use_action(request, &ada).unwrap().plan.id
    }

    /// Plans of two projects, one after the other, and how many looks it takes until one of the second is picked.
    #[track_caller]
    fn check_looks_needed(large_plans: usize, expected: usize) {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let ada = Call::by(Caller::Person("ada".to_owned()));
        for project in ["large", "small"] {
            let resources = vec![samples::git_resource("code")];
            let name = samples::parse_name(project);
            lifecycle.create_project(&name, resources, &ada).unwrap();
        }
        for _ in 0..large_plans {
            create_plan(&lifecycle, "large");
        }
        let small = create_plan(&lifecycle, "small");
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let mut busy = BTreeSet::new();
        for looks in 1..=20 {
            let picked = picker.pick_plans(&lifecycle, &busy, 1).unwrap().plans;
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
    fn add_three_due_plans(picker: &mut PlanPicker) -> [DuePlan; 3] {
        [(1, 9, "large"), (2, 5, "large"), (3, 1, "small")].map(|(due_at, number, project)| {
            let plan_id = PlanId::from_parts(1, number);
            let known = KnownPlan {
                project: Some(samples::parse_name(project)),
                is_accepted: true,
            };
            picker.known.insert(plan_id, known);
            let due_at = Timestamp(due_at);
            DuePlan { due_at, plan_id }
        })
    }

    /// Ids that are made in the same millisecond say nothing about who was first.
    #[test]
    fn who_waited_longest_comes_first_whatever_its_id() {
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let due = add_three_due_plans(&mut picker);
        let mut picked = Vec::new();
        picker.pick_in_turns(due.to_vec(), 3, &mut picked);
        assert_eq!(picked, [due[0].plan_id, due[2].plan_id, due[1].plan_id]);
    }

    #[test]
    fn who_was_tried_in_vain_comes_behind_who_was_not() {
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let [first, second, _] = add_three_due_plans(&mut picker);
        let pick_next = |picker: &mut PlanPicker| {
            let mut picked = Vec::new();
            picker.pick_in_turns(vec![first, second], 1, &mut picked);
            picked
        };
        // Of all that were due by then, and not of those that came afterwards.
        for (seen_until, expected) in [(1, first), (2, second), (3, second)] {
            picker.newest_seen_due = Timestamp(seen_until);
            picker.pause_plan(first.plan_id);
            assert_eq!(pick_next(&mut picker), [expected.plan_id], "{seen_until}");
        }
        picker.unpause_plan(first.plan_id);
        assert_eq!(pick_next(&mut picker), [first.plan_id]);
    }

    #[test]
    fn a_project_with_many_plans_does_not_keep_another_waiting() {
        check_looks_needed(1, 2);
        check_looks_needed(MAX_LOOK_AHEAD - 1, 2);
        // Each look sees another part of what is behind the first of them.
        check_looks_needed(MAX_LOOK_AHEAD + DUE_PAGE_SIZE / 2, 2);
        check_looks_needed(MAX_LOOK_AHEAD + DUE_PAGE_SIZE * 2, 3);
    }
}
