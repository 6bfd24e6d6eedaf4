//! Before a plan is begun: what is to be done, by whom, and where. What is missing is said, and nothing is
//! stored.

use std::path::Path;

use testkit::{Program, Run};

use crate::daily::{Loop, SCRIBE, state};
use crate::yard::Yard;

/// A run in the repository, by somebody who may have a terminal.
fn run(day: &Loop, words: &[&str]) -> Run {
    let words = [&["run", "--actor", "scribe"], words].concat();
    let run = day.yard.program.run(words).within(day.yard.shop());
    run.set("TERM", "xterm").set("PAGER", "cat")
}

fn assert_nothing_is_begun(day: &Loop) {
    let plans = day.ends(0, &["list", "--all"])["plans"].clone();
    assert_eq!(plans.as_array().unwrap().len(), 0, "{plans}");
    assert!(day.starts().is_empty());
    assert_no_draft_is_left(day);
}

/// What was typed in an editor is nobody else's to read.
fn assert_no_draft_is_left(day: &Loop) {
    for entry in std::fs::read_dir(day.yard.program.home()).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        assert!(!name.starts_with("goal-"), "{name}");
    }
}

#[test]
fn a_goal_is_read_from_standard_input() {
    let day = Loop::with(SCRIBE);
    let said = run(&day, &["-"])
        .reading("\n  Write a line\n\nand mean it: „ja“\n\n")
        .finish();
    assert_eq!(said.code(), Some(6), "{said:?}");
    assert!(said.stdout.contains("needs review"), "{said:?}");
    let shown = day.ends(0, &["status", "@"]);
    assert_eq!(shown["goal"], "Write a line\n\nand mean it: „ja“");
    assert_eq!(state(&shown), "execute/complete");
    assert_eq!(day.starts().len(), 1);
    // From there a single word is a goal, too, and no plan to go on with.
    let said = run(&day, &["-"]).reading("tidy").finish();
    assert_eq!(said.code(), Some(6), "{said:?}");
    assert_eq!(day.ends(0, &["status", "@"])["goal"], "tidy");
}

#[test]
fn what_is_no_goal_on_standard_input_begins_nothing() {
    let day = Loop::with(SCRIBE);
    let none = "There is no goal; nothing was begun.";
    let long = "is longer than 256 KiB";
    for (input, code, says) in [
        (Vec::new(), 2, none),
        (b" \n\t\n".to_vec(), 2, none),
        (b"Write \xff\xfe".to_vec(), 1, "The goal cannot be read"),
        ("a".repeat(300_000).into_bytes(), 2, long),
        // Cut in the middle of a letter it is too long, and not garbled.
        ("ü".repeat(150_000).into_bytes(), 2, long),
    ] {
        let said = run(&day, &["-"]).reading(input).finish();
        assert_eq!(said.code(), Some(code), "{said:?}");
        assert!(said.stderr.contains(says), "{said:?}");
        assert_eq!(said.stdout, "");
    }
    let said = run(&day, &["-"]).finish();
    let hint = "try: planwright run \"Say what is to be done\"";
    assert!(said.stderr.contains(hint), "{said:?}");
    assert_nothing_is_begun(&day);
}

/// A run without a goal, with this for an editor.
fn edited(day: &Loop, script: &str) -> Run {
    day.write_tool("editor", script);
    let editor = format!("{} --wait", day.file("editor").display());
    run(day, &[]).set("VISUAL", editor)
}

