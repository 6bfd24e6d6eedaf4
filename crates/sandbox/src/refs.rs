//! The engine's refs in the user's repository, and the fence that every ref update verifies.

use std::time::Duration;

use plan::{Epoch, PlanId};

use crate::git::{self, GitCommand, run_both};
use crate::{ObjectId, SandboxError};

/// The prefix of all the engine's refs.
pub(crate) const REF_ROOT: &str = "refs/planwright/";

/// How often, and with which pause, voiding a fence is retried while another git has it locked.
const MAX_VOID_ATTEMPTS: u32 = 40;
const VOID_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Keeps the base commit of a plan.
pub(crate) fn base_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}base/{plan_id}/{dir_name}")
}

/// Keeps the commit that is about to land.
pub(crate) fn pin_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}pin/{plan_id}/{dir_name}")
}

/// Marks that a plan landed in the working tree only, without a commit.
pub(crate) fn landed_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}landed/{plan_id}/{dir_name}")
}

/// Keeps work that did not land.
pub(crate) fn rescue_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/{dir_name}")
}

/// Keeps work of an earlier holder that did not land. Sandbox names do not end in a plus and a
/// number, so the names cannot collide.
pub(crate) fn older_rescue_ref(plan_id: PlanId, dir_name: &str, creator_epoch: Epoch) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/{dir_name}+{creator_epoch}")
}

/// The prefix of refs that agents created. No sandbox is called `agent`, because every sandbox name
/// contains a plus.
pub(crate) fn agent_rescue_prefix(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/agent/{dir_name}/")
}

pub(crate) fn agent_rescue_ref(
    plan_id: PlanId,
    dir_name: &str,
    creator_epoch: Epoch,
    name: &str,
) -> String {
    format!(
        "{}{creator_epoch}/{name}",
        agent_rescue_prefix(plan_id, dir_name)
    )
}

/// Holds the current epoch of a plan.
fn fence_ref(plan_id: PlanId) -> String {
    format!("{REF_ROOT}fence/{plan_id}")
}

/// The right to update refs of a repository for a plan, until a newer holder raises the fence.
#[derive(Debug, Clone)]
pub(crate) struct EpochFence {
    ref_name: String,
    mark_id: ObjectId,
    epoch: Epoch,
}

impl EpochFence {
    /// Raises the fence to this epoch; fails if a newer epoch raised it.
    pub fn raise_to_epoch(
        git: &GitCommand,
        plan_id: PlanId,
        epoch: Epoch,
    ) -> Result<Self, SandboxError> {
        Self::raise_from(
            git,
            plan_id,
            epoch,
            read_fence_mark(git, &fence_ref(plan_id))?,
            None,
        )
    }

    /// Raises the fence and reads a ref afterwards, when older holders can no longer move it.
    pub fn raise_and_read(
        git: &GitCommand,
        plan_id: PlanId,
        epoch: Epoch,
        name: &str,
    ) -> Result<(Self, Option<ObjectId>), SandboxError> {
        let (current_mark, seen) = read_mark_and_ref(git, &fence_ref(plan_id), name)?;
        let was_raised = current_mark
            .as_ref()
            .is_some_and(|mark| mark.content == fence_text(plan_id, epoch));
        let fence = Self::raise_from(git, plan_id, epoch, current_mark, None)?;
        // `seen` was read after the fence. If the fence had this epoch already, the value is safe
        // to use; otherwise read it again.
        let seen = if was_raised {
            seen
        } else {
            resolve_name(git, name)?
        };
        Ok((fence, seen))
    }

    /// Raises the fence without reading it first, which saves a git call when it is probably not
    /// raised yet.
    pub fn raise_without_reading(
        git: &GitCommand,
        plan_id: PlanId,
        epoch: Epoch,
    ) -> Result<Self, SandboxError> {
        let name = fence_ref(plan_id);
        let (found_mark, mark) = run_both(
            || read_fence_mark(git, &name),
            || write_fence_mark(git, plan_id, epoch),
        );
        Self::raise_from(git, plan_id, epoch, found_mark?, Some(mark?))
    }

