//! Trials: a clean checkout of a result, for a command that says whether it is good.
//!
//! Nobody's work is in it, and nothing comes back out of it. Of several who would try the same thing, one
//! does; the others wait, and find what it found.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use plan::changeset::{Operation, TreePath};
use plan::{Digest, Epoch, PlanId};
use rustix::fs::FlockOperation;

use crate::compare::{self, Look};
use crate::error::Doing;
use crate::room::{Room, Sandbox, SitePlace, Workshop};
use crate::{ObjectId, SandboxError, Site, checkout, files};

/// A file that is larger is no `planwright.yaml`.
const LARGEST_FILE: u64 = 1 << 20;

/// A place for one trial; gone with it.
#[derive(Debug)]
pub struct Trial {
    /// What holds its checkouts.
    pub path: PathBuf,
    /// Held as long as the trial goes on.
    _turn: File,
}

impl Drop for Trial {
    fn drop(&mut self) {
        // What is left behind is removed by whoever tries next, or with the plan.
        let _ = files::remove_tree(&self.path);
    }
}

/// One changed path, with how much changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where it is, or was.
    pub path: TreePath,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// What happened to it.
    pub operation: Operation,
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

impl Workshop {
    /// A place to try something out; nothing while somebody else tries the same.
    pub fn begin_trial(&self, plan: PlanId, what: Digest) -> Result<Option<Trial>, SandboxError> {
        let name = &what.to_string()[..24];
        let directory = self.plan_directory(plan).join("trials");
        self.make_directory(&directory)?;
        let lock = directory.join(format!("{name}.turn"));
        let turn = files::create_private_file(&lock).doing("made", &lock)?;
        match rustix::fs::flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error).doing("locked", &lock),
        }
        let path = directory.join(name);
        files::remove_tree(&path)?;
        files::make_private_directory(&path)?;
        Ok(Some(Trial { path, _turn: turn }))
    }

    /// A clean checkout of a tree in a trial, as a repository of its own.
    pub fn lay_out_trial(
        &self,
        trial: &Trial,
        room: &Room<'_>,
        base: &ObjectId,
        tree: &ObjectId,
    ) -> Result<Sandbox, SandboxError> {
        let repository = self.repository(room.site)?;
        let vault = self.make_vault(room, &repository)?;
        let name = room.name();
        let sandbox = Sandbox {
            path: trial.path.join(&name),
            index: trial.path.join(format!("{name}.index")),
            base: base.clone(),
            made_by: Epoch(0),
            held_by: Epoch(0),
            conflicts: Vec::new(),
            given: None,
        };
        files::make_private_directory(&sandbox.path)?;
        checkout::lay_out(&vault, &sandbox, tree)?;
        let branch = match &room.site.place {
            SitePlace::Git { target, .. } => target.as_str(),
            SitePlace::Dir { .. } => "refs/heads/main",
        };
        checkout::give_repository(&vault, &repository, &sandbox, branch)?;
        Ok(sandbox)
    }

    /// The tree of a commit that was merged for a resource.
    pub fn tree_of(&self, room: &Room<'_>, commit: &ObjectId) -> Result<ObjectId, SandboxError> {
        self.vault(room).tree_of(commit)
    }

    /// A file of a resource at a commit; of a directory, as it is now. None if there is none, or if it is
    /// no plain file.
    pub fn file_at(
        &self,
        site: &Site,
        commit: Option<&ObjectId>,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        if let SitePlace::Dir { path: directory } = &site.place {
            return file_in(&directory.join(path));
        }
        let Some(commit) = commit else {
            return Ok(None);
        };
        let git = self.repository(site)?.git();
        let name = format!("{commit}:{path}");
        let size = git.ask(&["cat-file", "-s", &name])?;
        let size = String::from_utf8_lossy(&size.stdout).trim().parse::<u64>();
        match size {
            Ok(size) if size <= LARGEST_FILE => {
                let answered = git.ask(&["cat-file", "blob", &name])?;
                Ok((answered.code == 0).then_some(answered.stdout))
            }
            Ok(_) => Err(SandboxError::Uncapturable {
                path: TreePath::new(path.as_bytes())?,
                why: "it is larger than a megabyte",
            }),
            Err(_) => Ok(None),
        }
    }
}

impl Workshop {
    /// A file as it is in the working tree of a resource. None if there is none.
    pub fn file_in_working_tree(
        &self,
        site: &Site,
        path: &str,
    ) -> Result<Option<Vec<u8>>, SandboxError> {
        file_in(&site.place.path().join(path))
    }

    /// Every path in a commit of a repository.
    pub fn paths_at(&self, site: &Site, commit: &ObjectId) -> Result<Vec<TreePath>, SandboxError> {
        let git = self.repository(site)?.git();
        let asked = ["ls-tree", "-r", "-z", "--name-only", "--full-tree"];
        let listed = git.run(&[&asked[..], &[commit.as_str()]].concat())?;
        let paths = listed.split(|byte| *byte == 0);
        let paths = paths.filter(|path| !path.is_empty()).map(TreePath::new);
        Ok(paths.collect::<Result<_, _>>()?)
    }
}

fn file_in(path: &Path) -> Result<Option<Vec<u8>>, SandboxError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if files::is_absent(&error) => return Ok(None),
        Err(error) => return Err(error).doing("read", path),
    };
    let mut content = Vec::new();
    let mut limited = file.take(LARGEST_FILE);
    limited.read_to_end(&mut content).doing("read", path)?;
    Ok(Some(content))
}

impl Look {
    /// Everything that changed, with how much.
    pub fn seen(&self) -> Result<Vec<Seen>, SandboxError> {
        let lines = compare::raw(&self.git, &["-M"], &self.old, &self.new, &[])?;
        let counted = self.counted(&[])?;
        let counted: BTreeMap<_, _> = counted.iter().map(|one| (&one.path, one)).collect();
        let sizes = self.sizes(&lines)?;
        let mut seen = Vec::new();
        for (line, size) in lines.into_iter().zip(sizes) {
            let counts = counted.get(&line.path);
            let insertions = counts.and_then(|one| one.insertions);
            let deletions = counts.and_then(|one| one.deletions);
            seen.push(Seen {
                operation: compare::operation(line.status),
                path: line.path,
                from: line.from,
                binary: insertions.is_none(),
                insertions: insertions.unwrap_or(0),
                deletions: deletions.unwrap_or(0),
                size,
                mode: line.after.map(|blob| blob.mode).unwrap_or_default(),
            });
        }
        Ok(seen)
    }

    /// How large each of them is now.
    fn sizes(&self, lines: &[compare::RawLine]) -> Result<Vec<u64>, SandboxError> {
        let mut names = String::new();
        for line in lines {
            // Nothing has the hash of nothing; git says "missing" to it.
            let id = line.after.as_ref().map_or("0", |blob| blob.id.as_str());
            names.push_str(id);
            names.push('\n');
        }
        let asked = ["cat-file", "--batch-check=%(objectsize)"];
        let answer = self.git.run_with(&asked, names.as_bytes())?;
        let answer = String::from_utf8_lossy(&answer);
        let sizes = answer.lines().map(|line| line.parse().unwrap_or(0));
        Ok(sizes.collect())
    }
}
