//! What people read: lists, stories, and what is said when something does not work.

use serde_json::Value;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};

#[test]
fn undone_plans_are_listed_as_undone() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let plan = env.repo.submit_usual_change();
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let undo = env.run_expecting(0, &["undo", &plan, "--yes"]);
    let undo = undo["plan_id"].as_str().unwrap();
    let listed = env.run_expecting(0, &["list"]);
    let [first, second] = listed["plans"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    assert_eq!(first["undo_of"], plan.as_str());
    assert_eq!(second["standing"], "undone");
    assert_eq!(second["undone_by"], undo);
    // On a page of its own, too.
    let page = env.run_expecting(0, &["list", "--after", undo]);
    assert_eq!(page["plans"][0]["standing"], "undone");
    let seen = env.run_as_person(&["list"]).stdout;
    assert!(seen.contains("Undo of "), "{seen}");
    let seen = env.run_as_person(&["status", &plan]).stdout;
    assert!(seen.contains("undone by"), "{seen}");
    // Taking back what took it back lands it again.
    env.run_expecting(0, &["undo", undo, "--yes"]);
    let listed = env.run_expecting(0, &["list"]);
    let standings: Vec<&str> = (0..3)
        .map(|row| listed["plans"][row]["standing"].as_str().unwrap())
        .collect();
    assert_eq!(standings, ["landed", "undone", "landed"]);
}

#[test]
fn the_overview_lists_plans_that_wait_for_a_worker() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Write a line"]);
    env.run_expecting(
        0,
        &["run", "--agent", "scribe", "--detach", "Write another"],
    );
    let seen = env.run_as_person(&[]).stdout;
    assert_eq!(seen.matches("waits for a worker").count(), 2, "{seen}");
    assert_eq!(seen.matches("planwright work").count(), 1, "{seen}");
    env.repo.run_ok(&["use", "tidy"]);
    let seen = env.run_as_person(&[]).stdout;
    assert!(seen.contains("planwright why "), "{seen}");
}

#[test]
fn the_log_is_a_story_and_events_are_events() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let story = env.run_as_person(&["log", &plan]).stdout;
    for told in [
        " created the plan: ",
        " started agent scribe",
        " submitted the result",
        " landed it as one commit: ",
    ] {
        assert!(story.contains(told), "{told}: {story}");
    }
    assert!(!story.contains("epoch"), "{story}");
    let events = env.run_as_person(&["log", &plan, "--events"]).stdout;
    assert!(
        events.contains("execute_completed") && events.contains("epoch="),
        "{events}"
    );
}

/// `log --follow | head` ends, though nothing more happens.
#[test]
fn following_ends_when_the_reader_is_gone() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let waiting = env.run_expecting(0, &["run", "--agent", "scribe", "--detach", "Write a line"]);
    let plan = waiting["plan_id"].as_str().unwrap();
    let following = env.repo.program.run(["log", plan, "--follow"]).start();
    let said = following.finish_with_stdout_closed();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

#[test]
fn a_transcript_is_readable_and_raw_if_asked_for() {
    let agent = "#!/bin/sh
cat > /dev/null
echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"name\":\"Read\",\"input\":{\"file_path\":\"README.md\"}}]}}'
echo '{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"# Shop\"}]}}'
echo done >> README.md
";
    let env = ScriptedAgentEnv::with_script(agent);
    env.define_actor("scribe", "output: claude-json\n");
    let (plan, _) = env.start_plan(6);
    let told = env.run_as_person(&["log", &plan, "--transcript"]).stdout;
    assert!(
        told.contains("  I look.\n  read  README.md\n        # Shop\n"),
        "{told}"
    );
    assert!(!told.contains("\"type\""), "{told}");
    let raw = env
        .run_as_person(&["log", &plan, "--transcript", "--raw"])
        .stdout;
    assert!(raw.contains("\"type\":\"assistant\""), "{raw}");
}

#[test]
fn without_any_plan_there_is_none_to_take() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for verb in ["status", "diff", "log", "why", "path", "apply", "cancel"] {
        let said = env.run_as_person(&[verb]);
        assert_eq!(said.exit_code(), Some(3), "{said:?}");
        assert!(
            said.stderr.contains("This repository has no plans"),
            "{said:?}"
        );
    }
}

#[test]
fn names_of_actors_are_found_and_offered() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for words in [
        &["run", "--agent", "scirbe", "Write a line"][..],
        &["agent", "show", "scirbe"],
    ] {
        let said = env.run_here(words);
        assert_eq!(said.exit_code(), Some(3), "{said:?}");
        assert!(
            said.messages().contains("did you mean `scribe`?"),
            "{said:?}"
        );
    }
    // The repository's own is one of those to choose from.
    env.repo.write_file(
        "planwright.yaml",
        "actors:\n  - name: inhouse\n    kind: command\n    command: [sh, ./tool]\n",
    );
    let said = env.run_here(&["run", "Write a line"]);
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    assert!(said.messages().contains("inhouse, scribe"), "{said:?}");
    let listed = env.run_as_person(&["agent", "list"]).stdout;
    assert!(listed.contains("sh ./tool"), "{listed}");
    assert!(listed.contains("repository"), "{listed}");
}

