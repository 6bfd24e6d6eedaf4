//! Random schedules against a model: plans and a user work in one repository, and landings are
//! killed and repeated. After every step the repository matches the model: no work is lost, an undo
//! removes only one plan's work, and nothing is left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Epoch, PlanId};
use planwright_sandbox::land::{
    LandAttempt, LandingMethod, LandingProposal, ProposalOutcome, SandboxResult,
};
use planwright_sandbox::{LandingObstacle, ObjectId, SandboxStep, StepFaults};

use crate::fixture::{SandboxFixture, test_plan_id, write_file};
use crate::model::{
    FileSlots, ModelEdits, ModelTree, SLOT_COUNT, ScheduleRandom, apply_edits,
    list_differing_paths, merge_model_trees, render_file,
};

const SCHEDULE_COUNT: u64 = 200;
const STEPS_PER_SCHEDULE: usize = 5;
const TRACKED_PATHS: [&str; 3] = ["one.txt", "lib/two.txt", "lib/deep/three.txt"];
const UNTRACKED_PATHS: [&str; 3] = ["four.txt", "lib/five.txt", "new/dir/six.txt"];

/// Steps at which a landing can be killed.
const KILL_STEPS: [SandboxStep; 10] = [
    SandboxStep::IndexLocked,
    SandboxStep::Staged,
    SandboxStep::Journalled,
    SandboxStep::IndexPlaced,
    SandboxStep::RefMoved,
    SandboxStep::SomeExchanged,
    SandboxStep::AllExchanged,
    SandboxStep::IndexRefreshed,
    SandboxStep::Unlocked,
    SandboxStep::JournalRemoved,
];

/// A failing schedule prints its seed. Set `PLANWRIGHT_TEST_SEED` to run it alone.
#[test]
fn random_schedules_match_the_model() {
    if let Ok(seed) = std::env::var("PLANWRIGHT_TEST_SEED") {
        return ScheduleRun::new(seed.parse().unwrap()).run_schedule();
    }
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SCHEDULE_COUNT {
                        break;
                    }
                    ScheduleRun::new(seed).run_schedule();
                }
            });
        }
    });
}

/// A commit on the user's branch.
#[derive(Clone)]
struct ModelCommit {
    id: ObjectId,
    tree: ModelTree,
    parents: usize,
}

/// What a plan changed in a tree, and its result in git.
#[derive(Clone)]
struct PlanWork {
    plan_id: PlanId,
    before: ModelTree,
    after: ModelTree,
    outcome: SandboxResult,
}

struct LandedWork {
    work: PlanWork,
    method: LandingMethod,
    proposal: LandingProposal,
}

struct ScheduleRun {
    fixture: SandboxFixture,
    random: ScheduleRandom,
    seed: u64,
    history: Vec<ModelCommit>,
    /// A path that the user saved while a killed landing was not recovered yet.
    saved: Option<String>,
    edits: ModelEdits,
    pending: Vec<PlanWork>,
    landed_work: Vec<LandedWork>,
    plans: u128,
    next_value: u32,
    epoch: u64,
    log: Vec<String>,
}

impl Drop for ScheduleRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("PLANWRIGHT_TEST_SEED={}", self.seed);
            println!("{}", self.log.join("\n"));
        }
    }
}

impl ScheduleRun {
    fn new(seed: u64) -> Self {
        let fixture = SandboxFixture::new_empty_in_memory();
        fixture.run_git(&["init", "-q", "-b", "main", "."]);
        let tree: ModelTree = TRACKED_PATHS
            .iter()
            .map(|path| ((*path).to_owned(), [0; SLOT_COUNT]))
            .collect();
        for (path, slots) in &tree {
            fixture.write_file(path, &render_file(path, slots));
        }
        let id = fixture.commit_all("start");
        Self {
            fixture,
            random: ScheduleRandom::new(seed),
            seed,
            history: vec![ModelCommit {
                id,
                tree,
                parents: 0,
            }],
            saved: None,
            edits: ModelEdits::new(),
            pending: Vec::new(),
            landed_work: Vec::new(),
            plans: 0,
            next_value: 0,
            epoch: 0,
            log: Vec::new(),
        }
    }

