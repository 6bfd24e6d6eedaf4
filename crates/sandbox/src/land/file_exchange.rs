//! Replaces the files of a checkout. Each file is complete at every moment, old or new, and a file
//! that the user saves in the meantime keeps the user's content.

use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::SandboxError;
use crate::error::FileErrorContext;
use crate::files::{self, FileStamp, PathHandle};
use crate::local_resource::SandboxKey;
use crate::repository::UserCheckout;
use crate::sandboxes::Sandboxes;
use crate::step_faults::SandboxStep;

use super::journal::{self, FileExchange, LandingJournal};

/// Applies the journal to the files of a checkout. Files exchanged before a crash are recognised by
/// what is left in the staging directory. Skips paths that the user changed in the meantime, and
/// returns them.
pub(super) fn exchange_files(
    sandboxes: &Sandboxes,
    key: &SandboxKey<'_>,
    checkout: &UserCheckout,
    journal: &LandingJournal,
) -> Result<Vec<TreePath>, SandboxError> {
    let staging = journal::staging_dir(key, checkout)?;
    let old = staging.join("old");
    std::fs::create_dir_all(&old).while_being("created", &old)?;
    let mut kept_by_user = Vec::new();
    let root = &checkout.work_tree;
    // Removed files make room for directories, and emptied directories make room for files.
    let (removed, written): (Vec<_>, Vec<_>) = journal
        .steps
        .iter()
        .enumerate()
        .partition(|(_, step)| step.after.is_none());
    for (number, step) in removed {
        let displaced = old.join(number.to_string());
        if !remove_old_file(root, step, &displaced)? {
            kept_by_user.push(step.path.clone());
        }
        files::remove_empty_parents(root, &step.path);
    }
    let mut synced = Vec::new();
    for (done, (_, step)) in written.into_iter().enumerate() {
        if done == 1 {
            sandboxes
                .capture()
                .complete_step(SandboxStep::SomeExchanged, root)?;
        }
        let staged_path = files::join_tree_path(&staging.join("new"), &step.path);
        if !write_new_file(root, step, &staged_path)? {
            kept_by_user.push(step.path.clone());
        }
        synced.push(step);
    }
    for step in synced {
        if let Ok(handle) = PathHandle::open(root, &step.path) {
            let file_path = files::join_tree_path(root, &step.path);
            handle
                .sync_directory_entries()
                .while_being("synced", &file_path)?;
        }
    }
    Ok(kept_by_user)
}

/// Copies what the user saved into a file through a handle that was opened before the file was
/// displaced. The copies are kept below the home.
pub(super) fn rescue_late_saves(
    sandboxes: &Sandboxes,
    key: &SandboxKey<'_>,
    checkout: &UserCheckout,
    journal: &LandingJournal,
) -> Result<(), SandboxError> {
    let staging = journal::staging_dir(key, checkout)?;
    for (number, step) in journal.steps.iter().enumerate() {
        let Some(before) = step.before else {
            continue;
        };
        let displaced = match step.after {
            Some(_) => files::join_tree_path(&staging.join("new"), &step.path),
            None => staging.join("old").join(number.to_string()),
        };
        let now = FileStamp::read(&displaced).while_being("inspected", &displaced)?;
        if now.is_none_or(|now| now == before) {
            continue;
        }
        let rescue = late_saves_dir(sandboxes, key);
        sandboxes.home().make_home_directory(&rescue)?;
        let name = step.path.to_string().replace('/', "+");
        let copy = rescue.join(format!("{number}-{name}"));
        std::fs::copy(&displaced, &copy).while_being("copied", &displaced)?;
        files::restrict_to_owner(&copy).while_being("written", &copy)?;
    }
    Ok(())
}

pub(super) fn late_saves_dir(sandboxes: &Sandboxes, key: &SandboxKey<'_>) -> PathBuf {
    sandboxes
        .home()
        .join("rescued")
        .join(key.plan_id.to_string())
}

/// Returns `false` if the user changed the file in the meantime.
fn remove_old_file(
    root: &Path,
    step: &FileExchange,
    displaced: &Path,
) -> Result<bool, SandboxError> {
    let file_path = files::join_tree_path(root, &step.path);
    let read_stamp = |path: &Path| FileStamp::read(path).while_being("inspected", path);
    if read_stamp(displaced)?.is_some() {
        return Ok(true);
    }
    match read_stamp(&file_path)? {
        None => return Ok(true),
        now if now != step.before => return Ok(false),
        Some(_) => {}
    }
    let handle = match PathHandle::open(root, &step.path) {
        Ok(handle) => handle,
        Err(error) if files::is_not_found(&error) => return Ok(true),
        Err(error) => return Err(error).while_being("reached", &file_path),
    };
    match handle.move_away(displaced) {
        Ok(()) => {}
        Err(error) if files::is_not_found(&error) => return Ok(true),
        Err(error) => return Err(error).while_being("removed", &file_path),
    }
    if read_stamp(displaced)? == step.before {
        handle
            .sync_directory_entries()
            .while_being("synced", &file_path)?;
        return Ok(true);
    }
    // Saved between reading the stamp and moving the file: move it back.
    handle
        .move_here(displaced)
        .while_being("put back", &file_path)?;
    Ok(false)
}

/// Returns `false` if the user changed the file in the meantime.
fn write_new_file(
    root: &Path,
    step: &FileExchange,
    staged_path: &Path,
) -> Result<bool, SandboxError> {
    let file_path = files::join_tree_path(root, &step.path);
    let read_stamp = |path: &Path| FileStamp::read(path).while_being("inspected", path);
    if read_stamp(staged_path)? != step.after {
        // The staged file is not the new one any more: it was exchanged before a crash.
        return Ok(true);
    }
    if read_stamp(&file_path)? != step.before {
        return Ok(false);
    }
    let handle = match PathHandle::open_or_create(root, &step.path) {
        Ok(handle) => handle,
        Err(error) if files::is_not_found(&error) => return Ok(false),
        Err(error) => return Err(error).while_being("reached", &file_path),
    };
    if step.before.is_none() {
        return match handle.move_here(staged_path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error).while_being("written", &file_path),
        };
    }
    match handle.exchange_with(staged_path) {
        Ok(()) => {}
        Err(error) if files::is_not_found(&error) => return Ok(false),
        Err(error) => return Err(error).while_being("written", &file_path),
    }
    if read_stamp(staged_path)? == step.before {
        return Ok(true);
    }
    // Saved between reading the stamp and the exchange: exchange it back.
    handle
        .exchange_with(staged_path)
        .while_being("put back", &file_path)?;
    Ok(false)
}
