//! Odd repositories: handled, or refused before work begins with what to do.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use plan::Epoch;
use planwright_sandbox::land::{How, Landed, Proposed};
use planwright_sandbox::{SandboxError, Site, SitePlace, Start, look_at_dir, look_at_git};

use crate::yard::{Yard, git, plan, surroundings, write};

const COMMIT: How = How::Commit { merge: false };

/// Does some work in a sandbox and lands it.
fn lands(yard: &Yard, work: impl Fn(&Path)) {
    let sandbox = yard.enter(plan(1), 1);
    work(&sandbox.path);
    let result = yard.captured(plan(1), 1);
    match yard.propose(plan(1), 2, &result, &COMMIT) {
        Proposed::Ready(proposal) => {
            assert_eq!(
                yard.land(plan(1), 2, &proposal),
                Landed::Yes { kept: Vec::new() }
            );
        }
        other => panic!("{other:?}"),
    }
    yard.assert_tidy();
}

#[test]
fn odd_names_links_modes_and_binaries_travel_whole() {
    let yard = Yard::new();
    symlink("a.txt", yard.path().join("src/link")).unwrap();
    yard.commit("link");
    let names: [&[u8]; 5] = [
        b"with space.txt",
        b"-dash",
        b"line\nbreak",
        b"caf\xc3\xa9",
        b"not-utf8-\xff",
    ];
    lands(&yard, |sandbox| {
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
        let there = std::fs::read(yard.path().join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(there, name);
    }
    let mode = std::fs::metadata(yard.path().join("tool.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
    let link = std::fs::read_link(yard.path().join("src/link")).unwrap();
    assert_eq!(link, Path::new("b.txt"));
    assert!(yard.path().join("outward").is_symlink());
    yard.assert_clean();
}

#[test]
fn a_file_becomes_a_directory_and_the_reverse() {
    let yard = Yard::new();
    lands(&yard, |sandbox| {
        std::fs::remove_file(sandbox.join("README.md")).unwrap();
        write(&sandbox.join("README.md/inside.txt"), "now a directory\n");
        std::fs::remove_dir_all(sandbox.join("src")).unwrap();
        write(&sandbox.join("src"), "now a file\n");
    });
    assert_eq!(yard.read("README.md/inside.txt"), "now a directory\n");
    assert_eq!(yard.read("src"), "now a file\n");
    yard.assert_clean();
}

#[test]
fn a_directory_replaced_by_a_link_of_the_persons_is_not_followed() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    write(&sandbox.path.join("src/b.txt"), "changed\n");
    let result = yard.captured(plan(1), 1);
    let outside = yard.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("b.txt"), "precious\n").unwrap();
    std::fs::rename(yard.path().join("src"), yard.path().join("src.kept")).unwrap();
    symlink(&outside, yard.path().join("src")).unwrap();
    assert!(matches!(
        yard.propose(plan(1), 2, &result, &COMMIT),
        Proposed::Hindered(_)
    ));
    let precious = std::fs::read_to_string(outside.join("b.txt")).unwrap();
    assert_eq!(precious, "precious\n");
}

#[test]
fn shallow_clones_and_sha256_repositories_work() {
    let origin = Yard::new();
    origin.write("second", "2\n");
    origin.commit("second");
    let yard = Yard::empty();
    let url = format!("file://{}", origin.path().display());
    git(
        yard.directory.path(),
        &["clone", "-q", "--depth=1", &url, "shop"],
    );
    lands(&yard, |sandbox| {
        git(sandbox, &["log", "--oneline"]);
        write(&sandbox.join("README.md"), "# Shallow\n");
    });
    yard.assert_clean();

    let yard = Yard::empty();
    yard.git(&["init", "-q", "-b", "main", "--object-format=sha256", "."]);
    yard.write("README.md", "# 256\n");
    yard.commit("start");
    lands(&yard, |sandbox| write(&sandbox.join("new"), "x\n"));
    yard.assert_clean();
}

#[test]
fn a_bare_repository_gets_the_commit_alone() {
    let origin = Yard::new();
    let yard = Yard::empty();
    git(
        yard.directory.path(),
        &[
            "clone",
            "-q",
            "--bare",
            origin.path().to_str().unwrap(),
            "shop",
        ],
    );
    let place = look_at_git(&surroundings(), &yard.path(), None).unwrap();
    assert_eq!(place.branch, "refs/heads/main");
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let result = yard.captured(plan(1), 1);
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it is bare, not busy");
    };
    yard.land(plan(1), 2, &proposal);
    assert_eq!(yard.git(&["show", "main:src/new/c.txt"]), "new");
}

#[test]
fn submodules_stay_what_they_are_and_new_nested_repositories_are_refused() {
    let library = Yard::new();
    let yard = Yard::new();
    let path = library.path();
    yard.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        path.to_str().unwrap(),
        "library",
    ]);
    yard.commit("submodule");
    lands(&yard, |sandbox| {
        write(&sandbox.join("README.md"), "# New\n")
    });
    assert!(yard.path().join("library/src/a.txt").exists());
    yard.assert_clean();

    let sandbox = yard.enter(plan(2), 1);
    git(&sandbox.path, &["init", "-q", "nested"]);
    write(&sandbox.path.join("nested/x"), "x\n");
    git(&sandbox.path.join("nested"), &["add", "x"]);
    git(&sandbox.path.join("nested"), &["commit", "-qm", "x"]);
    let refused = yard
        .workshop
        .capture(&yard.room(plan(2)), Epoch(1), &sandbox.base);
    assert!(
        matches!(&refused, Err(SandboxError::Uncapturable { path, .. }) if path.to_string() == "nested"),
        "{refused:?}"
    );
}

