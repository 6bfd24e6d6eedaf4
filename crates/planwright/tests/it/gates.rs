//! Gates through the program, against agents that do what they should not. Each of these goes red when its
//! gate is no longer asked.

use rustix::process::Signal;
use serde_json::Value;

use crate::daily::{ScriptedAgentEnv, describe_state, wait_for};
use crate::many_workers::send_signal;

/// Counts its starts and writes where it may and where it may not; told that rules failed, it does
/// what the second script says.
fn obedient_agent(first: &str, told: &str) -> ScriptedAgentEnv {
    ScriptedAgentEnv::with_script(&format!(
        "#!/bin/sh
echo start >> \"$STARTS\"
if grep -q 'does not meet these rules' \"$PLANWRIGHT_ASSIGNMENT\"; then
{told}
else
{first}
fi
"
    ))
}

/// An agent that ignores what it is told.
fn stubborn_agent(script: &str) -> ScriptedAgentEnv {
    obedient_agent(script, script)
}

fn rule_names(data: &Value) -> Vec<&str> {
    let failed = data["failed"].as_array().unwrap().iter();
    failed
        .filter_map(|rule| rule["rule"]["name"].as_str())
        .collect()
}

fn branch_tip(env: &ScriptedAgentEnv) -> String {
    env.repo.run_git(&["rev-parse", "main"])
}

/// A rule holds at each of the four gates, whoever comes: a person, a worker, a program. Once it is gone, so is
/// the obstacle.
#[test]
fn every_gate_holds_whoever_comes() {
    // Where a plan stops, how often the agent was started by then, and what a program would do next.
    for (gate, stops_at, starts, next) in [
        ("strategize", "strategize/queued", 0, "start-strategize"),
        ("execute", "strategize/complete", 0, "execute-plan"),
        ("result", "execute/complete", 4, "apply-plan"),
        ("apply", "execute/complete", 1, "apply-plan"),
    ] {
        let env = stubborn_agent("echo x >> src/a.txt");
        let never = ["--expr", "plan.goal == ''", "--at", gate];
        env.repo
            .run_ok(&[&["rule", "add", "never"], &never[..]].concat());
        let before = branch_tip(&env);
        let goal = ["run", "--profile", "auto", "--agent", "scribe", "Write it"];
        let goal = match gate {
            // Begun anew over and over, it would take its time.
            "result" => [&["run", "--agent", "scribe"], &goal[5..]].concat(),
            _ => goal.to_vec(),
        };
        let data = env.run_expecting(5, &goal);
        let plan = data["plan_id"].as_str().unwrap();
        assert_eq!(env.repo.plan_state(plan), stops_at, "{gate}");
        env.run_expecting(5, &["run", plan]);
        env.run_expecting(0, &["work", "--drain"]);
        if gate == "result" {
            // Signed, what is in the way is the rule alone.
            env.run_expecting(0, &["approve", plan]);
        }
        let owner: &[&str] = match next {
            "start-strategize" => &["--owner", "somebody"],
            _ => &[],
        };
        let data = env.run_expecting(5, &[&["plumbing", next, plan], owner].concat());
        assert_eq!(rule_names(&data), ["never"], "{gate}");
        if stops_at == "execute/complete" {
            env.run_expecting(5, &["apply", plan, "--yes"]);
        }
        assert_eq!(env.read_starts().len(), starts, "{gate}");
        assert_eq!(branch_tip(&env), before, "{gate}");
        assert_eq!(env.repo.plan_state(plan), stops_at, "{gate}");
        env.repo.run_ok(&["rule", "remove", "never"]);
        env.run_here(&["run", plan]);
        env.run_here(&["apply", plan, "--yes"]);
        assert_eq!(env.repo.plan_state(plan), "apply/applied", "{gate}");
        assert_ne!(branch_tip(&env), before, "{gate}");
    }
}

/// What an agent wrote where it may not does not land, however often it insists; and the plan is sent
/// back three times, not more.
#[test]
fn forbidden_changes_do_not_land_and_are_sent_back_three_times() {
    let env = stubborn_agent("echo x >> src/a.txt; mkdir -p db; echo drop > db/1.sql");
    env.repo
        .run_ok(&["rule", "add", "no-migrations", "--forbid", "db/**"]);
    let before = branch_tip(&env);
    let (plan, data) = env.start_plan(5);
    assert_eq!(describe_state(&data), "execute/complete");
    assert_eq!(env.read_starts().len(), 4, "once, and three times more");
    let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
    assert_eq!(rule_names(&data), ["no-migrations"]);
    assert_eq!(branch_tip(&env), before);
    // A worker that comes by judges nothing again, and starts nobody.
    env.run_expecting(0, &["work", "--drain"]);
    assert_eq!(env.read_starts().len(), 4);
    let why = env.run_expecting(0, &["why", &plan]).to_string();
    assert!(why.contains("forbidden: db/1.sql"), "{why}");
    // A person sends it back with a word of their own: it is mended anew.
    env.run_expecting(
        0,
        &["revise", &plan, "--detach", "Leave the database alone"],
    );
    env.run_expecting(5, &["run", &plan]);
    assert_eq!(env.read_starts().len(), 8);
    env.run_expecting(
        0,
        &["waive", &plan, "no-migrations", "--reason", "this once"],
    );
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_ne!(branch_tip(&env), before);
}

