//! What commands advise, and mistakes that they do not let pass: each of these was once wrong.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state};
use crate::shell::TranscriptShell;

#[test]
fn after_a_rejection_nobody_is_told_to_land_it() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo
        .run_ok(&["rule", "add", "wording", "--ask", "Is it well put?"]);
    let (plan, _) = env.start_plan(6);
    let words = [
        "approve", &plan, "--rule", "wording", "--reject", "Too long",
    ];
    let said = env.run_as_person(&words);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("Rejected `wording`"), "{said:?}");
    assert!(said.stdout.contains("Too long"), "{said:?}");
    assert!(said.stderr.contains("planwright revise"), "{said:?}");
    assert!(!said.stderr.contains("planwright apply"), "{said:?}");
    let said = env.run_as_person(&["approve", &plan, "--rule", "wording"]);
    assert!(said.stdout.contains("Confirmed `wording`"), "{said:?}");
    assert!(said.stderr.contains("planwright apply"), "{said:?}");
}

#[test]
fn a_waiver_says_what_was_waived_for_which_plan_and_why() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo.run_ok(&[
        "rule",
        "add",
        "never",
        "--expr",
        "plan.goal == ''",
        "--at",
        "apply",
    ]);
    let (plan, _) = env.start_plan(6);
    let said = env.run_as_person(&["waive", &plan, "never", "--reason", "this once"]);
    let handle = plan[plan.len() - 4..].to_lowercase();
    let expected = format!("Waived `never` for {handle}: this once\n");
    assert!(said.stdout.starts_with(&expected), "{said:?}");
}

#[test]
fn raw_alone_shows_the_transcript() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.start_plan(6);
    let said = env.run_as_person(&["log", "--raw"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("looking around"), "{said:?}");
}

#[test]
fn paths_that_did_not_change_are_not_landed() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    for yes in [&["--yes"][..], &[]] {
        let words = [&["apply", &plan][..], yes, &["--", "nosuch"]].concat();
        let said = env.run_as_person(&words);
        assert_eq!(said.exit_code(), Some(3), "{said:?}");
        assert!(
            said.stderr.contains("No changed path matches `nosuch`"),
            "{said:?}"
        );
    }
    assert_eq!(
        describe_state(&env.run_expecting(0, &["status", &plan])),
        "execute/complete"
    );
}

#[test]
fn waiting_for_a_plan_that_fails_is_no_success() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\nexit 3\n");
    let (plan, _) = env.start_plan(7);
    for until in ["needs-me", "landed"] {
        env.run_expecting(7, &["wait", &plan, "--until", until]);
    }
    env.run_expecting(0, &["cancel", &plan]);
    for until in ["needs-me", "landed", "final"] {
        env.run_expecting(7, &["wait", &plan, "--until", until]);
    }
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["wait", &plan]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    for until in ["needs-me", "landed", "final"] {
        env.run_expecting(0, &["wait", &plan, "--until", until]);
    }
}

