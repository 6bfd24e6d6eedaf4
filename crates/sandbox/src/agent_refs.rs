//! Rescues what an agent left in its sandbox's repository: branches, tags, stashes, a detached
//! HEAD.
//!
//! The agent controls that repository, so git never runs in it. Its refs and reflogs are read as
//! data, and its object files are linked into a scratch repository. A git that checks every object
//! copies what the refs point to into the user's repository. What fails the check is kept below the
//! home, in a form that git does not accept as a repository.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use plan::PlanId;

use crate::cleanup::RescueRef;
use crate::error::FileErrorContext;
use crate::git::GitCommand;
use crate::local_resource::SandboxKey;
use crate::sandboxes::{Sandbox, Sandboxes};
use crate::step_faults::SandboxStep;
use crate::{
    ObjectId, Repository, SandboxError, SandboxRescue, files, open_for_person, refs, vault,
};

/// An agent that makes more refs is not working normally.
const MAX_REFS: usize = 1_000;

/// How deep below `refs` a ref name may be nested.
const MAX_REF_DEPTH: usize = 16;

/// How many of the newest entries of HEAD's reflog are kept.
const MAX_REFLOG_ENTRIES: usize = 100;

/// The largest refs or reflog file that is read.
const MAX_REF_FILE_BYTES: u64 = 16 << 20;

/// A longer ref name is replaced by a number.
const MAX_NAME_BYTES: usize = 200;

/// How many files of an agent's repository are linked.
const MAX_LINKED_FILES: usize = 500_000;

/// What was kept of the agents' repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptAgentRefs {
    /// Refs in the user's repository.
    pub refs: Vec<RescueRef>,
    /// Directories with the refs and objects of repositories that could not be read completely or
    /// failed git's checks.
    pub raw_copies: Vec<PathBuf>,
}

/// A ref of the agent, by the name it will be kept under.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AgentRef {
    name: String,
    object_id: ObjectId,
}

#[derive(Debug, Default)]
struct AgentRefs {
    refs: Vec<AgentRef>,
    /// The commit that is checked out.
    head: Option<ObjectId>,
    /// Some refs could not be read.
    is_incomplete: bool,
}

