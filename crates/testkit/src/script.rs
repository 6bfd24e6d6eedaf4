//! Programs that tests write and start.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program that can be started at once.
///
/// Another process writes it. Whoever is forked by another thread while this process has the file open
/// for writing keeps it open until it has become its own program, and until then the system refuses to
/// start the file ("text file busy").
#[expect(clippy::disallowed_methods, reason = "what tests start, tests write")]
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
