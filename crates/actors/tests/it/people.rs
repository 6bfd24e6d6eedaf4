//! Actors that are people.

use plan::Phase;
use plan::time::Span;
use planwright_actors::{Actor, Assignment, HumanActor, Outcome, Stop, Workplace};

use crate::given::{assignment, finding};

fn work(given: &Assignment) -> planwright_actors::Report {
    let human = HumanActor {
        timeout: Some(Span::seconds(60)),
    };
    assert!(!human.strategizes());
    let workplace = Workplace {
        run: "/nowhere".into(),
        readable: Vec::new(),
        locks: Vec::new(),
        time: None,
        strategy_wanted: false,
        stop: Stop::default(),
        progress: &|_| {},
    };
    human.work(given, &workplace)
}

#[test]
fn a_person_is_asked_and_done_once_they_answered() {
    let mut given = assignment(Phase::Execute);
    let Outcome::Asks { question, patience } = work(&given).outcome else {
        panic!("nobody was asked");
    };
    assert_eq!(patience, Some(Span::seconds(60)));
    assert_eq!(
        question,
        format!(
            "Please do this: Make the footer say 2025\nWork in the sandbox (`planwright shell {}`) and \
             answer with what you did when it is done.",
            given.plan
        )
    );
    given.answers.push(finding(&question, "Did it."));
    let report = work(&given);
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(report.summary.as_deref(), Some("Did it."));

    given.answers.clear();
    given.feedback = vec![finding("you", "Not like that.")];
    given.revises = true;
    let Outcome::Asks { question, .. } = work(&given).outcome else {
        panic!("an old answer was taken for a new one");
    };
    assert!(
        question.ends_with("It was sent back with: Not like that."),
        "{question}"
    );

    let Outcome::Asks { question, .. } = work(&assignment(Phase::Strategize)).outcome else {
        panic!("nobody was asked");
    };
    assert_eq!(
        question,
        "How shall this be done? Make the footer say 2025\nAnswer with the strategy."
    );
}
