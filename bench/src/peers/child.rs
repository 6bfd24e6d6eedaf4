//! Runs a program with a timeout and returns its output.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a program may take to clean up after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the program's standard output, or the failure in one line.
pub fn run_with_timeout(command: &mut Command, timeout: Duration) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("could not run {name}: {error}"))?;
    let (stdout, stderr) = (
        read_pipe(child.stdout.take()),
        read_pipe(child.stderr.take()),
    );
    let deadline = Instant::now() + timeout;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                stop_child(&mut child);
                break None;
            }
            Err(error) => return Err(format!("could not wait for {name}: {error}")),
        }
    };
    let (stdout, stderr) = (
        stdout.join().unwrap_or_default(),
        stderr.join().unwrap_or_default(),
    );
    match status {
        Some(status) if status.success() => Ok(stdout),
        Some(status) => Err(format!("{status}: {}", find_error_line(&stderr))),
        None => Err(format!("timed out after {} seconds", timeout.as_secs())),
    }
}

/// Reads in a thread, so that a full pipe never blocks the program.
fn read_pipe(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error, what was read so far is returned.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Sends SIGTERM, so that the program can stop its own children, and SIGKILL after a timeout.
fn stop_child(child: &mut Child) {
    let _gone = kill_process(Pid::from_child(child), Signal::TERM);
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
    let _gone = child.kill();
    let _ = child.wait();
}

/// The last line that contains an error, otherwise the last line that is not empty. After the error, tools often print
/// the path of a log, a stack trace, their version or a hint.
fn find_error_line(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_error = |line: &&str| {
        let line = line.to_lowercase();
        line.contains("error") && !line.contains("complete log") && !line.starts_with("at ")
    };
    let line = lines().rfind(is_error).or_else(|| lines().next_back());
    line.unwrap_or("no error message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_shell(script: &str, timeout: Duration) -> Result<String, String> {
        run_with_timeout(Command::new("sh").args(["-c", script]), timeout)
    }

    #[test]
    fn a_failure_is_reported_in_one_line() {
        let minute = Duration::from_secs(60);
        assert_eq!(run_shell("echo fine", minute), Ok("fine\n".to_owned()));
        let failed = run_shell("echo because >&2; echo >&2; exit 3", minute);
        assert_eq!(failed, Err("exit status: 3: because".to_owned()));
        let missing = run_with_timeout(&mut Command::new("no-such-program"), minute);
        assert!(missing.is_err_and(|message| message.contains("could not run")));
    }

    #[test]
    fn lines_after_the_error_are_ignored() {
        let psql = "psql: error: connection refused\n\tIs the server running?\n";
        assert_eq!(find_error_line(psql), "psql: error: connection refused");
        let npm = "npm error 404 Not Found\nnpm error A complete log of this run is in: x\n";
        assert_eq!(find_error_line(npm), "npm error 404 Not Found");
        let node = "Error: no such port\n    at Error.new (x)\n\nNode.js v20\n";
        assert_eq!(find_error_line(node), "Error: no such port");
        assert_eq!(find_error_line("killed\n\n"), "killed");
        assert_eq!(find_error_line(""), "no error message");
    }

    #[test]
    fn a_program_that_takes_too_long_is_stopped() {
        let stopwatch = Instant::now();
        let result = run_shell("exec sleep 60", Duration::from_millis(50));
        assert_eq!(result, Err("timed out after 0 seconds".to_owned()));
        assert!(stopwatch.elapsed() < Duration::from_secs(30));
    }
}
