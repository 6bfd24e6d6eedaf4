//! What an agent left in the repository of its sandbox is kept when the sandbox goes.

use std::path::Path;

use plan::Epoch;
use planwright_sandbox::land::How;
use planwright_sandbox::{KeptAgentRefs, Sandbox};

use crate::yard::{Yard, git, plan, write};

impl Yard {
    /// Cleans up as the engine does, and says what was kept of the agent's own refs.
    fn cleaned(&self, has_landed: bool) -> KeptAgentRefs {
        let room = self.room(plan(1));
        let kept = self.workshop.rescue_agent_refs(&room, has_landed).unwrap();
        let again = self.workshop.rescue_agent_refs(&room, has_landed).unwrap();
        assert_eq!(kept, again, "repeating it gives the same");
        self.workshop.remove(plan(1), || Ok(())).unwrap();
        self.git(&["reflog", "expire", "--expire=now", "--all"]);
        self.git(&["gc", "-q", "--prune=now"]);
        assert_eq!(self.git(&["fsck", "--no-dangling"]), "");
        kept
    }

    /// The text of a file under a ref of the agent's.
    fn kept(&self, name: &str, file: &str) -> String {
        self.git(&["show", &format!("{}:{file}", self.kept_ref(name))])
    }

    fn kept_ref(&self, name: &str) -> String {
        format!(
            "refs/planwright/rescue/{}/agent/shop+code/1/{name}",
            plan(1)
        )
    }

    fn rescue_refs(&self) -> Vec<String> {
        let listed = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/planwright/rescue",
        ];
        self.git(&listed).lines().map(str::to_owned).collect()
    }
}

fn commit(sandbox: &Sandbox, file: &str) {
    write(&sandbox.path.join(file), &format!("{file}\n"));
    git(&sandbox.path, &["add", file]);
    git(&sandbox.path, &["commit", "-q", "-m", file]);
}

fn stash(sandbox: &Sandbox, file: &str) {
    write(&sandbox.path.join(file), &format!("{file}\n"));
    git(&sandbox.path, &["stash", "push", "-q", "-u", "-m", file]);
}

#[test]
fn branches_tags_stashes_and_a_detached_head_are_kept() {
    for is_packed in [false, true] {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(1), 1);
        let agent = |words: &[&str]| git(&sandbox.path, words);
        agent(&["switch", "-q", "-c", "try/one"]);
        commit(&sandbox, "one.txt");
        agent(&["tag", "-a", "-m", "first", "v1"]);
        stash(&sandbox, "older.txt");
        stash(&sandbox, "newer.txt");
        agent(&["switch", "-q", "main"]);
        commit(&sandbox, "reset.txt");
        agent(&["reset", "-q", "--hard", "HEAD~1"]);
        agent(&["switch", "-q", "--detach"]);
        commit(&sandbox, "detached.txt");
        if is_packed {
            agent(&["gc", "-q"]);
        }
        let kept = yard.cleaned(false);
        assert_eq!(kept.set_aside.len(), 0);
        assert_eq!(kept.refs.len(), yard.rescue_refs().len());
        assert_eq!(yard.kept("heads/try/one", "one.txt"), "one.txt");
        assert_eq!(yard.kept("HEAD", "detached.txt"), "detached.txt");
        assert_eq!(yard.kept("stash^3", "newer.txt"), "newer.txt");
        assert_eq!(yard.kept("stash-1^3", "older.txt"), "older.txt");
        let tag = yard.git(&["cat-file", "-p", &yard.kept_ref("tags/v1")]);
        assert!(tag.ends_with("first"), "{tag}");
        let reset = yard
            .rescue_refs()
            .into_iter()
            .filter(|name| name.contains("/reflog/"))
            .map(|name| yard.git(&["log", "-1", "--format=%s", &name]));
        assert!(reset.collect::<Vec<_>>().contains(&"reset.txt".to_owned()));
        let listed = yard.workshop.rescued_agent_refs(&yard.room(plan(1)));
        assert_eq!(listed.unwrap().len(), kept.refs.len());
    }
}

#[test]
fn a_plan_that_landed_leaves_only_what_is_not_in_it() {
    for with_more in [false, true] {
        let yard = Yard::new();
        let sandbox = yard.enter(plan(1), 1);
        if with_more {
            git(&sandbox.path, &["switch", "-q", "-c", "aside"]);
            commit(&sandbox, "aside.txt");
            git(&sandbox.path, &["switch", "-q", "main"]);
            stash(&sandbox, "stashed.txt");
        }
        commit(&sandbox, "made.txt");
        git(&sandbox.path, &["commit", "-q", "--amend", "-m", "better"]);
        git(&sandbox.path, &["branch", "same"]);
        let proposal = {
            let result = yard.captured(plan(1), 1);
            let how = How::Commit { merge: false };
            match yard.propose(plan(1), 2, &result, &how) {
                planwright_sandbox::land::Proposed::Ready(proposal) => proposal,
                other => panic!("{other:?}"),
            }
        };
        yard.land(plan(1), 2, &proposal);
        yard.workshop
            .release_pins(&yard.room(plan(1)), Epoch(2))
            .unwrap();
        yard.cleaned(true);
        let names = yard.rescue_refs();
        if with_more {
            assert_eq!(
                names,
                [yard.kept_ref("heads/aside"), yard.kept_ref("stash")]
            );
            assert_eq!(yard.kept("stash^3", "stashed.txt"), "stashed.txt");
        } else {
            assert_eq!(names, Vec::<String>::new());
        }
    }
}

