//! Sandboxes against plain git doing the same to the same tree, with what is written made as durable.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plan::{Digest, Epoch, PlanId};
use sandbox::land::{LandAttempt, LandingMessage, LandingMethod, ProposalOutcome, SandboxResult};
use sandbox::{GitEnv, LocalResource, ResourceLocation, SandboxEntryMode, SandboxKey, Sandboxes};

use crate::rounds::{median, ratio, report};

const ROUNDS: usize = 5;
const CHANGED: usize = 10;

pub fn measure() {
    println!("| what | figure | target |");
    println!("| --- | --- | --- |");
    for files in [100, 50_000] {
        Ground::new(files).measure();
    }
}

/// A repository, a clone for plain git to work in, and a workshop.
struct Ground {
    directory: tempfile::TempDir,
    workshop: Sandboxes,
    site: LocalResource,
    files: usize,
    edits: usize,
    plans: u128,
}

/// What both took for the same.
#[derive(Default)]
struct Pairs {
    ours: Vec<f64>,
    gits: Vec<f64>,
}

impl Pairs {
    fn add(&mut self, ours: Duration, gits: Duration) {
        self.ours.push(ours.as_secs_f64() * 1e3);
        self.gits.push(gits.as_secs_f64() * 1e3);
    }

    fn report(&self, what: &str, target: &str) {
        let ratios: Vec<f64> = self
            .ours
            .iter()
            .zip(&self.gits)
            .map(|(ours, gits)| ours / gits)
            .collect();
        let (ours, gits) = (median(self.ours.clone()), median(self.gits.clone()));
        let figure = format!("{}: {ours:.0} ms / {gits:.0} ms", ratio(&ratios));
        report(what, &figure, target);
    }
}

