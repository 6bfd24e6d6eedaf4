//! Every plan says why it is where it is.

use plan::command::PauseProject;
use plan::ledger::{AccountName, BudgetShortfall, BudgetUnit};
use plan::{PlanId, Profile};
use planwright_api::diagnosis::diagnose_plan;
use planwright_api::view::DiagnosisReason;
use serde_json::Value;
use testkit::{SampleTerms, StageSample, samples};

use crate::sample_store::SampleStore;

#[test]
fn every_stage_has_its_reasons() {
    let store = SampleStore::new();
    let terms = SampleTerms {
        profile: Profile::Review,
        has_targets: true,
        has_agent: true,
    };
    let mut table = Vec::new();
    for sample in StageSample::ALL {
        let plan_id = sample.create_plan(&store.person, &store.person, terms);
        table.push((*sample, list_kinds(&store, plan_id).join(" ")));
    }
    let expected = [
        (
            StageSample::StrategizeQueued,
            "waiting_for_worker gate_open",
        ),
        (StageSample::StrategizeProcessing, "held(lease_valid)"),
        (StageSample::StrategizeInterrupted, "held(lease_expired)"),
        (StageSample::StrategizeAwaitingInput, "question_open"),
        (StageSample::StrategizeComplete, "can_continue gate_open"),
        (StageSample::StrategizeErrored, "failed"),
        (StageSample::StrategizeCancelled, "ended"),
        (StageSample::ExecuteQueued, "waiting_for_worker"),
        (StageSample::ExecuteProcessing, "held(lease_valid)"),
        (StageSample::ExecuteInterrupted, "held(lease_expired)"),
        (StageSample::ExecuteAwaitingPermission, "permission_open"),
        (StageSample::ExecuteAwaitingInput, "question_open"),
        (
            StageSample::ExecuteComplete,
            "profile_needs_person gate_open",
        ),
        (
            StageSample::ExecuteUnmetRule,
            "gate_closed rule_blocks(failed)",
        ),
        (
            StageSample::ExecuteBlocked,
            "profile_needs_person rule_blocks(failed)",
        ),
        (
            StageSample::ExecuteBlockedByQuestion,
            "profile_needs_person rule_blocks(needs_person)",
        ),
        (StageSample::ExecuteErrored, "failed"),
        (StageSample::ExecuteOverBudget, "failed"),
        (StageSample::ExecuteCancelled, "ended"),
        (StageSample::ApplyQueued, "waiting_for_worker"),
        (StageSample::ApplyQueuedPrepared, "waiting_for_worker"),
        (StageSample::ApplyProcessing, "held(lease_valid)"),
        (StageSample::ApplyInterrupted, "held(lease_expired)"),
        (StageSample::ApplyProcessingPrepared, "held(lease_valid)"),
        (StageSample::ApplyInterruptedPrepared, "held(lease_expired)"),
        (StageSample::ApplyAwaitingInput, "question_open"),
        (StageSample::ApplyAwaitingInputPrepared, "question_open"),
        (StageSample::ApplyErrored, "failed"),
        (
            StageSample::ApplyConflict,
            "constrained(conflict) gate_open",
        ),
        (
            StageSample::ApplyWithoutChanges,
            "constrained(conflict) gate_open",
        ),
        (StageSample::ApplyGateConstrained, "constrained(gate)"),
        (
            StageSample::ApplyLocalEdits,
            "constrained(local_edits) gate_open",
        ),
        (
            StageSample::ApplyOperationInProgress,
            "constrained(operation_in_progress) gate_open",
        ),
        (
            StageSample::ApplyApprovalVoid,
            "constrained(approval_void) gate_open",
        ),
        (StageSample::ApplyApplied, "ended"),
        (StageSample::ApplyCancelled, "ended"),
    ];
    let expected: Vec<(StageSample, String)> = expected
        .map(|(sample, kinds)| (sample, kinds.to_owned()))
        .into();
    assert_eq!(table, expected);
}

#[test]
fn plans_with_any_terms_have_a_reason() {
    for terms in SampleTerms::all() {
        let store = SampleStore::new();
        for sample in StageSample::ALL.iter().filter(|one| one.is_possible(terms)) {
            let plan_id = sample.create_plan(&store.person, &store.person, terms);
            let kinds = list_kinds(&store, plan_id);
            assert!(!kinds.is_empty(), "{sample:?} {terms:?}");
        }
    }
}

#[test]
fn a_paused_project_and_a_missing_definition_are_named() {
    let store = SampleStore::new();
    let create = |has_agent| {
        let terms = SampleTerms {
            profile: Profile::Review,
            has_targets: true,
            has_agent,
        };
        StageSample::ExecuteQueued.create_plan(&store.person, &store.person, terms)
    };
    let (known, unknown) = (create(true), create(false));
    assert_eq!(list_kinds(&store, unknown)[0], "waiting_for_program");
    assert_eq!(
        read_diagnosis(&store, known)["reasons"][0]["plans_ahead"],
        0
    );
    let project = samples::parse_name(samples::PROJECT_NAME);
    store
        .person
        .submit(PauseProject(project.clone()).into())
        .unwrap();
    let reason = &read_diagnosis(&store, known)["reasons"][0];
    assert_eq!(reason["kind"], "project_paused");
    assert_eq!(reason["project"], project.full_name());
}

#[test]
fn a_used_up_budget_is_told_in_numbers() {
    let shortfall = DiagnosisReason::OverBudget(BudgetShortfall {
        unit: BudgetUnit::Tokens,
        account: AccountName::Global,
        limit: 9,
        spent: 10,
        reserved: 0,
    });
    let encoded = serde_json::to_value(shortfall).unwrap();
    assert_eq!(encoded["kind"], "over_budget");
    assert_eq!(encoded["unit"], "tokens");
    assert_eq!(encoded["spent"], 10);
}

/// The kinds of a plan's reasons, with what tells reasons of one kind apart.
fn list_kinds(store: &SampleStore, plan_id: PlanId) -> Vec<String> {
    let diagnosis = read_diagnosis(store, plan_id);
    let reasons = diagnosis["reasons"].as_array().unwrap().iter();
    let kinds = reasons.map(|reason| {
        let kind = reason["kind"].as_str().unwrap();
        let detail = match kind {
            "held" => &reason["holder"],
            "constrained" => &reason["category"],
            "rule_blocks" => &reason["outcome"],
            _ => return kind.to_owned(),
        };
        format!("{kind}({})", detail.as_str().unwrap())
    });
    kinds.collect()
}

/// The diagnosis as programs see it.
fn read_diagnosis(store: &SampleStore, plan_id: PlanId) -> Value {
    let viewer = store.person.caller();
    let diagnosis = diagnose_plan(&store.lifecycle, plan_id, viewer).unwrap();
    serde_json::to_value(diagnosis).unwrap()
}
