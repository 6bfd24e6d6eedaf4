//! People as actors.

use plan::Phase;
use plan::time::Span;
use planwright_actors::{Actor, Assignment, HumanActor, ReportOutcome, Stop, Workplace};

use crate::sample_assignments::{make_note, sample_assignment};

fn run_human(assignment: &Assignment) -> planwright_actors::Report {
    let human = HumanActor {
        timeout: Some(Span::from_seconds(60)),
    };
    assert!(!human.strategizes());
    let workplace = Workplace {
        run_dir: "/nowhere".into(),
        readable_paths: Vec::new(),
        lock_files: Vec::new(),
        time_limit: None,
        strategy_wanted: false,
        profile: plan::Profile::Review,
        stop: Stop::default(),
        ask_person: None,
        record_decision: None,
        on_progress: &|_| {},
    };
    human.work(assignment, &workplace)
}

#[test]
fn person_is_asked_and_done_after_the_answer() {
    let mut assignment = sample_assignment(Phase::Execute);
    let ReportOutcome::NeedsAnswer { question, timeout } = run_human(&assignment).outcome else {
        panic!("no question");
    };
    assert_eq!(timeout, Some(Span::from_seconds(60)));
    assert_eq!(
        question,
        format!(
            "Please do this: Make the footer say 2025\nWork in the sandbox (`planwright shell {}`) and \
             answer with what you did when it is done.",
            assignment.plan
        )
    );
    assignment.answers.push(make_note(&question, "Did it."));
    let report = run_human(&assignment);
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("Did it."));

    assignment.answers.clear();
    assignment.feedback = vec![make_note("you", "Not like that.")];
    assignment.revises = true;
    let ReportOutcome::NeedsAnswer { question, .. } = run_human(&assignment).outcome else {
        panic!("an old answer was used");
    };
    assert!(
        question.ends_with("Your result was sent back: Not like that."),
        "{question}"
    );

    let ReportOutcome::NeedsAnswer { question, .. } =
        run_human(&sample_assignment(Phase::Strategize)).outcome
    else {
        panic!("no question");
    };
    assert_eq!(
        question,
        "How should this be done? Make the footer say 2025\nAnswer with the strategy."
    );
}
