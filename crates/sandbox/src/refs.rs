//! The refs of ours in the user's repository, and the fence that every change of a ref verifies.

use std::time::Duration;

use plan::{Epoch, PlanId};

use crate::git::{self, Git, at_once};
use crate::{ObjectId, SandboxError};

/// Where everything of ours is.
pub(crate) const ROOT: &str = "refs/planwright/";

/// How often, and with which pause, a fence is voided that a git has locked.
const VOID_TRIES: u32 = 40;
const VOID_PAUSE: Duration = Duration::from_millis(50);

/// Keeps what a plan started from.
pub(crate) fn base(plan: PlanId, room: &str) -> String {
    format!("{ROOT}base/{plan}/{room}")
}

/// Keeps what is about to land.
pub(crate) fn pin(plan: PlanId, room: &str) -> String {
    format!("{ROOT}pin/{plan}/{room}")
}

/// Says that a change landed in the working tree alone.
pub(crate) fn landed(plan: PlanId, room: &str) -> String {
    format!("{ROOT}landed/{plan}/{room}")
}

/// Keeps work that did not land.
pub(crate) fn rescue(plan: PlanId, room: &str) -> String {
    format!("{ROOT}rescue/{plan}/{room}")
}

/// Keeps work of an earlier holder that did not land. No room's name ends in a plus and a number.
pub(crate) fn rescue_of(plan: PlanId, room: &str, made_by: Epoch) -> String {
    format!("{ROOT}rescue/{plan}/{room}+{made_by}")
}

/// Keeps the refs that agents made for themselves. No room is called `agent`: each has a plus in its name.
pub(crate) fn rescue_of_agents(plan: PlanId, room: &str) -> String {
    format!("{ROOT}rescue/{plan}/agent/{room}/")
}

/// Keeps one of them.
pub(crate) fn rescue_of_agent(plan: PlanId, room: &str, made_by: Epoch, name: &str) -> String {
    format!("{}{made_by}/{name}", rescue_of_agents(plan, room))
}

/// Says which holder's word counts.
fn fence(plan: PlanId) -> String {
    format!("{ROOT}fence/{plan}")
}

/// The right to change refs of a repository for a plan, as long as nobody newer came.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    name: String,
    mark: ObjectId,
    epoch: Epoch,
}

impl Fence {
    /// Moves the fence to this epoch, unless a newer one was here.
    pub fn raise(git: &Git, plan: PlanId, epoch: Epoch) -> Result<Self, SandboxError> {
        Self::raise_from(git, plan, epoch, mark_at(git, &fence(plan))?, None)
    }

    /// The same, and what a ref points to once it is raised: nobody older moves it any more.
    pub fn raise_and_read(
        git: &Git,
        plan: PlanId,
        epoch: Epoch,
        name: &str,
    ) -> Result<(Self, Option<ObjectId>), SandboxError> {
        let (there, seen) = mark_and_ref(git, &fence(plan), name)?;
        let was_raised = there
            .as_ref()
            .is_some_and(|mark| mark.said == text(plan, epoch));
        let fence = Self::raise_from(git, plan, epoch, there, None)?;
        // Looked up after the fence, and so also after it had been raised.
        let seen = if was_raised { seen } else { read(git, name)? };
        Ok((fence, seen))
    }

    /// The same where it is hardly raised already: its mark is written without looking first.
    pub fn raise_anew(git: &Git, plan: PlanId, epoch: Epoch) -> Result<Self, SandboxError> {
        let name = fence(plan);
        let (there, mark) = at_once(|| mark_at(git, &name), || write_mark(git, plan, epoch));
        Self::raise_from(git, plan, epoch, there?, Some(mark?))
    }

