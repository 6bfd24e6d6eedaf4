//! A plan's resource on this host.

use std::path::{Path, PathBuf};

use plan::PlanId;

use crate::repository;

/// A resource of a plan and its location on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalResource {
    /// `project/resource`.
    pub name: String,
    pub location: ResourceLocation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceLocation {
    Git {
        /// A checkout, or the repository itself if it is bare.
        path: PathBuf,
        /// The branch that results land on, as a full ref name.
        target: String,
    },
    Dir {
        path: PathBuf,
    },
}

impl ResourceLocation {
    pub fn path(&self) -> &Path {
        match self {
            Self::Git { path, .. } | Self::Dir { path } => path,
        }
    }

    /// Does something that looks like the resource exist? Does not start git.
    pub(crate) fn exists(&self) -> bool {
        match self {
            // A checkout has `.git`, a bare repository `HEAD`.
            Self::Git { path, .. } => path.join(".git").exists() || path.join("HEAD").is_file(),
            Self::Dir { path } => path.is_dir(),
        }
    }

    /// The object directory of an ordinary checkout, found without starting git.
    pub(crate) fn guess_objects_dir(&self) -> Option<PathBuf> {
        match self {
            Self::Git { path, .. } => {
                let git_dir = path.join(".git").canonicalize().ok()?;
                let is_own = git_dir.is_dir() && !git_dir.join("commondir").exists();
                is_own.then(|| git_dir.join("objects"))
            }
            Self::Dir { .. } => None,
        }
    }

    /// The option that registers such a location on the command line.
    pub(crate) fn cli_option(&self) -> &'static str {
        match self {
            Self::Git { .. } => "--git",
            Self::Dir { .. } => "--dir",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct SandboxKey<'a> {
    pub plan_id: PlanId,
    pub resource: &'a LocalResource,
}

impl SandboxKey<'_> {
    /// The name of its directories. Resource names contain no plus, so the mapping is unique.
    pub fn dir_name(&self) -> String {
        self.resource.name.replace('/', "+")
    }
}

impl SandboxKey<'_> {
    /// The label of the target's side in conflict markers.
    pub(crate) fn target_label(&self) -> &str {
        match &self.resource.location {
            ResourceLocation::Git { target, .. } => repository::short_branch_name(target),
            ResourceLocation::Dir { .. } => "directory",
        }
    }

    /// The label of the work's side in conflict markers: the end of the plan's id, as people write
    /// it.
    pub(crate) fn work_label(&self) -> String {
        let id = self.plan_id.to_string().to_lowercase();
        format!("plan-{}", &id[id.len().saturating_sub(8)..])
    }
}
