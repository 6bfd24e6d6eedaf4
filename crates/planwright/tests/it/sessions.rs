//! A day at a terminal: what a person types and sees, on a real pty.

use regex::Regex;
use testkit::{TestRun, TestTerminal};

use crate::shop_repository::ShopRepository;

const README: &str = include_str!("../../../../README.md");

/// A stand-in for an agent that is installed, called as that one is.
const FAKE_AGENT: &str = "#!/bin/sh
cat > /dev/null
echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"talk-1\"}'
echo \"A line for: $PLANWRIGHT_GOAL\" >> README.md
echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"session_id\":\"talk-1\",\"total_cost_usd\":0.02,\"usage\":{\"input_tokens\":900,\"output_tokens\":100}}'
";

/// Somebody at a terminal in a repository, with an agent installed.
pub struct TerminalEnv {
    pub repo: ShopRepository,
    pub tools: tempfile::TempDir,
}

impl TerminalEnv {
    pub fn new() -> Self {
        let desk = Self {
            repo: ShopRepository::new(),
            tools: tempfile::TempDir::with_prefix("planwright-tools-").unwrap(),
        };
        let agent = desk.tools.path().join("claude");
        testkit::write_program(&agent, FAKE_AGENT);
        desk
    }

    pub fn run(&self, words: &[&str]) -> TestRun {
        let path = format!(
            "{}:/usr/bin:/bin:/usr/local/bin",
            self.tools.path().display()
        );
        let run = self
            .repo
            .program
            .run(words.to_vec())
            .with_directory(self.repo.shop_path());
        run.with_variable("PATH", path)
            .with_variable("TERM", "xterm")
            .with_variable("PAGER", "cat")
    }

    fn start_typing(&self, words: &[&str]) -> TestTerminal {
        self.run(words).start_on_terminal()
    }

    /// What was seen, with nothing in it that differs from day to day.
    fn normalize_output(&self, seen: &str) -> String {
        let mut text = seen.replace(self.repo.shop_path().to_str().unwrap(), "/home/ada/shop");
        text = text.replace(
            self.repo.program.home().to_str().unwrap(),
            "/home/ada/.planwright",
        );
        for (pattern, by) in [
            (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "01PLAN"),
            (
                r"\b[0-9a-hjkmnp-tv-z]{4,6}\b(  Tidy| landed| needs)",
                "abcd$1",
            ),
            (r"(planwright \w+ )[0-9a-z]{4,6}\b", "${1}abcd"),
            (r"(?m)^[0-9a-z]{4,6}(  |$| )", "abcd$1"),
            (
                r"\bUndid [0-9a-z]{4,6}: [0-9a-z]{4,6}\b",
                "Undid abcd: efgh",
            ),
            (r"as [0-9a-f]{10}", "as 0123456789"),
            (
                r"(not |partly )?confined( \(Landlock[^)]*\)|: this system has no Landlock)",
                "confined",
            ),
            (r"index [0-9a-f]+\.\.[0-9a-f]+", "index 1..2"),
            // A busy machine takes longer.
            (r"(?m)^(✓ done .*?) · \d+ (?:s|min)\b", "$1"),
        ] {
            text = Regex::new(pattern)
                .unwrap()
                .replace_all(&text, by)
                .into_owned();
        }
        text.trim().to_owned()
    }
}

#[test]
fn a_day_at_the_terminal() {
    let desk = TerminalEnv::new();
    let mut told = String::new();
    let mut keep = |what: &str, terminal: TestTerminal, code: i32| {
        let (status, seen) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(code), "{what}: {seen}");
        told.push_str(&format!(
            "$ planwright {what}\n{}\n\n",
            desk.normalize_output(&seen)
        ));
    };
    let mut init = desk.start_typing(&["init"]);
    init.wait_for_text("Write it? [Y/n]").type_line("");
    keep("init", init, 0);
    let mut run = desk.start_typing(&["run", "Tidy the shop"]);
    run.wait_for_text("Done.")
        .wait_for_text("ater?")
        .type_line("z");
    run.wait_for_text("ater?").type_line("r");
    run.wait_for_text("improved?").type_line("once more");
    run.wait_for_text("ater?").type_line("f");
    run.wait_for_text("dropped?").type_line("no-such-file");
    run.wait_for_text("ater?").type_line("a");
    keep("run \"Tidy the shop\"", run, 0);
    let text = desk.repo.read_file("README.md");
    assert_eq!(
        text.matches("A line for: Tidy the shop").count(),
        2,
        "{text}"
    );
    let mut undo = desk.start_typing(&["undo", "@"]);
    undo.wait_for_text("[y/N]").type_line("n");
    keep("undo @", undo, 6);
    let mut undo = desk.start_typing(&["undo", "@"]);
    undo.wait_for_text("[y/N]").type_line("y");
    keep("undo @", undo, 0);
    assert_eq!(desk.repo.read_file("README.md"), "# Shop\n");
    let mut later = desk.start_typing(&["run", "Tidy the shop"]);
    later.wait_for_text("ater?").type_line("l");
    keep("run \"Tidy the shop\"", later, 6);
    keep("", desk.start_typing(&[]), 0);
    insta::assert_snapshot!(told);
}

