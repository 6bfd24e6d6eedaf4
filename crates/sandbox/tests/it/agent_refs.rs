//! Refs and objects that an agent left in its sandbox's repository are kept when the sandbox is
//! removed.

use std::path::Path;

use plan::Epoch;
use planwright_sandbox::land::LandingMethod;
use planwright_sandbox::{KeptAgentRefs, Sandbox};

use crate::fixture::{SandboxFixture, run_git, test_plan_id, write_file};

impl SandboxFixture {
    /// Cleans up like the engine, and returns what was kept of the agent's refs.
    fn clean_up_plan(&self, has_landed: bool) -> KeptAgentRefs {
        let key = self.sandbox_key(test_plan_id(1));
        let kept = self
            .sandboxes
            .rescue()
            .rescue_agent_refs(&key, has_landed)
            .unwrap();
        let again = self
            .sandboxes
            .rescue()
            .rescue_agent_refs(&key, has_landed)
            .unwrap();
        assert_eq!(kept, again, "a second call returns the same");
        self.sandboxes
            .rescue()
            .remove_plan(test_plan_id(1), || Ok(()))
            .unwrap();
        self.run_git(&["reflog", "expire", "--expire=now", "--all"]);
        self.run_git(&["gc", "-q", "--prune=now"]);
        assert_eq!(self.run_git(&["fsck", "--no-dangling"]), "");
        kept
    }

    /// Reads a file under one of the agent's kept refs.
    fn read_kept_file(&self, name: &str, file: &str) -> String {
        self.run_git(&["show", &format!("{}:{file}", self.kept_ref(name))])
    }

    fn kept_ref(&self, name: &str) -> String {
        format!(
            "refs/planwright/rescue/{}/agent/shop+code/1/{name}",
            test_plan_id(1)
        )
    }

    fn list_rescue_refs(&self) -> Vec<String> {
        let listed = [
            "for-each-ref",
            "--format=%(refname)",
            "refs/planwright/rescue",
        ];
        self.run_git(&listed).lines().map(str::to_owned).collect()
    }
}

fn commit_file(sandbox: &Sandbox, file: &str) {
    write_file(&sandbox.path.join(file), &format!("{file}\n"));
    run_git(&sandbox.path, &["add", file]);
    run_git(&sandbox.path, &["commit", "-q", "-m", file]);
}

fn stash_file(sandbox: &Sandbox, file: &str) {
    write_file(&sandbox.path.join(file), &format!("{file}\n"));
    run_git(&sandbox.path, &["stash", "push", "-q", "-u", "-m", file]);
}

#[test]
fn branches_tags_stashes_and_a_detached_head_are_kept() {
    for is_packed in [false, true] {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        let agent = |words: &[&str]| run_git(&sandbox.path, words);
        agent(&["switch", "-q", "-c", "try/one"]);
        commit_file(&sandbox, "one.txt");
        agent(&["tag", "-a", "-m", "first", "v1"]);
        stash_file(&sandbox, "older.txt");
        stash_file(&sandbox, "newer.txt");
        agent(&["switch", "-q", "main"]);
        commit_file(&sandbox, "reset.txt");
        agent(&["reset", "-q", "--hard", "HEAD~1"]);
        agent(&["switch", "-q", "--detach"]);
        commit_file(&sandbox, "detached.txt");
        if is_packed {
            agent(&["gc", "-q"]);
        }
        let kept = fixture.clean_up_plan(false);
        assert_eq!(kept.raw_copies.len(), 0);
        assert_eq!(kept.refs.len(), fixture.list_rescue_refs().len());
        assert_eq!(
            fixture.read_kept_file("heads/try/one", "one.txt"),
            "one.txt"
        );
        assert_eq!(
            fixture.read_kept_file("HEAD", "detached.txt"),
            "detached.txt"
        );
        assert_eq!(fixture.read_kept_file("stash^3", "newer.txt"), "newer.txt");
        assert_eq!(
            fixture.read_kept_file("stash-1^3", "older.txt"),
            "older.txt"
        );
        let tag = fixture.run_git(&["cat-file", "-p", &fixture.kept_ref("tags/v1")]);
        assert!(tag.ends_with("first"), "{tag}");
        let reset = fixture
            .list_rescue_refs()
            .into_iter()
            .filter(|name| name.contains("/reflog/"))
            .map(|name| fixture.run_git(&["log", "-1", "--format=%s", &name]));
        assert!(reset.collect::<Vec<_>>().contains(&"reset.txt".to_owned()));
        let listed = fixture
            .sandboxes
            .rescue()
            .list_rescued_agent_refs(&fixture.sandbox_key(test_plan_id(1)));
        assert_eq!(listed.unwrap().len(), kept.refs.len());
    }
}