    /// Makes the fence another than whoever raised it knows, for a holder that is gone: a git that it
    /// started, and that nobody waits for any more, changes no ref after this. The epoch stays, so that
    /// whoever goes on with the plan may raise it as before.
    pub fn void(git: &Git, plan: PlanId) -> Result<(), SandboxError> {
        let name = fence(plan);
        let mut said = String::new();
        // A git that is changing refs at this moment has it locked, and is done soon.
        for _ in 0..VOID_TRIES {
            let Some(there) = mark_at(git, &name)? else {
                return Ok(());
            };
            let epoch = epoch_said(&there.said)?;
            let other = format!("planwright {plan} void {} epoch {epoch}\n", there.id);
            let hash = ["hash-object", "-w", "--stdin"];
            let other = git_object(git, &hash, other.as_bytes())?;
            let answered = git.ask(&["update-ref", &name, other.as_str(), there.id.as_str()])?;
            if answered.code == 0 {
                return Ok(());
            }
            said = answered.stderr;
            std::thread::sleep(VOID_PAUSE);
        }
        Err(git::failed(&["update-ref"], &said))
    }

    fn raise_from(
        git: &Git,
        plan: PlanId,
        epoch: Epoch,
        mut there: Option<Mark>,
        mut written: Option<ObjectId>,
    ) -> Result<Self, SandboxError> {
        let name = fence(plan);
        // Another holder may be raising it at the same moment; whoever loses looks again.
        let mut complained = String::new();
        for _ in 0..8 {
            if let Some(Mark { id, said }) = &there {
                if *said == text(plan, epoch) {
                    let mark = id.clone();
                    return Ok(Self { name, mark, epoch });
                }
                let current = epoch_said(said)?;
                if current > epoch.0 {
                    return Err(SandboxError::Fenced {
                        given: epoch.0,
                        current,
                    });
                }
            }
            let mark = match written.take() {
                Some(mark) => mark,
                None => write_mark(git, plan, epoch)?,
            };
            let old = there.map_or_else(|| mark.nothing_like(), |there| there.id);
            let answered = git.ask(&["update-ref", &name, mark.as_str(), old.as_str()])?;
            if answered.code == 0 {
                return Ok(Self { name, mark, epoch });
            }
            complained = answered.stderr;
            there = mark_at(git, &name)?;
        }
        Err(match git::locked(&complained) {
            Some(lock) => SandboxError::Locked { lock },
            None => SandboxError::TargetMoved { target: name },
        })
    }

    /// Changes refs in one transaction that fails if the fence is not ours any more.
    pub fn change(&self, git: &Git, message: &str, changes: &[Change]) -> Result<(), SandboxError> {
        let mut script = b"start\0".to_vec();
        script.extend(format!("verify {}\0{}\0", self.name, self.mark).bytes());
        for change in changes {
            script.extend(change.line().bytes());
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
        let answered = git.ask_with(&arguments, &script)?;
        if answered.code == 0 {
            return Ok(());
        }
        Err(self.why_not(git, changes, &answered.stderr)?)
    }

    /// Takes the fence down, with whatever else is no longer needed.
    pub fn take_down(self, git: &Git, refs: &[String]) -> Result<(), SandboxError> {
        let mut script = Vec::new();
        for name in refs {
            script.extend(format!("delete {name}\0\0").bytes());
        }
        script.extend(format!("delete {}\0{}\0", self.name, self.mark).bytes());
        git.run_with(&["update-ref", "--stdin", "-z"], &script)
            .map(drop)
    }

    /// Looks why git refused: fenced, moved or locked.
    fn why_not(
        &self,
        git: &Git,
        changes: &[Change],
        said: &str,
    ) -> Result<SandboxError, SandboxError> {
        let there = mark_at(git, &self.name)?;
        if there.as_ref().map(|mark| &mark.id) != Some(&self.mark) {
            let current = match &there {
                Some(mark) => epoch_said(&mark.said)?,
                None => self.epoch.0 + 1,
            };
            return Ok(SandboxError::Fenced {
                given: self.epoch.0,
                current,
            });
        }
        for change in changes {
            if let Change::Move { name, old, .. } = change {
                let now = read(git, name)?;
                let expected = Some(old).filter(|old| !old.is_nothing());
                if now.as_ref() != expected {
                    return Ok(SandboxError::TargetMoved {
                        target: name.clone(),
                    });
                }
            }
        }
        Ok(git::failed(&["update-ref"], said))
    }
}

/// One change of a ref.
#[derive(Debug, Clone)]
pub(crate) enum Change {
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
    Put {
        /// Which.
        name: String,
        /// To.
        new: ObjectId,
    },
}

impl Change {
    fn line(&self) -> String {
        match self {
            Self::Move { name, new, old } => format!("update {name}\0{new}\0{old}\0"),
            Self::Put { name, new } => format!("update {name}\0{new}\0\0"),
        }
    }
}

/// What a ref points to, if it is there.
pub(crate) fn read(git: &Git, name: &str) -> Result<Option<ObjectId>, SandboxError> {
    let answered = git.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", name])?;
    Ok(std::str::from_utf8(&answered.stdout)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|_| answered.code == 0))
}

