//! Editors that use Planwright as their agent: prompts and how they end.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::acp_client::EditorClient;
use crate::daily::{ScriptedAgentEnv, wait_for};

/// Adds the goal to a file, and keeps its assignment.
pub const WRITING_AGENT: &str = "#!/bin/sh
echo \"looking around\"
echo \"$PLANWRIGHT_GOAL\" >> src/a.txt
tr -d '\\n' < \"$PLANWRIGHT_ASSIGNMENT\" > \"$STARTS.assignment\"
";

/// Writes a line, then waits until it may end.
pub const WAITING_AGENT: &str = "#!/bin/sh
echo \"part of $PLANWRIGHT_GOAL\" >> src/a.txt
touch \"$STARTS.$PLANWRIGHT_GOAL\"
echo \"started $PLANWRIGHT_GOAL\"
while ! [ -e \"$STARTS.go\" ]; do sleep 0.02; done
";

pub fn start_editor(env: &ScriptedAgentEnv, flags: &[&str]) -> EditorClient {
    let words = [&["acp"], flags].concat();
    // Not in the repository: a session has a directory of its own.
    EditorClient::start(&env.repo.program.run(words))
}

pub fn open_shop(env: &ScriptedAgentEnv, editor: &mut EditorClient) -> String {
    editor.open_session(&env.repo.shop_path()).0
}

pub fn standing(answer: &Value) -> &str {
    answer["_meta"]["planwright"]["standing"].as_str().unwrap()
}

pub fn plan_of(answer: &Value) -> String {
    let plan = answer["_meta"]["planwright"]["plan_id"].as_str();
    plan.unwrap().to_owned()
}

#[test]
fn prompt_starts_a_plan_and_the_next_one_revises_it() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let before = env.repo.read_file("src/a.txt");
    let mut editor = start_editor(&env, &[]);
    // From a directory inside the repository.
    let (session, _) = editor.open_session(&env.repo.shop_path().join("src"));
    let answer = editor.prompt(&session, "Write a line");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(standing(&answer), "needs review");
    assert_eq!(plan_of(&answer), session);
    let said = editor.said();
    assert!(said.contains("looking around"), "{said}");
    assert!(said.contains("needs review: r1, 1 file +1 −0"), "{said}");
    assert!(said.contains("Review: `planwright open "), "{said}");
    assert!(said.contains("`planwright apply "), "{said}");
    let path = env.repo.shop_path().join("src/a.txt");
    let diff = &editor.shown_result()["content"][0];
    assert_eq!(diff["type"], "diff");
    assert_eq!(PathBuf::from(diff["path"].as_str().unwrap()), path);
    assert_eq!(diff["oldText"], before.as_str());
    assert_eq!(diff["newText"], format!("{before}Write a line\n"));

    let answer = editor.prompt(&session, "Once more");
    assert_eq!(plan_of(&answer), session);
    let said = editor.said();
    assert!(said.contains("needs review: r2, 1 file +2 −0"), "{said}");
    let assignment = std::fs::read_to_string(env.tool_path("starts.assignment")).unwrap();
    assert!(assignment.contains("Once more"), "{assignment}");
    assert_eq!(env.repo.read_file("src/a.txt"), before, "nothing landed");
    // It acted as an agent, and only a person lands it.
    let log = env.run_as_person(&["log", &session]).stdout;
    assert!(log.contains("in an editor of "), "{log}");
    env.run_expecting(0, &["apply", &session, "--yes"]);
    // What landed is not revised: the next prompt starts another plan.
    let answer = editor.prompt(&session, "Something else");
    assert_ne!(plan_of(&answer), session);
    assert!(editor.said().contains(": r1, "), "{}", editor.said());
    editor.close();
}

#[test]
fn agent_gets_what_the_editor_embeds_and_the_person_learns_what_it_does_not_get() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    env.repo.write_file("draft.txt", "not committed\n");
    let mut editor = start_editor(&env, &[]);
    let server = json!({ "name": "files", "command": "/bin/false", "args": [], "env": [] });
    let params = json!({ "cwd": env.repo.shop_path(), "mcpServers": [server] });
    let opened = editor.call("session/new", &params).unwrap();
    let file = format!("file://{}/src/b.txt", env.repo.shop_path().display());
    let prompt = json!([
        { "type": "text", "text": "Compare" },
        { "type": "resource_link", "name": "b.txt", "uri": file },
        { "type": "text", "text": " with" },
        { "type": "resource", "resource": { "uri": "notes:1", "text": "a selection" } },
    ]);
    let params = json!({ "sessionId": opened["sessionId"], "prompt": prompt });
    editor.call("session/prompt", &params).unwrap();
    let assignment = std::fs::read_to_string(env.tool_path("starts.assignment")).unwrap();
    let assignment: Value = serde_json::from_str(&assignment).unwrap();
    let goal = assignment["goal"].as_str().unwrap();
    assert!(
        goal.starts_with("Compare src/b.txt with notes:1\n"),
        "{goal}"
    );
    assert!(goal.contains("a selection"), "{goal}");
    let said = editor.said();
    assert!(
        said.contains("1 uncommitted file not visible to the agent"),
        "{said}"
    );
    let remarks = editor.collect_text("agent_thought_chunk");
    assert!(remarks.contains("MCP servers"), "{remarks}");
    editor.close();
}

