//! Keeps git from waiting forever for a named pipe in a working tree.
//!
//! git opens some files of a tree by name, whatever they are: ignore rules, attributes and the
//! repositories in it. If an agent puts a pipe there, the open blocks until somebody writes to it.
//! Once git takes longer than usual, the pipes with such names are looked for. Opening one for
//! writing succeeds only if a process waits to read it, and lets that process see an empty file.

use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// How long git may run before its tree is searched. Most commands end earlier.
const FIRST_SEARCH_DELAY: Duration = Duration::from_millis(200);

/// How many entries of a tree one search reads.
const MAX_SEARCHED_ENTRIES: usize = 2_000_000;

/// Files that git reads in any directory of a working tree.
const FILES_READ_BY_NAME: [&[u8]; 3] = [b".gitignore", b".gitattributes", b".gitmodules"];

/// The pipes in a working tree that git would wait for.
#[derive(Debug)]
pub(crate) struct TreePipes<'a> {
    root: &'a Path,
    began: Instant,
    next_search: Duration,
    known: Vec<PathBuf>,
}

impl<'a> TreePipes<'a> {
    pub fn new(root: &'a Path) -> Self {
        Self {
            root,
            began: Instant::now(),
            next_search: FIRST_SEARCH_DELAY,
            known: Vec::new(),
        }
    }

    /// Lets every process that waits for a known pipe see an empty file. Returns the first such
    /// pipe.
    pub fn release_reader(&mut self) -> Option<PathBuf> {
        let elapsed = self.began.elapsed();
        if elapsed >= self.next_search {
            self.known = find_pipes(self.root);
            // A healthy git in a large tree must not be slowed down by repeated searches.
            self.next_search = (elapsed + self.began.elapsed()) * 2;
        }
        let mut waited_for = self.known.iter().filter(|pipe| open_for_reader(pipe));
        let first = waited_for.next().cloned();
        waited_for.for_each(drop);
        first
    }

    pub fn has_pipes(&self) -> bool {
        !self.known.is_empty()
    }
}

/// Opens and closes a pipe for writing. Returns `false` if nobody waits to read it, or it is no
/// pipe.
fn open_for_reader(pipe: &Path) -> bool {
    let status = rustix::fs::statat(CWD, pipe, AtFlags::SYMLINK_NOFOLLOW);
    let is_pipe = status.is_ok_and(|status| {
        rustix::fs::FileType::from_raw_mode(status.st_mode) == rustix::fs::FileType::Fifo
    });
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    is_pipe && rustix::fs::openat(CWD, pipe, flags, Mode::empty()).is_ok()
}

/// Finds pipes with names that git reads, without following symlinks. Skips what cannot be read,
/// because git cannot read it either. The repository at the root is skipped: the engine never uses
/// it.
fn find_pipes(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![(root.to_owned(), false)];
    let mut searched = 0;
    while let Some((directory, is_in_repository)) = directories.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            searched += 1;
            if searched > MAX_SEARCHED_ENTRIES {
                return found;
            }
            let name = entry.file_name();
            let is_repository = name == ".git";
            let Ok(file_type) = entry.file_type() else {
                continue;
            };
            if file_type.is_dir() && !(is_repository && directory == root) {
                directories.push((entry.path(), is_in_repository || is_repository));
            } else if is_read_pipe(file_type, name.as_bytes(), is_in_repository) {
                found.push(entry.path());
            }
        }
    }
    found
}

fn is_read_pipe(file_type: FileType, name: &[u8], is_in_repository: bool) -> bool {
    file_type.is_fifo() && (is_in_repository || FILES_READ_BY_NAME.contains(&name))
}
