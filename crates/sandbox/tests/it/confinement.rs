//! Confined programs: what they cannot access, what they can, and what is reported on a system
//! without Landlock. Without Landlock, only the last part runs.

use std::path::PathBuf;

use planwright_sandbox::{
    Confinement, IsolationLevel, ProcessSpec, ProgramExit, ReachablePaths, detect_isolation,
};

use crate::process_fixture::{
    ProcessFixture, ProgramResult, make_supervisor_without_landlock, run_program, run_program_with,
};

/// A process fixture with a secret that is not reachable, and a readable directory.
struct ConfinedFixture {
    processes: ProcessFixture,
}

impl ConfinedFixture {
    /// `None` if this system cannot confine programs.
    fn new() -> Option<Self> {
        if kernel_has_landlock() {
            return Some(Self::without_landlock_check());
        }
        println!("skipped: {}", detect_isolation());
        None
    }

    fn without_landlock_check() -> Self {
        let fixture = ProcessFixture::new();
        let files = [
            ("secret/key", "hidden\n"),
            ("shelf/book", "readable\n"),
            ("shelf/spare", "to be removed\n"),
        ];
        for (name, text) in files {
            let path = fixture.directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { processes: fixture }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.processes.directory.path().join(name)
    }

    fn reachable_paths(&self) -> ReachablePaths {
        ReachablePaths {
            writable: vec![self.processes.work_dir(), self.path_of("not-there")],
            readable: vec![self.path_of("shelf"), self.path_of("not-there-either")],
        }
    }

    fn required_spec(&self, script: &str) -> ProcessSpec {
        let mut spec = self.processes.shell_spec(script);
        spec.confinement = Confinement::Required(self.reachable_paths());
        spec
    }

    fn run_script(&self, script: &str) -> ProgramResult {
        run_program(&self.required_spec(script))
    }

    /// Runs the script confined, where it must fail, and unconfined, where it must succeed. So it
    /// is confinement that makes it fail.
    fn assert_denied(&self, script: &str) {
        let ran = self.run_script(script);
        assert_ne!(
            ran.ending.ended,
            ProgramExit::Code(0),
            "{script}: {}",
            ran.output
        );
        assert!(ran.ending.isolation.confines_files());
        let ran = run_program(&self.processes.shell_spec(script));
        assert_eq!(
            ran.ending.ended,
            ProgramExit::Code(0),
            "{script}: {}",
            ran.errors
        );
    }

    fn assert_allowed(&self, script: &str) -> String {
        let ran = self.run_script(script);
        assert_eq!(
            ran.ending.ended,
            ProgramExit::Code(0),
            "{script}: {}",
            ran.errors
        );
        ran.output
    }
}

/// Checked without the code under test, so that a bug there does not skip the tests.
#[cfg(target_os = "linux")]
fn kernel_has_landlock() -> bool {
    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let scoped = strict.scope(Scope::Signal);
    scoped.and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn kernel_has_landlock() -> bool {
    false
}

#[test]
fn unlisted_paths_cannot_be_read() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("cat ../secret/key");
    fixture.assert_denied("ls ../secret");
    fixture.assert_denied("ls ..");
    fixture.assert_denied("ln -s ../secret/key link.$$ && cat link.$$");
    fixture.assert_denied("ln ../secret/key hard.$$");
    // Not through a process with access, either.
    fixture.assert_denied("cat /proc/$PPID/cwd/usr/../etc/passwd");
    fixture.assert_denied("exec 3</proc/$PPID/mem");
    // Root could, if it did not give up capabilities.
    fixture.assert_denied(&format!("cat /proc/{}/environ", std::process::id()));
}

/// All terminals of the user are in that directory, where their input could be read.
#[test]
fn other_terminals_cannot_be_accessed() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("ls /dev/pts");
    fixture.assert_denied("exec 3<>/dev/ptmx");
}

#[test]
fn unlisted_paths_cannot_be_written() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("echo more >> ../secret/key");
    fixture.assert_denied("truncate -s 0 ../shelf/book && echo readable > ../shelf/book");
    if std::path::Path::new("/usr/bin/perl").exists() {
        // Truncated by path, without opening it.
        fixture.assert_denied("perl -e 'exit !truncate(\"../secret/key\", 7)'");
    }
    fixture.assert_denied("touch ../shelf/new");
    fixture.assert_denied("mkdir ../shelf/below.$$");
    fixture.assert_denied("ln -s nothing ../shelf/link.$$");
    fixture.assert_denied("cp ../shelf/book copy && mv copy ../shelf/moved");
    fixture.assert_denied("rm ../shelf/spare");
    assert_eq!(
        std::fs::read_to_string(fixture.path_of("shelf/book")).unwrap(),
        "readable\n"
    );
}

