//! Path rules: globs that every changed path must match (`allow`) or must not match (`forbid`).
//!
//! As in a `.gitignore`, a glob without a slash matches a name at any depth, and a directory includes its
//! content. A rename counts with both of its paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use plan::changeset::TreePath;
use plan::judgement::RuleOutcome;

use super::subject::{PathChange, PathChangeList};
use crate::RuleProblem;

const MAX_GLOBS: usize = 256;
const MAX_GLOB_BYTES: usize = 1024;

/// How many paths a failure lists.
const MAX_NAMED_PATHS: usize = 10;

pub(super) fn check_globs(globs: &[String]) -> Result<(), RuleProblem> {
    if globs.is_empty() {
        return Err(RuleProblem("it lists no paths".to_owned()));
    }
    compile_globs(globs).map(drop)
}

/// Checks that every changed path matches one of the globs.
pub(super) fn judge_allowed(globs: &[String], changes: &PathChangeList) -> RuleOutcome {
    judge_paths(globs, changes, "not allowed", |matches| !matches)
}

/// Checks that no changed path matches any of the globs.
pub(super) fn judge_forbidden(globs: &[String], changes: &PathChangeList) -> RuleOutcome {
    judge_paths(globs, changes, "forbidden", |matches| matches)
}

/// Returns the globs that match no existing path, to warn about typos.
pub fn unmatched_globs<'a>(globs: &'a [String], existing_paths: &[TreePath]) -> Vec<&'a str> {
    let is_unmatched = |glob: &&String| {
        let compiled = compile_globs(std::slice::from_ref(*glob));
        compiled.is_ok_and(|glob| {
            !existing_paths
                .iter()
                .any(|path| glob.is_match(as_path(path)))
        })
    };
    globs
        .iter()
        .filter(is_unmatched)
        .map(String::as_str)
        .collect()
}

