//! Exchanging files: each is whole at every moment, old or new, and what a person saves meanwhile
//! stays as they saved it.

use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::SandboxError;
use crate::error::Doing;
use crate::fault::Step;
use crate::files::{self, Spot, Stamp};
use crate::repository::Checkout;
use crate::room::{Room, Workshop};

use super::journal::{self, FileStep, Journal};

/// Brings the files of a checkout to what the journal says; what was done before is recognised by
/// what is left in the staging area. The paths a person changed meanwhile are left alone, and named.
pub(super) fn exchange(
    workshop: &Workshop,
    room: &Room<'_>,
    checkout: &Checkout,
    journal: &Journal,
) -> Result<Vec<TreePath>, SandboxError> {
    let staging = journal::staging(room, checkout)?;
    let old = staging.join("old");
    std::fs::create_dir_all(&old).doing("made", &old)?;
    let mut kept = Vec::new();
    let root = &checkout.work_tree;
    // Files that go make room for directories, and directories that empty make room for files.
    let (gone, written): (Vec<_>, Vec<_>) = journal
        .steps
        .iter()
        .enumerate()
        .partition(|(_, step)| step.after.is_none());
    for (number, step) in gone {
        let aside = old.join(number.to_string());
        if !remove(root, step, &aside)? {
            kept.push(step.path.clone());
        }
        files::remove_empty_parents(root, &step.path);
    }
    let mut synced = Vec::new();
    for (done, (_, step)) in written.into_iter().enumerate() {
        if done == 1 {
            workshop.after(Step::SomeExchanged, root)?;
        }
        let ready = files::below(&staging.join("new"), &step.path);
        if !write(root, step, &ready)? {
            kept.push(step.path.clone());
        }
        synced.push(step);
    }
    for step in synced {
        if let Ok(spot) = Spot::find(root, &step.path) {
            let place = files::below(root, &step.path);
            spot.sync().doing("synced", &place)?;
        }
    }
    Ok(kept)
}

/// What a person saved into a file through a handle they had open before it was displaced: kept
/// beside the vault, never thrown away.
pub(super) fn rescue_late_saves(
    workshop: &Workshop,
    room: &Room<'_>,
    checkout: &Checkout,
    journal: &Journal,
) -> Result<(), SandboxError> {
    let staging = journal::staging(room, checkout)?;
    for (number, step) in journal.steps.iter().enumerate() {
        let Some(before) = step.before else {
            continue;
        };
        let displaced = match step.after {
            Some(_) => files::below(&staging.join("new"), &step.path),
            None => staging.join("old").join(number.to_string()),
        };
        let now = Stamp::of(&displaced).doing("looked at", &displaced)?;
        if now.is_none_or(|now| now == before) {
            continue;
        }
        let rescue = rescue_directory(workshop, room);
        workshop.make_directory(&rescue)?;
        let name = step.path.to_string().replace('/', "+");
        let copy = rescue.join(format!("{number}-{name}"));
        std::fs::copy(&displaced, &copy).doing("copied", &displaced)?;
        files::make_private(&copy).doing("written", &copy)?;
    }
    Ok(())
}

/// Where late saves are kept.
pub(super) fn rescue_directory(workshop: &Workshop, room: &Room<'_>) -> PathBuf {
    workshop.home().join("rescued").join(room.plan.to_string())
}

/// `false` if the person changed the file meanwhile.
fn remove(root: &Path, step: &FileStep, aside: &Path) -> Result<bool, SandboxError> {
    let place = files::below(root, &step.path);
    let look = |path: &Path| Stamp::of(path).doing("looked at", path);
    if look(aside)?.is_some() {
        return Ok(true);
    }
    match look(&place)? {
        None => return Ok(true),
        now if now != step.before => return Ok(false),
        Some(_) => {}
    }
    let spot = match Spot::find(root, &step.path) {
        Ok(spot) => spot,
        Err(error) if files::is_absent(&error) => return Ok(true),
        Err(error) => return Err(error).doing("reached", &place),
    };
    match spot.take(aside) {
        Ok(()) => {}
        Err(error) if files::is_absent(&error) => return Ok(true),
        Err(error) => return Err(error).doing("removed", &place),
    }
    if look(aside)? == step.before {
        spot.sync().doing("synced", &place)?;
        return Ok(true);
    }
    // Saved in the very moment between the look and the move: it goes back.
    spot.put(aside).doing("put back", &place)?;
    Ok(false)
}

/// `false` if the person changed the file meanwhile.
fn write(root: &Path, step: &FileStep, ready: &Path) -> Result<bool, SandboxError> {
    let place = files::below(root, &step.path);
    let look = |path: &Path| Stamp::of(path).doing("looked at", path);
    if look(ready)? != step.after {
        // What lies here is not the new file any more: it was exchanged before.
        return Ok(true);
    }
    if look(&place)? != step.before {
        return Ok(false);
    }
    let spot = match Spot::make(root, &step.path) {
        Ok(spot) => spot,
        Err(error) if files::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error).doing("reached", &place),
    };
    if step.before.is_none() {
        return match spot.put(ready) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error).doing("written", &place),
        };
    }
    match spot.exchange(ready) {
        Ok(()) => {}
        Err(error) if files::is_absent(&error) => return Ok(false),
        Err(error) => return Err(error).doing("written", &place),
    }
    if look(ready)? == step.before {
        return Ok(true);
    }
    // Saved in the very moment between the look and the exchange: it goes back.
    spot.exchange(ready).doing("put back", &place)?;
    Ok(false)
}
