//! Where the person may not read or write: said clearly, before anything moves, and nothing is lost.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::yard::Yard;

/// A yard of somebody whom permissions bind; nothing where there is nobody like that.
fn yard() -> Option<(Yard, String)> {
    let mut yard = Yard::new();
    let plan = yard.usual();
    yard.belongs_to_an_ordinary_user().then_some((yard, plan))
}

/// Does something while a directory has these permissions.
fn while_closed<T>(directory: &Path, mode: u32, work: impl FnOnce() -> T) -> T {
    let before = std::fs::metadata(directory).unwrap().permissions();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).unwrap();
    let result = work();
    std::fs::set_permissions(directory, before).unwrap();
    result
}

#[test]
fn a_repository_that_cannot_be_written_stays_as_it_is_and_the_plan_lands_later() {
    for closed in [".git", ".git/objects", "src", "."] {
        let Some((yard, plan)) = yard() else {
            return;
        };
        // Leaves no directory below that a new object could happen to fall into.
        yard.git(&["gc", "-q"]);
        let before = yard.git(&["rev-parse", "HEAD"]);
        let said = while_closed(&yard.shop().join(closed), 0o555, || {
            yard.bad(1, &["apply", &plan, "--yes"], "ermission")
        });
        let hint = "Let yourself read and write there";
        assert!(said.messages().contains(hint), "{closed}: {said:?}");
        assert_eq!(yard.git(&["rev-parse", "HEAD"]), before, "{closed}");
        assert_eq!(yard.git(&["status", "--porcelain"]), "", "{closed}");
        assert!(!yard.shop().join(".git/index.lock").exists(), "{closed}");
        yard.ok(&["apply", &plan, "--yes"]);
        assert!(yard.read("src/a.txt").ends_with("SIX\n"), "{closed}");
        yard.assert_tidy();
    }
}

#[test]
fn a_place_that_cannot_be_entered_is_named_and_not_registered() {
    let Some((yard, _)) = yard() else {
        return;
    };
    let other = yard.other_repository("closed");
    for kind in ["--git", "--dir"] {
        let said = while_closed(Path::new(&other), 0o000, || {
            yard.bad(
                1,
                &["project", "create", "closed", kind, &other],
                "ermission",
            )
        });
        assert!(said.messages().contains(&other), "{said:?}");
        yard.bad(3, &["project", "show", "closed"], "");
    }
}

#[test]
fn a_home_that_cannot_be_written_leaves_the_repository_alone() {
    let Some((yard, plan)) = yard() else {
        return;
    };
    let before = yard.git(&["rev-parse", "HEAD"]);
    let said = while_closed(yard.program.home(), 0o555, || {
        yard.run(&["apply", &plan, "--yes"])
    });
    assert_eq!(said.code(), Some(1), "{said:?}");
    assert_eq!(yard.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(yard.git(&["status", "--porcelain"]), "");
    yard.ok(&["apply", &plan, "--yes"]);
    yard.assert_tidy();
}