    /// Replaces the fence's mark, for a holder that is gone. A git process that it started, and
    /// that may still run, can then no longer update refs. The epoch stays the same, so the next
    /// holder can raise the fence as usual.
    pub fn invalidate(git: &GitCommand, plan_id: PlanId) -> Result<(), SandboxError> {
        let name = fence_ref(plan_id);
        let mut last_stderr = String::new();
        // A git that is updating refs right now has the fence locked, but only briefly.
        for _ in 0..MAX_VOID_ATTEMPTS {
            let Some(found_mark) = read_fence_mark(git, &name)? else {
                return Ok(());
            };
            let epoch = parse_fence_epoch(&found_mark.content)?;
            let void_mark = format!(
                "planwright {plan_id} void {} epoch {epoch}\n",
                found_mark.id
            );
            let hash = ["hash-object", "-w", "--stdin"];
            let void_mark = run_for_object_id(git, &hash, void_mark.as_bytes())?;
            let output = git.try_run(&[
                "update-ref",
                &name,
                void_mark.as_str(),
                found_mark.id.as_str(),
            ])?;
            if output.exit_code == 0 {
                return Ok(());
            }
            last_stderr = output.stderr;
            std::thread::sleep(VOID_RETRY_DELAY);
        }
        Err(git::git_error(&["update-ref"], &last_stderr))
    }

    fn raise_from(
        git: &GitCommand,
        plan_id: PlanId,
        epoch: Epoch,
        mut current_mark: Option<FenceMark>,
        mut written: Option<ObjectId>,
    ) -> Result<Self, SandboxError> {
        let name = fence_ref(plan_id);
        // Another holder may raise the fence at the same moment. The loser reads it again.
        let mut last_stderr = String::new();
        for _ in 0..8 {
            if let Some(FenceMark { id, content }) = &current_mark {
                if *content == fence_text(plan_id, epoch) {
                    let mark = id.clone();
                    return Ok(Self {
                        ref_name: name,
                        mark_id: mark,
                        epoch,
                    });
                }
                let current = parse_fence_epoch(content)?;
                if current > epoch.0 {
                    return Err(SandboxError::FencedByNewerHolder {
                        given: epoch.0,
                        current,
                    });
                }
            }
            let mark = match written.take() {
                Some(mark) => mark,
                None => write_fence_mark(git, plan_id, epoch)?,
            };
            let old = current_mark.map_or_else(|| mark.null_id(), |found_mark| found_mark.id);
            let output = git.try_run(&["update-ref", &name, mark.as_str(), old.as_str()])?;
            if output.exit_code == 0 {
                return Ok(Self {
                    ref_name: name,
                    mark_id: mark,
                    epoch,
                });
            }
            last_stderr = output.stderr;
            current_mark = read_fence_mark(git, &name)?;
        }
        Err(match git::find_lock_path(&last_stderr) {
            Some(lock) => SandboxError::LockedByGit { lock },
            None => SandboxError::TargetMoved { target: name },
        })
    }

    /// Updates refs in one transaction that fails if the fence has changed.
    pub fn update_refs(
        &self,
        git: &GitCommand,
        message: &str,
        changes: &[RefChange],
    ) -> Result<(), SandboxError> {
        // git verifies the fence and updates the refs in one transaction. So a holder that was
        // replaced cannot act between a check and an update.
        let mut script = b"start\0".to_vec();
        script.extend(format!("verify {}\0{}\0", self.ref_name, self.mark_id).bytes());
        for change in changes {
            script.extend(change.to_script_line().bytes());
        }
        script.extend(b"prepare\0commit\0");
        let arguments = [
            "update-ref",
            "--create-reflog",
            "-m",
            message,
            "--stdin",
            "-z",
        ];
        let output = git.try_run_with_input(&arguments, &script)?;
        if output.exit_code == 0 {
            return Ok(());
        }
        Err(self.diagnose_refusal(git, changes, &output.stderr)?)
    }

    /// Removes the fence and refs that are no longer needed.
    pub fn remove_with_refs(self, git: &GitCommand, refs: &[String]) -> Result<(), SandboxError> {
        let mut script = Vec::new();
        for name in refs {
            script.extend(format!("delete {name}\0\0").bytes());
        }
        script.extend(format!("delete {}\0{}\0", self.ref_name, self.mark_id).bytes());
        git.run_with_input(&["update-ref", "--stdin", "-z"], &script)
            .map(drop)
    }

    /// Finds out why git refused: fenced, moved or locked.
    fn diagnose_refusal(
        &self,
        git: &GitCommand,
        changes: &[RefChange],
        stderr: &str,
    ) -> Result<SandboxError, SandboxError> {
        let current_mark = read_fence_mark(git, &self.ref_name)?;
        if current_mark.as_ref().map(|mark| &mark.id) != Some(&self.mark_id) {
            let current = match &current_mark {
                Some(mark) => parse_fence_epoch(&mark.content)?,
                None => self.epoch.0 + 1,
            };
            return Ok(SandboxError::FencedByNewerHolder {
                given: self.epoch.0,
                current,
            });
        }
        for change in changes {
            if let RefChange::Move { name, old, .. } = change {
                let now = resolve_name(git, name)?;
                let expected = Some(old).filter(|old| !old.is_null());
                if now.as_ref() != expected {
                    return Ok(SandboxError::TargetMoved {
                        target: name.clone(),
                    });
                }
            }
        }
        Ok(git::git_error(&["update-ref"], stderr))
    }
}

