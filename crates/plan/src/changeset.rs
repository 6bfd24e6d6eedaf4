//! Changesets: the changes of one unit of work, folded into one entry per path.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ChangesetId, Digest, Epoch, PlanId, Timestamp};

/// A relative path inside a tree, as bytes. Never leaves the tree and never names `.git`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a path inside the tree: {why}", .bytes.escape_ascii())]
pub struct InvalidTreePath {
    bytes: Vec<u8>,
    why: &'static str,
}

impl TreePath {
    const MAX_BYTES: usize = 4096;

    /// Checks that the path is relative, stays inside the tree and does not enter `.git`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, InvalidTreePath> {
        let bytes = bytes.into();
        let why = if bytes.is_empty() {
            "it is empty"
        } else if bytes.len() > Self::MAX_BYTES {
            "it is longer than 4096 bytes"
        } else if bytes.contains(&0) {
            "it contains a NUL"
        } else if bytes.starts_with(b"/") {
            "it is absolute; give it relative to the root of the repository"
        } else {
            match bytes
                .split(|byte| *byte == b'/')
                .find_map(find_component_problem)
            {
                Some(why) => why,
                None => return Ok(Self(bytes)),
            }
        };
        Err(InvalidTreePath {
            bytes: bytes.into_iter().take(200).collect(),
            why,
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn find_component_problem(component: &[u8]) -> Option<&'static str> {
    match component {
        b"" => Some("it has an empty component"),
        b"." => Some("it has a `.` component"),
        b".." => Some("it leaves the tree by `..`"),
        git if git.eq_ignore_ascii_case(b".git") => Some("it is inside `.git`"),
        _ => None,
    }
}

impl fmt::Display for TreePath {
    /// Writes the path as text, with control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in String::from_utf8_lossy(&self.0).chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                fmt::Write::write_char(f, character)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// The JSON form of a path: a string if it is UTF-8, otherwise a list of bytes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum JsonTreePath {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for TreePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => JsonTreePath::Bytes(self.0.clone()).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match JsonTreePath::deserialize(deserializer)? {
            JsonTreePath::Text(text) => text.into_bytes(),
            JsonTreePath::Bytes(bytes) => bytes,
        };
        Self::new(bytes).map_err(serde::de::Error::custom)
    }
}

/// A unit of work within a plan. Each has its own changesets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Node(String);

impl Node {
    /// The node of undivided work.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The node of one resource, for undivided work on several resources.
    pub fn for_resource(resource: &str) -> Self {
        Self(format!("main@{resource}").chars().take(128).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let printable = text.chars().all(|c| !c.is_control());
        if text.is_empty() || text.chars().count() > 128 || !printable {
            return Err("a node is 1 to 128 printable characters".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOperation {
    Create,
    /// The content or mode changed.
    Modify,
    Delete,
    /// Moved here from another path.
    Rename,
}

impl PathOperation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Modify, Self::Delete, Self::Rename];

    /// Returns the name as typed and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

impl fmt::Display for PathOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for PathOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| {
                format!("`{text}` is not an operation: use create, modify, delete or rename")
            })
    }
}

/// The net change of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesetEntry {
    /// Name of the plan's resource, if the plan has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    pub path: TreePath,
    /// Net operation from the start of the changeset to the last record.
    pub operation: PathOperation,
    /// Original path of a rename.
    pub from: Option<TreePath>,
    /// Hash of the content before, if it existed and is known.
    pub before: Option<String>,
    /// Hash of the content after, if it exists and is known.
    pub after: Option<String>,
    /// File mode after, in octal, if known.
    pub mode: Option<String>,
    pub actor: Option<String>,
    pub tool: Option<String>,
    /// The change was reported, but the captured tree does not contain it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

impl ChangesetEntry {
    /// Creates an entry with only path and operation set.
    pub fn new(path: TreePath, operation: PathOperation) -> Self {
        Self {
            resource: None,
            path,
            operation,
            from: None,
            before: None,
            after: None,
            mode: None,
            actor: None,
            tool: None,
            unseen: false,
        }
    }

