//! Runs the program under test as a real process, in an isolated environment, and captures its
//! output.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::TerminalSize;

/// A program with its own home directory. Dropping it removes the home.
pub struct TestProgram {
    path: PathBuf,
    home: TempDir,
    variables: Vec<(OsString, OsString)>,
    user: Option<u32>,
}

impl TestProgram {
    /// Uses the program at this path, with an empty home.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let mut program = Self {
            path: path.into(),
            home: TempDir::with_prefix("planwright-home-").unwrap(),
            variables: Vec::new(),
            user: None,
        };
        let home = program.home().as_os_str().to_owned();
        program.set_variable("PLANWRIGHT_HOME", home);
        program.set_variable("HOME", "/nonexistent");
        program.set_variable("PATH", "/usr/bin:/bin:/usr/local/bin");
        program.set_variable("LANG", "C.UTF-8");
        program.set_variable("TZ", "UTC");
        program
    }

    /// Sets an environment variable for all later runs.
    pub fn set_variable(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Runs the program as this user and group. Requires root.
    pub fn run_as_user(&mut self, user: u32) {
        self.user = Some(user);
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Prepares a run with these arguments.
    pub fn run<I>(&self, arguments: I) -> TestRun
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        TestRun {
            path: self.path.clone(),
            directory: self.home().to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            variables: self.variables.clone(),
            input: Vec::new(),
            file_limit: None,
            launcher: Vec::new(),
            user: self.user,
            terminal_size: TerminalSize::default(),
        }
    }
}

#[derive(Clone)]
pub struct TestRun {
    path: PathBuf,
    directory: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    input: Vec<u8>,
    file_limit: Option<u64>,
    launcher: Vec<OsString>,
    user: Option<u32>,
    pub(crate) terminal_size: TerminalSize,
}

impl TestRun {
    /// Starts the program through a launcher that executes its remaining arguments, such as
    /// `nohup`.
    #[must_use]
    pub fn with_launcher(mut self, words: &[&str]) -> Self {
        self.launcher = words.iter().map(Into::into).collect();
        self
    }

    /// Chooses the size of the terminal, if the program runs on one.
    #[must_use]
    pub fn with_terminal_size(mut self, terminal_size: TerminalSize) -> Self {
        self.terminal_size = terminal_size;
        self
    }

    /// Runs in a new session, with the terminal as its controlling terminal.
    #[must_use]
    pub fn with_own_session(self) -> Self {
        self.with_launcher(&["setsid", "--ctty", "env", "--default-signal=HUP"])
    }

    /// Runs with the default action for hang-ups, even if the tests run under `nohup`.
    #[must_use]
    pub fn with_default_hangup(self) -> Self {
        self.with_launcher(&["env", "--default-signal=HUP"])
    }

    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn without_variable(mut self, name: impl AsRef<OsStr>) -> Self {
        self.variables.retain(|(given, _)| given != name.as_ref());
        self
    }

    /// Uses this working directory instead of the home.
    #[must_use]
    pub fn with_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    #[must_use]
    pub fn with_input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Limits the size of every file, rounded down to blocks of 512 bytes. Simulates a full disk.
    #[must_use]
    pub fn with_file_size_limit(mut self, bytes: u64) -> Self {
        self.file_limit = Some(bytes);
        self
    }

    /// Starts the program as `planwright`, so that its messages do not depend on the path.
    pub fn start(&self) -> TestProcess {
        let mut child = self.command().spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that does not read its input causes an error here.
        let _ = stdin.write_all(&self.input);
        drop(stdin);
        TestProcess(Some(child))
    }

