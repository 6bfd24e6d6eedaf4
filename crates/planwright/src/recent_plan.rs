//! The plan a person last made or named in a checkout: what `@` means there.
//!
//! Neither the clock nor what workers do changes it. One small file per store and checkout, below the home; without
//! it `@` is the newest plan, so a file that cannot be read or written is not an error.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use plan::{Digest, PlanId};

use crate::current_repository;
use crate::settings::StoreAddress;

/// Where the plan of the current checkout is remembered.
#[derive(Debug)]
pub struct RecentPlan {
    file: PathBuf,
}

impl RecentPlan {
    /// For plans of this store, in the checkout around the current directory, or in that directory outside of any.
    /// `None` where there is no current directory.
    pub fn for_current_checkout(home: &Path, store: &StoreAddress) -> Option<Self> {
        let here =
            current_repository::find_checkout_root().or_else(|| std::env::current_dir().ok())?;
        let here = here.canonicalize().ok()?;
        let store = match store {
            // A relative path names another file in another directory.
            StoreAddress::Sqlite(path) => std::path::absolute(path).ok()?.into_os_string(),
            StoreAddress::Postgres(url) => url.into(),
        };
        let key = Digest::hash_parts([store.as_bytes(), here.as_os_str().as_bytes()]);
        let file = home.join("recent").join(key.to_string());
        Some(Self { file })
    }

    /// The plan, if one is remembered.
    pub fn read(&self) -> Option<PlanId> {
        fs::read_to_string(&self.file).ok()?.trim().parse().ok()
    }

    /// Remembers a plan. Written beside the file and renamed, so that nobody reads half of it.
    pub fn write(&self, plan_id: PlanId) -> std::io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        crate::home::make_private_directory(directory)?;
        let new = self.file.with_extension(std::process::id().to_string());
        crate::home::write_private_file(&new, &plan_id.to_string())?;
        fs::rename(&new, &self.file)
    }
}