#[test]
fn tool_calls_of_the_agent_are_shown_with_their_results() {
    let agent = "#!/bin/sh
cat > /dev/null
echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"I look.\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Read\",\"input\":{\"file_path\":\"README.md\"}}]}}'
echo '{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"# Shop\"}]}}'
echo done >> README.md
";
    let env = ScriptedAgentEnv::with_script(agent);
    env.define_actor("scribe", "output: claude-json\n");
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    let mut call_ids = Vec::new();
    for prompt in ["Look", "Look again"] {
        editor.prompt(&session, prompt);
        assert!(editor.said().contains("I look."), "{}", editor.said());
        let updates = editor.updates.iter().map(|(_, update)| update);
        let mut reads = updates.filter(|update| {
            let id = update["toolCallId"].as_str().unwrap_or_default();
            id.ends_with("-t1")
        });
        let (call, result) = (reads.next().unwrap(), reads.next().unwrap());
        assert_eq!(call["sessionUpdate"], "tool_call");
        assert_eq!(call["kind"], "read");
        let path = env.repo.shop_path().join("README.md");
        assert_eq!(call["locations"], json!([{ "path": path }]));
        assert_eq!(result["sessionUpdate"], "tool_call_update");
        assert_eq!(result["status"], "completed");
        assert_eq!(result["content"][0]["content"]["text"], "# Shop");
        call_ids.push(call["toolCallId"].clone());
    }
    assert_ne!(call_ids[0], call_ids[1]);
    editor.close();
}

#[test]
fn address_of_the_page_is_given_while_a_server_runs() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let server = env
        .repo
        .program
        .run(["serve", "--listen", "127.0.0.1:0"])
        .start();
    let registered = || {
        let found = std::fs::read_dir(env.repo.program.home().join("server/running"));
        found.is_ok_and(|mut files| files.any(|file| file.unwrap().path().extension().is_none()))
    };
    wait_for("the server registers", registered);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    editor.prompt(&session, "Write a line");
    let said = editor.said();
    assert!(said.contains("Review: http://127.0.0.1:"), "{said}");
    editor.close();
    drop(server);
}

#[test]
fn cancelled_prompt_gives_the_plan_back_and_keeps_the_work() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    let prompt = editor.send_prompt(&session, "one");
    editor.wait_for_update("started one");
    let busy = editor.send_prompt(&session, "two");
    let refused = editor.wait_for_answer(busy).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("busy"));
    editor.cancel(&session);
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    // No worker continues what the person stopped.
    assert_eq!(standing(&answer), "needs answer");
    assert_eq!(env.repo.plan_state(&session), "execute/awaiting_input");
    let patch = env.run_as_person(&["diff", &session]).stdout;
    assert!(patch.contains("+part of one"), "{patch}");

    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let answer = editor.prompt(&session, "go on");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(plan_of(&answer), session);
    let diff = editor.shown_result()["content"][0]["newText"].to_string();
    assert_eq!(diff.matches("part of one").count(), 2, "{diff}");
    // Nothing runs, so there is nothing to cancel.
    editor.cancel(&session);
    editor.close();
}

#[test]
fn cancelling_at_once_stops_the_prompt() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    let prompt = editor.send_prompt(&session, "one");
    editor.cancel(&session);
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let answer = editor.prompt(&session, "go on");
    assert_eq!(standing(&answer), "needs review", "{}", editor.said());
    editor.close();
}

/// An agent may not start what the profile leaves to a person.
#[test]
fn plan_under_profile_manual_waits_for_the_person() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    let mode = json!({ "sessionId": session, "modeId": "manual" });
    editor.call("session/set_mode", &mode).unwrap();
    let answer = editor.prompt(&session, "Write a line");
    assert_eq!(standing(&answer), "waiting for you");
    let said = editor.said();
    assert!(said.contains("`planwright run "), "{said}");
    let id = editor.send_prompt(&session, "Go on");
    let refused = editor.wait_for_answer(id).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("waits until you start it"), "{message}");
    assert!(env.read_starts().is_empty());
    // The person starts both phases. Revising the result is up to the editor again.
    env.run_expecting(6, &["run", &session]);
    env.run_expecting(6, &["run", &session]);
    assert_eq!(env.repo.plan_state(&session), "execute/complete");
    let answer = editor.prompt(&session, "Once more");
    assert_eq!(standing(&answer), "needs review", "{}", editor.said());
    editor.close();
}

#[test]
fn prompts_that_come_to_nothing_say_so_and_what_to_do() {
    let agent = "#!/bin/sh
case $PLANWRIGHT_GOAL in
fail) echo no >&2; exit 3 ;;
ask) printf '{\"outcome\":\"ask\",\"question\":\"Which colour?\"}' > \"$PLANWRIGHT_REPORT\" ;;
nothing) ;;
break) echo secret > secret.txt ;;
esac
";
    let env = ScriptedAgentEnv::with_script(agent);
    env.repo.write_file(
        "planwright.yaml",
        "invariants:\n  - name: closed\n    forbid: secret.txt\n",
    );
    env.repo.commit_all("with a rule");
    let mut editor = start_editor(&env, &["--land"]);
    for (goal, expected, says, next) in [
        ("fail", "failed", "3", "`planwright "),
        (
            "ask",
            "needs answer",
            "Which colour?",
            "`planwright answer ",
        ),
        ("nothing", "failed", "changed nothing", "`planwright "),
    ] {
        let session = open_shop(&env, &mut editor);
        let answer = editor.prompt(&session, goal);
        assert_eq!(answer["stopReason"], "end_turn", "{goal}");
        assert_eq!(standing(&answer), expected, "{goal}");
        let said = editor.said();
        assert!(said.contains(says) && said.contains(next), "{goal}: {said}");
    }
    // The agent breaks the rule however often it is sent back. Nothing can be landed, so nothing is asked.
    let session = open_shop(&env, &mut editor);
    let answer = editor.prompt(&session, "break");
    assert_eq!(standing(&answer), "blocked");
    let said = editor.said();
    assert!(said.contains("does not meet `closed`"), "{said}");
    assert!(said.contains("`closed` failed"), "{said}");
    editor.close();
}
