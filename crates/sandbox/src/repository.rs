//! The user's repository: its paths, its checkouts and what prevents landing in it. Read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plan::changeset::TreePath;

use crate::compare::{self, PathDifference};
use crate::error::FileErrorContext;
use crate::git::{self, GitCommand, GitEnv, run_both};
use crate::{LocationProblem, ObjectId, SandboxError, files, refs};

/// A repository of the user, or the one the engine keeps for a directory.
#[derive(Debug, Clone)]
pub struct Repository {
    git_env: GitEnv,
    path: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    work_tree: Option<PathBuf>,
    object_format: String,
    user_config: UserGitConfig,
}

/// The settings that are taken from the user's global configuration: line endings and identity.
/// Nothing else is.
#[derive(Debug, Clone, Default)]
struct UserGitConfig {
    conversions: Vec<String>,
    identity: Option<(String, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct UserCheckout {
    pub work_tree: PathBuf,
    /// The git directory of this checkout: index, HEAD, operations in progress.
    pub git_dir: PathBuf,
    /// The full ref name; `None` if HEAD is detached.
    pub branch: Option<String>,
}

/// Why a landing cannot start. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandingObstacle {
    /// The user has uncommitted edits in paths that the landing changes.
    LocalEdits(Vec<TreePath>),
    /// A merge, rebase, bisect or similar operation is in progress.
    InProgress(&'static str),
}

impl Repository {
    /// Opens the repository that contains this path.
    pub fn open(git_env: &GitEnv, path: &Path) -> Result<Self, SandboxError> {
        refuse_line_breaks(path)?;
        let as_user = GitCommand::discover_from(git_env, path).with_user_config();
        let arguments = [
            "rev-parse",
            "--path-format=absolute",
            "--git-dir",
            "--git-common-dir",
            "--is-inside-work-tree",
            "--show-object-format",
            "--show-toplevel",
        ];
        let (output, user_config) = run_both(
            || as_user.try_run(&arguments),
            || UserGitConfig::read(&as_user),
        );
        let (mut output, user_config) = (output?, user_config?);
        if output.exit_code != 0 {
            // Without a working tree, `--show-toplevel` fails.
            output = as_user.try_run(&arguments[..arguments.len() - 1])?;
        }
        if output.exit_code != 0 {
            return Err(not_a_repository_error(path, &output.stderr));
        }
        let lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
        let &[git_dir, common_dir, inside, format, ref top @ ..] = lines.as_slice() else {
            return Err(not_a_repository_error(
                path,
                "unexpected output of git rev-parse",
            ));
        };
        let top = top.join(&b'\n');
        let top = top.strip_suffix(b"\n").unwrap_or(&top);
        let work_tree = (inside == b"true").then(|| path_from_bytes(top));
        Ok(Self {
            git_env: git_env.clone(),
            path: path.to_owned(),
            git_dir: path_from_bytes(git_dir),
            common_dir: path_from_bytes(common_dir),
            work_tree,
            object_format: String::from_utf8_lossy(format).into_owned(),
            user_config,
        })
    }

    /// The path it was registered with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `None` if it is bare.
    pub fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_deref()
    }

    /// The git directory that all checkouts share.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The git directory of the checkout at its path.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// `sha1` or `sha256`.
    pub(crate) fn object_format(&self) -> &str {
        &self.object_format
    }

    /// The user's name and email address, if configured.
    pub fn identity(&self) -> Option<&(String, String)> {
        self.user_config.identity.as_ref()
    }

    pub(crate) fn git_env(&self) -> &GitEnv {
        &self.git_env
    }

    /// git on the shared git directory.
    pub(crate) fn git(&self) -> GitCommand {
        GitCommand::at_git_dir(&self.git_env, &self.common_dir)
    }

    /// git on one checkout, with this index and the user's line-ending settings.
    pub(crate) fn git_on_checkout(&self, checkout: &UserCheckout, index: &Path) -> GitCommand {
        GitCommand::at_git_dir(&self.git_env, &checkout.git_dir)
            .with_work_tree(&checkout.work_tree)
            .with_settings(&self.user_config.conversions)
            .with_index(index)
    }

    /// The branch checked out at the registered path.
    pub fn current_branch(&self) -> Result<Option<String>, SandboxError> {
        let git = GitCommand::at_git_dir(&self.git_env, &self.git_dir);
        let output = git.try_run(&["symbolic-ref", "--quiet", "HEAD"])?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Some(name).filter(|name| output.exit_code == 0 && !name.is_empty()))
    }

