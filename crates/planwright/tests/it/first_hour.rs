//! A person's first hour: what a newcomer types and reads, on terminals of 80 and of 60 columns.

use std::path::PathBuf;
use std::process::Command;

use testkit::{TerminalSize, TestProgram, TestRun, TestTerminal};

/// A stand-in for an agent, called as that one is. It goes through the steps of a run that a person follows.
const FAKE_AGENT: &str = r#"#!/bin/sh
cat > /dev/null
say() { printf '%s\n' "$1"; }
end() { say '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","session_id":"talk-1","total_cost_usd":0.11,"usage":{"input_tokens":8200,"output_tokens":1700}}'; }
say '{"type":"system","subtype":"init","session_id":"talk-1"}'
case "$PLANWRIGHT_GOAL" in
*changelog*)
  echo 'Fixed: retry no longer races the clock.' > CHANGELOG.md
  end 'Wrote a changelog.'
  exit ;;
*secret*)
  mkdir -p config && echo 'token = 1' > config/.env
  end 'Added the file.'
  exit ;;
esac
if grep -q 'takes a clock' src/retry.sh; then
  echo '# Waits are doubled up to a minute.' >> src/retry.sh
  end 'Documented the longest wait.'
  exit
fi
say '{"type":"assistant","message":{"content":[{"type":"text","text":"I look at the retry test first, because it fails only now and then and nothing else in the suite does."}]}}'
say '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"src/retry.sh"}}]}}'
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"retry() {"}]}}'
echo 'retry() { : "takes a clock"; }' > src/retry.sh
say '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"make test"}}]}}'
say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"3 tests passed"}]}}'
end 'The test raced the clock. retry() now takes one, so that the test decides what time it is and no longer depends on how busy the machine is.'
"#;

/// A person with a repository who has not used Planwright yet.
struct Newcomer {
    program: TestProgram,
    home: tempfile::TempDir,
    size: TerminalSize,
    told: String,
}

impl Newcomer {
    fn at_terminal(columns: u16, rows: u16) -> Self {
        let newcomer = Self {
            program: TestProgram::new(env!("CARGO_BIN_EXE_planwright")),
            home: tempfile::TempDir::with_prefix("planwright-newcomer-").unwrap(),
            size: TerminalSize { columns, rows },
            told: String::new(),
        };
        std::fs::create_dir_all(newcomer.home.path().join("bin")).unwrap();
        std::fs::create_dir_all(newcomer.shop_path().join("src")).unwrap();
        newcomer.run_git(&["init", "-q", "-b", "main", "."]);
        newcomer.run_git(&["config", "--global", "user.name", "Ada"]);
        newcomer.run_git(&["config", "--global", "user.email", "ada@example.org"]);
        newcomer.write_file("README.md", "# Shop\n");
        newcomer.write_file("src/retry.sh", "retry() { date; }\n");
        newcomer.write_file("Makefile", "test:\n\tsh src/retry.sh\n");
        newcomer.commit_all("start");
        newcomer
    }

    fn shop_path(&self) -> PathBuf {
        self.home.path().join("shop")
    }

    fn write_file(&self, path: &str, text: &str) {
        std::fs::write(self.shop_path().join(path), text).unwrap();
    }

    fn install_agent(&self) {
        testkit::write_program(&self.home.path().join("bin/claude"), FAKE_AGENT);
    }

    #[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
    fn run_git(&self, arguments: &[&str]) {
        let output = Command::new("git")
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/local/bin")
            .env("HOME", self.home.path())
            .current_dir(self.shop_path())
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
    }