#[test]
fn a_project_or_store_that_cannot_be_is_an_error() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let said = env.run_as_person(&["list", "--project", "nope"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    // A project without plans is fine.
    env.run_expecting(0, &["list", "--project", "shop"]);
    let file = env.repo.write_file_beside("file", "text");
    let address = format!("sqlite:{file}/plans.db");
    let said = env.run_as_person(&["--store", &address, "list"]);
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    assert!(said.stderr.contains("is not a directory"), "{said:?}");
    // One that can still be created reads as empty.
    let address = format!("sqlite:{file}-new/plans.db");
    let said = env.run_as_person(&["--store", &address, "list", "--all"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

#[test]
fn a_misspelt_agent_is_not_taken_as_a_setting() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let said = env.run_as_person(&["config", "set", "actor", "clade"]);
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    assert!(said.stderr.contains("did you mean `claude`"), "{said:?}");
    env.run_expecting(0, &["config", "set", "actor", "scribe"]);
    env.run_expecting(0, &["config", "set", "actor", "claude"]);
}

#[test]
fn settings_are_listed_with_value_origin_and_meaning() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.run_expecting(0, &["config", "set", "limits.cost", "2.50"]);
    let said = env.run_as_person(&["config", "list"]).stdout;
    assert!(said.contains("limits.cost = 2.50 ("), "{said}");
    assert!(
        said.contains("config.yaml)\n    cost limit of a new plan"),
        "{said}"
    );
    assert!(
        said.contains("limits.tokens = not set\n    token limit"),
        "{said}"
    );
    for line in said.lines().filter(|line| !line.contains('(')) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn rules_of_the_repository_are_listed_and_global_ones_are_pointed_out() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let file = "invariants:\n  - name: src-only\n    allow: src/**\n";
    env.repo.write_file("planwright.yaml", file);
    let listed = env.run_expecting(0, &["rule", "list"]);
    assert_eq!(listed["rules"][0]["name"], "src-only");
    let add = ["rule", "add", "small", "--expr", "totals.lines <= 400"];
    let said = env.run_as_person(&add);
    assert!(
        said.stderr.contains("every plan of every repository"),
        "{said:?}"
    );
    assert!(said.stderr.contains("--project"), "{said:?}");
    for scope in [&["--global"][..], &["--project", "shop"]] {
        let said = env.run_as_person(&[&add[..], scope].concat());
        assert!(!said.stderr.contains("every repository"), "{said:?}");
    }
}

#[test]
fn doctor_says_that_no_agent_is_there() {
    let shell = TranscriptShell::new();
    let run = shell.run(&["doctor"]);
    let said = run.with_variable("PATH", "/usr/bin:/bin").finish();
    assert!(
        said.stdout
            .contains("warn  agents     no agent is installed"),
        "{said:?}"
    );
    assert!(said.stderr.contains("planwright help agents"), "{said:?}");
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let said = env.run_as_person(&["doctor"]);
    assert!(said.stdout.contains("ok    agents     scribe"), "{said:?}");
}

#[test]
fn a_new_branch_ends_with_the_command_that_pushes_it() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let said = env.run_as_person(&["apply", &plan, "--yes", "--as", "branch", "fix"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(
        !said.stderr.contains("push"),
        "there is no remote: {said:?}"
    );
    let address = "git@github.example:ada/shop";
    env.repo.run_git(&["remote", "add", "origin", address]);
    env.write_tool("gh", "#!/bin/sh\n");
    let (plan, _) = env.start_plan(6);
    let tools = env.tool_path("gh");
    let tools = tools.parent().unwrap().display();
    let words = ["apply", &plan, "--yes", "--as", "branch", "fix-2"];
    let run = env.repo.program.run(words);
    let said = run
        .with_directory(env.repo.shop_path())
        .with_variable("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin"))
        .finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(
        said.stderr.contains("push --set-upstream origin fix-2"),
        "{said:?}"
    );
    assert!(
        said.stderr.contains("gh pr create --head fix-2"),
        "{said:?}"
    );
}

#[test]
fn an_action_is_run_with_its_arguments() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let action = "name: count\ndescription: Count sheep\nactor: scribe\narguments:\n  - name: area\n    \
                  type: string\n    required: true\n    description: Where\n";
    let file = env.repo.write_file_beside("count.yaml", action);
    env.repo.run_ok(&["action", "create", "--config", &file]);
    let data = env.run_expecting(6, &["run", "--action", "count", "area=src"]);
    assert_eq!(data["goal"], "Count sheep");
    assert_eq!(data["arguments"]["area"], "src");
    assert_eq!(describe_state(&data), "execute/complete");
    env.run_expecting(2, &["run", "--action", "count", "src"]);
    env.run_expecting(2, &["run", "--action", "count"]);
}

#[test]
fn a_goal_without_quotes_is_shown_with_them() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let said = env.run_as_person(&["run", "Fix", "the", "bug"]);
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    assert!(said.stderr.contains("run 'Fix the bug'"), "{said:?}");
}

#[test]
fn a_result_can_be_thought_over() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    let words = ["revise", &plan, "--rethink", "--detach", "Another way"];
    let data = env.run_expecting(0, &words);
    assert_eq!(describe_state(&data), "strategize/queued");
}

#[test]
fn tests_are_proposed_as_a_rule_after_the_first_landing_and_only_then() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.write_tool("make", "#!/bin/sh\n");
    env.repo.write_file("Makefile", "test:\n\ttrue\n");
    env.repo.commit_all("make");
    let tools = env.tool_path("make");
    let tools = tools.parent().unwrap().display();
    let land_another = || {
        let (plan, _) = env.start_plan(6);
        let run = env.repo.program.run(["apply", &plan, "--yes"]);
        run.with_directory(env.repo.shop_path())
            .with_variable("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin"))
            .finish()
    };
    let first = land_another();
    assert_eq!(first.exit_code(), Some(0), "{first:?}");
    assert!(first.stderr.contains("Found `make test`."), "{first:?}");
    assert!(first.stderr.contains("planwright init"), "{first:?}");
    let second = land_another();
    assert_eq!(second.exit_code(), Some(0), "{second:?}");
    assert!(!second.stderr.contains("Found"), "{second:?}");
}