fn judge_paths(
    globs: &[String],
    changes: &PathChangeList,
    label: &str,
    is_wrong: fn(bool) -> bool,
) -> RuleOutcome {
    let globs = match compile_globs(globs) {
        Ok(globs) => globs,
        Err(problem) => return RuleOutcome::Failed(problem.0),
    };
    let touched = changes.0.iter().flat_map(touched_paths);
    let wrong: Vec<String> = touched
        .filter(|path| is_wrong(globs.is_match(as_path(path))))
        .map(ToString::to_string)
        .collect();
    if wrong.is_empty() {
        return RuleOutcome::Held;
    }
    let named = wrong
        .iter()
        .take(MAX_NAMED_PATHS)
        .cloned()
        .collect::<Vec<_>>();
    let more = match wrong.len().saturating_sub(MAX_NAMED_PATHS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    RuleOutcome::Failed(format!("{label}: {}{more}", named.join(", ")))
}

fn touched_paths(change: &PathChange) -> impl Iterator<Item = &TreePath> {
    std::iter::once(&change.path).chain(&change.from)
}

fn as_path(path: &TreePath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}

fn compile_globs(globs: &[String]) -> Result<GlobSet, RuleProblem> {
    if globs.len() > MAX_GLOBS {
        return Err(RuleProblem(format!("it lists more than {MAX_GLOBS} globs")));
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        for pattern in expand_glob(glob)? {
            let built = GlobBuilder::new(&pattern).literal_separator(true).build();
            let built =
                built.map_err(|error| RuleProblem(format!("`{glob}`: {}", error.kind())))?;
            set.add(built);
        }
    }
    set.build()
        .map_err(|error| RuleProblem(format!("{}", error.kind())))
}

/// Expands a glob to two patterns: the path itself, at any depth if it has no slash, and everything below it.
fn expand_glob(glob: &str) -> Result<[String; 2], RuleProblem> {
    let problem = |why: &str| Err(RuleProblem(format!("`{glob}` {why}")));
    if glob.len() > MAX_GLOB_BYTES {
        return problem("is too long");
    }
    if glob.starts_with('!') {
        return problem("begins with `!`; list the allowed paths with --allow instead");
    }
    let anchored = glob.strip_prefix('/').or(glob.strip_prefix("./"));
    let bare = anchored.unwrap_or(glob).trim_end_matches('/');
    if bare.is_empty() || bare.split('/').any(|part| part == "..") {
        return problem("is not a path in a repository");
    }
    let pattern = match anchored.is_none() && !bare.contains('/') {
        true => format!("**/{bare}"),
        false => bare.to_owned(),
    };
    Ok([format!("{pattern}/**"), pattern])
}

#[cfg(test)]
mod tests {
    use plan::changeset::PathOperation;

    use super::*;

    fn make_change(path: &str, from: Option<&str>) -> PathChange {
        let tree_path = |path: &str| TreePath::new(path.as_bytes()).unwrap();
        PathChange {
            resource: "site".into(),
            path: tree_path(path),
            from: from.map(tree_path),
            operation: PathOperation::Modify,
            insertions: 1,
            deletions: 0,
            size: 1,
            binary: false,
            mode: "100644".into(),
        }
    }

    fn glob_matches(glob: &str, path: &str) -> bool {
        let changes = PathChangeList(vec![make_change(path, None)]);
        judge_forbidden(&[glob.to_owned()], &changes) != RuleOutcome::Held
    }

    #[test]
    fn globs_match_like_a_gitignore() {
        for (glob, path) in [
            ("docs/**", "docs/a/b.md"),
            ("docs", "docs/a.md"),
            ("docs/", "docs/a.md"),
            ("docs", "deep/docs/a.md"),
            ("/docs", "docs/a.md"),
            ("*.lock", "a/b/Cargo.lock"),
            ("src/*.rs", "src/a.rs"),
            ("**/*.sql", "x.sql"),
            ("{a,b}/*", "b/c"),
            ("[ab].txt", "x/b.txt"),
        ] {
            assert!(glob_matches(glob, path), "{glob} {path}");
        }
        for (glob, path) in [
            ("/docs", "deep/docs/a.md"),
            ("src/*.rs", "src/deep/a.rs"),
            ("docs/**", "docsy/a.md"),
            ("docs", "docs.md"),
            ("*.lock", "locks/x"),
        ] {
            assert!(!glob_matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn a_rename_counts_for_both_of_its_paths() {
        let moved = PathChangeList(vec![make_change("docs/a.md", Some("src/a.md"))]);
        let globs = ["docs/**".to_owned()];
        assert_ne!(judge_allowed(&globs, &moved), RuleOutcome::Held);
        assert_ne!(
            judge_forbidden(&["src".to_owned()], &moved),
            RuleOutcome::Held
        );
    }

    #[test]
    fn a_glob_that_matches_nothing_is_found() {
        let existing =
            ["docs/a.md", "src/deep/b.rs"].map(|path| TreePath::new(path.as_bytes()).unwrap());
        let globs = ["docs", "*.rs", "doc/**", "src/*.rs"].map(str::to_owned);
        assert_eq!(unmatched_globs(&globs, &existing), ["doc/**", "src/*.rs"]);
    }

    #[test]
    fn a_failure_lists_some_of_the_paths() {
        let many = (0..13)
            .map(|n| make_change(&format!("src/{n}"), None))
            .collect();
        let RuleOutcome::Failed(message) =
            judge_forbidden(&["src".to_owned()], &PathChangeList(many))
        else {
            panic!("all paths are forbidden");
        };
        assert!(message.starts_with("forbidden: src/0, src/1"), "{message}");
        assert!(message.ends_with("src/9 and 3 more"), "{message}");
    }

    #[test]
    fn invalid_globs_are_refused() {
        for bad in ["", "/", "../x", "a/../b", "[z-a]", "{a", "!docs"] {
            assert!(check_globs(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(check_globs(&[]).is_err());
    }
}