#[test]
fn a_person_at_the_terminal_answers_and_looks_at_a_strategy() {
    let desk = TerminalEnv::new();
    let agent = "#!/bin/sh
cat > /dev/null
if [ \"$PLANWRIGHT_PHASE\" = strategize ]; then
  echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"First this, then that.\"}'
elif grep -q 'the left one' \"$PLANWRIGHT_ASSIGNMENT\"; then
  echo left >> README.md
else
  echo '{\"outcome\": \"ask\", \"question\": \"Which one is it?\"}' > \"$PLANWRIGHT_REPORT\"
fi
";
    testkit::write_program(&desk.tools.path().join("claude"), agent);
    let mut run = desk.start_typing(&["run", "--strategy", "Tidy the shop"]);
    run.wait_for_text("First this, then that.")
        .wait_for_text("ater?")
        .type_line("g");
    run.wait_for_text("Which one is it?")
        .wait_for_text("later):")
        .type_line("the left one");
    run.wait_for_text("ater?").type_line("l");
    let (status, seen) = run.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("README.md"), "{seen}");
}

#[test]
fn interrupting_gives_the_plan_back_and_ends_the_agent() {
    let desk = TerminalEnv::new();
    testkit::write_program(&desk.tools.path().join("claude"), "#!/bin/sh\nsleep 1000\n");
    let mut run = desk.start_typing(&["run", "Tidy the shop"]);
    run.wait_for_text("working (claude)");
    run.send_interrupt();
    let (status, seen) = run.wait_for_end();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(seen.contains("The work so far is kept"), "{seen}");
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["state"], "queued", "{plans}");
}

/// Closing the window is an interrupt: the plan is given back, and the agent ends.
#[test]
fn closing_the_terminal_gives_the_plan_back_and_ends_the_agent() {
    let desk = TerminalEnv::new();
    testkit::write_program(&desk.tools.path().join("claude"), "#!/bin/sh\nsleep 1000\n");
    let mut run = desk
        .run(&["run", "Tidy the shop"])
        .with_own_session()
        .start_on_terminal();
    run.wait_for_text("working (claude)");
    // Ended by itself, and not by the signal; nobody is left to read why.
    let status = run.close_and_wait();
    assert!(status.code().is_some(), "{status:?}");
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["state"], "queued", "{plans}");
}

#[test]
fn closing_the_terminal_at_a_prompt_ends_it_and_loses_nothing() {
    let desk = TerminalEnv::new();
    let mut run = desk
        .run(&["run", "Tidy the shop"])
        .with_own_session()
        .start_on_terminal();
    run.wait_for_text("ater?");
    run.close_and_wait();
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["standing"], "needs review", "{plans}");
}

/// The page, another terminal or a program may decide first. An open prompt must not show a state that is gone.
#[test]
fn a_prompt_notices_what_is_decided_elsewhere() {
    let desk = TerminalEnv::new();
    let mut run = desk.start_typing(&["run", "Tidy the shop"]);
    run.wait_for_text("ater?");
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    let plan = plans[0]["plan_id"].as_str().unwrap().to_owned();
    desk.repo.run_ok(&["apply", &plan, "--yes"]);
    run.wait_for_text("The plan changed elsewhere.")
        .wait_for_text("landed");
    let (status, seen) = run.wait_for_end();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(!seen.contains("needs review"), "{seen}");
}

/// What was sent back elsewhere is shown again when it is done, and what was typed lands nothing unseen.
#[test]
fn a_prompt_shows_the_new_result_of_a_plan_that_was_sent_back_elsewhere() {
    let desk = TerminalEnv::new();
    let mut run = desk.start_typing(&["run", "Tidy the shop"]);
    run.wait_for_text("ater?");
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    let plan = plans[0]["plan_id"].as_str().unwrap().to_owned();
    desk.repo
        .run_ok(&["revise", &plan, "once more", "--detach"]);
    run.wait_for_text("The plan changed elsewhere.")
        .wait_for_text("ater?")
        .type_line("l");
    let (status, seen) = run.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    let results = desk.repo.run_ok(&["diff", &plan, "--hunks"])["results"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(2), "{results}");
}

