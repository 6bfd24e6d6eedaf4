//! The page about rules: every example lets one change through and refuses another, and its lines work as
//! they are written.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use testkit::{Program, Said};

use crate::tour::{block_after, script_of};
use crate::yard::Yard;

const PAGE: &str = include_str!("../../../../docs/invariants.md");

/// What is tried under one example.
struct Row {
    name: &'static str,
    /// What lands.
    holds: Try,
    /// What does not, at least not like this.
    fails: Try,
    /// How that ends.
    ends: Ends,
}

/// A change, and what it is made for.
#[derive(Clone, Copy)]
struct Try {
    goal: &'static str,
    project: &'static str,
    work: fn(&Path),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Blocked; it lands once the rule is waived.
    Waivable,
    /// Blocked, and nobody waives it.
    Hard,
    /// It waits for a person.
    Asked,
    /// It lands, and the rule is counted.
    Remarked,
}

const fn change(work: fn(&Path)) -> Try {
    Try {
        goal: "Tidy the shop",
        project: "shop",
        work,
    }
}

const fn row(name: &'static str, holds: fn(&Path), fails: fn(&Path)) -> Row {
    Row {
        name,
        holds: change(holds),
        fails: change(fails),
        ends: Ends::Waivable,
    }
}

/// One line in a document that nothing is said about.
fn a_line(at: &Path) {
    write(at, "docs/guide.md", "One line.\n");
}

