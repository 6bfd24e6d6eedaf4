//! Runs a program to its end, for a limited time, and hands over what it printed.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const POLL: Duration = Duration::from_millis(10);
/// How long a program may take to clean up after itself.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the program printed, or in one line why that is nothing to go by.
pub fn output(command: &mut Command, limit: Duration) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| format!("{name} could not be run: {error}"))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            Ok(None) => {
                end(&mut child);
                break None;
            }
            Err(error) => return Err(format!("{name} could not be waited for: {error}")),
        }
    };
    let (stdout, stderr) = (
        stdout.join().unwrap_or_default(),
        stderr.join().unwrap_or_default(),
    );
    match status {
        Some(status) if status.success() => Ok(stdout),
        Some(status) => Err(format!("{status}: {}", reason(&stderr))),
        None => Err(format!("it took longer than {} seconds", limit.as_secs())),
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until then is all there is to say.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Asks it to end, so that it can end what it started; then makes it.
fn end(child: &mut Child) {
    let _gone = kill_process(Pid::from_child(child), Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(POLL);
    }
    let _gone = child.kill();
    let _ = child.wait();
}

/// The last line that tells an error, or else the last that says something: what tools print behind the
/// reason is where a log is, what runtime it was, or advice.
fn reason(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        line.contains("error") && !line.contains("complete log") && !line.starts_with("at ")
    };
    let line = lines().rfind(tells).or_else(|| lines().next_back());
    line.unwrap_or("it said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        output(Command::new("sh").args(["-c", script]), limit)
    }

    #[test]
    fn what_went_wrong_is_said_in_one_line() {
        let minute = Duration::from_secs(60);
        assert_eq!(shell("echo fine", minute), Ok("fine\n".to_owned()));
        let failed = shell("echo because >&2; echo >&2; exit 3", minute);
        assert_eq!(failed, Err("exit status: 3: because".to_owned()));
        let absent = output(&mut Command::new("no-such-program"), minute);
        assert!(absent.is_err_and(|why| why.contains("could not be run")));
    }

    #[test]
    fn the_reason_is_not_what_is_printed_behind_it() {
        let psql = "psql: error: connection refused\n\tIs the server running?\n";
        assert_eq!(reason(psql), "psql: error: connection refused");
        let npm = "npm error 404 Not Found\nnpm error A complete log of this run is in: x\n";
        assert_eq!(reason(npm), "npm error 404 Not Found");
        let node = "Error: no such port\n    at Error.new (x)\n\nNode.js v20\n";
        assert_eq!(reason(node), "Error: no such port");
        assert_eq!(reason("killed\n\n"), "killed");
        assert_eq!(reason(""), "it said nothing");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let stopwatch = Instant::now();
        let ended = shell("exec sleep 60", Duration::from_millis(50));
        assert_eq!(ended, Err("it took longer than 0 seconds".to_owned()));
        assert!(stopwatch.elapsed() < Duration::from_secs(30));
    }
}
