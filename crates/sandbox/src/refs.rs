//! The refs of ours in the user's repository, and the fence that every change of a ref verifies.

use std::time::Duration;

use plan::{Epoch, PlanId};

use crate::git::{self, GitCommand, run_both};
use crate::{ObjectId, SandboxError};

/// Where everything of ours is.
pub(crate) const REF_ROOT: &str = "refs/planwright/";

/// How often, and with which pause, a fence is voided that a git has locked.
const MAX_VOID_ATTEMPTS: u32 = 40;
const VOID_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Keeps what a plan started from.
pub(crate) fn base_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}base/{plan_id}/{dir_name}")
}

/// Keeps what is about to land.
pub(crate) fn pin_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}pin/{plan_id}/{dir_name}")
}

/// Says that a change landed in the working tree alone.
pub(crate) fn landed_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}landed/{plan_id}/{dir_name}")
}

/// Keeps work that did not land.
pub(crate) fn rescue_ref(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/{dir_name}")
}

/// Keeps work of an earlier holder that did not land. No room's name ends in a plus and a number.
pub(crate) fn older_rescue_ref(plan_id: PlanId, dir_name: &str, made_by: Epoch) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/{dir_name}+{made_by}")
}

/// Keeps the refs that agents made for themselves. No room is called `agent`: each has a plus in its name.
pub(crate) fn agent_rescue_prefix(plan_id: PlanId, dir_name: &str) -> String {
    format!("{REF_ROOT}rescue/{plan_id}/agent/{dir_name}/")
}

/// Keeps one of them.
pub(crate) fn agent_rescue_ref(
    plan_id: PlanId,
    dir_name: &str,
    made_by: Epoch,
    name: &str,
) -> String {
    format!("{}{made_by}/{name}", agent_rescue_prefix(plan_id, dir_name))
}

/// Says which holder's word counts.
fn fence_ref(plan_id: PlanId) -> String {
    format!("{REF_ROOT}fence/{plan_id}")
}

/// The right to change refs of a repository for a plan, as long as nobody newer came.
#[derive(Debug, Clone)]
pub(crate) struct EpochFence {
    ref_name: String,
    mark_id: ObjectId,
    epoch: Epoch,
}

impl EpochFence {
    /// Moves the fence to this epoch, unless a newer one was here.
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

