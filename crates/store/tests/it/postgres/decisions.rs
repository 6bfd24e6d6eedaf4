//! Minimal submissions for tests of the store, without the rules of the `plan` crate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::event::PlanCreated;
use plan::facts::{Lease, PlanChange};
use plan::invariant::Gate;
use plan::judgement::RuleCounts;
use plan::plan::{PlanLimits, PlanOrigin, ProfileSource};
use plan::project::{PlanResource, Project, ResourceKind};
use plan::{
    Caller, CommandId, CommandReceipt, Decision, DecisionFacts, Epoch, Event, Plan, PlanActors,
    PlanId, PlanVersion, Profile, ReceiptOutcome, RecordedEvent, Refusal, RowWrite, Timestamp,
    Verb, evolve,
};
use store::{DecideFn, IdempotencyKey, ReadSet, RowAccess, Submission};

/// Returns an id that no other test uses.
pub fn plan_id() -> PlanId {
    PlanId::from_parts(1_800_000_000_000 + next(), u128::from(next()))
}

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

/// Creates a submission without a key.
pub fn submission(
    reads: ReadSet,
    decide: impl FnMut(&DecisionFacts, Timestamp) -> Result<Decision, Refusal> + Send + 'static,
) -> Submission {
    Submission {
        id: command_id(),
        key: None,
        reads,
        decide: Box::new(decide) as DecideFn,
    }
}

/// Reads one plan with this access and nothing else.
pub fn reads(plan: PlanId, access: RowAccess) -> ReadSet {
    ReadSet {
        plan: Some((plan, access)),
        ..ReadSet::default()
    }
}

/// The project of the plans created here.
pub fn house() -> Project {
    Project {
        name: "house".parse().unwrap(),
        resources: Vec::new(),
        paused: None,
        created_at: Timestamp(0),
    }
}

pub fn create(plan: PlanId) -> Submission {
    submission(reads(plan, RowAccess::Exclusive), move |facts, now| {
        if facts.plan.is_some() {
            return Err(Refusal::NothingToUndo);
        }
        Ok(decision(created(plan, now), Vec::new(), now))
    })
}

/// Appends an event that changes only the version.
pub fn append(plan: PlanId) -> Submission {
    submission(reads(plan, RowAccess::Exclusive), move |facts, now| {
        Ok(decision(appended(facts, plan, now)?, Vec::new(), now))
    })
}

/// Appends such an event under an idempotency key.
pub fn append_once(plan: PlanId, key: IdempotencyKey) -> Submission {
    Submission {
        key: Some(key),
        ..append(plan)
    }
}

/// Stores a lease without changing the plan, which is read with this access.
pub fn put_lease(plan: PlanId, owner: &str, access: RowAccess) -> Submission {
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
            rows: vec![RowWrite::PutLease(lease)],
            receipt: receipt(plan, PlanVersion(0), now),
        })
    })
}

pub fn decision(change: PlanChange, rows: Vec<RowWrite>, now: Timestamp) -> Decision {
    let receipt = receipt(change.plan.id(), change.plan.version(), now);
    Decision {
        plans: vec![change],
        rows,
        receipt,
    }
}

/// Builds the first change of a plan.
pub fn created(plan: PlanId, now: Timestamp) -> PlanChange {
    let created = PlanCreated {
        definitions: Vec::new(),
        strategy_wanted: false,
        bases: Vec::new(),
        policy: Default::default(),
        goal: "Tidy the kitchen".into(),
        action: None,
        arguments: BTreeMap::new(),
        actors: PlanActors::for_both_phases("bot".parse().unwrap()),
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
        limits: PlanLimits::default(),
        origin: PlanOrigin::Use,
        result: None,
    };
    step(None, plan, Event::Created(Box::new(created)), now)
}

/// Builds the next change of the plan that was read.
pub fn appended(
    facts: &DecisionFacts,
    plan: PlanId,
    now: Timestamp,
) -> Result<PlanChange, Refusal> {
    let before = facts
        .plan
        .as_deref()
        .cloned()
        .ok_or(Refusal::NoSuchPlan(plan))?;
    let event = Event::GateHeld {
        gate: Gate::Execute,
        counts: RuleCounts::default(),
        decisions: Vec::new(),
    };
    Ok(step(Some(before), plan, event, now))
}

fn step(before: Option<Plan>, plan: PlanId, event: Event, now: Timestamp) -> PlanChange {
    let version = before
        .as_ref()
        .map_or(PlanVersion(0), plan::Plan::version)
        .next();
    let by = Caller::Worker("tester".to_owned());
    let recorded = RecordedEvent {
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

pub fn receipt(plan: PlanId, version: PlanVersion, now: Timestamp) -> CommandReceipt {
    CommandReceipt {
        verb: Verb::Approve,
        outcome: ReceiptOutcome::Done,
        plan: Some(plan),
        version: Some(version),
        epoch: None,
        changeset: None,
        grant: None,
        at: now,
    }
}
