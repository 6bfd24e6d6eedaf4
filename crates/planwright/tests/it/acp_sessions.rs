//! Sessions of editors: which plan they are about, what can be chosen for them, and how they end and go on.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acp_editor::{WAITING_AGENT, WRITING_AGENT, open_shop, plan_of, standing, start_editor};
use crate::daily::{ScriptedAgentEnv, wait_for};

#[test]
fn loaded_session_shows_its_history_and_continues_the_plan() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    editor.prompt(&session, "Write a line");
    editor.prompt(&session, "Once more");
    editor.close();

    let mut editor = start_editor(&env, &[]);
    let load =
        |directory: PathBuf| json!({ "sessionId": session, "cwd": directory, "mcpServers": [] });
    let answer = editor
        .call("session/load", &load(env.repo.shop_path()))
        .unwrap();
    assert_eq!(answer["configOptions"][0]["currentValue"], "scribe");
    assert_eq!(
        editor.collect_text("user_message_chunk"),
        "Write a lineOnce more"
    );
    let said = editor.said();
    assert_eq!(said.matches("looking around").count(), 2, "{said}");
    assert!(said.contains("needs review: r2"), "{said}");
    let order: Vec<&str> = editor
        .updates
        .iter()
        .filter_map(|(_, update)| update["sessionUpdate"].as_str())
        .collect();
    let prompts = order.iter().enumerate();
    let prompts = prompts.filter(|(_, kind)| **kind == "user_message_chunk");
    let prompts: Vec<usize> = prompts.map(|(at, _)| at).collect();
    assert!(prompts[0] == 0 && prompts[1] > 1, "{order:?}");
    // Reading it recorded nothing, and a repeated replay shows the same.
    let first = editor.updates.clone();
    editor.updates.clear();
    editor
        .call("session/load", &load(env.repo.shop_path()))
        .unwrap();
    assert_eq!(editor.updates, first);

    let answer = editor.prompt(&session, "A third time");
    assert_eq!(plan_of(&answer), session);
    assert!(editor.said().contains(": r3, "), "{}", editor.said());
    // The person's plans are not listed, and those of other repositories only without a directory.
    let (plan, _) = env.start_plan(6);
    let other = PathBuf::from(env.repo.create_repository("other"));
    let mut list = |params: Value| editor.call("session/list", &params).unwrap();
    let shop = env.repo.shop_path();
    for params in [json!({}), json!({ "cwd": shop })] {
        let listed = list(params);
        assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
        let listed = &listed["sessions"][0];
        assert_eq!(listed["sessionId"], session.as_str());
        assert_eq!(listed["title"], "Write a line");
        assert_eq!(PathBuf::from(listed["cwd"].as_str().unwrap()), shop);
    }
    assert_eq!(list(json!({ "cwd": other }))["sessions"], json!([]));
    // Resuming shows nothing again.
    editor.updates.clear();
    editor
        .call("session/resume", &load(env.repo.shop_path()))
        .unwrap();
    assert_eq!(editor.updates, []);

    let refused = editor.call("session/load", &load(other)).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("does not work on the repository"),
        "{message}"
    );
    // A plan of the person is theirs.
    let theirs = json!({ "sessionId": plan, "cwd": env.repo.shop_path(), "mcpServers": [] });
    let refused = editor.call("session/load", &theirs).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("not started from an editor"), "{message}");
    editor.close();
}

#[test]
fn agent_and_profile_can_be_chosen_but_not_profile_auto() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    env.write_tool("other", "#!/bin/sh\necho other >> src/a.txt\n");
    env.define_actor("other", "");
    env.repo.run_ok(&["config", "set", "profile", "auto"]);
    let mut editor = start_editor(&env, &[]);
    let (session, opened) = editor.open_session(&env.repo.shop_path());
    assert_eq!(opened["configOptions"][0]["currentValue"], "");
    assert_eq!(opened["configOptions"][1]["currentValue"], "review");
    assert_eq!(opened["modes"]["currentModeId"], "review");
    let id = editor.send_prompt(&session, "Write a line");
    let refused = editor.wait_for_answer(id).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("Several agents are available: other, scribe"),
        "{message}"
    );
    assert!(message.contains("Choose one in the options"), "{message}");

    let mut set = |option: &str, value: &str| {
        let params = json!({ "sessionId": session, "configId": option, "value": value });
        editor.call("session/set_config_option", &params)
    };
    for (option, value) in [("profile", "auto"), ("agent", "nobody"), ("model", "x")] {
        assert_eq!(set(option, value).unwrap_err()["code"], -32602);
    }
    let changed = set("agent", "other").unwrap();
    assert_eq!(changed["configOptions"][0]["currentValue"], "other");
    let answer = editor.prompt(&session, "Write a line");
    assert_eq!(standing(&answer), "needs review");
    let view = env.repo.run_ok(&["plumbing", "show", &session]);
    assert_eq!(view["profile"], "review");
    let diff = editor.shown_result()["content"][0]["newText"].to_string();
    assert!(diff.contains("other"), "{diff}");
    // Profiles are modes, too.
    let second = open_shop(&env, &mut editor);
    let mode = |mode: &str| json!({ "sessionId": second, "modeId": mode });
    assert!(editor.call("session/set_mode", &mode("auto")).is_err());
    editor
        .call("session/set_mode", &mode("supervised"))
        .unwrap();
    editor.wait_for_update("config_option_update");
    editor.call("session/set_mode", &mode("review")).unwrap();
    // The plan keeps what it was started with.
    let params = json!({ "sessionId": session, "configId": "agent", "value": "scribe" });
    let refused = editor
        .call("session/set_config_option", &params)
        .unwrap_err();
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("keeps its agent")
    );
    editor.close();
}