/// The objects that several names stand for, each if it is there; asked at once, because starting
/// git takes longer than answering.
pub(crate) fn read_all<const N: usize>(
    git: &Git,
    names: [&str; N],
) -> Result<[Option<ObjectId>; N], SandboxError> {
    let arguments = ["cat-file", "--batch-check=%(objectname)"];
    let output = git.run_with(&arguments, format!("{}\n", names.join("\n")).as_bytes())?;
    let text = String::from_utf8_lossy(&output);
    let mut lines = text.lines();
    Ok(names.map(|_| lines.next().and_then(|line| line.parse().ok())))
}

/// The hash of the object that git answers with.
pub(crate) fn git_object(
    git: &Git,
    arguments: &[&str],
    input: &[u8],
) -> Result<ObjectId, SandboxError> {
    let output = git.run_with(arguments, input)?;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().map_err(|_| SandboxError::Git {
        command: arguments[0].to_owned(),
        said: format!("it answered `{}`", text.trim()),
    })
}

/// What the fence of a holder says.
fn text(plan: PlanId, epoch: Epoch) -> String {
    format!("planwright {plan} epoch {epoch}\n")
}

fn write_mark(git: &Git, plan: PlanId, epoch: Epoch) -> Result<ObjectId, SandboxError> {
    let text = text(plan, epoch);
    git_object(git, &["hash-object", "-w", "--stdin"], text.as_bytes())
}

/// What a fence points to.
struct Mark {
    id: ObjectId,
    said: String,
}

/// The mark of a fence, if there is one.
fn mark_at(git: &Git, name: &str) -> Result<Option<Mark>, SandboxError> {
    let output = git.run_with(&["cat-file", "--batch"], format!("{name}\n").as_bytes())?;
    Ok(mark_in(&String::from_utf8_lossy(&output)).0)
}

/// The same, and then what another ref points to, asked at once.
fn mark_and_ref(
    git: &Git,
    fence: &str,
    name: &str,
) -> Result<(Option<Mark>, Option<ObjectId>), SandboxError> {
    let asked = format!("contents {fence}\ninfo {name}\n");
    let output = git.run_with(&["cat-file", "--batch-command"], asked.as_bytes())?;
    let output = String::from_utf8_lossy(&output);
    let (mark, rest) = mark_in(&output);
    Ok((mark, first_word(rest)))
}

/// The mark at the beginning of git's answer, and what comes after it.
fn mark_in(answer: &str) -> (Option<Mark>, &str) {
    let Some((head, rest)) = answer.split_once('\n') else {
        return (None, "");
    };
    let size = head.rsplit(' ').next().and_then(|size| size.parse().ok());
    let (Some(id), Some((said, rest))) = (
        first_word(head),
        size.and_then(|size| rest.split_at_checked(size)),
    ) else {
        return (None, rest);
    };
    // git ends the content with a line break of its own.
    let rest = rest.strip_prefix('\n').unwrap_or(rest);
    let said = said.to_owned();
    (Some(Mark { id, said }), rest)
}

/// The object that a line of git's begins with.
fn first_word(line: &str) -> Option<ObjectId> {
    line.split([' ', '\n']).next()?.parse().ok()
}

fn epoch_said(said: &str) -> Result<u64, SandboxError> {
    said.trim()
        .rsplit(' ')
        .next()
        .and_then(|epoch| epoch.parse().ok())
        .ok_or_else(|| SandboxError::Git {
            command: "cat-file".to_owned(),
            said: format!("the fence says `{said}`"),
        })
}
