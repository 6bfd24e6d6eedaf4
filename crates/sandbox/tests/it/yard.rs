//! A person's repository and a workshop beside it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use plan::{Digest, Epoch, PlanId};
use planwright_sandbox::land::{How, Landed, Message, Outcome, Proposal, Proposed};
use planwright_sandbox::{
    Faults, ObjectId, Room, Sandbox, Site, SitePlace, Start, Surroundings, Workshop,
};

pub struct Yard {
    pub directory: tempfile::TempDir,
    pub workshop: Workshop,
    pub site: Site,
}

pub fn surroundings() -> Surroundings {
    Surroundings {
        git: "git".into(),
        path: std::env::var_os("PATH"),
        home: Some("/nonexistent".into()),
        config_home: None,
        patience: planwright_sandbox::PATIENCE,
    }
}

pub fn plan(number: u128) -> PlanId {
    PlanId::from_parts(1_700_000_000_000, number)
}

impl Yard {
    /// A repository with a few files on `main`.
    pub fn new() -> Self {
        let yard = Self::empty();
        yard.git(&["init", "-q", "-b", "main", "."]);
        yard.write("README.md", "# Shop\n");
        yard.write(
            "src/a.txt",
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n",
        );
        yard.write("src/b.txt", "alpha\nbeta\n");
        yard.write("old/gone.txt", "to be deleted\n");
        yard.write(".gitignore", "target/\n");
        yard.commit("start");
        yard
    }

    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("shop")).unwrap();
        Self::in_directory(directory)
    }

    /// The same in memory where the system has some to offer: for many short tests that are not
    /// about what survives a crash of the machine.
    pub fn empty_in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
        let directory = directory.unwrap();
        std::fs::create_dir(directory.path().join("shop")).unwrap();
        Self::in_directory(directory)
    }

    /// The yard another process made, which is not ours to remove.
    pub fn found(path: &Path) -> Self {
        let directory = tempfile::TempDir::new().unwrap();
        let _ = std::fs::remove_dir(directory.path());
        let mut yard = Self::in_directory(directory);
        yard.workshop = workshop(&path.join("home"));
        yard.site.place = SitePlace::Git {
            path: path.join("shop"),
            target: "refs/heads/main".to_owned(),
        };
        yard
    }

    fn in_directory(directory: tempfile::TempDir) -> Self {
        let repository = directory.path().join("shop");
        let workshop = workshop(&directory.path().join("home"));
        let site = Site {
            name: "shop/code".to_owned(),
            place: SitePlace::Git {
                path: repository,
                target: "refs/heads/main".to_owned(),
            },
        };
        Self {
            directory,
            workshop,
            site,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    pub fn room(&self, plan: PlanId) -> Room<'_> {
        Room {
            plan,
            site: &self.site,
        }
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.path(), arguments)
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.path().join(path), text);
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap()
    }

    pub fn commit(&self, message: &str) -> ObjectId {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--no-verify", "-m", message]);
        self.git(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    pub fn tip(&self) -> ObjectId {
        self.workshop.tip(&self.site).unwrap()
    }

    pub fn enter(&self, plan: PlanId, epoch: u64) -> Sandbox {
        let base = self.tip();
        self.workshop
            .enter(&self.room(plan), Epoch(epoch), &base, Start::Continue)
            .unwrap()
            .sandbox
    }

    /// The usual change: one file edited, one made, one deleted.
    pub fn usual_work(&self, sandbox: &Sandbox) {
        write(
            &sandbox.path.join("src/a.txt"),
            "one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n",
        );
        write(&sandbox.path.join("src/new/c.txt"), "new\n");
        std::fs::remove_file(sandbox.path.join("old/gone.txt")).unwrap();
    }

    pub fn captured(&self, plan: PlanId, epoch: u64) -> Outcome {
        let base = self
            .workshop
            .current(&self.room(plan))
            .unwrap()
            .unwrap()
            .base;
        let captured = self
            .workshop
            .capture(&self.room(plan), Epoch(epoch), &base)
            .unwrap();
        Outcome {
            base: captured.base,
            tree: captured.tree,
        }
    }

    pub fn propose(&self, plan: PlanId, epoch: u64, result: &Outcome, how: &How) -> Proposed {
        self.workshop
            .propose(&self.room(plan), Epoch(epoch), result, how, &message(plan))
            .unwrap()
    }

    /// A plan with the usual work, proposed.
    pub fn proposed(&self, plan: PlanId, how: &How) -> Proposal {
        let sandbox = self.enter(plan, 1);
        self.usual_work(&sandbox);
        let result = self.captured(plan, 1);
        match self.propose(plan, 2, &result, how) {
            Proposed::Ready(proposal) => proposal,
            other => panic!("{other:?}"),
        }
    }

    pub fn land(&self, plan: PlanId, epoch: u64, proposal: &Proposal) -> Landed {
        self.workshop
            .land(&self.room(plan), Epoch(epoch), proposal)
            .unwrap()
    }

    pub fn with_faults(&self, faults: Faults) -> Workshop {
        self.workshop.clone().with_faults(faults)
    }

    /// Every file below the repository, with type, mode and content; `.git` included.
    pub fn photograph(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        photograph(&self.path(), &mut found);
        found
    }

    /// The same without what Planwright may leave before landing: its refs and their objects.
    pub fn photograph_of_theirs(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = self.photograph();
        let git = self.path().join(".git");
        found.retain(|path, _| {
            !path.starts_with(git.join("refs/planwright"))
                && !path.starts_with(git.join("logs/refs/planwright"))
                && !path.starts_with(git.join("objects"))
        });
        found
    }

    /// Nothing that a crash may leave is left.
    pub fn assert_tidy(&self) {
        for (path, _) in self.photograph() {
            let name = path.to_string_lossy();
            let ours = name.contains(".git/planwright") || name.contains(".planwright-");
            assert!(!name.ends_with(".lock") && !ours, "{name} was left behind");
        }
        assert_eq!(self.git(&["fsck", "--no-dangling"]), "");
    }

    /// The files are those of the branch, and git sees no difference.
    pub fn assert_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        assert_eq!(self.git(&["symbolic-ref", "HEAD"]), "refs/heads/main");
    }
}

fn workshop(home: &Path) -> Workshop {
    Workshop::new(home, surroundings()).with_supervisor(crate::stage::supervisor())
}

pub fn message(plan: PlanId) -> Message {
    Message {
        plan,
        goal: "Tidy the shop\n\nBecause it is time.".to_owned(),
        chain: Digest::of(b"chain"),
        seconds: 1_700_000_000,
        even_if_empty: false,
    }
}

pub fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub fn git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> String {
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

fn photograph(directory: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            photograph(&path, found);
        } else if metadata.is_symlink() {
            let link = std::fs::read_link(&path).unwrap();
            found.insert(path, (mode, link.into_os_string().into_encoded_bytes()));
        } else {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, (mode, content));
        }
    }
}
