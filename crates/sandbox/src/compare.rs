//! Compares two trees: path by path for landing, as a diff for people.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use plan::changeset::{PathOperation, TreePath};

use crate::git::{self, GitCommand};
use crate::ignored::IgnoredFiles;
use crate::{ObjectId, SandboxError, files};

/// One path that differs. A rename is a deleted path and an added one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathDifference {
    pub path: TreePath,
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
}

/// The file or link at a path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// In octal.
    pub mode: String,
    pub id: ObjectId,
}

/// The mode of a submodule or nested repository in a tree.
pub(crate) const GITLINK_MODE: &str = "160000";

/// One line of `git diff-tree --raw`.
pub(crate) struct RawDiffLine {
    pub before: Option<TreeEntry>,
    pub after: Option<TreeEntry>,
    /// git's letter for the operation.
    pub status: u8,
    /// The old path of a rename.
    pub from: Option<TreePath>,
    /// The new path; the old one if it was deleted.
    pub path: TreePath,
}

/// The differences between two trees, sorted by path.
pub(crate) fn list_differences(
    git: &GitCommand,
    old: &str,
    new: &str,
) -> Result<Vec<PathDifference>, SandboxError> {
    list_differences_in(git, old, new, &[])
}

/// Like [`list_differences`], limited to these pathspecs; all paths if there are none.
pub(crate) fn list_differences_in(
    git: &GitCommand,
    old: &str,
    new: &str,
    paths: &[String],
) -> Result<Vec<PathDifference>, SandboxError> {
    let lines = read_raw_diff(git, &["--no-renames"], old, new, paths)?;
    let mut differences: Vec<PathDifference> = lines
        .into_iter()
        .map(|line| PathDifference {
            path: line.path,
            before: line.before,
            after: line.after,
        })
        .collect();
    differences.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(differences)
}

/// Runs `git diff-tree --raw`, limited to these pathspecs; all paths if there are none.
pub(crate) fn read_raw_diff(
    git: &GitCommand,
    options: &[&str],
    old: &str,
    new: &str,
    paths: &[String],
) -> Result<Vec<RawDiffLine>, SandboxError> {
    let mut arguments = vec!["diff-tree", "-r", "-z", "--raw", "--no-abbrev"];
    arguments.extend(["--ignore-submodules=none"]);
    arguments.extend(options);
    arguments.extend([old, new, "--"]);
    arguments.extend(paths.iter().map(String::as_str));
    let output = git.run(&arguments)?;
    let mut fields = git::split_nul_fields(&output);
    let mut lines = Vec::new();
    while let Some(head) = fields.next() {
        let head = String::from_utf8_lossy(head);
        let parts: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let &[mode_before, mode_after, before, after, status] = parts.as_slice() else {
            return Err(unexpected_output(&head));
        };
        let status = status
            .bytes()
            .next()
            .ok_or_else(|| unexpected_output(&head))?;
        let first = fields.next().ok_or_else(|| unexpected_output(&head))?;
        let second = if matches!(status, b'R' | b'C') {
            fields.next()
        } else {
            None
        };
        let (from, path) = match second {
            Some(second) => (Some(TreePath::new(first)?), second),
            None => (None, first),
        };
        lines.push(RawDiffLine {
            before: parse_tree_entry(mode_before, before)?,
            after: parse_tree_entry(mode_after, after)?,
            status,
            from,
            path: TreePath::new(path)?,
        });
    }
    Ok(lines)
}

pub(crate) fn parse_operation(status: u8) -> PathOperation {
    match status {
        b'A' => PathOperation::Create,
        b'D' => PathOperation::Delete,
        b'R' => PathOperation::Rename,
        _ => PathOperation::Modify,
    }
}

fn parse_tree_entry(mode: &str, id: &str) -> Result<Option<TreeEntry>, SandboxError> {
    let id: ObjectId = id.parse().map_err(|_| unexpected_output(id))?;
    Ok((mode != "000000").then(|| TreeEntry {
        mode: mode.to_owned(),
        id,
    }))
}

