//! Random schedules against a model: plans and a person work in one repository, landings are killed
//! and repeated, and after every step the repository is exactly what the model says. Nobody's work
//! is lost, an undo takes out one plan's work alone, and nothing of ours is left lying about.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Epoch, PlanId};
use planwright_sandbox::land::{How, Landed, Outcome, Proposal, Proposed};
use planwright_sandbox::{Faults, ObjectId, Obstacle, Step};

use crate::model::{Dice, Edits, SLOTS, Sheet, Tree, differing, merge, overlaid, text};
use crate::yard::{Yard, plan, write};

const SCHEDULES: u64 = 200;
const STEPS: usize = 5;
const TRACKED: [&str; 3] = ["one.txt", "lib/two.txt", "lib/deep/three.txt"];
const UNTRACKED: [&str; 3] = ["four.txt", "lib/five.txt", "new/dir/six.txt"];

/// Where a landing can be killed.
const KILLED_AT: [Step; 10] = [
    Step::IndexLocked,
    Step::Staged,
    Step::Journalled,
    Step::IndexPlaced,
    Step::RefMoved,
    Step::SomeExchanged,
    Step::AllExchanged,
    Step::IndexRefreshed,
    Step::Unlocked,
    Step::JournalRemoved,
];

/// A failing schedule says its number; with `PLANWRIGHT_TEST_SEED` it runs alone.
#[test]
fn two_hundred_random_schedules_end_as_the_model_says() {
    if let Ok(seed) = std::env::var("PLANWRIGHT_TEST_SEED") {
        return World::new(seed.parse().unwrap()).live();
    }
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SCHEDULES {
                        break;
                    }
                    World::new(seed).live();
                }
            });
        }
    });
}

/// A commit of the person's branch.
#[derive(Clone)]
struct Made {
    id: ObjectId,
    tree: Tree,
    parents: usize,
}

/// What a plan did to a tree, and what git calls it.
#[derive(Clone)]
struct Work {
    plan: PlanId,
    before: Tree,
    after: Tree,
    outcome: Outcome,
}

/// A plan that landed.
struct Done {
    work: Work,
    how: How,
    proposal: Proposal,
}

