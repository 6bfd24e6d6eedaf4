//! Trials: a clean checkout of a result, for a command that says whether it is good.
//!
//! Nobody's work is in it, and nothing comes back out of it. Of several who would try the same thing, one
//! does; the others wait, and find what it found.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::changeset::{PathOperation, TreePath};
use plan::{Digest, Epoch, PlanId};
use rustix::fs::FlockOperation;

use crate::compare::{self, TreeDiff};
use crate::error::FileErrorContext;
use crate::sandboxes::{ResourceLocation, Sandbox, SandboxKey, Sandboxes};
use crate::{LocalResource, ObjectId, SandboxError, checkout, files};

/// A file that is larger is no `planwright.yaml`.
const MAX_READ_FILE_BYTES: u64 = 1 << 20;

/// A place for one trial; gone with it.
#[derive(Debug)]
pub struct CheckDir {
    /// What holds its checkouts.
    pub path: PathBuf,
    /// Held as long as the trial goes on.
    _lock: File,
}

impl Drop for CheckDir {
    fn drop(&mut self) {
        // What is left behind is removed by whoever tries next, or with the plan.
        let _ = files::remove_tree(&self.path);
    }
}

/// One changed path, with how much changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDiffStat {
    /// Where it is, or was.
    pub path: TreePath,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// What happened to it.
    pub operation: PathOperation,
    /// Lines that came; none are counted in a binary file.
    pub insertions: u64,
    /// Lines that went.
    pub deletions: u64,
    /// Has it lines at all?
    pub binary: bool,
    /// How large it is now, in bytes.
    pub size: u64,
    /// File mode now, in octal; empty if it is gone.
    pub mode: String,
}

impl Sandboxes {
    /// A place to try something out; nothing while somebody else tries the same.
    pub fn lock_check_dir(
        &self,
        plan_id: PlanId,
        subject: Digest,
    ) -> Result<Option<CheckDir>, SandboxError> {
        let name = &subject.to_string()[..24];
        let directory = self.plan_directory(plan_id).join("trials");
        self.make_home_directory(&directory)?;
        let lock_path = directory.join(format!("{name}.turn"));
        let lock_file = files::create_private_file(&lock_path).while_being("made", &lock_path)?;
        match rustix::fs::flock(&lock_file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error).while_being("locked", &lock_path),
        }
        let path = directory.join(name);
        files::remove_tree(&path)?;
        files::make_private_directory(&path)?;
        Ok(Some(CheckDir {
            path,
            _lock: lock_file,
        }))
    }

    /// A clean checkout of a tree in a trial, as a repository of its own.
    pub fn make_check_checkout(
        &self,
        check_dir: &CheckDir,
        key: &SandboxKey<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let repository = self.open_repository(key.resource)?;
        let vault = self.create_vault(key, &repository)?;
        let name = key.dir_name();
        let sandbox = Sandbox {
            path: check_dir.path.join(&name),
            index_path: check_dir.path.join(format!("{name}.index")),
            base: base.clone(),
            creator_epoch: Epoch(0),
            holder_epoch: Epoch(0),
            conflicts: Vec::new(),
            given_repository: None,
        };
        files::make_private_directory(&sandbox.path)?;
        checkout::check_out_tree(&vault, &sandbox, tree)?;
        let branch = match &key.resource.location {
            ResourceLocation::Git { target, .. } => target.as_str(),
            ResourceLocation::Dir { .. } => "refs/heads/main",
        };
        checkout::create_agent_repository(&vault, &repository, &sandbox, branch)?;
        Ok(sandbox)
    }

    /// The tree of a commit that was merged for a resource.
    pub fn read_tree_of(
        &self,
        key: &SandboxKey<'_>,
        commit: &ObjectId,
    ) -> Result<ObjectId, SandboxError> {
        self.vault_for(key).read_tree_of(commit)
    }

    /// A file of a resource at a commit; of a directory, as it is now. None if there is none, or if it is
    /// no plain file.
    pub fn read_file_at(
        &self,
        resource: &LocalResource,
        commit: Option<&ObjectId>,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        if let ResourceLocation::Dir { path: directory } = &resource.location {
            return read_limited_file(&directory.join(path));
        }
        let Some(commit) = commit else {
            return Ok(None);
        };
        let git = self.open_repository(resource)?.git();
        let name = format!("{commit}:{path}");
        let size = git.try_run(&["cat-file", "-s", &name])?;
        let size = String::from_utf8_lossy(&size.stdout).trim().parse::<u64>();
        match size {
            Ok(size) if size <= MAX_READ_FILE_BYTES => {
                let answered = git.try_run(&["cat-file", "blob", &name])?;
                Ok((answered.exit_code == 0).then_some(answered.stdout))
            }
            Ok(_) => Err(SandboxError::Uncapturable {
                path: TreePath::new(path.as_bytes())?,
                why: "it is larger than a megabyte",
            }),
            Err(_) => Ok(None),
        }
    }
}

