//! Unusual repositories either work, or are refused before work begins, with a hint.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use plan::Epoch;
use planwright_sandbox::land::{LandAttempt, LandingMethod, ProposalOutcome};
use planwright_sandbox::{
    LocalResource, ResourceLocation, SandboxEntryMode, SandboxError, locate_directory,
    locate_git_repository,
};

use crate::fixture::{SandboxFixture, run_git, test_git_env, test_plan_id, write_file};

const AS_COMMIT: LandingMethod = LandingMethod::Commit { merge: false };

fn assert_work_lands(fixture: &SandboxFixture, work: impl Fn(&Path)) {
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    work(&sandbox.path);
    let result = fixture.capture_result(test_plan_id(1), 1);
    match fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT) {
        ProposalOutcome::Ready(proposal) => {
            assert_eq!(
                fixture.land_proposal(test_plan_id(1), 2, &proposal),
                LandAttempt::Landed { kept: Vec::new() }
            );
        }
        other => panic!("{other:?}"),
    }
    fixture.assert_no_leftovers();
}

#[test]
fn unusual_names_symlinks_modes_and_binaries_land_unchanged() {
    let fixture = SandboxFixture::new();
    symlink("a.txt", fixture.path().join("src/link")).unwrap();
    fixture.commit_all("link");
    let names: [&[u8]; 5] = [
        b"with space.txt",
        b"-dash",
        b"line\nbreak",
        b"caf\xc3\xa9",
        b"not-utf8-\xff",
    ];
    assert_work_lands(&fixture, |sandbox| {
        for name in names {
            std::fs::write(sandbox.join(OsStr::from_bytes(name)), name).unwrap();
        }
        std::fs::write(sandbox.join("big.bin"), vec![0u8; 3_000_000]).unwrap();
        let tool = sandbox.join("tool.sh");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::remove_file(sandbox.join("src/link")).unwrap();
        symlink("b.txt", sandbox.join("src/link")).unwrap();
        symlink("/etc/passwd", sandbox.join("outward")).unwrap();
    });
    for name in names {
        let content = std::fs::read(fixture.path().join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(content, name);
    }
    let mode = std::fs::metadata(fixture.path().join("tool.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    let link = std::fs::read_link(fixture.path().join("src/link")).unwrap();
    assert_eq!(link, Path::new("b.txt"));
    assert!(fixture.path().join("outward").is_symlink());
    fixture.assert_clean();
}

#[test]
fn file_and_directory_can_replace_each_other() {
    let fixture = SandboxFixture::new();
    assert_work_lands(&fixture, |sandbox| {
        std::fs::remove_file(sandbox.join("README.md")).unwrap();
        write_file(&sandbox.join("README.md/inside.txt"), "now a directory\n");
        std::fs::remove_dir_all(sandbox.join("src")).unwrap();
        write_file(&sandbox.join("src"), "now a file\n");
    });
    assert_eq!(
        fixture.read_file("README.md/inside.txt"),
        "now a directory\n"
    );
    assert_eq!(fixture.read_file("src"), "now a file\n");
    fixture.assert_clean();
}

#[test]
fn symlink_in_place_of_a_directory_is_not_followed() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    write_file(&sandbox.path.join("src/b.txt"), "changed\n");
    let result = fixture.capture_result(test_plan_id(1), 1);
    let outside = fixture.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("b.txt"), "precious\n").unwrap();
    std::fs::rename(fixture.path().join("src"), fixture.path().join("src.kept")).unwrap();
    symlink(&outside, fixture.path().join("src")).unwrap();
    assert!(matches!(
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT),
        ProposalOutcome::Blocked(_)
    ));
    let precious = std::fs::read_to_string(outside.join("b.txt")).unwrap();
    assert_eq!(precious, "precious\n");
}