    pub fn filter_ignored_paths(&self, paths: &[&str]) -> Result<Vec<String>, SandboxError> {
        let Some(checkout) = self.own_checkout().filter(|_| !paths.is_empty()) else {
            return Ok(Vec::new());
        };
        let git = GitCommand::at_git_dir(&self.git_env, &self.git_dir)
            .with_work_tree(&checkout.work_tree);
        let mut arguments = vec!["check-ignore", "-z", "--"];
        arguments.extend(paths);
        // Exit code 1 means that none is ignored; the output is empty then.
        let output = git.try_run(&arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.split_terminator('\0').map(str::to_owned).collect())
    }

    pub fn tip(&self, target: &str) -> Result<Option<ObjectId>, SandboxError> {
        refs::resolve_name(&self.git(), &format!("{target}^{{commit}}"))
    }

    /// Like [`Self::tip`], but a missing ref is an error.
    pub fn require_tip(&self, target: &str) -> Result<ObjectId, SandboxError> {
        self.tip(target)?.ok_or_else(|| SandboxError::NoBranch {
            path: self.path.clone(),
            branch: short_branch_name(target).to_owned(),
        })
    }

    /// Checks that a branch of this name can be created.
    pub(crate) fn check_new_branch(&self, branch: &str) -> Result<(), SandboxError> {
        let git = self.git();
        let exists = |taken: &str| SandboxError::BranchExists {
            name: short_branch_name(taken).to_owned(),
        };
        let name = format!("refs/heads/{branch}");
        let allowed = git.try_run(&["check-ref-format", "--branch", branch])?;
        if allowed.exit_code != 0 || allowed.stdout != format!("{branch}\n").as_bytes() {
            return Err(SandboxError::InvalidBranchName {
                name: branch.to_owned(),
            });
        }
        // Also the names above and below it: git may store refs as files in directories.
        let above = name.match_indices('/').map(|(end, _)| &name[..end]);
        for taken in above.skip(2).chain([name.as_str()]) {
            if refs::resolve_name(&git, taken)?.is_some() {
                return Err(exists(taken));
            }
        }
        let below = ["for-each-ref", "--count=1", "--format=%(refname)"];
        let below = git.read_line(&[&below[..], &[&format!("{name}/")]].concat())?;
        if below.is_empty() {
            Ok(())
        } else {
            Err(exists(&below))
        }
    }

    /// Files with uncommitted changes, including untracked files.
    pub fn list_uncommitted_paths(&self) -> Result<Vec<TreePath>, SandboxError> {
        let Some(work_tree) = &self.work_tree else {
            return Ok(Vec::new());
        };
        let output = GitCommand::at_git_dir(&self.git_env, &self.git_dir)
            .with_work_tree(work_tree)
            .with_settings(&self.user_config.conversions)
            .run(&[
                "status",
                "--porcelain=v1",
                "-z",
                "--no-renames",
                "--untracked-files=all",
            ])?;
        git::split_nul_fields(&output)
            .map(|line| Ok(TreePath::new(line.get(3..).unwrap_or_default())?))
            .collect()
    }

