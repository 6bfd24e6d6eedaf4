//! Projects: what plans work on. A name with resources, each a directory on one host.
//!
//! A plan freezes which resources it works on and on which branch ([`PlanResource`]). Where a
//! resource lies is not frozen: it is read from the project when it is needed, so that a resource
//! that moved can be linked anew under living plans. Nothing here looks at a file system.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Caller, QualifiedName, Timestamp};

/// Longest id of a host.
const MAX_HOST_ID_LENGTH: usize = 128;
/// Longest name of a resource.
const MAX_RESOURCE_NAME_LENGTH: usize = 64;
/// Longest path, in bytes; what operating systems take.
const MAX_PATH_BYTES: usize = 4096;
/// Longest name of a branch, in bytes; what file systems take for a file that is named like it.
const MAX_BRANCH_BYTES: usize = 255;
/// Where branches are.
const BRANCH_REF_PREFIX: &str = "refs/heads/";

/// A machine on which resources lie.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostId(String);

impl HostId {
    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostId {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let fits = (1..=MAX_HOST_ID_LENGTH).contains(&given.len())
            && given.bytes().all(|byte| byte.is_ascii_graphic());
        if fits {
            Ok(Self(given.to_owned()))
        } else {
            Err(format!(
                "a host id has 1 to {MAX_HOST_ID_LENGTH} printable ASCII characters without spaces"
            ))
        }
    }
}

impl TryFrom<String> for HostId {
    type Error = String;

    fn try_from(given: String) -> Result<Self, String> {
        given.parse()
    }
}

impl From<HostId> for String {
    fn from(host: HostId) -> Self {
        host.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The name of a resource within its project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

impl ResourceName {
    /// As it is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let fits = (1..=MAX_RESOURCE_NAME_LENGTH).contains(&given.len())
            && !given.starts_with(['.', '-'])
            && given.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
            });
        if fits {
            Ok(Self(given.to_owned()))
        } else {
            Err(format!(
                "the name of a resource has 1 to {MAX_RESOURCE_NAME_LENGTH} lower-case letters, digits, \
                 `-`, `_` and `.`, and starts with neither `.` nor `-`"
            ))
        }
    }
}

impl TryFrom<String> for ResourceName {
    type Error = String;

    fn try_from(given: String) -> Result<Self, String> {
        given.parse()
    }
}

impl From<ResourceName> for String {
    fn from(name: ResourceName) -> Self {
        name.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where a resource lies on its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ResourcePlace {
    /// A checkout.
    Git {
        /// Its absolute path.
        path: String,
        /// The branch plans land on, by its full name, as in `refs/heads/main`.
        branch: String,
    },
    /// A plain directory.
    Dir {
        /// Its absolute path.
        path: String,
    },
}

impl ResourcePlace {
    /// Its absolute path.
    pub fn path(&self) -> &str {
        match self {
            Self::Git { path, .. } | Self::Dir { path } => path,
        }
    }

    /// The branch plans land on, if there are branches.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Git { branch, .. } => Some(branch),
            Self::Dir { .. } => None,
        }
    }

    /// What sort of place.
    pub fn kind(&self) -> ResourceKind {
        match self {
            Self::Git { .. } => ResourceKind::Git,
            Self::Dir { .. } => ResourceKind::Dir,
        }
    }

    /// What is wrong with it as it is written. Whether it exists is for others to see.
    pub(crate) fn check_syntax(&self) -> Result<(), &'static str> {
        let path = self.path();
        if path.is_empty() {
            return Err("its path is empty");
        }
        if !path.starts_with('/') {
            return Err("its path is not absolute");
        }
        if path.contains('\0') {
            return Err("its path holds a NUL");
        }
        if path.len() > MAX_PATH_BYTES {
            return Err("its path is longer than 4096 bytes");
        }
        self.branch().map_or(Ok(()), check_branch)
    }

    /// The same directory, whatever sort of resource it is said to be. Two resources there would
    /// land in each other's files.
    fn is_same_directory(&self, other: &Self) -> bool {
        let trimmed = |place: &Self| place.path().trim_end_matches('/').to_owned();
        trimmed(self) == trimmed(other)
    }
}

/// What git itself would refuse, so that it is said before anything is stored.
fn check_branch(branch: &str) -> Result<(), &'static str> {
    let Some(short) = branch.strip_prefix(BRANCH_REF_PREFIX) else {
        return Err("its branch is not a full name such as refs/heads/main");
    };
    let odd_character = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let odd_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    if branch.len() > MAX_BRANCH_BYTES
        || short.contains(odd_character)
        || short.contains("..")
        || short.contains("@{")
        || short.split('/').any(odd_part)
    {
        return Err("its branch is no name that git takes");
    }
    Ok(())
}

/// Sorts of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// A checkout with a branch.
    Git,
    /// A plain directory.
    Dir,
}

impl ResourceKind {
    /// As it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Dir => "dir",
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing a project's plans work on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Its name within the project.
    pub name: ResourceName,
    /// The host it lies on.
    pub host: HostId,
    /// Where it lies there.
    pub place: ResourcePlace,
}

