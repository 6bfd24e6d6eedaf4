//! One table: every form of landing, on every kind of resource, under every kind of rule from everywhere a rule can
//! come from, holding, failing and advisory. What has to come of each cell is computed by [`Cell::expected`].
//!
//! Rules of all kinds and scopes are in force at once: the answer names each that failed, so that a rule nobody asked
//! is missed as surely as one that was asked and should not have failed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::yard::Yard;

const FORMS: &[(&str, &[&str])] = &[
    ("commit", &["--as", "commit"]),
    ("branch", &["--as", "branch", "side"]),
    ("uncommitted", &["--as", "uncommitted"]),
    ("merge", &["--merge"]),
    ("paths", &["--", "new.txt"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    CheckedOut,
    NotCheckedOut,
    Bare,
    Directory,
}

const SCOPES: &[&str] = &["repository", "project", "global", "action", "plan"];

/// The kind, and the check that holds for [`work`] and the one that does not, as flags and as YAML.
const KINDS: &[(&str, [&str; 2])] = &[
    (
        "expr",
        [
            "changes.exists(c, c.path == 'new.txt')",
            "changes.size() > 9",
        ],
    ),
    ("allow", ["{new.txt,src/**}", "docs/**"]),
    ("forbid", ["docs/**", "new.*"]),
    ("command", ["test -e new.txt", "test ! -e new.txt"]),
    ("ask", ["Is it fine?", "Is it fine?"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Fails,
    Advises,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Advises => "advises",
        }
    }

    fn check<'a>(self, checks: &[&'a str; 2]) -> &'a str {
        match self {
            Self::Holds => checks[0],
            Self::Fails | Self::Advises => checks[1],
        }
    }
}

fn rule_name(kind: &str, scope: &str, verdict: Verdict) -> String {
    format!("{kind}-{scope}-{}", verdict.word())
}

/// One landing.
struct Cell {
    form: &'static str,
    resource: Resource,
    /// Is there a rule that fails, in every scope and of every kind?
    is_failing: bool,
}

/// What has to come of it: the exit code, and whether it arrives.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Lands,
    /// A rule stops it.
    Blocked,
    /// There is no such landing on such a resource.
    Impossible,
}

/// How the rules in force come out.
fn verdicts(is_failing: bool) -> &'static [Verdict] {
    match is_failing {
        true => &[Verdict::Fails],
        false => &[Verdict::Holds, Verdict::Advises],
    }
}

impl Cell {
    fn verdicts(&self) -> &'static [Verdict] {
        verdicts(self.is_failing)
    }

    fn expected(&self) -> Expected {
        let impossible = matches!(
            (self.form, self.resource),
            ("branch", Resource::Directory) | ("uncommitted", Resource::Bare)
        );
        match (impossible, self.is_failing) {
            (true, _) => Expected::Impossible,
            (false, true) => Expected::Blocked,
            (false, false) => Expected::Lands,
        }
    }

    fn name(&self) -> String {
        let rules = if self.is_failing {
            "failing"
        } else {
            "holding"
        };
        format!("{} on {:?} under {rules} rules", self.form, self.resource)
    }
}

/// A resource with a project, and rules for it.
struct Table {
    yard: Yard,
    resource: Resource,
    place: PathBuf,
}

const FILES: &[(&str, &str)] = &[("src/a.txt", "one\n"), ("README.md", "# Shop\n")];

impl Table {
    fn new(resource: Resource, verdicts: &[Verdict]) -> Self {
        let yard = Yard::new();
        let beside = |name: &str| yard.shop().parent().unwrap().join(name);
        let place = match resource {
            Resource::CheckedOut | Resource::NotCheckedOut => yard.shop(),
            Resource::Bare => beside("bare.git"),
            Resource::Directory => beside("notes"),
        };
        for (path, text) in FILES {
            yard.write(path, text);
        }
        let table = Self {
            yard,
            resource,
            place,
        };
        table.lay_down_rules(verdicts);
        let place = table.place.to_str().unwrap();
        let how: &[&str] = match resource {
            Resource::CheckedOut => &["--git", place],
            Resource::NotCheckedOut => &["--git", place, "--branch", "dev"],
            Resource::Bare => &["--git", place, "--branch", "main"],
            Resource::Directory => &["--dir", place],
        };
        table
            .yard
            .ok(&[&["project", "create", "table"], how].concat());
        table.add_rules(verdicts);
        table
    }

