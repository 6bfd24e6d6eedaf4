//! Rules by path: globs that every change must match, or none.
//!
//! A glob without a slash matches a name at any depth, and a directory stands for all that is in it, as in
//! a `.gitignore`. A rename counts for where it comes from, too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use plan::changeset::TreePath;
use plan::judgement::RuleOutcome;

use super::matter::{PathChange, PathChangeList};
use crate::RuleProblem;

/// Most globs of a rule, and longest.
const MAX_GLOBS: usize = 256;
const MAX_GLOB_BYTES: usize = 1024;

/// How many paths are named.
const MAX_NAMED_PATHS: usize = 10;

/// Can these be judged?
pub(super) fn check_globs(globs: &[String]) -> Result<(), RuleProblem> {
    if globs.is_empty() {
        return Err(RuleProblem("it names no path".to_owned()));
    }
    compile_globs(globs).map(drop)
}

/// Does every change match one of these?
pub(super) fn judge_allowed(globs: &[String], changes: &PathChangeList) -> RuleOutcome {
    judge_paths(globs, changes, "not allowed", |matches| !matches)
}

/// Does no change match any of these?
pub(super) fn judge_forbidden(globs: &[String], changes: &PathChangeList) -> RuleOutcome {
    judge_paths(globs, changes, "forbidden", |matches| matches)
}

/// Those of these globs that match nothing of what is there.
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
        return Err(RuleProblem(format!("it names more than {MAX_GLOBS} globs")));
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        for form in expand_glob(glob)? {
            let built = GlobBuilder::new(&form).literal_separator(true).build();
            let built =
                built.map_err(|error| RuleProblem(format!("`{glob}`: {}", error.kind())))?;
            set.add(built);
        }
    }
    set.build()
        .map_err(|error| RuleProblem(format!("{}", error.kind())))
}

/// What a glob stands for: itself wherever it may be, and everything below.
fn expand_glob(glob: &str) -> Result<[String; 2], RuleProblem> {
    let problem = |why: &str| Err(RuleProblem(format!("`{glob}` {why}")));
    if glob.len() > MAX_GLOB_BYTES {
        return problem("is too long");
    }
    if glob.starts_with('!') {
        return problem("begins with `!`; say what is allowed with --allow instead");
    }
    let anchored = glob.strip_prefix('/').or(glob.strip_prefix("./"));
    let bare = anchored.unwrap_or(glob).trim_end_matches('/');
    if bare.is_empty() || bare.split('/').any(|part| part == "..") {
        return problem("is no path of a repository");
    }
    let place = match anchored.is_none() && !bare.contains('/') {
        true => format!("**/{bare}"),
        false => bare.to_owned(),
    };
    Ok([format!("{place}/**"), place])
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
    fn globs_match_as_people_expect() {
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
        let there =
            ["docs/a.md", "src/deep/b.rs"].map(|path| TreePath::new(path.as_bytes()).unwrap());
        let globs = ["docs", "*.rs", "doc/**", "src/*.rs"].map(str::to_owned);
        assert_eq!(unmatched_globs(&globs, &there), ["doc/**", "src/*.rs"]);
    }

    #[test]
    fn what_is_wrong_is_named_and_not_all_of_it() {
        let many = (0..13)
            .map(|n| make_change(&format!("src/{n}"), None))
            .collect();
        let RuleOutcome::Failed(message) =
            judge_forbidden(&["src".to_owned()], &PathChangeList(many))
        else {
            panic!("all of them are forbidden");
        };
        assert!(message.starts_with("forbidden: src/0, src/1"), "{message}");
        assert!(message.ends_with("src/9 and 3 more"), "{message}");
    }

    #[test]
    fn what_is_no_glob_is_refused_when_it_is_added() {
        for bad in ["", "/", "../x", "a/../b", "[z-a]", "{a", "!docs"] {
            assert!(check_globs(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(check_globs(&[]).is_err());
    }
}
