//! What a repository should hold, worked out without git.
//!
//! A file is a sheet of a few slots, far enough apart that changes of different slots merge and
//! changes of the same one cannot. Every line carries the file's name, so that no two files ever
//! look like one that was renamed.

use std::collections::{BTreeMap, BTreeSet};

pub const SLOT_COUNT: usize = 4;

/// What stands in the slots of one file.
pub type FileSlots = [u32; SLOT_COUNT];

/// Files by path.
pub type ModelTree = BTreeMap<String, FileSlots>;

/// What a person has in their files that is not committed; nothing where they deleted one.
pub type ModelEdits = BTreeMap<String, Option<FileSlots>>;

/// The text of a file.
pub fn render_file(path: &str, sheet: &FileSlots) -> String {
    let mut text = String::new();
    for (slot, value) in sheet.iter().enumerate() {
        for line in 0..4 {
            text.push_str(&format!("{path} stays {slot}.{line}\n"));
        }
        text.push_str(&format!("{path} slot {slot}: {value:08}\n"));
    }
    text.push_str(&format!("{path} ends\n"));
    text
}

/// Brings what happened from `base` to `theirs` onto `ours`, or says which paths conflict.
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
            let sheet = merge_slots(before, our, their);
            if sheet.is_none() {
                conflicts.insert(path.clone());
            }
            sheet
        } else {
            conflicts.insert(path.clone());
            None
        };
        merged.extend(chosen.map(|sheet| (path.clone(), sheet)));
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

/// The paths in which two trees differ.
pub fn list_differing_paths(one: &ModelTree, other: &ModelTree) -> BTreeSet<String> {
    one.keys()
        .chain(other.keys())
        .filter(|path| one.get(*path) != other.get(*path))
        .cloned()
        .collect()
}

/// A tree with edits on top.
pub fn apply_edits(tree: &ModelTree, edits: &ModelEdits) -> ModelTree {
    let mut files = tree.clone();
    for (path, edit) in edits {
        match edit {
            Some(sheet) => files.insert(path.clone(), *sheet),
            None => files.remove(path),
        };
    }
    files
}

/// Chance that can be repeated: the same seed gives the same numbers.
pub struct SeededRandom(u64);

impl SeededRandom {
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

    /// Happens this often in a hundred.
    pub fn is_hit(&mut self, percent: usize) -> bool {
        self.next_below(100) < percent
    }

    /// One of these.
    pub fn pick_one<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.next_below(choices.len())]
    }
}
