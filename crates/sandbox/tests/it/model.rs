//! A model of the repository's content, computed without git.
//!
//! A file has a few slots, far enough apart that changes of different slots merge and changes of
//! the same slot conflict. Every line contains the file's name, so that no two files look like a
//! rename.

use std::collections::{BTreeMap, BTreeSet};

pub const SLOT_COUNT: usize = 4;

/// The values in the slots of one file.
pub type FileSlots = [u32; SLOT_COUNT];

pub type ModelTree = BTreeMap<String, FileSlots>;

/// The user's uncommitted files; `None` for a deleted one.
pub type ModelEdits = BTreeMap<String, Option<FileSlots>>;

pub fn render_file(path: &str, slots: &FileSlots) -> String {
    let mut text = String::new();
    for (slot, value) in slots.iter().enumerate() {
        for line in 0..4 {
            text.push_str(&format!("{path} stays {slot}.{line}\n"));
        }
        text.push_str(&format!("{path} slot {slot}: {value:08}\n"));
    }
    text.push_str(&format!("{path} ends\n"));
    text
}

/// Merges the changes from `base` to `theirs` into `ours`. Returns conflicting paths as an error.
pub fn merge_model_trees(
    base: &ModelTree,
    ours: &ModelTree,
    theirs: &ModelTree,
) -> Result<ModelTree, BTreeSet<String>> {
    let mut merged = ModelTree::new();
    let mut conflicts = BTreeSet::new();
    let paths: BTreeSet<&String> = [base, ours, theirs]
        .iter()
        .flat_map(|tree| tree.keys())
        .collect();
    for path in paths {
        let (before, our, their) = (base.get(path), ours.get(path), theirs.get(path));
        let chosen = if their == before || our == their {
            our.copied()
        } else if our == before {
            their.copied()
        } else if let (Some(before), Some(our), Some(their)) = (before, our, their) {
            let slots = merge_slots(before, our, their);
            if slots.is_none() {
                conflicts.insert(path.clone());
            }
            slots
        } else {
            conflicts.insert(path.clone());
            None
        };
        merged.extend(chosen.map(|slots| (path.clone(), slots)));
    }
    if conflicts.is_empty() {
        Ok(merged)
    } else {
        Err(conflicts)
    }
}

fn merge_slots(base: &FileSlots, ours: &FileSlots, theirs: &FileSlots) -> Option<FileSlots> {
    let mut merged = *ours;
    for slot in 0..SLOT_COUNT {
        if theirs[slot] != base[slot] && ours[slot] != theirs[slot] {
            if ours[slot] != base[slot] {
                return None;
            }
            merged[slot] = theirs[slot];
        }
    }
    Some(merged)
}

pub fn list_differing_paths(one: &ModelTree, other: &ModelTree) -> BTreeSet<String> {
    one.keys()
        .chain(other.keys())
        .filter(|path| one.get(*path) != other.get(*path))
        .cloned()
        .collect()
}

pub fn apply_edits(tree: &ModelTree, edits: &ModelEdits) -> ModelTree {
    let mut files = tree.clone();
    for (path, edit) in edits {
        match edit {
            Some(slots) => files.insert(path.clone(), *slots),
            None => files.remove(path),
        };
    }
    files
}

/// A deterministic generator (SplitMix64): the same seed gives the same schedule.
pub struct ScheduleRandom(u64);

impl ScheduleRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub fn next_below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    /// Returns true in `percent` percent of calls.
    pub fn is_hit(&mut self, percent: usize) -> bool {
        self.next_below(100) < percent
    }

    pub fn pick_one<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.next_below(choices.len())]
    }
}