#[test]
fn an_agent_that_heeds_the_rules_gets_by() {
    let env = obedient_agent(
        "echo x >> src/a.txt; echo y > stray.txt",
        "rm stray.txt; grep -q 'only-src: not allowed: stray.txt' \"$PLANWRIGHT_ASSIGNMENT\"",
    );
    env.repo
        .run_ok(&["rule", "add", "only-src", "--allow", "src/**"]);
    let (plan, _) = env.start_plan(6);
    assert_eq!(env.read_starts().len(), 2);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert!(!env.repo.shop_path().join("stray.txt").exists());
}

/// Under `auto` it begins anew with another strategy once fixing did not help, three times; then it waits.
#[test]
fn under_auto_it_begins_anew_and_then_waits() {
    let env = stubborn_agent("echo x >> src/a.txt");
    env.repo
        .run_ok(&["rule", "add", "never", "--expr", "totals.files == 0"]);
    let run = [
        "run",
        "--agent",
        "scribe",
        "--profile",
        "auto",
        "Insist on it",
    ];
    let data = env.run_expecting(5, &run);
    assert_eq!(describe_state(&data), "execute/complete");
    assert_eq!(env.read_starts().len(), 16, "four times four");
    assert_eq!(data["reversion_count"], 3);
}

/// No agent can install what a rule's command lacks: the agent works once, a person is told what is missing, and
/// once it is there the same result lands.
#[test]
fn a_rule_that_cannot_run_starts_no_agent_again() {
    for (command, missing) in [
        ("no-such-program --all", "no-such-program"),
        ("./tool.sh", "./tool.sh"),
        ("env no-such-interpreter x", "no-such-interpreter"),
        ("sh -c 'no-such-program'", "no-such-program"),
    ] {
        let env = stubborn_agent("echo x >> src/a.txt");
        env.repo.write_file("tool.sh", "#!/no/such/interpreter\n");
        env.repo
            .run_git(&["update-index", "--add", "--chmod=+x", "tool.sh"]);
        env.repo.run_git(&["commit", "-qm", "a tool"]);
        env.repo
            .run_ok(&["rule", "add", "tests", "--command", command]);
        let run = ["run", "--agent", "scribe", "--profile", "auto", "Write it"];
        let data = env.run_expecting(5, &run);
        let plan = data["plan_id"].as_str().unwrap().to_owned();
        assert_eq!(env.repo.plan_state(&plan), "execute/complete", "{command}");
        env.run_expecting(0, &["work", "--drain"]);
        assert_eq!(env.read_starts().len(), 1, "{command}");
        let named = format!("`{missing}` is missing or not executable");
        let why = env.run_here(&["why", &plan]).stdout;
        assert!(why.contains(&named), "{command}: {why}");
        let applied = env.run_as_person(&["apply", &plan, "--yes"]);
        assert_eq!(applied.exit_code(), Some(5), "{applied:?}");
        assert!(
            applied.stderr.contains("rule `tests` cannot run"),
            "{applied:?}"
        );
        assert!(applied.stderr.contains(&named), "{applied:?}");
    }
}

/// A verdict that a program was missing is not kept: the program may have been installed since.
#[test]
fn a_rule_that_could_not_run_is_tried_again() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let tool = env.tool_path("late-tool");
    let command = tool.to_str().unwrap().to_owned();
    let words = [
        "config",
        "set",
        "sandbox.readable",
        tool.parent().unwrap().to_str().unwrap(),
    ];
    env.repo.run_ok(&words);
    env.repo
        .run_ok(&["rule", "add", "tests", "--command", &command]);
    let (plan, _) = env.start_plan(5);
    env.run_expecting(5, &["apply", &plan, "--yes"]);
    env.write_tool("late-tool", "#!/bin/sh\nexit 0\n");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_eq!(env.read_starts().len(), 1);
}