impl SandboxRescue<'_> {
    /// Keeps every ref of the agents' repositories that points to objects the user's repository
    /// does not have. If the plan landed, the checked-out commit counts as landed. Safe to repeat.
    pub fn rescue_agent_refs(
        &self,
        key: &SandboxKey<'_>,
        has_landed: bool,
    ) -> Result<KeptAgentRefs, SandboxError> {
        let mut kept = KeptAgentRefs::default();
        for sandbox in self
            .sandboxes
            .list_sandboxes(key)?
            .iter()
            .filter(|sandbox| sandbox.exists())
        {
            let Ok(Some(git_dir)) = files::open_directory_below(&sandbox.path, &[".git"]) else {
                // Removed, or never completed: there is nothing to keep.
                continue;
            };
            let mut agent = AgentRefs::read(&git_dir, has_landed);
            let mut git_dirs = vec![git_dir];
            // If a clean repository replaced the agent's, the clean one has the refs and the
            // replaced one the objects.
            for path in open_for_person::list_set_aside_repositories(sandbox)? {
                let Ok(Some(git_dir)) = files::open_directory_below(&path, &[]) else {
                    continue;
                };
                agent.is_incomplete |= has_reftable(&git_dir);
                git_dirs.push(git_dir);
            }
            self.rescue_sandbox_refs(key, sandbox, &git_dirs, agent, has_landed, &mut kept)?;
        }
        Ok(kept)
    }

    fn rescue_sandbox_refs(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git_dirs: &[OwnedFd],
        agent: AgentRefs,
        has_landed: bool,
        kept: &mut KeptAgentRefs,
    ) -> Result<(), SandboxError> {
        let mut known = BTreeSet::from([sandbox.base.clone()]);
        known.extend(agent.head.clone().filter(|_| has_landed));
        let mut found = agent.refs;
        found.retain(|one| !known.contains(&one.object_id));
        let mut is_incomplete = agent.is_incomplete;
        if !found.is_empty() {
            let repository = self.sandboxes.open_repository(key.resource)?;
            let source = ObjectSource::open(self.sandboxes, key, sandbox, &repository, git_dirs)?;
            source.retain_present(&mut known)?;
            for one in &found {
                let name = refs::agent_rescue_ref(
                    key.plan_id,
                    &key.dir_name(),
                    sandbox.creator_epoch,
                    &one.name,
                );
                match source.copy_ref(&repository, &one.object_id, &sandbox.base, &known, &name)? {
                    RefCopyOutcome::New { is_history } => {
                        known.extend(is_history.then(|| one.object_id.clone()));
                        kept.refs
                            .push(make_rescue_ref(key.plan_id, name, &one.object_id));
                        self.sandboxes
                            .capture()
                            .complete_step(SandboxStep::Rescued, repository.path())?;
                    }
                    RefCopyOutcome::Known => {}
                    RefCopyOutcome::Refused => is_incomplete = true,
                }
            }
        }
        if is_incomplete {
            let raw_copy = self.copy_raw_repository(key, sandbox, git_dirs)?;
            kept.raw_copies.push(raw_copy);
        }
        Ok(())
    }

    /// Keeps the files of an agent's repository as they are, without configuration and HEAD. So git
    /// does not accept it as a repository and cannot run what the agent configured.
    fn copy_raw_repository(
        &self,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        git_dirs: &[OwnedFd],
    ) -> Result<PathBuf, SandboxError> {
        let rescued = self
            .sandboxes
            .home()
            .join("rescued")
            .join(key.plan_id.to_string());
        self.sandboxes.home().make_home_directory(&rescued)?;
        let raw_copy = rescued.join(format!(
            "{}+{}-agent",
            key.dir_name(),
            sandbox.creator_epoch
        ));
        files::remove_tree(&raw_copy)?;
        let mut remaining_files = MAX_LINKED_FILES;
        for (number, git_dir) in git_dirs.iter().enumerate() {
            let aside = raw_copy.join(number.to_string());
            files::make_private_directory(&aside)?;
            for name in ["objects", "refs", "logs", "reftable"] {
                let copy = aside.join(name);
                if let Ok(Some(_)) = files::open_directory_at(git_dir, OsStr::new(name)) {
                    let linked =
                        files::link_tree(git_dir, OsStr::new(name), &copy, &mut remaining_files);
                    linked.while_being("copied", &copy)?;
                }
            }
            if let Ok(Some(text)) = read_git_file(git_dir, &[], "packed-refs") {
                files::write_private_file(&aside.join("packed-refs"), &text)?;
            }
        }
        Ok(raw_copy)
    }

    /// The agent refs that are kept for a plan.
    pub fn list_rescued_agent_refs(
        &self,
        key: &SandboxKey<'_>,
    ) -> Result<Vec<RescueRef>, SandboxError> {
        let git = self.sandboxes.open_repository(key.resource)?.git();
        let below = refs::agent_rescue_prefix(key.plan_id, &key.dir_name());
        let format = "--format=%(objectname) %(refname)";
        let listed = git.read_line(&["for-each-ref", format, &below])?;
        let lines = listed.lines().filter_map(|line| line.split_once(' '));
        let found = lines.filter_map(|(object, name)| {
            let object: ObjectId = object.parse().ok()?;
            Some(make_rescue_ref(key.plan_id, name.to_owned(), &object))
        });
        Ok(found.collect())
    }
}

fn make_rescue_ref(plan_id: PlanId, name: String, object: &ObjectId) -> RescueRef {
    RescueRef {
        plan_id,
        ref_name: name,
        commit: object.clone(),
    }
}

