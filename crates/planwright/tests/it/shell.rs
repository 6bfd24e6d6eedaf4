//! A shell with a home of its own, that keeps a transcript in which nothing differs from run to run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use planwright::Lifecycle;
use planwright::cli::Cli;
use regex::{Captures, Regex};
use serde_json::{Map, Value};
use testkit::{StoreDump, TestProgram, TestRun, TestRunOutput};

/// The action most tests use.
pub const TIDY_ACTION: &str = "\
name: tidy
description: Tidy one area
actor: bot
arguments:
  - name: area
    type: string
    required: true
    description: The directory to tidy
  - name: depth
    type: integer
    default: 2
    min: 1
    max: 9
";

/// Somebody at a shell.
pub struct TranscriptShell {
    program: TestProgram,
    seen: RefCell<Vec<String>>,
    transcript: RefCell<String>,
    /// The last view of each plan, so that the transcript can show what changed.
    views: RefCell<BTreeMap<String, Map<String, Value>>>,
}

impl TranscriptShell {
    /// At a shell, with an empty home.
    pub fn new() -> Self {
        Self {
            program: TestProgram::new(env!("CARGO_BIN_EXE_planwright")),
            seen: RefCell::default(),
            transcript: RefCell::default(),
            views: RefCell::default(),
        }
    }

    /// At a shell, with the action `tidy` in the store.
    pub fn with_action() -> Self {
        let shell = Self::new();
        shell.write_file("tidy.yaml", TIDY_ACTION);
        shell.run_quietly(&["action", "create", "--config", "tidy.yaml"]);
        shell
    }

    /// At a shell, with a plan of the action `tidy`; also its id.
    pub fn with_plan() -> (Self, String) {
        let shell = Self::with_action();
        let data = shell.run_quietly(&["use", "tidy", "--arg", "area=src"]);
        let id = data["plan_id"].as_str().unwrap().to_owned();
        (shell, id)
    }

    /// The home, which is also the directory it is in.
    pub fn home_path(&self) -> &Path {
        self.program.home()
    }

    /// The file of the default store.
    pub fn store_path(&self) -> PathBuf {
        self.home_path().join("planwright.db")
    }

    /// A file in the home.
    pub fn write_file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home_path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A run, not started yet.
    pub fn run(&self, words: &[&str]) -> TestRun {
        self.program.run(words)
    }

    /// The engine on the default store, to look behind the program's back.
    pub fn open_engine(&self) -> Lifecycle {
        planwright::open(&format!("sqlite:{}", self.store_path().display())).unwrap()
    }

    /// Runs what must succeed, for its data only; nothing goes into the transcript.
    #[track_caller]
    pub fn run_quietly(&self, words: &[&str]) -> Value {
        let said = self.run(&[&["--format", "json"], words].concat()).finish();
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        // Its ids may be shown by what is run later.
        self.normalize_output(&said.stdout);
        said.data()
    }

    /// Runs what must succeed.
    #[track_caller]
    pub fn run_good(&self, words: &[&str]) -> TestRunOutput {
        let said = self.run(words).finish();
        self.keep_run(words, &said);
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        said
    }

    /// Runs what must end with this exit code, say why on stderr, answer nothing, and store
    /// nothing.
    #[track_caller]
    pub fn run_bad(&self, code: i32, words: &[&str]) -> TestRunOutput {
        self.finish_bad_run(code, words, &self.run(words))
    }

    /// An address that is none: exit code 2, before anybody looks there.
    #[track_caller]
    pub fn run_bad_store(&self, store: &str) -> TestRunOutput {
        let words = ["--store", store, "list"];
        let said = self.run(&words).finish();
        self.keep_run(&words, &said);
        assert_eq!(said.exit_code(), Some(2), "{said:?}");
        said
    }

    /// Runs what must end with this exit code and may have stored why beside the plan.
    #[track_caller]
    pub fn run_bad_but_stored(&self, code: i32, words: &[&str]) -> TestRunOutput {
        let said = self.run(words).finish();
        self.keep_run(words, &said);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        said
    }

