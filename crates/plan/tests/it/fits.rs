//! Which event fits which state of a plan, and under which epoch: one readable table. A log with
//! any other event is damaged, and replay must fail on it.

use std::fmt::Write as _;

use planwright_plan as plan;

use plan::event::{Event, RemovedChangeResolution};
use plan::stage::{
    ConstraintKind, FailureCategory, LandingConstraint, LandingIntent, PlanFailure, PlanQuestion,
    ResultContent,
};
use plan::{Epoch, Phase, RecordedEvent, Timestamp, evolve};

use crate::spot::Spot;
use crate::world::{PlanWorld, ada};

/// Returns every event except the first, with this epoch.
fn candidate_events(epoch: Epoch, at: Timestamp) -> Vec<(String, Event)> {
    let claimed = |phase: Phase| {
        let event = Event::Claimed {
            phase,
            owner: "w1".to_owned(),
            epoch,
            asked: false,
        };
        (format!("claimed for {phase}"), event)
    };
    let answered = |fate: Option<RemovedChangeResolution>| {
        let event = Event::Answered {
            answer: "yes".into(),
            fate,
        };
        (format!("answered, fate {fate:?}"), event)
    };
    let mut events: Vec<(String, Event)> = Phase::ALL.map(claimed).into();
    events.extend(
        [
            None,
            Some(RemovedChangeResolution::Landed),
            Some(RemovedChangeResolution::Again),
            Some(RemovedChangeResolution::Drop),
        ]
        .map(answered),
    );
    events.extend(
        [
            Event::StrategizeCompleted { epoch },
            Event::ExecuteEntered { asked: true },
            Event::ExecuteCompleted {
                epoch,
                result: ResultContent::default(),
                unmet: Vec::new(),
            },
            Event::ResultPicked {
                epoch,
                result: ResultContent::default(),
                reduced: Vec::new(),
                keeps_rest: false,
            },
            Event::ApplyEntered { asked: true },
            Event::ApplyPrepared {
                epoch,
                intent: LandingIntent::default(),
            },
            Event::ApplyWithdrawn { epoch },
            Event::Landed { epoch },
            Event::Constrained {
                constraint: LandingConstraint {
                    kind: ConstraintKind::Conflict,
                    message: "no".into(),
                    paths: Vec::new(),
                    commits: Vec::new(),
                    epoch,
                    at,
                },
            },
            Event::Failed {
                failure: PlanFailure {
                    category: FailureCategory::Actor,
                    message: "no".into(),
                    epoch,
                    at,
                },
            },
            Event::RetryScheduled { retry_at: at },
            Event::Retried {
                fresh: false,
                limits: plan::plan::PlanLimits::default(),
                restarts_execute: None,
            },
            Event::Asked {
                question: PlanQuestion {
                    text: "which?".into(),
                    epoch,
                    asked_at: at,
                    deadline: None,
                },
            },
            Event::QuestionExpired,
            Event::PermissionAsked {
                epoch,
                digest: plan::Digest::ZERO,
                call: crate::commands::sample_tool_call(),
            },
            Event::PermissionAnswered {
                digest: plan::Digest::ZERO,
                allowed: true,
            },
            Event::Revised {
                to: Phase::Execute,
                epoch,
                feedback: "better".into(),
                comments: Vec::new(),
                dropped: Vec::new(),
                automatic: false,
            },
            Event::Reverted {
                epoch,
                reason: "anew".into(),
                automatic: false,
            },
            Event::Released { epoch },
            Event::Reclaimed {
                owner: "w1".to_owned(),
                epoch,
            },
            Event::Cancelled {
                epoch,
                reason: None,
            },
        ]
        .map(|event| (event.kind().to_owned(), event)),
    );
    events
}

fn event_fits(world: &PlanWorld, event: Event) -> bool {
    let recorded = RecordedEvent {
        plan: world.plan().id(),
        version: world.plan().version().next(),
        at: world.now,
        by: ada(),
        event,
    };
    evolve(Some(world.plan().clone()), &recorded).is_ok()
}

#[test]
fn events_fit_only_their_stages_and_epochs() {
    let mut text = String::new();
    for spot in Spot::ALL {
        let world = spot.default_world();
        writeln!(text, "{}", world.stage()).unwrap();
        let epoch = world.plan().epoch();
        let epochs = [
            ("under the epoch before", Epoch(epoch.0.saturating_sub(1))),
            ("under its epoch", epoch),
            ("under the next", epoch.next()),
        ];
        for (label, epoch) in epochs {
            let fitting: Vec<String> = candidate_events(epoch, world.now)
                .into_iter()
                .filter(|(_, event)| event_fits(&world, event.clone()))
                .map(|(name, _)| name)
                .collect();
            let fitting = match fitting.as_slice() {
                [] => "nothing".to_owned(),
                some => some.join("; "),
            };
            writeln!(text, "  {label}: {fitting}").unwrap();
        }
    }
    insta::assert_snapshot!(text);
}
