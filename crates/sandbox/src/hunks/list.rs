//! Lists the changes between two trees with their hunks.

use std::collections::{BTreeMap, BTreeSet};

use plan::changeset::{PathOperation, TreePath};
use plan::{Digest, HunkId};

use super::cut::{self, TextChange};
use super::{ContentKind, FileChange, HUNK_ALGORITHM, Hunk, HunkPart, LineRegion, MAX_TEXT_BYTES};
use crate::compare::{self, GITLINK_MODE, RawDiffLine};
use crate::git::{GitCommand, git_error};
use crate::{ObjectId, SandboxError, TreeDiff, TreeEntry};

const LINK_MODE: &str = "120000";

/// How much content is read at a time.
const MAX_BATCH_BYTES: u64 = 16 << 20;

/// Rename detection with fixed limits, so that a repository's configuration makes no difference.
const DETECT_RENAMES: &[&str] = &["-M50%", "-l1000"];

/// Bytes that git looks at to tell whether a file is text.
const BINARY_PROBE_BYTES: usize = 8000;

/// Both versions of a file. `None` for a side that does not exist or is not text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileVersions {
    pub old: Option<Vec<u8>>,
    pub new: Option<Vec<u8>>,
}

impl TreeDiff {
    /// Every changed path that matches these pathspecs, with its hunks; all paths if there are none.
    /// A rename matches by either name.
    pub fn list_file_changes(
        &self,
        resource: &str,
        paths: &[String],
    ) -> Result<Vec<FileChange>, SandboxError> {
        let mut changes = list_file_changes(&self.git, resource, &self.old, &self.new)?;
        if !paths.is_empty() {
            let matching: BTreeSet<TreePath> =
                self.list_changed_paths(paths)?.into_iter().collect();
            changes.retain(|change| is_among(change, &matching));
        }
        Ok(changes)
    }

    /// Reads the text of a change. Content that is not text is left out.
    pub fn read_versions(&self, change: &FileChange) -> Result<FileVersions, SandboxError> {
        if change.content != ContentKind::Text {
            return Ok(FileVersions::default());
        }
        let contents = read_blobs(&self.git, &blob_ids(change))?;
        let content_of = |entry: &Option<TreeEntry>| {
            let entry = entry.as_ref()?;
            contents.get(&entry.id).cloned()
        };
        Ok(FileVersions {
            old: content_of(&change.before),
            new: content_of(&change.after),
        })
    }
}

pub(super) fn is_among(change: &FileChange, paths: &BTreeSet<TreePath>) -> bool {
    let mut names = [Some(&change.path), change.from.as_ref()]
        .into_iter()
        .flatten();
    names.any(|name| paths.contains(name))
}

/// Lists the changes between two trees, sorted by path.
pub(super) fn list_file_changes(
    git: &GitCommand,
    resource: &str,
    old: &str,
    new: &str,
) -> Result<Vec<FileChange>, SandboxError> {
    let lines = compare::read_raw_diff(git, DETECT_RENAMES, old, new, &[])?;
    let mut changes: Vec<FileChange> = lines.into_iter().map(into_file_change).collect();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    cut_texts(git, &mut changes)?;
    let groups = group_inseparable(&changes);
    let shared_ids: BTreeMap<usize, HunkId> = groups
        .iter()
        .flat_map(|members| {
            let id = whole_hunk_id(resource, members.iter().map(|member| &changes[*member]));
            members.iter().map(move |member| (*member, id))
        })
        .collect();
    for (number, change) in changes.iter_mut().enumerate() {
        // Regions that are taken one by one have their ids already.
        if let Some(id) = shared_ids.get(&number) {
            change.hunks = vec![whole_hunk(*id)];
        } else if !is_divisible(change) {
            let id = whole_hunk_id(resource, std::iter::once(&*change));
            change.hunks = vec![whole_hunk(id)];
        } else {
            name_hunks(resource, change);
        }
    }
    Ok(changes)
}

fn whole_hunk(id: HunkId) -> Hunk {
    Hunk {
        id,
        part: HunkPart::Whole,
    }
}

fn into_file_change(line: RawDiffLine) -> FileChange {
    let has_mode = |mode: &str| {
        let mut entries = [&line.before, &line.after].into_iter().flatten();
        entries.any(|entry| entry.mode == mode)
    };
    let content = if has_mode(GITLINK_MODE) {
        ContentKind::Submodule
    } else if has_mode(LINK_MODE) {
        ContentKind::Link
    } else {
        ContentKind::Text
    };
    FileChange {
        operation: compare::parse_operation(line.status),
        path: line.path,
        from: line.from,
        before: line.before,
        after: line.after,
        content,
        regions: Vec::new(),
        hunks: Vec::new(),
    }
}

