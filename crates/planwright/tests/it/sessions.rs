//! A day at a terminal: what a person types and sees, on a real pty.

use regex::Regex;
use testkit::{Run, Terminal};

use crate::yard::Yard;

const README: &str = include_str!("../../../../README.md");

/// A stand-in for an agent that is installed, called as that one is.
const AGENT: &str = "#!/bin/sh
cat > /dev/null
echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"talk-1\"}'
echo \"A line for: $PLANWRIGHT_GOAL\" >> README.md
echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"session_id\":\"talk-1\",\"total_cost_usd\":0.02,\"usage\":{\"input_tokens\":900,\"output_tokens\":100}}'
";

/// Somebody at a terminal in a repository, with an agent installed.
pub struct Desk {
    pub yard: Yard,
    pub tools: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self {
            yard: Yard::new(),
            tools: tempfile::TempDir::with_prefix("planwright-tools-").unwrap(),
        };
        let agent = desk.tools.path().join("claude");
        testkit::write_program(&agent, AGENT);
        desk
    }

    pub fn run(&self, words: &[&str]) -> Run {
        let path = format!(
            "{}:/usr/bin:/bin:/usr/local/bin",
            self.tools.path().display()
        );
        let run = self
            .yard
            .program
            .run(words.to_vec())
            .within(self.yard.shop());
        run.set("PATH", path)
            .set("TERM", "xterm")
            .set("PAGER", "cat")
    }

    fn types(&self, words: &[&str]) -> Terminal {
        self.run(words).at_a_terminal()
    }

    /// What was seen, with nothing in it that differs from day to day.
    fn same_each_day(&self, seen: &str) -> String {
        let mut text = seen.replace(self.yard.shop().to_str().unwrap(), "/home/ada/shop");
        text = text.replace(
            self.yard.program.home().to_str().unwrap(),
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
                r"\b[0-9a-z]{4,6} is taken back: [0-9a-z]{4,6}\b",
                "abcd is taken back: efgh",
            ),
            (r"as [0-9a-f]{10}", "as 0123456789"),
            (
                r"(not |partly )?confined( \(Landlock[^)]*\)|: this system has no Landlock)",
                "confined",
            ),
            (r"index [0-9a-f]+\.\.[0-9a-f]+", "index 1..2"),
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
    let desk = Desk::new();
    let mut told = String::new();
    let mut keep = |what: &str, terminal: Terminal, code: i32| {
        let (status, seen) = terminal.ends();
        assert_eq!(status.code(), Some(code), "{what}: {seen}");
        told.push_str(&format!(
            "$ planwright {what}\n{}\n\n",
            desk.same_each_day(&seen)
        ));
    };
    let mut init = desk.types(&["init"]);
    init.shows("Write it? [Y/n]").types("");
    keep("init", init, 0);
    let mut run = desk.types(&["run", "Tidy the shop"]);
    run.shows("Done.").shows("ater?").types("x");
    run.shows("ater?").types("r");
    run.shows("better?").types("once more");
    run.shows("ater?").types("f");
    run.shows("were?").types("no-such-file");
    run.shows("ater?").types("a");
    keep("run \"Tidy the shop\"", run, 0);
    let text = desk.yard.read("README.md");
    assert_eq!(
        text.matches("A line for: Tidy the shop").count(),
        2,
        "{text}"
    );
    let mut undo = desk.types(&["undo", "@"]);
    undo.shows("[y/N]").types("n");
    keep("undo @", undo, 6);
    let mut undo = desk.types(&["undo", "@"]);
    undo.shows("[y/N]").types("y");
    keep("undo @", undo, 0);
    assert_eq!(desk.yard.read("README.md"), "# Shop\n");
    let mut later = desk.types(&["run", "Tidy the shop"]);
    later.shows("ater?").types("l");
    keep("run \"Tidy the shop\"", later, 6);
    keep("", desk.types(&[]), 0);
    insta::assert_snapshot!(told);
}

#[test]
fn a_person_at_the_terminal_answers_and_looks_at_a_strategy() {
    let desk = Desk::new();
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
    let mut run = desk.types(&["run", "--strategy", "Tidy the shop"]);
    run.shows("First this, then that.")
        .shows("ater?")
        .types("g");
    run.shows("Which one is it?")
        .shows("later):")
        .types("the left one");
    run.shows("ater?").types("l");
    let (status, seen) = run.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("README.md"), "{seen}");
}