#[test]
fn landed_plan_keeps_only_refs_that_did_not_land() {
    for has_other_refs in [false, true] {
        let fixture = SandboxFixture::new();
        let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
        if has_other_refs {
            run_git(&sandbox.path, &["switch", "-q", "-c", "aside"]);
            commit_file(&sandbox, "aside.txt");
            run_git(&sandbox.path, &["switch", "-q", "main"]);
            stash_file(&sandbox, "stashed.txt");
        }
        commit_file(&sandbox, "made.txt");
        run_git(&sandbox.path, &["commit", "-q", "--amend", "-m", "better"]);
        run_git(&sandbox.path, &["branch", "same"]);
        let proposal = {
            let result = fixture.capture_result(test_plan_id(1), 1);
            let method = LandingMethod::Commit { merge: false };
            match fixture.propose_landing(test_plan_id(1), 2, &result, &method) {
                planwright_sandbox::land::ProposalOutcome::Ready(proposal) => proposal,
                other => panic!("{other:?}"),
            }
        };
        fixture.land_proposal(test_plan_id(1), 2, &proposal);
        fixture
            .sandboxes
            .landings()
            .release_pins(&fixture.sandbox_key(test_plan_id(1)), Epoch(2))
            .unwrap();
        fixture.clean_up_plan(true);
        let names = fixture.list_rescue_refs();
        if has_other_refs {
            assert_eq!(
                names,
                [fixture.kept_ref("heads/aside"), fixture.kept_ref("stash")]
            );
            assert_eq!(
                fixture.read_kept_file("stash^3", "stashed.txt"),
                "stashed.txt"
            );
        } else {
            assert_eq!(names, Vec::<String>::new());
        }
    }
}

#[test]
fn refs_are_kept_after_a_person_opened_the_sandbox() {
    let fixture = SandboxFixture::new();
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    run_git(&sandbox.path, &["switch", "-q", "-c", "try"]);
    commit_file(&sandbox, "one.txt");
    stash_file(&sandbox, "stashed.txt");
    let key = fixture.sandbox_key(test_plan_id(1));
    fixture
        .sandboxes
        .open_for_person(&key, None)
        .unwrap()
        .unwrap();
    commit_file(&sandbox, "by-a-person.txt");
    let kept = fixture.clean_up_plan(false);
    assert_eq!(kept.raw_copies.len(), 0);
    assert_eq!(fixture.read_kept_file("heads/try", "one.txt"), "one.txt");
    assert_eq!(
        fixture.read_kept_file("heads/try", "by-a-person.txt"),
        "by-a-person.txt"
    );
    assert_eq!(
        fixture.read_kept_file("stash^3", "stashed.txt"),
        "stashed.txt"
    );
}

