//! A day without a terminal: what a script, a job or a program sees, into pipes.

use regex::{Captures, Regex};
use serde_json::Value;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state};
use crate::sessions::TerminalEnv;

/// A day that is written down: answers as they are, everything else that is said marked.
struct PipedTranscript {
    desk: TerminalEnv,
    text: String,
}

impl PipedTranscript {
    #[track_caller]
    fn record_run(&mut self, words: &[&str], code: i32) {
        let said = self.desk.run(words).finish();
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        let typed = words.iter().map(|word| match word.contains(' ') {
            true => format!(" \"{word}\""),
            false => format!(" {word}"),
        });
        self.text.push_str("$ planwright");
        self.text.extend(typed);
        self.text.push('\n');
        self.text.push_str(&self.normalize_output(&said.stdout));
        for line in self.normalize_output(&said.stderr).lines() {
            self.text.push_str(&format!("2> {line}\n"));
        }
        self.text.push_str(&format!("exit code {code}\n\n"));
        assert!(!self.text.contains('\u{1b}'), "colours: {said:?}");
    }

    /// The text with every plan, commit, path and time called the same each day.
    fn normalize_output(&self, text: &str) -> String {
        let (shop, home) = (self.desk.repo.shop_path(), self.desk.repo.program.home());
        let mut text = text
            .replace(shop.to_str().unwrap(), "/home/ada/shop")
            .replace(home.to_str().unwrap(), "/home/ada/.planwright");
        let words = Regex::new(r"\b[0-9a-z]{4,26}\b").unwrap();
        let listed = self.desk.repo.run_ok(&["list", "--all"]);
        let plans = listed["plans"].as_array().unwrap().iter().rev();
        for (plan, name) in plans.zip(["plan1", "plan2"]) {
            let id = plan["plan_id"].as_str().unwrap().to_lowercase();
            let called = |word: &Captures<'_>| match id.ends_with(&word[0]) {
                true => name.to_owned(),
                false => word[0].to_owned(),
            };
            text = words.replace_all(&text, called).into_owned();
        }
        for (pattern, by) in [
            // A busy machine takes longer.
            (r"(?m)^(✓ done .*?) · \d+ (?:s|min)\b", "$1"),
            (r"as [0-9a-f]{10}\b", "as 0123456789"),
            (r"index [0-9a-f]+\.\.[0-9a-f]+", "index 1..2"),
            (r"· \d+:\d\d\b", "· 0:00"),
            (
                r"(not |partly )?confined( \(Landlock[^)]*\)|: this system has no Landlock)",
                "confined",
            ),
        ] {
            let pattern = Regex::new(pattern).unwrap();
            text = pattern.replace_all(&text, by).into_owned();
        }
        text
    }
}

#[test]
fn a_day_without_a_terminal() {
    let mut env = PipedTranscript {
        desk: TerminalEnv::new(),
        text: String::new(),
    };
    env.record_run(&["init", "--yes"], 0);
    env.record_run(&["run", "Tidy the shop"], 6);
    env.record_run(&[], 0);
    env.record_run(&["diff", "@"], 0);
    env.record_run(&["revise", "@", "once more"], 6);
    // Nobody can be asked, so nothing lands and nothing is taken back.
    env.record_run(&["apply", "@"], 6);
    assert_eq!(env.desk.repo.read_file("README.md"), "# Shop\n");
    env.record_run(&["apply", "@", "--yes"], 0);
    let text = env.desk.repo.read_file("README.md");
    assert_eq!(text.matches("A line for: ").count(), 2, "{text}");
    env.record_run(&["undo", "@"], 6);
    assert_eq!(env.desk.repo.read_file("README.md"), text);
    env.record_run(&["undo", "@", "--yes"], 0);
    assert_eq!(env.desk.repo.read_file("README.md"), "# Shop\n");
    env.record_run(&[], 0);
    insta::assert_snapshot!(env.text);
}

