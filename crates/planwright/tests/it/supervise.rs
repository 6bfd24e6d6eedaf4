//! The program starts itself to supervise others; people never see it.

use sandbox::{Confinement, ProcessSpec, ProgramExit, SupervisedRun, Supervisor};

use crate::shell::TranscriptShell;

#[test]
fn the_program_supervises_without_settings_or_a_home() {
    let program = env!("CARGO_BIN_EXE_planwright");
    let supervisor = Supervisor::new(vec![program.into(), "supervise".into()]);
    let place = tempfile::tempdir().unwrap();
    let errand = ProcessSpec {
        command: ["/bin/sh", "-c", "echo done > result; exit 9"]
            .map(Into::into)
            .to_vec(),
        directory: place.path().to_owned(),
        environment: Vec::new(),
        input: None,
        confinement: Confinement::Off,
        locks: Vec::new(),
    };
    let ending = supervisor
        .start_program(&errand)
        .and_then(SupervisedRun::wait)
        .unwrap();
    assert_eq!(ending.ended, ProgramExit::Code(9));
    let files: Vec<_> = std::fs::read_dir(place.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn the_internal_command_is_hidden_and_silent() {
    let shell = TranscriptShell::new();
    let said = shell.run(&["--help"]).finish();
    assert!(!said.stdout.contains("supervise "), "{said:?}");
    // Somebody who calls it has no socket to give.
    let said = shell.run(&["supervise"]).finish();
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""));
}
