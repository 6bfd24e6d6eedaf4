//! Picking: which of the plans that are due a worker takes next.
//!
//! What is nearer to its end comes first; among equals, the project that was served longest ago, so that
//! a project with a thousand plans does not keep another with one waiting. What is remembered of a plan
//! is only what never changes about it.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use plan::{Name, Phase, Plan, PlanId};
use store::{Cursor, Due};

use crate::{Error, Lifecycle};

/// How far ahead is looked among the plans of a phase.
const LOOK_AHEAD: usize = 1000;

/// How many plans are asked for at a time.
const PAGE: usize = 200;

/// How many plans are remembered.
const MOST_KNOWN: usize = 20_000;

/// A plan that could not be taken further is left alone for this long at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// And for this long at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Which plans a worker takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Only {
    /// Those that work on this project.
    pub project: Option<Name>,
    /// Those of this actor.
    pub actor: Option<Name>,
}

/// What never changes about a plan.
struct Known {
    project: Option<Name>,
    wanted: bool,
}

/// A plan that is left alone for a while.
struct Paused {
    until: Instant,
    pause: Duration,
}

/// What was chosen.
#[derive(Default)]
pub(super) struct Picked {
    pub plans: Vec<PlanId>,
    /// The end of the log when it was looked; nothing if it was not.
    pub seen: Option<Cursor>,
}

/// Chooses among what is due.
pub(super) struct Picker {
    only: Only,
    known: HashMap<PlanId, Known>,
    paused: HashMap<PlanId, Paused>,
    /// Those of them that wait for means that are set aside for others.
    short: BTreeSet<PlanId>,
    served: HashMap<Option<Name>, u64>,
    turns: u64,
}

impl Picker {
    pub fn new(only: Only) -> Self {
        Self {
            only,
            known: HashMap::new(),
            paused: HashMap::new(),
            short: BTreeSet::new(),
            served: HashMap::new(),
            turns: 0,
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
        self.paused
            .retain(|_, paused| paused.until + paused.pause > now);
        self.short.retain(|plan| {
            let paused = self.paused.get(plan);
            paused.is_some_and(|paused| paused.until > now)
        });
        if most == 0 {
            return Ok(Picked::default());
        }
        let agenda = lifecycle.store.agenda(PAGE)?;
        let mut picked = Vec::new();
        for (phase, first) in agenda.due {
            if picked.len() >= most {
                break;
            }
            let mut waiting = Vec::new();
            for due in ahead(lifecycle, phase, first)? {
                let paused = self.paused.get(&due.plan);
                let rests = paused.is_some_and(|paused| paused.until > now);
                if !rests && !busy.contains(&due.plan) && self.is_wanted(lifecycle, due.plan)? {
                    waiting.push(due.plan);
                }
            }
            self.take_turns(waiting, most, &mut picked);
        }
        Ok(Picked {
            plans: picked,
            seen: Some(agenda.latest),
        })
    }

    /// A plan went no further although it was due. It is left alone for a while, longer each time.
    pub fn pause(&mut self, plan: PlanId) {
        let before = self.paused.get(&plan).map(|paused| paused.pause * 2);
        let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
        let until = Instant::now() + pause;
        self.paused.insert(plan, Paused { until, pause });
    }

    /// A plan has nothing to work with until others leave something. It is looked at again soon.
    pub fn wait_for_means(&mut self, plan: PlanId) {
        let (until, pause) = (Instant::now() + FIRST_PAUSE, FIRST_PAUSE);
        self.paused.insert(plan, Paused { until, pause });
        self.short.insert(plan);
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

    /// One plan of each project in turn, whoever was served longest ago first; within a project, the one
    /// that waited longest.
    fn take_turns(&mut self, waiting: Vec<PlanId>, most: usize, picked: &mut Vec<PlanId>) {
        let mut queues: HashMap<Option<Name>, std::collections::VecDeque<PlanId>> = HashMap::new();
        for plan in waiting {
            let project = self
                .known
                .get(&plan)
                .and_then(|known| known.project.clone());
            queues.entry(project).or_default().push_back(plan);
        }
        while picked.len() < most {
            let last = |project: &Option<Name>| self.served.get(project).copied().unwrap_or(0);
            let next = queues
                .iter()
                .filter_map(|(project, queue)| Some((last(project), *queue.front()?, project)))
                .min_by_key(|(last, plan, _)| (*last, *plan));
            let Some((_, plan, project)) = next else {
                return;
            };
            let project = project.clone();
            self.turns += 1;
            self.served.insert(project.clone(), self.turns);
            queues.entry(project).or_default().pop_front();
            picked.push(plan);
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