#[test]
fn yes_in_advance_skips_the_confirmation() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let before = env.repo.read_file("src/a.txt");
    let said = env.run_here(&["run", "--agent", "scribe", "--yes", "Write a line"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(describe_state(&said.data()), "apply/applied");
    let after = format!("{before}Write a line\n");
    assert_eq!(env.repo.read_file("src/a.txt"), after);
    env.repo.assert_tidy();
    // Nor at a terminal.
    let words = ["run", "--agent", "scribe", "--yes", "Write another"];
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path());
    let (status, seen) = run
        .with_variable("TERM", "xterm")
        .start_on_terminal()
        .wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("landed on main as "), "{seen}");
    assert!(!seen.contains('?'), "{seen}");
    assert_eq!(
        env.repo.read_file("src/a.txt"),
        format!("{after}Write another\n")
    );
    // A plan that is there already is landed by the same word.
    let (plan, _) = env.start_plan(6);
    env.run_expecting(0, &["run", &plan, "--yes"]);
    assert_eq!(env.repo.plan_state(&plan), "apply/applied");
}

/// To agree with a result is not to set its rules aside.
#[test]
fn yes_in_advance_does_not_open_a_gate() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let rule = "changes.all(c, c.path != 'src/a.txt')";
    let add = [
        "rule",
        "add",
        "leave-a",
        "--project",
        "shop",
        "--expr",
        rule,
    ];
    env.run_expecting(0, &add);
    let before = env.repo.read_file("src/a.txt");
    let words = ["run", "--agent", "scribe", "--yes", "Write a line"];
    let said = env.run_here(&words);
    assert_eq!(said.exit_code(), Some(5), "{said:?}");
    assert_eq!(env.repo.read_file("src/a.txt"), before);
    let shown = env.run_expecting(0, &["status", "@"]);
    assert_eq!(describe_state(&shown), "execute/complete");
    assert_eq!(shown["standing"], "blocked");
}

#[test]
fn an_agent_that_is_installed_is_found() {
    let desk = TerminalEnv::new();
    let claude = desk.tools.path().join("claude");
    let said = desk.run(&["--format", "json", "agent", "list"]).finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let actors = said.data()["actors"].clone();
    let named = |name: &str| -> Value {
        let actors = actors.as_array().unwrap().iter();
        let mut found = actors.filter(|one| one["name"] == name);
        found.next().unwrap().clone()
    };
    let found = named("claude");
    assert_eq!(found["installed_at"], claude.to_str().unwrap());
    assert_eq!(found["from"], "preset");
    assert_eq!(named("codex")["installed_at"], Value::Null);

    let said = desk.run(&["agent", "list"]).finish();
    let line = |name: &str| {
        let mut lines = said.stdout.lines();
        lines
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("claude").contains(claude.to_str().unwrap()),
        "{said:?}"
    );
    let missing = line("Not installed: ");
    assert!(missing.contains(" codex,"), "{said:?}");

    let with_login = |words: &[&str]| {
        let run = desk.run(words).with_variable("IS_SANDBOX", "1");
        run.with_variable("ANTHROPIC_API_KEY", "key").finish()
    };
    let said = with_login(&["doctor"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let ready = "ok    agents     claude by stream\n";
    assert!(said.stdout.contains(ready), "{said:?}");
    let said = with_login(&["--format", "json", "doctor"]);
    let checks = said.data()["checks"].clone();
    let mut checks = checks.as_array().unwrap().iter();
    let agents = checks.find(|check| check["check"] == "agents").unwrap();
    assert_eq!(agents["says"], "claude by stream");

    // Gone from the path, it is gone from both; doctor warns, which is no failure.
    std::fs::remove_file(&claude).unwrap();
    let said = desk.run(&["doctor"]).finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let none = "warn  agents     no agent is installed";
    assert!(said.stdout.contains(none), "{said:?}");
    let said = desk.run(&["agent", "list"]).finish();
    let mut lines = said.stdout.lines();
    let line = lines.find(|line| line.starts_with("Not installed: "));
    assert!(line.unwrap().contains(" claude,"), "{said:?}");
}