#[test]
fn interrupting_gives_the_plan_back_and_ends_the_agent() {
    let desk = Desk::new();
    testkit::write_program(&desk.tools.path().join("claude"), "#!/bin/sh\nsleep 1000\n");
    let mut run = desk.types(&["run", "Tidy the shop"]);
    run.shows("working (claude)");
    run.interrupt();
    let (status, seen) = run.ends();
    assert_eq!(status.code(), Some(130), "{seen}");
    assert!(seen.contains("nothing it made is lost"), "{seen}");
    let plans = desk.yard.ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["state"], "queued", "{plans}");
}

/// Closing the window is an interrupt: the plan is given back, and the agent ends.
#[test]
fn closing_the_terminal_gives_the_plan_back_and_ends_the_agent() {
    let desk = Desk::new();
    testkit::write_program(&desk.tools.path().join("claude"), "#!/bin/sh\nsleep 1000\n");
    let mut run = desk
        .run(&["run", "Tidy the shop"])
        .in_a_session()
        .at_a_terminal();
    run.shows("working (claude)");
    // Ended by itself, and not by the signal; nobody is left to read why.
    let status = run.closes();
    assert!(status.code().is_some(), "{status:?}");
    let plans = desk.yard.ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["state"], "queued", "{plans}");
}

#[test]
fn closing_the_terminal_at_a_prompt_ends_it_and_loses_nothing() {
    let desk = Desk::new();
    let mut run = desk
        .run(&["run", "Tidy the shop"])
        .in_a_session()
        .at_a_terminal();
    run.shows("ater?");
    run.closes();
    let plans = desk.yard.ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["standing"], "needs review", "{plans}");
}

/// At a prompt nothing works, so that nothing has to be stopped: it ends at once, and the plan waits.
#[test]
fn interrupting_at_a_prompt_ends_it_and_loses_nothing() {
    let desk = Desk::new();
    let mut run = desk.types(&["run", "Tidy the shop"]);
    run.shows("ater?");
    run.interrupt();
    let (status, seen) = run.ends();
    assert_eq!(status.code(), Some(130), "{seen}");
    let plans = desk.yard.ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans[0]["standing"], "needs review", "{plans}");
}

/// Every line of the quick start works as it is printed, with somebody at the terminal who agrees.
#[test]
fn the_quick_start_of_the_readme_works_as_written() {
    let (_, after) = README.split_once("<!-- quick start").unwrap();
    let (_, block) = after.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let desk = Desk::new();
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
        if words[0] == "cargo" {
            assert_eq!(command, "cargo install --path crates/planwright");
            continue;
        }
        assert_eq!(words[0], "planwright", "{line}");
        let verb = words.get(1).copied().unwrap_or("");
        verbs.push(verb.to_owned());
        let mut terminal = desk.types(&words[1..]);
        let expected = match verb {
            "init" => {
                terminal.shows("[Y/n]").types("y");
                0
            }
            "run" | "revise" => {
                terminal.shows("ater?").types("l");
                6
            }
            "apply" | "undo" => {
                terminal.shows("[y/N]").types("y");
                0
            }
            _ => 0,
        };
        let (status, seen) = terminal.ends();
        assert_eq!(status.code(), Some(expected), "{line}: {seen}");
    }
    assert_eq!(
        verbs,
        ["init", "run", "diff", "revise", "apply", "undo", ""]
    );
    assert_eq!(desk.yard.read("README.md"), "# Shop\n");
}

/// What agents write cannot speak to the terminal of whoever looks at it.
#[test]
fn nothing_from_outside_commands_the_terminal() {
    let desk = Desk::new();
    let agent = "#!/bin/sh
cat > /dev/null
printf 'clear \\033[2J ring \\007 turn \\342\\200\\256 back\\r\\n' >> README.md
printf x > \"$(printf 'odd\\033[31m.txt')\"
printf '{\"outcome\":\"done\",\"summary\":\"all \\\\u001b[8mhidden \\\\u202ewell\"}' > \"$PLANWRIGHT_REPORT\"
";
    testkit::write_program(&desk.tools.path().join("claude"), agent);
    let mut run = desk.types(&["run", "Do\u{1b}[2J it \u{202e}now"]);
    run.shows("ater?").types("d");
    run.shows("ater?").types("l");
    let (_, seen) = run.ends_as_written();
    let look = |words: &[&str]| desk.types(words).ends_as_written().1;
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
    let file = desk.yard.write_beside("of.patch", &patch.stdout);
    desk.yard.git(&["apply", "--check", &file]);
}
