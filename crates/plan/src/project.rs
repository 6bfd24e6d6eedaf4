//! Projects: a name for one or more resources, each a directory on one host.
//!
//! A plan freezes its resources and their branches ([`PlanResource`]), but not their locations. A
//! location is read from the project when needed, so that a moved resource can be relinked under
//! unfinished plans. Nothing here reads the file system.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Caller, QualifiedName, Timestamp};

const MAX_HOST_ID_LENGTH: usize = 128;
const MAX_RESOURCE_NAME_LENGTH: usize = 64;
/// The limit of common operating systems.
const MAX_PATH_BYTES: usize = 4096;
/// The longest file name of common file systems. Git stores a branch as a file.
const MAX_BRANCH_BYTES: usize = 255;
const BRANCH_REF_PREFIX: &str = "refs/heads/";

/// A machine that holds resources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostId(String);

impl HostId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=MAX_HOST_ID_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "a host id has 1 to {MAX_HOST_ID_LENGTH} printable ASCII characters without spaces"
            ))
        }
    }
}

impl TryFrom<String> for HostId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
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

/// The name of a resource, unique within its project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

impl ResourceName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = (1..=MAX_RESOURCE_NAME_LENGTH).contains(&text.len())
            && !text.starts_with(['.', '-'])
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
            });
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "a resource name has 1 to {MAX_RESOURCE_NAME_LENGTH} lower-case letters, digits, \
                 `-`, `_` and `.`, and starts with neither `.` nor `-`"
            ))
        }
    }
}

impl TryFrom<String> for ResourceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
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

/// The location of a resource on its host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ResourcePlace {
    /// A git checkout.
    Git {
        /// Absolute.
        path: String,
        /// Full name of the branch that plans land on, such as `refs/heads/main`.
        branch: String,
    },
    Dir {
        /// Absolute.
        path: String,
    },
}

impl ResourcePlace {
    pub fn path(&self) -> &str {
        match self {
            Self::Git { path, .. } | Self::Dir { path } => path,
        }
    }

    /// The branch that plans land on. `None` for a plain directory.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Git { branch, .. } => Some(branch),
            Self::Dir { .. } => None,
        }
    }

    pub fn kind(&self) -> ResourceKind {
        match self {
            Self::Git { .. } => ResourceKind::Git,
            Self::Dir { .. } => ResourceKind::Dir,
        }
    }

    /// Checks the syntax of path and branch. Does not check whether they exist.
    pub(crate) fn check_syntax(&self) -> Result<(), &'static str> {
        let path = self.path();
        if path.is_empty() {
            return Err("its path is empty");
        }
        if !path.starts_with('/') {
            return Err("its path is not absolute");
        }
        if path.contains('\0') {
            return Err("its path contains a NUL");
        }
        if path.len() > MAX_PATH_BYTES {
            return Err("its path is longer than 4096 bytes");
        }
        self.branch().map_or(Ok(()), check_branch)
    }

    /// Returns whether both are the same directory, whatever their kinds. Two resources in one
    /// directory would overwrite each other's files.
    fn is_same_directory(&self, other: &Self) -> bool {
        let trimmed = |place: &Self| place.path().trim_end_matches('/').to_owned();
        trimmed(self) == trimmed(other)
    }
}

/// Refuses branch names that git refuses, before they are stored.
fn check_branch(branch: &str) -> Result<(), &'static str> {
    let Some(short) = branch.strip_prefix(BRANCH_REF_PREFIX) else {
        return Err("its branch is not a full name such as refs/heads/main");
    };
    let invalid_character = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let invalid_part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    if branch.len() > MAX_BRANCH_BYTES
        || short.contains(invalid_character)
        || short.contains("..")
        || short.contains("@{")
        || short.split('/').any(invalid_part)
    {
        return Err("its branch is not a valid git branch name");
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    Git,
    Dir,
}

impl ResourceKind {
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

/// A directory that a project's plans work on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    pub name: ResourceName,
    pub host: HostId,
    pub place: ResourcePlace,
}

impl Resource {
    /// Returns whether both are the same directory on the same host.
    pub(crate) fn shares_place_with(&self, other: &Self) -> bool {
        self.host == other.host && self.place.is_same_directory(&other.place)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub name: QualifiedName,
    /// Sorted by name.
    pub resources: Vec<Resource>,
    /// Set while the project's plans must not start work.
    pub paused: Option<ProjectPause>,
    pub created_at: Timestamp,
}

impl Project {
    pub fn resource(&self, name: &ResourceName) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|resource| resource.name == *name)
    }

    /// Returns the resources as a new plan freezes them.
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

/// When and by whom a project was paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectPause {
    pub at: Timestamp,
    pub by: Caller,
}

/// A resource as frozen into a plan at creation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanResource {
    /// Name in the plan's results and moves: `<project>/<resource>`, without the `local/`
    /// namespace.
    pub name: String,
    pub project: QualifiedName,
    pub resource: ResourceName,
    pub kind: ResourceKind,
    /// Full name of the branch that the plan lands on. `None` for a plain directory.
    pub target: Option<String>,
}

/// How an existing project's resources differ from the requested ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectDifference {
    /// Requested, but not in the project.
    pub missing: Vec<ResourceName>,
    /// In the project, but not requested.
    pub unexpected: Vec<ResourceName>,
    /// In the project at another location.
    pub relocated: Vec<ResourceName>,
}

impl ProjectDifference {
    pub(crate) fn between(existing: &[Resource], requested: &[Resource]) -> Self {
        let same_name = |one: &Resource, among: &[Resource]| {
            let found = among.iter().find(|other| other.name == one.name);
            found.cloned()
        };
        let mut difference = Self::default();
        for resource in requested {
            match same_name(resource, existing) {
                None => difference.missing.push(resource.name.clone()),
                Some(found) if found != *resource => {
                    difference.relocated.push(resource.name.clone());
                }
                Some(_) => {}
            }
        }
        for resource in existing {
            if same_name(resource, requested).is_none() {
                difference.unexpected.push(resource.name.clone());
            }
        }
        difference
    }

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
        for (label, names) in [
            ("without", &self.missing),
            ("also with", &self.unexpected),
            ("with another location for", &self.relocated),
        ] {
            if !names.is_empty() {
                parts.push(format!("{label} {}", listed(names)));
            }
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_resources_parse_what_they_display() {
        let host: HostId = "laptop:4f~/!".parse().unwrap();
        assert_eq!(host.to_string().parse::<HostId>().unwrap(), host);
        let name: ResourceName = "_code-2.0".parse().unwrap();
        assert_eq!(name.to_string().parse::<ResourceName>().unwrap(), name);
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"_code-2.0\"");
        assert!(serde_json::from_str::<ResourceName>("\"..\"").is_err());
    }

    #[test]
    fn invalid_hosts_and_resources_are_refused() {
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
    fn a_location_needs_an_absolute_path_and_a_valid_branch() {
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
