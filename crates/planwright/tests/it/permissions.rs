//! Where the person may not read or write: said clearly, before anything moves, and nothing is lost.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::shop_repository::ShopRepository;

/// A yard of somebody whom permissions bind; nothing where there is nobody like that.
fn unprivileged_repository() -> Option<(ShopRepository, String)> {
    let mut repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.hand_to_ordinary_user().then_some((repo, plan))
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
        let Some((repo, plan)) = unprivileged_repository() else {
            return;
        };
        // Leaves no directory below that a new object could happen to fall into.
        repo.run_git(&["gc", "-q"]);
        let before = repo.run_git(&["rev-parse", "HEAD"]);
        let said = while_closed(&repo.shop_path().join(closed), 0o555, || {
            repo.run_bad(1, &["apply", &plan, "--yes"], "ermission")
        });
        let hint = "Give yourself read and write permission there";
        assert!(said.messages().contains(hint), "{closed}: {said:?}");
        assert_eq!(repo.run_git(&["rev-parse", "HEAD"]), before, "{closed}");
        assert_eq!(repo.run_git(&["status", "--porcelain"]), "", "{closed}");
        assert!(
            !repo.shop_path().join(".git/index.lock").exists(),
            "{closed}"
        );
        repo.run_ok(&["apply", &plan, "--yes"]);
        assert!(repo.read_file("src/a.txt").ends_with("SIX\n"), "{closed}");
        repo.assert_tidy();
    }
}

#[test]
fn a_place_that_cannot_be_entered_is_named_and_not_registered() {
    let Some((repo, _)) = unprivileged_repository() else {
        return;
    };
    let other = repo.clone_repository("closed");
    for kind in ["--git", "--dir"] {
        let said = while_closed(Path::new(&other), 0o000, || {
            repo.run_bad(
                1,
                &["project", "create", "closed", kind, &other],
                "ermission",
            )
        });
        assert!(said.messages().contains(&other), "{said:?}");
        repo.run_bad(3, &["project", "show", "closed"], "");
    }
}

#[test]
fn a_home_that_cannot_be_written_leaves_the_repository_alone() {
    let Some((repo, plan)) = unprivileged_repository() else {
        return;
    };
    let before = repo.run_git(&["rev-parse", "HEAD"]);
    let said = while_closed(repo.program.home(), 0o555, || {
        repo.run(&["apply", &plan, "--yes"])
    });
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    assert_eq!(repo.run_git(&["rev-parse", "HEAD"]), before);
    assert_eq!(repo.run_git(&["status", "--porcelain"]), "");
    repo.run_ok(&["apply", &plan, "--yes"]);
    repo.assert_tidy();
}