    fn commit_all(&self, message: &str) {
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "-q", "-m", message]);
    }

    fn run(&self, words: &[&str]) -> TestRun {
        let tools = self.home.path().join("bin");
        self.program
            .run(words.to_vec())
            .with_directory(self.shop_path())
            .without_variable("PLANWRIGHT_HOME")
            .without_variable("HOME")
            .with_variable("HOME", self.home.path())
            .with_variable("PATH", format!("{}:/usr/bin:/bin", tools.display()))
            .with_variable("ANTHROPIC_API_KEY", "played")
            // Tests may run as root.
            .with_variable("IS_SANDBOX", "1")
            .with_variable("TERM", "xterm")
            .with_variable("PAGER", "cat")
            .with_terminal_size(self.size)
    }

    /// Types a command, and keeps what is seen until it ends.
    #[track_caller]
    fn type_command(&mut self, code: i32, words: &[&str]) {
        self.converse(code, words, |_| ());
    }

    /// Types a command and answers its questions.
    #[track_caller]
    fn converse(&mut self, code: i32, words: &[&str], answer: impl FnOnce(&mut TestTerminal)) {
        let mut terminal = self.run(words).start_on_terminal();
        answer(&mut terminal);
        let (status, seen) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(code), "{words:?}: {seen}");
        let typed: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
        let line = format!("$ planwright {}", typed.join(" "));
        self.told
            .push_str(&format!("{}\n{}\n\n", line.trim_end(), seen.trim_end()));
    }

    /// All that was seen, without what differs from day to day.
    fn finish(self) -> String {
        // Help texts have spaces at the end of empty lines.
        let lines = self.told.lines().map(str::trim_end);
        let mut told = lines.collect::<Vec<_>>().join("\n");
        for (index, plan) in self.list_plans().iter().enumerate() {
            let name = ["k3f9", "w7m2", "q5hb", "z8tn", "c4xd", "r6vp"][index];
            told = told.replace(&plan[plan.len() - 4..].to_lowercase(), name);
        }
        for (pattern, by) in NORMALIZED {
            let pattern = regex::Regex::new(pattern).unwrap();
            told = pattern.replace_all(&told, *by).into_owned();
        }
        told
    }

    /// The ids of all plans, oldest first.
    fn list_plans(&self) -> Vec<String> {
        let said = self.run(&["--format", "json", "list", "--all"]).finish();
        let plans = said.data()["plans"].as_array().unwrap().clone();
        let ids = plans.iter().rev();
        ids.map(|plan| plan["plan_id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// What differs from day to day, each replaced by something of the same width.
const NORMALIZED: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{10}\b", "0123456789"),
    (r"\b[0-9a-f]{7}\.\.[0-9a-f]{7}\b", "0123456..789abcd"),
    // The user who runs the tests.
    (r"(The plan was applied by) \S+", "$1 ada"),
    // A busy machine takes longer.
    (r"(?m)^(✓ done .*?|  run .*?) · \d+ s\b", "$1"),
    (r"(?m)^  time +\S+\n", ""),
    (
        r"(not |partly )?confined( \(Landlock[^)]*\)|: this system has no Landlock)",
        "confined",
    ),
];

fn quote_word(word: &str) -> String {
    match word.contains(' ') {
        true => format!("\"{word}\""),
        false => word.to_owned(),
    }
}

/// Lines must fit the terminal, unless they hold one word, a command or a line of a file to copy.
#[track_caller]
fn assert_lines_fit(told: &str, columns: usize) {
    let full_id = regex::Regex::new(r"\b[0-9A-HJKMNP-TV-Z]{26}\b").unwrap();
    let clock_time = regex::Regex::new(r"\d{4}-\d\d-\d\d").unwrap();
    for line in told.lines() {
        let is_command = line.contains("planwright ") || line.contains("npm ");
        let is_comment = line.contains(" # ");
        let is_word = !line.trim().contains(' ');
        assert!(
            line.chars().count() <= columns || is_command || is_word || is_comment,
            "wider than {columns}: {line}"
        );
        assert!(!full_id.is_match(line), "a full id: {line}");
        assert!(!clock_time.is_match(line), "an absolute time: {line}");
    }
}

fn spend_first_hour(columns: u16, rows: u16) -> String {
    let mut newcomer = Newcomer::at_terminal(columns, rows);
    // Nothing is installed yet.
    newcomer.type_command(0, &[]);
    newcomer.type_command(3, &["run", "Fix the flaky retry test"]);
    newcomer.install_agent();
    newcomer.type_command(0, &["agent", "list"]);
    // The first plan: look, send back, drop nothing, land, undo.
    newcomer.converse(0, &["run", "Fix the flaky retry test"], |terminal| {
        terminal.wait_for_text("ater?").type_line("?");
        terminal.wait_for_text("ater?").type_line("d");
        terminal.wait_for_text("ater?").type_line("r");
        terminal
            .wait_for_text("improved?")
            .type_line("Say how long it waits at most");
        terminal.wait_for_text("ater?").type_line("a");
    });
    newcomer.type_command(0, &["status"]);
    newcomer.type_command(0, &["log"]);
    newcomer.type_command(0, &["log", "--transcript"]);
    newcomer.type_command(0, &["diff", "--stat"]);
    newcomer.type_command(0, &["why"]);
    newcomer.converse(0, &["undo"], |terminal| {
        terminal.wait_for_text("[y/N]").type_line("y");
    });
    // Rules of the repository.
    newcomer.converse(0, &["init"], |terminal| {
        terminal.wait_for_text("[Y/n]").type_line("");
        terminal.wait_for_text("[Y/n]").type_line("");
    });
    newcomer.commit_all("rules");
    newcomer.type_command(
        0,
        &[
            "rule",
            "add",
            "no-secrets",
            "--project",
            "shop",
            "--forbid",
            "**/.env",
        ],
    );
    newcomer.type_command(0, &["rule", "list"]);
    newcomer.converse(5, &["run", "Add the secret token"], |terminal| {
        terminal.wait_for_text("ater?").type_line("w");
        terminal.wait_for_text("without").type_line("");
        terminal.wait_for_text("ater?").type_line("l");
    });
    newcomer.type_command(0, &["status"]);
    newcomer.type_command(0, &["why"]);
    newcomer.type_command(0, &["cancel"]);
    newcomer.converse(6, &["run", "Write a changelog"], |terminal| {
        terminal.wait_for_text("ater?").type_line("l");
    });
    // A question of a rule comes before the landing.
    newcomer.type_command(
        0,
        &[
            "rule",
            "add",
            "wording",
            "--project",
            "shop",
            "--ask",
            "Is it well put?",
        ],
    );
    newcomer.type_command(0, &["status"]);
    newcomer.type_command(0, &["approve", "--rule", "wording"]);
    newcomer.type_command(0, &[]);
    newcomer.type_command(0, &["list"]);
    newcomer.type_command(0, &["status"]);
    newcomer.type_command(0, &["why"]);
    newcomer.converse(0, &["apply"], |terminal| {
        terminal.wait_for_text("[y/N]").type_line("y");
    });
    // What there is to look up.
    newcomer.type_command(0, &["config", "list"]);
    newcomer.type_command(0, &["profile", "list"]);
    newcomer.type_command(0, &["project", "list"]);
    newcomer.type_command(0, &["help"]);
    for topic in ["agents", "rules", "exit-codes", "settings"] {
        newcomer.type_command(0, &["help", topic]);
    }
    newcomer.type_command(0, &["run", "--help"]);
    // And what goes wrong.
    newcomer.type_command(2, &["run", "Fix", "the", "test"]);
    newcomer.type_command(2, &["aply"]);
    newcomer.type_command(3, &["status", "zzzz"]);
    newcomer.type_command(4, &["revise", "Once more"]);
    newcomer.finish()
}

#[test]
fn the_first_hour_at_80_columns() {
    let told = spend_first_hour(80, 24);
    insta::assert_snapshot!(told);
    assert_lines_fit(&told, 80);
}

#[test]
fn the_first_hour_at_60_columns() {
    let told = spend_first_hour(60, 20);
    insta::assert_snapshot!(told);
    assert_lines_fit(&told, 60);
}