#[test]
fn shallow_clones_and_sha256_repositories_work() {
    let origin = SandboxFixture::new();
    origin.write_file("second", "2\n");
    origin.commit_all("second");
    let fixture = SandboxFixture::new_empty();
    let url = format!("file://{}", origin.path().display());
    run_git(
        fixture.directory.path(),
        &["clone", "-q", "--depth=1", &url, "shop"],
    );
    assert_work_lands(&fixture, |sandbox| {
        run_git(sandbox, &["log", "--oneline"]);
        write_file(&sandbox.join("README.md"), "# Shallow\n");
    });
    fixture.assert_clean();

    let fixture = SandboxFixture::new_empty();
    fixture.run_git(&["init", "-q", "-b", "main", "--object-format=sha256", "."]);
    fixture.write_file("README.md", "# 256\n");
    fixture.commit_all("start");
    assert_work_lands(&fixture, |sandbox| write_file(&sandbox.join("new"), "x\n"));
    fixture.assert_clean();
}

#[test]
fn bare_repository_gets_only_the_commit() {
    let origin = SandboxFixture::new();
    let fixture = SandboxFixture::new_empty();
    run_git(
        fixture.directory.path(),
        &[
            "clone",
            "-q",
            "--bare",
            origin.path().to_str().unwrap(),
            "shop",
        ],
    );
    let location = locate_git_repository(&test_git_env(), &fixture.path(), None).unwrap();
    assert_eq!(location.branch, "refs/heads/main");
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let result = fixture.capture_result(test_plan_id(1), 1);
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("it is bare, not busy");
    };
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(fixture.run_git(&["show", "main:src/new/c.txt"]), "new");
}

#[test]
fn submodules_are_kept_and_nested_repositories_refused() {
    let library = SandboxFixture::new();
    let fixture = SandboxFixture::new();
    let path = library.path();
    fixture.run_git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        path.to_str().unwrap(),
        "library",
    ]);
    fixture.commit_all("submodule");
    assert_work_lands(&fixture, |sandbox| {
        write_file(&sandbox.join("README.md"), "# New\n")
    });
    assert!(fixture.path().join("library/src/a.txt").exists());
    fixture.assert_clean();

    let sandbox = fixture.enter_sandbox(test_plan_id(2), 1);
    run_git(&sandbox.path, &["init", "-q", "nested"]);
    write_file(&sandbox.path.join("nested/x"), "x\n");
    run_git(&sandbox.path.join("nested"), &["add", "x"]);
    run_git(&sandbox.path.join("nested"), &["commit", "-qm", "x"]);
    let refused = fixture.sandboxes.capture().capture_sandbox(
        &fixture.sandbox_key(test_plan_id(2)),
        Epoch(1),
        &sandbox.base,
    );
    assert!(
        matches!(&refused, Err(SandboxError::Uncapturable { path, .. }) if path.to_string() == "nested"),
        "{refused:?}"
    );
}

#[test]
fn changed_files_with_a_content_filter_are_refused() {
    let fixture = SandboxFixture::new();
    fixture.write_file(
        ".gitattributes",
        "*.big filter=lfs diff=lfs merge=lfs -text\n",
    );
    fixture.write_file("film.big", "version https://git-lfs.github.com/spec/v1\n");
    fixture.commit_all("large files");
    assert_work_lands(&fixture, |sandbox| {
        write_file(&sandbox.join("README.md"), "# New\n")
    });
    let sandbox = fixture.enter_sandbox(test_plan_id(2), 1);
    write_file(&sandbox.path.join("film.big"), "real content\n");
    let refused = fixture.sandboxes.capture().capture_sandbox(
        &fixture.sandbox_key(test_plan_id(2)),
        Epoch(1),
        &sandbox.base,
    );
    assert!(matches!(refused, Err(SandboxError::Uncapturable { .. })));
}

