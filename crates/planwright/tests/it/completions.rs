//! Completions: asked as the scripts ask, and through real shells.

use testkit::TestRun;

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};
use crate::shell::TranscriptShell;

/// What is offered for the last word of a command line, with descriptions.
fn complete(run: impl Fn(Vec<String>) -> TestRun, words: &[&str]) -> Vec<String> {
    let mut line = vec!["--".to_owned(), "planwright".to_owned()];
    line.extend(words.iter().map(|word| (*word).to_owned()));
    // Fish passes the words up to the cursor, then the word at the cursor.
    let asked = run(line).with_variable("PLANWRIGHT_COMPLETE", "fish");
    let said = asked.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(said.stderr, "", "{words:?}");
    said.stdout.lines().map(str::to_owned).collect()
}

fn complete_here(env: &ScriptedAgentEnv, words: &[&str]) -> Vec<String> {
    let run = |line: Vec<String>| {
        let run = env.repo.program.run(line);
        run.with_directory(env.repo.shop_path())
    };
    complete(run, words)
}

/// The words without their descriptions.
fn values(offered: &[String]) -> Vec<&str> {
    let offered = offered.iter();
    offered
        .map(|line| line.split('\t').next().unwrap_or_default())
        .filter(|word| !word.starts_with('-'))
        .collect()
}

fn handle_of(plan: &str) -> String {
    plan[plan.len() - 4..].to_lowercase()
}

#[test]
fn words_are_completed_from_what_is_there() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (first, _) = env.start_plan(6);
    let (second, _) = env.start_plan(6);
    env.repo
        .run_ok(&["rule", "add", "small", "--expr", "totals.lines <= 400"]);
    let file = "invariants:\n  - name: src-only\n    allow: src/**\n";
    env.repo.write_file("planwright.yaml", file);
    let offered = complete_here(&env, &["status", ""]);
    let plans = [handle_of(&second), handle_of(&first)];
    assert_eq!(values(&offered), plans, "newest first");
    assert!(
        offered[0].contains("needs review: Write a line"),
        "{offered:?}"
    );
    for words in [
        &["revise", ""][..],
        &["undo", ""],
        &["plan", "diff", ""],
        &["plumbing", "show", ""],
        &["rule", "list", "--effective", ""],
    ] {
        let offered = complete_here(&env, words);
        assert_eq!(values(&offered), plans, "{words:?}");
    }
    let typed = &plans[0][..3];
    assert!(values(&complete_here(&env, &["apply", typed])).contains(&plans[0].as_str()));
    let agents = complete_here(&env, &["run", "--agent", ""]);
    assert!(values(&agents).contains(&"scribe"), "{agents:?}");
    assert!(values(&agents).contains(&"claude"), "{agents:?}");
    assert!(values(&complete_here(&env, &["use", "ti"])).contains(&"tidy"));
    assert!(values(&complete_here(&env, &["project", "show", ""])).contains(&"shop"));
    let rules = complete_here(&env, &["waive", &first, ""]);
    assert_eq!(values(&rules), ["small", "src-only"]);
    let settings = complete_here(&env, &["config", "set", "limits.c"]);
    assert_eq!(settings.len(), 1, "{settings:?}");
    assert!(
        settings[0].starts_with("limits.cost\tcost limit"),
        "{settings:?}"
    );
    assert_eq!(
        values(&complete_here(&env, &["profile", "show", "re"])),
        ["review"]
    );
    let topics = complete_here(&env, &["help", "ex"]);
    assert_eq!(values(&topics), ["exit-codes"]);
}

/// A description is text from an agent or a stranger. It must not control the terminal.
#[test]
fn descriptions_cannot_control_the_terminal() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let goal = "Evil \u{1b}]0;title\u{7} goal";
    env.run_expecting(6, &["run", "--agent", "scribe", goal]);
    let offered = complete_here(&env, &["status", ""]);
    assert!(offered[0].contains("Evil"), "{offered:?}");
    assert!(!offered[0].contains(['\u{1b}', '\u{7}']), "{offered:?}");
}