/// Can parts of the change be taken?
fn is_divisible(change: &FileChange) -> bool {
    let is_in_place = change.operation == PathOperation::Modify;
    is_in_place
        && match change.content {
            ContentKind::Text => true,
            ContentKind::Binary | ContentKind::Oversized => has_mode_change(change),
            ContentKind::Link | ContentKind::Submodule => false,
        }
}

fn has_mode_change(change: &FileChange) -> bool {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.mode != after.mode,
        (Some(_), None) | (None, Some(_)) | (None, None) => false,
    }
}

/// Reads the contents of all files and cuts what is text, a bounded amount at a time.
fn cut_texts(git: &GitCommand, changes: &mut [FileChange]) -> Result<(), SandboxError> {
    let wanted: BTreeSet<ObjectId> = changes
        .iter()
        .filter(|change| change.content == ContentKind::Text)
        .flat_map(blob_ids)
        .collect();
    let sizes = read_blob_sizes(git, &wanted)?;
    let size_of = |change: &FileChange| -> u64 {
        blob_ids(change)
            .iter()
            .filter_map(|id| sizes.get(id))
            .sum::<u64>()
    };
    let mut batch: Vec<&mut FileChange> = Vec::new();
    let mut batch_bytes = 0;
    for change in changes {
        if change.content != ContentKind::Text {
            continue;
        }
        let blobs = blob_ids(change);
        let largest = blobs.iter().filter_map(|id| sizes.get(id)).max();
        if largest.is_some_and(|bytes| *bytes > MAX_TEXT_BYTES) {
            change.content = ContentKind::Oversized;
            continue;
        }
        batch_bytes += size_of(change);
        batch.push(change);
        if batch_bytes >= MAX_BATCH_BYTES {
            cut_batch(git, std::mem::take(&mut batch))?;
            batch_bytes = 0;
        }
    }
    cut_batch(git, batch)
}

fn cut_batch(git: &GitCommand, batch: Vec<&mut FileChange>) -> Result<(), SandboxError> {
    let ids: Vec<ObjectId> = batch.iter().flat_map(|change| blob_ids(change)).collect();
    let contents = read_blobs(git, &ids)?;
    let content_of = |entry: &Option<TreeEntry>| -> &[u8] {
        let content = entry.as_ref().and_then(|entry| contents.get(&entry.id));
        content.map(Vec::as_slice).unwrap_or_default()
    };
    for change in batch {
        let (old, new) = (content_of(&change.before), content_of(&change.after));
        if looks_binary(old) || looks_binary(new) {
            change.content = ContentKind::Binary;
            continue;
        }
        let text = TextChange::new(old, new);
        if is_divisible(change) {
            // Unnamed for now: a file that is in the way of another one is taken as a whole.
            change.hunks = region_digests(&text);
        }
        change.regions = text.regions;
    }
    Ok(())
}

/// The regions of a text, each with a digest of its removed and added lines as a preliminary id.
fn region_digests(text: &TextChange<'_>) -> Vec<Hunk> {
    let digest = |region: &LineRegion| {
        let removed = text.old[region.old.clone()].concat();
        let added = text.new[region.new.clone()].concat();
        Digest::hash_parts([removed.as_slice(), added.as_slice()])
    };
    let digests = text.regions.iter().map(digest).enumerate();
    digests
        .map(|(number, digest)| Hunk {
            id: HunkId::from_digest(digest),
            part: HunkPart::Region(number),
        })
        .collect()
}

/// Gives the hunks of a divisible file their ids: equal regions are told apart by their order.
fn name_hunks(resource: &str, change: &mut FileChange) {
    let regions = std::mem::take(&mut change.hunks);
    let scope = |kind: &[u8], rest: &[&[u8]]| {
        let old_blob = change.before.as_ref().map(|entry| entry.id.as_str());
        let fixed: [&[u8]; 5] = [
            HUNK_ALGORITHM,
            kind,
            resource.as_bytes(),
            change.path.as_bytes(),
            old_blob.unwrap_or_default().as_bytes(),
        ];
        HunkId::from_digest(Digest::hash_parts(
            fixed.into_iter().chain(rest.iter().copied()),
        ))
    };
    let mut hunks = Vec::with_capacity(regions.len() + 1);
    if let (Some(before), Some(after)) = (&change.before, &change.after) {
        if before.mode != after.mode {
            hunks.push(Hunk {
                id: scope(b"mode", &[before.mode.as_bytes(), after.mode.as_bytes()]),
                part: HunkPart::Mode,
            });
        }
        if change.content != ContentKind::Text && before.id != after.id {
            hunks.push(Hunk {
                id: scope(b"content", &[after.id.as_str().as_bytes()]),
                part: HunkPart::Whole,
            });
        }
    }
    let mut occurrences: BTreeMap<HunkId, u64> = BTreeMap::new();
    for region in regions {
        let occurrence = occurrences.entry(region.id).or_default();
        let (lines, number) = (region.id.to_string(), occurrence.to_be_bytes());
        hunks.push(Hunk {
            id: scope(b"lines", &[lines.as_bytes(), &number]),
            part: region.part,
        });
        *occurrence += 1;
    }
    change.hunks = hunks;
}

