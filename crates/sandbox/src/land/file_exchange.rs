//! Exchanging files: each is whole at every moment, old or new, and what a person saves meanwhile
//! stays as they saved it.

use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::SandboxError;
use crate::error::FileErrorContext;
use crate::files::{self, FileStamp, PathHandle};
use crate::repository::UserCheckout;
use crate::sandboxes::{SandboxKey, Sandboxes};
use crate::step_faults::Step;

use super::journal::{self, FileExchange, LandingJournal};

/// Brings the files of a checkout to what the journal says; what was done before is recognised by
/// what is left in the staging area. The paths a person changed meanwhile are left alone, and named.
pub(super) fn exchange_files(
    sandboxes: &Sandboxes,
    key: &SandboxKey<'_>,
    checkout: &UserCheckout,
    journal: &LandingJournal,
) -> Result<Vec<TreePath>, SandboxError> {
    let staging = journal::staging_dir(key, checkout)?;
    let old = staging.join("old");
    std::fs::create_dir_all(&old).while_being("made", &old)?;
    let mut kept_by_user = Vec::new();
    let root = &checkout.work_tree;
    // Files that go make room for directories, and directories that empty make room for files.
    let (gone, written): (Vec<_>, Vec<_>) = journal
        .steps
        .iter()
        .enumerate()
        .partition(|(_, step)| step.after.is_none());
    for (number, step) in gone {
        let displaced = old.join(number.to_string());
        if !remove_old_file(root, step, &displaced)? {
            kept_by_user.push(step.path.clone());
        }
        files::remove_empty_parents(root, &step.path);
    }
    let mut synced = Vec::new();
    for (done, (_, step)) in written.into_iter().enumerate() {
        if done == 1 {
            sandboxes.complete_step(Step::SomeExchanged, root)?;
        }
        let ready = files::join_tree_path(&staging.join("new"), &step.path);
        if !write_new_file(root, step, &ready)? {
            kept_by_user.push(step.path.clone());
        }
        synced.push(step);
    }
    for step in synced {
        if let Ok(spot) = PathHandle::open(root, &step.path) {
            let place = files::join_tree_path(root, &step.path);
            spot.sync_directory_entries()
                .while_being("synced", &place)?;
        }
    }
    Ok(kept_by_user)
}

/// What a person saved into a file through a handle they had open before it was displaced: kept
/// beside the vault, never thrown away.
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
        let now = FileStamp::read(&displaced).while_being("looked at", &displaced)?;
        if now.is_none_or(|now| now == before) {
            continue;
        }
        let rescue = late_saves_dir(sandboxes, key);
        sandboxes.make_home_directory(&rescue)?;
        let name = step.path.to_string().replace('/', "+");
        let copy = rescue.join(format!("{number}-{name}"));
        std::fs::copy(&displaced, &copy).while_being("copied", &displaced)?;
        files::restrict_to_owner(&copy).while_being("written", &copy)?;
    }
    Ok(())
}

/// Where late saves are kept.
pub(super) fn late_saves_dir(sandboxes: &Sandboxes, key: &SandboxKey<'_>) -> PathBuf {
    sandboxes
        .home()
        .join("rescued")
        .join(key.plan_id.to_string())
}

/// `false` if the person changed the file meanwhile.
fn remove_old_file(
    root: &Path,
    step: &FileExchange,
    displaced: &Path,
) -> Result<bool, SandboxError> {
    let place = files::join_tree_path(root, &step.path);
    let read_stamp = |path: &Path| FileStamp::read(path).while_being("looked at", path);
    if read_stamp(displaced)?.is_some() {
        return Ok(true);
    }
    match read_stamp(&place)? {
        None => return Ok(true),
        now if now != step.before => return Ok(false),
        Some(_) => {}
    }
    let spot = match PathHandle::open(root, &step.path) {
        Ok(spot) => spot,
        Err(error) if files::is_not_found(&error) => return Ok(true),
        Err(error) => return Err(error).while_being("reached", &place),
    };
    match spot.move_away(displaced) {
        Ok(()) => {}
        Err(error) if files::is_not_found(&error) => return Ok(true),
        Err(error) => return Err(error).while_being("removed", &place),
    }
    if read_stamp(displaced)? == step.before {
        spot.sync_directory_entries()
            .while_being("synced", &place)?;
        return Ok(true);
    }
    // Saved in the very moment between the look and the move: it goes back.
    spot.move_here(displaced).while_being("put back", &place)?;
    Ok(false)
}

/// `false` if the person changed the file meanwhile.
fn write_new_file(root: &Path, step: &FileExchange, ready: &Path) -> Result<bool, SandboxError> {
    let place = files::join_tree_path(root, &step.path);
    let read_stamp = |path: &Path| FileStamp::read(path).while_being("looked at", path);
    if read_stamp(ready)? != step.after {
        // What lies here is not the new file any more: it was exchanged before.
        return Ok(true);
    }
    if read_stamp(&place)? != step.before {
        return Ok(false);
    }
    let spot = match PathHandle::open_or_create(root, &step.path) {
        Ok(spot) => spot,
        Err(error) if files::is_not_found(&error) => return Ok(false),
        Err(error) => return Err(error).while_being("reached", &place),
    };
    if step.before.is_none() {
        return match spot.move_here(ready) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error).while_being("written", &place),
        };
    }
    match spot.exchange_with(ready) {
        Ok(()) => {}
        Err(error) if files::is_not_found(&error) => return Ok(false),
        Err(error) => return Err(error).while_being("written", &place),
    }
    if read_stamp(ready)? == step.before {
        return Ok(true);
    }
    // Saved in the very moment between the look and the exchange: it goes back.
    spot.exchange_with(ready).while_being("put back", &place)?;
    Ok(false)
}