/// Whatever an agent did to its repository, the valid refs are kept and no foreign objects get in.
/// The rest is kept as files that git does not accept as a repository.
#[test]
fn hostile_repository_is_cleaned_up_without_losing_work() {
    let fixture = SandboxFixture::new();
    let secret = fixture.directory.path().join("secret");
    std::fs::create_dir(&secret).unwrap();
    run_git(&secret, &["init", "-q", "-b", "main", "."]);
    write_file(&secret.join("key.txt"), "secret\n");
    run_git(&secret, &["add", "."]);
    run_git(&secret, &["commit", "-q", "-m", "secret"]);
    let stolen = run_git(&secret, &["rev-parse", "HEAD"]);

    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    run_git(&sandbox.path, &["switch", "-q", "-c", "good"]);
    commit_file(&sandbox, "good.txt");
    let dot_git = sandbox.path.join(".git");
    // A tree with an entry that must not be checked out.
    let blob = run_git(&sandbox.path, &["hash-object", "-w", "good.txt"]);
    let tree = format!("printf '100644 blob {blob}\\t.git\\n' | git mktree");
    let tree = run_shell(&sandbox.path, &tree);
    let evil = run_git(&sandbox.path, &["commit-tree", &tree, "-m", "evil"]);
    let refs = dot_git.join("refs/heads");
    for (name, text) in [
        ("evil", evil.as_str()),
        ("stolen", stolen.as_str()),
        ("gone", "0123456789012345678901234567890123456789"),
        ("nonsense", "../../../../etc/passwd"),
        (
            "with space",
            &run_git(&sandbox.path, &["rev-parse", "good"]),
        ),
    ] {
        write_file(&refs.join(name), &format!("{text}\n"));
    }
    std::os::unix::fs::symlink(secret.join(".git/refs/heads/main"), refs.join("link")).unwrap();
    std::os::unix::fs::symlink("/", dot_git.join("refs/root")).unwrap();
    run_shell(&sandbox.path, "mkfifo .git/refs/heads/pipe");
    write_file(
        &dot_git.join("packed-refs"),
        "rubbish\n\u{0}\u{1} refs/heads/x\n",
    );
    let lender = format!("{}\n", secret.join(".git/objects").display());
    let mut alternates = std::fs::read_to_string(dot_git.join("objects/info/alternates")).unwrap();
    alternates.push_str(&lender);
    std::fs::write(dot_git.join("objects/info/alternates"), alternates).unwrap();
    let mark = fixture.directory.path().join("ran");
    let config = format!("[core]\n\tfsmonitor = touch {}\n", mark.display());
    std::fs::write(dot_git.join("config"), config).unwrap();

    let kept = fixture.clean_up_plan(false);
    assert!(!mark.exists(), "git ran the agent's configuration");
    assert_eq!(fixture.read_kept_file("heads/good", "good.txt"), "good.txt");
    assert!(!sandbox.path.exists());
    for absent in [&evil, &stolen] {
        let found = std::process::Command::new("git")
            .args(["cat-file", "-e", absent])
            .current_dir(fixture.path())
            .status();
        assert!(!found.unwrap().success(), "{absent} got in");
    }
    let [raw_copy] = kept.raw_copies.as_slice() else {
        panic!("{kept:?}");
    };
    let object = raw_copy.join("0/objects").join(&evil[..2]).join(&evil[2..]);
    assert!(object.exists(), "objects that failed the check are kept");
    assert!(!raw_copy.join("0/config").exists() && !raw_copy.join("0/HEAD").exists());
}

fn run_shell(directory: &Path, command: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// If an agent replaced its repository by a symlink, objects behind it must not become readable for
/// the next agent.
#[test]
fn objects_behind_a_symlink_are_not_borrowed() {
    let fixture = SandboxFixture::new();
    let key = fixture.sandbox_key(test_plan_id(1));
    let sandbox = fixture.enter_sandbox(test_plan_id(1), 1);
    let elsewhere = tempfile::TempDir::with_prefix("planwright-private-").unwrap();
    std::fs::create_dir(elsewhere.path().join("objects")).unwrap();
    let repository = sandbox.path.join(".git");
    std::fs::remove_dir_all(&repository).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &repository).unwrap();
    fixture
        .sandboxes
        .open_for_person(&key, None)
        .unwrap()
        .unwrap();
    let private = elsewhere.path().canonicalize().unwrap();
    for borrowed in fixture
        .sandboxes
        .runs()
        .list_borrowed_objects(&key)
        .unwrap()
    {
        let place = borrowed.canonicalize().unwrap();
        assert!(!place.starts_with(&private), "{}", borrowed.display());
    }
}
