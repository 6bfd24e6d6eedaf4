//! Guesses a repository's test and setup commands from its files. Runs nothing of the repository.

use std::path::Path;

use sandbox::Repository;

use crate::{actor_set, settings};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetectedSetup {
    /// Names of the installed presets.
    pub agents: Vec<String>,
    /// Command that runs the tests.
    pub test: Option<String>,
    /// Commands that the files suggest and whose program is not installed.
    pub not_installed: Vec<String>,
    /// Command that prepares a fresh checkout.
    pub setup: Option<String>,
    /// Ignored files that exist and that agents may need.
    pub include: Vec<String>,
}

/// A file whose presence implies a setup or test command.
struct SetupMarker {
    file: &'static str,
    setup: Option<&'static str>,
    test: Option<&'static str>,
}

const fn setup_marker(
    file: &'static str,
    setup: Option<&'static str>,
    test: Option<&'static str>,
) -> SetupMarker {
    SetupMarker { file, setup, test }
}

/// In order of precedence, separately for setup and test.
const SETUP_MARKERS: &[SetupMarker] = &[
    setup_marker("Cargo.toml", None, Some("cargo test")),
    setup_marker("go.mod", None, Some("go test ./...")),
    setup_marker(
        "pnpm-lock.yaml",
        Some("pnpm install --frozen-lockfile"),
        None,
    ),
    setup_marker("yarn.lock", Some("yarn install --frozen-lockfile"), None),
    setup_marker("bun.lock", Some("bun install --frozen-lockfile"), None),
    setup_marker("package-lock.json", Some("npm ci"), None),
    setup_marker("uv.lock", Some("uv sync"), Some("uv run pytest")),
    setup_marker(
        "poetry.lock",
        Some("poetry install"),
        Some("poetry run pytest"),
    ),
    setup_marker("pytest.ini", None, Some("pytest")),
    setup_marker("tox.ini", None, Some("tox")),
    setup_marker("mix.exs", Some("mix deps.get"), Some("mix test")),
    setup_marker(
        "Gemfile.lock",
        Some("bundle install"),
        Some("bundle exec rake"),
    ),
    setup_marker("gradlew", None, Some("./gradlew test")),
    setup_marker("pom.xml", None, Some("mvn --batch-mode test")),
];

/// Files that agents often need and that are usually ignored.
const COMMONLY_NEEDED_FILES: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.test",
    ".envrc",
    "local.properties",
];

const MAX_READ_BYTES: u64 = 1 << 20;

pub fn detect_setup(root: &Path) -> DetectedSetup {
    let path = settings::read_git_env().path.unwrap_or_default();
    detect_runnable_setup(root, |program| {
        actors::find_program(program.as_ref(), &path, Some(root)).is_some()
    })
}

/// Proposes the first command of each kind that is installed.
fn detect_runnable_setup(root: &Path, is_installed: impl Fn(&str) -> bool) -> DetectedSetup {
    let mut not_installed: Vec<String> = Vec::new();
    let mut first_installed = |candidates: Vec<String>| {
        let mut candidates = candidates.into_iter();
        candidates.find(|command| {
            let program = command.split(' ').next().unwrap_or_default();
            let found = is_installed(program);
            if !found && !not_installed.contains(command) {
                not_installed.push(command.clone());
            }
            found
        })
    };
    let present_markers = || {
        SETUP_MARKERS
            .iter()
            .filter(|marker| root.join(marker.file).is_file())
    };
    let marked_tests = present_markers().filter_map(|marker| marker.test);
    let mut tests: Vec<String> = detect_make_test(root).into_iter().collect();
    tests.extend(detect_package_test(root));
    tests.extend(marked_tests.map(str::to_owned));
    tests.extend(detect_python_test(root));
    let setups = present_markers().filter_map(|marker| marker.setup);
    let setups = setups.map(str::to_owned).collect();
    let (test, setup) = (first_installed(tests), first_installed(setups));
    DetectedSetup {
        agents: actor_set::installed_presets()
            .into_iter()
            .map(|(definition, _)| definition.name.to_string())
            .collect(),
        test,
        setup,
        not_installed,
        include: find_needed_ignored_files(root),
    }
}

/// A `test` target in the Makefile takes precedence over everything else.
fn detect_make_test(root: &Path) -> Option<String> {
    let text = read_file_start(&root.join("Makefile"))?;
    let target = text.lines().any(|line| line.starts_with("test:"));
    target.then(|| "make test".to_owned())
}

fn detect_package_test(root: &Path) -> Option<String> {
    let package: serde_json::Value =
        serde_json::from_str(&read_file_start(&root.join("package.json"))?).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?;
    // The placeholder that `npm init` writes.
    if script.contains("no test specified") {
        return None;
    }
    let runners = [
        ("pnpm-lock.yaml", "pnpm test"),
        ("yarn.lock", "yarn test"),
        ("bun.lock", "bun run test"),
    ];
    let found = runners.iter().find(|(file, _)| root.join(file).is_file());
    Some(found.map_or("npm test", |(_, command)| command).to_owned())
}

fn detect_python_test(root: &Path) -> Option<String> {
    let text = read_file_start(&root.join("pyproject.toml"))?;
    text.contains("pytest").then(|| "pytest".to_owned())
}

/// Returns the commonly needed files that exist and are ignored. Tracked ones are in every sandbox anyway.
fn find_needed_ignored_files(root: &Path) -> Vec<String> {
    let present = COMMONLY_NEEDED_FILES
        .iter()
        .filter(|name| root.join(name).is_file());
    let present: Vec<&str> = present.copied().collect();
    let repository = Repository::open(&settings::read_git_env(), root);
    let ignored = repository.and_then(|repository| repository.filter_ignored_paths(&present));
    ignored.unwrap_or_default()
}

fn read_file_start(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_READ_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may be blunt")]

    use super::*;

    fn detect_from_files(files: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(root.path().join(name), content).unwrap();
        }
        let found = detect_runnable_setup(root.path(), |_| true);
        (found.test, found.setup)
    }

    #[test]
    fn test_and_setup_commands_are_detected_from_files() {
        let check = |files: &[(&str, &str)], test: Option<&str>, setup: Option<&str>| {
            let expected = (test.map(str::to_owned), setup.map(str::to_owned));
            assert_eq!(detect_from_files(files), expected, "{files:?}");
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
        let placeholder = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        check(&[("package.json", placeholder)], None, None);
        check(&[("package.json", "not json")], None, None);
        check(&[("pyproject.toml", "[tool.pytest]")], Some("pytest"), None);
        check(
            &[("Makefile", "test:\n\tcargo test\n"), ("Cargo.toml", "")],
            Some("make test"),
            None,
        );
        check(&[("Makefile", "all:\n\tcc\n")], None, None);
    }

    #[test]
    fn commands_that_are_not_installed_are_not_proposed() {
        let root = tempfile::tempdir().unwrap();
        for file in ["Cargo.toml", "uv.lock"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        std::fs::write(root.path().join("Makefile"), "test:\n\tx\n").unwrap();
        let found = detect_runnable_setup(root.path(), |program| program == "cargo");
        assert_eq!(found.test.as_deref(), Some("cargo test"));
        assert_eq!(found.setup, None);
        assert_eq!(found.not_installed, ["make test", "uv sync"]);
    }
}
