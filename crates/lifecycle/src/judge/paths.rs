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

use super::matter::{Change, Changes};
use crate::ExprProblem;

/// Most globs of a rule, and longest.
const MOST: usize = 256;
const LONGEST: usize = 1024;

/// How many paths are named.
const NAMED: usize = 10;

/// Can these be judged?
pub(super) fn check(globs: &[String]) -> Result<(), ExprProblem> {
    if globs.is_empty() {
        return Err(ExprProblem("it names no path".to_owned()));
    }
    compiled(globs).map(drop)
}

/// Does every change match one of these?
pub(super) fn allowed(globs: &[String], changes: &Changes) -> RuleOutcome {
    judge(globs, changes, "not allowed", |matches| !matches)
}

/// Does no change match any of these?
pub(super) fn forbidden(globs: &[String], changes: &Changes) -> RuleOutcome {
    judge(globs, changes, "forbidden", |matches| matches)
}

/// Those of these globs that match nothing of what is there.
pub fn unmatched_globs<'a>(globs: &'a [String], there: &[TreePath]) -> Vec<&'a str> {
    let is_idle = |glob: &&String| {
        let compiled = compiled(std::slice::from_ref(*glob));
        compiled.is_ok_and(|glob| !there.iter().any(|path| glob.is_match(as_path(path))))
    };
    globs.iter().filter(is_idle).map(String::as_str).collect()
}

fn judge(
    globs: &[String],
    changes: &Changes,
    what: &str,
    is_wrong: fn(bool) -> bool,
) -> RuleOutcome {
    let globs = match compiled(globs) {
        Ok(globs) => globs,
        Err(problem) => return RuleOutcome::Failed(problem.0),
    };
    let touched = changes.0.iter().flat_map(touched_by);
    let wrong: Vec<String> = touched
        .filter(|path| is_wrong(globs.is_match(as_path(path))))
        .map(ToString::to_string)
        .collect();
    if wrong.is_empty() {
        return RuleOutcome::Held;
    }
    let named = wrong.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = match wrong.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    RuleOutcome::Failed(format!("{what}: {}{more}", named.join(", ")))
}

fn touched_by(change: &Change) -> impl Iterator<Item = &TreePath> {
    std::iter::once(&change.path).chain(&change.from)
}

fn as_path(path: &TreePath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}

fn compiled(globs: &[String]) -> Result<GlobSet, ExprProblem> {
    if globs.len() > MOST {
        return Err(ExprProblem(format!("it names more than {MOST} globs")));
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        for form in forms(glob)? {
            let built = GlobBuilder::new(&form).literal_separator(true).build();
            let built =
                built.map_err(|error| ExprProblem(format!("`{glob}`: {}", error.kind())))?;
            set.add(built);
        }
    }
    set.build()
        .map_err(|error| ExprProblem(format!("{}", error.kind())))
}

/// What a glob stands for: itself wherever it may be, and everything below.
fn forms(glob: &str) -> Result<[String; 2], ExprProblem> {
    let problem = |why: &str| Err(ExprProblem(format!("`{glob}` {why}")));
    if glob.len() > LONGEST {
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
    use plan::changeset::Operation;

    use super::*;

    fn change(path: &str, from: Option<&str>) -> Change {
        let tree_path = |path: &str| TreePath::new(path.as_bytes()).unwrap();
        Change {
            resource: "site".into(),
            path: tree_path(path),
            from: from.map(tree_path),
            operation: Operation::Modify,
            insertions: 1,
            deletions: 0,
            size: 1,
            binary: false,
            mode: "100644".into(),
        }
    }

    fn matches(glob: &str, path: &str) -> bool {
        let changes = Changes(vec![change(path, None)]);
        forbidden(&[glob.to_owned()], &changes) != RuleOutcome::Held
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
            assert!(matches(glob, path), "{glob} {path}");
        }
        for (glob, path) in [
            ("/docs", "deep/docs/a.md"),
            ("src/*.rs", "src/deep/a.rs"),
            ("docs/**", "docsy/a.md"),
            ("docs", "docs.md"),
            ("*.lock", "locks/x"),
        ] {
            assert!(!matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn a_rename_counts_for_both_of_its_paths() {
        let moved = Changes(vec![change("docs/a.md", Some("src/a.md"))]);
        let globs = ["docs/**".to_owned()];
        assert_ne!(allowed(&globs, &moved), RuleOutcome::Held);
        assert_ne!(forbidden(&["src".to_owned()], &moved), RuleOutcome::Held);
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
        let many = (0..13).map(|n| change(&format!("src/{n}"), None)).collect();
        let RuleOutcome::Failed(said) = forbidden(&["src".to_owned()], &Changes(many)) else {
            panic!("all of them are forbidden");
        };
        assert!(said.starts_with("forbidden: src/0, src/1"), "{said}");
        assert!(said.ends_with("src/9 and 3 more"), "{said}");
    }

    #[test]
    fn what_is_no_glob_is_refused_when_it_is_added() {
        for bad in ["", "/", "../x", "a/../b", "[z-a]", "{a", "!docs"] {
            assert!(check(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(check(&[]).is_err());
    }
}