impl Ground {
    fn new(files: usize) -> Self {
        let directory = tempfile::tempdir_in(".").unwrap();
        let root = directory.path().canonicalize().unwrap();
        let repository = root.join("repository");
        for number in 0..files {
            let path = repository.join(name(number));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("file {number}\n").repeat(8)).unwrap();
        }
        git(&repository, &["init", "-q", "-b", "main", "."]);
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-q", "-m", "start"]);
        git(&repository, &["repack", "-adq"]);
        git(&root, &["clone", "-q", "repository", "clone"]);
        let surroundings = GitEnv {
            program: "git".into(),
            path: std::env::var_os("PATH"),
            home: None,
            config_home: None,
            timeout: sandbox::GIT_TIMEOUT,
        };
        Self {
            workshop: Sandboxes::new(root.join("home"), surroundings),
            site: LocalResource {
                name: "bench/code".to_owned(),
                location: ResourceLocation::Git {
                    path: repository,
                    target: "refs/heads/main".to_owned(),
                },
            },
            directory,
            files,
            edits: 0,
            plans: 0,
        }
    }

    fn measure(mut self) {
        let (mut made, mut captured, mut landed) = Default::default();
        let mut sizes = (0, 0);
        // Once for nothing: caches are cold and git has not refreshed its index.
        self.round(
            &mut Pairs::default(),
            &mut Pairs::default(),
            &mut Pairs::default(),
        );
        for _ in 0..ROUNDS {
            sizes = self.round(&mut made, &mut captured, &mut landed);
        }
        let files = self.files;
        let what = |what: &str| format!("{what}, {files} files");
        made.report(&what("new sandbox / `git clone --shared`"), "≤ 1.2");
        captured.report(&what("capture of 10 changed / `git status`"), "≤ 1.5");
        landed.report(
            &what("propose and land 10 changed / `git merge --no-ff`"),
            "≤ 1.5 or ≤ 50 ms more",
        );
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (ours, gits) = (megabytes(sizes.0), megabytes(sizes.1));
        let figure = format!("{ours:.1} MB / {gits:.1} MB");
        report(&what("disk of a sandbox / of a shared clone"), &figure, "–");
    }

    /// One plan's life, each part of it beside plain git's; what a sandbox and a clone take of the
    /// disk.
    fn round(&mut self, made: &mut Pairs, captured: &mut Pairs, landed: &mut Pairs) -> (u64, u64) {
        self.plans += 1;
        let id = PlanId::from_parts(1_700_000_000_000, self.plans);
        let site = self.site.clone();
        let room = SandboxKey {
            plan_id: id,
            resource: &site,
        };
        let root = self.directory.path().canonicalize().unwrap();
        let (repository, clone) = (site.location.path().to_owned(), root.join("clone"));
        let shared = root.join("shared");
        // Neither waits for the disk: what is lost with the power is made again.
        let clones = ["-c", "core.fsync=none", "clone", "-q", "--shared"];
        let mut clones: Vec<&OsStr> = clones.iter().map(OsStr::new).collect();
        clones.extend([repository.as_os_str(), shared.as_os_str()]);
        let gits = timed(|| git(&root, &clones));
        let base = self.workshop.read_tip(&site).unwrap();
        let enter = || {
            self.workshop
                .enter_sandbox(&room, Epoch(1), &base, SandboxEntryMode::Continue)
        };
        let (ours, entered) = timed_with(|| enter().unwrap());
        made.add(ours, gits);
        let sizes = (
            size(&root.join("home/sandboxes").join(id.to_string()))
                + size(&root.join("home/vaults").join(id.to_string())),
            size(&shared),
        );
        self.edit(&[&entered.sandbox.path, &shared]);
        let gits = timed(|| git(&shared, &["status", "--porcelain"]));
        let (ours, result) = timed_with(|| {
            self.workshop
                .capture_sandbox(&room, Epoch(1), &base)
                .unwrap()
        });
        assert_eq!(result.changes.len(), CHANGED);
        captured.add(ours, gits);
        // Whoever worked in it is done: it may be removed.
        drop(entered);
        git(&clone, &["checkout", "-q", "-b", "topic"]);
        self.edit_as_before(&[&clone]);
        git(&clone, &["commit", "-q", "-a", "-m", "topic"]);
        git(&clone, &["checkout", "-q", "main"]);
        let merge = [
            "-c",
            "core.fsync=all",
            "merge",
            "-q",
            "--no-ff",
            "--no-edit",
        ];
        let mut merge = merge.to_vec();
        merge.push("topic");
        let gits = timed(|| git(&clone, &merge));
        git(&clone, &["branch", "-q", "-d", "topic"]);
        let outcome = SandboxResult {
            base: result.base,
            tree: result.tree,
        };
        let ours = timed(|| self.land(&room, &outcome));
        landed.add(ours, gits);
        let tree = ["rev-parse", "HEAD^{tree}"];
        assert_eq!(answer(&repository, &tree), answer(&clone, &tree));
        std::fs::remove_dir_all(&shared).unwrap();
        self.workshop.release_pins(&room, Epoch(2)).unwrap();
        self.workshop.remove_plan(id, || Ok(())).unwrap();
        sizes
    }

    fn land(&self, room: &SandboxKey<'_>, outcome: &SandboxResult) {
        let message = LandingMessage {
            plan_id: room.plan_id,
            goal: "Measure".to_owned(),
            chain_head: Digest::hash_bytes(b"chain"),
            unix_seconds: 1_700_000_000,
            allow_empty: false,
        };
        let how = LandingMethod::Commit { merge: false };
        let proposed = self
            .workshop
            .propose_landing(room, Epoch(2), outcome, &how, &message);
        let ProposalOutcome::Ready(proposal) = proposed.unwrap() else {
            panic!("nothing is in the way");
        };
        let landed = self
            .workshop
            .land_proposal(room, Epoch(2), &proposal)
            .unwrap();
        assert_eq!(landed, LandAttempt::Landed { kept: Vec::new() });
    }

    /// Changes the next ten files in each of these trees.
    fn edit(&mut self, trees: &[&Path]) {
        self.edits += 1;
        self.edit_as_before(trees);
    }

    fn edit_as_before(&self, trees: &[&Path]) {
        for index in 0..CHANGED {
            let number = (self.edits * 7919 + index * self.files / CHANGED) % self.files;
            for tree in trees {
                let text = format!("edit {}\n", self.edits).repeat(9);
                std::fs::write(tree.join(name(number)), text).unwrap();
            }
        }
    }
}

fn name(number: usize) -> PathBuf {
    PathBuf::from(format!("src/{:03}/file{number}.txt", number / 100))
}

fn git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) {
    answer(directory, arguments);
}

fn answer<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> Vec<u8> {
    let output = Command::new("git")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@localhost"])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output.stdout
}

fn timed(work: impl FnOnce()) -> Duration {
    timed_with(work).0
}

fn timed_with<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let stopwatch = Instant::now();
    let result = work();
    (stopwatch.elapsed(), result)
}

/// What a directory takes of the disk.
fn size(directory: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = std::fs::symlink_metadata(entry.path()).unwrap();
        sum += metadata.blocks() * 512;
        if metadata.is_dir() {
            sum += size(&entry.path());
        }
    }
    sum
}
