//! Remembers the plans a person last created or named in a checkout: the meaning of `@` and `@-`.
//!
//! One small file per store and checkout, in the home: the last plan, then the one before it. Workers do not
//! change it. Without it `@` is the newest plan, so a file that cannot be read or written is not an error.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plan::{Digest, PlanId};

use crate::current_repository;
use crate::settings::StoreAddress;

/// The file that remembers the recent plan of one checkout.
#[derive(Debug)]
pub struct RecentPlan {
    file: PathBuf,
}

impl RecentPlan {
    /// Locates the file for this store and the current checkout, or the current directory outside any checkout.
    /// `None` if there is no current directory.
    pub fn for_current_checkout(home: &Path, store: &StoreAddress) -> Option<Self> {
        let here =
            current_repository::find_checkout_root().or_else(|| std::env::current_dir().ok())?;
        let here = here.canonicalize().ok()?;
        let store = match store {
            // The same relative path names different stores in different directories.
            StoreAddress::Sqlite(path) => std::path::absolute(path).ok()?.into_os_string(),
            StoreAddress::Postgres(url) => url.into(),
        };
        let key = Digest::hash_parts([store.as_bytes(), here.as_os_str().as_bytes()]);
        let file = home.join("recent").join(key.to_string());
        Some(Self { file })
    }

    pub fn read(&self) -> Option<PlanId> {
        self.read_lines().0
    }

    /// The plan that was remembered before the last one.
    pub fn read_previous(&self) -> Option<PlanId> {
        self.read_lines().1
    }

    fn read_lines(&self) -> (Option<PlanId>, Option<PlanId>) {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let mut plans = text.lines().map(|line| line.trim().parse().ok());
        (plans.next().flatten(), plans.next().flatten())
    }

    /// Remembers a plan; the last one becomes the one before. Writes beside the file and renames, so that readers
    /// never see half a file.
    pub fn write(&self, plan_id: PlanId) -> std::io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        crate::home::make_private_directory(directory)?;
        let new = self.file.with_extension(std::process::id().to_string());
        let last = self.read().filter(|last| *last != plan_id);
        let previous = last.or_else(|| self.read_previous());
        let previous = previous.map_or_else(String::new, |plan| format!("{plan}\n"));
        crate::home::write_private_file(&new, &format!("{plan_id}\n{previous}"))?;
        fs::rename(&new, &self.file)
    }
}
