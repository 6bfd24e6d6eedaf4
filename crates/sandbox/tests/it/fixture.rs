//! A user's repository, with sandboxes beside it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use plan::{Digest, Epoch, PlanId};
use planwright_sandbox::land::{
    LandAttempt, LandingMessage, LandingMethod, LandingProposal, ProposalOutcome, SandboxResult,
};
use planwright_sandbox::{
    GitEnv, LocalResource, ObjectId, ResourceLocation, Sandbox, SandboxEntryMode, SandboxKey,
    Sandboxes, StepFaults,
};

pub struct SandboxFixture {
    pub directory: tempfile::TempDir,
    pub sandboxes: Sandboxes,
    pub resource: LocalResource,
}

pub fn test_git_env() -> GitEnv {
    GitEnv {
        program: "git".into(),
        path: std::env::var_os("PATH"),
        home: Some("/nonexistent".into()),
        config_home: None,
        timeout: planwright_sandbox::GIT_TIMEOUT,
        stop: None,
    }
}

pub fn test_plan_id(number: u128) -> PlanId {
    PlanId::from_parts(1_700_000_000_000, number)
}

impl SandboxFixture {
    /// A repository with a few files on `main`.
    pub fn new() -> Self {
        let fixture = Self::new_empty();
        fixture.run_git(&["init", "-q", "-b", "main", "."]);
        fixture.write_file("README.md", "# Shop\n");
        fixture.write_file(
            "src/a.txt",
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
        );
        fixture.write_file("src/b.txt", "alpha\nbeta\n");
        fixture.write_file("old/gone.txt", "to be deleted\n");
        fixture.write_file(".gitignore", "target/\n");
        fixture.commit_all("start");
        fixture
    }

