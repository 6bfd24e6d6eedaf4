//! Submissions made by hand: what they decide is as little as possible, so that a test shows the
//! store and not the rules.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::event::Created;
use plan::facts::{Lease, PlanChange};
use plan::invariant::Gate;
use plan::judgement::Counts;
use plan::plan::{Limits, Origin, ProfileSource};
use plan::project::{PlanResource, Project, ResourceKind};
use plan::{
    Actors, Caller, CommandId, Decision, Epoch, Event, Facts, Outcome, Plan, PlanId, Profile,
    Receipt, Recorded, Refusal, Row, Timestamp, Verb, Version, evolve,
};
use store::{Access, DecideFn, Key, Reads, Submission};

/// An id no other test has.
pub fn plan_id() -> PlanId {
    PlanId::from_parts(1_800_000_000_000 + next(), u128::from(next()))
}

/// A submission's id.
pub fn command_id() -> CommandId {
    CommandId::from_parts(
        1_800_000_000_000,
        (u128::from(std::process::id()) << 40) | u128::from(next()),
    )
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A submission without a key.
pub fn submission(
    reads: Reads,
    decide: impl FnMut(&Facts, Timestamp) -> Result<Decision, Refusal> + Send + 'static,
) -> Submission {
    Submission {
        id: command_id(),
        key: None,
        reads,
        decide: Box::new(decide) as DecideFn,
    }
}

/// A plan held like this, and nothing else.
pub fn reads(plan: PlanId, access: Access) -> Reads {
    Reads {
        plan: Some((plan, access)),
        ..Reads::default()
    }
}

/// The project of the plans that are made here.
pub fn house() -> Project {
    Project {
        name: "house".parse().unwrap(),
        resources: Vec::new(),
        paused: None,
        created_at: Timestamp(0),
    }
}

/// Makes a plan.
pub fn create(plan: PlanId) -> Submission {
    submission(reads(plan, Access::Exclusive), move |facts, now| {
        if facts.plan.is_some() {
            return Err(Refusal::NothingToUndo);
        }
        Ok(decision(created(plan, now), Vec::new(), now))
    })
}

/// Adds an event that changes nothing but the version.
pub fn append(plan: PlanId) -> Submission {
    submission(reads(plan, Access::Exclusive), move |facts, now| {
        Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
    })
}

/// Adds such an event under an idempotency key.
pub fn append_once(plan: PlanId, key: Key) -> Submission {
    Submission {
        key: Some(key),
        ..append(plan)
    }
}

/// Stores a lease of this plan, which is held like that; the plan stays as it is.
pub fn put_lease(plan: PlanId, owner: &str, access: Access) -> Submission {
    let owner = owner.to_owned();
    submission(reads(plan, access), move |_, now| {
        let lease = Lease {
            plan,
            owner: owner.clone(),
            epoch: Epoch(1),
            expires_at: now,
        };
        Ok(Decision {
            plans: Vec::new(),
            rows: vec![Row::PutLease(lease)],
            receipt: receipt(plan, Version(0), now),
        })
    })
}

/// One change with these rows.
pub fn decision(change: PlanChange, rows: Vec<Row>, now: Timestamp) -> Decision {
    let receipt = receipt(change.plan.id, change.plan.version, now);
    Decision {
        plans: vec![change],
        rows,
        receipt,
    }
}

/// The first step of a plan.
pub fn created(plan: PlanId, now: Timestamp) -> PlanChange {
    let created = Created {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        ways: Default::default(),
        goal: "Tidy the kitchen".into(),
        action: None,
        arguments: BTreeMap::new(),
        actors: Actors::both("bot".parse().unwrap()),
        profile: Profile::Auto,
        profile_source: ProfileSource::Default,
        read_only: false,
        resources: vec![PlanResource {
            name: "house/kitchen".to_owned(),
            project: "house".parse().unwrap(),
            resource: "kitchen".parse().unwrap(),
            kind: ResourceKind::Dir,
            target: None,
        }],
        limits: Limits::default(),
        origin: Origin::Use,
        result: None,
    };
    step(None, plan, Event::Created(Box::new(created)), now)
}

/// The next step of the plan that was read.
pub fn appended(facts: &Facts, plan: PlanId, now: Timestamp) -> Result<PlanChange, Refusal> {
    let before = facts
        .plan
        .as_deref()
        .cloned()
        .ok_or(Refusal::NoSuchPlan(plan))?;
    let event = Event::GateHeld {
        gate: Gate::Execute,
        counts: Counts::default(),
        decisions: Vec::new(),
    };
    Ok(step(Some(before), plan, event, now))
}

fn step(before: Option<Plan>, plan: PlanId, event: Event, now: Timestamp) -> PlanChange {
    let version = before
        .as_ref()
        .map_or(Version(0), |plan| plan.version)
        .next();
    let by = Caller::Worker("tester".to_owned());
    let recorded = Recorded {
        plan,
        version,
        at: now,
        by,
        event,
    };
    PlanChange {
        plan: evolve(before, &recorded).unwrap().into(),
        events: vec![recorded],
    }
}

pub fn receipt(plan: PlanId, version: Version, now: Timestamp) -> Receipt {
    Receipt {
        verb: Verb::Approve,
        outcome: Outcome::Done,
        plan: Some(plan),
        version: Some(version),
        epoch: None,
        changeset: None,
        grant: None,
        at: now,
    }
}