    fn run_schedule(mut self) {
        self.work_on_plan();
        for _ in 0..STEPS_PER_SCHEDULE {
            match self.random.next_below(12) {
                0..=1 => self.work_on_plan(),
                2..=4 => self.land_pending(),
                5..=6 => self.undo_landing(),
                7 => self.person_commits(),
                8 => self.person_amends(),
                9 => self.person_rewrites_history(),
                10 => self.person_edits(),
                _ => self.land_again(),
            }
            self.check_repository();
        }
        while !self.pending.is_empty() {
            self.land_pending();
            self.check_repository();
        }
        if self.seed.is_multiple_of(10) {
            assert_eq!(self.fixture.run_git(&["fsck", "--no-dangling"]), "");
        }
    }

    fn head_tree(&self) -> &ModelTree {
        &self.history.last().unwrap().tree
    }

    /// Reads the ref file instead of starting git, because it is called often.
    fn read_branch_tip(&self) -> ObjectId {
        let text = self.fixture.read_file(".git/refs/heads/main");
        text.trim().parse().unwrap()
    }

    fn log_action(&mut self, action: impl Into<String>) {
        self.log.push(action.into());
    }

    fn next_plan_id(&mut self) -> PlanId {
        self.plans += 1;
        test_plan_id(self.plans)
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Chooses a random change to a tree: a path, and its new content.
    fn choose_change(&mut self, tree: &ModelTree) -> (String, Option<FileSlots>) {
        self.next_value += 1;
        let present: Vec<String> = tree.keys().cloned().collect();
        let absent: Vec<&str> = UNTRACKED_PATHS
            .into_iter()
            .filter(|path| !tree.contains_key(*path))
            .collect();
        let kind = self.random.next_below(10);
        if present.is_empty() || (kind == 0 && !absent.is_empty()) {
            let path = (*self.random.pick_one(&absent)).to_owned();
            return (path, Some([self.next_value; SLOT_COUNT]));
        }
        let path = self.random.pick_one(&present).clone();
        if kind == 1 {
            return (path, None);
        }
        let mut slots = tree[&path];
        slots[self.random.next_below(SLOT_COUNT)] = self.next_value;
        (path, Some(slots))
    }

    /// A plan works in a sandbox, without touching the user's repository.
    fn work_on_plan(&mut self) {
        let (plan, epoch) = (self.next_plan_id(), self.next_epoch());
        let before = self.head_tree().clone();
        let sandbox = self.fixture.enter_sandbox(plan, epoch);
        let mut after = before.clone();
        for _ in 0..=self.random.next_below(3) {
            let (path, slots) = self.choose_change(&after);
            write_model_file(&sandbox.path, &path, slots.as_ref());
            match slots {
                Some(slots) => after.insert(path, slots),
                None => after.remove(&path),
            };
        }
        let outcome = self.fixture.capture_result(plan, epoch);
        let paths = list_differing_paths(&before, &after);
        self.log_action(format!("{plan} works on {paths:?}"));
        if paths.is_empty() {
            return;
        }
        self.pending.push(PlanWork {
            plan_id: plan,
            before,
            after,
            outcome,
        });
    }

    fn land_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let number = self.random.next_below(self.pending.len());
        let work = self.pending.remove(number);
        let method = match self.random.next_below(8) {
            0 => LandingMethod::Branch(format!("plans/{}", work.plan_id)),
            1 | 2 => LandingMethod::Uncommitted,
            3 => LandingMethod::Commit { merge: true },
            _ => LandingMethod::Commit { merge: false },
        };
        self.land_work(work, method);
    }

    /// An undo is the inverse change, merged with later ones.
    fn undo_landing(&mut self) {
        if self.landed_work.is_empty() {
            return;
        }
        let number = self.random.next_below(self.landed_work.len());
        let (new, before, after, undo_method) = {
            let landed_work = &self.landed_work[number];
            let method = match landed_work.method {
                LandingMethod::Uncommitted => LandingMethod::Uncommitted,
                LandingMethod::Commit { .. } | LandingMethod::Branch(_) => {
                    LandingMethod::Commit { merge: false }
                }
            };
            let new = landed_work.proposal.new.clone();
            (
                new,
                landed_work.work.before.clone(),
                landed_work.work.after.clone(),
                method,
            )
        };
        let plan = self.next_plan_id();
        let undone = self.landed_work[number].work.plan_id;
        self.log_action(format!("{plan} undoes {undone}"));
        let tree = self
            .fixture
            .run_git(&["rev-parse", &format!("{new}^1^{{tree}}")]);
        let outcome = SandboxResult {
            base: new,
            tree: tree.parse().unwrap(),
        };
        let work = PlanWork {
            plan_id: plan,
            before: after,
            after: before,
            outcome,
        };
        self.land_work(work, undo_method);
    }

