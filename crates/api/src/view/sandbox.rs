//! Views of sandboxes.

use std::path::PathBuf;

use lifecycle::{CleanupReport, EnteredSandbox, RescuedWork};
use plan::PlanId;
use plan::stage::PathSummary;
use sandbox::ArchivedFiles;
use serde::Serialize;

use crate::sandboxes::{FileArchive, PlanSandboxDirs, RestoredSandboxes, SandboxList};

#[derive(Debug, Serialize)]
pub struct SandboxView {
    pub resource: String,
    /// The root of its files.
    pub path: PathBuf,
}

impl From<&EnteredSandbox> for SandboxView {
    fn from(sandbox: &EnteredSandbox) -> Self {
        Self {
            resource: sandbox.resource.clone(),
            path: sandbox.path.clone(),
        }
    }
}

/// The sandboxes and archives on this host.
#[derive(Debug, Serialize)]
pub struct SandboxListView {
    pub sandboxes: Vec<PlanSandboxesView>,
    pub archives: Vec<FileArchiveView>,
}

/// The sandboxes of one plan.
#[derive(Debug, Serialize)]
pub struct PlanSandboxesView {
    pub plan_id: PlanId,
    /// The status word of the plan; `unknown` if the store does not know it.
    pub standing: &'static str,
    pub paths: Vec<PathBuf>,
}

/// Ignored files of a plan that were kept.
#[derive(Debug, Serialize)]
pub struct FileArchiveView {
    pub plan_id: PlanId,
    pub path: PathBuf,
}

impl From<&SandboxList> for SandboxListView {
    fn from(list: &SandboxList) -> Self {
        Self {
            sandboxes: list.sandboxes.iter().map(Into::into).collect(),
            archives: list.archives.iter().map(Into::into).collect(),
        }
    }
}

impl From<&PlanSandboxDirs> for PlanSandboxesView {
    fn from(one: &PlanSandboxDirs) -> Self {
        Self {
            plan_id: one.plan_id,
            standing: one.standing.map_or("unknown", |standing| standing.as_str()),
            paths: one.paths.clone(),
        }
    }
}

impl From<&FileArchive> for FileArchiveView {
    fn from(archive: &FileArchive) -> Self {
        Self {
            plan_id: archive.plan_id,
            path: archive.path.clone(),
        }
    }
}

/// What a cleanup did to the sandboxes of one plan.
#[derive(Debug, Serialize)]
pub struct SandboxCleanupView {
    pub plan_id: PlanId,
    pub removed: bool,
    /// Work that did not land.
    pub kept: Vec<KeptRefView>,
    /// Ignored files that were in no result.
    pub archived: Vec<KeptFilesView>,
    /// Copies of repository data that no ref can keep.
    pub set_aside: Vec<PathBuf>,
}

/// Work that is kept under a ref.
#[derive(Debug, Serialize)]
pub struct KeptRefView {
    pub resource: String,
    #[serde(rename = "ref")]
    pub ref_name: String,
    pub commit: String,
}

/// Ignored files that are kept in a directory.
#[derive(Debug, Serialize)]
pub struct KeptFilesView {
    pub path: PathBuf,
    pub files: u64,
    pub bytes: u64,
    /// Over the limit, or unreadable.
    pub not_kept: PathSummary,
}

impl SandboxCleanupView {
    pub fn new(plan_id: PlanId, report: &CleanupReport) -> Self {
        Self {
            plan_id,
            removed: report.is_removed,
            kept: report.rescued.iter().map(Into::into).collect(),
            archived: report.archived.iter().map(Into::into).collect(),
            set_aside: report.preserved_dirs.clone(),
        }
    }
}

impl From<&RescuedWork> for KeptRefView {
    fn from(kept: &RescuedWork) -> Self {
        Self {
            resource: kept.resource.clone(),
            ref_name: kept.leftover.ref_name.clone(),
            commit: kept.leftover.commit.to_string(),
        }
    }
}

impl From<&ArchivedFiles> for KeptFilesView {
    fn from(archived: &ArchivedFiles) -> Self {
        Self {
            path: archived.path.clone(),
            files: archived.files,
            bytes: archived.bytes,
            not_kept: PathSummary::from_paths(&archived.omitted),
        }
    }
}

/// What was restored of a plan's sandboxes.
#[derive(Debug, Serialize)]
pub struct RestoredSandboxesView {
    pub plan_id: PlanId,
    pub sandboxes: Vec<SandboxView>,
    pub agent_refs: Vec<KeptRefView>,
}

impl RestoredSandboxesView {
    pub fn new(plan_id: PlanId, restored: &RestoredSandboxes) -> Self {
        Self {
            plan_id,
            sandboxes: restored.sandboxes.iter().map(Into::into).collect(),
            agent_refs: restored.agent_refs.iter().map(Into::into).collect(),
        }
    }
}
