//! Sandboxes against plain git: the same work on the same tree, with the same durability.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plan::{Digest, Epoch, PlanId};
use sandbox::land::{LandAttempt, LandingMessage, LandingMethod, ProposalOutcome, SandboxResult};
use sandbox::{GitEnv, LocalResource, ResourceLocation, SandboxEntryMode, SandboxKey, Sandboxes};

use crate::statistics::{format_ratios, median, print_header, print_row};

const ROUNDS: usize = 5;
const CHANGED_FILES: usize = 10;

pub fn measure_sandboxes() {
    print_header();
    for files in [100, 50_000] {
        SandboxBench::create(files).measure_rounds();
    }
}

/// A repository, a clone of it for plain git, and a Planwright home.
struct SandboxBench {
    directory: tempfile::TempDir,
    sandboxes: Sandboxes,
    resource: LocalResource,
    files: usize,
    edit_count: usize,
    plan_count: u128,
}

/// The times of one operation in milliseconds, a pair per round.
#[derive(Default)]
struct TimePairs {
    own: Vec<f64>,
    git: Vec<f64>,
}

impl TimePairs {
    fn add(&mut self, own: Duration, git: Duration) {
        self.own.push(own.as_secs_f64() * 1e3);
        self.git.push(git.as_secs_f64() * 1e3);
    }

    fn print_row(&self, what: &str, target: &str) {
        let ratios: Vec<f64> = self
            .own
            .iter()
            .zip(&self.git)
            .map(|(own, git)| own / git)
            .collect();
        let (own, git) = (median(self.own.clone()), median(self.git.clone()));
        let figure = format!("{}: {own:.0} ms / {git:.0} ms", format_ratios(&ratios));
        print_row(what, &figure, target);
    }
}

#[derive(Default)]
struct RoundTimes {
    create: TimePairs,
    capture: TimePairs,
    land: TimePairs,
}

/// Bytes on disk.
struct DiskUsage {
    sandbox: u64,
    shared_clone: u64,
}

