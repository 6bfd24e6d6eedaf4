//! Assignments for tests.

use std::collections::BTreeMap;

use plan::argument::ArgumentValue;
use plan::decision::{DecisionKind, DecisionNode};
use plan::{Phase, PlanId};
use planwright_actors::{Assignment, AssignmentLimits, Finding};

pub fn sample_assignment(phase: Phase) -> Assignment {
    Assignment {
        plan: PlanId::from_parts(1_700_000_000_000, 7),
        phase,
        attempt: 2,
        run_key: "run-1".into(),
        goal: "Make the footer say 2025".into(),
        description: None,
        arguments: BTreeMap::from([(
            "dry_run".to_owned(),
            ArgumentValue::String("a \"b\"".into()),
        )]),
        read_only: false,
        sandboxes: Vec::new(),
        rules: Vec::new(),
        strategy: Vec::new(),
        feedback: Vec::new(),
        revises: false,
        dropped: Vec::new(),
        taken_out: Vec::new(),
        conflicts: Vec::new(),
        answers: Vec::new(),
        findings: Vec::new(),
        limits: AssignmentLimits::default(),
        earlier: None,
    }
}

pub fn make_note(about: &str, text: &str) -> Finding {
    Finding::new(about.into(), text)
}

pub fn make_decision_node(number: u32, kind: DecisionKind, choice: &str) -> DecisionNode {
    DecisionNode {
        number,
        parent: number.checked_sub(1).filter(|parent| *parent > 0),
        kind,
        question: "What?".into(),
        choice: choice.into(),
        alternatives: vec!["nothing".into()],
        rationale: None,
        confidence: None,
    }
}