impl AgentRefs {
    fn read(git_dir: &OwnedFd, has_landed: bool) -> Self {
        let mut agent_refs = Self::default();
        let read = |name: &str| read_git_file(git_dir, &[], name);
        agent_refs.is_incomplete = has_reftable(git_dir);
        let head = match read("HEAD") {
            Ok(text) => text.unwrap_or_default(),
            Err(_) => {
                agent_refs.is_incomplete = true;
                Vec::new()
            }
        };
        match files::open_directory_below_at(git_dir, &["refs"]) {
            Ok(Some(directory)) => agent_refs.read_loose_refs(&directory, "", 0),
            Ok(None) => {}
            Err(_) => agent_refs.is_incomplete = true,
        }
        match read("packed-refs") {
            Ok(text) => agent_refs.read_packed_refs(&text.unwrap_or_default()),
            Err(_) => agent_refs.is_incomplete = true,
        }
        let head = String::from_utf8_lossy(&head).trim().to_owned();
        match head.strip_prefix("ref: ") {
            Some(branch) => {
                let branch = branch.trim().strip_prefix("refs/").unwrap_or(branch);
                let tip = agent_refs.refs.iter().find(|one| one.name == branch);
                agent_refs.head = tip.map(|one| one.object_id.clone());
            }
            None => {
                agent_refs.head = head.parse().ok();
                agent_refs.add_ref("HEAD", head.as_bytes());
            }
        }
        match read_git_file(git_dir, &["logs", "refs"], "stash") {
            Ok(text) => agent_refs.read_stashes(&text.unwrap_or_default()),
            Err(_) => agent_refs.is_incomplete = true,
        }
        if !has_landed && let Ok(text) = read_git_file(git_dir, &["logs"], "HEAD") {
            agent_refs.read_reflog(&text.unwrap_or_default());
        }
        agent_refs
    }

    fn read_loose_refs(&mut self, directory: &OwnedFd, parent_name: &str, depth: usize) {
        let names = match files::list_names_at(directory, MAX_REFS) {
            Ok(names) if depth < MAX_REF_DEPTH => names,
            Ok(_) | Err(_) => {
                self.is_incomplete = true;
                return;
            }
        };
        for file in names {
            let name = match file.to_str() {
                Some(name) if parent_name.is_empty() => name.to_owned(),
                Some(name) => format!("{parent_name}/{name}"),
                None => format!("{parent_name}/\u{fffd}"),
            };
            if let Ok(Some(inner)) = files::open_directory_at(directory, &file) {
                self.read_loose_refs(&inner, &name, depth + 1);
                continue;
            }
            match files::read_regular_file_at(directory, &file, MAX_REF_FILE_BYTES) {
                Ok(Some(text)) if text.starts_with(b"ref: ") => {}
                Ok(Some(text)) => self.add_ref(&name, &text),
                Ok(None) => {}
                Err(_) => self.is_incomplete = true,
            }
        }
    }

    fn read_packed_refs(&mut self, text: &[u8]) {
        for line in String::from_utf8_lossy(text).lines() {
            if line.starts_with(['#', '^']) {
                continue;
            }
            let Some((object, name)) = line.split_once(' ') else {
                continue;
            };
            let name = name.strip_prefix("refs/").unwrap_or(name);
            // A loose ref of the same name is newer.
            if !self.refs.iter().any(|one| one.name == name) {
                self.add_ref(name, object.as_bytes());
            }
        }
    }

    /// Reads the older stashes; the newest is `refs/stash` itself.
    fn read_stashes(&mut self, log: &[u8]) {
        for (number, object) in list_reflog_objects(log).enumerate().skip(1) {
            self.add_ref(&format!("stash-{number}"), object.as_bytes());
        }
    }

    /// Reads where HEAD was, to keep commits that were amended or reset away.
    fn read_reflog(&mut self, log: &[u8]) {
        for (number, object) in list_reflog_objects(log)
            .take(MAX_REFLOG_ENTRIES)
            .enumerate()
        {
            if !self.refs.iter().any(|one| one.object_id.as_str() == object) {
                self.add_ref(&format!("reflog/{number}"), object.as_bytes());
            }
        }
    }

    fn add_ref(&mut self, name: &str, text: &[u8]) {
        if self.refs.len() >= MAX_REFS {
            self.is_incomplete = true;
            return;
        }
        let text = String::from_utf8_lossy(text);
        match text.trim().parse::<ObjectId>() {
            Ok(object) if !object.is_null() => {
                let name = match is_valid_ref_name(name) {
                    true => name.to_owned(),
                    false => format!("unnamed/{}", self.refs.len()),
                };
                self.refs.push(AgentRef {
                    name,
                    object_id: object,
                });
            }
            // A killed git can leave an empty file.
            Ok(_) => {}
            Err(_) => self.is_incomplete |= !text.trim().is_empty(),
        }
    }
}

/// Are refs stored in the reftable format, which only git can read?
fn has_reftable(git_dir: &OwnedFd) -> bool {
    files::open_directory_below_at(git_dir, &["reftable"]).is_ok_and(|found| found.is_some())
}