#[test]
fn a_sandbox_in_which_a_person_looked_around_keeps_its_refs() {
    let yard = Yard::new();
    let sandbox = yard.enter(plan(1), 1);
    git(&sandbox.path, &["switch", "-q", "-c", "try"]);
    commit(&sandbox, "one.txt");
    stash(&sandbox, "stashed.txt");
    let room = yard.room(plan(1));
    yard.workshop.open_for_person(&room, None).unwrap().unwrap();
    commit(&sandbox, "by-a-person.txt");
    let kept = yard.cleaned(false);
    assert_eq!(kept.set_aside.len(), 0);
    assert_eq!(yard.kept("heads/try", "one.txt"), "one.txt");
    assert_eq!(yard.kept("heads/try", "by-a-person.txt"), "by-a-person.txt");
    assert_eq!(yard.kept("stash^3", "stashed.txt"), "stashed.txt");
}

/// Whatever an agent did to its repository: the good refs are kept, nothing of others' gets in, and the rest stays as
/// it is, where no git takes it for a repository.
#[test]
fn a_hostile_repository_is_cleaned_up_and_nothing_is_lost() {
    let yard = Yard::new();
    let secret = yard.directory.path().join("secret");
    std::fs::create_dir(&secret).unwrap();
    git(&secret, &["init", "-q", "-b", "main", "."]);
    write(&secret.join("key.txt"), "secret\n");
    git(&secret, &["add", "."]);
    git(&secret, &["commit", "-q", "-m", "secret"]);
    let stolen = git(&secret, &["rev-parse", "HEAD"]);

    let sandbox = yard.enter(plan(1), 1);
    git(&sandbox.path, &["switch", "-q", "-c", "good"]);
    commit(&sandbox, "good.txt");
    let dot_git = sandbox.path.join(".git");
    // A tree with an entry that no checkout may follow.
    let blob = git(&sandbox.path, &["hash-object", "-w", "good.txt"]);
    let tree = format!("printf '100644 blob {blob}\\t.git\\n' | git mktree");
    let tree = shell(&sandbox.path, &tree);
    let evil = git(&sandbox.path, &["commit-tree", &tree, "-m", "evil"]);
    let refs = dot_git.join("refs/heads");
    for (name, text) in [
        ("evil", evil.as_str()),
        ("stolen", stolen.as_str()),
        ("gone", "0123456789012345678901234567890123456789"),
        ("nonsense", "../../../../etc/passwd"),
        ("with space", &git(&sandbox.path, &["rev-parse", "good"])),
    ] {
        write(&refs.join(name), &format!("{text}\n"));
    }
    std::os::unix::fs::symlink(secret.join(".git/refs/heads/main"), refs.join("link")).unwrap();
    std::os::unix::fs::symlink("/", dot_git.join("refs/root")).unwrap();
    shell(&sandbox.path, "mkfifo .git/refs/heads/pipe");
    write(
        &dot_git.join("packed-refs"),
        "rubbish\n\u{0}\u{1} refs/heads/x\n",
    );
    let lender = format!("{}\n", secret.join(".git/objects").display());
    let mut alternates = std::fs::read_to_string(dot_git.join("objects/info/alternates")).unwrap();
    alternates.push_str(&lender);
    std::fs::write(dot_git.join("objects/info/alternates"), alternates).unwrap();
    let mark = yard.directory.path().join("ran");
    let config = format!("[core]\n\tfsmonitor = touch {}\n", mark.display());
    std::fs::write(dot_git.join("config"), config).unwrap();

    let kept = yard.cleaned(false);
    assert!(!mark.exists(), "configuration of the agent's was run");
    assert_eq!(yard.kept("heads/good", "good.txt"), "good.txt");
    assert!(!sandbox.path.exists());
    for absent in [&evil, &stolen] {
        let there = std::process::Command::new("git")
            .args(["cat-file", "-e", absent])
            .current_dir(yard.path())
            .status();
        assert!(!there.unwrap().success(), "{absent} got in");
    }
    let [aside] = kept.set_aside.as_slice() else {
        panic!("{kept:?}");
    };
    let object = aside.join("0/objects").join(&evil[..2]).join(&evil[2..]);
    assert!(object.exists(), "what did not pass is still there");
    assert!(!aside.join("0/config").exists() && !aside.join("0/HEAD").exists());
}

fn shell(directory: &Path, command: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Guards what a confined agent may read: a link that an earlier one put in the place of its repository leads to no
/// objects that are borrowed.
#[test]
fn objects_behind_a_link_are_not_borrowed() {
    let yard = Yard::new();
    let room = yard.room(plan(1));
    let sandbox = yard.enter(plan(1), 1);
    let elsewhere = tempfile::TempDir::with_prefix("planwright-private-").unwrap();
    std::fs::create_dir(elsewhere.path().join("objects")).unwrap();
    let repository = sandbox.path.join(".git");
    std::fs::remove_dir_all(&repository).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &repository).unwrap();
    yard.workshop.open_for_person(&room, None).unwrap().unwrap();
    let private = elsewhere.path().canonicalize().unwrap();
    for borrowed in yard.workshop.borrowed(&room).unwrap() {
        let place = borrowed.canonicalize().unwrap();
        assert!(!place.starts_with(&private), "{}", borrowed.display());
    }
}
