//! An agent waits for a person to decide a tool call: in the terminal, from another one, over HTTP and on the page.

use serde_json::{Value, json};
use testkit::TestProcess;

use crate::acp_agents::{ASKING_AGENT, repository_with_agent};
use crate::browser::{check_errors, open_page};
use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, wait_for};
use crate::server::RunningTestServer;
use crate::shop_repository::ShopRepository;

const ASK_FOR_COMMANDS: &str = "tools: {ask: [execute]}\n";

/// A run in the background whose agent waits for a person.
struct AskingRun {
    repo: ShopRepository,
    process: TestProcess,
    plan: String,
}

impl AskingRun {
    fn start() -> Self {
        let repo = repository_with_agent(ASK_FOR_COMMANDS);
        let words = ["--format", "json", "run", "--agent", "asking", "Write it"];
        let run = repo.program.run(words).with_directory(repo.shop_path());
        let process = run.start();
        let plan = wait_for_request(&repo);
        Self {
            repo,
            process,
            plan,
        }
    }

    fn status(&self) -> Value {
        self.repo.run_ok(&["status", &self.plan])
    }

    /// The digits that a person types.
    fn request(&self) -> String {
        let status = self.status();
        status["permission"]["request"].as_str().unwrap()[..12].to_owned()
    }

    fn answer(&self, code: i32, words: &[&str]) -> String {
        let words = [&["answer", &self.plan], words].concat();
        let output = self.repo.program.run(words).finish();
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.exit_code(), Some(code), "{printed}");
        printed
    }
}

/// Returns the plan whose agent asks.
fn wait_for_request(repo: &ShopRepository) -> String {
    let find = || {
        let listed = repo.run_ok(&["list", "--all", "--needs-me"]);
        listed["plans"][0]["plan_id"].as_str().map(str::to_owned)
    };
    wait_for("the agent asks", || find().is_some());
    find().unwrap()
}

