//! Confined programs: what they cannot reach, what they still can, and what is said where the system
//! confines nobody. Without Landlock only the last of it can be tried.

use std::path::PathBuf;

use planwright_sandbox::{
    Confinement, IsolationLevel, ProcessSpec, ProgramExit, ReachablePaths, detect_isolation,
};

use crate::process_fixture::{
    ProcessFixture, ProgramResult, make_supervisor_without_landlock, run_program, run_program_with,
};

/// A stage with a secret beside the work, and a shelf to read from.
struct ConfinedFixture {
    processes: ProcessFixture,
}

impl ConfinedFixture {
    /// Unless this system confines nobody.
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

    /// The same script does what it says if it is not confined, so that it is confinement that keeps it
    /// from it.
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

/// Asked without our code, so that nothing is skipped because of a mistake in it.
#[cfg(target_os = "linux")]
fn kernel_has_landlock() -> bool {
    use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
    let strictly = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let scoped = strictly.scope(Scope::Signal);
    scoped.and_then(Ruleset::create).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn kernel_confines() -> bool {
    false
}

#[test]
fn what_was_not_given_cannot_be_read() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("cat ../secret/key");
    fixture.assert_denied("ls ../secret");
    fixture.assert_denied("ls ..");
    fixture.assert_denied("ln -s ../secret/key link.$$ && cat link.$$");
    fixture.assert_denied("ln ../secret/key hard.$$");
    // Not through a process that can, either.
    fixture.assert_denied("cat /proc/$PPID/cwd/usr/../etc/passwd");
    fixture.assert_denied("exec 3</proc/$PPID/mem");
    // Root could, were it not for what it gives up.
    fixture.assert_denied(&format!("cat /proc/{}/environ", std::process::id()));
}

/// Every terminal of the user is in that directory, to be read as they type.
#[test]
fn terminals_of_others_are_out_of_reach() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("ls /dev/pts");
    fixture.assert_denied("exec 3<>/dev/ptmx");
}

#[test]
fn what_was_not_given_cannot_be_written() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    fixture.assert_denied("echo more >> ../secret/key");
    fixture.assert_denied("truncate -s 0 ../shelf/book && echo readable > ../shelf/book");
    if std::path::Path::new("/usr/bin/perl").exists() {
        // Emptied by name, without being opened.
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
fn what_was_given_can_be_used() {
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
fn the_input_may_lie_where_the_program_cannot_look() {
    let Some(fixture) = ConfinedFixture::new() else {
        return;
    };
    let mut spec = fixture.required_spec("cat");
    spec.input = Some(fixture.path_of("secret/key"));
    assert_eq!(run_program(&spec).output, "hidden\n");
}

#[test]
fn the_supervisor_cannot_be_signalled() {
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
    let said = fixture.assert_allowed("grep NoNewPrivs /proc/self/status");
    assert_eq!(said, "NoNewPrivs:\t1\n");
}

#[test]
fn a_program_out_of_reach_is_told() {
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
        message.contains("it must lie where it may read"),
        "{message}"
    );
}

#[test]
fn every_run_says_how_it_was_confined() {
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
    // That it was asked about confined nobody here.
    assert_eq!(
        std::fs::read_to_string(fixture.path_of("secret/key")).unwrap(),
        "hidden\n"
    );
}

#[test]
fn required_and_not_to_be_had_is_not_started() {
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
fn where_possible_and_not_to_be_had_runs_and_says_so() {
    let fixture = ConfinedFixture::without_landlock_check();
    let mut spec = fixture.required_spec("cat ../secret/key");
    spec.confinement = Confinement::WherePossible(fixture.reachable_paths());
    let ran = run_program_with(&make_supervisor_without_landlock(), &spec);
    assert_eq!(ran.ending.ended, ProgramExit::Code(0));
    assert_eq!(ran.ending.isolation, IsolationLevel::Unavailable);
}