    /// Lands a plan, with random kills and user actions in between.
    fn land_work(&mut self, work: PlanWork, method: LandingMethod) {
        // Each round is the last one, or moves the target.
        for round in 0..3 {
            let epoch = self.next_epoch();
            self.log_action(format!(
                "{} lands as {method:?}, round {round}",
                work.plan_id
            ));
            let tip = self.choose_target_tree(&method);
            let proposed =
                self.fixture
                    .propose_landing(work.plan_id, epoch, &work.outcome, &method);
            let merged = match merge_model_trees(&work.before, &tip, &work.after) {
                Ok(merged) => merged,
                Err(expected) => {
                    // Conflicts with uncommitted edits are reported as edits, not as commits.
                    let uncommitted = list_differing_paths(self.head_tree(), &tip);
                    let edited: BTreeSet<String> =
                        expected.intersection(&uncommitted).cloned().collect();
                    if !edited.is_empty() {
                        assert_blocked(&edited, &proposed);
                        self.log_action("  hindered");
                        return;
                    }
                    let ProposalOutcome::Conflict { paths, .. } = proposed else {
                        panic!("{expected:?} conflict, not {proposed:?}");
                    };
                    let paths: BTreeSet<String> = paths.iter().map(ToString::to_string).collect();
                    assert_eq!(paths, expected);
                    self.log_action("  conflict");
                    return;
                }
            };
            if merged == tip {
                assert_eq!(proposed, ProposalOutcome::AlreadyLanded);
                self.log_action("  nothing to land");
                return;
            }
            let touched = list_differing_paths(&tip, &merged);
            let in_files = !matches!(method, LandingMethod::Branch(_));
            if let Some(expected) = self
                .find_expected_obstacles(&method, &tip, &touched)
                .filter(|_| in_files)
            {
                assert_blocked(&expected, &proposed);
                self.log_action("  hindered");
                return;
            }
            let ProposalOutcome::Ready(proposal) = proposed else {
                panic!("{touched:?} are free, not {proposed:?}");
            };
            self.check_repository();
            let meanwhile = round < 2 && self.random.is_hit(20);
            if meanwhile {
                match self.random.next_below(3) {
                    0 => self.person_commits(),
                    1 => self.person_amends(),
                    _ => self.person_edits(),
                }
            }
            let moved = self.history.last().unwrap().id != proposal.old;
            if moved && matches!(method, LandingMethod::Commit { .. }) {
                assert_eq!(
                    self.fixture.land_proposal(work.plan_id, epoch, &proposal),
                    LandAttempt::TargetMoved
                );
                self.log_action("  moved");
                self.check_repository();
                continue;
            }
            if let Some(expected) = self
                .find_expected_obstacles(&method, &tip, &touched)
                .filter(|_| in_files)
            {
                let landed = self.fixture.land_proposal(work.plan_id, epoch, &proposal);
                assert_eq!(list_blocking_paths(&landed), expected);
                self.log_action("  hindered under the lock");
                return;
            }
            let landing = ExpectedLanding {
                merged: &merged,
                touched: &touched,
                tip: &tip,
            };
            if !self.land_or_be_killed(&work, &method, &proposal, epoch, &landing) {
                return;
            }
            self.record_landing(work, method, proposal, tip, merged);
            return;
        }
    }

