//! Runs the user's own programs (shell, editor, notify command), with the user's rights and environment.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::SandboxError;
use crate::error::FileErrorContext;

/// How long a notify command may run.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the user's shell in a sandbox, with their full environment and these variables, until
/// they leave it.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
pub fn run_shell(
    path: &Path,
    shell: &OsStr,
    variables: &[(String, String)],
) -> Result<(), SandboxError> {
    let mut command = std::process::Command::new(shell);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // The shell's exit code is that of the last command in it; it means nothing here.
    let status = command.current_dir(path).status();
    status.map(drop).while_being("entered", path)
}

/// Starts the user's notify command in the background, with their full environment. It is
/// killed after a time limit.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
pub fn run_notify_command(command: &str, variables: &[(&str, &str)]) -> Result<(), SandboxError> {
    let shell = Path::new("/bin/sh");
    let mut child = std::process::Command::new(shell)
        .args(["-c", command])
        .envs(variables.iter().copied())
        .current_dir("/")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .process_group(0)
        .spawn()
        .while_being("started", shell)?;
    std::thread::spawn(move || {
        let deadline = Instant::now() + NOTIFY_TIMEOUT;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= deadline {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    Ok(())
}

/// Opens a file in the user's editor, which may be a command with arguments, and waits for it.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
pub fn run_editor(file: &Path, editor: &OsStr) -> Result<(), SandboxError> {
    let mut words = editor.to_owned();
    words.push(" \"$@\"");
    let mut command = std::process::Command::new("/bin/sh");
    command.arg("-c").arg(words).arg("editor").arg(file);
    let ended = command.status().while_being("edited", file)?;
    if ended.success() {
        return Ok(());
    }
    Err(std::io::Error::other("the editor exited with an error")).while_being("edited", file)
}

/// Runs a command in a directory, at the person's wish and with their rights. Its output goes to standard error.
/// Returns the exit code; `None` if a signal ended it.
#[expect(
    clippy::disallowed_methods,
    reason = "all child processes belong to this crate"
)]
pub fn run_in_directory(directory: &Path, command_text: &str) -> Result<Option<i32>, SandboxError> {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", command_text]).current_dir(directory);
    command.stdout(std::io::stderr());
    let ended = command.status().while_being("entered", directory)?;
    Ok(ended.code())
}
