//! Tool calls that wait for a person, while an editor shows the run: answered there only with `--land`.

use serde_json::{Value, json};

use crate::acp_agents::repository_with_agent;
use crate::acp_client::{AgentMessage, EditorClient};
use crate::shop_repository::ShopRepository;

fn asking_repository() -> ShopRepository {
    let repo = repository_with_agent("tools: {ask: [execute]}\n");
    repo.run_ok(&["config", "set", "actor", "asking"]);
    repo
}

fn start_editor(repo: &ShopRepository, flags: &[&str]) -> (EditorClient, String) {
    let words = [&["acp"], flags].concat();
    let mut editor = EditorClient::start(&repo.program.run(words));
    let session = editor.open_session(&repo.shop_path()).0;
    (editor, session)
}

/// Waits for a question in the editor. Returns its id and its content.
fn next_question(editor: &mut EditorClient) -> (Value, Value) {
    match editor.next_message() {
        AgentMessage::Request { id, params } => (id, params),
        message @ AgentMessage::Answer { .. } => panic!("not asked: {message:?}"),
    }
}

/// The first digits of the request that is open.
fn open_request(repo: &ShopRepository, plan: &str) -> String {
    let status = repo.run_ok(&["status", plan]);
    status["permission"]["request"].as_str().unwrap()[..12].to_owned()
}

#[test]
fn call_is_allowed_in_an_editor_that_may_land() {
    let repo = asking_repository();
    let (mut editor, session) = start_editor(&repo, &["--land"]);
    let prompt = editor.send_prompt(&session, "Write it");
    let (question, asked) = next_question(&mut editor);
    assert_eq!(asked["toolCall"]["title"], "run write");
    let shown = asked["toolCall"]["content"][0]["content"]["text"].as_str();
    assert!(shown.unwrap().contains(r#""command":"write""#), "{asked}");
    let kinds: Vec<&Value> = (0..2).map(|at| &asked["options"][at]["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    editor.choose(&question, "allow");
    let (landing, offered) = next_question(&mut editor);
    assert_eq!(offered["options"][0]["name"], "Land on main");
    editor.choose(&landing, "keep");
    editor.wait_for_answer(prompt).unwrap();
    assert!(editor.said().contains("I wrote it."), "{}", editor.said());
    // The person answered, not the editor's agent.
    let log = repo.run_plain(&["log", &session]);
    let answered = log.lines().find(|line| line.contains("allowed"));
    assert!(
        answered.is_some_and(|line| !line.contains("editor")),
        "{log}"
    );
    editor.close();
}

#[test]
fn call_is_rejected_in_the_editor() {
    let repo = asking_repository();
    let (mut editor, session) = start_editor(&repo, &["--land"]);
    let prompt = editor.send_prompt(&session, "Write it");
    let (question, _) = next_question(&mut editor);
    editor.choose(&question, "reject");
    editor.wait_for_answer(prompt).unwrap();
    assert!(
        editor.said().contains("I may not write."),
        "{}",
        editor.said()
    );
    editor.close();
}

/// An answer that is not one of the options decides nothing, and neither does one that comes too late.
#[test]
fn unclear_answer_leaves_the_call_to_the_terminal() {
    let repo = asking_repository();
    let (mut editor, session) = start_editor(&repo, &["--land"]);
    let prompt = editor.send_prompt(&session, "Write it");
    let (question, _) = next_question(&mut editor);
    editor.choose(&question, "allow_always");
    editor.wait_for_update("--request");
    let request = open_request(&repo, &session);
    assert!(
        editor
            .said()
            .contains(&format!("--request {request} reject"))
    );
    repo.run_ok(&["answer", &session, "--request", &request, "reject"]);
    editor.choose(&question, "allow");
    editor.wait_for_answer(prompt).unwrap();
    assert!(
        editor.said().contains("I may not write."),
        "{}",
        editor.said()
    );
    editor.close();
}

/// Without `--land`, no person is known to sit there: an editor that allows everything must not decide.
#[test]
fn editor_that_may_not_land_is_told_the_command_and_decides_nothing() {
    let repo = asking_repository();
    let (mut editor, session) = start_editor(&repo, &[]);
    let prompt = editor.send_prompt(&session, "Write it");
    editor.wait_for_update("--request");
    let request = open_request(&repo, &session);
    assert!(
        editor
            .said()
            .contains(&format!("--request {request} allow"))
    );
    // No message of the editor is an answer to a question that was not asked.
    for id in [json!(1), json!(7)] {
        editor.choose(&id, "allow");
    }
    repo.run_ok(&["answer", &session, "--request", &request, "reject"]);
    editor.wait_for_answer(prompt).unwrap();
    assert!(
        editor.said().contains("I may not write."),
        "{}",
        editor.said()
    );
    editor.close();
}

#[test]
fn cancelled_prompt_withdraws_the_question() {
    let repo = asking_repository();
    let (mut editor, session) = start_editor(&repo, &["--land"]);
    let prompt = editor.send_prompt(&session, "Write it");
    let (question, _) = next_question(&mut editor);
    editor.cancel(&session);
    let answer = editor.wait_for_answer(prompt).unwrap();
    assert_eq!(answer["stopReason"], "cancelled");
    editor.choose(&question, "allow");
    let status = repo.run_ok(&["status", &session]);
    assert_eq!(status["permission"], Value::Null);
    editor.close();
}