const ROWS: &[Row] = &[
    row("no-migrations", a_line, |at| {
        write(at, "migrations/2.sql", "drop table customers;\n");
    }),
    row("small", a_line, |at| {
        write(at, "docs/long.md", &"word\n".repeat(401));
        hidden_from_git(at);
    }),
    Row {
        ends: Ends::Remarked,
        ..row("size-hint", a_line, |at| {
            write(at, "docs/long.md", &"word\n".repeat(101));
        })
    },
    row(
        "tests-with-code",
        |at| {
            write(at, "src/more.rs", "// more\n");
            write(at, "tests/more.rs", "// tested\n");
        },
        |at| {
            write(at, "src/more.rs", "// more\n");
            std::fs::remove_file(at.join("tests/first.rs")).unwrap();
        },
    ),
    row(
        "tests-stay",
        |at| moved(at, "tests/first.rs", "tests/one.rs"),
        |at| moved(at, "tests/first.rs", "docs/first.rs"),
    ),
    row("tests", a_line, |at| {
        write(at, "tests/second.rs", "assert!(false);\n");
    }),
    row("formatted", a_line, |at| {
        write(at, "src/more.rs", "\tlet a = 1;\n");
    }),
    row("clean-lines", a_line, |at| {
        write(at, "docs/guide.md", "One line. \n");
        hidden_from_git(at);
    }),
    Row {
        holds: Try {
            goal: "Add a dependency on rand",
            ..change(|at| write(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n"))
        },
        ..row("no-new-dependencies", a_line, |at| {
            write(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n");
        })
    },
    row(
        "lock-with-manifest",
        |at| {
            write(at, "Cargo.lock", "# rand\n");
            write(at, "Cargo.toml", "[dependencies]\nrand = \"1\"\n");
        },
        |at| write(at, "Cargo.lock", "# by hand\n"),
    ),
    row("no-large-files", a_line, |at| {
        write(at, "docs/book.txt", &"a page of it\n".repeat(100_000));
    }),
    row(
        "no-binaries",
        |at| std::fs::remove_file(at.join("logo.png")).unwrap(),
        |at| std::fs::write(at.join("other.png"), b"\x89PNG\0\0").unwrap(),
    ),
    row("plain-files", a_line, |at| {
        write(at, "tool.sh", "#!/bin/sh\n");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(at.join("tool.sh"), executable).unwrap();
    }),
    row(
        "licence-header",
        |at| {
            write(
                at,
                "src/more.rs",
                "// SPDX-License-Identifier: MIT\nfn c() {}\n",
            )
        },
        |at| write(at, "src/more.rs", "fn c() {}\n"),
    ),
    row(
        "public-api",
        |at| append(at, "src/lib.rs", "pub fn second() {}\n"),
        |at| {
            write(at, "src/lib.rs", "// SPDX-License-Identifier: MIT\n");
            hidden_from_git(at);
        },
    ),
    row(
        "no-todo",
        |at| append(at, "docs/guide.md", "Done.\n"),
        |at| {
            append(at, "docs/guide.md", "Well, TODO.\n");
            hidden_from_git(at);
        },
    ),
    row("docs-only", a_line, |at| {
        moved(at, "docs/guide.md", "src/guide.txt");
    }),
    Row {
        ends: Ends::Hard,
        ..row("hands-off-ci", a_line, |at| {
            write(at, ".github/workflows/ci.yml", "on: [push]\n");
        })
    },
    Row {
        fails: Try {
            project: "release",
            ..change(a_line)
        },
        ..row("not-on-release", a_line, a_line)
    },
    Row {
        holds: Try {
            goal: "Tidy the shop, SHOP-12",
            ..change(a_line)
        },
        ..row("ticket", a_line, a_line)
    },
    Row {
        // Every change is asked about; the first is answered before it is landed.
        ends: Ends::Asked,
        ..row("security", a_line, a_line)
    },
    row("security-paths", a_line, |at| {
        write(at, "security/roles.txt", "everybody: root\n");
    }),
];

/// What an agent might try: a file that makes git show no lines.
fn hidden_from_git(at: &Path) {
    write(at, ".gitattributes", "* -diff -whitespace\n");
}

fn write(at: &Path, path: &str, text: &str) {
    let path = at.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn append(at: &Path, path: &str, text: &str) {
    let before = std::fs::read_to_string(at.join(path)).unwrap();
    write(at, path, &format!("{before}{text}"));
}

fn moved(at: &Path, from: &str, to: &str) {
    std::fs::rename(at.join(from), at.join(to)).unwrap();
}

/// Stands in for the tool that the examples name: what it would find fault with is easy to write.
const CARGO: &str = "#!/bin/sh
case \"$1\" in
  test) ! grep -rn 'assert!(false)' tests ;;
  fmt) ! grep -rn '\t' src ;;
  *) exit 9 ;;
esac
";

/// A yard whose repository has one rule, committed.
struct Ruled {
    yard: Yard,
    _tools: tempfile::TempDir,
}

impl Ruled {
    fn by(rules: &str) -> Self {
        let tools = tempfile::TempDir::with_prefix("planwright-tools-").unwrap();
        testkit::write_program(&tools.path().join("cargo"), CARGO);
        let mut program = Program::new(env!("CARGO_BIN_EXE_planwright"));
        let path = format!("{}:/usr/bin:/bin:/usr/local/bin", tools.path().display());
        program.set("PATH", path);
        let yard = Yard::with(program);
        let shop = yard.shop();
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
            write(&shop, path, text);
        }
        std::fs::write(shop.join("logo.png"), b"\x89PNG\0").unwrap();
        yard.commit("rules");
        yard.git(&["branch", "release-1"]);
        let shop = shop.to_str().unwrap().to_owned();
        let release = ["project", "create", "release", "--git", &shop];
        yard.ok(&[&release[..], &["--branch", "release-1"]].concat());
        Self {
            yard,
            _tools: tools,
        }
    }

    /// Takes a new plan as far as it goes, and says how the last step ended.
    fn tried(&self, wanted: Try) -> (String, Said) {
        let words = ["use", "tidy", wanted.project, "--goal", wanted.goal];
        let made = self.yard.ok(&words);
        let plan = made["plan_id"].as_str().unwrap().to_owned();
        let said = self.go_on(&plan, wanted.work);
        (plan, said)
    }

    /// The same from where it stands.
    fn go_on(&self, plan: &str, work: fn(&Path)) -> Said {
        let plumbing = |words: &[&str]| self.yard.run(&[&["plumbing"], words].concat());
        if self.yard.state_of(plan) == "strategize/queued" {
            let said = plumbing(&["start-strategize", plan, "--owner", "bot"]);
            if said.code() != Some(0) {
                return said;
            }
            let said = plumbing(&["complete-strategize", plan, "--epoch", "1"]);
            assert_eq!(said.code(), Some(0), "{said:?}");
        }
        if self.yard.state_of(plan) == "strategize/complete" {
            let said = plumbing(&["execute-plan", plan]);
            if said.code() != Some(0) {
                return said;
            }
            let claimed = plumbing(&["start-execute", plan, "--owner", "bot"]).data();
            let sandbox = claimed["sandboxes"][0]["path"].as_str().unwrap().to_owned();
            work(Path::new(&sandbox));
            let said = plumbing(&["complete-execute", plan, "--epoch", "2"]);
            assert_eq!(said.code(), Some(0), "{said:?}");
        }
        self.yard.run(&["apply", plan, "--yes"])
    }

    fn tips(&self) -> String {
        self.yard.git(&["for-each-ref", "refs/heads"])
    }
}

/// The examples of the page: the name of each, and its text.
fn examples() -> Vec<(String, String)> {
    let (_, rest) = PAGE.split_once("<!-- examples -->").unwrap();
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
    let shown: Vec<String> = examples().into_iter().map(|(name, _)| name).collect();
    assert!(shown.len() >= 20, "{shown:?}");
    let tried: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
    let distinct: BTreeSet<&str> = shown.iter().map(String::as_str).collect();
    assert_eq!(distinct, tried);
    assert_eq!(shown.len(), tried.len(), "a name is there twice");
}