impl SandboxBench {
    fn create(files: usize) -> Self {
        let directory = tempfile::tempdir_in(".").unwrap();
        let root = directory.path().canonicalize().unwrap();
        let repository = root.join("repository");
        for number in 0..files {
            let path = repository.join(file_path(number));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("file {number}\n").repeat(8)).unwrap();
        }
        run_git(&repository, &["init", "-q", "-b", "main", "."]);
        run_git(&repository, &["add", "-A"]);
        run_git(&repository, &["commit", "-q", "-m", "start"]);
        run_git(&repository, &["repack", "-adq"]);
        run_git(&root, &["clone", "-q", "repository", "clone"]);
        let git_env = GitEnv {
            program: "git".into(),
            path: std::env::var_os("PATH"),
            home: None,
            config_home: None,
            timeout: sandbox::GIT_TIMEOUT,
            stop: None,
        };
        Self {
            sandboxes: Sandboxes::new(root.join("home"), git_env),
            resource: LocalResource {
                name: "bench/code".to_owned(),
                location: ResourceLocation::Git {
                    path: repository,
                    target: "refs/heads/main".to_owned(),
                },
            },
            directory,
            files,
            edit_count: 0,
            plan_count: 0,
        }
    }

    fn measure_rounds(mut self) {
        // The first round warms the caches and lets git refresh its index.
        let mut disk_usage = self.run_round(&mut RoundTimes::default());
        let mut times = RoundTimes::default();
        for _ in 0..ROUNDS {
            disk_usage = self.run_round(&mut times);
        }
        let files = self.files;
        let label = |what: &str| format!("{what}, {files} files");
        times
            .create
            .print_row(&label("new sandbox / `git clone --shared`"), "≤ 1.2");
        times.capture.print_row(
            &label("capture of 10 changed files / `git status`"),
            "≤ 1.5",
        );
        times.land.print_row(
            &label("propose and land 10 changed files / `git merge --no-ff`"),
            "≤ 1.5 or ≤ 50 ms more",
        );
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let figure = format!(
            "{:.1} MB / {:.1} MB",
            megabytes(disk_usage.sandbox),
            megabytes(disk_usage.shared_clone)
        );
        print_row(&label("disk usage, sandbox / shared clone"), &figure, "–");
    }

    /// Takes one plan from a new sandbox to its landing, and times plain git for each step.
    fn run_round(&mut self, times: &mut RoundTimes) -> DiskUsage {
        self.plan_count += 1;
        let plan_id = PlanId::from_parts(1_700_000_000_000, self.plan_count);
        let resource = self.resource.clone();
        let key = SandboxKey {
            plan_id,
            resource: &resource,
        };
        let root = self.directory.path().canonicalize().unwrap();
        let repository = resource.location.path().to_owned();
        let (clone, shared) = (root.join("clone"), root.join("shared"));

        // Neither side syncs: a sandbox that is lost with the power can be made again.
        let clone_args = ["-c", "core.fsync=none", "clone", "-q", "--shared"];
        let mut clone_args: Vec<&OsStr> = clone_args.iter().map(OsStr::new).collect();
        clone_args.extend([repository.as_os_str(), shared.as_os_str()]);
        let (git_time, ()) = measure_time(|| run_git(&root, &clone_args));
        let base = self.sandboxes.read_tip(&resource).unwrap();
        let (own_time, entered) = measure_time(|| {
            self.sandboxes
                .enter_sandbox(&key, Epoch(1), &base, SandboxEntryMode::Continue)
                .unwrap()
        });
        times.create.add(own_time, git_time);
        let plan_dir = plan_id.to_string();
        let disk_usage = DiskUsage {
            sandbox: disk_usage(&root.join("home/sandboxes").join(&plan_dir))
                + disk_usage(&root.join("home/vaults").join(&plan_dir)),
            shared_clone: disk_usage(&shared),
        };

        self.edit_count += 1;
        self.edit_files(&[&entered.sandbox.path, &shared]);
        let (git_time, ()) = measure_time(|| run_git(&shared, &["status", "--porcelain"]));
        let (own_time, captured) = measure_time(|| {
            self.sandboxes
                .capture()
                .capture_sandbox(&key, Epoch(1), &base)
                .unwrap()
        });
        assert_eq!(captured.changes.len(), CHANGED_FILES);
        times.capture.add(own_time, git_time);
        // Ends the use of the sandbox, so that it can be removed below.
        drop(entered);

        run_git(&clone, &["checkout", "-q", "-b", "topic"]);
        self.edit_files(&[&clone]);
        run_git(&clone, &["commit", "-q", "-a", "-m", "topic"]);
        run_git(&clone, &["checkout", "-q", "main"]);
        let merge = "-c core.fsync=all merge -q --no-ff --no-edit topic";
        let merge: Vec<&str> = merge.split(' ').collect();
        let (git_time, ()) = measure_time(|| run_git(&clone, &merge));
        run_git(&clone, &["branch", "-q", "-d", "topic"]);
        let result = SandboxResult {
            base: captured.base,
            tree: captured.tree,
        };
        let (own_time, ()) = measure_time(|| self.land_result(&key, &result));
        times.land.add(own_time, git_time);
        let tree = ["rev-parse", "HEAD^{tree}"];
        assert_eq!(read_git(&repository, &tree), read_git(&clone, &tree));

        std::fs::remove_dir_all(&shared).unwrap();
        self.sandboxes
            .landings()
            .release_pins(&key, Epoch(2))
            .unwrap();
        self.sandboxes
            .rescue()
            .remove_plan(plan_id, || Ok(()))
            .unwrap();
        disk_usage
    }

    fn land_result(&self, key: &SandboxKey<'_>, result: &SandboxResult) {
        let message = LandingMessage {
            plan_id: key.plan_id,
            text: "Measure".to_owned(),
            agent: None,
            chain_head: Digest::hash_bytes(b"chain"),
            unix_seconds: 1_700_000_000,
            allow_empty: false,
        };
        let method = LandingMethod::Commit { merge: false };
        let outcome =
            self.sandboxes
                .landings()
                .propose_landing(key, Epoch(2), result, &method, &message);
        let ProposalOutcome::Ready(proposal) = outcome.unwrap() else {
            panic!("the landing must not conflict");
        };
        let attempt = self
            .sandboxes
            .landings()
            .land_proposal(key, Epoch(2), &proposal)
            .unwrap();
        assert_eq!(attempt, LandAttempt::Landed { kept: Vec::new() });
    }

    /// Makes the edits of this round in each of these trees. Every round changes other files.
    fn edit_files(&self, trees: &[&Path]) {
        for index in 0..CHANGED_FILES {
            let offset = index * self.files / CHANGED_FILES;
            let number = (self.edit_count * 7919 + offset) % self.files;
            for tree in trees {
                let text = format!("edit {}\n", self.edit_count).repeat(9);
                std::fs::write(tree.join(file_path(number)), text).unwrap();
            }
        }
    }
}

fn file_path(number: usize) -> PathBuf {
    PathBuf::from(format!("src/{:03}/file{number}.txt", number / 100))
}

fn run_git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) {
    read_git(directory, arguments);
}

/// Runs git, which must succeed, and returns its output.
fn read_git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> Vec<u8> {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    output.stdout
}

fn measure_time<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let stopwatch = Instant::now();
    let result = work();
    (stopwatch.elapsed(), result)
}

/// The bytes that a directory's files take up on disk.
fn disk_usage(directory: &Path) -> u64 {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let metadata = std::fs::symlink_metadata(entry.path()).unwrap();
        sum += metadata.blocks() * 512;
        if metadata.is_dir() {
            sum += disk_usage(&entry.path());
        }
    }
    sum
}
