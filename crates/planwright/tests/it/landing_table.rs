//! One table: every form of landing, on every kind of resource, under every kind of rule from everywhere a rule can
//! come from, holding, failing and advisory. What has to come of each cell is computed by [`Cell::expected`].
//!
//! Rules of all kinds and scopes are in force at once: the answer names each that failed, so that a rule nobody asked
//! is missed as surely as one that was asked and should not have failed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::shop_repository::ShopRepository;

const LANDING_FORMS: &[(&str, &[&str])] = &[
    ("commit", &["--as", "commit"]),
    ("branch", &["--as", "branch", "side"]),
    ("uncommitted", &["--as", "uncommitted"]),
    ("merge", &["--merge"]),
    ("paths", &["--", "new.txt"]),
    // With the hunk of `new.txt`.
    ("hunk", &["--hunk"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    CheckedOut,
    NotCheckedOut,
    Bare,
    Directory,
}

const RULE_SCOPES: &[&str] = &["repository", "project", "global", "action", "plan"];

/// The kind, and the check that holds for [`work`] and the one that does not, as flags and as YAML.
const RULE_KINDS: &[(&str, [&str; 2])] = &[
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
enum WantedVerdict {
    Holds,
    Fails,
    Advises,
}

impl WantedVerdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Advises => "advises",
        }
    }

    fn pick_check<'a>(self, checks: &[&'a str; 2]) -> &'a str {
        match self {
            Self::Holds => checks[0],
            Self::Fails | Self::Advises => checks[1],
        }
    }
}

fn rule_name(kind: &str, scope: &str, verdict: WantedVerdict) -> String {
    format!("{kind}-{scope}-{}", verdict.as_str())
}

/// One landing.
struct LandingCase {
    form: &'static str,
    resource: TargetKind,
    /// Is there a rule that fails, in every scope and of every kind?
    is_failing: bool,
}

/// What has to come of it: the exit code, and whether it arrives.
#[derive(Debug, PartialEq, Eq)]
enum CaseExpectation {
    Lands,
    /// A rule stops it.
    Blocked,
    /// There is no such landing on such a resource.
    Impossible,
}

/// How the rules in force come out.
fn wanted_verdicts(is_failing: bool) -> &'static [WantedVerdict] {
    match is_failing {
        true => &[WantedVerdict::Fails],
        false => &[WantedVerdict::Holds, WantedVerdict::Advises],
    }
}

impl LandingCase {
    /// Lands only `new.txt`.
    fn is_partial(&self) -> bool {
        matches!(self.form, "paths" | "hunk")
    }

    fn verdicts_in_force(&self) -> &'static [WantedVerdict] {
        wanted_verdicts(self.is_failing)
    }

    fn expected_landing(&self) -> CaseExpectation {
        let impossible = matches!(
            (self.form, self.resource),
            ("branch", TargetKind::Directory) | ("uncommitted", TargetKind::Bare)
        );
        match (impossible, self.is_failing) {
            (true, _) => CaseExpectation::Impossible,
            (false, true) => CaseExpectation::Blocked,
            (false, false) => CaseExpectation::Lands,
        }
    }

    fn case_name(&self) -> String {
        let rules = if self.is_failing {
            "failing"
        } else {
            "holding"
        };
        format!("{} on {:?} under {rules} rules", self.form, self.resource)
    }
}

/// A resource with a project, and rules for it.
struct LandingTable {
    repo: ShopRepository,
    resource: TargetKind,
    place: PathBuf,
}

const INITIAL_FILES: &[(&str, &str)] = &[("src/a.txt", "one\n"), ("README.md", "# Shop\n")];

impl LandingTable {
    fn new(resource: TargetKind, verdicts: &[WantedVerdict]) -> Self {
        let repo = ShopRepository::new();
        let beside = |name: &str| repo.shop_path().parent().unwrap().join(name);
        let place = match resource {
            TargetKind::CheckedOut | TargetKind::NotCheckedOut => repo.shop_path(),
            TargetKind::Bare => beside("bare.git"),
            TargetKind::Directory => beside("notes"),
        };
        for (path, text) in INITIAL_FILES {
            repo.write_file(path, text);
        }
        let table = Self {
            repo,
            resource,
            place,
        };
        table.write_repository_rules(verdicts);
        let place = table.place.to_str().unwrap();
        let how: &[&str] = match resource {
            TargetKind::CheckedOut => &["--git", place],
            TargetKind::NotCheckedOut => &["--git", place, "--branch", "dev"],
            TargetKind::Bare => &["--git", place, "--branch", "main"],
            TargetKind::Directory => &["--dir", place],
        };
        table
            .repo
            .run_ok(&[&["project", "create", "table"], how].concat());
        table.add_rules(verdicts);
        table
    }