/// At a prompt nothing works, so that nothing has to be stopped: it ends at once, and the plan waits.
#[test]
fn interrupting_at_a_prompt_ends_it_and_loses_nothing() {
    let desk = TerminalEnv::new();
    let mut run = desk.start_typing(&["run", "Tidy the shop"]);
    run.wait_for_text("ater?");
    run.send_interrupt();
    let (status, seen) = run.wait_for_end();
    assert_eq!(status.code(), Some(130), "{seen}");
    let plans = desk.repo.run_ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["standing"], "needs review", "{plans}");
}

/// Every line of the quick start works as it is printed, with somebody at the terminal who agrees.
#[test]
fn the_quick_start_of_the_readme_works_as_written() {
    let (_, after) = README.split_once("<!-- quick start").unwrap();
    let (_, block) = after.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let desk = TerminalEnv::new();
    let mut verbs = Vec::new();
    for line in block.lines() {
        let command = line.split('#').next().unwrap().trim();
        let mut words: Vec<&str> = Vec::new();
        for (index, part) in command.split('"').enumerate() {
            match index % 2 {
                0 => words.extend(part.split_whitespace()),
                _ => words.push(part),
            }
        }
        assert_eq!(words[0], "planwright", "{line}");
        let verb = words.get(1).copied().unwrap_or("");
        verbs.push(verb.to_owned());
        let mut terminal = desk.start_typing(&words[1..]);
        let expected = match verb {
            "run" | "revise" => {
                terminal.wait_for_text("ater?").type_line("l");
                6
            }
            "apply" | "undo" => {
                terminal.wait_for_text("[y/N]").type_line("y");
                0
            }
            _ => 0,
        };
        let (status, seen) = terminal.wait_for_end();
        assert_eq!(status.code(), Some(expected), "{line}: {seen}");
    }
    assert_eq!(verbs, ["run", "diff", "revise", "apply", "undo", ""]);
    assert_eq!(desk.repo.read_file("README.md"), "# Shop\n");
}

/// What agents write cannot speak to the terminal of whoever looks at it.
#[test]
fn nothing_from_outside_commands_the_terminal() {
    let desk = TerminalEnv::new();
    let agent = "#!/bin/sh
cat > /dev/null
printf 'clear \\033[2J ring \\007 turn \\342\\200\\256 back\\r\\n' >> README.md
printf x > \"$(printf 'odd\\033[31m.txt')\"
printf '{\"outcome\":\"done\",\"summary\":\"all \\\\u001b[8mhidden \\\\u202ewell\"}' > \"$PLANWRIGHT_REPORT\"
";
    testkit::write_program(&desk.tools.path().join("claude"), agent);
    let mut run = desk.start_typing(&["run", "Do\u{1b}[2J it \u{202e}now"]);
    run.wait_for_text("ater?").type_line("d");
    run.wait_for_text("ater?").type_line("l");
    let (_, seen) = run.wait_for_raw_end();
    let look = |words: &[&str]| desk.start_typing(words).wait_for_raw_end().1;
    let told = [
        seen,
        look(&["diff", "@"]),
        look(&["diff", "@", "--stat"]),
        look(&["diff", "@", "--name-only"]),
        look(&["status", "@"]),
        look(&["list"]),
        look(&["log", "@"]),
        look(&["log", "@", "--transcript"]),
        look(&[]),
    ]
    .concat();
    for raw in [
        "\u{1b}[2J",
        "\u{1b}[31m.txt",
        "\u{1b}[8m",
        "\u{7}",
        "\u{202e}",
    ] {
        assert!(!told.contains(raw), "{raw:?}: {told:?}");
    }
    assert!(
        told.contains(r"clear \u{1b}[2J ring \u{7} turn \u{202e} back\r"),
        "{told:?}"
    );
    // For a program every byte is what it was.
    let patch = desk.run(&["diff", "@"]).finish();
    assert!(
        patch
            .stdout
            .contains("clear \u{1b}[2J ring \u{7} turn \u{202e} back\r\n"),
        "{patch:?}"
    );
    let file = desk.repo.write_file_beside("of.patch", &patch.stdout);
    desk.repo.run_git(&["apply", "--check", &file]);
}