    /// Returns `false` if it did not land in the end.
    fn land_or_be_killed(
        &mut self,
        work: &PlanWork,
        method: &LandingMethod,
        proposal: &LandingProposal,
        epoch: u64,
        landing: &ExpectedLanding<'_>,
    ) -> bool {
        let in_files = !matches!(method, LandingMethod::Branch(_));
        let none_kept = LandAttempt::Landed { kept: Vec::new() };
        if !self.random.is_hit(40) {
            assert_eq!(
                self.fixture.land_proposal(work.plan_id, epoch, proposal),
                none_kept
            );
            return true;
        }
        let step = *self.random.pick_one(&KILL_STEPS);
        let failing = self.fixture.with_faults(StepFaults::new(move |at| {
            if at == step {
                return Err(std::io::Error::from_raw_os_error(28));
            }
            Ok(())
        }));
        let key = self.fixture.sandbox_key(work.plan_id);
        let killed = failing
            .landings()
            .land_proposal(&key, Epoch(epoch), proposal)
            .is_err();
        self.log_action(format!("  killed at {step:?}: {killed}"));
        let mut saved = None;
        if killed && in_files && self.random.is_hit(40) {
            let touched: Vec<String> = landing.touched.iter().cloned().collect();
            let path = self.random.pick_one(&touched).clone();
            self.next_value += 1;
            write_model_file(
                &self.fixture.path(),
                &path,
                Some(&[self.next_value; SLOT_COUNT]),
            );
            self.log_action(format!("  meanwhile the person saves {path}"));
            saved = Some((path, [self.next_value; SLOT_COUNT]));
        }
        let epoch = self.next_epoch();
        let before_ref_moved = matches!(
            step,
            SandboxStep::IndexLocked
                | SandboxStep::Staged
                | SandboxStep::Journalled
                | SandboxStep::IndexPlaced
        );
        let landed = self.fixture.land_proposal(work.plan_id, epoch, proposal);
        let Some((path, slots)) = saved else {
            assert_eq!(landed, none_kept);
            return true;
        };
        if before_ref_moved {
            self.edits.insert(path, Some(slots));
            let expected = self
                .find_expected_obstacles(method, landing.tip, landing.touched)
                .unwrap();
            assert_eq!(list_blocking_paths(&landed), expected);
            return false;
        }
        let LandAttempt::Landed { kept } = landed else {
            panic!("it had landed, not {landed:?}");
        };
        assert!(kept.iter().all(|kept| kept.to_string() == path), "{kept:?}");
        // The change is in the branch or in the files; the saved file has the user's content.
        for touched in landing.touched {
            let landed = landing.merged.get(touched).copied();
            self.edits.insert(touched.clone(), landed);
        }
        self.edits.insert(path.clone(), Some(slots));
        self.saved = Some(path);
        true
    }

    /// Applies a landing to the model.
    fn record_landing(
        &mut self,
        work: PlanWork,
        method: LandingMethod,
        proposal: LandingProposal,
        tip: ModelTree,
        merged: ModelTree,
    ) {
        let touched = list_differing_paths(&tip, &merged);
        let saved = self.saved.take();
        match &method {
            LandingMethod::Commit { merge } => {
                self.history.push(ModelCommit {
                    id: proposal.new.clone(),
                    tree: merged.clone(),
                    parents: if *merge { 2 } else { 1 },
                });
            }
            LandingMethod::Branch(name) => {
                let listed = self
                    .fixture
                    .run_git(&["ls-tree", "-r", "--name-only", name]);
                assert_eq!(
                    listed,
                    merged.keys().cloned().collect::<Vec<_>>().join("\n")
                );
                for path in &touched {
                    if let Some(slots) = merged.get(path) {
                        let present = self.fixture.run_git(&["show", &format!("{name}:{path}")]);
                        assert_eq!(present, render_file(path, slots).trim());
                    }
                }
            }
            LandingMethod::Uncommitted => {
                // A file saved during a killed landing is newer.
                for path in touched
                    .into_iter()
                    .filter(|path| Some(path) != saved.as_ref())
                {
                    let slots = merged.get(&path).copied();
                    self.edits.insert(path, slots);
                }
            }
        }
        let work = PlanWork {
            before: tip,
            after: merged,
            ..work
        };
        self.landed_work.push(LandedWork {
            work,
            method,
            proposal,
        });
        self.drop_void_edits();
    }

