//! What people read: lists, stories, and what is said when something does not work.

use crate::daily::{Loop, SCRIBE};

#[test]
fn the_log_is_a_story_and_events_are_events() {
    let day = Loop::with(SCRIBE);
    let (plan, _) = day.begun(6);
    day.ends(0, &["apply", &plan, "--yes"]);
    let story = day.seen(&["log", &plan]).stdout;
    for told in [
        " made the plan: ",
        " began to work",
        " handed in the result",
        " landed it as one commit: ",
    ] {
        assert!(story.contains(told), "{told}: {story}");
    }
    assert!(!story.contains("epoch"), "{story}");
    let events = day.seen(&["log", &plan, "--events"]).stdout;
    assert!(
        events.contains("execute_completed") && events.contains("epoch="),
        "{events}"
    );
}

#[test]
fn whoever_stops_listening_is_not_followed() {
    let day = Loop::with(SCRIBE);
    let waiting = day.ends(0, &["run", "--actor", "scribe", "--detach", "Write a line"]);
    let plan = waiting["plan_id"].as_str().unwrap();
    let following = day.yard.program.run(["log", plan, "--follow"]).start();
    let said = following.finish_unheard();
    assert_eq!(said.code(), Some(0), "{said:?}");
}

#[test]
fn a_transcript_is_readable_and_raw_if_asked_for() {
    let agent = "#!/bin/sh
cat > /dev/null
echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"name\":\"Read\",\"input\":{\"file_path\":\"README.md\"}}]}}'
echo '{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"# Shop\"}]}}'
echo done >> README.md
";
    let day = Loop::with(agent);
    day.define("scribe", "output: claude-json\n");
    let (plan, _) = day.begun(6);
    let told = day.seen(&["log", &plan, "--transcript"]).stdout;
    assert!(
        told.contains("I look.\n→ Read: README.md\n  # Shop\n"),
        "{told}"
    );
    assert!(!told.contains("\"type\""), "{told}");
    let raw = day.seen(&["log", &plan, "--transcript", "--raw"]).stdout;
    assert!(raw.contains("\"type\":\"assistant\""), "{raw}");
}
