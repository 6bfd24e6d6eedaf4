//! Groups changed files by what a reviewer does with them: read the source, read the tests, skip what is generated.

/// A group of the file list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileGroup {
    Source,
    Tests,
    Generated,
}

impl FileGroup {
    pub const ALL: [Self; 3] = [Self::Source, Self::Tests, Self::Generated];

    /// Guesses the group of a file from its path.
    pub fn of_path(path: &str) -> Self {
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_in = |names: &[&str]| directories.split('/').any(|part| names.contains(&part));
        if is_in(GENERATED_DIRECTORIES)
            || GENERATED_NAMES.contains(&name)
            || GENERATED_ENDINGS.iter().any(|end| name.ends_with(end))
        {
            return Self::Generated;
        }
        let stem = name.split('.').next().unwrap_or(name);
        let is_test = is_in(TEST_DIRECTORIES)
            || stem.starts_with("test_")
            || ["_test", "_spec", "Test", "Tests"]
                .iter()
                .any(|end| stem.ends_with(end))
            || [".test.", ".spec."].iter().any(|part| name.contains(part));
        match is_test {
            true => Self::Tests,
            false => Self::Source,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Tests => "Tests",
            Self::Generated => "Generated",
        }
    }
}

const TEST_DIRECTORIES: &[&str] = &[
    "test",
    "tests",
    "__tests__",
    "spec",
    "specs",
    "testdata",
    "fixtures",
    "e2e",
];
const GENERATED_DIRECTORIES: &[&str] = &[
    "dist",
    "node_modules",
    "vendor",
    "third_party",
    "generated",
    "__generated__",
    "__snapshots__",
    "snapshots",
];
const GENERATED_NAMES: &[&str] = &[
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
    "flake.lock",
    "mix.lock",
];
const GENERATED_ENDINGS: &[&str] = &[
    ".min.js",
    ".min.css",
    ".map",
    ".snap",
    ".pb.go",
    "_pb2.py",
    ".g.dart",
    ".generated.ts",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_grouped_by_their_path() {
        for (path, group) in [
            ("src/retry.rs", FileGroup::Source),
            ("README.md", FileGroup::Source),
            ("contest.rs", FileGroup::Source),
            ("src/latest/a.rs", FileGroup::Source),
            ("tests/retry.rs", FileGroup::Tests),
            ("src/retry_test.go", FileGroup::Tests),
            ("src/app.spec.ts", FileGroup::Tests),
            ("test_app.py", FileGroup::Tests),
            ("src/RetryTest.java", FileGroup::Tests),
            ("Cargo.lock", FileGroup::Generated),
            ("web/dist/app.js", FileGroup::Generated),
            ("tests/snapshots/a.snap", FileGroup::Generated),
            ("lib/app.min.js", FileGroup::Generated),
        ] {
            assert_eq!(FileGroup::of_path(path), group, "{path}");
        }
    }
}
