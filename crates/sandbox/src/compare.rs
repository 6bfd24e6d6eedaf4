//! What differs between two trees: for landing path by path, for people as a diff.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use plan::changeset::{Operation, TreePath};

use crate::git::{self, Git};
use crate::ignored::IgnoredFiles;
use crate::{ObjectId, SandboxError, files};

/// One path that differs; renames are a path that went and one that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Which.
    pub path: TreePath,
    /// What was there.
    pub before: Option<Blob>,
    /// What is there.
    pub after: Option<Blob>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    /// File mode in octal.
    pub mode: String,
    /// The content.
    pub id: ObjectId,
}

/// A nested repository, as git writes it into a tree.
pub(crate) const GITLINK: &str = "160000";

/// One line of git's raw format.
pub(crate) struct RawLine {
    /// What was there.
    pub before: Option<Blob>,
    /// What is there.
    pub after: Option<Blob>,
    /// The letter for what happened.
    pub status: u8,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// Where it is, or was.
    pub path: TreePath,
}

/// What differs, path by path, sorted.
pub(crate) fn differences(
    git: &Git,
    old: &str,
    new: &str,
) -> Result<Vec<Difference>, SandboxError> {
    differences_in(git, old, new, &[])
}

/// The same, only in paths that one of these pathspecs chooses; all of them if there is none.
pub(crate) fn differences_in(
    git: &Git,
    old: &str,
    new: &str,
    paths: &[String],
) -> Result<Vec<Difference>, SandboxError> {
    let lines = raw(git, &["--no-renames"], old, new, paths)?;
    let mut differences: Vec<Difference> = lines
        .into_iter()
        .map(|line| Difference {
            path: line.path,
            before: line.before,
            after: line.after,
        })
        .collect();
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(differences)
}

/// git's raw comparison of two trees, in all paths or in those these pathspecs choose.
pub(crate) fn raw(
    git: &Git,
    options: &[&str],
    old: &str,
    new: &str,
    paths: &[String],
) -> Result<Vec<RawLine>, SandboxError> {
    let mut arguments = vec!["diff-tree", "-r", "-z", "--raw", "--no-abbrev"];
    arguments.extend(["--ignore-submodules=none"]);
    arguments.extend(options);
    arguments.extend([old, new, "--"]);
    arguments.extend(paths.iter().map(String::as_str));
    let output = git.run(&arguments)?;
    let mut fields = git::fields(&output);
    let mut lines = Vec::new();
    while let Some(head) = fields.next() {
        let head = String::from_utf8_lossy(head);
        let parts: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let &[mode_before, mode_after, before, after, status] = parts.as_slice() else {
            return Err(not_understood(&head));
        };
        let status = status.bytes().next().ok_or_else(|| not_understood(&head))?;
        let first = fields.next().ok_or_else(|| not_understood(&head))?;
        let second = if matches!(status, b'R' | b'C') {
            fields.next()
        } else {
            None
        };
        let (from, path) = match second {
            Some(second) => (Some(TreePath::new(first)?), second),
            None => (None, first),
        };
        lines.push(RawLine {
            before: blob(mode_before, before)?,
            after: blob(mode_after, after)?,
            status,
            from,
            path: TreePath::new(path)?,
        });
    }
    Ok(lines)
}

/// What git's letter for a change means.
pub(crate) fn operation(status: u8) -> Operation {
    match status {
        b'A' => Operation::Create,
        b'D' => Operation::Delete,
        b'R' => Operation::Rename,
        _ => Operation::Modify,
    }
}

fn blob(mode: &str, id: &str) -> Result<Option<Blob>, SandboxError> {
    let id: ObjectId = id.parse().map_err(|_| not_understood(id))?;
    Ok((mode != "000000").then(|| Blob {
        mode: mode.to_owned(),
        id,
    }))
}

fn not_understood(text: &str) -> SandboxError {
    SandboxError::Git {
        command: "diff-tree".to_owned(),
        said: format!("its answer is not understood: {text}"),
    }
}