#[test]
fn request_is_shown_everywhere_and_allowed_from_another_terminal() {
    let run = AskingRun::start();
    let status = run.status();
    assert_eq!(status["standing"], "needs answer");
    assert_eq!(status["state"], "processing", "the agent keeps the plan");
    let permission = &status["permission"];
    assert_eq!(permission["summary"], "run write");
    assert_eq!(permission["input"], r#"{"command":"write"}"#);
    assert_eq!(permission["reason"], "`tools.ask` has `execute`");
    let request = run.request();
    let allow = format!("--request {request} allow");
    let in_status = run.repo.run_plain(&["status", &run.plan]);
    assert!(in_status.contains("run write"), "{in_status}");
    for words in [&["why", run.plan.as_str()][..], &[]] {
        let output = run.repo.program.run(words.to_vec()).finish();
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(printed.contains(&allow), "{words:?}: {printed}");
    }
    run.repo.run_ok(&["wait", &run.plan, "--until", "needs-me"]);

    // A text is no decision, and neither is another request.
    let refused = run.answer(4, &["allow"]);
    assert!(refused.contains(&allow), "{refused}");
    let refused = run.answer(4, &["--request", "0123456789ab", "allow"]);
    assert!(refused.contains("no longer waits"), "{refused}");
    let refused = run.answer(2, &["--request", &request[..11], "allow"]);
    assert!(refused.contains("at least 12 digits"), "{refused}");
    let refused = run.answer(2, &["--request", &request, "yes"]);
    assert!(refused.contains("`allow` or `reject`"), "{refused}");
    assert!(run.status()["permission"].is_object());

    let allowed = run.answer(0, &["--request", &request, "allow"]);
    assert!(allowed.contains("run write, this time only"), "{allowed}");
    let ended = run.process.finish();
    assert_eq!(ended.exit_code(), Some(6), "{ended:?}");
    run.repo.run_ok(&["apply", &run.plan, "--yes"]);
    assert_eq!(run.repo.read_file("NOTES.md"), "written\n");
    let log = run.repo.run_plain(&["log", &run.plan]);
    assert!(log.contains("asks whether it may: run write"), "{log}");
    assert!(log.contains("allowed it once"), "{log}");
    let transcript = run.repo.run_plain(&["log", &run.plan, "--transcript"]);
    assert!(transcript.contains("ask   run write"), "{transcript}");
    assert!(transcript.contains("allow run write"), "{transcript}");
}

#[test]
fn rejected_call_is_not_made_and_no_second_answer_counts() {
    let run = AskingRun::start();
    let request = run.request();
    run.answer(0, &["--request", &request, "reject"]);
    let ended = run.process.finish();
    assert_eq!(ended.exit_code(), Some(7), "{ended:?}");
    let words = ["answer", &run.plan, "--request", &request, "allow"];
    let late = run.repo.program.run(words).finish();
    assert_eq!(late.exit_code(), Some(4), "{late:?}");
    let transcript = run.repo.run_plain(&["log", &run.plan, "--transcript"]);
    assert!(transcript.contains("I may not write."), "{transcript}");
}

#[test]
fn cancelled_plan_voids_its_request() {
    let run = AskingRun::start();
    let request = run.request();
    run.repo.run_ok(&["cancel", &run.plan]);
    run.process.finish();
    let words = ["answer", &run.plan, "--request", &request, "allow"];
    let late = run.repo.program.run(words).finish();
    assert_eq!(late.exit_code(), Some(4), "{late:?}");
    assert!(!run.repo.shop_path().join("NOTES.md").exists());
}

#[test]
fn request_of_a_killed_run_is_not_offered() {
    let run = AskingRun::start();
    let request = run.request();
    run.process.kill();
    wait_for("the process is noticed as ended", || {
        let status = run.repo.run_ok(&["status", &run.plan]);
        status["standing"] == "interrupted"
    });
    let why = run.repo.program.run(["why", &run.plan]).finish();
    let printed = format!("{}{}", why.stdout, why.stderr);
    assert!(!printed.contains("--request"), "{printed}");
    // Its work goes on in another run, which asks for itself.
    let words = ["--format", "json", "run", &run.plan];
    let again = run.repo.program.run(words);
    let again = again.with_directory(run.repo.shop_path()).start();
    let is_new = || {
        let status = run.repo.run_ok(&["status", &run.plan]);
        let asked = status["permission"]["request"].as_str();
        asked.is_some_and(|asked| !asked.starts_with(&request))
    };
    wait_for("the next run asks", is_new);
    let words = ["answer", &run.plan, "--request", &request, "allow"];
    let stale = run.repo.program.run(words).finish();
    assert_eq!(stale.exit_code(), Some(4), "{stale:?}");
    run.repo.run_ok(&["cancel", &run.plan]);
    again.finish();
}

#[test]
fn person_at_the_terminal_is_asked_while_the_agent_waits() {
    for (typed, code, closing) in [("y", 6, "✓ done"), ("n", 7, "failed")] {
        let repo = repository_with_agent(ASK_FOR_COMMANDS);
        let words = ["run", "--agent", "asking", "Write it"];
        let run = repo.program.run(words).with_directory(repo.shop_path());
        let mut terminal = run.with_variable("TERM", "xterm").start_on_terminal();
        terminal.wait_for_text("The agent wants to");
        terminal.wait_for_text("run write");
        terminal.wait_for_text(r#"{"command":"write"}"#);
        terminal.wait_for_text("`tools.ask` has `execute`");
        terminal.wait_for_text("[y]es").type_line("what?");
        terminal.wait_for_text("[y]es").type_line(typed);
        if typed == "y" {
            terminal.wait_for_text("ater?").type_line("l");
        }
        let (status, seen) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(code), "{seen}");
        assert!(seen.contains(closing), "{seen}");
    }
}

#[test]
fn prompt_at_the_terminal_ends_when_somebody_else_decides() {
    let repo = repository_with_agent(ASK_FOR_COMMANDS);
    let words = ["run", "--agent", "asking", "Write it"];
    let run = repo.program.run(words).with_directory(repo.shop_path());
    let mut terminal = run.with_variable("TERM", "xterm").start_on_terminal();
    terminal.wait_for_text("[y]es");
    let plan = wait_for_request(&repo);
    let status = repo.run_ok(&["status", &plan]);
    let request = status["permission"]["request"].as_str().unwrap();
    repo.run_ok(&["answer", &plan, "--request", request, "allow"]);
    terminal.wait_for_text("decided elsewhere");
    terminal.wait_for_text("ater?").type_line("l");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
}

#[test]
fn request_is_decided_on_the_page() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let script = env.repo.write_file_beside("asking-agent", ASKING_AGENT);
    let definition = format!(
        "name: asking\nkind: acp\ncommand: [sh, \"{script}\"]\nreadable: [\"{script}\"]\n{ASK_FOR_COMMANDS}"
    );
    let definition = env.repo.write_file_beside("asking.yaml", &definition);
    env.repo.run_ok(&["agent", "add", &definition]);
    let server = RunningTestServer::start(&env, &["--work", "1"]);
    env.run_expecting(0, &["run", "--detach", "--agent", "asking", "Write it"]);
    let browser = open_page(&server, &env, "/");
    browser.wait_for_text(".row .state", "needs answer");
    browser.wait_for_text(".row .note", "may it run write?");
    browser.wait_for_text(".preview", "asking wants to run write");

    // An answer to another call changes nothing.
    let plan = wait_for_request(&env.repo);
    let client = server.sign_in(&env);
    let path = format!("/v1/plans/{plan}/permission");
    let stale = client.post(
        &path,
        &json!({"request": "0".repeat(64), "answer": "allow"}),
    );
    assert_eq!(stale.status, 409, "{stale:?}");
    let odd = client.post(&path, &json!({"request": "x", "answer": "allow"}));
    assert_eq!(odd.status, 422, "{odd:?}");

    browser.click(".preview form[data-action$=permission] button.primary");
    browser.wait_for_text(".row .state", "needs review");
    check_errors(&browser);
    let log = env.repo.run_plain(&["log", &plan]);
    assert!(log.contains("allowed it once"), "{log}");
}