    /// The branch that results land on.
    fn target(&self) -> &'static str {
        match self.resource {
            Resource::NotCheckedOut => "dev",
            Resource::CheckedOut | Resource::Bare | Resource::Directory => "main",
        }
    }

    /// Rules of the repository, as its file has them.
    fn lay_down_rules(&self, verdicts: &[Verdict]) {
        let mut text = "invariants:\n".to_owned();
        for verdict in verdicts {
            for (kind, checks) in KINDS {
                let name = rule_name(kind, "repository", *verdict);
                let check = verdict.check(checks);
                text.push_str(&format!("  - name: {name}\n    {kind}: \"{check}\"\n"));
                if *verdict == Verdict::Advises {
                    text.push_str("    advisory: true\n");
                }
            }
        }
        self.yard.write("planwright.yaml", &text);
        self.yard.git(&["checkout", "-q", "main"]);
        self.yard.commit("rules");
        self.yard.git(&["branch", "-f", "dev"]);
        match self.resource {
            Resource::CheckedOut | Resource::NotCheckedOut => {}
            Resource::Bare => {
                let place = self.place.to_str().unwrap();
                self.yard.git(&["clone", "-q", "--bare", ".", place]);
            }
            Resource::Directory => {
                std::fs::create_dir_all(self.place.join("src")).unwrap();
                for path in ["planwright.yaml", "src/a.txt", "README.md"] {
                    std::fs::write(self.place.join(path), self.yard.read(path)).unwrap();
                }
            }
        }
    }

    fn add_rules(&self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            self.add_rule_of_each_kind("project", &["--project", "table"], *verdict);
            self.add_rule_of_each_kind("global", &["--global"], *verdict);
            self.add_rule_of_each_kind("action", &["--action", "tidy"], *verdict);
        }
    }

    fn add_rule_of_each_kind(&self, scope: &str, flags: &[&str], verdict: Verdict) {
        for (kind, checks) in KINDS {
            let name = rule_name(kind, scope, verdict);
            let kind = format!("--{kind}={}", verdict.check(checks));
            let mut words = vec!["invariant", "add", &name, &kind];
            words.extend(flags);
            if verdict == Verdict::Advises {
                words.push("--advisory");
            }
            self.yard.ok(&words);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
    fn git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(words)
            .current_dir(&self.place)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Every place where a result could arrive, with what is there.
    fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        if self.resource != Resource::Directory {
            state.push(self.git(&["for-each-ref", "refs/heads"]));
        }
        if self.resource != Resource::Bare {
            for path in ["new.txt", "src/a.txt"] {
                let text = std::fs::read_to_string(self.place.join(path));
                state.push(text.unwrap_or_else(|_| "not there".to_owned()));
            }
        }
        if matches!(
            self.resource,
            Resource::CheckedOut | Resource::NotCheckedOut
        ) {
            state.push(self.git(&["status", "--porcelain"]));
        }
        state
    }

    /// What a branch has in both files; of a directory or working tree, what is there.
    fn arrived(&self, branch: Option<&str>) -> [String; 2] {
        ["new.txt", "src/a.txt"].map(|path| match branch {
            Some(branch) => self.git(&["show", &format!("{branch}:{path}")]),
            None => {
                let text = std::fs::read_to_string(self.place.join(path));
                text.unwrap_or_default().trim().to_owned()
            }
        })
    }

    /// Back to how it was.
    fn restore(&self) {
        match self.resource {
            Resource::CheckedOut | Resource::NotCheckedOut => {
                let start = self.git(&["rev-parse", "refs/start"]);
                self.git(&["checkout", "-q", "-f", "main"]);
                self.git(&["reset", "-q", "--hard", &start]);
                self.git(&["clean", "-q", "-f", "-d"]);
                self.git(&["branch", "-f", "dev", &start]);
                self.git(&["branch", "-D", "side"]);
            }
            Resource::Bare => {
                self.git(&["update-ref", "refs/heads/main", "refs/start"]);
                self.git(&["branch", "-D", "side"]);
            }
            Resource::Directory => {
                let _ = std::fs::remove_file(self.place.join("new.txt"));
                std::fs::write(self.place.join("src/a.txt"), FILES[0].1).unwrap();
            }
        }
    }

    /// Tries every form; says what went wrong, cell by cell.
    fn try_forms(&self, is_failing: bool) -> Vec<String> {
        self.git(&["update-ref", "refs/start", "refs/heads/main"]);
        let mut wrong = Vec::new();
        for (form, flags) in FORMS {
            let cell = Cell {
                form,
                resource: self.resource,
                is_failing,
            };
            if let Err(why) = self.try_one(&cell, flags) {
                wrong.push(format!("{}: {why}", cell.name()));
            }
            self.restore();
        }
        wrong
    }

    fn try_one(&self, cell: &Cell, flags: &[&str]) -> Result<(), String> {
        let plan = self.yard.handed_in_to("table", |sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
            std::fs::write(sandbox.join("src/a.txt"), "ONE\n").unwrap();
        });
        for verdict in cell.verdicts() {
            self.add_rule_of_each_kind("plan", &["--plan", &plan], *verdict);
        }
        // Those of the others that ask are left open.
        if !cell.is_failing {
            for scope in SCOPES {
                let rule = rule_name("ask", scope, Verdict::Holds);
                self.yard.ok(&["approve", &plan, "--rule", &rule]);
            }
        }
        let before = self.state();
        let said = self
            .yard
            .run(&[&["apply", plan.as_str(), "--yes"], flags].concat());
        let told = || format!("exit {:?}: {}", said.code(), said.messages());
        let unmoved = || match self.state() == before {
            true => Ok(()),
            false => Err(format!("something moved: {before:?} to {:?}", self.state())),
        };
        match cell.expected() {
            Expected::Lands if said.code() != Some(0) => Err(told()),
            Expected::Lands => self.check_arrival(cell, &said.data()),
            Expected::Blocked if said.code() != Some(5) => Err(told()),
            Expected::Blocked => {
                let data = said.data();
                let failed = data["failed"].as_array().cloned().unwrap_or_default();
                let name = |rule: &Value| rule["rule"]["name"].as_str().unwrap().to_owned();
                let failed: BTreeSet<String> = failed.iter().map(name).collect();
                let all = SCOPES.iter().flat_map(|scope| {
                    KINDS
                        .iter()
                        .map(|(kind, _)| rule_name(kind, scope, Verdict::Fails))
                });
                let all: BTreeSet<String> = all.collect();
                if failed != all {
                    let differ: Vec<_> = failed.symmetric_difference(&all).collect();
                    return Err(format!("these rules were judged wrongly: {differ:?}"));
                }
                unmoved()
            }
            Expected::Impossible if said.code() != Some(4) => Err(told()),
            Expected::Impossible => {
                let state = self.yard.state_of(&plan);
                if state != "execute/complete" {
                    return Err(format!("the plan went to {state}"));
                }
                unmoved()
            }
        }
    }

    fn check_arrival(&self, cell: &Cell, data: &Value) -> Result<(), String> {
        let (new, old) = (["new", "ONE"], ["", "one"]);
        let partly = ["new", "one"];
        let in_files = self.resource != Resource::Bare;
        // Where, and what has to be there.
        let on_target = match cell.form {
            "commit" | "merge" => new,
            "paths" => partly,
            _ => old,
        };
        let mut places = Vec::new();
        match self.resource {
            Resource::Directory => {
                let expected = if cell.form == "paths" { partly } else { new };
                places.push((None, expected));
            }
            Resource::CheckedOut | Resource::NotCheckedOut | Resource::Bare => {
                places.push((Some(self.target()), on_target));
                if cell.form == "branch" {
                    places.push((Some("side"), new));
                }
            }
        }
        if in_files && self.resource != Resource::Directory {
            places.push(match (cell.form, self.resource) {
                ("uncommitted", _) => (None, new),
                (_, Resource::CheckedOut) => (None, on_target),
                _ => (None, old),
            });
        }
        for (branch, expected) in places {
            let found = self.arrived(branch);
            if found != expected {
                return Err(format!("{branch:?} has {found:?}, not {expected:?}"));
            }
        }
        if (cell.form == "paths") != data["rest"].is_string() {
            return Err(format!("the rest is {}", data["rest"]));
        }
        Ok(())
    }
}

fn try_all(resource: Resource) {
    let tables = [false, true].map(|is_failing| {
        let table = Table::new(resource, verdicts(is_failing));
        table.try_forms(is_failing)
    });
    let wrong = tables.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_form_lands_under_every_rule_where_the_branch_is_checked_out() {
    try_all(Resource::CheckedOut);
}

#[test]
fn every_form_lands_under_every_rule_where_the_branch_is_not_checked_out() {
    try_all(Resource::NotCheckedOut);
}

#[test]
fn every_form_lands_under_every_rule_in_a_bare_repository() {
    try_all(Resource::Bare);
}

#[test]
fn every_form_lands_under_every_rule_in_a_directory() {
    try_all(Resource::Directory);
}