/// The rules are those of the branch. What an agent writes into its own copy of them is a change like any
/// other.
#[test]
fn an_agent_cannot_edit_its_own_gates() {
    let env = stubborn_agent(
        "echo x >> src/a.txt; printf 'invariants: []\\n' > planwright.yaml; git commit -qam mine",
    );
    let file = "invariants:\n  - name: docs-only\n    allow: docs/**\n";
    env.repo.write_file("planwright.yaml", file);
    env.repo.commit_all("rules");
    let (plan, _) = env.start_plan(5);
    let before = branch_tip(&env);
    let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
    assert_eq!(rule_names(&data), ["docs-only"]);
    assert_eq!(branch_tip(&env), before);
    // A person's edit that is not committed changes nothing, either; committed, it does.
    env.repo.write_file("planwright.yaml", "invariants: []\n");
    env.run_expecting(5, &["apply", &plan, "--yes"]);
    env.repo.commit_all("no rules");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// A command judges a clean checkout of what would land: what only lies around in the sandbox does not
/// help, and neither does what the agent says of itself.
#[test]
fn a_command_judges_what_would_land_and_nothing_else() {
    let env = stubborn_agent(
        "echo x >> src/a.txt; touch kept.o
echo '{\"outcome\": \"done\", \"summary\": \"all tests pass\"}' > \"$PLANWRIGHT_REPORT\"",
    );
    env.repo.write_file(".gitignore", "*.o\n");
    env.repo.commit_all("objects are ignored");
    env.repo
        .run_ok(&["rule", "add", "built", "--command", "test -f kept.o"]);
    let (plan, _) = env.start_plan(5);
    let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
    assert_eq!(rule_names(&data), ["built"]);
    let sees = "grep -q x src/a.txt && git diff --quiet HEAD -- planwright.yaml";
    env.repo.run_ok(&["rule", "remove", "built"]);
    env.repo
        .run_ok(&["rule", "add", "built", "--command", sees]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

#[test]
fn commands_that_hang_flood_or_vanish_fail_their_rule() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let plan = env
        .repo
        .submit_plan(|sandbox| std::fs::write(sandbox.join("src/a.txt"), "x").unwrap());
    for (command, says) in [
        ("sleep 100", "took longer than 1 s"),
        ("head -c 3000000 /dev/zero | tr '\\0' x; exit 3", "exit"),
        ("no-such-program-anywhere", "no-such-program-anywhere"),
        ("kill -9 $$", "signal"),
    ] {
        let add = ["rule", "add", "odd", "--command", command];
        env.repo.run_ok(&[&add[..], &["--timeout", "1s"]].concat());
        let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
        let evidence = data["failed"][0]["evidence"].as_str().unwrap();
        assert!(evidence.contains(says), "{command}: {evidence}");
        assert!(evidence.len() < 20_000, "{}", evidence.len());
        env.repo.run_ok(&["rule", "remove", "odd"]);
    }
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// Many who meet the same slow rule run it once: what it printed is the same for all of them.
#[test]
fn many_pay_for_a_slow_rule_once() {
    let env = stubborn_agent("true");
    let plan = env
        .repo
        .submit_plan(|sandbox| std::fs::write(sandbox.join("src/a.txt"), "x").unwrap());
    let command = "sleep 1; echo \"at $(date +%s%N)\" >&2; exit 1";
    env.repo
        .run_ok(&["rule", "add", "slow", "--command", command]);
    let said: Vec<String> = std::thread::scope(|scope| {
        let ask = || {
            let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
            data["failed"][0]["evidence"].as_str().unwrap().to_owned()
        };
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(said[0].contains("at 1"), "{}", said[0]);
    assert!(said.iter().all(|one| *one == said[0]), "{said:#?}");
}

/// A rule that asks is answered by a person and by nobody else, about this very result.
#[test]
fn a_rule_that_asks_waits_for_a_person() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let ask = ["rule", "add", "looked-at", "--ask", "Is it kind?"];
    env.repo.run_ok(&ask);
    let (plan, _) = env.start_plan(6);
    assert_eq!(
        env.read_starts().len(),
        1,
        "nothing that an agent could mend"
    );
    let data = env.run_expecting(6, &["apply", &plan, "--yes"]);
    assert_eq!(rule_names(&data), ["looked-at"]);
    let rule = ["approve", &plan, "--rule", "looked-at"];
    env.run_expecting(0, &[&rule[..], &["--reject", "It is not."]].concat());
    let data = env.run_expecting(5, &["apply", &plan, "--yes"]);
    assert_eq!(data["failed"][0]["evidence"], "It is not.");
    env.run_expecting(0, &["revise", &plan, "--detach", "Be kind"]);
    env.run_expecting(6, &["run", &plan]);
    env.run_expecting(6, &["apply", &plan, "--yes"]);
    env.run_expecting(0, &rule);
    env.run_expecting(3, &["approve", &plan, "--rule", "unknown"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let log = env
        .run_expecting(0, &["log", &plan, "--events"])
        .to_string();
    assert!(log.contains("ruled_on"), "{log}");
}

/// A project, and an action `kind` whose definition of done is put to this actor.
fn define_judged_action(env: &ScriptedAgentEnv, judge: &str, extra: &str) {
    let action = env.tool_path("kind.yaml");
    let text = format!(
        "name: kind\ndescription: Write a line\nactor: scribe\ninvariant_actor: {judge}\n\
         definition_of_done: Is it kind?\n{extra}"
    );
    std::fs::write(&action, text).unwrap();
    env.run_expecting(
        0,
        &["action", "create", "--config", action.to_str().unwrap()],
    );
    env.run_expecting(0, &["project", "create", "shop", "--git", "."]);
}

/// A definition of done that is a text, put to the action's invariant actor: its verdict counts, it is asked
/// once about a result, and whatever is no verdict goes to a person.
#[test]
fn an_invariant_actor_answers_for_people_or_they_are_asked() {
    for (answer, code, failed) in [
        ("I looked at it. ^HOLDS", 6, None),
        ("FAILS: it is not kind", 5, Some("it is not kind")),
        ("It seems fine to me.", 6, Some("")),
        ("", 6, Some("")),
    ] {
        let env = stubborn_agent("echo x >> src/a.txt");
        env.write_tool(
            "judge",
            &format!(
                "#!/bin/sh\necho asked >> {}\nls >> {0}\necho defaced > src/a.txt\necho '{}' | tr ^ '\\n'\n",
                env.tool_path("asked").display(),
                answer
            ),
        );
        let tools = env.tool_path("asked");
        let tools = tools.parent().unwrap().display();
        env.define_actor("judge", &format!("stdin: prompt\nwritable: [{tools}]\n"));
        define_judged_action(&env, "judge", "automation_profile: supervised\n");
        let plan = env.run_expecting(0, &["use", "kind", "shop"]);
        let plan = plan["plan_id"].as_str().unwrap();
        // Supervised, the plan asks before it goes on; that is not what this is about.
        env.run_here(&["run", plan]);
        env.run_here(&["approve", plan]);
        env.run_expecting(code, &["run", plan]);
        let asked = || std::fs::read_to_string(env.tool_path("asked")).unwrap_or_default();
        assert!(asked().starts_with("asked\n"), "{answer}: {}", asked());
        assert!(asked().contains("src\n"), "{}", asked());
        match failed {
            None => {
                env.run_expecting(0, &["apply", plan, "--yes"]);
                assert!(env.repo.read_file("src/a.txt").ends_with("x\n"));
            }
            Some(why) => {
                let data = env.run_expecting(code, &["apply", plan, "--yes"]);
                assert_eq!(rule_names(&data), ["definition-of-done"]);
                if !why.is_empty() {
                    assert_eq!(data["failed"][0]["evidence"], why);
                }
                // A person's word counts, whatever the actor said.
                env.run_expecting(0, &["approve", plan, "--rule", "definition-of-done"]);
                env.run_expecting(0, &["apply", plan, "--yes"]);
            }
        }
        assert_eq!(asked().matches("asked").count(), 1, "{answer}: {}", asked());
    }
}

/// An actor that is asked and tells what that cost, in a script that does it.
fn paid_judge_plan(script: &str) -> (ScriptedAgentEnv, String) {
    let env = stubborn_agent("echo x > src/x.txt");
    let tools = env.tool_path("");
    let tools = tools.display();
    env.write_tool("judge", &format!("#!/bin/sh\ncd {tools}\n{script}"));
    let definition = format!("stdin: prompt\noutput: claude-json\nwritable: [{tools}]\n");
    env.define_actor("judge", &definition);
    define_judged_action(&env, "judge", "");
    let plan = env.run_expecting(0, &["use", "kind", "shop"]);
    let plan = plan["plan_id"].as_str().unwrap().to_owned();
    (env, plan)
}

fn cost_in_dollars(env: &ScriptedAgentEnv, plan: &str) -> f64 {
    env.run_expecting(0, &["status", plan])["used"]["cost_micros"]
        .as_f64()
        .unwrap()
        / 1e6
}

/// Spends a dollar every tenth of a second.
const SPENDING_SCRIPT: &str = r#"i=0
while [ $i -lt 200 ]; do
  i=$((i + 1))
  echo "{\"type\":\"assistant\",\"total_cost_usd\":$i,\"message\":{\"id\":\"m$i\",\"content\":[]}}"
  echo $i > paid
  sleep 0.1
done
"#;

/// What an invariant actor uses is charged to the plan; where nothing is left to ask it with, a person is asked.
#[test]
fn an_invariant_actor_is_paid_for_or_not_asked() {
    let (env, plan) = paid_judge_plan(
        "echo asked >> asked\necho '{\"type\":\"result\",\"subtype\":\"success\",\
         \"is_error\":false,\"result\":\"HOLDS\",\"total_cost_usd\":2}'\n",
    );
    let times = || {
        let text = std::fs::read_to_string(env.tool_path("asked")).unwrap_or_default();
        text.lines().count()
    };
    env.run_expecting(6, &["run", &plan]);
    assert_eq!((cost_in_dollars(&env, &plan), times()), (2.0, 1));
    // What would land is another thing now, and asked about anew.
    env.repo.write_file("src/two.txt", "two\n");
    env.repo.commit_all("two");
    env.run_expecting(0, &["config", "set", "budget.cost", "2"]);
    let data = env.run_expecting(4, &["apply", &plan, "--yes"]);
    let said = data["error"]["message"].to_string();
    assert!(
        said.contains("rule `definition-of-done` failed: it is not answered yet"),
        "{said}"
    );
    assert_eq!((cost_in_dollars(&env, &plan), times()), (2.0, 1));
    env.run_expecting(0, &["config", "set", "budget.cost", "20"]);
    env.run_expecting(0, &["retry", &plan, "--detach"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_eq!((cost_in_dollars(&env, &plan), times()), (4.0, 2));
}

/// What others have set aside may come back; nobody but them has to be waited for.
#[test]
fn an_invariant_actor_waits_for_means_that_others_have() {
    let (env, plan) = paid_judge_plan(
        "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\
         \"result\":\"HOLDS\",\"total_cost_usd\":2}'\n",
    );
    env.run_expecting(0, &["config", "set", "budget.cost", "20"]);
    // Has all of it, until it is told to end.
    let (busy, enough) = (env.tool_path("busy"), env.tool_path("enough"));
    let script = format!(
        "#!/bin/sh\ntouch {}\nwhile [ ! -e {} ]; do sleep 0.1; done\necho y > src/y.txt\n",
        busy.display(),
        enough.display()
    );
    env.write_tool("miser", &script);
    let tools = env.tool_path("");
    let definition = format!("output: claude-json\nwritable: [{}]\n", tools.display());
    env.define_actor("miser", &definition);
    let program = |words: &[&str]| {
        let run = env.repo.program.run(words.to_vec());
        run.with_directory(env.repo.shop_path()).start()
    };
    let miser = program(&["run", "--agent", "miser", "Keep everything"]);
    wait_for("everything is set aside", || busy.exists());
    let judged = program(&["run", &plan]);
    let home = env.repo.program.home();
    let trials = home.join("sandboxes").join(&plan).join("trials");
    wait_for("the result is laid out for its judge", || {
        let laid_out = std::fs::read_dir(&trials).into_iter().flatten().flatten();
        laid_out.into_iter().any(|one| one.path().is_dir())
    });
    std::fs::write(&enough, "").unwrap();
    assert_eq!(miser.finish().exit_code(), Some(6));
    let said = judged.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!((cost_in_dollars(&env, &plan) - 2.0).abs() < 0.01);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

#[test]
fn an_invariant_actor_is_stopped_at_the_limit() {
    let (env, plan) = paid_judge_plan(SPENDING_SCRIPT);
    env.run_expecting(0, &["config", "set", "budget.cost", "3"]);
    env.run_expecting(6, &["run", &plan]);
    let paid = cost_in_dollars(&env, &plan);
    assert!((3.0..30.0).contains(&paid), "{paid}");
    // It had no time to say anything.
    let data = env.run_expecting(6, &["apply", &plan, "--yes"]);
    assert_eq!(rule_names(&data), ["definition-of-done"]);
}

/// Cut short, it has said nothing, and is charged all the same.
#[test]
fn an_invariant_actor_that_is_interrupted_is_charged() {
    let (env, plan) = paid_judge_plan(SPENDING_SCRIPT);
    let words = ["run", &plan].map(str::to_owned);
    let running = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path())
        .start();
    wait_for("it is not asked", || env.tool_path("paid").exists());
    send_signal(&running, Signal::INT);
    let said = running.finish();
    assert_eq!(said.exit_code(), Some(130), "{said:?}");
    let paid = cost_in_dollars(&env, &plan);
    assert!((1.0..100.0).contains(&paid), "{paid}");
}

/// What was fine by itself is judged again together with what the branch has become.
#[test]
fn rules_judge_the_tree_that_would_land_too() {
    let env = stubborn_agent("echo one > src/one.txt");
    let command = "! { test -e src/one.txt && test -e src/two.txt; }";
    env.repo
        .run_ok(&["rule", "add", "not-both", "--command", command]);
    let (plan, _) = env.start_plan(6);
    env.repo.write_file("src/two.txt", "two\n");
    env.repo.commit_all("two");
    let before = branch_tip(&env);
    let told = env.run_here(&["apply", &plan, "--yes"]);
    assert_eq!(told.exit_code(), Some(4), "{told:?}");
    assert_eq!(env.repo.plan_state(&plan), "apply/constrained");
    assert_eq!(branch_tip(&env), before);
    let status = env.run_expecting(0, &["status", &plan]).to_string();
    assert!(status.contains("not-both"), "{status}");
    let why = env.run_as_person(&["why", &plan]).stdout;
    assert!(why.contains("on the merged tree"), "{why}");
    assert!(!why.contains("gate is open"), "{why}");
    env.repo.run_git(&["rm", "-q", "src/two.txt"]);
    env.repo.commit_all("not two");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// A rule that came after the signature makes it void, and says so.
#[test]
fn a_signature_does_not_outlive_a_change_of_the_rules() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["approve", &plan]);
    env.repo
        .run_ok(&["rule", "add", "small", "--expr", "totals.lines < 10"]);
    let said = env.run_here(&["plumbing", "apply-plan", &plan]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(
        said.stdout.contains("rule small (global) was added"),
        "{said:?}"
    );
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// Under `manual` a target that moved wants another look, and the second signature is on what it is now.
#[test]
fn under_manual_a_signature_does_not_outlive_a_merge() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let manual = [
        "run",
        "--agent",
        "scribe",
        "--profile",
        "manual",
        "Write a line",
    ];
    let data = env.run_expecting(6, &manual);
    let plan = data["plan_id"].as_str().unwrap().to_owned();
    env.run_expecting(6, &["run", &plan]);
    env.run_expecting(6, &["run", &plan]);
    assert_eq!(env.repo.plan_state(&plan), "execute/complete");
    env.run_expecting(0, &["approve", &plan]);
    env.repo.write_file("src/other.txt", "other\n");
    env.repo.commit_all("meanwhile");
    env.run_expecting(0, &["plumbing", "apply-plan", &plan]);
    env.run_expecting(4, &["run", &plan]);
    assert_eq!(env.repo.plan_state(&plan), "apply/constrained");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// An agent that calls the program itself gets no further than a worker would: confined it does not even
/// find the store, and otherwise it is known for what it is.
#[test]
fn an_agent_cannot_sign_waive_or_change_rules() {
    let script = "#!/bin/sh
echo x >> src/a.txt
for words in \"approve $PLANWRIGHT_PLAN\" \"waive $PLANWRIGHT_PLAN never --reason mine\" \
    'rule remove never' \"apply $PLANWRIGHT_PLAN --yes\" \"approve $PLANWRIGHT_PLAN --rule never\"; do
  PLANWRIGHT_HOME=$OUR_HOME $OUR_PROGRAM $words >> \"$STARTS\" 2>&1
  echo \"$words: $?\" >> \"$STARTS\"
done
";
    for isolation in ["off", "where_possible"] {
        let env = ScriptedAgentEnv::with_script(script);
        let extra = format!(
            "isolation: {isolation}\nset_env:\n  STARTS: {0}/starts\n  OUR_HOME: {1}\n  OUR_PROGRAM: {2}\n\
             writable: [{0}]\n",
            env.tool_path("").display(),
            env.repo.program.home().display(),
            env!("CARGO_BIN_EXE_planwright"),
        );
        env.define_actor("scribe", &extra);
        env.repo
            .run_ok(&["rule", "add", "never", "--expr", "totals.files == 0"]);
        let (plan, _) = env.start_plan(5);
        let told = env.read_starts();
        let codes = told.iter().filter(|line| line.contains(": "));
        let codes: Vec<&String> = codes.filter(|line| !line.starts_with("error")).collect();
        assert!(
            codes.iter().all(|line| !line.ends_with(": 0")),
            "{isolation}: {told:#?}"
        );
        assert!(codes.len() >= 5, "{told:#?}");
        let view = env.run_expecting(0, &["plumbing", "show", &plan]);
        assert_eq!(view["approval"], Value::Null, "{isolation}");
        let rules = env.run_expecting(0, &["rule", "list"]);
        assert_eq!(rules["rules"].as_array().unwrap().len(), 1);
    }
}

/// A waiver is on the record, and refused for what nobody may set aside.
#[test]
fn rules_that_cannot_be_overridden_stay_in_force() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let rule = ["rule", "add", "hard", "--expr", "totals.files == 0"];
    env.repo
        .run_ok(&[&rule[..], &["--non-overridable"]].concat());
    let (plan, _) = env.start_plan(5);
    env.run_expecting(5, &["waive", &plan, "hard", "--reason", "please"]);
    env.run_expecting(5, &["apply", &plan, "--yes"]);
    let narrower = ["rule", "add", "hard", "--plan", &plan, "--expr", "true"];
    env.run_expecting(5, &narrower);
}

#[test]
fn a_rule_of_a_project_holds_for_its_plans_alone() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let add = ["rule", "add", "never", "--expr", "totals.files == 0"];
    env.run_expecting(3, &[&add[..], &["--project", "nobody"]].concat());
    env.repo
        .run_ok(&[&add[..], &["--project", "shop"]].concat());
    let (plan, _) = env.start_plan(5);
    let effective = env.run_expecting(0, &["rule", "list", "--effective", &plan]);
    assert_eq!(effective["rules"][0]["scope"], "project:local/shop");
    env.repo
        .run_ok(&["rule", "remove", "never", "--project", "shop"]);
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// Rules that could never be judged are refused when they are added, and nothing is stored of them.
#[test]
fn bad_rules_are_refused_when_they_are_added() {
    let env = stubborn_agent("true");
    for words in [
        vec!["--expr", "changes.all(c, c.pth != '')"],
        vec!["--expr", "plan.attempt"],
        vec!["--expr", "totals.files < 3", "--at", "strategize"],
        vec!["--allow", "[z-a]"],
        vec!["--forbid", "../outside"],
        vec!["--forbid", "db/**", "--at", "execute"],
        vec!["--command", " "],
        vec!["--command", "true", "--at", "strategize"],
        vec!["--ask", " "],
        vec!["--expr", "true", "--allow", "src"],
        vec!["--expr", "true", "--timeout", "3s"],
        vec![],
    ] {
        let words = [vec!["rule", "add", "bad"], words].concat();
        env.run_expecting(2, &words);
    }
    let rules = env.run_expecting(0, &["rule", "list"]);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 0);
    // What stands on the branch and cannot be read holds everything up, rather than be passed over.
    env.repo
        .write_file("planwright.yaml", "invariants: nonsense\n");
    env.repo.commit_all("bad rules");
    let plan = env.run_here(&["run", "--agent", "scribe", "Try it"]);
    assert_eq!(plan.exit_code(), Some(1), "{plan:?}");
}

/// A check that takes its time does not keep a person: interrupted or cancelled, it ends, and what it was
/// to judge stays unjudged.
#[test]
fn a_check_ends_when_nobody_waits_for_it_any_more() {
    for cancels in [false, true] {
        let env = stubborn_agent("echo x >> src/a.txt");
        env.repo
            .run_ok(&["rule", "add", "slow", "--command", "sleep 1000"]);
        let run = ["run", "--agent", "scribe", "Write a line"];
        let running = env
            .repo
            .program
            .run(run)
            .with_directory(env.repo.shop_path())
            .start();
        let sandboxes = env.repo.program.home().join("sandboxes");
        let is_checked = || {
            let plans = std::fs::read_dir(&sandboxes).into_iter().flatten();
            let mut trials = plans.flatten().map(|plan| plan.path().join("trials"));
            trials.any(|trials| {
                let entries = std::fs::read_dir(trials).into_iter().flatten();
                entries.flatten().any(|one| one.path().join("run").exists())
            })
        };
        wait_for("it is being checked", is_checked);
        let expected = if cancels {
            env.run_expecting(0, &["cancel", "@"]);
            (Some(7), "execute/cancelled")
        } else {
            send_signal(&running, Signal::INT);
            (Some(130), "execute/queued")
        };
        let began = std::time::Instant::now();
        let said = running.finish();
        assert!(began.elapsed().as_secs() < 30, "{said:?}");
        let status = env.run_expecting(0, &["status", "@"]);
        assert_eq!(
            (said.exit_code(), describe_state(&status).as_str()),
            expected,
            "{said:?}"
        );
    }
}

/// An agent that uses a tool it may not use is ended, whatever it says of itself; nothing of it lands, and
/// what it had made is kept.
#[test]
fn an_agent_that_breaks_its_guards_is_ended() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\n");
    let extra = "output: claude-json\nguards: {deny: ['Bash(*git push*)']}\n";
    env.write_tool(
        "pusher",
        r#"#!/bin/sh
echo made >> src/a.txt
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"Bash","input":{"command":"git push -f"}}]}}'
echo '{"status": "done", "summary": "All fine"}' > "$PLANWRIGHT_REPORT"
sleep 60
"#,
    );
    env.define_actor("pusher", extra);
    let before = branch_tip(&env);
    let data = env.run_expecting(7, &["run", "--agent", "pusher", "Write a line"]);
    let plan = data["plan_id"].as_str().unwrap();
    assert_eq!(describe_state(&data), "execute/errored");
    let status = env.run_as_person(&["status", plan]).stdout;
    let said = "was stopped: it used Bash(git push -f), which its guards deny (bash(*git push*))";
    assert!(status.contains(said), "{status}");
    env.run_expecting(4, &["apply", plan, "--yes"]);
    assert_eq!(branch_tip(&env), before);
    let sandbox = env.run_as_person(&["path", plan]).stdout;
    let made =
        std::fs::read_to_string(std::path::Path::new(sandbox.trim()).join("src/a.txt")).unwrap();
    assert!(made.ends_with("made\n"), "{made}");
}

/// What takes its time is told while it does, and what it said is kept, also if it held.
#[test]
fn a_check_is_told_of_and_what_it_said_is_kept() {
    let env = stubborn_agent("echo x >> src/a.txt");
    let says = "echo 17 tests passed; echo one is slow >&2";
    env.repo
        .run_ok(&["rule", "add", "tests", "--command", says]);
    let said = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    assert!(said.stderr.contains("checking `tests`"), "{said:?}");
    let log = env.run_as_person(&["log", "@", "--transcript"]).stdout;
    let (_, kept) = log.split_once("== rule tests held ==").unwrap();
    assert!(kept.contains("17 tests passed"), "{log}");
    assert!(kept.contains("one is slow"), "{log}");
    // On a branch that moved it is another tree, and whoever lands it is told.
    env.repo.write_file("other.txt", "other\n");
    env.repo.commit_all("other");
    let said = env.run_as_person(&["apply", "@", "--yes"]);
    assert!(said.stderr.contains("checking `tests`"), "{said:?}");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
}

/// What is only advice is named where people look, and holds nothing up.
#[test]
fn advice_that_is_not_followed_is_told() {
    let env = stubborn_agent("echo x >> src/a.txt");
    env.repo
        .run_ok(&["rule", "add", "calm", "--forbid", "src", "--advisory"]);
    let (plan, _) = env.start_plan(6);
    let why = env.run_as_person(&["why", &plan]).stdout;
    let said = "failed: forbidden: src/a.txt";
    assert!(
        why.contains("advisory rule `calm`") && why.contains(said),
        "{why}"
    );
    env.run_expecting(0, &["apply", &plan, "--yes"]);
}

/// A read-only action ends with a report; whatever its agent writes is refused and reported.
#[test]
fn a_read_only_action_reports_and_writes_nothing() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho 'There are three files.'\n");
    env.write_tool("writer", "#!/bin/sh\necho sneaked > src/sneaked.txt\n");
    env.define_actor("writer", "");
    env.run_expecting(0, &["project", "create", "shop", "--git", "."]);
    let before = branch_tip(&env);
    for (actor, code, ends) in [
        ("scribe", 0, "apply/applied"),
        ("writer", 7, "execute/errored"),
    ] {
        let file = env.tool_path("look.yaml");
        let text = format!(
            "name: look-{actor}\ndescription: Count the files\nactor: {actor}\nread_only: true\n"
        );
        std::fs::write(&file, text).unwrap();
        env.run_expecting(0, &["action", "create", "--config", file.to_str().unwrap()]);
        let made = env.run_expecting(0, &["use", &format!("look-{actor}"), "shop"]);
        let plan = made["plan_id"].as_str().unwrap();
        let said = env.run_as_person(&["run", plan]);
        assert_eq!(said.exit_code(), Some(code), "{actor}: {said:?}");
        assert_eq!(env.repo.plan_state(plan), ends, "{actor}");
        let status = env.run_expecting(0, &["status", plan]).to_string();
        let expected = match actor {
            "scribe" => "There are three files.",
            _ => "src/sneaked.txt",
        };
        assert!(status.contains(expected), "{actor}: {status}");
        assert_eq!(branch_tip(&env), before, "{actor}");
        assert_eq!(env.repo.run_git(&["status", "--porcelain"]), "", "{actor}");
    }
}

/// Who is due earlier is told.
#[test]
fn why_tells_how_many_are_due_before() {
    let env = stubborn_agent("echo x >> src/a.txt");
    for before in ["", "; 1 plan is ahead of it", "; 2 plans are ahead of it"] {
        let detached = ["run", "--detach", "--agent", "scribe", "Write a line"];
        let plan = env.run_expecting(0, &detached)["plan_id"].to_string();
        let why = env.run_as_person(&["why", plan.trim_matches('"')]).stdout;
        let said = format!("Waiting for a worker{before}\n");
        assert!(why.contains(&said), "{why}");
    }
}

/// A judge that nobody knows leaves the answer to people, and that is said when the plan is made.
#[test]
fn an_invariant_actor_that_nobody_knows_is_no_pass() {
    let env = stubborn_agent("echo x >> src/a.txt");
    define_judged_action(&env, "nobody", "");
    let made = env.run_here(&["use", "kind", "shop"]);
    assert!(made.messages().contains("a person must answer"), "{made:?}");
    let plan = env.run_expecting(0, &["list"])["plans"][0]["plan_id"].to_string();
    let plan = plan.trim_matches('"');
    env.run_expecting(6, &["run", plan]);
    let data = env.run_expecting(6, &["apply", plan, "--yes"]);
    assert_eq!(rule_names(&data), ["definition-of-done"]);
}

#[test]
fn rules_do_not_run_on_a_result_that_changes_nothing() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho hi\n");
    let rules = "invariants:\n  - name: tests\n    command: \"true\"\n";
    env.repo.write_file("planwright.yaml", rules);
    env.repo.commit_all("rules");
    let run = env.run_as_person(&["run", "--agent", "scribe", "Write a line"]);
    assert_eq!(run.exit_code(), Some(7), "{run:?}");
    assert!(run.stderr.contains("scribe"), "{run:?}");
    assert!(!run.stderr.contains("checking"), "{run:?}");
}