#[test]
fn sessions_need_a_repository_and_an_agent() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let outside = env.tool_path("plain");
    std::fs::create_dir(&outside).unwrap();
    for (directory, says) in [
        (json!("shop"), "absolute path"),
        (json!(null), "absolute path"),
        (json!(outside), "not in a git repository"),
        (json!(outside.join("nowhere")), "nowhere"),
    ] {
        let params = json!({ "cwd": directory, "mcpServers": [] });
        let refused = editor.call("session/new", &params).unwrap_err();
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(says), "{directory}: {message}");
    }
    // Settings and agents are read anew for every session.
    env.repo.run_ok(&["agent", "remove", "scribe"]);
    let params = json!({ "cwd": env.repo.shop_path(), "mcpServers": [] });
    let refused = editor.call("session/new", &params).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("No agent is installed"), "{message}");
    editor.close();
}

#[test]
fn new_repository_is_registered_with_its_first_plan() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho x >> new.txt\n");
    let other = PathBuf::from(env.repo.create_repository("other"));
    let mut editor = start_editor(&env, &[]);
    let count_projects = || {
        let listed = env.repo.run_ok(&["project", "list"]);
        listed["projects"].as_array().unwrap().len()
    };
    let (session, _) = editor.open_session(&other);
    assert_eq!(count_projects(), 1);
    let answer = editor.prompt(&session, "Write a line");
    assert_eq!(standing(&answer), "needs review");
    assert_eq!(count_projects(), 2);
    editor.close();
}

#[test]
fn prompts_of_several_sessions_run_at_once() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let sessions = [open_shop(&env, &mut editor), open_shop(&env, &mut editor)];
    let first = editor.send_prompt(&sessions[0], "one");
    let second = editor.send_prompt(&sessions[1], "two");
    // Neither ends before the other has started.
    editor.wait_for_update("started one");
    editor.wait_for_update("started two");
    for (session, update) in &editor.updates {
        let text = update.to_string();
        if text.contains("started ") {
            let expected = usize::from(text.contains("started two"));
            assert_eq!(*session, sessions[expected]);
        }
    }
    // Cancelling one leaves the other alone.
    editor.cancel(&sessions[0]);
    let answer = editor.wait_for_answer(first).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    let answer = editor.wait_for_answer(second).unwrap();
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(plan_of(&answer), sessions[1]);
    // A closed session is gone for this connection, its plan is not.
    let params = json!({ "sessionId": sessions[1] });
    editor.call("session/close", &params).unwrap();
    assert!(editor.call("session/close", &params).is_err());
    assert_eq!(env.repo.plan_state(&sessions[1]), "execute/complete");
    editor.close();
}

#[test]
fn end_of_input_or_a_signal_gives_the_plan_back() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    for ending in ["input", "signal"] {
        // Nothing but messages is printed, whatever the format.
        let mut editor = start_editor(&env, &["--format", "json"]);
        let session = open_shop(&env, &mut editor);
        editor.send_prompt(&session, "one");
        editor.wait_for_update("started one");
        match ending {
            "input" => editor.process.close_input(),
            _ => editor.process.send_signal(Signal::TERM),
        }
        editor.expect_clean_end();
        // Whoever continues finds what was done.
        assert_eq!(env.repo.plan_state(&session), "execute/queued");
        let patch = env.run_as_person(&["diff", &session]).stdout;
        assert!(patch.contains("+part of one"), "{ending}: {patch}");
        std::fs::remove_file(env.tool_path("starts.one")).unwrap();
    }
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    env.run_expecting(0, &["work", "--drain"]);
    let listed = env.run_expecting(0, &["list"]);
    let plans = listed["plans"].as_array().unwrap();
    assert!(
        plans.iter().all(|plan| plan["standing"] == "needs review"),
        "{listed}"
    );
}

#[test]
fn plan_is_taken_from_a_killed_editor_but_not_from_a_worker() {
    let env = ScriptedAgentEnv::with_script(WAITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    editor.send_prompt(&session, "one");
    editor.wait_for_update("started one");
    drop(editor);
    let mut editor = start_editor(&env, &[]);
    let load = json!({ "sessionId": session, "cwd": env.repo.shop_path(), "mcpServers": [] });
    editor.call("session/load", &load).unwrap();
    // Takes it over from the dead process, and sends it back.
    std::fs::remove_file(env.tool_path("starts.one")).unwrap();
    let prompt = editor.send_prompt(&session, "two");
    wait_for("the agent starts again", || {
        env.tool_path("starts.one").exists()
    });
    editor.cancel(&session);
    editor.wait_for_answer(prompt).unwrap();
    env.run_expecting(0, &["answer", &session, "go on", "--detach"]);

    std::fs::remove_file(env.tool_path("starts.one")).unwrap();
    let worker = env.repo.program.run(["work"]).start();
    wait_for("the worker starts the agent", || {
        env.tool_path("starts.one").exists()
    });
    let id = editor.send_prompt(&session, "three");
    let refused = editor.wait_for_answer(id).unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("Another process is working"), "{message}");
    assert!(message.contains("planwright wait "), "{message}");
    std::fs::write(env.tool_path("starts.go"), "").unwrap();
    wait_for("the worker submits", || {
        env.repo.plan_state(&session) == "execute/complete"
    });
    drop(worker);
    let answer = editor.prompt(&session, "four");
    assert_eq!(standing(&answer), "needs review");
    editor.close();
}
