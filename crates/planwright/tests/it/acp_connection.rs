//! The connection between an editor and `planwright acp`: messages that are wrong, and editors that misbehave.

use rustix::process::Signal;
use serde_json::json;

use crate::acp_client::AgentMessage;
use crate::acp_editor::{WRITING_AGENT, open_shop, standing, start_editor};
use crate::daily::ScriptedAgentEnv;

#[test]
fn bad_messages_are_answered_and_the_connection_goes_on() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    let mut editor = start_editor(&env, &[]);
    let session = open_shop(&env, &mut editor);
    let long = format!("{{\"text\":\"{}\"}}", "x".repeat(17 << 20));
    for (line, code) in [
        ("nonsense", -32700),
        ("{\"id\":1,", -32700),
        ("\u{1}", -32700),
        (long.as_str(), -32700),
        ("[]", -32600),
        ("{\"id\":{},\"method\":\"session/new\"}", -32600),
        ("{\"jsonrpc\":\"2.0\"}", -32600),
    ] {
        editor.process.send_line(line);
        let AgentMessage::Answer { id, outcome } = editor.next_message() else {
            panic!("not an answer");
        };
        assert_eq!(id, json!(null));
        assert_eq!(outcome.unwrap_err()["code"], code);
    }
    for (method, code) in [
        ("session/unknown", -32601),
        ("fs/read_text_file", -32601),
        ("authenticate", -32601),
        ("session/prompt", -32602),
        ("session/set_mode", -32602),
        ("session/load", -32602),
    ] {
        let refused = editor.call(method, &json!({})).unwrap_err();
        assert_eq!(refused["code"], code, "{method}");
    }
    // Nobody waits for these.
    editor.notify("session/unknown", &json!({}));
    editor.notify("session/cancel", &json!({ "sessionId": "nobody" }));
    editor.send(&json!({ "jsonrpc": "2.0", "id": 99, "result": {} }));
    for prompt in [json!([]), json!([{ "type": "image", "data": "" }])] {
        let params = json!({ "sessionId": session, "prompt": prompt });
        let refused = editor.call("session/prompt", &params).unwrap_err();
        assert_eq!(refused["code"], -32602);
    }
    // An id may be a text.
    editor.send(&json!({ "jsonrpc": "2.0", "id": "a", "method": "session/unknown" }));
    let message = format!("{:?}", editor.next_message());
    assert!(message.contains("String(\"a\")"), "{message}");
    let answer = editor.prompt(&session, "Write a line");
    assert_eq!(standing(&answer), "needs review");
    editor.close();
}

#[test]
fn editor_that_does_not_read_cannot_keep_the_program() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\nwhile :; do echo a line that nobody reads; done\n",
    );
    for ending in ["input", "signal"] {
        let mut editor = start_editor(&env, &[]);
        let session = open_shop(&env, &mut editor);
        editor.send_prompt(&session, "Write");
        editor.process.wait_for_unread_output(30_000);
        match ending {
            "input" => editor.process.close_input(),
            _ => editor.process.send_signal(Signal::TERM),
        }
        let (status, remarks) = editor.process.wait_for_end();
        assert_eq!(status.code(), Some(0), "{remarks}");
        assert_eq!(env.repo.plan_state(&session), "execute/queued");
    }
}

#[test]
fn agent_in_a_run_cannot_be_an_editor() {
    let env = ScriptedAgentEnv::with_script(WRITING_AGENT);
    for flags in [vec!["acp"], vec!["acp", "--land"]] {
        let run = env.repo.program.run(flags);
        let output = run.with_variable("PLANWRIGHT_RUN_KEY", "x").finish();
        assert_eq!(output.exit_code(), Some(6), "{output:?}");
        assert_eq!(output.stdout, "");
    }
}
