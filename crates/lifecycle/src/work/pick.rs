//! Chooses which due plans a worker takes next.
//!
//! Later phases come first. Within a phase, the projects take turns, so that a project with a thousand plans
//! does not block another with one. Only immutable facts about plans are cached.
//!
//! Each scan is bounded: it reads the head of the queue and, if the queue is long, one part of the rest, a
//! different one each time. So no plan stays hidden behind a long queue or behind plans that cannot be taken
//! (a paused project, another host).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use plan::{Caller, Phase, Plan, PlanId, QualifiedName, Timestamp};
use store::{Cursor, DuePlan};

use crate::{Lifecycle, LifecycleError};

/// How many plans at the head of a phase's queue are read on each scan.
const MAX_LOOK_AHEAD: usize = 1000;

const DUE_PAGE_SIZE: usize = 200;

/// The maximum number of cached plans.
const MAX_KNOWN_PLANS: usize = 20_000;

/// The first pause of a plan that could not be advanced. It doubles on each attempt.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);

const MAX_BACKOFF: Duration = Duration::from_secs(8);

/// How long an attempt is remembered after its pause: long enough to try all other plans.
const ATTEMPT_RETENTION: Duration = Duration::from_secs(600);

/// Which plans a worker takes.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkFilter {
    pub project: Option<QualifiedName>,
    pub actor: Option<QualifiedName>,
    pub author: Option<Caller>,
}

/// What happens to a due plan that could not be advanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Retry after a pause.
    Later,
    /// Leave it to others, so that a worker that drains the queue can end.
    Never,
}

/// Immutable facts about a plan.
struct KnownPlan {
    project: Option<QualifiedName>,
    is_accepted: bool,
}

/// A plan that was tried without success and is paused.
struct PausedPlan {
    until: Instant,
    backoff: Duration,
    /// The plan is queued behind those that were due by this time.
    queue_after: Timestamp,
}

/// The position in a project's queue. The derived order is the order of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    since: Timestamp,
    was_tried: bool,
    plan_id: PlanId,
}

#[derive(Default)]
pub(super) struct PickedPlans {
    pub plans: Vec<PlanId>,
    /// The end of the log at the time of the scan. Not set if there was no scan.
    pub log_end: Option<Cursor>,
}

/// The context of one scan.
struct DueScan<'a> {
    lifecycle: &'a Lifecycle,
    busy: &'a BTreeSet<PlanId>,
    now: Instant,
}

pub(super) struct PlanPicker {
    filter: WorkFilter,
    retry_policy: RetryPolicy,
    known: HashMap<PlanId, KnownPlan>,
    paused: HashMap<PlanId, PausedPlan>,
    /// The paused plans that wait for budget reserved by others.
    budget_waiters: BTreeSet<PlanId>,
    last_served: HashMap<Option<QualifiedName>, u64>,
    turns: u64,
    /// The due time of the newest plan seen so far.
    newest_seen_due: Timestamp,
    /// Where the next scan of the rest of a phase's queue continues. Absent after it reached the end.
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

    /// Returns up to `limit` plans to advance, none of them in `busy`.
    pub fn pick_plans(
        &mut self,
        lifecycle: &Lifecycle,
        busy: &BTreeSet<PlanId>,
        limit: usize,
    ) -> Result<PickedPlans, LifecycleError> {
        let now = Instant::now();
        if self.retry_policy == RetryPolicy::Later {
            // With too many paused plans, forget the older attempts.
            let retention = match self.paused.len() > MAX_KNOWN_PLANS {
                true => Duration::ZERO,
                false => ATTEMPT_RETENTION,
            };
            self.paused
                .retain(|_, paused| paused.until + retention > now);
        }
        // Budget can become free in other processes too, so plans do not wait longer than their pause.
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
            // Scan the same part again if a plan was taken from it: there may be more.
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

    /// Are there due plans that no scan has reached yet?
    pub fn has_unseen_plans(&self) -> bool {
        !self.scan_positions.is_empty()
    }

    /// Pauses a plan that could not be advanced, longer each time.
    pub fn pause_plan(&mut self, plan_id: PlanId) {
        let before = self.paused.get(&plan_id).map(|paused| paused.backoff * 2);
        let backoff = before.unwrap_or(INITIAL_BACKOFF).min(MAX_BACKOFF);
        self.pause_for(plan_id, backoff);
    }

    /// Pauses a plan until other plans release budget, but only briefly.
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

    /// Retries the plans that wait for budget, after another plan ended.
    pub fn retry_budget_waiters(&mut self) {
        for plan_id in std::mem::take(&mut self.budget_waiters) {
            self.paused.remove(&plan_id);
        }
    }

    /// Do any plans wait for budget that others may release?
    pub fn has_budget_waiters(&self) -> bool {
        !self.budget_waiters.is_empty()
    }

    pub fn unpause_plan(&mut self, plan_id: PlanId) {
        self.paused.remove(&plan_id);
    }

    /// The plans that can be tried now.
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

    /// Reads the next part of the queue after the previous scan, but not before `last`.
    fn read_next_part(
        &self,
        scan: &DueScan<'_>,
        phase: Phase,
        last: DuePlan,
    ) -> Result<Vec<DuePlan>, LifecycleError> {
        let scan_position = self.scan_positions.get(&phase).copied();
        let from = scan_position.map_or(last, |position| position.max(last));
        Ok(scan
            .lifecycle
            .store
            .list_due_plans(phase, Some(from), DUE_PAGE_SIZE)?)
    }

    /// Picks one plan of each project in turn, starting with the project served longest ago. Within a project,
    /// and among projects never served, picks the plan that has waited longest.
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

    /// A plan that was tried without success goes to the end of the queue. Otherwise, if trying all such plans takes
    /// longer than their pause, they would starve the rest.
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
        let is_in_project = |project: &QualifiedName| plan.projects().contains(project);
        let has_actor = |actor: &QualifiedName| {
            [&plan.actors().strategy, &plan.actors().execution].contains(&actor)
        };
        let is_author = |author: &Caller| plan.created_by() == Some(author);
        self.project.as_ref().is_none_or(is_in_project)
            && self.actor.as_ref().is_none_or(has_actor)
            && self.author.as_ref().is_none_or(is_author)
    }
}

