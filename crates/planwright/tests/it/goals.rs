//! Before a plan is begun: what is to be done, by whom, and where. What is missing is said, and nothing is
//! stored.

use std::path::Path;

use testkit::{TestProgram, TestRun};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state};
use crate::shop_repository::ShopRepository;

/// A run in the repository, by somebody who may have a terminal.
fn run_in_repository(env: &ScriptedAgentEnv, words: &[&str]) -> TestRun {
    let words = [&["run", "--agent", "scribe"], words].concat();
    let run = env
        .repo
        .program
        .run(words)
        .with_directory(env.repo.shop_path());
    run.with_variable("TERM", "xterm")
        .with_variable("PAGER", "cat")
}

fn assert_nothing_is_begun(env: &ScriptedAgentEnv) {
    let plans = env.run_expecting(0, &["list", "--all"])["plans"].clone();
    assert_eq!(plans.as_array().unwrap().len(), 0, "{plans}");
    assert!(env.read_starts().is_empty());
    assert_no_draft_is_left(env);
}

/// What was typed in an editor is nobody else's to read.
fn assert_no_draft_is_left(env: &ScriptedAgentEnv) {
    for entry in std::fs::read_dir(env.repo.program.home()).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        assert!(!name.starts_with("goal-"), "{name}");
    }
}

#[test]
fn a_goal_is_read_from_standard_input() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let said = run_in_repository(&env, &["-"])
        .with_input("\n  Write a line\n\nand mean it: „ja“\n\n")
        .finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(said.stdout.contains("needs review"), "{said:?}");
    let shown = env.run_expecting(0, &["status", "@"]);
    assert_eq!(shown["goal"], "Write a line\n\nand mean it: „ja“");
    assert_eq!(describe_state(&shown), "execute/complete");
    assert_eq!(env.read_starts().len(), 1);
    // From there a single word is a goal, too, and no plan to go on with.
    let said = run_in_repository(&env, &["-"]).with_input("tidy").finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert_eq!(env.run_expecting(0, &["status", "@"])["goal"], "tidy");
}

#[test]
fn invalid_goals_on_standard_input_create_no_plan() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let none = "The goal is empty; nothing was started.";
    let long = "is longer than 256 KiB";
    for (input, code, says) in [
        (Vec::new(), 2, none),
        (b" \n\t\n".to_vec(), 2, none),
        (b"Write \xff\xfe".to_vec(), 1, "Can't read the goal"),
        ("a".repeat(300_000).into_bytes(), 2, long),
        // Cut in the middle of a letter it is too long, and not garbled.
        ("ü".repeat(150_000).into_bytes(), 2, long),
    ] {
        let said = run_in_repository(&env, &["-"]).with_input(input).finish();
        assert_eq!(said.exit_code(), Some(code), "{said:?}");
        assert!(said.stderr.contains(says), "{said:?}");
        assert_eq!(said.stdout, "");
    }
    let said = run_in_repository(&env, &["-"]).finish();
    let hint = "try: planwright run \"Describe the change\"";
    assert!(said.stderr.contains(hint), "{said:?}");
    assert_nothing_is_begun(&env);
}

/// A run without a goal, with this for an editor.
fn run_with_editor(env: &ScriptedAgentEnv, script: &str) -> TestRun {
    env.write_tool("editor", script);
    let editor = format!("{} --wait", env.tool_path("editor").display());
    run_in_repository(env, &[]).with_variable("VISUAL", editor)
}

#[test]
fn a_goal_is_written_in_the_editor() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let writes = "#!/bin/sh
test \"$1\" = --wait || exit 9
cp \"$2\" \"$0.shown\"
printf '\\nWrite a line\\n# left out\\nof one\\n\\n' > \"$2\"
";
    // Whoever has both wants the one that needs a screen.
    let mut terminal = run_with_editor(&env, writes)
        .with_variable("EDITOR", "false")
        .start_on_terminal();
    terminal.wait_for_text("ater?").type_line("l");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert!(seen.contains("needs review"), "{seen}");
    let shown = std::fs::read_to_string(env.tool_path("editor.shown")).unwrap();
    assert!(shown.contains("# Describe the goal."), "{shown}");
    let shown = env.run_expecting(0, &["status", "@"]);
    assert_eq!(shown["goal"], "Write a line\nof one");
    assert_eq!(describe_state(&shown), "execute/complete");
    assert_no_draft_is_left(&env);

    let editor = format!("{} --wait", env.tool_path("editor").display());
    let other = run_in_repository(&env, &[])
        .with_variable("VISUAL", "")
        .with_variable("EDITOR", editor);
    let mut terminal = other.start_on_terminal();
    terminal.wait_for_text("ater?").type_line("l");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    assert_eq!(env.read_starts().len(), 2);
}