#[test]
fn files_under_a_content_filter_are_refused_when_changed_and_left_alone_otherwise() {
    let yard = Yard::new();
    yard.write(
        ".gitattributes",
        "*.big filter=lfs diff=lfs merge=lfs -text\n",
    );
    yard.write("film.big", "version https://git-lfs.github.com/spec/v1\n");
    yard.commit("large files");
    lands(&yard, |sandbox| {
        write(&sandbox.join("README.md"), "# New\n")
    });
    let sandbox = yard.enter(plan(2), 1);
    write(&sandbox.path.join("film.big"), "real content\n");
    let refused = yard
        .workshop
        .capture(&yard.room(plan(2)), Epoch(1), &sandbox.base);
    assert!(matches!(refused, Err(SandboxError::Uncapturable { .. })));
}

#[test]
fn hooks_signing_line_ends_and_sparse_checkouts_change_nothing() {
    let yard = Yard::new();
    yard.write(".gitattributes", "*.txt text\n");
    yard.commit("text");
    yard.git(&["config", "core.autocrlf", "true"]);
    yard.git(&["config", "commit.gpgSign", "true"]);
    yard.git(&["config", "gpg.program", "/bin/false"]);
    yard.git(&["rm", "-q", "--cached", "-r", "."]);
    yard.git(&["reset", "-q", "--hard"]);
    assert_eq!(yard.read("src/b.txt"), "alpha\r\nbeta\r\n");
    for hook in [
        "pre-commit",
        "reference-transaction",
        "post-checkout",
        "post-index-change",
    ] {
        let path = yard.path().join(".git/hooks").join(hook);
        write(&path, "#!/bin/sh\necho \"$0\" >> ../sprung\nexit 1\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    lands(&yard, |sandbox| {
        assert_eq!(
            std::fs::read_to_string(sandbox.join("src/b.txt")).unwrap(),
            "alpha\nbeta\n"
        );
        write(&sandbox.join("src/b.txt"), "alpha\nBETA\n");
    });
    assert_eq!(yard.read("src/b.txt"), "alpha\r\nBETA\r\n");
    assert_eq!(yard.git(&["show", "HEAD:src/b.txt"]), "alpha\nBETA");
    assert!(!yard.directory.path().join("sprung").exists(), "a hook ran");
    std::fs::remove_dir_all(yard.path().join(".git/hooks")).unwrap();
    yard.assert_clean();

    let yard = Yard::new();
    yard.git(&["sparse-checkout", "set", "src"]);
    assert!(!yard.path().join("old").exists());
    lands(&yard, |sandbox| {
        write(&sandbox.join("old/gone.txt"), "changed, out of sight\n");
        write(&sandbox.join("old/new.txt"), "new, out of sight\n");
        write(&sandbox.join("src/b.txt"), "in sight\n");
    });
    assert!(!yard.path().join("old").exists());
    assert_eq!(yard.read("src/b.txt"), "in sight\n");
    assert_eq!(yard.git(&["show", "HEAD:old/new.txt"]), "new, out of sight");
    yard.assert_clean();
}