    /// The same for a run that was made ready before; `words` are what the transcript shows.
    #[track_caller]
    pub fn finish_bad_run(&self, code: i32, words: &[&str], run: &TestRun) -> TestRunOutput {
        let before = self.dump_store();
        let said = run.finish();
        self.keep_run(words, &said);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        if said.stdout.starts_with('{') {
            said.envelope();
        } else {
            assert_eq!(said.stdout, "", "an error is no answer: {words:?}");
            assert!(!said.stderr.is_empty(), "{words:?} says nothing");
        }
        assert_eq!(self.dump_store(), before, "{words:?} stored something");
        said
    }

    /// Runs it for programs; the envelope goes into the transcript.
    #[track_caller]
    pub fn run_json(&self, words: &[&str]) -> Value {
        let said = self.run(&[&["--format", "json"], words].concat()).finish();
        let envelope = said.envelope();
        assert_eq!(said.stderr, "", "{words:?}");
        self.check_output(words, &said);
        let shown = self.render_envelope(envelope.clone());
        self.add_entry(&format!(
            "$ planwright --format json {}\n{shown}\n\n",
            words.join(" ")
        ));
        envelope
    }

    /// An envelope as the transcript shows it: of a plan, what changed since it was last shown.
    fn render_envelope(&self, mut envelope: Value) -> String {
        envelope.as_object_mut().unwrap().remove("timing");
        if let Some(Value::Object(view)) = envelope.get_mut("data")
            && view.contains_key("timestamps")
        {
            let plan = view["plan_id"].to_string();
            let last = self.views.borrow_mut().insert(plan, view.clone());
            if let Some(last) = last {
                view.retain(|name, value| last.get(name) != Some(value));
                view.insert("…".to_owned(), "as before".into());
            }
        }
        serde_json::to_string_pretty(&envelope).unwrap()
    }

    /// Everything the default store shows; nothing if there is none.
    fn dump_store(&self) -> Option<StoreDump> {
        // What is no store of ours is compared byte by byte by whoever put it there.
        let readable = self.store_path().is_file() && self.open_engine().store().now().is_ok();
        let engine = self.open_engine();
        let opens = readable && engine.actions().list_actions(None, 1).is_ok();
        opens.then(|| StoreDump::read_store(engine.store()))
    }

    /// Puts a run into the transcript.
    #[track_caller]
    pub fn keep_run(&self, words: &[&str], said: &TestRunOutput) {
        self.check_output(words, said);
        let shown: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
        let mut entry = format!("$ planwright {}\n", shown.join(" "));
        match serde_json::from_str::<Value>(&said.stdout) {
            Ok(envelope) => entry.push_str(&format!("{}\n", self.render_envelope(envelope))),
            Err(_) => entry.push_str(&said.stdout),
        }
        for line in said.stderr.lines() {
            entry.push_str(&format!("2> {line}\n"));
        }
        if let Some(code @ 1..) = said.exit_code() {
            entry.push_str(&format!("exit code {code}\n"));
        }
        entry.push('\n');
        self.add_entry(&entry);
    }

    /// What must hold for everything that is ever printed into a pipe.
    #[track_caller]
    fn check_output(&self, words: &[&str], said: &TestRunOutput) {
        for text in [&said.stdout, &said.stderr] {
            assert!(!text.contains('\x1b'), "{words:?} prints colours");
            assert!(!text.contains("panicked"), "{words:?}: {text}");
        }
        for line in said.stderr.lines() {
            if let Some(hint) = line.strip_prefix("  try: ") {
                check_hint(hint);
            }
        }
        if let Ok(envelope) = serde_json::from_str::<Value>(&said.stdout) {
            for message in envelope["messages"].as_array().into_iter().flatten() {
                let text = message["text"].as_str().unwrap();
                if message["level"] == "hint" && text.starts_with("planwright ") {
                    check_hint(text);
                }
            }
        }
    }

    fn add_entry(&self, entry: &str) {
        let entry = self.normalize_output(entry);
        self.transcript.borrow_mut().push_str(&entry);
    }

    /// Everything that was run, and what came of it.
    pub fn transcript(&self) -> String {
        self.transcript.borrow().clone()
    }