#[test]
fn an_editor_that_gives_no_goal_begins_nothing() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let none = "The goal is empty; nothing was started.";
    for (script, code, says) in [
        ("#!/bin/sh\n: > \"$2\"\n", 2, none),
        // Left as it was shown.
        ("#!/bin/sh\n", 2, none),
        (
            "#!/bin/sh\necho Write > \"$2\"\nexit 1\n",
            1,
            "the editor exited with an error",
        ),
        ("#!/bin/sh\nrm \"$2\"\n", 1, "No such file"),
    ] {
        let (status, seen) = run_with_editor(&env, script)
            .start_on_terminal()
            .wait_for_end();
        assert_eq!(status.code(), Some(code), "{script}: {seen}");
        assert!(seen.contains(says), "{script}: {seen}");
    }
    let (status, seen) = run_in_repository(&env, &[])
        .with_variable("EDITOR", "/no/such/editor")
        .start_on_terminal()
        .wait_for_end();
    assert_eq!(status.code(), Some(1), "{seen}");
    assert!(seen.contains("the editor exited with an error"), "{seen}");
    assert_nothing_is_begun(&env);
}

#[test]
fn without_an_editor_or_a_terminal_a_goal_has_to_be_given() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (status, seen) = run_in_repository(&env, &[])
        .start_on_terminal()
        .wait_for_end();
    assert_eq!(status.code(), Some(2), "{seen}");
    assert!(seen.contains("No goal given."), "{seen}");
    assert!(seen.contains("planwright run -"), "{seen}");
    // Nobody would see it.
    let said = run_with_editor(&env, "#!/bin/sh\ntouch \"$0.started\"\n").finish();
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    assert!(said.stderr.contains("planwright run -"), "{said:?}");
    assert!(!env.tool_path("editor.started").exists());
    assert_nothing_is_begun(&env);
}

/// A stand-in for any agent: what it says does not matter.
const ANY_AGENT: &str = "#!/bin/sh\ncat > /dev/null\necho more >> README.md\n";

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
        testkit::write_program(&directory.path().join(agent), ANY_AGENT);
    }
    directory
}

#[test]
fn of_several_agents_a_person_says_which() {
    let repo = ShopRepository::new();
    let path = with_agents(&["codex", "claude"]);
    let run = repo.program.run(["run", "Tidy the shop"]);
    let run = run
        .with_directory(repo.shop_path())
        .with_variable("PATH", path.path());
    let run = run.with_variable("TERM", "xterm");
    let plans = || repo.run_ok(&["list", "--all"])["plans"].clone();

    let several = "Several agents are available: claude, codex.";
    let mut terminal = run.start_on_terminal();
    terminal
        .wait_for_text("Which agent (claude, codex)? ")
        .type_line("cursor");
    terminal
        .wait_for_text("`cursor` is not one of them.")
        .type_line("");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(2), "{seen}");
    assert!(seen.contains(several), "{seen}");
    // Nobody is there to be asked.
    let said = run.finish();
    assert_eq!(said.exit_code(), Some(2), "{said:?}");
    assert!(said.stderr.contains(several), "{said:?}");
    // No agent is proposed just because its name comes first.
    let hint = "For all plans: planwright config set actor NAME";
    assert!(said.stderr.contains(hint), "{said:?}");
    assert_eq!(plans().as_array().unwrap().len(), 0);

    let mut terminal = run.start_on_terminal();
    terminal
        .wait_for_text("Which agent (claude, codex)? ")
        .type_line("codex");
    terminal.wait_for_text("ater?").type_line("l");
    let (status, seen) = terminal.wait_for_end();
    assert_eq!(status.code(), Some(6), "{seen}");
    let plan = plans()[0]["plan_id"].as_str().unwrap().to_owned();
    let shown = repo.run_ok(&["status", &plan]);
    assert_eq!(shown["actors"]["execution"], "codex");
    assert_eq!(describe_state(&shown), "execute/complete");

    // The answer is remembered, and can be changed.
    assert!(seen.contains("From now on, plans use codex."), "{seen}");
    let said = run.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let plan = plans()[0]["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(
        repo.run_ok(&["status", &plan])["actors"]["execution"],
        "codex"
    );
    repo.run_ok(&["config", "set", "actor", "claude"]);
    let said = run.finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let plan = plans()[0]["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(
        repo.run_ok(&["status", &plan])["actors"]["execution"],
        "claude"
    );
}