fn unexpected_output(text: &str) -> SandboxError {
    SandboxError::GitFailed {
        command: "diff-tree".to_owned(),
        said: format!("unexpected output: {text}"),
    }
}

/// Two trees to compare, in a repository that has both.
pub struct TreeDiff {
    pub(crate) git: GitCommand,
    pub(crate) old: String,
    pub(crate) new: String,
    /// Set if the files of a sandbox were read.
    pub ignored: Option<IgnoredFiles>,
    /// Objects that exist only for this diff; removed with it.
    pub(crate) _scratch: Option<ScratchDir>,
}

/// A directory that is removed when dropped.
pub(crate) struct ScratchDir(pub PathBuf);

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // If this fails, it is removed later, with the plan's directory.
        let _ = files::remove_tree(&self.0);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffFormat {
    Patch,
    /// Changed lines per file.
    Stat,
    NameOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PathLineCount {
    pub path: TreePath,
    /// `None` for a binary file.
    pub insertions: Option<u64>,
    /// `None` for a binary file.
    pub deletions: Option<u64>,
}

impl TreeDiff {
    /// The tree or commit id of the new side.
    pub fn new_tree(&self) -> &str {
        &self.new
    }

    pub fn show_diff(
        &self,
        format: DiffFormat,
        paths: &[String],
        to: Stdio,
    ) -> Result<(), SandboxError> {
        let arguments = self.diff_arguments(format, paths);
        self.git.stream_to(&arguments, to)
    }

    /// Shows a text in `less`; returns `false` if it is not installed.
    pub fn show_in_pager(&self, text: &[u8]) -> bool {
        let Some(mut pager) = self.git.spawn_pager() else {
            return false;
        };
        if let Some(mut input) = pager.stdin.take() {
            // The user may quit the pager before reading everything.
            let _ = input.write_all(text);
        }
        let _ = pager.wait();
        true
    }

    pub fn diff_text(&self, format: DiffFormat, paths: &[String]) -> Result<Vec<u8>, SandboxError> {
        self.git.run(&self.diff_arguments(format, paths))
    }

    /// Every path that was added, changed or removed; a rename is two paths.
    pub fn list_changed_paths(&self, paths: &[String]) -> Result<Vec<TreePath>, SandboxError> {
        let mut arguments = vec!["diff-tree", "-r", "-z", "--no-renames", "--name-only"];
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        let output = self.git.run(&arguments)?;
        git::split_nul_fields(&output)
            .map(|path| Ok(TreePath::new(path)?))
            .collect()
    }

    /// Changed lines per path; a rename counts for its new path.
    pub fn count_lines(&self, paths: &[String]) -> Result<Vec<PathLineCount>, SandboxError> {
        let mut arguments = vec!["diff-tree", "-r", "-M", "-z", "--numstat"];
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        let output = self.git.run(&arguments)?;
        let mut fields = output.split(|byte| *byte == 0);
        let mut counted = Vec::new();
        while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
            let mut parts = head.splitn(3, |byte| *byte == b'\t');
            let insertions = parse_count(parts.next());
            let deletions = parse_count(parts.next());
            let path = match parts.next() {
                // A rename has its two paths in separate fields.
                Some(b"") => {
                    fields.next();
                    fields.next().unwrap_or_default()
                }
                Some(path) => path,
                None => return Err(unexpected_output(&String::from_utf8_lossy(head))),
            };
            counted.push(PathLineCount {
                path: TreePath::new(path)?,
                insertions,
                deletions,
            });
        }
        Ok(counted)
    }

    fn diff_arguments<'a>(&'a self, format: DiffFormat, paths: &'a [String]) -> Vec<&'a str> {
        let mut arguments = vec!["diff-tree", "-r", "-M"];
        arguments.extend(match format {
            DiffFormat::Patch => ["-p", "--no-ext-diff", "--no-textconv"].as_slice(),
            DiffFormat::Stat => ["--stat=100", "--summary"].as_slice(),
            DiffFormat::NameOnly => ["--name-only"].as_slice(),
        });
        arguments.push("--color=never");
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        arguments
    }
}

fn parse_count(field: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}