/// Reads the head of a phase's queue, starting with its first page.
fn read_due_plans(
    lifecycle: &Lifecycle,
    phase: Phase,
    first: Vec<DuePlan>,
) -> Result<Vec<DuePlan>, LifecycleError> {
    let mut all = first;
    let mut last_page_length = all.len();
    while last_page_length == DUE_PAGE_SIZE && all.len() < MAX_LOOK_AHEAD {
        let page = lifecycle
            .store
            .list_due_plans(phase, all.last().copied(), DUE_PAGE_SIZE)?;
        last_page_length = page.len();
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
        lifecycle.use_action(request, &ada).unwrap().plan.id()
    }

    /// Queues many plans of one project and one of another, and checks on which scan the latter is picked.
    #[track_caller]
    fn check_scans_needed(large_plans: usize, expected: usize) {
        let lifecycle = Lifecycle::open(MemoryStore::new());
        let ada = Call::by(Caller::Person("ada".to_owned()));
        for project in ["large", "small"] {
            let resources = vec![samples::git_resource("code")];
            let name = samples::parse_name(project);
            lifecycle
                .projects()
                .create_project(&name, resources, &ada)
                .unwrap();
        }
        for _ in 0..large_plans {
            create_plan(&lifecycle, "large");
        }
        let small = create_plan(&lifecycle, "small");
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let mut busy = BTreeSet::new();
        for scans in 1..=20 {
            let picked = picker.pick_plans(&lifecycle, &busy, 1).unwrap().plans;
            assert_eq!(picked.len(), 1);
            if picked == [small] {
                assert_eq!(scans, expected);
                return;
            }
            busy.extend(picked);
        }
        panic!("the plan of the small project was never picked");
    }

    /// Three plans in the order of their due times. The first two belong to the same project.
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

    /// Ids generated in the same millisecond are not ordered by time.
    #[test]
    fn the_longest_waiting_plan_comes_first_whatever_its_id() {
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let due = add_three_due_plans(&mut picker);
        let mut picked = Vec::new();
        picker.pick_in_turns(due.to_vec(), 3, &mut picked);
        assert_eq!(picked, [due[0].plan_id, due[2].plan_id, due[1].plan_id]);
    }

    #[test]
    fn a_plan_tried_without_success_is_queued_behind_untried_ones() {
        let mut picker = PlanPicker::new(WorkFilter::default(), RetryPolicy::Later);
        let [first, second, _] = add_three_due_plans(&mut picker);
        let pick_next = |picker: &mut PlanPicker| {
            let mut picked = Vec::new();
            picker.pick_in_turns(vec![first, second], 1, &mut picked);
            picked
        };
        // Behind all plans that were due by then, but not behind later ones.
        for (seen_until, expected) in [(1, first), (2, second), (3, second)] {
            picker.newest_seen_due = Timestamp(seen_until);
            picker.pause_plan(first.plan_id);
            assert_eq!(pick_next(&mut picker), [expected.plan_id], "{seen_until}");
        }
        picker.unpause_plan(first.plan_id);
        assert_eq!(pick_next(&mut picker), [first.plan_id]);
    }

    #[test]
    fn a_project_with_many_plans_does_not_block_another() {
        check_scans_needed(1, 2);
        check_scans_needed(MAX_LOOK_AHEAD - 1, 2);
        // Each scan reads another part of the queue behind its head.
        check_scans_needed(MAX_LOOK_AHEAD + DUE_PAGE_SIZE / 2, 2);
        check_scans_needed(MAX_LOOK_AHEAD + DUE_PAGE_SIZE * 2, 3);
    }
}