/// Reads a file of an agent's repository as data.
fn read_git_file(
    git_dir: &OwnedFd,
    above: &[&str],
    name: &str,
) -> std::io::Result<Option<Vec<u8>>> {
    match files::open_directory_below_at(git_dir, above)? {
        Some(directory) => {
            files::read_regular_file_at(&directory, OsStr::new(name), MAX_REF_FILE_BYTES)
        }
        None => Ok(None),
    }
}

/// The object ids in a reflog, newest first, without duplicates.
fn list_reflog_objects(log: &[u8]) -> impl Iterator<Item = String> {
    let mut seen = BTreeSet::new();
    let text = String::from_utf8_lossy(log).into_owned();
    let new = text.lines().rev().filter_map(|line| {
        let object = line.split(' ').nth(1)?;
        seen.insert(object.to_owned()).then(|| object.to_owned())
    });
    new.collect::<Vec<_>>().into_iter()
}

/// Checks a ref name like `git check-ref-format`, and a little stricter.
fn is_valid_ref_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || " ~^:?*[\\\u{fffd}".contains(c);
    let component = |part: &str| {
        let ends_badly = part.ends_with('.') || part.ends_with(".lock");
        !part.is_empty() && !part.starts_with(['.', '-']) && !ends_badly && part != "@"
    };
    name.len() <= MAX_NAME_BYTES
        && !name.contains(is_bad)
        && !name.contains("..")
        && !name.contains("@{")
        && name.split('/').all(component)
}

enum RefCopyOutcome {
    /// Copied to the user's repository, under its own ref.
    New {
        /// Is it a commit, or a tag that may point to one?
        is_history: bool,
    },
    /// Reachable from known commits.
    Known,
    /// Missing, damaged, or rejected by git's checks.
    Refused,
}

/// A scratch repository with the objects of an agent's repository; removed when dropped.
struct ObjectSource {
    source_git: GitCommand,
    /// Removed when dropped.
    _scratch: crate::compare::ScratchDir,
}

impl ObjectSource {
    fn open(
        sandboxes: &Sandboxes,
        key: &SandboxKey<'_>,
        sandbox: &Sandbox,
        repository: &Repository,
        git_dirs: &[OwnedFd],
    ) -> Result<Self, SandboxError> {
        let vault = sandboxes.vaults().open_vault(key)?;
        // Beside the sandbox: hard links need the same file system.
        let path = sandbox.index_path.with_extension("agent-objects");
        files::remove_tree(&path)?;
        let scratch = crate::compare::ScratchDir(path.clone());
        vault::create_bare_repository(&path, repository.object_format())?;
        // Written by us: the agent's own list may name any directory on the machine.
        let lenders = [repository.common_dir().join("objects"), vault.objects_dir()];
        vault::write_alternates(&path, &lenders)?;
        vault::mirror_file(vault.path(), &path, "shallow")?;
        let mut remaining_files = MAX_LINKED_FILES;
        for git_dir in git_dirs {
            let Ok(Some(objects)) = files::open_directory_below_at(git_dir, &["objects"]) else {
                continue;
            };
            let names = files::list_names_at(&objects, MAX_LINKED_FILES);
            let mut names = names.while_being("read", &sandbox.path)?;
            names.retain(|name| name.to_str().is_some_and(is_object_directory));
            for name in names {
                let copy = path.join("objects").join(&name);
                // Anything but a directory holds no objects.
                if let Ok(Some(_)) = files::open_directory_at(&objects, &name) {
                    let linked = files::link_tree(&objects, &name, &copy, &mut remaining_files);
                    linked.while_being("copied", &copy)?;
                }
            }
        }
        Ok(Self {
            source_git: GitCommand::at_git_dir(repository.git_env(), &path),
            _scratch: scratch,
        })
    }

    /// Keeps only commits that exist in the scratch repository; `rev-list` fails on others.
    fn retain_present(&self, known: &mut BTreeSet<ObjectId>) -> Result<(), SandboxError> {
        let mut present = BTreeSet::new();
        for object in known.iter() {
            let commit = format!("{object}^{{commit}}");
            if refs::resolve_name(&self.source_git, &commit)?.is_some() {
                present.insert(object.clone());
            }
        }
        *known = present;
        Ok(())
    }