    /// All checkouts of the repository that exist on disk.
    pub(crate) fn list_checkouts(&self) -> Result<Vec<UserCheckout>, SandboxError> {
        if let Some(only) = self.find_sole_checkout() {
            return Ok(vec![only]);
        }
        let output = self.git().run(&["worktree", "list", "--porcelain", "-z"])?;
        let mut checkouts: Vec<UserCheckout> = Vec::new();
        for (number, line) in output.split(|byte| *byte == 0).enumerate() {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                let listed = path_from_bytes(path);
                checkouts.push(if number == 0 {
                    self.main_checkout(listed)
                } else {
                    UserCheckout {
                        // Without it, the directory is not this checkout any more.
                        git_dir: self.linked_git_dir(&listed).unwrap_or_default(),
                        work_tree: listed,
                        branch: None,
                    }
                });
            } else if let Some(branch) = line.strip_prefix(b"branch ")
                && let Some(last) = checkouts.last_mut()
            {
                last.branch = Some(String::from_utf8_lossy(branch).into_owned());
            } else if line == b"bare" {
                // A bare repository has no working tree.
                checkouts.pop();
            }
        }
        checkouts.retain(|one| one.work_tree.is_dir() && one.git_dir.is_dir());
        Ok(checkouts)
    }

    /// The checkout at the registered path, if there are no others and it has a branch checked out.
    /// Reads files only, because starting git is slow.
    fn find_sole_checkout(&self) -> Option<UserCheckout> {
        let alone = self.git_dir == self.common_dir && !self.common_dir.join("worktrees").exists();
        let own = self.own_checkout().filter(|_| alone)?;
        // The repository of a directory resource has no checkout.
        own.work_tree.join(".git").symlink_metadata().ok()?;
        let head = std::fs::read_to_string(own.git_dir.join("HEAD")).ok()?;
        let branch = head.strip_prefix("ref: ")?.trim_end();
        // `.invalid` is git's placeholder in repositories with reftable.
        let is_branch = branch.starts_with("refs/heads/") && branch != "refs/heads/.invalid";
        is_branch.then(|| UserCheckout {
            branch: Some(branch.to_owned()),
            ..own
        })
    }

    /// The main checkout. If its git directory is elsewhere, git lists that instead of the working
    /// tree.
    fn main_checkout(&self, listed: PathBuf) -> UserCheckout {
        let own = self.work_tree.clone();
        let own = own.filter(|_| self.git_dir == self.common_dir);
        UserCheckout {
            work_tree: own.unwrap_or(listed),
            git_dir: self.common_dir.clone(),
            branch: None,
        }
    }

    /// The git directory of a linked checkout, from its `.git` file, if it belongs to this
    /// repository.
    fn linked_git_dir(&self, work_tree: &Path) -> Option<PathBuf> {
        let file = std::fs::read(work_tree.join(".git")).ok()?;
        let path = file.strip_prefix(b"gitdir: ")?;
        let path = work_tree.join(path_from_bytes(path.strip_suffix(b"\n").unwrap_or(path)));
        let real_path = path.canonicalize().ok()?;
        let ours = self.common_dir.join("worktrees").canonicalize().ok()?;
        (real_path.parent() == Some(ours.as_path())).then_some(path)
    }

    /// The checkout at the registered path, without looking up its branch.
    pub(crate) fn own_checkout(&self) -> Option<UserCheckout> {
        Some(UserCheckout {
            work_tree: self.work_tree.clone()?,
            git_dir: self.git_dir.clone(),
            branch: None,
        })
    }

    /// Paths in `touched` that the user edited, and files in the way of new ones. Checks only these
    /// paths and does not write the user's index. If the checkout has the target branch, HEAD
    /// equals `head`.
    pub(crate) fn find_local_edits(
        &self,
        checkout: &UserCheckout,
        head: &ObjectId,
        touched: &[PathDifference],
    ) -> Result<Vec<TreePath>, SandboxError> {
        let paths = git::literal_pathspecs(touched.iter().map(|difference| &difference.path));
        let git = self
            .git_on_checkout(checkout, &checkout.git_dir.join("index"))
            .with_variable("GIT_LITERAL_PATHSPECS", "1");
        let against_head = [
            "diff-index",
            "--cached",
            "--name-only",
            "-z",
            "--ignore-submodules=dirty",
            head.as_str(),
            "--",
        ];
        let is_head = checkout.branch.is_some();
        let staged = if is_head {
            Vec::new()
        } else {
            git.run(&git::append_paths(&against_head, &paths))?
        };
        let against_index = [
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=no",
            "--ignore-submodules=dirty",
            "--",
        ];
        let (status, hidden) = run_both(
            || git.run(&git::append_paths(&against_index, &paths)),
            || self.find_hidden_edits(checkout, touched),
        );
        let (status, hidden) = (status?, hidden?);
        // The first letter compares with HEAD, the second with the index.
        let edited = git::split_nul_fields(&status)
            .filter(|line| is_head || line.get(1) != Some(&b' '))
            .filter_map(|line| line.get(3..));
        let changed: BTreeSet<&[u8]> = git::split_nul_fields(&staged).chain(edited).collect();
        let removed_paths: BTreeSet<&TreePath> = touched
            .iter()
            .filter(|difference| difference.after.is_none())
            .map(|difference| &difference.path)
            .collect();
        let mut edits: BTreeSet<TreePath> = touched
            .iter()
            .filter(|difference| changed.contains(difference.path.as_bytes()))
            .map(|difference| difference.path.clone())
            .collect();
        for difference in touched
            .iter()
            .filter(|difference| difference.after.is_some())
        {
            // Any other index entry for this path is staged, so it is in `changed` already.
            let is_tracked = difference.before.is_some();
            let obstruction = files::find_obstruction(
                &checkout.work_tree,
                &difference.path,
                is_tracked,
                &removed_paths,
            )?;
            edits.extend(obstruction);
        }
        edits.extend(hidden);
        Ok(edits.into_iter().collect())
    }

    /// Edits in files that git is configured not to check (assume-unchanged, skip-worktree) and
    /// that the landing would replace or remove. Outside of a sparse checkout, only the index
    /// changes, so those files are safe.
    pub(crate) fn find_hidden_edits(
        &self,
        checkout: &UserCheckout,
        touched: &[PathDifference],
    ) -> Result<Vec<TreePath>, SandboxError> {
        let paths = git::literal_pathspecs(touched.iter().map(|difference| &difference.path));
        let git = self
            .git_on_checkout(checkout, &checkout.git_dir.join("index"))
            .with_variable("GIT_LITERAL_PATHSPECS", "1");
        let listed = git.run(&git::append_paths(&["ls-files", "-v", "-z", "--"], &paths))?;
        let flags: BTreeMap<&[u8], u8> = git::split_nul_fields(&listed)
            .filter_map(|line| Some((line.get(2..)?, *line.first()?)))
            .filter(|(_, flag)| *flag == b'S' || flag.is_ascii_lowercase())
            .collect();
        let mut edits = Vec::new();
        for difference in touched {
            let (path, before) = (&difference.path, &difference.before);
            let is_kept =
                |flag: &u8| flag.eq_ignore_ascii_case(&b'S') && difference.after.is_some();
            let flag = flags.get(path.as_bytes()).filter(|flag| !is_kept(flag));
            let (Some(_), Some(before)) = (flag, before) else {
                continue;
            };
            if !has_content(&git, &checkout.work_tree, path, &before.id)? {
                edits.push(path.clone());
            }
        }
        Ok(edits)
    }

    /// Copies a checkout's index as one file, even if git stores it as a split index.
    pub(crate) fn copy_whole_index(
        &self,
        checkout: &UserCheckout,
        to: &Path,
    ) -> Result<(), SandboxError> {
        copy_index(&checkout.git_dir.join("index"), to)?;
        let entries =
            std::fs::read_dir(&checkout.git_dir).while_being("read", &checkout.git_dir)?;
        let is_split = entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.as_bytes().starts_with(b"sharedindex.")
        });
        if is_split {
            let join = ["update-index", "--no-split-index"];
            self.git_on_checkout(checkout, to).run(&join)?;
        }
        Ok(())
    }

    /// Did a ref ever point to this commit, according to its reflog?
    pub(crate) fn was_ref_at(&self, target: &str, commit: &ObjectId) -> Result<bool, SandboxError> {
        // Reading the reflog file is much faster than starting git.
        if let Ok(log) = std::fs::read(self.common_dir.join("logs").join(target)) {
            let mut lines = log.split(|byte| *byte == b'\n');
            let to = |line: &[u8]| {
                line.split(|byte| *byte == b' ').nth(1) == Some(commit.as_str().as_bytes())
            };
            return Ok(lines.any(to));
        }
        let log = ["log", "-g", "--format=%H", target, "--"];
        let output = self.git().try_run(&log)?;
        Ok(String::from_utf8_lossy(&output.stdout)
            .lines()
            .any(|line| line == commit.as_str()))
    }

    pub(crate) fn list_differences(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<Vec<PathDifference>, SandboxError> {
        compare::list_differences(&self.git(), old.as_str(), new.as_str())
    }

    /// The engine's repository for a directory, with that directory as its working tree.
    pub(crate) fn for_directory(git_env: &GitEnv, git_dir: &Path, directory: &Path) -> Self {
        Self {
            git_env: git_env.clone(),
            path: directory.to_owned(),
            git_dir: git_dir.to_owned(),
            common_dir: git_dir.to_owned(),
            work_tree: Some(directory.to_owned()),
            object_format: "sha1".to_owned(),
            user_config: UserGitConfig::default(),
        }
    }
}