#[test]
fn a_setting_can_be_taken_back() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(0, &["config", "set", "actor", "scribe"]);
    env.run_expecting(0, &["config", "set", "profile", "manual"]);
    env.run_expecting(0, &["config", "unset", "actor"]);
    env.run_expecting(0, &["config", "unset", "actor"]);
    assert_eq!(
        env.run_expecting(0, &["config", "get", "actor"])["value"],
        Value::Null
    );
    assert_eq!(
        env.run_expecting(0, &["config", "get", "profile"])["value"],
        "manual"
    );
    assert_eq!(
        env.run_here(&["config", "unset", "colour"]).exit_code(),
        Some(2)
    );
}

/// Whoever deletes a project under its plans is told what becomes of them, and what brings them back.
#[test]
fn plans_of_a_deleted_project_are_told_what_helps() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let plan = env.repo.submit_usual_change();
    let said = env.run_here(&["project", "delete", "shop", "--force"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.data()["stranded_plans"][0], plan.as_str());
    let told = said.messages();
    assert!(
        told.contains("can't continue without this project"),
        "{told}"
    );
    let again = told
        .lines()
        .find_map(|line| line.split_once("To restore the project: "));
    let again = again.unwrap().1.to_owned();
    for words in [&["apply", &plan, "--yes"][..], &["diff", &plan]] {
        let said = env.run_here(words);
        assert_eq!(said.exit_code(), Some(3), "{said:?}");
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
    env.run_expecting(0, &words);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// A plan that is used from here can be started from here.
#[test]
fn the_next_command_after_use_starts_the_work() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.write_file(
        "planwright.yaml",
        "actions:\n  - name: greet\n    description: Greet them\n    actor: scribe\n",
    );
    let said = env.run_as_person(&["use", "greet"]);
    assert!(
        said.stderr
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .contains("try: planwright run "),
        "{said:?}"
    );
    let said = env.run_as_person(&["use", "tidy"]);
    assert!(said.stderr.contains("try: planwright why "), "{said:?}");
}

#[test]
fn a_landed_plan_can_be_undone_and_says_so() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let plan = env.repo.submit_usual_change();
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let said = env.run_here(&["revise", &plan, "Once more"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.messages().contains("planwright undo "), "{said:?}");
    let (cancelled, _) = env.repo.plan_in_execute();
    env.run_expecting(0, &["cancel", &cancelled]);
    let said = env.run_here(&["revise", &cancelled, "Once more"]);
    assert!(!said.messages().contains("planwright undo "), "{said:?}");
}

/// `agent` was called `actor` and `rule` was called `invariant`: scripts that use the old words still work, and the
/// names of commands in JSON stay as they were.
#[test]
fn the_old_words_for_agents_and_rules_still_work() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    for (new, old) in [("agent", "actor"), ("rule", "invariant")] {
        for word in [new, old] {
            let listed = env.run_here(&[word, "list"]);
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            assert_eq!(listed["command"], format!("{old} list"), "{word}");
        }
    }
}

/// Each rule that failed is named with the end of its output, and how often the engine still tries.
#[test]
fn a_result_that_its_rules_send_back_is_shown() {
    let script = "#!/bin/sh
cat > /dev/null
if [ -e draft.txt ]; then echo done > done.txt; else echo draft > draft.txt; fi
";
    let env = ScriptedAgentEnv::with_script(script);
    let check = "echo 3 of 9 tests failed; test -e done.txt";
    env.repo
        .run_ok(&["rule", "add", "tests", "--command", check]);
    let words = ["run", "--agent", "scribe", "--profile", "auto", "Finish it"];
    let said = env.run_as_person(&words);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let (_, after) = said
        .stderr
        .split_once("  `tests` failed; sent back (1 of 3)\n")
        .unwrap_or_else(|| panic!("{said:?}"));
    assert!(after.contains("3 of 9 tests failed\n"), "{said:?}");
    assert!(!after.contains("sent back (2"), "{said:?}");
}

/// The end of what a program printed is its report; what came before scrolled by.
#[test]
fn the_report_of_a_program_is_the_end_of_its_output() {
    let script = "#!/bin/sh
cat > /dev/null
echo done > done.txt
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo \"step $n\"; done
";
    let env = ScriptedAgentEnv::with_script(script);
    let said = env.run_as_person(&["run", "--agent", "scribe", "Finish it"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let shown = &said.stdout;
    assert!(shown.starts_with("✓ done · 1 file +1 −0"), "{shown}");
    assert!(shown.contains("  …\n  step 4\n"), "{shown}");
    assert!(shown.contains("  step 15\n  done.txt +1 −0\n"), "{shown}");
    assert!(said.stderr.contains("\n  step 3\n"), "{said:?}");
}
