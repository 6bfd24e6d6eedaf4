//! What people read: lists, stories, and what is said when something does not work.

use serde_json::Value;

use crate::daily::{Loop, SCRIBE};

#[test]
fn what_was_taken_back_is_listed_so() {
    let day = Loop::with(SCRIBE);
    let plan = day.yard.usual();
    day.ends(0, &["apply", &plan, "--yes"]);
    let undo = day.ends(0, &["undo", &plan, "--yes"]);
    let undo = undo["plan_id"].as_str().unwrap();
    let listed = day.ends(0, &["list"]);
    let [first, second] = listed["plans"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(first["undo_of"], plan.as_str());
    assert_eq!(second["standing"], "undone");
    assert_eq!(second["undone_by"], undo);
    // On a page of its own, too.
    let page = day.ends(0, &["list", "--after", undo]);
    assert_eq!(page["plans"][0]["standing"], "undone");
    let seen = day.seen(&["list"]).stdout;
    assert!(seen.contains("Undo of "), "{seen}");
    let seen = day.seen(&["status", &plan]).stdout;
    assert!(seen.contains("undone by"), "{seen}");
    // Taking back what took it back lands it again.
    day.ends(0, &["undo", undo, "--yes"]);
    let listed = day.ends(0, &["list"]);
    let standings: Vec<&str> = (0..3)
        .map(|row| listed["plans"][row]["standing"].as_str().unwrap())
        .collect();
    assert_eq!(standings, ["landed", "undone", "landed"]);
}

#[test]
fn what_waits_for_a_worker_is_not_forgotten() {
    let day = Loop::with(SCRIBE);
    day.ends(0, &["run", "--actor", "scribe", "--detach", "Write a line"]);
    day.ends(
        0,
        &["run", "--actor", "scribe", "--detach", "Write another"],
    );
    let seen = day.seen(&[]).stdout;
    assert_eq!(seen.matches("waits for a worker").count(), 2, "{seen}");
    assert_eq!(seen.matches("planwright work").count(), 1, "{seen}");
    day.yard.ok(&["use", "tidy"]);
    let seen = day.seen(&[]).stdout;
    assert!(seen.contains("planwright why "), "{seen}");
}

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

/// `log --follow | head` ends, though nothing more happens.
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

#[test]
fn whoever_looks_is_told_how_to_say_which_plan() {
    let day = Loop::with(SCRIBE);
    for verb in ["status", "diff", "log", "why", "path"] {
        let said = day.seen(&[verb]);
        assert_eq!(said.code(), Some(2), "{said:?}");
        assert!(
            said.stderr.contains(&format!("planwright {verb} @")),
            "{said:?}"
        );
        let said = day.here(&[verb]);
        assert!(
            said.messages().contains(&format!("planwright {verb} @")),
            "{said:?}"
        );
    }
}

#[test]
fn names_of_actors_are_found_and_offered() {
    let day = Loop::with(SCRIBE);
    for words in [
        &["run", "--actor", "scirbe", "Write a line"][..],
        &["actor", "show", "scirbe"],
    ] {
        let said = day.here(words);
        assert_eq!(said.code(), Some(3), "{said:?}");
        assert!(
            said.messages().contains("did you mean `scribe`?"),
            "{said:?}"
        );
    }
    // The repository's own is one of those to choose from.
    day.yard.write(
        "planwright.yaml",
        "actors:\n  - name: inhouse\n    kind: command\n    command: [sh, ./tool]\n",
    );
    let said = day.here(&["run", "Write a line"]);
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.messages().contains("inhouse, scribe"), "{said:?}");
    let listed = day.seen(&["actor", "list"]).stdout;
    assert!(listed.contains("sh ./tool"), "{listed}");
    assert!(listed.contains("repository"), "{listed}");
}

#[test]
fn a_setting_can_be_taken_back() {
    let day = Loop::with(SCRIBE);
    day.ends(0, &["config", "set", "actor", "scribe"]);
    day.ends(0, &["config", "set", "profile", "manual"]);
    day.ends(0, &["config", "unset", "actor"]);
    day.ends(0, &["config", "unset", "actor"]);
    assert_eq!(
        day.ends(0, &["config", "get", "actor"])["value"],
        Value::Null
    );
    assert_eq!(
        day.ends(0, &["config", "get", "profile"])["value"],
        "manual"
    );
    assert_eq!(day.here(&["config", "unset", "colour"]).code(), Some(2));
}

/// Whoever deletes a project under its plans is told what becomes of them, and what brings them back.
#[test]
fn plans_of_a_deleted_project_are_told_what_helps() {
    let day = Loop::with(SCRIBE);
    let plan = day.yard.usual();
    let said = day.here(&["project", "delete", "shop", "--force"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert_eq!(said.data()["stranded_plans"][0], plan.as_str());
    let told = said.messages();
    assert!(told.contains("cannot go on without it"), "{told}");
    let again = told.lines().find_map(|line| line.split_once("go on: "));
    let again = again.unwrap().1.to_owned();
    for words in [&["apply", &plan, "--yes"][..], &["diff", &plan]] {
        let said = day.here(words);
        assert_eq!(said.code(), Some(3), "{said:?}");
        let told = said.messages();
        assert!(
            told.contains("which the plan works on, was deleted"),
            "{told}"
        );
        assert!(
            told.contains("project create shop --git PATH --branch main --as shop"),
            "{told}"
        );
        assert!(told.contains("planwright cancel "), "{told}");
    }
    let words: Vec<&str> = again.split(' ').skip(1).collect();
    day.ends(0, &words);
    day.ends(0, &["apply", &plan, "--yes"]);
}

/// A plan that is used from here can be started from here.
#[test]
fn the_next_command_after_use_starts_the_work() {
    let day = Loop::with(SCRIBE);
    day.yard.write(
        "planwright.yaml",
        "actions:\n  - name: greet\n    description: Greet them\n    actor: scribe\n",
    );
    let said = day.seen(&["use", "greet"]);
    assert!(
        said.stderr
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("try: planwright run "),
        "{said:?}"
    );
    let said = day.seen(&["use", "tidy"]);
    assert!(said.stderr.contains("try: planwright status "), "{said:?}");
}

#[test]
fn what_landed_can_be_taken_back_and_is_said_so() {
    let day = Loop::with(SCRIBE);
    let plan = day.yard.usual();
    day.ends(0, &["apply", &plan, "--yes"]);
    let said = day.here(&["revise", &plan, "Once more"]);
    assert_eq!(said.code(), Some(4), "{said:?}");
    assert!(said.messages().contains("planwright undo "), "{said:?}");
    let (cancelled, _) = day.yard.working();
    day.ends(0, &["cancel", &cancelled]);
    let said = day.here(&["revise", &cancelled, "Once more"]);
    assert!(!said.messages().contains("planwright undo "), "{said:?}");
}