#[test]
fn listed_paths_can_be_used() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    assert_eq!(fixture.assert_allowed("cat ../shelf/book"), "readable\n");
    assert_eq!(
        fixture.assert_allowed("mkdir -p a/b && echo x > a/b/c && mv a/b/c d && cat d"),
        "x\n"
    );
    assert_eq!(fixture.assert_allowed("rm -r a d && ls"), "");
    fixture.assert_allowed("echo nothing > /dev/null && head -c 4 /dev/urandom > /dev/zero");
    fixture.assert_allowed(
        "cat /etc/passwd > /dev/null && uname -a && ls / /usr/bin > /dev/null || ls /usr/bin",
    );
    fixture.assert_allowed(
        "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x",
    );
    fixture.assert_allowed("sh -c 'sleep 100' & sleep 0.05; kill $!");
}

#[test]
fn input_file_may_be_unreadable_for_the_program() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let mut spec = fixture.required_spec("cat");
    spec.input = Some(fixture.path_of("secret/key"));
    assert_eq!(run_program(&spec).output, "hidden\n");
}

#[test]
fn supervisor_cannot_be_signalled() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let ran = fixture.run_script("kill -0 $PPID; echo $?; kill -9 $PPID; echo $?; exit 3");
    assert_eq!(ran.output, "1\n1\n");
    assert_eq!(ran.ending.ended, ProgramExit::Code(3));
}

#[test]
fn no_privileges_are_gained() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let output = fixture.assert_allowed("grep NoNewPrivs /proc/self/status");
    assert_eq!(output, "NoNewPrivs:\t1\n");
}

#[test]
fn unreadable_program_is_reported() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let program = fixture.path_of("secret/program");
    std::fs::copy("/bin/true", &program).unwrap();
    let mut spec = fixture.required_spec("");
    spec.command = vec![program.into()];
    let ended = run_program(&spec).ending.ended;
    let message = ended.to_string();
    assert!(
        message.contains("a confined program must be in a readable path"),
        "{message}"
    );
}

#[test]
fn every_run_reports_its_isolation() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let mut spec = fixture.required_spec("true");
    assert_eq!(run_program(&spec).ending.isolation, detect_isolation());
    assert_eq!(detect_isolation().to_string(), "confined (Landlock)");
    spec.confinement = Confinement::WherePossible(fixture.reachable_paths());
    assert_eq!(run_program(&spec).ending.isolation, detect_isolation());
    spec.confinement = Confinement::Off;
    assert_eq!(run_program(&spec).ending.isolation, IsolationLevel::Off);
    // Detecting the isolation level did not confine this process.
    assert_eq!(
        std::fs::read_to_string(fixture.path_of("secret/key")).unwrap(),
        "hidden\n"
    );
}

#[test]
fn program_is_not_started_if_required_isolation_is_unavailable() {
    let fixture = ConfinedFixture::without_landlock_check();
    let ran = run_program_with(
        &make_supervisor_without_landlock(),
        &fixture.required_spec("touch ran"),
    );
    assert_eq!(
        ran.ending.ended,
        ProgramExit::NotStarted(
            "isolation is required, but it would be not confined: this system has no Landlock"
                .to_owned()
        )
    );
    assert_eq!(ran.ending.isolation, IsolationLevel::Unavailable);
    assert!(!fixture.path_of("work/ran").exists());
}

#[test]
fn program_runs_if_optional_isolation_is_unavailable() {
    let fixture = ConfinedFixture::without_landlock_check();
    let mut spec = fixture.required_spec("cat ../secret/key");
    spec.confinement = Confinement::WherePossible(fixture.reachable_paths());
    let ran = run_program_with(&make_supervisor_without_landlock(), &spec);
    assert_eq!(ran.ending.ended, ProgramExit::Code(0));
    assert_eq!(ran.ending.isolation, IsolationLevel::Unavailable);
}