/// Such as one with other variables: it does not make a strategy that nobody asked for.
#[test]
fn copy_of_a_preset_runs_as_the_preset_does() {
    let repo = ShopRepository::new();
    let path = with_agents(&[]);
    let calls = path.path().join("calls");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\necho >> README.md\n",
        calls.display()
    );
    testkit::write_program(&path.path().join("claude"), &script);
    let program = &repo.program;
    let shown = program.run(["agent", "show", "claude"]).finish();
    let copy = shown
        .stdout
        .replacen("name: claude", "name: work-claude", 1);
    let writable = format!("writable:\n  - {}\n", path.path().display());
    let file = path.path().join("copy.yaml");
    std::fs::write(&file, copy.replace("writable:\n", &writable)).unwrap();
    repo.run_ok(&["agent", "add", file.to_str().unwrap()]);
    let run = program.run(["run", "--agent", "work-claude", "Tidy the shop"]);
    let run = run.with_directory(repo.shop_path());
    let said = run.with_variable("PATH", path.path()).finish();
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    let calls = std::fs::read_to_string(calls).unwrap();
    assert_eq!(calls.lines().count(), 1, "{calls}");
    assert!(calls.contains("bypassPermissions"), "{calls}");
}

/// npm installs an old version without a word if Node.js is too old for the current one.
#[test]
fn doctor_names_agents_that_are_older_than_those_known_to_work() {
    let repo = ShopRepository::new();
    let path = with_agents(&[]);
    let package = path.path().join("node_modules/@anthropic-ai/claude-code");
    std::fs::create_dir_all(&package).unwrap();
    testkit::write_program(&package.join("cli.js"), ANY_AGENT);
    std::os::unix::fs::symlink(package.join("cli.js"), path.path().join("claude")).unwrap();
    for (version, is_old) in [("2.1.1", true), ("999.0.0", false)] {
        let manifest = format!(r#"{{"version": "{version}"}}"#);
        std::fs::write(package.join("package.json"), manifest).unwrap();
        let doctor = repo.program.run(["doctor"]);
        let said = doctor.with_variable("PATH", path.path()).finish();
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        let shown = format!("claude {version}");
        assert!(said.stdout.contains(&shown), "{said:?}");
        assert_eq!(said.stdout.contains("(known to work: "), is_old, "{said:?}");
        assert_eq!(said.stderr.contains("node --version"), is_old, "{said:?}");
    }
}

#[test]
fn where_no_agent_is_installed_it_is_said_what_can_be_one() {
    let repo = ShopRepository::new();
    let path = with_agents(&[]);
    let fresh = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    let run = fresh
        .run(["run", "Tidy the shop"])
        .with_directory(repo.shop_path());
    let said = run.with_variable("PATH", path.path()).finish();
    assert_eq!(said.exit_code(), Some(3), "{said:?}");
    let none = "error: No agent is installed.";
    assert!(said.stderr.contains(none), "{said:?}");
    assert!(said.stderr.contains("planwright help agents"), "{said:?}");
    assert!(said.stderr.contains("try: planwright demo"), "{said:?}");
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
    let repo = ShopRepository::new();
    let place = repo.shop_path().parent().unwrap().join("empty");
    let empty = place.to_str().unwrap();
    repo.run_git(&["init", "-q", "-b", "main", empty]);
    repo.run_git(&["-C", empty, "config", "user.name", "Ada"]);
    repo.run_git(&["-C", empty, "config", "user.email", "ada@example.org"]);
    let path = with_agents(&["claude"]);
    let fresh = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    let here = |words: &[&str]| {
        let run = fresh.run(words.to_vec()).with_directory(&place);
        run.with_variable("PATH", path.path()).finish()
    };

    let said = here(&["run", "Write a line"]);
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert!(said.stderr.contains("has no commit yet"), "{said:?}");
    assert!(!fresh.home().join("planwright.db").exists());
    let (_, hint) = said.stderr.split_once("Create one: git ").unwrap();
    let first_commit = hint.lines().next().unwrap().to_owned();

    // The store can be set up from anywhere.
    let said = here(&["init", "--yes"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.stdout.contains("Created the store"), "{said:?}");
    let not_here = "No planwright.yaml written: ";
    assert!(said.stderr.contains(not_here), "{said:?}");
    assert!(said.stderr.contains("has no commit yet"), "{said:?}");
    assert!(!place.join("planwright.yaml").exists());

    let words: Vec<&str> = first_commit.split(' ').collect();
    repo.run_git(&[&["-C", empty], words.as_slice()].concat());
    let said = here(&["init", "--yes"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(place.join("planwright.yaml").exists());
    let said = here(&["run", "Write a line"]);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
}