/// A result must not be offered for landing while a rule asks about it, or after it was rejected.
#[test]
fn an_open_question_of_a_rule_is_asked_before_landing_is_advised() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.repo
        .run_ok(&["rule", "add", "wording", "--ask", "Is it well put?"]);
    let said = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    let first = first_hint(&said.stderr);
    assert!(first.ends_with("--rule wording"), "{said:?}");
    let said = env.run_as_person(&["status"]);
    let asked = "Rule `wording` asks you: Is it well put?";
    assert!(said.stdout.contains(asked), "{said:?}");
    assert!(first_hint(&said.stderr).ends_with("--rule wording"));
    env.run_as_person(&["approve", "--rule", "wording", "--reject", "Too long"]);
    for words in [&["status"][..], &["why"]] {
        let said = env.run_as_person(words);
        let first = first_hint(&said.stderr);
        assert!(first.starts_with("planwright revise "), "{said:?}");
        assert!(!said.stderr.contains("planwright apply"), "{said:?}");
    }
}

fn first_hint(stderr: &str) -> &str {
    let mut hints = stderr.lines().filter_map(|line| line.split_once("try: "));
    hints.next().map_or("", |(_, command)| command)
}

#[test]
fn an_action_used_in_a_repository_works_on_it() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let here = env.run_expecting(0, &["use", "tidy"]);
    assert_eq!(here["resources"][0]["resource"], "shop/shop", "{here}");
    let nowhere = env.run_expecting(0, &["use", "tidy", "--no-project"]);
    assert_eq!(nowhere["resources"].as_array().map(Vec::len), Some(0));
    env.run_expecting(2, &["use", "tidy", "shop", "--no-project"]);
}

#[test]
fn a_result_is_not_given_up_for_a_run_that_the_budget_cannot_pay() {
    let script = "#!/bin/sh
cat > /dev/null
echo more >> src/a.txt
echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"total_cost_usd\":0.20,\"usage\":{\"input_tokens\":900,\"output_tokens\":100}}'
";
    let env = ScriptedAgentEnv::with_script(script);
    env.define_actor("scribe", "output: claude-json\n");
    let words = ["run", "--agent", "scribe", "--max-cost", "0.20", "Write it"];
    let data = env.run_expecting(6, &words);
    let plan = data["plan_id"].as_str().unwrap();
    let said = env.run_as_person(&["revise", plan, "Once more"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("The result is kept"), "{said:?}");
    assert!(said.stderr.contains("planwright apply "), "{said:?}");
    let state = describe_state(&env.run_expecting(0, &["status", plan]));
    assert_eq!(state, "execute/complete");
    env.run_expecting(0, &["apply", plan, "--yes"]);
}

/// The last line of a program that prints text says what came of it; the first ones are its banner.
#[test]
fn status_and_log_show_the_end_of_printed_text() {
    let script = "#!/bin/sh
echo 'Scribe v1.0, the friendly writer'
echo more >> src/a.txt
echo 'Wrote one line.'
";
    let env = ScriptedAgentEnv::with_script(script);
    env.start_plan(6);
    for words in [&["status"][..], &["log"]] {
        let shown = env.run_as_person(words).stdout;
        assert!(shown.contains("Wrote one line."), "{shown}");
        assert!(!shown.contains("friendly"), "{shown}");
    }
}

#[test]
fn the_log_shows_the_message_that_a_result_was_approved_with() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["apply", &plan, "--yes", "-m", "Add the line"]);
    let log = env.run_as_person(&["log", &plan]).stdout;
    assert!(log.contains("approved the result: Add the line"), "{log}");
}

/// git refuses to commit without an author. A landing does not fail over it, but says who the author is.
#[test]
fn a_commit_without_an_author_is_pointed_out() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let land_another = || {
        let (plan, _) = env.start_plan(6);
        let said = env.run_as_person(&["apply", &plan, "--yes"]);
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        said.stderr
    };
    let note = "The author of the commit is Planwright";
    assert!(!land_another().contains(note));
    env.repo.run_git(&["config", "--unset", "user.name"]);
    let told = land_another();
    assert!(told.contains(note), "{told}");
    let author = env.repo.run_git(&["log", "-1", "--format=%an"]);
    assert_eq!(author, "Planwright");
}
