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
pub struct NotATreePath {
    given: Vec<u8>,
    why: &'static str,
}

impl TreePath {
    /// Longest path.
    const MAX_BYTES: usize = 4096;

    /// Checks every component: relative, inside the tree, not git's own.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NotATreePath> {
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
                .find_map(refused_component)
            {
                Some(why) => why,
                None => return Ok(Self(given)),
            }
        };
        Err(NotATreePath {
            given: given.into_iter().take(200).collect(),
            why,
        })
    }

    /// The raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn refused_component(component: &[u8]) -> Option<&'static str> {
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
enum PathInJson {
    Text(String),
    Bytes(Vec<u8>),
}

impl Serialize for TreePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => PathInJson::Bytes(self.0.clone()).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match PathInJson::deserialize(deserializer)? {
            PathInJson::Text(text) => text.into_bytes(),
            PathInJson::Bytes(bytes) => bytes,
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
    pub fn of_resource(resource: &str) -> Self {
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
pub enum Operation {
    /// It is new.
    Create,
    /// Its content or mode changed.
    Modify,
    /// It is gone.
    Delete,
    /// It came from another path.
    Rename,
}

impl Operation {
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

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Operation {
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
pub struct Entry {
    /// The plan's resource it is in, where the plan has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The path.
    pub path: TreePath,
    /// What happened to it, from the start of the changeset to its last record.
    pub operation: Operation,
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

impl Entry {
    /// An entry with nothing known but path and operation.
    pub fn new(path: TreePath, operation: Operation) -> Self {
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
    pub fn then(self, later: Self) -> Option<Self> {
        let operation = match (self.operation, later.operation) {
            (Operation::Create, Operation::Delete) => return None,
            (Operation::Create, Operation::Create | Operation::Modify) => Operation::Create,
            (Operation::Modify, Operation::Create | Operation::Modify) => Operation::Modify,
            // Gone and back again: the path was there before and is there after.
            (Operation::Delete, Operation::Create | Operation::Modify) => Operation::Modify,
            // A moved file that was edited is still a moved file.
            (Operation::Rename, Operation::Create | Operation::Modify) => Operation::Rename,
            // A moved file that was deleted: `from` still tells what is gone.
            (Operation::Modify | Operation::Delete | Operation::Rename, Operation::Delete) => {
                Operation::Delete
            }
            (_, Operation::Rename) => Operation::Rename,
        };
        let before = match self.operation {
            Operation::Create => None,
            Operation::Modify | Operation::Delete | Operation::Rename => {
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
    pub seal: Option<Seal>,
}

/// A closed changeset's proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// When.
    pub at: Timestamp,
    /// How many entries.
    pub entries: u64,
    /// Digest of the entries in the order of their paths.
    pub digest: Digest,
}

impl Seal {
    /// The seal of these entries.
    pub fn of(entries: &[Entry], at: Timestamp) -> Self {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by(|one, other| one.path.cmp(&other.path));
        let encoded: Vec<Vec<u8>> = sorted
            .iter()
            .map(|entry| serde_json::to_vec(entry).expect("BUG: an entry always encodes"))
            .collect();
        let digest = Digest::of_parts(encoded.iter().map(Vec::as_slice));
        Self {
            at,
            entries: entries.len() as u64,
            digest,
        }
    }
}

/// The digest of what is recorded and not sealed yet, whatever the order it is told in.
pub fn digest_of_open<'a>(entries: impl IntoIterator<Item = (ChangesetId, &'a Entry)>) -> Digest {
    let mut entries: Vec<(ChangesetId, &Entry)> = entries.into_iter().collect();
    entries.sort_by(|(one, first), (other, second)| (one, &first.path).cmp(&(other, &second.path)));
    let encoded = entries
        .iter()
        .map(|entry| serde_json::to_vec(entry).expect("BUG: an entry always encodes"));
    let encoded: Vec<Vec<u8>> = encoded.collect();
    Digest::of_parts(encoded.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn entry(operation: Operation, before: Option<&str>, after: Option<&str>) -> Entry {
        let mut entry = Entry::new(path("a"), operation);
        entry.before = before.map(str::to_owned);
        entry.after = after.map(str::to_owned);
        entry
    }

    #[test]
    fn what_is_open_has_one_digest_in_any_order_and_another_once_it_changes() {
        let changesets = [1, 2].map(|number| ChangesetId::from_parts(1, number));
        let made = entry(Operation::Create, None, Some("1"));
        let mut other = entry(Operation::Modify, Some("1"), Some("2"));
        other.path = path("b");
        let open = [
            (changesets[0], &made),
            (changesets[0], &other),
            (changesets[1], &made),
        ];
        let digest = digest_of_open(open);
        assert_eq!(digest, digest_of_open(open.into_iter().rev()));
        for changed in [
            &open[..2],
            &[open[0], open[1], (changesets[1], &other)],
            &[],
        ] {
            assert_ne!(digest, digest_of_open(changed.iter().copied()));
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
        use Operation::{Create, Delete, Modify, Rename};
        let check = |first: Entry, second: Entry, expected: Option<Entry>| {
            assert_eq!(
                first.clone().then(second.clone()),
                expected,
                "{first:?} then {second:?}"
            );
        };
        check(
            entry(Create, None, Some("1")),
            entry(Modify, Some("1"), Some("2")),
            Some(entry(Create, None, Some("2"))),
        );
        check(
            entry(Create, None, Some("1")),
            entry(Delete, Some("1"), None),
            None,
        );
        check(
            entry(Modify, Some("0"), Some("1")),
            entry(Modify, Some("1"), Some("2")),
            Some(entry(Modify, Some("0"), Some("2"))),
        );
        check(
            entry(Modify, Some("0"), Some("1")),
            entry(Delete, Some("1"), None),
            Some(entry(Delete, Some("0"), None)),
        );
        check(
            entry(Delete, Some("0"), None),
            entry(Create, None, Some("2")),
            Some(entry(Modify, Some("0"), Some("2"))),
        );
        let mut moved = entry(Rename, Some("0"), Some("0"));
        moved.from = Some(path("b"));
        let mut edited = moved.clone();
        edited.after = Some("9".to_owned());
        check(
            moved.clone(),
            entry(Modify, Some("0"), Some("9")),
            Some(edited),
        );
        let mut gone = entry(Delete, Some("0"), None);
        gone.from = Some(path("b"));
        check(moved, entry(Delete, Some("0"), None), Some(gone));
    }

    #[test]
    fn a_seal_does_not_depend_on_the_order_of_recording() {
        let one = Entry::new(path("a"), Operation::Create);
        let two = Entry::new(path("b"), Operation::Delete);
        let at = Timestamp(0);
        assert_eq!(
            Seal::of(&[one.clone(), two.clone()], at),
            Seal::of(&[two.clone(), one.clone()], at)
        );
        assert_ne!(Seal::of(&[one], at).digest, Seal::of(&[two], at).digest);
    }
}
