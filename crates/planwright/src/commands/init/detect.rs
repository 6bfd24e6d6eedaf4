//! What can be seen of a repository from outside: how it is tested and set up, what its work needs.

use std::path::Path;

use sandbox::Repository;

use crate::{crew, settings};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The agents that are installed.
    pub agents: Vec<String>,
    /// How it is tested.
    pub test: Option<String>,
    /// How a fresh checkout is made ready.
    pub setup: Option<String>,
    /// Ignored files that work may need.
    pub include: Vec<String>,
}

/// A file that says how a repository is set up and tested.
struct Sign {
    file: &'static str,
    setup: Option<&'static str>,
    test: Option<&'static str>,
}

const fn sign(file: &'static str, setup: Option<&'static str>, test: Option<&'static str>) -> Sign {
    Sign { file, setup, test }
}

/// The first that is there says it, for each of the two.
const SIGNS: &[Sign] = &[
    sign("Cargo.toml", None, Some("cargo test")),
    sign("go.mod", None, Some("go test ./...")),
    sign(
        "pnpm-lock.yaml",
        Some("pnpm install --frozen-lockfile"),
        None,
    ),
    sign("yarn.lock", Some("yarn install --frozen-lockfile"), None),
    sign("bun.lock", Some("bun install --frozen-lockfile"), None),
    sign("package-lock.json", Some("npm ci"), None),
    sign("uv.lock", Some("uv sync"), Some("uv run pytest")),
    sign(
        "poetry.lock",
        Some("poetry install"),
        Some("poetry run pytest"),
    ),
    sign("pytest.ini", None, Some("pytest")),
    sign("tox.ini", None, Some("tox")),
    sign("mix.exs", Some("mix deps.get"), Some("mix test")),
    sign(
        "Gemfile.lock",
        Some("bundle install"),
        Some("bundle exec rake"),
    ),
    sign("gradlew", None, Some("./gradlew test")),
    sign("pom.xml", None, Some("mvn --batch-mode test")),
];

/// Ignored files that work often needs.
const PERHAPS_NEEDED: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.test",
    ".envrc",
    "local.properties",
];

/// How much is read of a file to find something in it.
const MOST_READ: u64 = 1 << 20;

/// Looks at a repository.
pub fn look(root: &Path) -> Found {
    let signs = || SIGNS.iter().filter(|sign| root.join(sign.file).is_file());
    let said = |word: Option<&'static str>| word.map(str::to_owned);
    Found {
        agents: crew::installed_presets()
            .into_iter()
            .map(|(definition, _)| definition.name.to_string())
            .collect(),
        test: make_test(root)
            .or_else(|| package_test(root))
            .or_else(|| said(signs().find_map(|sign| sign.test)))
            .or_else(|| python_test(root)),
        setup: said(signs().find_map(|sign| sign.setup)),
        include: ignored(root),
    }
}

/// A makefile that says how to test says it for all.
fn make_test(root: &Path) -> Option<String> {
    let text = read(&root.join("Makefile"))?;
    let target = text.lines().any(|line| line.starts_with("test:"));
    target.then(|| "make test".to_owned())
}

fn package_test(root: &Path) -> Option<String> {
    let package: serde_json::Value =
        serde_json::from_str(&read(&root.join("package.json"))?).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?;
    // What npm writes when nobody said anything.
    if script.contains("no test specified") {
        return None;
    }
    let runner = [
        ("pnpm-lock.yaml", "pnpm test"),
        ("yarn.lock", "yarn test"),
        ("bun.lock", "bun run test"),
    ];
    let found = runner.iter().find(|(file, _)| root.join(file).is_file());
    Some(found.map_or("npm test", |(_, command)| command).to_owned())
}

fn python_test(root: &Path) -> Option<String> {
    let text = read(&root.join("pyproject.toml"))?;
    text.contains("pytest").then(|| "pytest".to_owned())
}

/// Files that are there, often needed, and ignored: the others are in every sandbox anyway.
fn ignored(root: &Path) -> Vec<String> {
    let there = PERHAPS_NEEDED
        .iter()
        .filter(|name| root.join(name).is_file());
    let there: Vec<&str> = there.copied().collect();
    let repository = Repository::open(&settings::surroundings(), root);
    let ignored = repository.and_then(|repository| repository.ignored(&there));
    ignored.unwrap_or_default()
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_READ).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may be blunt")]

    use super::*;

    fn found(files: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(root.path().join(name), content).unwrap();
        }
        let found = look(root.path());
        (found.test, found.setup)
    }

    #[test]
    fn tests_and_set_up_are_seen_by_their_files() {
        let check = |files: &[(&str, &str)], test: Option<&str>, setup: Option<&str>| {
            let expected = (test.map(str::to_owned), setup.map(str::to_owned));
            assert_eq!(found(files), expected, "{files:?}");
        };
        check(&[], None, None);
        check(&[("Cargo.toml", "")], Some("cargo test"), None);
        let package = r#"{"scripts": {"test": "vitest"}}"#;
        check(
            &[("package.json", package), ("package-lock.json", "")],
            Some("npm test"),
            Some("npm ci"),
        );
        check(
            &[("package.json", package), ("pnpm-lock.yaml", "")],
            Some("pnpm test"),
            Some("pnpm install --frozen-lockfile"),
        );
        let nothing = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        check(&[("package.json", nothing)], None, None);
        check(&[("package.json", "not json")], None, None);
        check(&[("pyproject.toml", "[tool.pytest]")], Some("pytest"), None);
        check(
            &[("Makefile", "test:\n\tcargo test\n"), ("Cargo.toml", "")],
            Some("make test"),
            None,
        );
        check(&[("Makefile", "all:\n\tcc\n")], None, None);
    }
}