impl Resource {
    /// The same directory of the same host.
    pub(crate) fn shares_place_with(&self, other: &Self) -> bool {
        self.host == other.host && self.place.is_same_directory(&other.place)
    }
}

/// A project as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Its name.
    pub name: QualifiedName,
    /// What its plans work on, by name.
    pub resources: Vec<Resource>,
    /// Set while none of its plans may start to work.
    pub paused: Option<ProjectPause>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Project {
    /// The resource of that name.
    pub fn resource(&self, name: &ResourceName) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|resource| resource.name == *name)
    }

    /// What a plan that uses the project works on.
    pub fn freeze_resources(&self) -> impl Iterator<Item = PlanResource> {
        self.resources.iter().map(|resource| PlanResource {
            name: format!("{}/{}", self.name, resource.name),
            project: self.name.clone(),
            resource: resource.name.clone(),
            kind: resource.place.kind(),
            target: resource.place.branch().map(str::to_owned),
        })
    }
}

/// That a project is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectPause {
    /// Since when.
    pub at: Timestamp,
    /// By whom.
    pub by: Caller,
}

/// A resource as a plan froze it when it was made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanResource {
    /// What it is called in the plan's results and moves: `<project>/<resource>`, with the project
    /// as people write it.
    pub name: String,
    /// Its project.
    pub project: QualifiedName,
    /// Its name within the project.
    pub resource: ResourceName,
    /// What sort.
    pub kind: ResourceKind,
    /// The full name of the branch the plan lands on, if there are branches.
    pub target: Option<String>,
}

/// How the resources a project has differ from those it was to be created with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectDifference {
    /// Those it does not have.
    pub missing: Vec<ResourceName>,
    /// Those it has that were not asked for.
    pub unexpected: Vec<ResourceName>,
    /// Those that lie elsewhere.
    pub relocated: Vec<ResourceName>,
}

impl ProjectDifference {
    /// From what a project has to what was asked for.
    pub(crate) fn between(has: &[Resource], asked: &[Resource]) -> Self {
        let same_name = |one: &Resource, among: &[Resource]| {
            let found = among.iter().find(|other| other.name == one.name);
            found.cloned()
        };
        let mut difference = Self::default();
        for resource in asked {
            match same_name(resource, has) {
                None => difference.missing.push(resource.name.clone()),
                Some(found) if found != *resource => {
                    difference.relocated.push(resource.name.clone());
                }
                Some(_) => {}
            }
        }
        for resource in has {
            if same_name(resource, asked).is_none() {
                difference.unexpected.push(resource.name.clone());
            }
        }
        difference
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for ProjectDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: &[ResourceName]| {
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            quoted.join(", ")
        };
        let mut parts = Vec::new();
        for (what, names) in [
            ("without", &self.missing),
            ("also with", &self.unexpected),
            ("with another place for", &self.relocated),
        ] {
            if !names.is_empty() {
                parts.push(format!("{what} {}", listed(names)));
            }
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_resources_read_back_what_they_show() {
        let host: HostId = "laptop:4f~/!".parse().unwrap();
        assert_eq!(host.to_string().parse::<HostId>().unwrap(), host);
        let name: ResourceName = "_code-2.0".parse().unwrap();
        assert_eq!(name.to_string().parse::<ResourceName>().unwrap(), name);
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"_code-2.0\"");
        assert!(serde_json::from_str::<ResourceName>("\"..\"").is_err());
    }

    #[test]
    fn odd_hosts_and_resources_are_refused() {
        for bad in ["", "a b", "ä", "a\n", "\u{7f}", &"x".repeat(129)] {
            assert!(bad.parse::<HostId>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(128).parse::<HostId>().is_ok());
        for bad in ["", ".x", "-x", "X", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<ResourceName>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(64).parse::<ResourceName>().is_ok());
    }

    #[test]
    fn a_place_is_absolute_and_its_branch_one_that_git_takes() {
        let dir = |path: &str| ResourcePlace::Dir { path: path.into() }.check_syntax();
        let git = |branch: &str| {
            let path = "/src".into();
            let branch = branch.into();
            ResourcePlace::Git { path, branch }.check_syntax()
        };
        assert_eq!(dir("/"), Ok(()));
        assert_eq!(dir(&format!("/{}", "x".repeat(4095))), Ok(()));
        for bad in ["", "x", "./x", "/a\0b", &format!("/{}", "x".repeat(4096))] {
            assert!(dir(bad).is_err(), "{bad:?}");
        }
        assert_eq!(git("refs/heads/feature/ü-1"), Ok(()));
        for bad in [
            "main",
            "refs/tags/v1",
            "refs/heads/",
            "refs/heads/a b",
            "refs/heads/a..b",
            "refs/heads/a.lock",
            "refs/heads//a",
            "refs/heads/a/",
            "refs/heads/.a",
            "refs/heads/a@{1}",
            "refs/heads/a\n",
        ] {
            assert!(git(bad).is_err(), "{bad:?}");
        }
    }
}