impl UserGitConfig {
    fn read(as_user: &GitCommand) -> Result<Self, SandboxError> {
        let pattern = r"^(core\.(autocrlf|eol)|user\.(name|email))$";
        let output = as_user.try_run(&["config", "--null", "--get-regexp", pattern])?;
        let (mut name, mut email) = (None, None);
        let mut conversions = Vec::new();
        for field in git::split_nul_fields(&output.stdout) {
            let text = String::from_utf8_lossy(field);
            let Some((key, value)) = text.split_once('\n') else {
                continue;
            };
            match key {
                "user.name" => name = Some(value.to_owned()),
                "user.email" => email = Some(value.to_owned()),
                _ => conversions.push(format!("{key}={value}")),
            }
        }
        Ok(Self {
            conversions,
            identity: name.zip(email),
        })
    }
}

/// Does a file have this content, or not exist? Does not follow symlinks.
fn has_content(
    git: &GitCommand,
    root: &Path,
    path: &TreePath,
    content: &ObjectId,
) -> Result<bool, SandboxError> {
    let file_path = files::join_tree_path(root, path);
    let metadata = match std::fs::symlink_metadata(&file_path) {
        Ok(metadata) => metadata,
        Err(error) if files::is_not_found(&error) => return Ok(true),
        Err(error) => return Err(error).while_being("inspected", &file_path),
    };
    if metadata.is_dir() {
        return Ok(false);
    }
    let now = if metadata.is_symlink() {
        let link = std::fs::read_link(&file_path).while_being("read", &file_path)?;
        refs::run_for_object_id(
            git,
            &["hash-object", "--stdin"],
            link.as_os_str().as_bytes(),
        )?
    } else {
        let path = [OsStr::from_bytes(path.as_bytes())];
        git.read_object_id(&git::append_paths(&["hash-object", "--"], &path))?
    };
    Ok(now == *content)
}

