//! A directory to run supervised programs in.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use planwright_sandbox::{Confinement, ProcessSpec, RunEnding, Supervisor};
use rustix::fs::FlockOperation;

pub const SUPERVISOR: &str = env!("CARGO_BIN_EXE_planwright-test-supervisor");

pub struct ProcessFixture {
    pub directory: tempfile::TempDir,
}

pub struct ProgramResult {
    pub ending: RunEnding,
    pub output: String,
    pub errors: String,
}

impl ProcessFixture {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory }
    }

    pub fn work_dir(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub fn lock_path(&self) -> PathBuf {
        self.directory.path().join("work.busy")
    }

    pub fn process_spec(&self, command: &[&str]) -> ProcessSpec {
        ProcessSpec {
            command: command.iter().map(OsString::from).collect(),
            directory: self.work_dir(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            input: None,
            confinement: Confinement::Off,
            locks: vec![self.lock_path()],
        }
    }

    pub fn shell_spec(&self, script: &str) -> ProcessSpec {
        self.process_spec(&["sh", "-c", script])
    }

    /// Waits until a program has written a line to a file, and reads it.
    pub fn await_file(&self, name: &str) -> String {
        let path = self.work_dir().join(name);
        let mut text = String::new();
        wait_until(&format!("{name} is written"), || {
            text = std::fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n')
        });
        text.trim().to_owned()
    }

    pub fn is_lock_free(&self) -> bool {
        let Ok(lock) = File::open(self.lock_path()) else {
            return true;
        };
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

pub fn make_supervisor() -> Supervisor {
    Supervisor::new(vec![SUPERVISOR.into(), "supervise".into()])
}

/// A supervisor that keeps an idle process. `word` is an argument by which its processes are found.
pub fn make_idling_supervisor(word: &Path) -> Supervisor {
    Supervisor::new(vec![SUPERVISOR.into(), "supervise".into(), word.into()]).with_idle_process()
}

/// Supervising processes with this argument, without their launchers.
pub fn list_supervisors(word: &Path) -> Vec<String> {
    list_stage_processes(word, false)
}

/// Their launchers that have not executed a program yet.
pub fn list_launchers(word: &Path) -> Vec<String> {
    list_stage_processes(word, true)
}

fn list_stage_processes(word: &Path, is_launcher_wanted: bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let entry = entry.unwrap();
        // The process may have ended in the meantime.
        let Ok(words) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        let is_supervisor = words.contains(&b"supervise".as_slice());
        let is_launcher = words.contains(&b"--inner".as_slice());
        if is_supervisor
            && is_launcher == is_launcher_wanted
            && words.contains(&word.as_os_str().as_bytes())
        {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

/// Behaves as on a system without Landlock.
pub fn make_supervisor_without_landlock() -> Supervisor {
    Supervisor::new(vec![
        SUPERVISOR.into(),
        "supervise".into(),
        "--without-landlock".into(),
    ])
}

pub fn run_program(spec: &ProcessSpec) -> ProgramResult {
    run_program_with(&make_supervisor(), spec)
}

pub fn run_program_with(supervisor: &Supervisor, spec: &ProcessSpec) -> ProgramResult {
    let mut running = supervisor.start_program(spec).unwrap();
    let (mut output, mut errors) = running.take_output().unwrap();
    assert!(running.take_output().is_none());
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        errors.read_to_end(&mut text).unwrap();
        text
    });
    let mut text = Vec::new();
    output.read_to_end(&mut text).unwrap();
    ProgramResult {
        ending: running.wait().unwrap(),
        output: String::from_utf8_lossy(&text).into_owned(),
        errors: String::from_utf8_lossy(&errors.join().unwrap()).into_owned(),
    }
}

/// Is a process running? A zombie is not.
pub fn is_alive(process: &str) -> bool {
    let stat = Path::new("/proc").join(process).join("stat");
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
    state.is_some_and(|state| state != "Z")
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + WAIT_TIMEOUT;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "not within {WAIT_TIMEOUT:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}