#[test]
fn hooks_signing_line_endings_and_sparse_checkouts_are_respected() {
    let fixture = SandboxFixture::new();
    fixture.write_file(".gitattributes", "*.txt text\n");
    fixture.commit_all("text");
    fixture.run_git(&["config", "core.autocrlf", "true"]);
    fixture.run_git(&["config", "commit.gpgSign", "true"]);
    fixture.run_git(&["config", "gpg.program", "/bin/false"]);
    fixture.run_git(&["rm", "-q", "--cached", "-r", "."]);
    fixture.run_git(&["reset", "-q", "--hard"]);
    assert_eq!(fixture.read_file("src/b.txt"), "alpha\r\nbeta\r\n");
    for hook in [
        "pre-commit",
        "reference-transaction",
        "post-checkout",
        "post-index-change",
    ] {
        let path = fixture.path().join(".git/hooks").join(hook);
        write_file(&path, "#!/bin/sh\necho \"$0\" >> ../sprung\nexit 1\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_work_lands(&fixture, |sandbox| {
        assert_eq!(
            std::fs::read_to_string(sandbox.join("src/b.txt")).unwrap(),
            "alpha\nbeta\n"
        );
        write_file(&sandbox.join("src/b.txt"), "alpha\nBETA\n");
    });
    assert_eq!(fixture.read_file("src/b.txt"), "alpha\r\nBETA\r\n");
    assert_eq!(fixture.run_git(&["show", "HEAD:src/b.txt"]), "alpha\nBETA");
    assert!(
        !fixture.directory.path().join("sprung").exists(),
        "a hook ran"
    );
    std::fs::remove_dir_all(fixture.path().join(".git/hooks")).unwrap();
    fixture.assert_clean();

    let fixture = SandboxFixture::new();
    fixture.run_git(&["sparse-checkout", "set", "src"]);
    assert!(!fixture.path().join("old").exists());
    assert_work_lands(&fixture, |sandbox| {
        write_file(&sandbox.join("old/gone.txt"), "changed, out of sight\n");
        write_file(&sandbox.join("old/new.txt"), "new, out of sight\n");
        write_file(&sandbox.join("src/b.txt"), "in sight\n");
    });
    assert!(!fixture.path().join("old").exists());
    assert_eq!(fixture.read_file("src/b.txt"), "in sight\n");
    assert_eq!(
        fixture.run_git(&["show", "HEAD:old/new.txt"]),
        "new, out of sight"
    );
    fixture.assert_clean();
}

#[test]
fn unusable_locations_are_refused_with_a_reason() {
    let why = |result: Result<_, SandboxError>| match result {
        Err(SandboxError::UnusableLocation { problem, .. }) => problem.to_string(),
        Err(other) => other.to_string(),
        Ok(_) => "nothing".to_owned(),
    };
    let git_env = test_git_env();
    let fixture = SandboxFixture::new_empty();
    let locate = |path: &Path, branch| why(locate_git_repository(&git_env, path, branch));
    assert_eq!(locate(&fixture.path(), None), "is not in a git repository");
    assert!(locate(&fixture.path().join("nowhere"), None).contains("cannot be found"));
    fixture.run_git(&["init", "-q", "-b", "main", "."]);
    assert_eq!(locate(&fixture.path(), None), "has no commit yet");
    fixture.write_file("x", "x\n");
    fixture.commit_all("x");
    assert!(locate(&fixture.path(), Some("absent")).contains("has no branch `absent`"));
    assert_eq!(
        locate(&fixture.path().join(".git"), None),
        "is the inside of a repository"
    );
    fixture.run_git(&["checkout", "-q", "--detach"]);
    let detached = locate_git_repository(&git_env, &fixture.path(), None);
    assert!(matches!(detached, Err(SandboxError::DetachedHead { .. })));
    let location = locate_git_repository(&git_env, &fixture.path(), Some("main")).unwrap();
    assert_eq!(location.branch, "refs/heads/main");
    assert_eq!(
        why(locate_directory(&git_env, &fixture.path()).map(|_| location)),
        "is a git repository"
    );
}

#[test]
fn missing_repository_or_branch_is_reported() {
    let mut fixture = SandboxFixture::new();
    fixture.resource.location = ResourceLocation::Git {
        path: fixture.path(),
        target: "refs/heads/absent".to_owned(),
    };
    assert!(matches!(
        fixture.sandboxes.read_tip(&fixture.resource),
        Err(SandboxError::NoBranch { .. })
    ));
    fixture.resource.location = ResourceLocation::Git {
        path: fixture.directory.path().join("moved-away"),
        target: "refs/heads/main".to_owned(),
    };
    assert!(matches!(
        fixture.sandboxes.read_tip(&fixture.resource),
        Err(SandboxError::UnusableLocation { .. })
    ));
}