#[test]
fn action_asks_with_agents_that_can_and_refuses_the_others() {
    let repo = repository_with_agent("");
    let action = |agent: &str| {
        format!(
            "name: tidy-{agent}\ndescription: Tidy\nactor: {agent}\ntools: {{ask: [execute]}}\n"
        )
    };
    let script = repo.write_file_beside(
        "plain.yaml",
        "name: plain\nkind: command\ncommand: [sh, -c, \"true\"]\n",
    );
    repo.run_ok(&["agent", "add", &script]);
    for agent in ["asking", "plain"] {
        let file = repo.write_file_beside(&format!("{agent}-action.yaml"), &action(agent));
        repo.run_ok(&["action", "create", "--config", &file]);
    }
    let shown = repo.run_ok(&["action", "show", "tidy-asking"]);
    assert_eq!(shown["tools"], json!({"ask": ["execute"]}));
    let words = ["run", "--action", "tidy-plain"];
    let refused = repo
        .program
        .run(words)
        .with_directory(repo.shop_path())
        .finish();
    assert_eq!(refused.exit_code(), Some(2), "{refused:?}");
    let says = "agent `plain` cannot keep to that: it does not ask before it calls a tool";
    assert!(refused.stderr.contains(says), "{refused:?}");
    assert_eq!(repo.run_ok(&["list", "--all"])["plans"], json!([]));

    let heard = repo.program.home().join("heard");
    let command = format!("echo \"$PLANWRIGHT_WHAT\" >> {}", heard.display());
    repo.run_ok(&["config", "set", "notify.command", &command]);
    let words = ["--format", "json", "run", "--action", "tidy-asking"];
    let process = repo
        .program
        .run(words)
        .with_directory(repo.shop_path())
        .start();
    let plan = wait_for_request(&repo);
    wait_for("the person is told", || {
        std::fs::read_to_string(&heard).is_ok_and(|text| text == "needs-you\n")
    });
    repo.run_ok(&["cancel", &plan]);
    process.finish();
}
