//! Landing from an editor: only with `--land`, only after a yes, and only what was shown.

use serde_json::{Value, json};

use crate::acp_client::{AgentMessage, EditorClient};
use crate::acp_editor::{open_shop, start_editor};
use crate::daily::ScriptedAgentEnv;

/// Changes two files.
const AGENT: &str = "#!/bin/sh
echo \"$PLANWRIGHT_GOAL\" >> src/a.txt
echo new >> new.txt
";

/// Sends a prompt and waits for the question about landing. Returns the prompt, the question's id and its content.
fn prompt_until_asked(editor: &mut EditorClient, session: &str) -> (u64, Value, Value) {
    let prompt = editor.send_prompt(session, "Write a line");
    match editor.next_message() {
        AgentMessage::Request { id, params } => (prompt, id, params),
        message @ AgentMessage::Answer { .. } => panic!("not asked: {message:?}"),
    }
}

fn head(env: &ScriptedAgentEnv) -> String {
    env.repo.run_git(&["rev-parse", "main"])
}

#[test]
fn yes_in_the_editor_lands_exactly_what_was_shown() {
    let env = ScriptedAgentEnv::with_script(AGENT);
    let mut editor = start_editor(&env, &["--land"]);
    let session = open_shop(&env, &mut editor);
    let (prompt, question, asked) = prompt_until_asked(&mut editor, &session);
    assert_eq!(asked["sessionId"], session.as_str());
    let kinds: Vec<&str> = (0..2)
        .map(|option| asked["options"][option]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    assert_eq!(asked["options"][0]["name"], "Land on main");
    let files = asked["toolCall"]["content"].as_array().unwrap();
    assert_eq!(files.len(), 2, "{asked}");
    editor.choose(&question, "land");
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(answer["_meta"]["planwright"]["standing"], "landed");
    let said = editor.said();
    assert!(said.contains("landed"), "{said}");
    for file in files {
        let path = file["path"].as_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, file["newText"].as_str().unwrap());
    }
    env.repo.assert_tidy();
    // The person signed it: the digest that was shown.
    let log = env.run_here(&["log", &session, "--events"]).stdout;
    let digest = asked["toolCall"]["rawInput"]["digest"].as_str().unwrap();
    assert!(log.contains(digest), "{digest}: {log}");
    let story = env.run_as_person(&["log", &session]).stdout;
    let approval = story
        .lines()
        .find(|line| line.contains("approved"))
        .unwrap();
    assert!(!approval.contains("editor"), "{story}");
    editor.close();
}

#[test]
fn anything_but_a_yes_lands_nothing() {
    let env = ScriptedAgentEnv::with_script(AGENT);
    let before = head(&env);
    let mut editor = start_editor(&env, &["--land"]);
    let answers = [
        json!({ "result": { "outcome": { "outcome": "selected", "optionId": "keep" } } }),
        json!({ "result": { "outcome": { "outcome": "selected", "optionId": "allow" } } }),
        json!({ "result": { "outcome": { "outcome": "cancelled" } } }),
        json!({ "result": {} }),
        json!({ "error": { "code": -32603, "message": "The window is closed." } }),
    ];
    for mut given in answers {
        let session = open_shop(&env, &mut editor);
        let (prompt, question, _) = prompt_until_asked(&mut editor, &session);
        given["jsonrpc"] = json!("2.0");
        given["id"] = question;
        editor.send(&given);
        let answer = editor.wait_for_answer(prompt).unwrap();
        assert_eq!(answer["stopReason"], "end_turn");
        assert_eq!(answer["_meta"]["planwright"]["standing"], "needs review");
    }
    // A yes that comes after the prompt was cancelled is too late.
    let session = open_shop(&env, &mut editor);
    let (prompt, question, _) = prompt_until_asked(&mut editor, &session);
    editor.cancel(&session);
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    editor.choose(&question, "land");
    // The end of the connection is not a yes either.
    let session = open_shop(&env, &mut editor);
    prompt_until_asked(&mut editor, &session);
    editor.close();
    assert_eq!(env.repo.plan_state(&session), "execute/complete");
    assert_eq!(head(&env), before);
}

#[test]
fn result_that_changed_meanwhile_does_not_land() {
    let env = ScriptedAgentEnv::with_script(AGENT);
    let before = head(&env);
    let mut editor = start_editor(&env, &["--land"]);
    for change in [
        &["drop", "PLAN", "new.txt"][..],
        &["revise", "PLAN", "Once more"],
        &["cancel", "PLAN"],
    ] {
        let session = open_shop(&env, &mut editor);
        let (prompt, question, _) = prompt_until_asked(&mut editor, &session);
        let words: Vec<&str> = change
            .iter()
            .map(|word| if *word == "PLAN" { &*session } else { word })
            .collect();
        let changed = env.run_here(&words);
        assert!(
            [Some(0), Some(6)].contains(&changed.exit_code()),
            "{changed:?}"
        );
        editor.updates.clear();
        editor.choose(&question, "land");
        editor.wait_for_answer(prompt).unwrap();
        let said = editor.said();
        assert!(
            said.contains("changed since you were asked. Nothing landed."),
            "{said}"
        );
        assert_eq!(head(&env), before, "{change:?}");
    }
    editor.close();
}

#[test]
fn landing_that_is_refused_is_reported() {
    let env = ScriptedAgentEnv::with_script(AGENT);
    env.repo.write_file(
        "planwright.yaml",
        "invariants:\n  - name: owner\n    ask: Does the owner agree?\n",
    );
    env.repo.commit_all("with a rule");
    let before = head(&env);
    let mut editor = start_editor(&env, &["--land"]);
    let session = open_shop(&env, &mut editor);
    let (prompt, question, _) = prompt_until_asked(&mut editor, &session);
    editor.choose(&question, "land");
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_ne!(answer["_meta"]["planwright"]["standing"], "landed");
    let said = editor.said();
    assert!(said.contains("Not landed."), "{said}");
    assert!(said.contains("Does the owner agree?"), "{said}");
    assert_eq!(head(&env), before);
    editor.close();
}

#[test]
fn without_the_flag_nobody_is_asked_and_nothing_lands() {
    let env = ScriptedAgentEnv::with_script(AGENT);
    let before = head(&env);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    // A question would fail the wait for the answer.
    editor.prompt(&session, "Write a line");
    for method in [
        "session/request_permission",
        "planwright/land",
        "session/apply",
    ] {
        let refused = editor
            .call(method, &json!({ "sessionId": session }))
            .unwrap_err();
        assert_eq!(refused["code"], -32601);
    }
    for id in 0..3 {
        editor.choose(&json!(id), "land");
    }
    editor.prompt(&session, "land");
    assert_eq!(head(&env), before);
    editor.close();
}