    /// The same, and what a ref points to once it is raised: nobody older moves it any more.
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
        // Looked up after the fence, and so also after it had been raised.
        let seen = if was_raised {
            seen
        } else {
            resolve_name(git, name)?
        };
        Ok((fence, seen))
    }

    /// The same where it is hardly raised already: its mark is written without looking first.
    pub fn raise_without_reading(
        git: &GitCommand,
        plan_id: PlanId,
        epoch: Epoch,
    ) -> Result<Self, SandboxError> {
        let name = fence_ref(plan_id);
        let (there, mark) = run_both(
            || read_fence_mark(git, &name),
            || write_fence_mark(git, plan_id, epoch),
        );
        Self::raise_from(git, plan_id, epoch, there?, Some(mark?))
    }

    /// Makes the fence another than whoever raised it knows, for a holder that is gone: a git that it
    /// started, and that nobody waits for any more, changes no ref after this. The epoch stays, so that
    /// whoever goes on with the plan may raise it as before.
    pub fn invalidate(git: &GitCommand, plan_id: PlanId) -> Result<(), SandboxError> {
        let name = fence_ref(plan_id);
        let mut last_stderr = String::new();
        // A git that is changing refs at this moment has it locked, and is done soon.
        for _ in 0..MAX_VOID_ATTEMPTS {
            let Some(there) = read_fence_mark(git, &name)? else {
                return Ok(());
            };
            let epoch = parse_fence_epoch(&there.content)?;
            let other = format!("planwright {plan_id} void {} epoch {epoch}\n", there.id);
            let hash = ["hash-object", "-w", "--stdin"];
            let other = run_for_object_id(git, &hash, other.as_bytes())?;
            let answered =
                git.try_run(&["update-ref", &name, other.as_str(), there.id.as_str()])?;
            if answered.exit_code == 0 {
                return Ok(());
            }
            last_stderr = answered.stderr;
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
        // Another holder may be raising it at the same moment; whoever loses looks again.
        let mut last_stderr = String::new();
        for _ in 0..8 {
            if let Some(FenceMark { id, content: said }) = &current_mark {
                if *said == fence_text(plan_id, epoch) {
                    let mark = id.clone();
                    return Ok(Self {
                        ref_name: name,
                        mark_id: mark,
                        epoch,
                    });
                }
                let current = parse_fence_epoch(said)?;
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
            let old = current_mark.map_or_else(|| mark.null_id(), |there| there.id);
            let answered = git.try_run(&["update-ref", &name, mark.as_str(), old.as_str()])?;
            if answered.exit_code == 0 {
                return Ok(Self {
                    ref_name: name,
                    mark_id: mark,
                    epoch,
                });
            }
            last_stderr = answered.stderr;
            current_mark = read_fence_mark(git, &name)?;
        }
        Err(match git::find_lock_path(&last_stderr) {
            Some(lock) => SandboxError::LockedByGit { lock },
            None => SandboxError::TargetMoved { target: name },
        })
    }

    /// Changes refs in one transaction that fails if the fence is not ours any more.
    pub fn update_refs(
        &self,
        git: &GitCommand,
        message: &str,
        changes: &[RefChange],
    ) -> Result<(), SandboxError> {
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
        let answered = git.try_run_with_input(&arguments, &script)?;
        if answered.exit_code == 0 {
            return Ok(());
        }
        Err(self.diagnose_refusal(git, changes, &answered.stderr)?)
    }

    /// Takes the fence down, with whatever else is no longer needed.
    pub fn remove_with_refs(self, git: &GitCommand, refs: &[String]) -> Result<(), SandboxError> {
        let mut script = Vec::new();
        for name in refs {
            script.extend(format!("delete {name}\0\0").bytes());
        }
        script.extend(format!("delete {}\0{}\0", self.ref_name, self.mark_id).bytes());
        git.run_with_input(&["update-ref", "--stdin", "-z"], &script)
            .map(drop)
    }

    /// Looks why git refused: fenced, moved or locked.
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

/// One change of a ref.
#[derive(Debug, Clone)]
pub(crate) enum RefChange {
    /// From `old` (nothing: it must not exist) to `new`.
    Move {
        /// Which.
        name: String,
        /// To.
        new: ObjectId,
        /// From.
        old: ObjectId,
    },
    /// To `new`, wherever it was.
    Set {
        /// Which.
        name: String,
        /// To.
        new: ObjectId,
    },
}

impl RefChange {
    fn to_script_line(&self) -> String {
        match self {
            Self::Move { name, new, old } => format!("update {name}\0{new}\0{old}\0"),
            Self::Set { name, new } => format!("update {name}\0{new}\0\0"),
        }
    }
}

/// What a ref points to, if it is there.
pub(crate) fn resolve_name(git: &GitCommand, name: &str) -> Result<Option<ObjectId>, SandboxError> {
    let answered = git.try_run(&["rev-parse", "--verify", "--quiet", "--end-of-options", name])?;
    Ok(std::str::from_utf8(&answered.stdout)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|_| answered.exit_code == 0))
}

/// The objects that several names stand for, each if it is there; asked at once, because starting
/// git takes longer than answering.
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

/// The hash of the object that git answers with.
pub(crate) fn run_for_object_id(
    git: &GitCommand,
    arguments: &[&str],
    input: &[u8],
) -> Result<ObjectId, SandboxError> {
    let output = git.run_with_input(arguments, input)?;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| SandboxError::GitFailed {
        command: arguments[0].to_owned(),
        said: format!("it answered `{}`", text.trim()),
    })
}

/// What the fence of a holder says.
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

/// What a fence points to.
struct FenceMark {
    id: ObjectId,
    content: String,
}

/// The mark of a fence, if there is one.
fn read_fence_mark(git: &GitCommand, name: &str) -> Result<Option<FenceMark>, SandboxError> {
    let output = git.run_with_input(&["cat-file", "--batch"], format!("{name}\n").as_bytes())?;
    Ok(parse_fence_mark(&String::from_utf8_lossy(&output)).0)
}

/// The same, and then what another ref points to, asked at once.
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

/// The mark at the beginning of git's answer, and what comes after it.
fn parse_fence_mark(answer: &str) -> (Option<FenceMark>, &str) {
    let Some((head, rest)) = answer.split_once('\n') else {
        return (None, "");
    };
    let size = head.rsplit(' ').next().and_then(|size| size.parse().ok());
    let (Some(id), Some((said, rest))) = (
        parse_leading_object_id(head),
        size.and_then(|size| rest.split_at_checked(size)),
    ) else {
        return (None, rest);
    };
    // git ends the content with a line break of its own.
    let rest = rest.strip_prefix('\n').unwrap_or(rest);
    let said = said.to_owned();
    (Some(FenceMark { id, content: said }), rest)
}

/// The object that a line of git's begins with.
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
            said: format!("the fence says `{content}`"),
        })
}
