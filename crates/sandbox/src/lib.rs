//! Planwright's hands: private repositories to work in, the changes captured from them, and landing
//! those changes in the user's repository whole or not at all.
//!
//! All git and all child processes are started here. Nothing here knows the database or moves a
//! plan: what was observed comes back as values, and whoever asked decides.
//!
//! Three repositories take part, and it matters which one git is pointed at:
//!
//! - the **user's**, whose branches and working tree change only in [`land`];
//! - the plan's **vault**, a bare repository of ours that borrows the user's objects and keeps
//!   checkpoints and results; agents never get at it, so that its configuration can be trusted;
//! - the **sandbox** itself, a working tree with a repository for the agent to use as it likes.
//!   The engine never runs git with the configuration in there.

mod agent_refs;
mod archive;
mod capture;
mod checkout;
mod child;
mod clean;
mod compare;
mod conflicts;
mod error;
mod fault;
mod files;
mod furnish;
mod git;
mod ignored;
mod inside;
mod modes;
mod object;
mod open;
mod place;
mod presence;
mod refs;
mod repository;
mod room;
mod runs;
mod set_up;
mod snapshot;
mod submodule;
mod supervise;
mod trial;
mod vault;

pub mod land;

pub use agent_refs::KeptAgentRefs;
pub use archive::ArchivedFiles;
pub use capture::{Captured, Change};
pub use clean::{Leftover, SandboxState};
pub use compare::{Counted, Look, Shape};
pub use error::SandboxError;
pub use fault::{Faults, Step};
pub use files::free_bytes;
pub use furnish::{FurnishLimits, Furnished};
pub use git::{PATIENCE, Surroundings, minimum_version, version as git_version};
pub use ignored::{IgnoredFiles, IgnoredPath, SandboxCondition};
pub use object::ObjectId;
pub use open::{Opened, Remarks};
pub use place::{DirPlace, GitPlace, look_at_dir, look_at_git, start_repository};
pub use presence::Presence;
pub use repository::{Obstacle, Repository};
pub use room::{Entered, Room, Sandbox, Site, SitePlace, Start, Workshop};
pub use runs::{CheckRecord, CheckRun, Run, RunRecord};
pub use set_up::{CommandReach, Ended, Said, SetUp, sounds_denied};
pub use supervise::{
    Confinement, Ending, Errand, Hold, Isolated, Output, Reach, RunEnded, Running, Stopper,
    Supervisor, offered, supervise,
};
pub use trial::{Seen, Trial};