    /// Landing again changes nothing, whatever the user did since.
    fn land_again(&mut self) {
        if self.landed_work.is_empty() {
            return;
        }
        let number = self.random.next_below(self.landed_work.len());
        let epoch = self.next_epoch();
        let landed_work = &self.landed_work[number];
        let is_in_history = match landed_work.method {
            LandingMethod::Commit { .. } => self
                .history
                .iter()
                .any(|commit| commit.id == landed_work.proposal.new),
            LandingMethod::Branch(_) | LandingMethod::Uncommitted => true,
        };
        let plan = landed_work.work.plan_id;
        let landed = self
            .fixture
            .land_proposal(plan, epoch, &landed_work.proposal);
        self.log_action(format!("{plan} lands again: {landed:?}"));
        let expected = if is_in_history {
            LandAttempt::Landed { kept: Vec::new() }
        } else {
            LandAttempt::Removed
        };
        assert_eq!(landed, expected);
    }

    fn person_commits(&mut self) {
        if !self.edits.is_empty() && self.random.is_hit(30) {
            self.log_action("the person commits everything");
            let tree = apply_edits(self.head_tree(), &self.edits);
            let id = self.fixture.commit_all("everything");
            self.edits.clear();
            self.history.push(ModelCommit {
                id,
                tree,
                parents: 1,
            });
            return;
        }
        if let Some((id, tree)) = self.commit_one_path(&[]) {
            self.history.push(ModelCommit {
                id,
                tree,
                parents: 1,
            });
        }
    }

    fn person_amends(&mut self) {
        if self.history.len() < 2 {
            return;
        }
        if let Some((id, tree)) = self.commit_one_path(&["--amend"]) {
            let last = self.history.last_mut().unwrap();
            last.id = id;
            last.tree = tree;
        }
    }

    /// The user changes a file and commits only that; other edits stay.
    fn commit_one_path(&mut self, options: &[&str]) -> Option<(ObjectId, ModelTree)> {
        let mut tree = self.head_tree().clone();
        let (path, slots) = self.choose_change(&tree);
        if self.edits.contains_key(&path) || (tree.len() == 1 && slots.is_none()) {
            return None;
        }
        self.log_action(format!("the person commits {path} {options:?}: {slots:?}"));
        write_model_file(&self.fixture.path(), &path, slots.as_ref());
        self.fixture.run_git(&["add", "--all", "--", &path]);
        let mut arguments = vec!["commit", "-q", "--no-verify", "--allow-empty"];
        arguments.extend(options);
        arguments.extend(["-m", "by hand", "--", &path]);
        self.fixture.run_git(&arguments);
        let id = self.read_branch_tip();
        match slots {
            Some(slots) => tree.insert(path, slots),
            None => tree.remove(&path),
        };
        Some((id, tree))
    }

    fn person_rewrites_history(&mut self) {
        let [.., before, last] = self.history.as_slice() else {
            return;
        };
        let touched = list_differing_paths(&before.tree, &last.tree);
        let is_unedited = touched.iter().all(|path| !self.edits.contains_key(path));
        if is_unedited && self.random.is_hit(50) {
            self.log_action("the person takes the last commit back");
            self.fixture.run_git(&["reset", "-q", "--keep", "HEAD~1"]);
            self.history.pop();
            self.drop_void_edits();
            return;
        }
        let [.., onto, dropped, last] = self.history.as_slice() else {
            return;
        };
        let is_linear = dropped.parents == 1 && last.parents == 1 && self.edits.is_empty();
        let Ok(tree) = merge_model_trees(&dropped.tree, &onto.tree, &last.tree) else {
            return;
        };
        if !is_linear || tree == onto.tree {
            return;
        }
        let (onto, dropped) = (onto.id.to_string(), dropped.id.to_string());
        self.log_action("the person rebases the commit before the last away");
        self.fixture
            .run_git(&["rebase", "-q", "--onto", &onto, &dropped, "main"]);
        let id = self.read_branch_tip();
        self.history.truncate(self.history.len() - 2);
        self.history.push(ModelCommit {
            id,
            tree,
            parents: 1,
        });
    }

    fn person_edits(&mut self) {
        let files = apply_edits(self.head_tree(), &self.edits);
        let (path, slots) = self.choose_change(&files);
        if slots.is_none() && self.edits.contains_key(&path) {
            return;
        }
        write_model_file(&self.fixture.path(), &path, slots.as_ref());
        let staged =
            self.head_tree().contains_key(&path) && slots.is_some() && self.random.is_hit(30);
        if staged {
            self.fixture.run_git(&["add", "--", &path]);
        }
        self.log_action(format!("the person edits {path}, staged: {staged}"));
        self.edits.insert(path, slots);
    }

