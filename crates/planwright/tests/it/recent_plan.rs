//! What `@` means: the plan a person last made or named in this checkout.

use crate::daily::{Loop, SCRIBE, state};

/// The plan that `@` names in the repository.
fn recent(day: &Loop) -> String {
    let data = day.ends(0, &["status", "@"]);
    data["plan_id"].as_str().unwrap().to_owned()
}

/// Guards against landing an older plan that nobody reviewed: a plan without a project is meant, too, once it was
/// made here.
#[test]
fn a_plan_made_without_a_project_is_meant_where_it_was_made() {
    let day = Loop::with(SCRIBE);
    let (older, _) = day.begun(6);
    let made = day.ends(0, &["use", "tidy"]);
    assert_eq!(recent(&day), made["plan_id"]);
    let said = day.here(&["apply", "@", "--yes"]);
    assert_ne!(said.code(), Some(0), "{said:?}");
    assert_eq!(state(&day.ends(0, &["status", &older])), "execute/complete");
}

#[test]
fn a_plan_that_was_named_is_meant_until_another_is() {
    let day = Loop::with(SCRIBE);
    let (first, _) = day.begun(6);
    let (second, _) = day.begun(6);
    assert_eq!(recent(&day), second);
    day.ends(0, &["diff", &first]);
    assert_eq!(recent(&day), first);
    // Named by nobody, and newer: what the clock and workers do is no concern of it.
    let third = day.yard.ok(&["use", "tidy", "shop"]);
    day.yard.ok(&["work", "--once"]);
    assert_eq!(recent(&day), first);
    // A script that names a plan does not mean it for a person.
    let third = third["plan_id"].as_str().unwrap();
    day.here(&["plumbing", "changesets", third]);
    assert_eq!(recent(&day), first);
    // Nor does a plan that does not exist.
    day.ends(3, &["status", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]);
    assert_eq!(recent(&day), first);
}

#[test]
fn each_checkout_has_a_recent_plan_of_its_own() {
    let day = Loop::with(SCRIBE);
    let (first, _) = day.begun(6);
    let other = day.yard.other_repository("other");
    let there = |words: &[&str]| {
        let words = [&["--format", "json"], words].concat();
        day.yard.program.run(words).within(&other).finish()
    };
    let said = there(&["status", "@"]);
    assert_eq!(said.code(), Some(3), "{said:?}");
    let made = there(&["run", "--actor", "scribe", "Write there"]);
    assert_eq!(
        there(&["status", "@"]).data()["plan_id"],
        made.data()["plan_id"]
    );
    assert_eq!(recent(&day), first);
}

#[test]
fn what_lands_undoes_or_cancels_says_which_plan_it_took() {
    let day = Loop::with(SCRIBE);
    day.begun(6);
    for words in [["apply", "@", "--yes"], ["undo", "@", "--yes"]] {
        let seen = day.seen(&words);
        assert_eq!(seen.code(), Some(0), "{seen:?}");
        assert!(seen.stdout.contains("Write a line"), "{seen:?}");
    }
    day.begun(6);
    let seen = day.seen(&["cancel", "@"]);
    assert!(seen.stdout.contains("Write a line"), "{seen:?}");
}