#[test]
fn completing_creates_nothing_and_reports_no_errors() {
    let shell = TranscriptShell::new();
    let run = |line: Vec<String>| shell.run(&line.iter().map(String::as_str).collect::<Vec<_>>());
    for words in [&["status", ""][..], &["use", ""], &["waive", "x", ""]] {
        assert_eq!(values(&complete(run, words)), [""; 0], "{words:?}");
    }
    assert!(!shell.store_path().exists());
    let broken = ["--store", "sqlite:/dev/null/x.db", "status", ""];
    assert_eq!(values(&complete(run, &broken)), [""; 0]);
    let away = "postgres://ada@192.0.2.1/plans";
    assert_eq!(
        values(&complete(run, &["--store", away, "status", ""])),
        [""; 0]
    );
    let entries = std::fs::read_dir(shell.home_path()).unwrap();
    assert_eq!(entries.count(), 0, "nothing was written");
}

/// A shell with its options, and a script that prints what it offers for a command line. In the script, `{line}`
/// are the words before the one to complete, `{previous}` is the last of them, and `{count}` is their number.
struct CompletionShell {
    program: &'static str,
    options: &'static [&'static str],
    /// Defines what an interactive shell would have, and prints what is offered.
    script: &'static str,
}

const SHELLS: [CompletionShell; 3] = [
    CompletionShell {
        program: "bash",
        options: &["--norc", "--noprofile", "-c"],
        script: "source <(planwright completions bash)
            COMP_WORDS=({line} ''); COMP_CWORD={count}; COMP_TYPE=9
            _clap_complete_planwright planwright '' {previous}
            printf '%s\\n' \"${COMPREPLY[@]}\"",
    },
    CompletionShell {
        program: "zsh",
        options: &["-f", "-c"],
        script: "compdef() { :; }
            _describe() { print -l -- ${(P)@[-1]}; }
            source <(planwright completions zsh)
            words=({line} ''); CURRENT=$(({count} + 1))
            _clap_dynamic_completer_planwright",
    },
    CompletionShell {
        program: "fish",
        options: &["--no-config", "-c"],
        script: "planwright completions fish | source
            complete -C '{line} '",
    },
];

impl CompletionShell {
    /// The values that the shell offers after these words.
    fn offer_values(&self, env: &ScriptedAgentEnv, words: &str) -> Vec<String> {
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_planwright"));
        let directory = binary.parent().unwrap().display();
        let path = format!("PATH={directory}:/usr/local/bin:/usr/bin:/bin");
        let line: Vec<&str> = words.split(' ').collect();
        let script = self
            .script
            .replace("{line}", words)
            .replace("{previous}", line.last().unwrap())
            .replace("{count}", &line.len().to_string());
        let program = find_shell(self.program);
        let launcher = ["/usr/bin/env", &path, &program];
        let command = [&launcher[..], self.options, &[&script]].concat();
        let run = env.repo.program.run(Vec::<String>::new());
        let said = run
            .with_launcher(&command)
            .with_directory(env.repo.shop_path())
            .finish();
        assert_eq!(said.exit_code(), Some(0), "{}: {said:?}", self.program);
        // Zsh writes `value:description`, fish a tab between them.
        let lines = said.stdout.lines();
        lines
            .map(|line| line.split(['\t', ':']).next().unwrap_or_default())
            .map(|value| value.trim().to_owned())
            .collect()
    }
}

/// Every kind of value, asked in every shell.
#[test]
fn real_shells_offer_the_values_of_every_kind() {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    let (plan, _) = env.start_plan(6);
    env.repo
        .run_ok(&["rule", "add", "small", "--expr", "totals.lines <= 400"]);
    let handle = handle_of(&plan);
    for shell in &SHELLS {
        for (words, expected) in [
            ("planwright status", &*handle),
            ("planwright run --agent", "scribe"),
            ("planwright run --action", "tidy"),
            ("planwright use", "tidy"),
            ("planwright project show", "shop"),
            ("planwright waive @", "small"),
            ("planwright config set", "limits.cost"),
            ("planwright profile show", "review"),
            ("planwright wait --until", "needs-me"),
            ("planwright help", "exit-codes"),
        ] {
            let offered = shell.offer_values(&env, words);
            let is_offered = offered.iter().any(|value| value == expected);
            assert!(is_offered, "{} after `{words}`: {offered:?}", shell.program);
        }
    }
}

fn find_shell(name: &str) -> String {
    let directories = ["/usr/local/bin", "/usr/bin", "/bin"];
    let mut paths = directories.iter().map(|one| format!("{one}/{name}"));
    paths
        .find(|path| std::path::Path::new(path).exists())
        .unwrap_or_else(|| {
            panic!("{name} is not installed; `cargo xtask test` installs what the tests need")
        })
}