struct World {
    yard: Yard,
    dice: Dice,
    seed: u64,
    history: Vec<Made>,
    /// What the person saved while a landing lay killed.
    saved: Option<String>,
    edits: Edits,
    pending: Vec<Work>,
    done: Vec<Done>,
    plans: u128,
    value: u32,
    epoch: u64,
    log: Vec<String>,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("PLANWRIGHT_TEST_SEED={}", self.seed);
            println!("{}", self.log.join("\n"));
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let yard = Yard::empty_in_memory();
        yard.git(&["init", "-q", "-b", "main", "."]);
        let tree: Tree = TRACKED
            .iter()
            .map(|path| ((*path).to_owned(), [0; SLOTS]))
            .collect();
        for (path, sheet) in &tree {
            yard.write(path, &text(path, sheet));
        }
        let id = yard.commit("start");
        Self {
            yard,
            dice: Dice::new(seed),
            seed,
            history: vec![Made {
                id,
                tree,
                parents: 0,
            }],
            saved: None,
            edits: Edits::new(),
            pending: Vec::new(),
            done: Vec::new(),
            plans: 0,
            value: 0,
            epoch: 0,
            log: Vec::new(),
        }
    }

    fn live(mut self) {
        self.work();
        for _ in 0..STEPS {
            match self.dice.roll(12) {
                0..=1 => self.work(),
                2..=4 => self.land_pending(),
                5..=6 => self.undo(),
                7 => self.person_commits(),
                8 => self.person_amends(),
                9 => self.person_rewrites_history(),
                10 => self.person_edits(),
                _ => self.land_again(),
            }
            self.check();
        }
        while !self.pending.is_empty() {
            self.land_pending();
            self.check();
        }
        if self.seed.is_multiple_of(10) {
            assert_eq!(self.yard.git(&["fsck", "--no-dangling"]), "");
        }
    }

    fn head(&self) -> &Tree {
        &self.history.last().unwrap().tree
    }

    /// Where the branch is; read without git, because it is asked so often.
    fn branch(&self) -> ObjectId {
        let text = self.yard.read(".git/refs/heads/main");
        text.trim().parse().unwrap()
    }

    fn say(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    fn next_plan(&mut self) -> PlanId {
        self.plans += 1;
        plan(self.plans)
    }

    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// A random change to a tree: the path, and what it becomes.
    fn change(&mut self, tree: &Tree) -> (String, Option<Sheet>) {
        self.value += 1;
        let there: Vec<String> = tree.keys().cloned().collect();
        let absent: Vec<&str> = UNTRACKED
            .into_iter()
            .filter(|path| !tree.contains_key(*path))
            .collect();
        let kind = self.dice.roll(10);
        if there.is_empty() || (kind == 0 && !absent.is_empty()) {
            let path = (*self.dice.pick(&absent)).to_owned();
            return (path, Some([self.value; SLOTS]));
        }
        let path = self.dice.pick(&there).clone();
        if kind == 1 {
            return (path, None);
        }
        let mut sheet = tree[&path];
        sheet[self.dice.roll(SLOTS)] = self.value;
        (path, Some(sheet))
    }

    /// A plan works in a sandbox; the person's repository is not concerned.
    fn work(&mut self) {
        let (plan, epoch) = (self.next_plan(), self.next_epoch());
        let before = self.head().clone();
        let sandbox = self.yard.enter(plan, epoch);
        let mut after = before.clone();
        for _ in 0..=self.dice.roll(3) {
            let (path, sheet) = self.change(&after);
            put(&sandbox.path, &path, sheet.as_ref());
            match sheet {
                Some(sheet) => after.insert(path, sheet),
                None => after.remove(&path),
            };
        }
        let outcome = self.yard.captured(plan, epoch);
        let paths = differing(&before, &after);
        self.say(format!("{plan} works on {paths:?}"));
        if paths.is_empty() {
            return;
        }
        self.pending.push(Work {
            plan,
            before,
            after,
            outcome,
        });
    }

    fn land_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let number = self.dice.roll(self.pending.len());
        let work = self.pending.remove(number);
        let how = match self.dice.roll(8) {
            0 => How::Branch(format!("plans/{}", work.plan)),
            1 | 2 => How::Uncommitted,
            3 => How::Commit { merge: true },
            _ => How::Commit { merge: false },
        };
        self.land(work, how);
    }

    /// An undo is the inverse change, merged with what came since.
    fn undo(&mut self) {
        if self.done.is_empty() {
            return;
        }
        let number = self.dice.roll(self.done.len());
        let (new, before, after, how) = {
            let done = &self.done[number];
            let how = match done.how {
                How::Uncommitted => How::Uncommitted,
                How::Commit { .. } | How::Branch(_) => How::Commit { merge: false },
            };
            let new = done.proposal.new.clone();
            (new, done.work.before.clone(), done.work.after.clone(), how)
        };
        let plan = self.next_plan();
        let undone = self.done[number].work.plan;
        self.say(format!("{plan} undoes {undone}"));
        let tree = self.yard.git(&["rev-parse", &format!("{new}^1^{{tree}}")]);
        let outcome = Outcome {
            base: new,
            tree: tree.parse().unwrap(),
        };
        let work = Work {
            plan,
            before: after,
            after: before,
            outcome,
        };
        self.land(work, how);
    }

    /// Lands a plan, whatever happens on the way.
    fn land(&mut self, work: Work, how: How) {
        // Each round is either the last, or made the target move.
        for round in 0..3 {
            let epoch = self.next_epoch();
            self.say(format!("{} lands as {how:?}, round {round}", work.plan));
            let tip = self.tip_for(&how);
            let proposed = self.yard.propose(work.plan, epoch, &work.outcome, &how);
            let merged = match merge(&work.before, &tip, &work.after) {
                Ok(merged) => merged,
                Err(expected) => {
                    // What the person did not commit yet is named as that, and not as somebody's commit.
                    let uncommitted = differing(self.head(), &tip);
                    let edited: BTreeSet<String> =
                        expected.intersection(&uncommitted).cloned().collect();
                    if !edited.is_empty() {
                        assert_hindered(&edited, &proposed);
                        self.say("  hindered");
                        return;
                    }
                    let Proposed::Conflict { paths, .. } = proposed else {
                        panic!("{expected:?} conflict, not {proposed:?}");
                    };
                    let paths: BTreeSet<String> = paths.iter().map(ToString::to_string).collect();
                    assert_eq!(paths, expected);
                    self.say("  conflict");
                    return;
                }
            };
            if merged == tip {
                assert_eq!(proposed, Proposed::Nothing);
                self.say("  nothing to land");
                return;
            }
            let touched = differing(&tip, &merged);
            let in_files = !matches!(how, How::Branch(_));
            if let Some(expected) = self.in_the_way(&how, &tip, &touched).filter(|_| in_files) {
                assert_hindered(&expected, &proposed);
                self.say("  hindered");
                return;
            }
            let Proposed::Ready(proposal) = proposed else {
                panic!("{touched:?} are free, not {proposed:?}");
            };
            self.check();
            let meanwhile = round < 2 && self.dice.happens(20);
            if meanwhile {
                match self.dice.roll(3) {
                    0 => self.person_commits(),
                    1 => self.person_amends(),
                    _ => self.person_edits(),
                }
            }
            let moved = self.history.last().unwrap().id != proposal.old;
            if moved && matches!(how, How::Commit { .. }) {
                assert_eq!(self.yard.land(work.plan, epoch, &proposal), Landed::Moved);
                self.say("  moved");
                self.check();
                continue;
            }
            if let Some(expected) = self.in_the_way(&how, &tip, &touched).filter(|_| in_files) {
                let landed = self.yard.land(work.plan, epoch, &proposal);
                assert_eq!(paths_in_the_way(&landed), expected);
                self.say("  hindered under the lock");
                return;
            }
            let landing = Landing {
                merged: &merged,
                touched: &touched,
                tip: &tip,
            };
            if !self.land_or_be_killed(&work, &how, &proposal, epoch, &landing) {
                return;
            }
            self.landed(work, how, proposal, tip, merged);
            return;
        }
    }

    /// `false` if it did not land in the end.
    fn land_or_be_killed(
        &mut self,
        work: &Work,
        how: &How,
        proposal: &Proposal,
        epoch: u64,
        landing: &Landing<'_>,
    ) -> bool {
        let in_files = !matches!(how, How::Branch(_));
        let none_kept = Landed::Yes { kept: Vec::new() };
        if !self.dice.happens(40) {
            assert_eq!(self.yard.land(work.plan, epoch, proposal), none_kept);
            return true;
        }
        let step = *self.dice.pick(&KILLED_AT);
        let failing = self.yard.with_faults(Faults::new(move |at| {
            if at == step {
                return Err(std::io::Error::from_raw_os_error(28));
            }
            Ok(())
        }));
        let room = self.yard.room(work.plan);
        let killed = failing.land(&room, Epoch(epoch), proposal).is_err();
        self.say(format!("  killed at {step:?}: {killed}"));
        let mut saved = None;
        if killed && in_files && self.dice.happens(40) {
            let touched: Vec<String> = landing.touched.iter().cloned().collect();
            let path = self.dice.pick(&touched).clone();
            self.value += 1;
            put(&self.yard.path(), &path, Some(&[self.value; SLOTS]));
            self.say(format!("  meanwhile the person saves {path}"));
            saved = Some((path, [self.value; SLOTS]));
        }
        let epoch = self.next_epoch();
        let before_it_moved = matches!(
            step,
            Step::IndexLocked | Step::Staged | Step::Journalled | Step::IndexPlaced
        );
        let landed = self.yard.land(work.plan, epoch, proposal);
        let Some((path, sheet)) = saved else {
            assert_eq!(landed, none_kept);
            return true;
        };
        if before_it_moved {
            self.edits.insert(path, Some(sheet));
            let expected = self.in_the_way(how, landing.tip, landing.touched).unwrap();
            assert_eq!(paths_in_the_way(&landed), expected);
            return false;
        }
        let Landed::Yes { kept } = landed else {
            panic!("it had landed, not {landed:?}");
        };
        assert!(kept.iter().all(|kept| kept.to_string() == path), "{kept:?}");
        // What landed is in the branch or beside it; the file is as they saved it.
        for touched in landing.touched {
            let landed = landing.merged.get(touched).copied();
            self.edits.insert(touched.clone(), landed);
        }
        self.edits.insert(path.clone(), Some(sheet));
        self.saved = Some(path);
        true
    }

    /// What the model makes of a landing.
    fn landed(&mut self, work: Work, how: How, proposal: Proposal, tip: Tree, merged: Tree) {
        let touched = differing(&tip, &merged);
        let saved = self.saved.take();
        match &how {
            How::Commit { merge } => {
                self.history.push(Made {
                    id: proposal.new.clone(),
                    tree: merged.clone(),
                    parents: if *merge { 2 } else { 1 },
                });
            }
            How::Branch(name) => {
                let listed = self.yard.git(&["ls-tree", "-r", "--name-only", name]);
                assert_eq!(
                    listed,
                    merged.keys().cloned().collect::<Vec<_>>().join("\n")
                );
                for path in &touched {
                    if let Some(sheet) = merged.get(path) {
                        let there = self.yard.git(&["show", &format!("{name}:{path}")]);
                        assert_eq!(there, text(path, sheet).trim());
                    }
                }
            }
            How::Uncommitted => {
                // A save during a killed landing is newer.
                for path in touched
                    .into_iter()
                    .filter(|path| Some(path) != saved.as_ref())
                {
                    let sheet = merged.get(&path).copied();
                    self.edits.insert(path, sheet);
                }
            }
        }
        let work = Work {
            before: tip,
            after: merged,
            ..work
        };
        self.done.push(Done {
            work,
            how,
            proposal,
        });
        self.forget_edits_that_are_none();
    }

    /// Landing what landed changes nothing, whatever the person did since.
    fn land_again(&mut self) {
        if self.done.is_empty() {
            return;
        }
        let number = self.dice.roll(self.done.len());
        let epoch = self.next_epoch();
        let done = &self.done[number];
        let is_there = match done.how {
            How::Commit { .. } => self
                .history
                .iter()
                .any(|commit| commit.id == done.proposal.new),
            How::Branch(_) | How::Uncommitted => true,
        };
        let plan = done.work.plan;
        let landed = self.yard.land(plan, epoch, &done.proposal);
        self.say(format!("{plan} lands again: {landed:?}"));
        let expected = if is_there {
            Landed::Yes { kept: Vec::new() }
        } else {
            Landed::Removed
        };
        assert_eq!(landed, expected);
    }

    fn person_commits(&mut self) {
        if !self.edits.is_empty() && self.dice.happens(30) {
            self.say("the person commits everything");
            let tree = overlaid(self.head(), &self.edits);
            let id = self.yard.commit("everything");
            self.edits.clear();
            self.history.push(Made {
                id,
                tree,
                parents: 1,
            });
            return;
        }
        if let Some((id, tree)) = self.commit_one_path(&[]) {
            self.history.push(Made {
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

    /// The person changes a file and commits it alone; their other edits stay as they are.
    fn commit_one_path(&mut self, options: &[&str]) -> Option<(ObjectId, Tree)> {
        let mut tree = self.head().clone();
        let (path, sheet) = self.change(&tree);
        if self.edits.contains_key(&path) || (tree.len() == 1 && sheet.is_none()) {
            return None;
        }
        self.say(format!("the person commits {path} {options:?}: {sheet:?}"));
        put(&self.yard.path(), &path, sheet.as_ref());
        self.yard.git(&["add", "--all", "--", &path]);
        let mut arguments = vec!["commit", "-q", "--no-verify", "--allow-empty"];
        arguments.extend(options);
        arguments.extend(["-m", "by hand", "--", &path]);
        self.yard.git(&arguments);
        let id = self.branch();
        match sheet {
            Some(sheet) => tree.insert(path, sheet),
            None => tree.remove(&path),
        };
        Some((id, tree))
    }

    fn person_rewrites_history(&mut self) {
        let [.., before, last] = self.history.as_slice() else {
            return;
        };
        let touched = differing(&before.tree, &last.tree);
        let free = touched.iter().all(|path| !self.edits.contains_key(path));
        if free && self.dice.happens(50) {
            self.say("the person takes the last commit back");
            self.yard.git(&["reset", "-q", "--keep", "HEAD~1"]);
            self.history.pop();
            self.forget_edits_that_are_none();
            return;
        }
        let [.., onto, dropped, last] = self.history.as_slice() else {
            return;
        };
        let plain = dropped.parents == 1 && last.parents == 1 && self.edits.is_empty();
        let Ok(tree) = merge(&dropped.tree, &onto.tree, &last.tree) else {
            return;
        };
        if !plain || tree == onto.tree {
            return;
        }
        let (onto, dropped) = (onto.id.to_string(), dropped.id.to_string());
        self.say("the person rebases the commit before the last away");
        self.yard
            .git(&["rebase", "-q", "--onto", &onto, &dropped, "main"]);
        let id = self.branch();
        self.history.truncate(self.history.len() - 2);
        self.history.push(Made {
            id,
            tree,
            parents: 1,
        });
    }

    fn person_edits(&mut self) {
        let files = overlaid(self.head(), &self.edits);
        let (path, sheet) = self.change(&files);
        if sheet.is_none() && self.edits.contains_key(&path) {
            return;
        }
        put(&self.yard.path(), &path, sheet.as_ref());
        let staged = self.head().contains_key(&path) && sheet.is_some() && self.dice.happens(30);
        if staged {
            self.yard.git(&["add", "--", &path]);
        }
        self.say(format!("the person edits {path}, staged: {staged}"));
        self.edits.insert(path, sheet);
    }

    /// The paths that the person's work keeps a change of these from.
    /// What a result is merged with: the branch, or the files as they are.
    fn tip_for(&self, how: &How) -> Tree {
        match how {
            How::Commit { .. } | How::Branch(_) => self.head().clone(),
            How::Uncommitted => overlaid(self.head(), &self.edits),
        }
    }

    fn in_the_way(
        &self,
        how: &How,
        tip: &Tree,
        touched: &BTreeSet<String>,
    ) -> Option<BTreeSet<String>> {
        if *how == How::Uncommitted {
            let since = differing(tip, &self.tip_for(how));
            let hit: BTreeSet<String> = touched.intersection(&since).cloned().collect();
            return (!hit.is_empty()).then_some(hit);
        }
        let committed = differing(tip, self.head());
        let hit: BTreeSet<String> = touched
            .iter()
            .filter(|path| self.edits.contains_key(*path) || committed.contains(*path))
            .cloned()
            .collect();
        (!hit.is_empty()).then_some(hit)
    }

    fn forget_edits_that_are_none(&mut self) {
        let head = self.head().clone();
        self.edits
            .retain(|path, edit| head.get(path) != edit.as_ref());
    }

    /// Branch, index and files are what the model says; nothing of ours lies about.
    fn check(&mut self) {
        self.forget_edits_that_are_none();
        let mut files = Vec::new();
        list(&self.yard.path(), Path::new(""), &mut files);
        let mut there = Vec::new();
        for path in files {
            assert!(!path.ends_with(".lock"), "{path} was left behind");
            assert!(!path.contains("planwright-"), "{path} was left behind");
            assert!(!path.starts_with(".git/planwright"), "{path} was left");
            if !path.starts_with(".git/") {
                let content = self.yard.read(&path);
                there.push((path, content));
            }
        }
        there.sort();
        let expected: Vec<(String, String)> = overlaid(self.head(), &self.edits)
            .iter()
            .map(|(path, sheet)| (path.clone(), text(path, sheet)))
            .collect();
        assert_eq!(there, expected, "the files");
        let status = ["status", "--porcelain", "--no-renames", "-uall"];
        let status = self.yard.git(&status);
        let differing: BTreeSet<&str> = status
            .lines()
            .map(|line| line.rsplit(' ').next().unwrap())
            .collect();
        let edited: BTreeSet<&str> = self.edits.keys().map(String::as_str).collect();
        assert_eq!(differing, edited, "what git says is not committed");
        for path in edited {
            if let Some(sheet) = self.head().get(path) {
                let there = self.yard.git(&["show", &format!("main:{path}")]);
                assert_eq!(there, text(path, sheet).trim(), "{path} in the branch");
            }
        }
        assert_eq!(self.branch(), self.history.last().unwrap().id);
    }
}

/// What a landing should do.
struct Landing<'a> {
    merged: &'a Tree,
    touched: &'a BTreeSet<String>,
    tip: &'a Tree,
}

fn put(root: &Path, path: &str, sheet: Option<&Sheet>) {
    match sheet {
        Some(sheet) => write(&root.join(path), &text(path, sheet)),
        None => std::fs::remove_file(root.join(path)).unwrap(),
    }
}

fn assert_hindered(expected: &BTreeSet<String>, proposed: &Proposed) {
    let Proposed::Hindered(obstacle) = proposed else {
        panic!("{expected:?} are in the way, not {proposed:?}");
    };
    assert_eq!(
        &paths_in_the_way(&Landed::Hindered(obstacle.clone())),
        expected
    );
}

fn paths_in_the_way(landed: &Landed) -> BTreeSet<String> {
    let Landed::Hindered(Obstacle::LocalEdits(paths)) = landed else {
        panic!("something is in the way, not {landed:?}");
    };
    paths.iter().map(ToString::to_string).collect()
}

/// Every file below a directory, git's objects excepted.
fn list(root: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        if path == Path::new(".git/objects") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            list(root, &path, found);
        } else {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
}
