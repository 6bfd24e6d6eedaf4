//! Confined programs: what they cannot reach, what they still can, and what is said where the system
//! confines nobody. Without Landlock only the last of it can be tried.

use std::path::PathBuf;

use planwright_sandbox::{Confinement, Errand, Isolated, Reach, RunEnded, offered};

use crate::stage::{Ran, Stage, run, run_by, supervisor_without_landlock};

/// A stage with a secret beside the work, and a shelf to read from.
struct Cell {
    stage: Stage,
}

impl Cell {
    /// Unless this system confines nobody.
    fn new() -> Option<Self> {
        if kernel_confines() {
            return Some(Self::anywhere());
        }
        println!("skipped: {}", offered());
        None
    }

    fn anywhere() -> Self {
        let stage = Stage::new();
        let files = [
            ("secret/key", "hidden\n"),
            ("shelf/book", "readable\n"),
            ("shelf/spare", "to be removed\n"),
        ];
        for (name, text) in files {
            let path = stage.directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { stage }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.stage.directory.path().join(name)
    }

    fn reach(&self) -> Reach {
        Reach {
            writable: vec![self.stage.work(), self.at("not-there")],
            readable: vec![self.at("shelf"), self.at("not-there-either")],
        }
    }

    fn errand(&self, script: &str) -> Errand {
        let mut errand = self.stage.shell(script);
        errand.confinement = Confinement::Required(self.reach());
        errand
    }

    fn run(&self, script: &str) -> Ran {
        run(&self.errand(script))
    }

    /// The same script does what it says if it is not confined, so that it is confinement that keeps it
    /// from it.
    fn cannot(&self, script: &str) {
        let ran = self.run(script);
        assert_ne!(
            ran.ending.ended,
            RunEnded::Code(0),
            "{script}: {}",
            ran.output
        );
        assert!(ran.ending.isolation.confines_files());
        let ran = run(&self.stage.shell(script));
        assert_eq!(
            ran.ending.ended,
            RunEnded::Code(0),
            "{script}: {}",
            ran.errors
        );
    }

    fn can(&self, script: &str) -> String {
        let ran = self.run(script);
        assert_eq!(
            ran.ending.ended,
            RunEnded::Code(0),
            "{script}: {}",
            ran.errors
        );
        ran.output
    }
}

/// Asked without our code, so that nothing is skipped because of a mistake in it.
#[cfg(target_os = "linux")]
fn kernel_confines() -> bool {
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
    let Some(cell) = Cell::new() else { return };
    cell.cannot("cat ../secret/key");
    cell.cannot("ls ../secret");
    cell.cannot("ls ..");
    cell.cannot("ln -s ../secret/key link.$$ && cat link.$$");
    cell.cannot("ln ../secret/key hard.$$");
    // Not through a process that can, either.
    cell.cannot("cat /proc/$PPID/cwd/usr/../etc/passwd");
    cell.cannot("cat /proc/$PPID/environ && [ -r /proc/$PPID/mem ] && exec 3</proc/$PPID/mem");
}

#[test]
fn what_was_not_given_cannot_be_written() {
    let Some(cell) = Cell::new() else { return };
    cell.cannot("echo more >> ../secret/key");
    cell.cannot("truncate -s 0 ../shelf/book && echo readable > ../shelf/book");
    if std::path::Path::new("/usr/bin/perl").exists() {
        // Emptied by name, without being opened.
        cell.cannot("perl -e 'exit !truncate(\"../secret/key\", 7)'");
    }
    cell.cannot("touch ../shelf/new");
    cell.cannot("mkdir ../shelf/below.$$");
    cell.cannot("ln -s nothing ../shelf/link.$$");
    cell.cannot("cp ../shelf/book copy && mv copy ../shelf/moved");
    cell.cannot("rm ../shelf/spare");
    assert_eq!(
        std::fs::read_to_string(cell.at("shelf/book")).unwrap(),
        "readable\n"
    );
}

#[test]
fn what_was_given_can_be_used() {
    let Some(cell) = Cell::new() else { return };
    assert_eq!(cell.can("cat ../shelf/book"), "readable\n");
    assert_eq!(
        cell.can("mkdir -p a/b && echo x > a/b/c && mv a/b/c d && cat d"),
        "x\n"
    );
    assert_eq!(cell.can("rm -r a d && ls"), "");
    cell.can("echo nothing > /dev/null && head -c 4 /dev/urandom > /dev/zero");
    cell.can("cat /etc/passwd > /dev/null && uname -a && ls / /usr/bin > /dev/null || ls /usr/bin");
    cell.can("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x");
    cell.can("sh -c 'sleep 100' & sleep 0.05; kill $!");
}

#[test]
fn the_input_may_lie_where_the_program_cannot_look() {
    let Some(cell) = Cell::new() else { return };
    let mut errand = cell.errand("cat");
    errand.input = Some(cell.at("secret/key"));
    assert_eq!(run(&errand).output, "hidden\n");
}

#[test]
fn the_supervisor_cannot_be_signalled() {
    let Some(cell) = Cell::new() else { return };
    let ran = cell.run("kill -0 $PPID; echo $?; kill -9 $PPID; echo $?; exit 3");
    assert_eq!(ran.output, "1\n1\n");
    assert_eq!(ran.ending.ended, RunEnded::Code(3));
}

#[test]
fn no_privileges_are_gained() {
    let Some(cell) = Cell::new() else { return };
    let said = cell.can("grep NoNewPrivs /proc/self/status");
    assert_eq!(said, "NoNewPrivs:\t1\n");
}

#[test]
fn a_program_out_of_reach_is_told() {
    let Some(cell) = Cell::new() else { return };
    let program = cell.at("secret/program");
    std::fs::copy("/bin/true", &program).unwrap();
    let mut errand = cell.errand("");
    errand.command = vec![program.into()];
    let ended = run(&errand).ending.ended;
    let told = ended.to_string();
    assert!(told.contains("it must lie where it may read"), "{told}");
}

#[test]
fn every_run_says_how_it_was_confined() {
    let Some(cell) = Cell::new() else { return };
    let mut errand = cell.errand("true");
    assert_eq!(run(&errand).ending.isolation, offered());
    assert_eq!(offered().to_string(), "confined (Landlock)");
    errand.confinement = Confinement::WherePossible(cell.reach());
    assert_eq!(run(&errand).ending.isolation, offered());
    errand.confinement = Confinement::Off;
    assert_eq!(run(&errand).ending.isolation, Isolated::Off);
    // That it was asked about confined nobody here.
    assert_eq!(
        std::fs::read_to_string(cell.at("secret/key")).unwrap(),
        "hidden\n"
    );
}

#[test]
fn required_and_not_to_be_had_is_not_started() {
    let cell = Cell::anywhere();
    let ran = run_by(&supervisor_without_landlock(), &cell.errand("touch ran"));
    assert_eq!(
        ran.ending.ended,
        RunEnded::NotStarted(
            "isolation is required, but it would be not confined: this system has no Landlock"
                .to_owned()
        )
    );
    assert_eq!(ran.ending.isolation, Isolated::Unavailable);
    assert!(!cell.at("work/ran").exists());
}

#[test]
fn where_possible_and_not_to_be_had_runs_and_says_so() {
    let cell = Cell::anywhere();
    let mut errand = cell.errand("cat ../secret/key");
    errand.confinement = Confinement::WherePossible(cell.reach());
    let ran = run_by(&supervisor_without_landlock(), &errand);
    assert_eq!(ran.ending.ended, RunEnded::Code(0));
    assert_eq!(ran.ending.isolation, Isolated::Unavailable);
}
