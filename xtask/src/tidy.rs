//! `cargo xtask tidy`: facts about the source that neither the compiler nor clippy checks.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};

use crate::cargo;
use crate::source_scan::{SourceFile, read_source_files};

/// Check dependencies between crates, type names and commit subjects.
#[derive(clap::Args)]
pub struct TidyArgs {}

/// What each crate may depend on, within the workspace. Dev-dependencies are not limited.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("planwright-plan", &[]),
    ("planwright-store", &["planwright-plan"]),
    ("planwright-sandbox", &["planwright-plan"]),
    (
        "planwright-actors",
        &["planwright-plan", "planwright-sandbox"],
    ),
    (
        "planwright-lifecycle",
        &[
            "planwright-plan",
            "planwright-store",
            "planwright-sandbox",
            "planwright-actors",
        ],
    ),
    (
        "planwright-api",
        &[
            "planwright-plan",
            "planwright-store",
            "planwright-sandbox",
            "planwright-actors",
            "planwright-lifecycle",
        ],
    ),
    (
        "planwright-server",
        &[
            "planwright-plan",
            "planwright-store",
            "planwright-lifecycle",
            "planwright-api",
        ],
    ),
    (
        "planwright",
        &[
            "planwright-plan",
            "planwright-store",
            "planwright-sandbox",
            "planwright-actors",
            "planwright-lifecycle",
            "planwright-api",
            "planwright-server",
        ],
    ),
];

/// Subjects are checked after this commit; the ones before it follow no convention.
const LAST_UNCHECKED_COMMIT: &str = "ee4c667";

/// Prints what is wrong; the exit code says whether anything is.
pub fn run(_: &TidyArgs) -> anyhow::Result<ExitCode> {
    let problems = find_problems()?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn find_problems() -> anyhow::Result<Vec<String>> {
    let mut problems = find_forbidden_dependencies(&read_dependencies()?);
    problems.extend(find_repeated_types(&read_source_files()?));
    problems.extend(find_bad_subjects(&read_subjects()?));
    Ok(problems)
}

/// A dependency of one crate of the workspace on another.
struct CrateDependency {
    from: String,
    to: String,
}

fn read_dependencies() -> anyhow::Result<Vec<CrateDependency>> {
    let output = cargo::cargo_command()
        .args(["tree", "--workspace", "--edges", "normal,build"])
        .args(["--depth", "1", "--prefix", "depth", "--format", " {p}"])
        .output()
        .context("could not run cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed");
    Ok(parse_dependencies(&String::from_utf8(output.stdout)?))
}

/// Lines are `0 NAME VERSION…` for a package and `1 NAME VERSION…` for what it depends on.
fn parse_dependencies(tree: &str) -> Vec<CrateDependency> {
    let mut package = String::new();
    let mut dependencies = Vec::new();
    for line in tree.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("0"), Some(name)) => package = name.to_owned(),
            (Some("1"), Some(name)) if name.starts_with("planwright") => {
                dependencies.push(CrateDependency {
                    from: package.clone(),
                    to: name.to_owned(),
                });
            }
            _ => {}
        }
    }
    dependencies
}

fn find_forbidden_dependencies(dependencies: &[CrateDependency]) -> Vec<String> {
    let mut problems = Vec::new();
    for (from, allowed) in ALLOWED_DEPENDENCIES {
        for dependency in dependencies.iter().filter(|one| one.from == *from) {
            if !allowed.contains(&dependency.to.as_str()) {
                problems.push(format!(
                    "{from} must not depend on {}: ARCHITECTURE.md says which way dependencies point",
                    dependency.to
                ));
            }
        }
    }
    problems
}

/// One file may define a type twice, once for each platform.
fn find_repeated_types(files: &[SourceFile]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        let mut declarations = file.type_declarations();
        declarations.sort_by(|left, right| left.name.cmp(&right.name));
        declarations.dedup_by(|left, right| left.name == right.name);
        for declaration in declarations {
            let place = format!("{}:{}", file.path.display(), declaration.line);
            places.entry(declaration.name).or_default().push(place);
        }
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("type `{name}` is defined twice: {}", places.join(", ")))
        .collect()
}

fn read_subjects() -> anyhow::Result<Vec<String>> {
    let git_log = |range: &[&str]| {
        Command::new("git")
            .current_dir(cargo::workspace_root())
            .args(["log", "--no-merges", "--format=%s"])
            .args(range)
            .output()
            .context("could not run git")
    };
    let mut output = git_log(&[&format!("{LAST_UNCHECKED_COMMIT}..HEAD")])?;
    if !output.status.success() {
        // A shallow clone does not have that commit.
        output = git_log(&["--max-count=1", "HEAD"])?;
    }
    ensure!(output.status.success(), "git log failed");
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}

fn find_bad_subjects(subjects: &[String]) -> Vec<String> {
    subjects
        .iter()
        .filter(|subject| !is_area_and_effect(subject))
        .map(|subject| format!("commit subject `{subject}` is not `area: effect`"))
        .collect()
}

/// `apply: land on a new branch`, `plan, store: …`.
fn is_area_and_effect(subject: &str) -> bool {
    let Some((area, effect)) = subject.split_once(": ") else {
        return false;
    };
    let in_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " ,/_.-".contains(c);
    area.starts_with(|c: char| c.is_ascii_lowercase())
        && area.chars().all(in_area)
        && !effect.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_point_one_way() {
        let check = |tree: &str, expected: usize| {
            let problems = find_forbidden_dependencies(&parse_dependencies(tree));
            assert_eq!(problems.len(), expected, "{problems:?}");
        };
        check(
            "0 planwright-store v0.1.0\n1 planwright-plan v0.1.0\n1 rusqlite v1\n",
            0,
        );
        check("0 planwright-plan v0.1.0\n1 planwright-store v0.1.0\n", 1);
        check(
            "0 planwright-sandbox v0.1.0\n1 planwright-store v0.1.0\n",
            1,
        );
        check("0 planwright-bench v0.1.0\n1 planwright-store v0.1.0\n", 0);
    }

    #[test]
    fn a_type_is_defined_once() {
        let file = |name: &str, text: &str| SourceFile {
            path: name.into(),
            text: text.to_owned(),
        };
        let problems = find_repeated_types(&[
            file("a.rs", "struct Plan;\nstruct Other;\n"),
            file("b.rs", "pub enum Plan {}\n"),
        ]);
        assert_eq!(problems, ["type `Plan` is defined twice: a.rs:1, b.rs:1"]);
    }

    #[test]
    fn a_subject_names_area_and_effect() {
        for subject in [
            "apply: land on a new branch when the repository has rules",
            "plan, store: record base commits",
            "sandbox tests: run fewer processes",
        ] {
            assert!(is_area_and_effect(subject), "{subject}");
        }
        for subject in ["Wrap a line", "Apply: land", "apply:land", "apply: "] {
            assert!(!is_area_and_effect(subject), "{subject}");
        }
    }
}