#[derive(Debug, Clone)]
pub(crate) enum RefChange {
    /// From `old` (the null id: it must not exist) to `new`.
    Move {
        name: String,
        new: ObjectId,
        old: ObjectId,
    },
    /// To `new`, whatever it is now.
    Set { name: String, new: ObjectId },
}

impl RefChange {
    fn to_script_line(&self) -> String {
        match self {
            Self::Move { name, new, old } => format!("update {name}\0{new}\0{old}\0"),
            Self::Set { name, new } => format!("update {name}\0{new}\0\0"),
        }
    }
}

/// Resolves a revision; `None` if it does not exist.
pub(crate) fn resolve_name(git: &GitCommand, name: &str) -> Result<Option<ObjectId>, SandboxError> {
    let output = git.try_run(&["rev-parse", "--verify", "--quiet", "--end-of-options", name])?;
    Ok(std::str::from_utf8(&output.stdout)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|_| output.exit_code == 0))
}

/// Resolves several revisions in one call, because starting git takes most of the time.
pub(crate) fn resolve_names<const N: usize>(
    git: &GitCommand,
    names: [&str; N],
) -> Result<[Option<ObjectId>; N], SandboxError> {
    let arguments = ["cat-file", "--batch-check=%(objectname)"];
    let output = git.run_with_input(&arguments, format!("{}\n", names.join("\n")).as_bytes())?;
    let text = String::from_utf8_lossy(&output);
    let mut lines = text.lines();
    Ok(names.map(|_| lines.next().and_then(|line| line.parse().ok())))
}

/// Runs git and parses its output as one object id.
pub(crate) fn run_for_object_id(
    git: &GitCommand,
    arguments: &[&str],
    input: &[u8],
) -> Result<ObjectId, SandboxError> {
    let output = git.run_with_input(arguments, input)?;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| SandboxError::GitFailed {
        command: arguments[0].to_owned(),
        said: format!("unexpected output `{}`", text.trim()),
    })
}

/// The content of a fence's mark.
fn fence_text(plan_id: PlanId, epoch: Epoch) -> String {
    format!("planwright {plan_id} epoch {epoch}\n")
}

fn write_fence_mark(
    git: &GitCommand,
    plan_id: PlanId,
    epoch: Epoch,
) -> Result<ObjectId, SandboxError> {
    let text = fence_text(plan_id, epoch);
    run_for_object_id(git, &["hash-object", "-w", "--stdin"], text.as_bytes())
}

/// The blob that a fence points to.
struct FenceMark {
    id: ObjectId,
    content: String,
}

fn read_fence_mark(git: &GitCommand, name: &str) -> Result<Option<FenceMark>, SandboxError> {
    let output = git.run_with_input(&["cat-file", "--batch"], format!("{name}\n").as_bytes())?;
    Ok(parse_fence_mark(&String::from_utf8_lossy(&output)).0)
}

/// Reads a fence's mark and then another ref, in one call.
fn read_mark_and_ref(
    git: &GitCommand,
    fence: &str,
    name: &str,
) -> Result<(Option<FenceMark>, Option<ObjectId>), SandboxError> {
    let asked = format!("contents {fence}\ninfo {name}\n");
    let output = git.run_with_input(&["cat-file", "--batch-command"], asked.as_bytes())?;
    let output = String::from_utf8_lossy(&output);
    let (mark, rest) = parse_fence_mark(&output);
    Ok((mark, parse_leading_object_id(rest)))
}

/// Parses a mark at the start of git's output; returns the rest of the output.
fn parse_fence_mark(answer: &str) -> (Option<FenceMark>, &str) {
    let Some((head, rest)) = answer.split_once('\n') else {
        return (None, "");
    };
    let size = head.rsplit(' ').next().and_then(|size| size.parse().ok());
    let (Some(id), Some((content, rest))) = (
        parse_leading_object_id(head),
        size.and_then(|size| rest.split_at_checked(size)),
    ) else {
        return (None, rest);
    };
    // git adds a line break after the content.
    let rest = rest.strip_prefix('\n').unwrap_or(rest);
    let content = content.to_owned();
    (Some(FenceMark { id, content }), rest)
}

fn parse_leading_object_id(line: &str) -> Option<ObjectId> {
    line.split([' ', '\n']).next()?.parse().ok()
}

fn parse_fence_epoch(content: &str) -> Result<u64, SandboxError> {
    content
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|epoch| epoch.parse().ok())
        .ok_or_else(|| SandboxError::GitFailed {
            command: "cat-file".to_owned(),
            said: format!("unexpected fence content `{content}`"),
        })
}