    /// The branch that results land on.
    fn target_branch(&self) -> &'static str {
        match self.resource {
            TargetKind::NotCheckedOut => "dev",
            TargetKind::CheckedOut | TargetKind::Bare | TargetKind::Directory => "main",
        }
    }

    /// Rules of the repository, as its file has them.
    fn write_repository_rules(&self, verdicts: &[WantedVerdict]) {
        let mut text = "invariants:\n".to_owned();
        for verdict in verdicts {
            for (kind, checks) in RULE_KINDS {
                let name = rule_name(kind, "repository", *verdict);
                let check = verdict.pick_check(checks);
                text.push_str(&format!("  - name: {name}\n    {kind}: \"{check}\"\n"));
                if *verdict == WantedVerdict::Advises {
                    text.push_str("    advisory: true\n");
                }
            }
        }
        self.repo.write_file("planwright.yaml", &text);
        self.repo.run_git(&["checkout", "-q", "main"]);
        self.repo.commit_all("rules");
        self.repo.run_git(&["branch", "-f", "dev"]);
        match self.resource {
            TargetKind::CheckedOut | TargetKind::NotCheckedOut => {}
            TargetKind::Bare => {
                let place = self.place.to_str().unwrap();
                self.repo.run_git(&["clone", "-q", "--bare", ".", place]);
            }
            TargetKind::Directory => {
                std::fs::create_dir_all(self.place.join("src")).unwrap();
                for path in ["planwright.yaml", "src/a.txt", "README.md"] {
                    std::fs::write(self.place.join(path), self.repo.read_file(path)).unwrap();
                }
            }
        }
    }

    fn add_rules(&self, verdicts: &[WantedVerdict]) {
        for verdict in verdicts {
            self.add_rule_of_each_kind("project", &["--project", "table"], *verdict);
            self.add_rule_of_each_kind("global", &["--global"], *verdict);
            self.add_rule_of_each_kind("action", &["--action", "tidy"], *verdict);
        }
    }

    fn add_rule_of_each_kind(&self, scope: &str, flags: &[&str], verdict: WantedVerdict) {
        for (kind, checks) in RULE_KINDS {
            let name = rule_name(kind, scope, verdict);
            let kind = format!("--{kind}={}", verdict.pick_check(checks));
            let mut words = vec!["rule", "add", &name, &kind];
            words.extend(flags);
            if verdict == WantedVerdict::Advises {
                words.push("--advisory");
            }
            self.repo.run_ok(&words);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
    fn run_git(&self, words: &[&str]) -> String {
        let output = Command::new("git")
            .args(words)
            .current_dir(&self.place)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Every place where a result could arrive, with what is there.
    fn read_state(&self) -> Vec<String> {
        let mut state = Vec::new();
        if self.resource != TargetKind::Directory {
            state.push(self.run_git(&["for-each-ref", "refs/heads"]));
        }
        if self.resource != TargetKind::Bare {
            for path in ["new.txt", "src/a.txt"] {
                let text = std::fs::read_to_string(self.place.join(path));
                state.push(text.unwrap_or_else(|_| "not there".to_owned()));
            }
        }
        if matches!(
            self.resource,
            TargetKind::CheckedOut | TargetKind::NotCheckedOut
        ) {
            state.push(self.run_git(&["status", "--porcelain"]));
        }
        state
    }

    /// What a branch has in both files; of a directory or working tree, what is there.
    fn read_arrived(&self, branch: Option<&str>) -> [String; 2] {
        ["new.txt", "src/a.txt"].map(|path| match branch {
            Some(branch) => self.run_git(&["show", &format!("{branch}:{path}")]),
            None => {
                let text = std::fs::read_to_string(self.place.join(path));
                text.unwrap_or_default().trim().to_owned()
            }
        })
    }

    /// Back to how it was.
    fn reset_resource(&self) {
        match self.resource {
            TargetKind::CheckedOut | TargetKind::NotCheckedOut => {
                let start = self.run_git(&["rev-parse", "refs/start"]);
                self.run_git(&["checkout", "-q", "-f", "main"]);
                self.run_git(&["reset", "-q", "--hard", &start]);
                self.run_git(&["clean", "-q", "-f", "-d"]);
                self.run_git(&["branch", "-f", "dev", &start]);
                self.run_git(&["branch", "-D", "side"]);
            }
            TargetKind::Bare => {
                self.run_git(&["update-ref", "refs/heads/main", "refs/start"]);
                self.run_git(&["branch", "-D", "side"]);
            }
            TargetKind::Directory => {
                let _ = std::fs::remove_file(self.place.join("new.txt"));
                std::fs::write(self.place.join("src/a.txt"), INITIAL_FILES[0].1).unwrap();
            }
        }
    }

    /// Tries every form; says what went wrong, cell by cell.
    fn try_forms(&self, is_failing: bool) -> Vec<String> {
        self.run_git(&["update-ref", "refs/start", "refs/heads/main"]);
        let mut wrong = Vec::new();
        for (form, flags) in LANDING_FORMS {
            let cell = LandingCase {
                form,
                resource: self.resource,
                is_failing,
            };
            if let Err(why) = self.try_one(&cell, flags) {
                wrong.push(format!("{}: {why}", cell.case_name()));
            }
            self.reset_resource();
        }
        wrong
    }

    fn try_one(&self, cell: &LandingCase, flags: &[&str]) -> Result<(), String> {
        let plan = self.repo.submit_plan_on("table", |sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
            std::fs::write(sandbox.join("src/a.txt"), "ONE\n").unwrap();
        });
        for verdict in cell.verdicts_in_force() {
            self.add_rule_of_each_kind("plan", &["--plan", &plan], *verdict);
        }
        // Those of the others that ask are left open.
        let answer_questions = || {
            for scope in RULE_SCOPES {
                let rule = rule_name("ask", scope, WantedVerdict::Holds);
                self.repo.run_ok(&["approve", &plan, "--rule", &rule]);
            }
        };
        if !cell.is_failing {
            answer_questions();
        }
        let before = self.read_state();
        let mut apply = [&["apply", plan.as_str(), "--yes"], flags].concat();
        let listed = self
            .repo
            .run_ok(&["diff", &plan, "--hunks", "--", "new.txt"]);
        if cell.form == "hunk" {
            apply.push(listed["files"][0]["hunks"][0]["id"].as_str().unwrap());
        }
        let mut said = self.repo.run(&apply);
        if cell.is_partial() && !cell.is_failing {
            // The answers were about the whole result. The picked part is another one.
            if said.exit_code() != Some(6) {
                return Err(format!("a part was not asked about: {}", said.messages()));
            }
            answer_questions();
            said = self.repo.run(&apply);
        }
        let told = || format!("exit {:?}: {}", said.exit_code(), said.messages());
        let unmoved = || match self.read_state() == before {
            true => Ok(()),
            false => Err(format!(
                "something moved: {before:?} to {:?}",
                self.read_state()
            )),
        };
        match cell.expected_landing() {
            CaseExpectation::Lands if said.exit_code() != Some(0) => Err(told()),
            CaseExpectation::Lands => self.check_arrival(cell, &said.data()),
            CaseExpectation::Blocked if said.exit_code() != Some(5) => Err(told()),
            CaseExpectation::Blocked => {
                let data = said.data();
                let failed = data["failed"].as_array().cloned().unwrap_or_default();
                let name = |rule: &Value| rule["rule"]["name"].as_str().unwrap().to_owned();
                let failed: BTreeSet<String> = failed.iter().map(name).collect();
                let all = RULE_SCOPES.iter().flat_map(|scope| {
                    RULE_KINDS
                        .iter()
                        .map(|(kind, _)| rule_name(kind, scope, WantedVerdict::Fails))
                });
                let all: BTreeSet<String> = all.collect();
                if failed != all {
                    let differ: Vec<_> = failed.symmetric_difference(&all).collect();
                    return Err(format!("these rules were judged wrongly: {differ:?}"));
                }
                unmoved()
            }
            CaseExpectation::Impossible if said.exit_code() != Some(4) => Err(told()),
            CaseExpectation::Impossible => {
                let state = self.repo.plan_state(&plan);
                if state != "execute/complete" {
                    return Err(format!("the plan went to {state}"));
                }
                unmoved()
            }
        }
    }

    fn check_arrival(&self, cell: &LandingCase, data: &Value) -> Result<(), String> {
        let (new, old) = (["new", "ONE"], ["", "one"]);
        let partly = ["new", "one"];
        let in_files = self.resource != TargetKind::Bare;
        // Where, and what has to be there.
        let on_target = match cell.form {
            "commit" | "merge" => new,
            "paths" | "hunk" => partly,
            _ => old,
        };
        let mut places = Vec::new();
        match self.resource {
            TargetKind::Directory => {
                let expected = if cell.is_partial() { partly } else { new };
                places.push((None, expected));
            }
            TargetKind::CheckedOut | TargetKind::NotCheckedOut | TargetKind::Bare => {
                places.push((Some(self.target_branch()), on_target));
                if cell.form == "branch" {
                    places.push((Some("side"), new));
                }
            }
        }
        if in_files && self.resource != TargetKind::Directory {
            places.push(match (cell.form, self.resource) {
                ("uncommitted", _) => (None, new),
                (_, TargetKind::CheckedOut) => (None, on_target),
                _ => (None, old),
            });
        }
        for (branch, expected) in places {
            let found = self.read_arrived(branch);
            if found != expected {
                return Err(format!("{branch:?} has {found:?}, not {expected:?}"));
            }
        }
        if cell.is_partial() != data["rest"].is_string() {
            return Err(format!("the rest is {}", data["rest"]));
        }
        Ok(())
    }
}

fn try_all(resource: TargetKind) {
    let tables = [false, true].map(|is_failing| {
        let table = LandingTable::new(resource, wanted_verdicts(is_failing));
        table.try_forms(is_failing)
    });
    let wrong = tables.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_form_lands_under_every_rule_where_the_branch_is_checked_out() {
    try_all(TargetKind::CheckedOut);
}

#[test]
fn every_form_lands_under_every_rule_where_the_branch_is_not_checked_out() {
    try_all(TargetKind::NotCheckedOut);
}

#[test]
fn every_form_lands_under_every_rule_in_a_bare_repository() {
    try_all(TargetKind::Bare);
}

#[test]
fn every_form_lands_under_every_rule_in_a_directory() {
    try_all(TargetKind::Directory);
}