/// Each has a repository of its own, which is as it was before the second try.
fn try_those(numbers: impl Iterator<Item = usize>) {
    let examples = examples();
    for (name, rule) in numbers.filter_map(|number| examples.get(number)) {
        let row = ROWS.iter().find(|row| row.name == name).unwrap();
        let indented = rule.lines().map(|line| format!("  {line}\n"));
        let text = format!("invariants:\n{}", indented.collect::<String>());
        let ruled = Ruled::by(&text);
        let start = ruled.yard.git(&["rev-parse", "HEAD"]);
        lets_through(&ruled, row);
        ruled.yard.git(&["reset", "-q", "--hard", &start]);
        refuses(&ruled, row);
    }
}

#[test]
fn the_examples_do_what_they_say_first_third() {
    try_those((0..ROWS.len()).step_by(3));
}

#[test]
fn the_examples_do_what_they_say_second_third() {
    try_those((1..ROWS.len()).step_by(3));
}

#[test]
fn the_examples_do_what_they_say_last_third() {
    try_those((2..ROWS.len()).step_by(3));
}

fn lets_through(ruled: &Ruled, row: &Row) {
    let (plan, mut said) = ruled.tried(row.holds);
    if row.ends == Ends::Asked {
        assert_eq!(said.code(), Some(6), "{}: {said:?}", row.name);
        let why = ruled.yard.run(&["why", &plan]).messages();
        assert!(why.contains("--rule security"), "{why}");
        ruled.yard.ok(&["approve", &plan, "--rule", row.name]);
        said = ruled.yard.run(&["apply", &plan, "--yes"]);
    }
    assert_eq!(said.code(), Some(0), "{}: {said:?}", row.name);
    assert_eq!(ruled.yard.state_of(&plan), "apply/applied", "{}", row.name);
}

fn refuses(ruled: &Ruled, row: &Row) {
    let before = ruled.tips();
    let (plan, said) = ruled.tried(row.fails);
    let (name, yard) = (row.name, &ruled.yard);
    let refused = |said: &Said, code: i32| {
        assert_eq!(said.code(), Some(code), "{name}: {said:?}");
        assert!(said.messages().contains(name), "{name}: {said:?}");
        assert_eq!(ruled.tips(), before, "{name}: something landed");
    };
    match row.ends {
        Ends::Remarked => {
            assert_eq!(said.code(), Some(0), "{name}: {said:?}");
            let log = yard.ok(&["log", &plan]).to_string();
            assert!(log.contains("\"advised\":1"), "{name}: {log}");
        }
        Ends::Asked => {
            refused(&said, 6);
            yard.ok(&[
                "approve",
                &plan,
                "--rule",
                name,
                "--reject",
                "a door is open",
            ]);
            let said = yard.run(&["apply", &plan, "--yes"]);
            refused(&said, 5);
            assert!(said.messages().contains("a door is open"), "{said:?}");
        }
        Ends::Hard => {
            refused(&said, 5);
            yard.bad(5, &["waive", &plan, name, "--reason", "please"], name);
            refused(&yard.run(&["apply", &plan, "--yes"]), 5);
        }
        Ends::Waivable => {
            refused(&said, 5);
            yard.ok(&["waive", &plan, name, "--reason", "this once"]);
            let said = ruled.go_on(&plan, row.fails.work);
            assert_eq!(said.code(), Some(0), "{name}: {said:?}");
        }
    }
}

/// A whole file, as the page shows it, is one that a repository can have.
#[test]
fn the_file_of_the_page_is_in_force_as_it_is_shown() {
    let (_, rest) = PAGE.split_once("### Rules in `planwright.yaml`").unwrap();
    let (_, rest) = rest.split_once("```yaml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let ruled = Ruled::by(file);
    let plan = ruled.yard.ok(&["use", "tidy", "shop"]);
    let plan = plan["plan_id"].as_str().unwrap();
    let rules = ruled.yard.ok(&["invariant", "list", "--effective", plan]);
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
fn typed(before: &str, lines: &str) {
    let place = tempfile::TempDir::with_prefix("planwright-page-").unwrap();
    let programs = place.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("planwright");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_planwright"), program).unwrap();
    let scribe = "name: scribe\nkind: command\ncommand: [sh, ~/scribe.sh]\n";
    write(place.path(), "scribe.yaml", scribe);
    let work = "echo \"- $PLANWRIGHT_GOAL\" >> TODO.md\n";
    write(place.path(), "scribe.sh", work);
    let script = format!(
        "git init -q -b main shop && cd shop && git config user.name Ada \
         && git config user.email ada@example.org && git commit -q --allow-empty -m start\n\
         planwright actor add ../scribe.yaml\n\
         planwright project create shop --git .\n{before}\n{}",
        script_of(lines)
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
    typed("", block_after(PAGE, "<!-- in a minute"));
}

#[test]
fn the_lines_about_kinds_work_as_written() {
    typed("", block_after(PAGE, "<!-- kinds"));
}

#[test]
fn the_lines_about_asking_work_as_written() {
    let before = "planwright invariant add wording --ask 'Is it well said?' --at apply\n\
                  planwright run --actor scribe 'Write a line' && exit 1 || [ $? -eq 6 ]";
    typed(before, block_after(PAGE, "<!-- asking"));
}