/// Two trees to look at, in the repository that has both.
pub struct Look {
    pub(crate) git: Git,
    pub(crate) old: String,
    pub(crate) new: String,
    /// What became of ignored files, if the files of a sandbox were looked at.
    pub ignored: Option<IgnoredFiles>,
    /// Objects that exist for this look only; gone with it.
    pub(crate) _scratch: Option<Scratch>,
}

/// A directory that is removed when nobody looks any more.
pub(crate) struct Scratch(pub PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it is found and removed with the plan's other things.
        let _ = files::remove_tree(&self.0);
    }
}

/// How a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Line by line.
    Patch,
    /// A histogram of changed lines.
    Stat,
    /// The paths alone.
    NameOnly,
}

/// How much changed at a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Counted {
    /// Which.
    pub path: TreePath,
    /// Lines that came; nothing for a binary file.
    pub insertions: Option<u64>,
    /// Lines that went.
    pub deletions: Option<u64>,
}

impl Look {
    /// The tree or commit it ends in.
    pub fn ends_in(&self) -> &str {
        &self.new
    }

    /// Shows it on the given output.
    pub fn show(&self, shape: Shape, paths: &[String], to: Stdio) -> Result<(), SandboxError> {
        let arguments = self.arguments(shape, paths);
        self.git.show(&arguments, to)
    }

    /// Shows a text in the person's pager; says whether there is one.
    pub fn page(&self, text: &[u8]) -> bool {
        let Some(mut pager) = self.git.pager() else {
            return false;
        };
        if let Some(mut input) = pager.stdin.take() {
            // How far a person reads is their business, and how they leave.
            let _ = input.write_all(text);
        }
        let _ = pager.wait();
        true
    }

    /// The same as text.
    pub fn text(&self, shape: Shape, paths: &[String]) -> Result<Vec<u8>, SandboxError> {
        self.git.run(&self.arguments(shape, paths))
    }

    /// Every path that came, changed or went and matches; a rename is one of each.
    pub fn changed(&self, paths: &[String]) -> Result<Vec<TreePath>, SandboxError> {
        let mut arguments = vec!["diff-tree", "-r", "-z", "--no-renames", "--name-only"];
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        let output = self.git.run(&arguments)?;
        git::fields(&output)
            .map(|path| Ok(TreePath::new(path)?))
            .collect()
    }

    /// How much changed, path by path; a rename counts for its new path.
    pub fn counted(&self, paths: &[String]) -> Result<Vec<Counted>, SandboxError> {
        let mut arguments = vec!["diff-tree", "-r", "-M", "-z", "--numstat"];
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        let output = self.git.run(&arguments)?;
        let mut fields = output.split(|byte| *byte == 0);
        let mut counted = Vec::new();
        while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
            let mut parts = head.splitn(3, |byte| *byte == b'\t');
            let insertions = number(parts.next());
            let deletions = number(parts.next());
            let path = match parts.next() {
                // A rename has its two paths in fields of their own.
                Some(b"") => {
                    fields.next();
                    fields.next().unwrap_or_default()
                }
                Some(path) => path,
                None => return Err(not_understood(&String::from_utf8_lossy(head))),
            };
            counted.push(Counted {
                path: TreePath::new(path)?,
                insertions,
                deletions,
            });
        }
        Ok(counted)
    }

    fn arguments<'a>(&'a self, shape: Shape, paths: &'a [String]) -> Vec<&'a str> {
        let mut arguments = vec!["diff-tree", "-r", "-M"];
        arguments.extend(match shape {
            Shape::Patch => ["-p", "--no-ext-diff", "--no-textconv"].as_slice(),
            Shape::Stat => ["--stat=100", "--summary"].as_slice(),
            Shape::NameOnly => ["--name-only"].as_slice(),
        });
        arguments.push("--color=never");
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        arguments
    }
}

fn number(field: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}