#[test]
fn a_goal_is_written_in_the_editor() {
    let day = Loop::with(SCRIBE);
    let writes = "#!/bin/sh
test \"$1\" = --wait || exit 9
cp \"$2\" \"$0.shown\"
printf '\\nWrite a line\\n# left out\\nof one\\n\\n' > \"$2\"
";
    // Whoever has both wants the one that needs a screen.
    let mut terminal = edited(&day, writes).set("EDITOR", "false").at_a_terminal();
    terminal.shows("ater?").types("l");
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("needs review"), "{seen}");
    let shown = std::fs::read_to_string(day.file("editor.shown")).unwrap();
    assert!(shown.contains("# What is to be done?"), "{shown}");
    let shown = day.ends(0, &["status", "@"]);
    assert_eq!(shown["goal"], "Write a line\nof one");
    assert_eq!(state(&shown), "execute/complete");
    assert_no_draft_is_left(&day);

    let editor = format!("{} --wait", day.file("editor").display());
    let other = run(&day, &[]).set("VISUAL", "").set("EDITOR", editor);
    let mut terminal = other.at_a_terminal();
    terminal.shows("ater?").types("l");
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert_eq!(day.starts().len(), 2);
}

#[test]
fn an_editor_that_gives_no_goal_begins_nothing() {
    let day = Loop::with(SCRIBE);
    let none = "There is no goal; nothing was begun.";
    for (script, code, says) in [
        ("#!/bin/sh\n: > \"$2\"\n", 2, none),
        // Left as it was shown.
        ("#!/bin/sh\n", 2, none),
        (
            "#!/bin/sh\necho Write > \"$2\"\nexit 1\n",
            1,
            "the editor ended with an error",
        ),
        ("#!/bin/sh\nrm \"$2\"\n", 1, "No such file"),
    ] {
        let (status, seen) = edited(&day, script).at_a_terminal().ends();
        assert_eq!(status.code(), Some(code), "{script}: {seen}");
        assert!(seen.contains(says), "{script}: {seen}");
    }
    let (status, seen) = run(&day, &[])
        .set("EDITOR", "/no/such/editor")
        .at_a_terminal()
        .ends();
    assert_eq!(status.code(), Some(1), "{seen}");
    assert!(seen.contains("the editor ended with an error"), "{seen}");
    assert_nothing_is_begun(&day);
}

#[test]
fn without_an_editor_or_a_terminal_a_goal_has_to_be_given() {
    let day = Loop::with(SCRIBE);
    let (status, seen) = run(&day, &[]).at_a_terminal().ends();
    assert_eq!(status.code(), Some(2), "{seen}");
    assert!(seen.contains("There is no goal."), "{seen}");
    assert!(seen.contains("planwright run -"), "{seen}");
    // Nobody would see it.
    let said = edited(&day, "#!/bin/sh\ntouch \"$0.started\"\n").finish();
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.stderr.contains("planwright run -"), "{said:?}");
    assert!(!day.file("editor.started").exists());
    assert_nothing_is_begun(&day);
}

/// A stand-in for any agent: what it says does not matter.
const AGENT: &str = "#!/bin/sh\ncat > /dev/null\necho more >> README.md\n";

/// A directory with these agents, what they need, and git, to be all of a search path: whoever runs the
/// tests may have agents of their own.
fn with_agents(agents: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::TempDir::with_prefix("planwright-path-").unwrap();
    for tool in ["git", "cat"] {
        let mut places = ["/usr/bin", "/bin", "/usr/local/bin"].into_iter();
        let found = places.find_map(|place| {
            let path = Path::new(place).join(tool);
            path.exists().then_some(path)
        });
        std::os::unix::fs::symlink(found.unwrap(), directory.path().join(tool)).unwrap();
    }
    for agent in agents {
        testkit::write_program(&directory.path().join(agent), AGENT);
    }
    directory
}