/// The id of changes that are taken together.
fn whole_hunk_id<'a>(resource: &str, members: impl Iterator<Item = &'a FileChange>) -> HunkId {
    let mut parts: Vec<Vec<u8>> = vec![
        HUNK_ALGORITHM.to_vec(),
        b"whole".to_vec(),
        resource.as_bytes().to_vec(),
    ];
    for change in members {
        let from = change.from.as_ref().map(TreePath::as_bytes);
        parts.push(change.path.as_bytes().to_vec());
        parts.push(from.unwrap_or_default().to_vec());
        for entry in [&change.before, &change.after] {
            let entry = entry.as_ref();
            let text = entry.map(|entry| format!("{} {}", entry.mode, entry.id));
            parts.push(text.unwrap_or_default().into_bytes());
        }
    }
    HunkId::from_digest(Digest::hash_parts(parts.iter().map(Vec::as_slice)))
}

/// Finds changes that only make sense together, because a file takes the place of a directory or
/// the reverse. Returns their numbers, in groups of at least two.
fn group_inseparable(changes: &[FileChange]) -> Vec<Vec<usize>> {
    let mut owners: BTreeMap<&TreePath, usize> = BTreeMap::new();
    for (number, change) in changes.iter().enumerate() {
        let names = [Some(&change.path), change.from.as_ref()];
        owners.extend(names.into_iter().flatten().map(|name| (name, number)));
    }
    let mut groups: Vec<usize> = (0..changes.len()).collect();
    for (name, number) in &owners {
        for parent in parent_paths(name) {
            if let Some(other) = owners.get(&parent) {
                let (one, other) = (find_group(&groups, *number), find_group(&groups, *other));
                groups[one.max(other)] = one.min(other);
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in 0..changes.len() {
        members
            .entry(find_group(&groups, number))
            .or_default()
            .push(number);
    }
    members.retain(|_, group| group.len() > 1);
    members.into_values().collect()
}

fn find_group(groups: &[usize], mut number: usize) -> usize {
    while groups[number] != number {
        number = groups[number];
    }
    number
}

fn parent_paths(path: &TreePath) -> impl Iterator<Item = TreePath> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate();
    let slashes = slashes.filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(end, _)| TreePath::new(&bytes[..end]).ok())
}

fn blob_ids(change: &FileChange) -> Vec<ObjectId> {
    let entries = [&change.before, &change.after].into_iter().flatten();
    entries.map(|entry| entry.id.clone()).collect()
}

fn looks_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PROBE_BYTES)].contains(&0)
}

fn read_blob_sizes(
    git: &GitCommand,
    ids: &BTreeSet<ObjectId>,
) -> Result<BTreeMap<ObjectId, u64>, SandboxError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let arguments = ["cat-file", "--batch-check=%(objectname) %(objectsize)"];
    let output = git.run_with_input(&arguments, asked.as_bytes())?;
    let output = String::from_utf8_lossy(&output);
    let unexpected = |line: &str| git_error(&arguments, &format!("unexpected output: {line}"));
    output
        .lines()
        .map(|line| {
            let (id, size) = line.split_once(' ').ok_or_else(|| unexpected(line))?;
            let id = id.parse().map_err(|_| unexpected(line))?;
            Ok((id, size.parse().map_err(|_| unexpected(line))?))
        })
        .collect()
}

/// Reads blobs. Meant for a bounded amount: all of them are in memory at once.
pub(super) fn read_blobs(
    git: &GitCommand,
    ids: &[ObjectId],
) -> Result<BTreeMap<ObjectId, Vec<u8>>, SandboxError> {
    let mut contents = BTreeMap::new();
    if ids.is_empty() {
        return Ok(contents);
    }
    let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let arguments = ["cat-file", "--batch=%(objectname) %(objectsize)"];
    let output = git.run_with_input(&arguments, asked.as_bytes())?;
    let unexpected = || git_error(&arguments, "unexpected output");
    let mut rest = output.as_slice();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (head, body) = rest.split_at(end.ok_or_else(unexpected)? + 1);
        let head = String::from_utf8_lossy(head);
        let (id, size) = head.trim_end().split_once(' ').ok_or_else(unexpected)?;
        let id: ObjectId = id.parse().map_err(|_| unexpected())?;
        let size: usize = size.parse().map_err(|_| unexpected())?;
        let content = body.get(..size).ok_or_else(unexpected)?;
        contents.insert(id, content.to_vec());
        // A line feed follows each content.
        rest = body.get(size + 1..).ok_or_else(unexpected)?;
    }
    Ok(contents)
}

/// Lines of a text with its changed regions, for applying a part of them.
pub(super) fn cut_text<'a>(old: &'a [u8], new: &'a [u8]) -> cut::TextChange<'a> {
    TextChange::new(old, new)
}
