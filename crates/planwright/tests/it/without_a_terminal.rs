//! A day without a terminal: what a script, a job or a program sees, into pipes.

use regex::{Captures, Regex};
use serde_json::Value;

use crate::daily::{Loop, SCRIBE, state};
use crate::sessions::Desk;

/// A day that is written down: answers as they are, everything else that is said marked.
struct Diary {
    desk: Desk,
    text: String,
}

impl Diary {
    #[track_caller]
    fn keep(&mut self, words: &[&str], code: i32) {
        let said = self.desk.run(words).finish();
        assert_eq!(said.code(), Some(code), "{words:?}: {said:?}");
        let typed = words.iter().map(|word| match word.contains(' ') {
            true => format!(" \"{word}\""),
            false => format!(" {word}"),
        });
        self.text.push_str("$ planwright");
        self.text.extend(typed);
        self.text.push('\n');
        self.text.push_str(&self.same_each_day(&said.stdout));
        for line in self.same_each_day(&said.stderr).lines() {
            self.text.push_str(&format!("2> {line}\n"));
        }
        self.text.push_str(&format!("exit code {code}\n\n"));
        assert!(!self.text.contains('\u{1b}'), "colours: {said:?}");
    }

    /// The text with every plan, commit, path and time called the same each day.
    fn same_each_day(&self, text: &str) -> String {
        let (shop, home) = (self.desk.yard.shop(), self.desk.yard.program.home());
        let mut text = text
            .replace(shop.to_str().unwrap(), "/home/ada/shop")
            .replace(home.to_str().unwrap(), "/home/ada/.planwright");
        let words = Regex::new(r"\b[0-9a-z]{4,26}\b").unwrap();
        let listed = self.desk.yard.ok(&["list", "--all"]);
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
    let mut day = Diary {
        desk: Desk::new(),
        text: String::new(),
    };
    day.keep(&["init", "--yes"], 0);
    day.keep(&["run", "Tidy the shop"], 6);
    day.keep(&[], 0);
    day.keep(&["diff", "@"], 0);
    day.keep(&["revise", "@", "once more"], 6);
    // Nobody can be asked, so nothing lands and nothing is taken back.
    day.keep(&["apply", "@"], 6);
    assert_eq!(day.desk.yard.read("README.md"), "# Shop\n");
    day.keep(&["apply", "@", "--yes"], 0);
    let text = day.desk.yard.read("README.md");
    assert_eq!(text.matches("A line for: ").count(), 2, "{text}");
    day.keep(&["undo", "@"], 6);
    assert_eq!(day.desk.yard.read("README.md"), text);
    day.keep(&["undo", "@", "--yes"], 0);
    assert_eq!(day.desk.yard.read("README.md"), "# Shop\n");
    day.keep(&[], 0);
    insta::assert_snapshot!(day.text);
}

#[test]
fn whoever_agrees_beforehand_is_not_asked() {
    let day = Loop::with(SCRIBE);
    let before = day.yard.read("src/a.txt");
    let said = day.here(&["run", "--actor", "scribe", "--yes", "Write a line"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert_eq!(state(&said.data()), "apply/applied");
    let after = format!("{before}Write a line\n");
    assert_eq!(day.yard.read("src/a.txt"), after);
    day.yard.assert_tidy();
    // Nor at a terminal.
    let words = ["run", "--actor", "scribe", "--yes", "Write another"];
    let run = day.yard.program.run(words).within(day.yard.shop());
    let (status, seen) = run.set("TERM", "xterm").at_a_terminal().ends();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("landed on main as "), "{seen}");
    assert!(!seen.contains('?'), "{seen}");
    assert_eq!(
        day.yard.read("src/a.txt"),
        format!("{after}Write another\n")
    );
    // A plan that is there already is landed by the same word.
    let (plan, _) = day.begun(6);
    day.ends(0, &["run", &plan, "--yes"]);
    assert_eq!(day.yard.state_of(&plan), "apply/applied");
}

/// To agree with a result is not to set its rules aside.
#[test]
fn whoever_agrees_beforehand_lands_nothing_that_a_gate_holds() {
    let day = Loop::with(SCRIBE);
    let rule = "changes.all(c, c.path != 'src/a.txt')";
    let add = [
        "invariant",
        "add",
        "leave-a",
        "--project",
        "shop",
        "--expr",
        rule,
    ];
    day.ends(0, &add);
    let before = day.yard.read("src/a.txt");
    let words = ["run", "--actor", "scribe", "--yes", "Write a line"];
    let said = day.here(&words);
    assert_eq!(said.code(), Some(5), "{said:?}");
    assert_eq!(day.yard.read("src/a.txt"), before);
    let shown = day.ends(0, &["status", "@"]);
    assert_eq!(state(&shown), "execute/complete");
    assert_eq!(shown["standing"], "blocked");
}

#[test]
fn an_agent_that_is_installed_is_found() {
    let desk = Desk::new();
    let claude = desk.tools.path().join("claude");
    let said = desk.run(&["--format", "json", "actor", "list"]).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
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

    let said = desk.run(&["actor", "list"]).finish();
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
    assert!(line("codex").contains("not installed"), "{said:?}");

    let said = desk.run(&["doctor"]).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("ok   agents    claude\n"), "{said:?}");
    let said = desk.run(&["--format", "json", "doctor"]).finish();
    let checks = said.data()["checks"].clone();
    let mut checks = checks.as_array().unwrap().iter();
    let agents = checks.find(|check| check["check"] == "agents").unwrap();
    assert_eq!(agents["says"], "claude");

    // Gone from the path, it is gone from both, and nothing is wrong with that.
    std::fs::remove_file(&claude).unwrap();
    let said = desk.run(&["doctor"]).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    let none = "none that are known; any command can be one";
    assert!(said.stdout.contains(none), "{said:?}");
    let said = desk.run(&["actor", "list"]).finish();
    let mut lines = said.stdout.lines();
    let line = lines.find(|line| line.starts_with("claude")).unwrap();
    assert!(line.contains("not installed"), "{line}");
}