    /// Combines this entry with a later one on the same path: first `before`, last `after`. `None`
    /// means that the two cancel out.
    #[must_use]
    pub fn fold_with(self, later: Self) -> Option<Self> {
        let operation = match (self.operation, later.operation) {
            (PathOperation::Create, PathOperation::Delete) => return None,
            (PathOperation::Create, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Create
            }
            (PathOperation::Modify, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Modify
            }
            // Deleted and created again: the path exists before and after.
            (PathOperation::Delete, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Modify
            }
            // A renamed file that is then edited stays a rename.
            (PathOperation::Rename, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Rename
            }
            // For a renamed file that is then deleted, `from` keeps the path that disappeared.
            (
                PathOperation::Modify | PathOperation::Delete | PathOperation::Rename,
                PathOperation::Delete,
            ) => PathOperation::Delete,
            (_, PathOperation::Rename) => PathOperation::Rename,
        };
        let before = match self.operation {
            PathOperation::Create => None,
            PathOperation::Modify | PathOperation::Delete | PathOperation::Rename => {
                self.before.or(later.before)
            }
        };
        Some(Self {
            resource: later.resource,
            path: later.path,
            operation,
            from: later.from.or(self.from),
            before,
            after: later.after,
            mode: later.mode.or(self.mode),
            actor: later.actor.or(self.actor),
            tool: later.tool.or(self.tool),
            unseen: later.unseen,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changeset {
    pub id: ChangesetId,
    pub plan: PlanId,
    pub node: Node,
    /// Epoch of the holder that opened it.
    pub epoch: Epoch,
    pub opened_at: Timestamp,
    /// Set once the changeset is sealed.
    pub seal: Option<ChangesetSeal>,
}

/// Proof of a sealed changeset's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesetSeal {
    pub at: Timestamp,
    /// Number of entries.
    pub entries: u64,
    /// Digest of the entries, sorted by path.
    pub digest: Digest,
}

impl ChangesetSeal {
    /// Seals these entries. Their order does not matter.
    pub fn from_entries(entries: &[ChangesetEntry], at: Timestamp) -> Self {
        let mut sorted: Vec<&ChangesetEntry> = entries.iter().collect();
        sorted.sort_by(|one, other| one.path.cmp(&other.path));
        let encoded: Vec<Vec<u8>> = sorted
            .iter()
            .map(|entry| serde_json::to_vec(entry).expect("BUG: an entry always encodes"))
            .collect();
        let digest = Digest::hash_parts(encoded.iter().map(Vec::as_slice));
        Self {
            at,
            entries: entries.len() as u64,
            digest,
        }
    }
}

/// Returns the digest of all unsealed entries. Their order does not matter.
pub fn digest_open_entries<'a>(
    entries: impl IntoIterator<Item = (ChangesetId, &'a ChangesetEntry)>,
) -> Digest {
    let mut entries: Vec<(ChangesetId, &ChangesetEntry)> = entries.into_iter().collect();
    entries.sort_by(|(one, first), (other, second)| (one, &first.path).cmp(&(other, &second.path)));
    let encoded = entries
        .iter()
        .map(|entry| serde_json::to_vec(entry).expect("BUG: an entry always encodes"));
    let encoded: Vec<Vec<u8>> = encoded.collect();
    Digest::hash_parts(encoded.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn make_entry(
        operation: PathOperation,
        before: Option<&str>,
        after: Option<&str>,
    ) -> ChangesetEntry {
        let mut entry = ChangesetEntry::new(tree_path("a"), operation);
        entry.before = before.map(str::to_owned);
        entry.after = after.map(str::to_owned);
        entry
    }

    #[test]
    fn the_digest_of_open_entries_ignores_order_and_sees_changes() {
        let changesets = [1, 2].map(|number| ChangesetId::from_parts(1, number));
        let created = make_entry(PathOperation::Create, None, Some("1"));
        let mut other = make_entry(PathOperation::Modify, Some("1"), Some("2"));
        other.path = tree_path("b");
        let open = [
            (changesets[0], &created),
            (changesets[0], &other),
            (changesets[1], &created),
        ];
        let digest = digest_open_entries(open);
        assert_eq!(digest, digest_open_entries(open.into_iter().rev()));
        for changed in [
            &open[..2],
            &[open[0], open[1], (changesets[1], &other)],
            &[],
        ] {
            assert_ne!(digest, digest_open_entries(changed.iter().copied()));
        }
    }

    #[test]
    fn paths_that_leave_the_tree_are_refused() {
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            ".git/config",
            "x/.GIT/hooks",
            "a\0b",
        ] {
            assert!(TreePath::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", ".gitignore", "a b/-c\nd", "git/x", "..a", "a.."] {
            assert!(TreePath::new(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn unusual_paths_round_trip_through_json() {
        for bytes in [&b"plain"[..], b"\xff\xfe", "ümlaut\n".as_bytes()] {
            let path = TreePath::new(bytes).unwrap();
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<TreePath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn entries_of_one_path_fold_to_first_before_and_last_after() {
        use PathOperation::{Create, Delete, Modify, Rename};
        let check =
            |first: ChangesetEntry, second: ChangesetEntry, expected: Option<ChangesetEntry>| {
                assert_eq!(
                    first.clone().fold_with(second.clone()),
                    expected,
                    "{first:?} then {second:?}"
                );
            };
        check(
            make_entry(Create, None, Some("1")),
            make_entry(Modify, Some("1"), Some("2")),
            Some(make_entry(Create, None, Some("2"))),
        );
        check(
            make_entry(Create, None, Some("1")),
            make_entry(Delete, Some("1"), None),
            None,
        );
        check(
            make_entry(Modify, Some("0"), Some("1")),
            make_entry(Modify, Some("1"), Some("2")),
            Some(make_entry(Modify, Some("0"), Some("2"))),
        );
        check(
            make_entry(Modify, Some("0"), Some("1")),
            make_entry(Delete, Some("1"), None),
            Some(make_entry(Delete, Some("0"), None)),
        );
        check(
            make_entry(Delete, Some("0"), None),
            make_entry(Create, None, Some("2")),
            Some(make_entry(Modify, Some("0"), Some("2"))),
        );
        let mut moved = make_entry(Rename, Some("0"), Some("0"));
        moved.from = Some(tree_path("b"));
        let mut edited = moved.clone();
        edited.after = Some("9".to_owned());
        check(
            moved.clone(),
            make_entry(Modify, Some("0"), Some("9")),
            Some(edited),
        );
        let mut deleted = make_entry(Delete, Some("0"), None);
        deleted.from = Some(tree_path("b"));
        check(moved, make_entry(Delete, Some("0"), None), Some(deleted));
    }

    #[test]
    fn a_seal_does_not_depend_on_the_order_of_recording() {
        let one = ChangesetEntry::new(tree_path("a"), PathOperation::Create);
        let two = ChangesetEntry::new(tree_path("b"), PathOperation::Delete);
        let at = Timestamp(0);
        assert_eq!(
            ChangesetSeal::from_entries(&[one.clone(), two.clone()], at),
            ChangesetSeal::from_entries(&[two.clone(), one.clone()], at)
        );
        assert_ne!(
            ChangesetSeal::from_entries(&[one], at).digest,
            ChangesetSeal::from_entries(&[two], at).digest
        );
    }
}