impl Sandboxes {
    /// A file as it is in the working tree of a resource. None if there is none.
    pub fn read_working_tree_file(
        &self,
        resource: &LocalResource,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        read_limited_file(&resource.location.path().join(path))
    }

    /// Every path in a commit of a repository.
    pub fn list_paths_at(
        &self,
        resource: &LocalResource,
        commit: &ObjectId,
    ) -> Result<Vec<TreePath>, SandboxError> {
        let git = self.open_repository(resource)?.git();
        let asked = ["ls-tree", "-r", "-z", "--name-only", "--full-tree"];
        let listed = git.run(&[&asked[..], &[commit.as_str()]].concat())?;
        let paths = listed.split(|byte| *byte == 0);
        let paths = paths.filter(|path| !path.is_empty()).map(TreePath::new);
        Ok(paths.collect::<Result<_, _>>()?)
    }
}

fn read_limited_file(path: &Path) -> Result<Option<Vec<u8>>, SandboxError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if files::is_not_found(&error) => return Ok(None),
        Err(error) => return Err(error).while_being("read", path),
    };
    let mut content = Vec::new();
    let mut limited = file.take(MAX_READ_FILE_BYTES);
    limited
        .read_to_end(&mut content)
        .while_being("read", path)?;
    Ok(Some(content))
}

impl TreeDiff {
    /// Everything that changed, with how much.
    pub fn list_path_stats(&self) -> Result<Vec<PathDiffStat>, SandboxError> {
        let lines = compare::read_raw_diff(&self.git, &["-M"], &self.old, &self.new, &[])?;
        let counted = self.count_lines(&[])?;
        let counted: BTreeMap<_, _> = counted.iter().map(|one| (&one.path, one)).collect();
        let sizes = self.read_sizes(&lines)?;
        let mut stats = Vec::new();
        for (line, size) in lines.into_iter().zip(sizes) {
            let counts = counted.get(&line.path);
            let insertions = counts.and_then(|one| one.insertions);
            let deletions = counts.and_then(|one| one.deletions);
            stats.push(PathDiffStat {
                operation: compare::parse_operation(line.status),
                path: line.path,
                from: line.from,
                binary: insertions.is_none(),
                insertions: insertions.unwrap_or(0),
                deletions: deletions.unwrap_or(0),
                size,
                mode: line.after.map(|blob| blob.mode).unwrap_or_default(),
            });
        }
        Ok(stats)
    }

    /// How large each of them is now.
    fn read_sizes(&self, lines: &[compare::RawDiffLine]) -> Result<Vec<u64>, SandboxError> {
        let mut names = String::new();
        for line in lines {
            // Nothing has the hash of nothing; git says "missing" to it.
            let id = line.after.as_ref().map_or("0", |blob| blob.id.as_str());
            names.push_str(id);
            names.push('\n');
        }
        let asked = ["cat-file", "--batch-check=%(objectsize)"];
        let answer = self.git.run_with_input(&asked, names.as_bytes())?;
        let answer = String::from_utf8_lossy(&answer);
        let sizes = answer.lines().map(|line| line.parse().unwrap_or(0));
        Ok(sizes.collect())
    }
}
