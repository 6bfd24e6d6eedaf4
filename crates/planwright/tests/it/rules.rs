//! The page about rules: every example lets one change through and refuses another, and its lines work as
//! they are written.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use testkit::{TestProgram, TestRunOutput};

use crate::docs_tour::{find_block_after, make_script};
use crate::shop_repository::ShopRepository;

const RULES_PAGE: &str = include_str!("../../../../docs/rules.md");
const README: &str = include_str!("../../../../README.md");

/// What is tried under one example.
struct ExampleRow {
    name: &'static str,
    /// What lands.
    holds: ExampleChange,
    /// What does not, at least not like this.
    fails: ExampleChange,
    /// How that ends.
    ends: ExpectedEnd,
}

/// A change, and what it is made for.
#[derive(Clone, Copy)]
struct ExampleChange {
    goal: &'static str,
    project: &'static str,
    work: fn(&Path),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedEnd {
    /// Blocked; it lands once the rule is waived.
    Waivable,
    /// Blocked, and nobody waives it.
    Hard,
    /// It waits for a person.
    Asked,
    /// It lands, and the rule is counted.
    Remarked,
}

const fn example_change(work: fn(&Path)) -> ExampleChange {
    ExampleChange {
        goal: "Tidy the shop",
        project: "shop",
        work,
    }
}

const fn example_row(name: &'static str, holds: fn(&Path), fails: fn(&Path)) -> ExampleRow {
    ExampleRow {
        name,
        holds: example_change(holds),
        fails: example_change(fails),
        ends: ExpectedEnd::Waivable,
    }
}

/// One line in a document that nothing is said about.
fn add_line(at: &Path) {
    write_file(at, "docs/guide.md", "One line.\n");
}

const EXAMPLE_ROWS: &[ExampleRow] = &[
    example_row("no-migrations", add_line, |at| {
        write_file(at, "migrations/2.sql", "drop table customers;\n");
    }),
    example_row("small", add_line, |at| {
        write_file(at, "docs/long.md", &"word\n".repeat(401));
        hide_from_git(at);
    }),
    ExampleRow {
        ends: ExpectedEnd::Remarked,
        ..example_row("size-hint", add_line, |at| {
            write_file(at, "docs/long.md", &"word\n".repeat(101));
        })
    },
    example_row(
        "tests-with-code",
        |at| {
            write_file(at, "src/more.rs", "// more\n");
            write_file(at, "tests/more.rs", "// tested\n");
        },
        |at| {
            write_file(at, "src/more.rs", "// more\n");
            std::fs::remove_file(at.join("tests/first.rs")).unwrap();
        },
    ),
    example_row(
        "tests-stay",
        |at| move_file(at, "tests/first.rs", "tests/one.rs"),
        |at| move_file(at, "tests/first.rs", "docs/first.rs"),
    ),
    example_row("tests", add_line, |at| {
        write_file(at, "tests/second.rs", "assert!(false);\n");
    }),
    example_row("formatted", add_line, |at| {
        write_file(at, "src/more.rs", "\tlet a = 1;\n");
    }),
    example_row("clean-lines", add_line, |at| {
        write_file(at, "docs/guide.md", "One line. \n");
        hide_from_git(at);
    }),
    ExampleRow {
        holds: ExampleChange {
            goal: "Add a dependency on rand",
            ..example_change(|at| write_file(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n"))
        },
        ..example_row("no-new-dependencies", add_line, |at| {
            write_file(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n");
        })
    },
    example_row(
        "lock-with-manifest",
        |at| {
            write_file(at, "Cargo.lock", "# rand\n");
            write_file(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n");
        },
        |at| write_file(at, "Cargo.lock", "# by hand\n"),
    ),
    example_row("no-large-files", add_line, |at| {
        write_file(at, "docs/book.txt", &"a page of it\n".repeat(100_000));
    }),
    example_row(
        "no-binaries",
        |at| std::fs::remove_file(at.join("logo.png")).unwrap(),
        |at| std::fs::write(at.join("other.png"), b"\x89PNG\0\0").unwrap(),
    ),
    example_row("plain-files", add_line, |at| {
        write_file(at, "tool.sh", "#!/bin/sh\n");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(at.join("tool.sh"), executable).unwrap();
    }),
    example_row(
        "licence-header",
        |at| {
            write_file(
                at,
                "src/more.rs",
                "// SPDX-License-Identifier: MIT\nfn c() {}\n",
            )
        },
        |at| write_file(at, "src/more.rs", "fn c() {}\n"),
    ),
    example_row(
        "public-api",
        |at| append_file(at, "src/lib.rs", "pub fn second() {}\n"),
        |at| {
            write_file(at, "src/lib.rs", "// SPDX-License-Identifier: MIT\n");
            hide_from_git(at);
        },
    ),
    example_row(
        "no-todo",
        |at| append_file(at, "docs/guide.md", "Done.\n"),
        |at| {
            append_file(at, "docs/guide.md", "Well, TODO.\n");
            hide_from_git(at);
        },
    ),
    example_row("docs-only", add_line, |at| {
        move_file(at, "docs/guide.md", "src/guide.txt");
    }),
    ExampleRow {
        ends: ExpectedEnd::Hard,
        ..example_row("hands-off-ci", add_line, |at| {
            write_file(at, ".github/workflows/ci.yml", "on: [push]\n");
        })
    },
    ExampleRow {
        fails: ExampleChange {
            project: "release",
            ..example_change(add_line)
        },
        ..example_row("not-on-release", add_line, add_line)
    },
    ExampleRow {
        holds: ExampleChange {
            goal: "Tidy the shop, SHOP-12",
            ..example_change(add_line)
        },
        ..example_row("ticket", add_line, add_line)
    },
    ExampleRow {
        // Every change is asked about; the first is answered before it is landed.
        ends: ExpectedEnd::Asked,
        ..example_row("security", add_line, add_line)
    },
    example_row("security-paths", add_line, |at| {
        write_file(at, "security/roles.txt", "everybody: root\n");
    }),
];

/// What an agent might try: a file that makes git show no lines.
fn hide_from_git(at: &Path) {
    write_file(at, ".gitattributes", "* -diff -whitespace\n");
}

fn write_file(at: &Path, path: &str, text: &str) {
    let path = at.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn append_file(at: &Path, path: &str, text: &str) {
    let before = std::fs::read_to_string(at.join(path)).unwrap();
    write_file(at, path, &format!("{before}{text}"));
}

fn move_file(at: &Path, from: &str, to: &str) {
    std::fs::rename(at.join(from), at.join(to)).unwrap();
}

/// Stands in for the tool that the examples name: what it would find fault with is easy to write.
const CARGO_SCRIPT: &str = "#!/bin/sh
case \"$1\" in
  test) ! grep -rn 'assert!(false)' tests ;;
  fmt) ! grep -rn '\t' src ;;
  *) exit 9 ;;
esac
";

/// A yard whose repository has one rule, committed.
struct RuledRepository {
    repo: ShopRepository,
    _tools: tempfile::TempDir,
}

impl RuledRepository {
    fn with_rules(rules: &str) -> Self {
        let tools = tempfile::TempDir::with_prefix("planwright-tools-").unwrap();
        testkit::write_program(&tools.path().join("cargo"), CARGO_SCRIPT);
        let mut program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
        let path = format!("{}:/usr/bin:/bin:/usr/local/bin", tools.path().display());
        program.set_variable("PATH", path);
        let repo = ShopRepository::with_program(program);
        let shop = repo.shop_path();
        for (path, text) in [
            (
                "src/lib.rs",
                "// SPDX-License-Identifier: MIT\npub fn first() {}\n",
            ),
            (
                "tests/first.rs",
                "// a test that is long enough to be recognised\n",
            ),
            (
                "docs/guide.md",
                "# Guide\n\nHow the shop is run, day by day. TODO\n",
            ),
            ("migrations/1.sql", "create table customers;\n"),
            ("Cargo.toml", "[dependencies]\n"),
            ("Cargo.lock", "# nothing\n"),
            ("planwright.yaml", rules),
        ] {
            write_file(&shop, path, text);
        }
        std::fs::write(shop.join("logo.png"), b"\x89PNG\0").unwrap();
        repo.commit_all("rules");
        repo.run_git(&["branch", "release-1"]);
        let shop = shop.to_str().unwrap().to_owned();
        let release = ["project", "create", "release", "--git", &shop];
        repo.run_ok(&[&release[..], &["--branch", "release-1"]].concat());
        Self {
            repo,
            _tools: tools,
        }
    }

    /// Takes a new plan as far as it goes, and says how the last step ended.
    fn try_change(&self, wanted: ExampleChange) -> (String, TestRunOutput) {
        let words = ["use", "tidy", wanted.project, "--goal", wanted.goal];
        let made = self.repo.run_ok(&words);
        let plan = made["plan_id"].as_str().unwrap().to_owned();
        let said = self.continue_plan(&plan, wanted.work);
        (plan, said)
    }

    /// The same from where it stands.
    fn continue_plan(&self, plan: &str, work: fn(&Path)) -> TestRunOutput {
        let plumbing = |words: &[&str]| self.repo.run(&[&["plumbing"], words].concat());
        if self.repo.plan_state(plan) == "strategize/queued" {
            let said = plumbing(&["start-strategize", plan, "--owner", "bot"]);
            if said.exit_code() != Some(0) {
                return said;
            }
            let said = plumbing(&["complete-strategize", plan, "--epoch", "1"]);
            assert_eq!(said.exit_code(), Some(0), "{said:?}");
        }
        if self.repo.plan_state(plan) == "strategize/complete" {
            let said = plumbing(&["execute-plan", plan]);
            if said.exit_code() != Some(0) {
                return said;
            }
            let claimed = plumbing(&["start-execute", plan, "--owner", "bot"]).data();
            let sandbox = claimed["sandboxes"][0]["path"].as_str().unwrap().to_owned();
            work(Path::new(&sandbox));
            let said = plumbing(&["complete-execute", plan, "--epoch", "2"]);
            assert_eq!(said.exit_code(), Some(0), "{said:?}");
        }
        self.repo.run(&["apply", plan, "--yes"])
    }

    fn branch_tips(&self) -> String {
        self.repo.run_git(&["for-each-ref", "refs/heads"])
    }
}

/// The examples of the page: the name of each, and its text.
fn read_examples() -> Vec<(String, String)> {
    let (_, rest) = RULES_PAGE.split_once("<!-- examples -->").unwrap();
    let mut found = Vec::new();
    for block in rest.split("```yaml\n").skip(1) {
        let (rule, _) = block.split_once("```").unwrap();
        let name = rule.lines().next().unwrap();
        let name = name.strip_prefix("- name: ").unwrap().to_owned();
        found.push((name, rule.to_owned()));
    }
    found
}

#[test]
fn every_example_is_tried_and_nothing_else() {
    let shown: Vec<String> = read_examples().into_iter().map(|(name, _)| name).collect();
    assert!(shown.len() >= 20, "{shown:?}");
    let tried: BTreeSet<&str> = EXAMPLE_ROWS.iter().map(|row| row.name).collect();
    let distinct: BTreeSet<&str> = shown.iter().map(String::as_str).collect();
    assert_eq!(distinct, tried);
    assert_eq!(shown.len(), tried.len(), "a name is there twice");
}

/// Each has a repository of its own, which is as it was before the second try.
fn try_examples(numbers: impl Iterator<Item = usize>) {
    let examples = read_examples();
    for (name, rule) in numbers.filter_map(|number| examples.get(number)) {
        let row = EXAMPLE_ROWS.iter().find(|row| row.name == name).unwrap();
        let indented = rule.lines().map(|line| format!("  {line}\n"));
        let text = format!("invariants:\n{}", indented.collect::<String>());
        let ruled = RuledRepository::with_rules(&text);
        let start = ruled.repo.run_git(&["rev-parse", "HEAD"]);
        assert_lets_through(&ruled, row);
        ruled.repo.run_git(&["reset", "-q", "--hard", &start]);
        assert_refuses(&ruled, row);
    }
}

#[test]
fn the_examples_do_what_they_say_first_third() {
    try_examples((0..EXAMPLE_ROWS.len()).step_by(3));
}

#[test]
fn the_examples_do_what_they_say_second_third() {
    try_examples((1..EXAMPLE_ROWS.len()).step_by(3));
}

#[test]
fn the_examples_do_what_they_say_last_third() {
    try_examples((2..EXAMPLE_ROWS.len()).step_by(3));
}

fn assert_lets_through(ruled: &RuledRepository, row: &ExampleRow) {
    let (plan, mut said) = ruled.try_change(row.holds);
    if row.ends == ExpectedEnd::Asked {
        assert_eq!(said.exit_code(), Some(6), "{}: {said:?}", row.name);
        let why = ruled.repo.run(&["why", &plan]).messages();
        assert!(why.contains("--rule security"), "{why}");
        ruled.repo.run_ok(&["approve", &plan, "--rule", row.name]);
        said = ruled.repo.run(&["apply", &plan, "--yes"]);
    }
    assert_eq!(said.exit_code(), Some(0), "{}: {said:?}", row.name);
    assert_eq!(
        ruled.repo.plan_state(&plan),
        "apply/applied",
        "{}",
        row.name
    );
}

fn assert_refuses(ruled: &RuledRepository, row: &ExampleRow) {
    let before = ruled.branch_tips();
    let (plan, said) = ruled.try_change(row.fails);
    let (name, repo) = (row.name, &ruled.repo);
    let refused = |said: &TestRunOutput, code: i32| {
        assert_eq!(said.exit_code(), Some(code), "{name}: {said:?}");
        assert!(said.messages().contains(name), "{name}: {said:?}");
        assert_eq!(ruled.branch_tips(), before, "{name}: something landed");
    };
    match row.ends {
        ExpectedEnd::Remarked => {
            assert_eq!(said.exit_code(), Some(0), "{name}: {said:?}");
            let log = repo.run_ok(&["log", &plan]).to_string();
            assert!(log.contains("\"advised\":1"), "{name}: {log}");
        }
        ExpectedEnd::Asked => {
            refused(&said, 6);
            repo.run_ok(&[
                "approve",
                &plan,
                "--rule",
                name,
                "--reject",
                "a door is open",
            ]);
            let said = repo.run(&["apply", &plan, "--yes"]);
            refused(&said, 5);
            assert!(said.messages().contains("a door is open"), "{said:?}");
        }
        ExpectedEnd::Hard => {
            refused(&said, 5);
            repo.run_bad(5, &["waive", &plan, name, "--reason", "please"], name);
            refused(&repo.run(&["apply", &plan, "--yes"]), 5);
        }
        ExpectedEnd::Waivable => {
            refused(&said, 5);
            repo.run_ok(&["waive", &plan, name, "--reason", "this once"]);
            let said = ruled.continue_plan(&plan, row.fails.work);
            assert_eq!(said.exit_code(), Some(0), "{name}: {said:?}");
        }
    }
}

/// A whole file, as the page shows it, is one that a repository can have.
#[test]
fn the_file_of_the_page_is_in_force_as_it_is_shown() {
    let (_, rest) = RULES_PAGE
        .split_once("### Rules in `planwright.yaml`")
        .unwrap();
    let (_, rest) = rest.split_once("```yaml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let ruled = RuledRepository::with_rules(file);
    let plan = ruled.repo.run_ok(&["use", "tidy", "shop"]);
    let plan = plan["plan_id"].as_str().unwrap();
    let rules = ruled.repo.run_ok(&["rule", "list", "--effective", plan]);
    let rules = rules["rules"].as_array().unwrap();
    let named: Vec<&Value> = rules.iter().map(|rule| &rule["name"]).collect();
    assert_eq!(named, ["no-migrations", "small", "tests"]);
    assert!(
        rules
            .iter()
            .all(|rule| rule["scope"] == "repository:shop/shop")
    );
}

/// Runs lines in a repository `shop` with an actor `scribe`, as a shell would.
#[allow(
    clippy::disallowed_methods,
    reason = "the page shows what is typed into a shell"
)]
fn run_typed_lines(before: &str, lines: &str) {
    let place = tempfile::TempDir::with_prefix("planwright-page-").unwrap();
    let programs = place.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("planwright");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_planwright"), program).unwrap();
    let scribe = "name: scribe\nkind: command\ncommand: [sh, ~/scribe.sh]\n";
    write_file(place.path(), "scribe.yaml", scribe);
    let work = "echo \"- $PLANWRIGHT_GOAL\" >> TODO.md\n";
    write_file(place.path(), "scribe.sh", work);
    let script = format!(
        "git init -q -b main shop && cd shop && git config user.name Ada \
         && git config user.email ada@example.org && git commit -q --allow-empty -m start\n\
         planwright agent add ../scribe.yaml\n\
         planwright project create shop --git .\n{before}\n{}",
        make_script(lines)
    );
    let output = std::process::Command::new("/bin/sh")
        .args(["-e", "-c", &script])
        .env_clear()
        .env("LLVM_PROFILE_FILE", "/dev/null")
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin:/usr/local/bin", programs.display()),
        )
        .env("HOME", place.path())
        .env("PLANWRIGHT_HOME", place.path().join("home"))
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

#[test]
fn the_first_lines_of_the_page_work_as_written() {
    run_typed_lines("", find_block_after(RULES_PAGE, "<!-- in a minute"));
}

#[test]
fn the_lines_about_kinds_work_as_written() {
    run_typed_lines("", find_block_after(RULES_PAGE, "<!-- kinds"));
}

#[test]
fn the_lines_about_asking_work_as_written() {
    let before = "planwright rule add wording --ask 'Is it well said?' --at apply\n\
                  planwright run --agent scribe 'Write a line' && exit 1 || [ $? -eq 6 ]";
    run_typed_lines(before, find_block_after(RULES_PAGE, "<!-- asking"));
}

/// The README's rules are accepted, and each of the four takes part in the decision.
#[test]
fn the_rules_of_the_readme_work_as_written() {
    let (_, after) = README.split_once("```yaml\n").unwrap();
    let (yaml, _) = after.split_once("```").unwrap();
    let ruled = RuledRepository::with_rules(&yaml.replace("cargo test", "test -e never"));
    let add_secret = example_change(|at| write_file(at, "deploy/key.pem", "secret\n"));
    let (plan, applied) = ruled.try_change(add_secret);
    assert_eq!(applied.exit_code(), Some(5), "{applied:?}");
    let why = ruled.repo.run(&["why", &plan]);
    let data = why.data();
    let failed: Vec<&str> = data["gate"]["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["rule"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["no-secrets", "owner", "tests"], "{why:?}");
    assert_eq!(data["gate"]["counts"]["held"], 1, "{why:?}");
}
