//! Actors that are people.

use plan::Phase;
use plan::time::Span;
use planwright_actors::{Actor, Assignment, HumanActor, ReportOutcome, Stop, Workplace};

use crate::sample_assignments::{make_note, sample_assignment};

fn run_human(given: &Assignment) -> planwright_actors::Report {
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
        stop: Stop::default(),
        on_progress: &|_| {},
    };
    human.work(given, &workplace)
}

#[test]
fn a_person_is_asked_and_done_once_they_answered() {
    let mut given = sample_assignment(Phase::Execute);
    let ReportOutcome::NeedsAnswer {
        question,
        timeout: patience,
    } = run_human(&given).outcome
    else {
        panic!("nobody was asked");
    };
    assert_eq!(patience, Some(Span::from_seconds(60)));
    assert_eq!(
        question,
        format!(
            "Please do this: Make the footer say 2025\nWork in the sandbox (`planwright shell {}`) and \
             answer with what you did when it is done.",
            given.plan
        )
    );
    given.answers.push(make_note(&question, "Did it."));
    let report = run_human(&given);
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("Did it."));

    given.answers.clear();
    given.feedback = vec![make_note("you", "Not like that.")];
    given.revises = true;
    let ReportOutcome::NeedsAnswer { question, .. } = run_human(&given).outcome else {
        panic!("an old answer was taken for a new one");
    };
    assert!(
        question.ends_with("It was sent back with: Not like that."),
        "{question}"
    );

    let ReportOutcome::NeedsAnswer { question, .. } =
        run_human(&sample_assignment(Phase::Strategize)).outcome
    else {
        panic!("nobody was asked");
    };
    assert_eq!(
        question,
        "How shall this be done? Make the footer say 2025\nAnswer with the strategy."
    );
}
