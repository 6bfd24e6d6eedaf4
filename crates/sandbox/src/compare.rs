//! What differs between two trees: for landing path by path, for people as a diff.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use plan::changeset::{PathOperation, TreePath};

use crate::git::{self, GitCommand};
use crate::ignored::IgnoredFiles;
use crate::{ObjectId, SandboxError, files};

/// One path that differs; renames are a path that went and one that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathDifference {
    /// Which.
    pub path: TreePath,
    /// What was there.
    pub before: Option<TreeEntry>,
    /// What is there.
    pub after: Option<TreeEntry>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// File mode in octal.
    pub mode: String,
    /// The content.
    pub id: ObjectId,
}

/// A nested repository, as git writes it into a tree.
pub(crate) const GITLINK_MODE: &str = "160000";

/// One line of git's raw format.
pub(crate) struct RawDiffLine {
    /// What was there.
    pub before: Option<TreeEntry>,
    /// What is there.
    pub after: Option<TreeEntry>,
    /// The letter for what happened.
    pub status: u8,
    /// Where it came from, for a rename.
    pub from: Option<TreePath>,
    /// Where it is, or was.
    pub path: TreePath,
}

/// What differs, path by path, sorted.
pub(crate) fn list_differences(
    git: &GitCommand,
    old: &str,
    new: &str,
) -> Result<Vec<PathDifference>, SandboxError> {
    list_differences_in(git, old, new, &[])
}

/// The same, only in paths that one of these pathspecs chooses; all of them if there is none.
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

/// git's raw comparison of two trees, in all paths or in those these pathspecs choose.
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

/// What git's letter for a change means.
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
        said: format!("its answer is not understood: {text}"),
    }
}

/// Two trees to look at, in the repository that has both.
pub struct TreeDiff {
    pub(crate) git: GitCommand,
    pub(crate) old: String,
    pub(crate) new: String,
    /// What became of ignored files, if the files of a sandbox were looked at.
    pub ignored: Option<IgnoredFiles>,
    /// Objects that exist for this look only; gone with it.
    pub(crate) _scratch: Option<ScratchDir>,
}

/// A directory that is removed when nobody looks any more.
pub(crate) struct ScratchDir(pub PathBuf);

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Left behind, it is found and removed with the plan's other things.
        let _ = files::remove_tree(&self.0);
    }
}

/// How a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffFormat {
    /// Line by line.
    Patch,
    /// A histogram of changed lines.
    Stat,
    /// The paths alone.
    NameOnly,
}

/// How much changed at a path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PathLineCount {
    /// Which.
    pub path: TreePath,
    /// Lines that came; nothing for a binary file.
    pub insertions: Option<u64>,
    /// Lines that went.
    pub deletions: Option<u64>,
}

impl TreeDiff {
    /// The tree or commit it ends in.
    pub fn new_tree(&self) -> &str {
        &self.new
    }

    /// Shows it on the given output.
    pub fn show_diff(
        &self,
        format: DiffFormat,
        paths: &[String],
        to: Stdio,
    ) -> Result<(), SandboxError> {
        let arguments = self.diff_arguments(format, paths);
        self.git.stream_to(&arguments, to)
    }

    /// Shows a text in the person's pager; says whether there is one.
    pub fn show_in_pager(&self, text: &[u8]) -> bool {
        let Some(mut pager) = self.git.spawn_pager() else {
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
    pub fn diff_text(&self, format: DiffFormat, paths: &[String]) -> Result<Vec<u8>, SandboxError> {
        self.git.run(&self.diff_arguments(format, paths))
    }

    /// Every path that came, changed or went and matches; a rename is one of each.
    pub fn list_changed_paths(&self, paths: &[String]) -> Result<Vec<TreePath>, SandboxError> {
        let mut arguments = vec!["diff-tree", "-r", "-z", "--no-renames", "--name-only"];
        arguments.extend([self.old.as_str(), self.new.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        let output = self.git.run(&arguments)?;
        git::split_nul_fields(&output)
            .map(|path| Ok(TreePath::new(path)?))
            .collect()
    }

    /// How much changed, path by path; a rename counts for its new path.
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
                // A rename has its two paths in fields of their own.
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