#[test]
fn plain_directory_works_like_a_repository() {
    let mut fixture = SandboxFixture::new_empty();
    fixture.resource = LocalResource {
        name: "notes/text".to_owned(),
        location: ResourceLocation::Dir {
            path: fixture.path(),
        },
    };
    fixture.write_file(
        "src/a.txt",
        "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    );
    fixture.write_file("old/gone.txt", "to be deleted\n");
    let before = fixture.snapshot_files();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    let result = fixture.capture_result(test_plan_id(1), 1);
    assert_eq!(fixture.snapshot_files(), before);
    fixture.write_file("meanwhile.txt", "by a person\n");
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("it merges");
    };
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert!(fixture.read_file("src/a.txt").ends_with("EIGHT\n"));
    assert_eq!(fixture.read_file("src/new/c.txt"), "new\n");
    assert_eq!(fixture.read_file("meanwhile.txt"), "by a person\n");
    assert!(!fixture.path().join("old/gone.txt").exists());
    assert!(!fixture.path().join(".git").exists());
    fixture.land_proposal(test_plan_id(1), 3, &proposal);
}

#[test]
fn uncommitted_changes_can_become_the_base() {
    let fixture = SandboxFixture::new();
    fixture.write_file("src/b.txt", "not committed\n");
    fixture.write_file("untracked.txt", "neither\n");
    let before = fixture.snapshot_user_files();
    let key = fixture.sandbox_key(test_plan_id(1));
    let tip = fixture.tip();
    assert_eq!(
        fixture
            .sandboxes
            .open_repository(&fixture.resource)
            .unwrap()
            .list_uncommitted_paths()
            .unwrap()
            .len(),
        2
    );
    let base = fixture
        .sandboxes
        .snapshot_uncommitted_changes(&key, &tip)
        .unwrap();
    let sandbox = fixture
        .sandboxes
        .enter_sandbox(&key, Epoch(1), &base, SandboxEntryMode::Continue)
        .unwrap()
        .sandbox;
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("untracked.txt")).unwrap(),
        "neither\n"
    );
    assert_eq!(fixture.snapshot_user_files(), before);
    write_file(&sandbox.path.join("README.md"), "# New\n");
    let result = fixture.capture_result(test_plan_id(1), 1);
    let ProposalOutcome::Ready(proposal) =
        fixture.propose_landing(test_plan_id(1), 2, &result, &AS_COMMIT)
    else {
        panic!("it does not touch what is not committed");
    };
    fixture.land_proposal(test_plan_id(1), 2, &proposal);
    assert_eq!(fixture.read_file("src/b.txt"), "not committed\n");
    assert_eq!(
        fixture
            .run_git(&["show", "--stat", "--format=", "HEAD"])
            .lines()
            .count(),
        2
    );
}

/// Names that git on Windows or macOS takes for `.git` are refused everywhere, because such a
/// commit cannot be checked out there. A repository that has one already stays usable.
#[test]
fn names_like_git_on_other_systems_are_refused() {
    let names = [".g\u{200c}it/config", "sub/.gi\u{feff}t", "git~1", ".GIT"];
    for name in names {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        write_file(&sandbox.path.join(name), "x\n");
        let captured = fixture.sandboxes.capture().capture_sandbox(
            &fixture.sandbox_key(test_plan_id(1)),
            Epoch(1),
            &sandbox.base,
        );
        let error = captured.unwrap_err();
        let SandboxError::NameRefused { name: refused } = &error else {
            panic!("{name}: {error}");
        };
        assert_eq!(refused, name);
    }
    let fixture = SandboxFixture::new();
    fixture.write_file(".g\u{200c}it/config", "x\n");
    fixture.commit_all("a name like .git");
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    fixture.do_usual_work(&sandbox);
    fixture.capture_result(test_plan_id(1), 1);
}
