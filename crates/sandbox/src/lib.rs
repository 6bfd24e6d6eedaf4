//! Private repositories for agents to work in, capturing the changes made there, and landing those
//! changes in the user's repository as a whole or not at all.
//!
//! All git commands and all child processes start here. This crate does not know the database and
//! does not change a plan: it returns what it observed, and the caller decides.
//!
//! Three repositories take part. Which one git runs in matters:
//!
//! - the **user's**: only [`land`] changes its branches and working tree;
//! - the plan's **vault**: the engine's own bare repository. It borrows the user's objects and
//!   stores checkpoints and results. Agents cannot write to it, so its configuration is trusted;
//! - the **sandbox**: a working tree with a repository for the agent to use as it likes. The engine
//!   never runs git with the configuration in there.

mod agent_refs;
mod archive;
mod capture;
mod check_dir;
mod checkout;
mod child;
mod child_guard;
mod cleanup;
mod compare;
mod conflicts;
mod copy_ignored;
mod directory_occupant;
mod error;
mod file_modes;
mod files;
mod git;
mod home_layout;
mod hunks;
mod ignored;
mod inspect;
mod local_resource;
mod location;
mod object;
mod open_for_person;
mod plan_vaults;
mod presence;
mod refs;
mod repository;
mod runs;
mod sandboxes;
mod set_up;
mod snapshot;
mod step_faults;
mod stop;
mod submodule;
mod supervise;
mod tree_pipes;
mod user_programs;
mod vault;

pub mod land;

pub use agent_refs::KeptAgentRefs;
pub use archive::ArchivedFiles;
pub use capture::{CapturedChange, ChangeCapture, SandboxCapture};
pub use check_dir::{CheckDir, PathDiffStat, RuleCheckDirs};
pub use cleanup::{PlanSandboxDir, RescueRef, SandboxRescue};
pub use compare::{DiffFormat, PathLineCount, TreeDiff, TreeEntry};
pub use copy_ignored::{IgnoredCopyLimits, IgnoredCopySummary};
pub use error::{LocationProblem, SandboxError};
pub use files::{check_writable, free_bytes};
pub use git::{GIT_TIMEOUT, GitEnv, git_version, minimum_git_version};
pub use hunks::{
    ContentKind, FileChange, FileVersions, Hunk, HunkPart, LineRegion, MAX_TEXT_BYTES, PickedResult,
};
pub use ignored::{IgnoredFiles, IgnoredPath, SandboxCondition};
pub use inspect::SandboxDiffs;
pub use land::Landings;
pub use local_resource::{LocalResource, ResourceLocation, SandboxKey};
pub use location::{
    DirectoryLocation, GitLocation, create_demo_repository, locate_directory, locate_git_repository,
};
pub use object::ObjectId;
pub use open_for_person::{NestedRepositories, SandboxOpening};
pub use plan_vaults::PlanVaults;
pub use presence::{HostProcesses, ProcessPresence};
pub use repository::{LandingObstacle, Repository};
pub use runs::{CheckRecord, CheckRun, RecordedRun, RunFiles, RunRecord};
pub use sandboxes::{OccupiedSandbox, Sandbox, SandboxEntryMode, Sandboxes};
pub use set_up::{
    CommandReach, OutputTail, SetUpFailure, SetUpOutcome, looks_like_permission_error,
};
pub use step_faults::{SandboxStep, StepFaults};
pub use stop::Stop;
pub use supervise::{
    Confinement, IsolationLevel, ProcessSpec, ProgramExit, ProgramInput, ProgramOutput,
    ReachablePaths, RunEnding, RunStopper, SharedLock, SupervisedRun, Supervisor, detect_isolation,
    run_supervisor,
};
pub use user_programs::{run_editor, run_in_directory, run_notify_command, run_shell};
