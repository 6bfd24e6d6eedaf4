//! Writes programs for tests to start.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file that can be started at once.
///
/// Another process writes it. If this process had the file open for writing, a child forked by
/// another thread would inherit the descriptor until its exec. Until then the system would refuse
/// to start the file ("text file busy").
#[expect(
    clippy::disallowed_methods,
    reason = "tests write the programs they start"
)]
pub fn write_program(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let ended = writer.wait().unwrap();
    assert!(ended.success(), "{} was not written", path.display());
}