#[test]
fn of_several_agents_a_person_says_which() {
    let yard = Yard::new();
    let path = with_agents(&["codex", "claude"]);
    let run = yard.program.run(["run", "Tidy the shop"]);
    let run = run.within(yard.shop()).set("PATH", path.path());
    let run = run.set("TERM", "xterm");
    let plans = || yard.ok(&["list", "--all"])["plans"].clone();

    let several = "Several agents could work on this: claude, codex.";
    let mut terminal = run.at_a_terminal();
    terminal
        .shows("Who shall work on it (claude, codex)? ")
        .types("cursor");
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(2), "{seen}");
    assert!(seen.contains(several), "{seen}");
    // Nobody is there to be asked.
    let said = run.finish();
    assert_eq!(said.code(), Some(2), "{said:?}");
    assert!(said.stderr.contains(several), "{said:?}");
    let hint = "try: planwright run --actor claude \"GOAL\"";
    assert!(said.stderr.contains(hint), "{said:?}");
    assert_eq!(plans().as_array().unwrap().len(), 0);

    let mut terminal = run.at_a_terminal();
    terminal
        .shows("Who shall work on it (claude, codex)? ")
        .types("codex");
    terminal.shows("ater?").types("l");
    let (status, seen) = terminal.ends();
    assert_eq!(status.code(), Some(6), "{seen}");
    let plan = plans()[0]["plan_id"].as_str().unwrap().to_owned();
    let shown = yard.ok(&["status", &plan]);
    assert_eq!(shown["actors"]["execution"], "codex");
    assert_eq!(state(&shown), "execute/complete");

    // Said once for all, it is not asked any more.
    yard.ok(&["config", "set", "actor", "claude"]);
    let said = run.finish();
    assert_eq!(said.code(), Some(6), "{said:?}");
    let plan = plans()[0]["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(yard.ok(&["status", &plan])["actors"]["execution"], "claude");
}

#[test]
fn where_no_agent_is_installed_it_is_said_what_can_be_one() {
    let yard = Yard::new();
    let path = with_agents(&[]);
    let fresh = Program::new(env!("CARGO_BIN_EXE_planwright"));
    let run = fresh.run(["run", "Tidy the shop"]).within(yard.shop());
    let said = run.set("PATH", path.path()).finish();
    assert_eq!(said.code(), Some(3), "{said:?}");
    let none = "error: No agent is installed here that Planwright knows.";
    assert!(said.stderr.contains(none), "{said:?}");
    assert!(said.stderr.contains("planwright help actors"), "{said:?}");
    assert!(
        said.stderr.contains("try: planwright actor list"),
        "{said:?}"
    );
    let listed = |words: [&str; 4]| fresh.run(words).finish().data();
    let plans = listed(["--format", "json", "list", "--all"]);
    assert_eq!(plans["plans"].as_array().unwrap().len(), 0, "{plans}");
    let projects = listed(["--format", "json", "project", "list"]);
    assert_eq!(
        projects["projects"].as_array().unwrap().len(),
        0,
        "{projects}"
    );
}

#[test]
fn a_repository_without_a_commit_is_told_what_it_needs() {
    let yard = Yard::new();
    let place = yard.shop().parent().unwrap().join("empty");
    let empty = place.to_str().unwrap();
    yard.git(&["init", "-q", "-b", "main", empty]);
    yard.git(&["-C", empty, "config", "user.name", "Ada"]);
    yard.git(&["-C", empty, "config", "user.email", "ada@example.org"]);
    let path = with_agents(&["claude"]);
    let fresh = Program::new(env!("CARGO_BIN_EXE_planwright"));
    let here = |words: &[&str]| {
        let run = fresh.run(words.to_vec()).within(&place);
        run.set("PATH", path.path()).finish()
    };

    let said = here(&["run", "Write a line"]);
    assert_eq!(said.code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("has no commit yet"), "{said:?}");
    assert!(!fresh.home().join("planwright.db").exists());
    let (_, hint) = said.stderr.split_once("Make a first one: git ").unwrap();
    let first_commit = hint.lines().next().unwrap().to_owned();

    // The store can be set up from anywhere.
    let said = here(&["init", "--yes"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("Created the store"), "{said:?}");
    let not_here = "No planwright.yaml is written here: ";
    assert!(said.stderr.contains(not_here), "{said:?}");
    assert!(said.stderr.contains("has no commit yet"), "{said:?}");
    assert!(!place.join("planwright.yaml").exists());

    let words: Vec<&str> = first_commit.split(' ').collect();
    yard.git(&[&["-C", empty], words.as_slice()].concat());
    let said = here(&["init", "--yes"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(place.join("planwright.yaml").exists());
    let said = here(&["run", "Write a line"]);
    assert_eq!(said.code(), Some(6), "{said:?}");
}
