//! Ends a child when this process is killed and cannot do so itself.
//!
//! The guard is a shell that waits for the end of a pipe, which the kernel closes when this process
//! ends for whatever reason. `PR_SET_PDEATHSIG` would need code between fork and exec, which is
//! unsafe and slows down each start; it also exists on Linux only, and reaches no grandchildren.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Ends the process group `$1` unless a line arrives first. SIGTERM lets git remove its lock files.
const GUARD_SCRIPT: &str = r#"read -r line || kill -s TERM -- "-$1""#;

/// While it exists, the process group ends with this process.
#[derive(Debug)]
pub(crate) struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// Guards a process group. Best effort: without a guard the group runs on by itself.
    #[expect(
        clippy::disallowed_methods,
        reason = "all child processes belong to this crate"
    )]
    pub fn start(group: u32) -> Self {
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD_SCRIPT, "sh", &group.to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal must not end it.
            .process_group(0)
            .spawn();
        Self(guard.ok())
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(guard) = &mut self.0 else {
            return;
        };
        let dismissed = guard.stdin.take().map(|mut stdin| stdin.write_all(b"\n"));
        if !matches!(dismissed, Some(Ok(()))) {
            // It has ended, or it would end the group, whose id may soon belong to others.
            let _ = guard.kill();
        }
        let _ = guard.wait();
    }
}