#[test]
fn places_that_cannot_be_used_are_refused_with_what_to_do() {
    let why = |result: Result<_, SandboxError>| match result {
        Err(SandboxError::BadPlace { why, .. }) => why,
        Err(other) => other.to_string(),
        Ok(_) => "nothing".to_owned(),
    };
    let surroundings = surroundings();
    let yard = Yard::empty();
    let look = |path: &Path, branch| why(look_at_git(&surroundings, path, branch));
    assert_eq!(look(&yard.path(), None), "is not in a git repository");
    assert!(look(&yard.path().join("nowhere"), None).contains("cannot be found"));
    yard.git(&["init", "-q", "-b", "main", "."]);
    assert_eq!(look(&yard.path(), None), "has no commit yet");
    yard.write("x", "x\n");
    yard.commit("x");
    assert!(look(&yard.path(), Some("absent")).contains("has no branch `absent`"));
    assert_eq!(
        look(&yard.path().join(".git"), None),
        "is the inside of a repository"
    );
    yard.git(&["checkout", "-q", "--detach"]);
    let detached = look_at_git(&surroundings, &yard.path(), None);
    assert!(matches!(detached, Err(SandboxError::Detached { .. })));
    let place = look_at_git(&surroundings, &yard.path(), Some("main")).unwrap();
    assert_eq!(place.branch, "refs/heads/main");
    assert_eq!(
        why(look_at_dir(&surroundings, &yard.path()).map(|_| place)),
        "is a git repository"
    );
}

#[test]
fn a_repository_that_went_or_lost_its_branch_says_so() {
    let mut yard = Yard::new();
    yard.site.place = SitePlace::Git {
        path: yard.path(),
        target: "refs/heads/absent".to_owned(),
    };
    assert!(matches!(
        yard.workshop.tip(&yard.site),
        Err(SandboxError::NoBranch { .. })
    ));
    yard.site.place = SitePlace::Git {
        path: yard.directory.path().join("moved-away"),
        target: "refs/heads/main".to_owned(),
    };
    assert!(matches!(
        yard.workshop.tip(&yard.site),
        Err(SandboxError::BadPlace { .. })
    ));
}

#[test]
fn a_plain_directory_is_worked_on_like_a_repository() {
    let mut yard = Yard::empty();
    yard.site = Site {
        name: "notes/text".to_owned(),
        place: SitePlace::Dir { path: yard.path() },
    };
    yard.write(
        "src/a.txt",
        "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
    );
    yard.write("old/gone.txt", "to be deleted\n");
    let before = yard.photograph();
    let sandbox = yard.enter(plan(1), 1);
    yard.usual_work(&sandbox);
    let result = yard.captured(plan(1), 1);
    assert_eq!(yard.photograph(), before);
    yard.write("meanwhile.txt", "by a person\n");
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it merges");
    };
    yard.land(plan(1), 2, &proposal);
    assert!(yard.read("src/a.txt").ends_with("EIGHT\n"));
    assert_eq!(yard.read("src/new/c.txt"), "new\n");
    assert_eq!(yard.read("meanwhile.txt"), "by a person\n");
    assert!(!yard.path().join("old/gone.txt").exists());
    assert!(!yard.path().join(".git").exists());
    yard.land(plan(1), 3, &proposal);
}

#[test]
fn what_is_not_committed_becomes_the_base_when_asked_for() {
    let yard = Yard::new();
    yard.write("src/b.txt", "not committed\n");
    yard.write("untracked.txt", "neither\n");
    let before = yard.photograph_of_theirs();
    let room = yard.room(plan(1));
    let tip = yard.tip();
    assert_eq!(
        yard.workshop
            .repository(&yard.site)
            .unwrap()
            .uncommitted()
            .unwrap()
            .len(),
        2
    );
    let base = yard.workshop.snapshot_changes(&room, &tip).unwrap();
    let sandbox = yard
        .workshop
        .enter(&room, Epoch(1), &base, Start::Continue)
        .unwrap()
        .sandbox;
    assert_eq!(
        std::fs::read_to_string(sandbox.path.join("untracked.txt")).unwrap(),
        "neither\n"
    );
    assert_eq!(yard.photograph_of_theirs(), before);
    write(&sandbox.path.join("README.md"), "# New\n");
    let result = yard.captured(plan(1), 1);
    let Proposed::Ready(proposal) = yard.propose(plan(1), 2, &result, &COMMIT) else {
        panic!("it does not touch what is not committed");
    };
    yard.land(plan(1), 2, &proposal);
    assert_eq!(yard.read("src/b.txt"), "not committed\n");
    assert_eq!(
        yard.git(&["show", "--stat", "--format=", "HEAD"])
            .lines()
            .count(),
        2
    );
}