    /// The tree that a result is merged with: the branch, or the current files.
    fn choose_target_tree(&self, method: &LandingMethod) -> ModelTree {
        match method {
            LandingMethod::Commit { .. } | LandingMethod::Branch(_) => self.head_tree().clone(),
            LandingMethod::Uncommitted => apply_edits(self.head_tree(), &self.edits),
        }
    }

    /// The paths of the user's edits that block this change.
    fn find_expected_obstacles(
        &self,
        method: &LandingMethod,
        tip: &ModelTree,
        touched: &BTreeSet<String>,
    ) -> Option<BTreeSet<String>> {
        if *method == LandingMethod::Uncommitted {
            let changed = list_differing_paths(tip, &self.choose_target_tree(method));
            let blocked: BTreeSet<String> = touched.intersection(&changed).cloned().collect();
            return (!blocked.is_empty()).then_some(blocked);
        }
        let committed = list_differing_paths(tip, self.head_tree());
        let blocked: BTreeSet<String> = touched
            .iter()
            .filter(|path| self.edits.contains_key(*path) || committed.contains(*path))
            .cloned()
            .collect();
        (!blocked.is_empty()).then_some(blocked)
    }

    fn drop_void_edits(&mut self) {
        let head = self.head_tree().clone();
        self.edits
            .retain(|path, edit| head.get(path) != edit.as_ref());
    }

    /// Checks that branch, index and files match the model, and that nothing is left behind.
    fn check_repository(&mut self) {
        self.drop_void_edits();
        let mut files = Vec::new();
        list_files(&self.fixture.path(), Path::new(""), &mut files);
        let mut present = Vec::new();
        for path in files {
            assert!(!path.ends_with(".lock"), "{path} was left behind");
            assert!(!path.contains("planwright-"), "{path} was left behind");
            assert!(!path.starts_with(".git/planwright"), "{path} was left");
            if !path.starts_with(".git/") {
                let content = self.fixture.read_file(&path);
                present.push((path, content));
            }
        }
        present.sort();
        let expected: Vec<(String, String)> = apply_edits(self.head_tree(), &self.edits)
            .iter()
            .map(|(path, slots)| (path.clone(), render_file(path, slots)))
            .collect();
        assert_eq!(present, expected, "the files");
        let status = ["status", "--porcelain", "--no-renames", "-uall"];
        let status = self.fixture.run_git(&status);
        let differing: BTreeSet<&str> = status
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap())
            .collect();
        let edited: BTreeSet<&str> = self.edits.keys().map(String::as_str).collect();
        assert_eq!(differing, edited, "what git says is not committed");
        for path in edited {
            if let Some(slots) = self.head_tree().get(path) {
                let present = self.fixture.run_git(&["show", &format!("main:{path}")]);
                assert_eq!(
                    present,
                    render_file(path, slots).trim(),
                    "{path} in the branch"
                );
            }
        }
        assert_eq!(self.read_branch_tip(), self.history.last().unwrap().id);
    }
}

struct ExpectedLanding<'a> {
    merged: &'a ModelTree,
    touched: &'a BTreeSet<String>,
    tip: &'a ModelTree,
}

fn write_model_file(root: &Path, path: &str, slots: Option<&FileSlots>) {
    match slots {
        Some(slots) => write_file(&root.join(path), &render_file(path, slots)),
        None => std::fs::remove_file(root.join(path)).unwrap(),
    }
}

fn assert_blocked(expected: &BTreeSet<String>, proposed: &ProposalOutcome) {
    let ProposalOutcome::Blocked(obstacle) = proposed else {
        panic!("{expected:?} are in the way, not {proposed:?}");
    };
    assert_eq!(
        &list_blocking_paths(&LandAttempt::Blocked(obstacle.clone())),
        expected
    );
}

fn list_blocking_paths(landed: &LandAttempt) -> BTreeSet<String> {
    let LandAttempt::Blocked(LandingObstacle::LocalEdits(paths)) = landed else {
        panic!("something is in the way, not {landed:?}");
    };
    paths.iter().map(ToString::to_string).collect()
}

/// Every file below a directory, except git's objects.
fn list_files(root: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if path == Path::new(".git/objects") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            list_files(root, &path, found);
        } else {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}