pub(crate) fn find_checkout_of<'a>(
    checkouts: &'a [UserCheckout],
    target: &str,
) -> Option<&'a UserCheckout> {
    checkouts
        .iter()
        .find(|checkout| checkout.branch.as_deref() == Some(target))
}

/// Finds an operation in any checkout that has this branch checked out or will return to it.
pub(crate) fn find_operation_in_progress(
    checkouts: &[UserCheckout],
    target: &str,
) -> Option<LandingObstacle> {
    for checkout in checkouts {
        let has_target = checkout.branch.as_deref() == Some(target);
        for (file, what, names) in IN_PROGRESS_MARKERS {
            let marker = checkout.git_dir.join(file);
            if !marker.exists() {
                continue;
            }
            let returns_to_target = names.is_some_and(|name| {
                std::fs::read_to_string(checkout.git_dir.join(name)).is_ok_and(|text| {
                    text.trim() == target || text.trim() == short_branch_name(target)
                })
            });
            if has_target || returns_to_target {
                return Some(LandingObstacle::InProgress(what));
            }
        }
    }
    None
}

/// Files that git creates while an operation is in progress, and where it stores the branch to
/// return to.
const IN_PROGRESS_MARKERS: [(&str, &str, Option<&str>); 6] = [
    ("rebase-merge", "rebase", Some("rebase-merge/head-name")),
    ("rebase-apply", "rebase", Some("rebase-apply/head-name")),
    ("MERGE_HEAD", "merge", None),
    ("CHERRY_PICK_HEAD", "cherry-pick", None),
    ("REVERT_HEAD", "revert", None),
    ("BISECT_LOG", "bisect", Some("BISECT_START")),
];

pub(crate) fn short_branch_name(target: &str) -> &str {
    target.strip_prefix("refs/heads/").unwrap_or(target)
}

/// Copies an index with its modification time. git uses that time to decide which files may have
/// changed without a visible change of their stat data.
pub(crate) fn copy_index(from: &Path, to: &Path) -> Result<(), SandboxError> {
    let _ = std::fs::remove_file(to);
    match std::fs::copy(from, to) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).while_being("copied", from),
    }
    // A copy has the permissions of the original.
    files::restrict_to_owner(to).while_being("written", to)?;
    let modified = std::fs::metadata(from)
        .and_then(|metadata| metadata.modified())
        .while_being("read", from)?;
    std::fs::File::options()
        .write(true)
        .open(to)
        .and_then(|file| file.set_modified(modified))
        .while_being("written", to)
}

pub(crate) fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// git prints one path per line, and stores paths of other repositories one per line.
fn refuse_line_breaks(path: &Path) -> Result<(), SandboxError> {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match resolved.as_os_str().as_bytes().contains(&b'\n') {
        true => Err(SandboxError::UnusableLocation {
            path: resolved,
            problem: LocationProblem::LineBreakInPath,
        }),
        false => Ok(()),
    }
}

fn not_a_repository_error(path: &Path, stderr: &str) -> SandboxError {
    if stderr.contains("dubious ownership") {
        return SandboxError::UntrustedOwner {
            path: path.to_owned(),
        };
    }
    SandboxError::UnusableLocation {
        path: path.to_owned(),
        problem: LocationProblem::NotAGitRepository,
    }
}