    /// The text with every id, time, path and name replaced by one that is the same in every run,
    /// and as long.
    fn normalize_output(&self, text: &str) -> String {
        let replace = |text: &str, pattern: &str, by: &dyn Fn(&Captures<'_>) -> String| {
            let pattern = Regex::new(pattern).unwrap();
            pattern.replace_all(text, by).into_owned()
        };
        let home = self.home_path().display().to_string();
        let mut text = text.replace(&home, "/home/ada");
        let ids = Regex::new(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b").unwrap();
        for id in ids.find_iter(&text) {
            let mut seen = self.seen.borrow_mut();
            if !seen.iter().any(|known| known == id.as_str()) {
                seen.push(id.as_str().to_owned());
            }
        }
        for (number, id) in self.seen.borrow().iter().enumerate() {
            text = text.replace(id, &format!("01{:024}", number + 1));
            let handle = id[22..].to_lowercase();
            let handle = format!(r"\b{handle}\b");
            text = replace(&text, &handle, &|_| format!("{:04}", number + 1));
        }
        text = replace(&text, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", &|_| {
            "2030-01-01T00:00:00.000000Z".to_owned()
        });
        text = replace(&text, r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  \w+", &|_| {
            "2030-01-01 00:00:00Z  ada".to_owned()
        });
        text = replace(&text, r"\b[0-9a-f]{64}\b", &|_| "0".repeat(64));
        text = replace(&text, r"\bas [0-9a-f]{10}\b", &|_| {
            "as 0123456789".to_owned()
        });
        text = replace(&text, r"\bgit \d+\.\d+[\w.]*", &|_| "git 2.50.0".to_owned());
        text = replace(&text, r"\b\d+ MiB free", &|_| "4096 MiB free".to_owned());
        text = replace(
            &text,
            r"\b(not |partly )?confined( \(Landlock[^)]*\)|: this system has no Landlock)",
            &|_| "confined as far as the system can".to_owned(),
        );
        // A busy machine takes longer.
        text = replace(&text, r"(?m)^(✓ done .*?) · \d+ (?:s|min)\b", &|found| {
            found[1].to_owned()
        });
        text = replace(&text, r#""duration_ms": ?\d+"#, &|_| {
            r#""duration_ms": 0"#.to_owned()
        });
        text = replace(&text, r"(just now|\b\d+ s ago)( {2,})?", &|found| {
            let gap = found.get(2).map_or("", |_| "  ");
            format!("just now{gap}")
        });
        text = replace(&text, "CHANGED +GOAL", &|_| "CHANGED   GOAL".to_owned());
        let name = user_name(self.home_path());
        let user = regex::escape(&name);
        text = replace(&text, &format!(r"\bby {user}\b"), &|_| "by ada".to_owned());
        text = replace(&text, &format!(r#"("\w*by": ?)"{user}""#), &|found| {
            format!("{}\"ada\"", &found[1])
        });
        // A table with a column of names or paths is as wide as they are.
        let rows = format!(
            r"(?m)^((\d+|#) .*( BY | {user} ).*|.* ORIGIN .*|\w+ +(default|/home/ada/\S+)  .*)$"
        );
        replace(&text, &rows, &|found| {
            let narrow = Regex::new(" {2,}").unwrap();
            let row = narrow.replace_all(&found[0], "  ");
            row.replace(&format!("  {name}  "), "  ada  ")
        })
    }
}

/// A hint names a command that parses, once what it leaves open is filled in.
#[track_caller]
fn check_hint(hint: &str) {
    let filled = hint
        .replace("--epoch E", "--epoch 7")
        .replace("--changeset C", "--changeset 01ARZ3NDEKTSV4RRFFQ69G5FAV")
        .replace("\"TEXT\"", "text")
        .replace("RULE", "rule")
        .replace("NAME", "name");
    let words = filled.split(' ').map(|word| word.trim_matches('\''));
    let parsed = Cli::command().try_get_matches_from(words);
    assert!(parsed.is_ok(), "a hint that does not parse: {hint}");
}

/// The name of whoever runs the tests, as the program sees it.
fn user_name(home: &Path) -> String {
    let uid = std::fs::metadata(home).unwrap().uid().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&uid.as_str())).then(|| fields[0].to_owned())
    });
    named.unwrap_or_else(|| format!("uid-{uid}"))
}

fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%<>".contains(c);
    let word: String = if word.len() > 100 {
        format!("{}…", word.chars().take(60).collect::<String>())
    } else {
        word.to_owned()
    };
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.escape_debug())
    }
}