    pub fn new_empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("shop")).unwrap();
        Self::in_directory(directory)
    }

    /// Like `new_empty`, but in memory if possible: for many short tests that do not depend on
    /// durability.
    pub fn new_empty_in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        let directory = directory.unwrap();
        std::fs::create_dir(directory.path().join("shop")).unwrap();
        Self::in_directory(directory)
    }

    /// The fixture of another process. It is not removed when dropped.
    pub fn open_existing(path: &Path) -> Self {
        let directory = tempfile::TempDir::new().unwrap();
        let _ = std::fs::remove_dir(directory.path());
        let mut fixture = Self::in_directory(directory);
        fixture.sandboxes = make_sandboxes(&path.join("home"));
        fixture.resource.location = ResourceLocation::Git {
            path: path.join("shop"),
            target: "refs/heads/main".to_owned(),
        };
        fixture
    }

    fn in_directory(directory: tempfile::TempDir) -> Self {
        let repository = directory.path().join("shop");
        let sandboxes = make_sandboxes(&directory.path().join("home"));
        let resource = LocalResource {
            name: "shop/code".to_owned(),
            location: ResourceLocation::Git {
                path: repository,
                target: "refs/heads/main".to_owned(),
            },
        };
        Self {
            directory,
            sandboxes,
            resource,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    pub fn sandbox_key(&self, plan_id: PlanId) -> SandboxKey<'_> {
        SandboxKey {
            plan_id,
            resource: &self.resource,
        }
    }

    pub fn run_git(&self, arguments: &[&str]) -> String {
        run_git(&self.path(), arguments)
    }

    pub fn write_file(&self, path: &str, text: &str) {
        write_file(&self.path().join(path), text);
    }

    pub fn read_file(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap()
    }

    pub fn commit_all(&self, message: &str) -> ObjectId {
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "-q", "--no-verify", "-m", message]);
        self.run_git(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    pub fn tip(&self) -> ObjectId {
        self.sandboxes.read_tip(&self.resource).unwrap()
    }

    pub fn enter_sandbox(&self, plan_id: PlanId, epoch: u64) -> Sandbox {
        let base = self.tip();
        self.sandboxes
            .enter_sandbox(
                &self.sandbox_key(plan_id),
                Epoch(epoch),
                &base,
                SandboxEntryMode::Continue,
            )
            .unwrap()
            .sandbox
    }

    /// The usual change: one file edited, one created, one deleted.
    pub fn do_usual_work(&self, sandbox: &Sandbox) {
        write_file(
            &sandbox.path.join("src/a.txt"),
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n",
        );
        write_file(&sandbox.path.join("src/new/c.txt"), "new\n");
        std::fs::remove_file(sandbox.path.join("old/gone.txt")).unwrap();
    }

    pub fn capture_result(&self, plan_id: PlanId, epoch: u64) -> SandboxResult {
        let base = self
            .sandboxes
            .current_sandbox(&self.sandbox_key(plan_id))
            .unwrap()
            .unwrap()
            .base;
        let captured = self
            .sandboxes
            .capture()
            .capture_sandbox(&self.sandbox_key(plan_id), Epoch(epoch), &base)
            .unwrap();
        SandboxResult {
            base: captured.base,
            tree: captured.tree,
        }
    }

    pub fn propose_landing(
        &self,
        plan_id: PlanId,
        epoch: u64,
        result: &SandboxResult,
        method: &LandingMethod,
    ) -> ProposalOutcome {
        self.sandboxes
            .landings()
            .propose_landing(
                &self.sandbox_key(plan_id),
                Epoch(epoch),
                result,
                method,
                &make_landing_message(plan_id),
            )
            .unwrap()
    }

    /// Proposes a plan with the usual work.
    pub fn propose_usual_work(&self, plan_id: PlanId, method: &LandingMethod) -> LandingProposal {
        let sandbox = self.enter_sandbox(plan_id, 1);
        self.do_usual_work(&sandbox);
        let result = self.capture_result(plan_id, 1);
        match self.propose_landing(plan_id, 2, &result, method) {
            ProposalOutcome::Ready(proposal) => proposal,
            other => panic!("{other:?}"),
        }
    }

    pub fn land_proposal(
        &self,
        plan_id: PlanId,
        epoch: u64,
        proposal: &LandingProposal,
    ) -> LandAttempt {
        self.sandboxes
            .landings()
            .land_proposal(&self.sandbox_key(plan_id), Epoch(epoch), proposal)
            .unwrap()
    }

    pub fn with_faults(&self, faults: StepFaults) -> Sandboxes {
        self.sandboxes.clone().with_faults(faults)
    }

    /// Every file below the repository, including `.git`, with mode and content.
    pub fn snapshot_files(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        collect_files(&self.path(), &mut found);
        found
    }

    /// Like `snapshot_files`, without the refs and objects that Planwright may add before a
    /// landing.
    pub fn snapshot_user_files(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = self.snapshot_files();
        let git = self.path().join(".git");
        found.retain(|path, _| {
            !path.starts_with(git.join("refs/planwright"))
                && !path.starts_with(git.join("logs/refs/planwright"))
                && !path.starts_with(git.join("objects"))
        });
        found
    }

    /// Checks that a crash left nothing behind.
    pub fn assert_no_leftovers(&self) {
        for (path, _) in self.snapshot_files() {
            let name = path.to_string_lossy();
            let ours = name.contains(".git/planwright") || name.contains(".planwright-");
            assert!(!name.ends_with(".lock") && !ours, "{name} was left behind");
        }
        assert_eq!(self.run_git(&["fsck", "--no-dangling"]), "");
    }

    /// Checks that the files match the branch.
    pub fn assert_clean(&self) {
        assert_eq!(self.run_git(&["status", "--porcelain"]), "");
        assert_eq!(self.run_git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    }
}

fn make_sandboxes(home: &Path) -> Sandboxes {
    Sandboxes::new(home, test_git_env()).with_supervisor(crate::process_fixture::make_supervisor())
}

pub fn make_landing_message(plan_id: PlanId) -> LandingMessage {
    LandingMessage {
        plan_id,
        text: "Tidy the shop\n\nBecause it is time.".to_owned(),
        agent: Some("scribe".to_owned()),
        chain_head: Digest::hash_bytes(b"chain"),
        unix_seconds: 1_700_000_000,
        allow_empty: false,
    }
}

pub fn write_file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub fn run_git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> String {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    let shown: Vec<_> = arguments.iter().map(|a| a.as_ref().to_owned()).collect();
    assert!(
        output.status.success(),
        "git {shown:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs git with this standard input and returns its output as it is.
pub fn run_git_with_input(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .args(arguments)
        .current_dir(directory)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

fn collect_files(directory: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            collect_files(&path, found);
        } else if metadata.is_symlink() {
            let link = std::fs::read_link(&path).unwrap();
            found.insert(path, (mode, link.into_os_string().into_encoded_bytes()));
        } else {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, (mode, content));
        }
    }
}