    /// Copies an object and what it reaches into the user's repository and creates a ref to it.
    fn copy_ref(
        &self,
        repository: &Repository,
        object: &ObjectId,
        base: &ObjectId,
        known: &BTreeSet<ObjectId>,
        name: &str,
    ) -> Result<RefCopyOutcome, SandboxError> {
        let kind = self
            .source_git
            .try_run(&["cat-file", "-t", object.as_str()])?;
        let is_history = matches!(kind.stdout.as_slice(), b"commit\n" | b"tag\n");
        if kind.exit_code != 0 {
            return Ok(RefCopyOutcome::Refused);
        }
        // A tag's message exists nowhere else, so a tag is copied even if its commit is known.
        if kind.stdout == b"commit\n" {
            let mut arguments = vec!["rev-list", "--max-count=1", object.as_str(), "--not"];
            arguments.extend(known.iter().map(ObjectId::as_str));
            let listed = self.source_git.try_run(&arguments)?;
            match (listed.exit_code, listed.stdout.is_empty()) {
                (0, true) => return Ok(RefCopyOutcome::Known),
                (0, false) => {}
                (_, _) => return Ok(RefCopyOutcome::Refused),
            }
        }
        let user_git = repository.git();
        // The base may be a snapshot of uncommitted changes that only the vault has. Its first
        // parent is the user's.
        let has_base = user_git
            .try_run(&["cat-file", "-e", base.as_str()])?
            .exit_code
            == 0;
        let below = if has_base { "" } else { "^1" };
        let mut wanted = format!("{object}\n^{base}{below}\n");
        for present in list_present_commits(&user_git, known)? {
            wanted.push_str(&format!("^{present}\n"));
        }
        let pack = ["pack-objects", "--revs", "--stdout", "--quiet"];
        // `index-pack --strict` computes every object's id itself and rejects objects that are
        // dangerous to check out.
        let index = ["index-pack", "--stdin", "--strict"];
        match self
            .source_git
            .pipe_into(&pack, wanted.as_bytes(), &user_git, &index)
        {
            Ok(_) => {}
            Err(SandboxError::GitFailed { .. }) => return Ok(RefCopyOutcome::Refused),
            Err(error) => return Err(error),
        }
        let packs = repository.common_dir().join("objects/pack");
        files::sync_directory(&packs)?;
        match user_git.run(&["update-ref", name, object.as_str()]) {
            Ok(_) => Ok(RefCopyOutcome::New { is_history }),
            // This name is a directory of an existing ref, or the reverse.
            Err(SandboxError::GitFailed { .. }) => Ok(RefCopyOutcome::Refused),
            Err(error) => Err(error),
        }
    }
}

/// The commits that a repository has; what they reach need not be copied.
fn list_present_commits(
    git: &GitCommand,
    known: &BTreeSet<ObjectId>,
) -> Result<Vec<ObjectId>, SandboxError> {
    let asked: String = known.iter().map(|object| format!("{object}\n")).collect();
    let output = git.run_with_input(&["cat-file", "--batch-check"], asked.as_bytes())?;
    let lines = output.split(|byte| *byte == b'\n');
    let is_there = |(line, _): &(&[u8], &ObjectId)| line.windows(8).any(|part| part == b" commit ");
    let found = lines.zip(known).filter(is_there);
    Ok(found.map(|(_, object)| object.clone()).collect())
}

/// Is this the name of a directory below `objects` that holds objects?
fn is_object_directory(name: &str) -> bool {
    let is_hexadecimal = |byte: u8| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase();
    name == "pack" || (name.len() == 2 && name.bytes().all(is_hexadecimal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ref_names_that_git_refuses_are_invalid() {
        for good in ["heads/main", "tags/v1.0", "stash", "HEAD", "heads/a-b/c_d"] {
            assert!(is_valid_ref_name(good), "{good}");
        }
        for bad in [
            "", "/", "a//b", "a/", ".a", "a/.b", "a.lock", "a..b", "a b", "a~1", "a:b", "a\nb",
            "@", "a/@{0}", "-a", "a.",
        ] {
            assert!(!is_valid_ref_name(bad), "{bad}");
        }
        assert!(!is_valid_ref_name(&"a".repeat(MAX_NAME_BYTES + 1)));
    }
}