    /// Runs the program and waits for its end.
    pub fn finish(&self) -> TestRunOutput {
        self.start().finish()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the program under test"
    )]
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.file_limit {
            None if !self.launcher.is_empty() => {
                let mut command = Command::new(&self.launcher[0]);
                command.args(&self.launcher[1..]).arg(&self.path);
                command
            }
            None => {
                let mut command = Command::new(&self.path);
                command.arg0("planwright");
                command
            }
            // Exceeding the limit kills the process by a signal unless it is ignored; then the
            // write fails as on a full disk.
            Some(bytes) => {
                let mut command = Command::new("/bin/sh");
                let script = r#"trap "" XFSZ; ulimit -f "$1"; shift; exec "$@""#;
                command.args(["-c", script, "sh"]);
                command.arg((bytes / 512).to_string());
                command.arg(&self.path);
                command
            }
        };
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .args(&self.arguments)
            .env_clear()
            .envs(coverage_variable(self.file_limit))
            .envs(self.variables.iter().cloned())
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Returns where a coverage build (`cargo xtask coverage`) writes its profile: to the same place as
/// the tests and never into the working directory. Not on a full disk.
#[expect(
    clippy::disallowed_methods,
    reason = "coverage tools configure themselves by the environment"
)]
fn coverage_variable(file_limit: Option<u64>) -> Option<(&'static str, OsString)> {
    const VARIABLE: &str = "LLVM_PROFILE_FILE";
    let file = std::env::var_os(VARIABLE)?;
    Some((VARIABLE, file_limit.map_or(file, |_| "/dev/null".into())))
}

/// A running program. Killed when dropped.
pub struct TestProcess(Option<Child>);

impl Drop for TestProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl TestProcess {
    pub fn finish(mut self) -> TestRunOutput {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        TestRunOutput {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(mut self) -> TestRunOutput {
        self.child().kill().unwrap();
        self.finish()
    }

    pub fn process_id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Closes the read end of stdout, as `head -0` does, and waits for the end.
    pub fn finish_with_stdout_closed(mut self) -> TestRunOutput {
        drop(self.child().stdout.take());
        self.finish()
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

/// The captured output of a run.
#[derive(Debug, Clone)]
pub struct TestRunOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl TestRunOutput {
    /// `None` if the process was killed.
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Checks whether the process was killed by SIGKILL.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// Returns the JSON envelope, which is the last line of stdout. Checks its shape.
    #[track_caller]
    pub fn envelope(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        let envelope: Value = match serde_json::from_str(line) {
            Ok(envelope) => envelope,
            Err(error) => panic!("not an envelope ({error}): {self:?}"),
        };
        check_envelope(&envelope, self.exit_code());
        envelope
    }

    /// Returns the envelope's data.
    #[track_caller]
    pub fn data(&self) -> Value {
        self.envelope()["data"].take()
    }

    /// Returns all messages of the envelope, one per line.
    #[track_caller]
    pub fn messages(&self) -> String {
        let envelope = self.envelope();
        let messages = envelope["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| format!("{}\n", message["text"].as_str().unwrap()))
            .collect()
    }
}

/// Checks the shape that all JSON answers share.
#[track_caller]
fn check_envelope(envelope: &Value, code: Option<i32>) {
    let keys = |value: &Value| -> Vec<String> {
        let fields = value.as_object();
        let fields = fields.unwrap_or_else(|| panic!("not an object: {value}"));
        let mut keys: Vec<String> = fields.keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys(envelope),
        [
            "command",
            "data",
            "exit_code",
            "messages",
            "status",
            "timing"
        ]
    );
    assert!(envelope["command"].is_string(), "{envelope}");
    assert_eq!(
        envelope["exit_code"].as_i64(),
        code.map(i64::from),
        "the envelope and the process have the same exit code: {envelope}"
    );
    let status = envelope["status"].as_str().unwrap_or_default();
    assert!(["ok", "warn", "error"].contains(&status), "{envelope}");
    assert_eq!(status == "error", code != Some(0), "{envelope}");
    assert_eq!(keys(&envelope["timing"]), ["duration_ms", "started"]);
    assert!(envelope["timing"]["duration_ms"].is_u64(), "{envelope}");
    let started = envelope["timing"]["started"].as_str().unwrap_or_default();
    let moment = started.len() == 27 && started.ends_with('Z') && started.contains('T');
    assert!(moment, "{envelope}");
    for message in envelope["messages"].as_array().into_iter().flatten() {
        assert_eq!(keys(message), ["level", "text"]);
        let level = message["level"].as_str().unwrap_or_default();
        assert!(
            ["error", "warn", "hint", "info"].contains(&level),
            "{envelope}"
        );
        assert!(message["text"].is_string(), "{envelope}");
    }
    assert!(envelope["messages"].is_array(), "{envelope}");
}
