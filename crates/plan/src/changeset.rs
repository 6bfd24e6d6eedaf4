//! Changesets: what one unit of work changed. Entries fold by path.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ChangesetId, Digest, Epoch, PlanId, Timestamp};

/// A path below the root of a tree, as bytes, checked by components.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

/// Why bytes are not such a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a path of the tree: {why}", .given.escape_ascii())]
pub struct InvalidTreePath {
    given: Vec<u8>,
    why: &'static str,
}

impl TreePath {
    /// Longest path.
    const MAX_BYTES: usize = 4096;

    /// Checks every component: relative, inside the tree, not git's own.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, InvalidTreePath> {
        let given = bytes.into();
        let why = if given.is_empty() {
            "it is empty"
        } else if given.len() > Self::MAX_BYTES {
            "it is longer than 4096 bytes"
        } else if given.contains(&0) {
            "it holds a NUL"
        } else if given.starts_with(b"/") {
            "it is absolute; give it relative to the root of the repository"
        } else {
            match given
                .split(|byte| *byte == b'/')
                .find_map(find_component_problem)
            {
                Some(why) => why,
                None => return Ok(Self(given)),
            }
        };
        Err(InvalidTreePath {
            given: given.into_iter().take(200).collect(),
            why,
        })
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn find_component_problem(component: &[u8]) -> Option<&'static str> {
    match component {
        b"" => Some("it has an empty component"),
        b"." => Some("it has a `.` component"),
        b".." => Some("it leaves the tree by `..`"),
        git if git.eq_ignore_ascii_case(b".git") => Some("it reaches into `.git`"),
        _ => None,
    }
}

impl fmt::Display for TreePath {
    /// As text, control characters escaped.
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

/// In JSON a path is a string where it is UTF-8, and a list of bytes where it is not.
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

/// The unit of work a changeset belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Node(String);

impl Node {
    /// The node of work that was not divided.
    pub fn main() -> Self {
        Self("main".to_owned())
    }

    /// The node of one of several resources, where work was not divided otherwise.
    pub fn for_resource(resource: &str) -> Self {
        Self(format!("main@{resource}").chars().take(128).collect())
    }

    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Node {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let printable = given.chars().all(|c| !c.is_control());
        if given.is_empty() || given.chars().count() > 128 || !printable {
            return Err("a node is 1 to 128 printable characters".to_owned());
        }
        Ok(Self(given.to_owned()))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOperation {
    /// It is new.
    Create,
    /// Its content or mode changed.
    Modify,
    /// It is gone.
    Delete,
    /// It came from another path.
    Rename,
}

impl PathOperation {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::Create, Self::Modify, Self::Delete, Self::Rename];

    /// As it is typed and shown.
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

    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == given)
            .ok_or_else(|| {
                format!("`{given}` is no operation: use create, modify, delete or rename")
            })
    }
}

/// What a changeset holds about one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesetEntry {
    /// The plan's resource it is in, where the plan has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The path.
    pub path: TreePath,
    /// What happened to it, from the start of the changeset to its last record.
    pub operation: PathOperation,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// Hash of the content before, where there was any and it is known.
    pub before: Option<String>,
    /// Hash of the content after, where there is any and it is known.
    pub after: Option<String>,
    /// File mode after, in octal, where known.
    pub mode: Option<String>,
    /// The actor that reported it.
    pub actor: Option<String>,
    /// The tool that did it.
    pub tool: Option<String>,
    /// It was reported, and the tree does not show it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

impl ChangesetEntry {
    /// An entry with nothing known but path and operation.
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

    /// This entry followed by a later one on the same path: first before, last after. `None` means
    /// that the two cancel out and nothing changed.
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
            // Gone and back again: the path was there before and is there after.
            (PathOperation::Delete, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Modify
            }
            // A moved file that was edited is still a moved file.
            (PathOperation::Rename, PathOperation::Create | PathOperation::Modify) => {
                PathOperation::Rename
            }
            // A moved file that was deleted: `from` still tells what is gone.
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

/// A changeset, without its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changeset {
    /// Its id.
    pub id: ChangesetId,
    /// The plan it belongs to.
    pub plan: PlanId,
    /// The unit of work.
    pub node: Node,
    /// The holder that opened it.
    pub epoch: Epoch,
    /// When.
    pub opened_at: Timestamp,
    /// Once closed: when, and the digest of its entries.
    pub seal: Option<ChangesetSeal>,
}

/// A closed changeset's proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesetSeal {
    /// When.
    pub at: Timestamp,
    /// How many entries.
    pub entries: u64,
    /// Digest of the entries in the order of their paths.
    pub digest: Digest,
}

impl ChangesetSeal {
    /// The seal of these entries.
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

/// The digest of what is recorded and not sealed yet, whatever the order it is told in.
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
    fn what_is_open_has_one_digest_in_any_order_and_another_once_it_changes() {
        let changesets = [1, 2].map(|number| ChangesetId::from_parts(1, number));
        let made = make_entry(PathOperation::Create, None, Some("1"));
        let mut other = make_entry(PathOperation::Modify, Some("1"), Some("2"));
        other.path = tree_path("b");
        let open = [
            (changesets[0], &made),
            (changesets[0], &other),
            (changesets[1], &made),
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
    fn odd_paths_survive_json() {
        for bytes in [&b"plain"[..], b"\xff\xfe", "ümlaut\n".as_bytes()] {
            let path = TreePath::new(bytes).unwrap();
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<TreePath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn records_of_one_path_fold_to_first_before_and_last_after() {
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
        let mut gone = make_entry(Delete, Some("0"), None);
        gone.from = Some(tree_path("b"));
        check(moved, make_entry(Delete, Some("0"), None), Some(gone));
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
