//! A disk that is full for a moment at a time, as the workers' git sees it: a program in front of git answers that
//! there is no space left. A small file system would need rights that the trial does not have.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use fastrand::Rng;

use crate::trial_env::TrialEnv;

/// What git says on a full disk. Planwright has nothing else to go by: there is space again when it looks.
pub const NO_SPACE_MESSAGE: &str = "error: unable to write file: No space left on device";

/// While the switch exists, commands that write files or objects fail.
const GIT_SCRIPT: &str = r#"#!/bin/sh
PATH=${PATH#*:}
if [ -e "$0.full" ]; then
  case " $* " in *' read-tree '* | *' add '* | *' commit-tree '* | *' index-pack '*)
    echo "MESSAGE" >&2
    exit 128;;
  esac
fi
exec git "$@"
"#;

pub struct FullDisk {
    /// The disk is full while this file exists.
    switch: PathBuf,
    next_change: Instant,
    /// How often it was full.
    pub count: u32,
}

impl FullDisk {
    /// Puts the program in front of the git of workers that are started from now on.
    pub fn install(env: &mut TrialEnv, message: &str) -> anyhow::Result<Self> {
        let directory = env.records_dir.with_file_name("full-disk");
        std::fs::create_dir_all(&directory)?;
        let program = directory.join("git");
        std::fs::write(&program, GIT_SCRIPT.replace("MESSAGE", message))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        env.put_before_path(&directory)?;
        Ok(Self {
            switch: directory.join("git.full"),
            next_change: Instant::now(),
            count: 0,
        })
    }

    /// Fills the disk or frees it, if that is due.
    pub fn change_if_due(&mut self, random: &mut Rng) -> anyhow::Result<()> {
        if Instant::now() < self.next_change {
            return Ok(());
        }
        let pause = if self.switch.exists() {
            self.free()?;
            random.u64(2000..5000)
        } else {
            std::fs::write(&self.switch, "").context("could not fill the disk")?;
            self.count += 1;
            random.u64(300..900)
        };
        self.next_change = Instant::now() + Duration::from_millis(pause);
        Ok(())
    }

    pub fn free(&self) -> anyhow::Result<()> {
        match std::fs::remove_file(&self.switch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
