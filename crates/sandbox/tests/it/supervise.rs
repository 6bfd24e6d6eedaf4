//! Programs under supervision: what they get, how their end is told, and that nothing of them stays.

use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use planwright_sandbox::{Errand, Isolated, RunEnded, SandboxError, Supervisor};

use crate::script::write_program;
use crate::stage::{
    SUPERVISOR, Stage, eventually, is_alive, last_stages, run, run_by, standing_supervisor,
    supervising, supervisor,
};

fn not_started(ended: &RunEnded) -> &str {
    match ended {
        RunEnded::NotStarted(why) => why,
        other => panic!("it ran: {other:?}"),
    }
}

#[test]
fn the_exit_code_is_told() {
    let stage = Stage::new();
    let ran = run(&stage.shell("exit 7"));
    assert_eq!(ran.ending.ended, RunEnded::Code(7));
    assert_eq!(ran.ending.isolation, Isolated::Off);
}

#[test]
fn the_signal_is_told() {
    let stage = Stage::new();
    let ran = run(&stage.shell("kill -USR1 $$"));
    assert_eq!(ran.ending.ended, RunEnded::Signal(10));
}

#[test]
fn what_cannot_be_started_is_told_with_a_reason() {
    let stage = Stage::new();
    let check = |command: &[&str], expected: &str| {
        let ran = run(&stage.errand(command));
        let why = not_started(&ran.ending.ended);
        assert!(why.contains(expected), "{why}");
        assert!(stage.lock_is_free());
    };
    std::fs::write(stage.work().join("plain"), "text").unwrap();
    check(&["no-such-program"], "no-such-program: No such file");
    check(&["./plain"], "./plain: Permission denied");
    check(&[], "there is no command");
    check(&["sh", "-c", "nul\0"], "nul");

    let mut errand = stage.shell("true");
    errand.directory = stage.work().join("missing");
    let ran = run(&errand);
    assert!(not_started(&ran.ending.ended).contains("missing is not a directory"));

    let mut errand = stage.shell("true");
    errand.input = Some(stage.work().join("missing"));
    let ran = run(&errand);
    assert!(not_started(&ran.ending.ended).contains("missing cannot be read"));

    let mut errand = stage.shell("true");
    errand.locks = vec![stage.work().join("missing/lock")];
    let ran = run(&errand);
    assert!(not_started(&ran.ending.ended).contains("missing/lock cannot be opened"));
}

#[test]
fn the_program_is_looked_up_on_the_path_it_is_given() {
    let stage = Stage::new();
    let program = stage.work().join("here-only");
    write_program(&program, "#!/bin/sh\necho found\n");
    let mut errand = stage.errand(&["here-only"]);
    errand.environment = vec![("PATH".into(), stage.work().into())];
    assert_eq!(run(&errand).output, "found\n");
}

#[test]
fn both_outputs_pass() {
    let stage = Stage::new();
    let ran = run(&stage.shell("echo out; echo err >&2; head -c 300000 /dev/zero | tr '\\0' x"));
    assert_eq!(ran.output.len(), 4 + 300_000);
    assert_eq!(ran.errors, "err\n");
}

#[test]
fn output_that_nobody_takes_stops_nobody() {
    let stage = Stage::new();
    let running = supervisor()
        .start(&stage.shell("head -c 300000 /dev/zero && exit 3"))
        .unwrap();
    assert_eq!(running.wait().unwrap().ended, RunEnded::Code(3));
}

#[test]
fn words_and_environment_are_exactly_what_was_given() {
    let stage = Stage::new();
    let odd = OsString::from_vec(vec![b'a', 0xff, b'\n', b'"']);
    let mut errand = stage.errand(&["/usr/bin/env"]);
    errand.environment = vec![("ONE".into(), odd.clone()), ("TWO".into(), "".into())];
    let mut running = supervisor().start(&errand).unwrap();
    let (mut output, _errors) = running.take_output().unwrap();
    let mut said = Vec::new();
    output.read_to_end(&mut said).unwrap();
    running.wait().unwrap();
    // Besides, every program is told by which run it is supervised.
    let (given, rest) = said.split_at(b"ONE=a\xff\n\"\n".len());
    assert_eq!(given, b"ONE=a\xff\n\"\n");
    let mark = rest.strip_prefix(b"PLANWRIGHT_SUPERVISED=").unwrap();
    let mark = mark.strip_suffix(b"\nTWO=\n").unwrap();
    assert!(!mark.contains(&b'\n'));

    let mut errand = stage.errand(&["/usr/bin/printf", "%s|%s"]);
    errand.command.extend(["".into(), odd]);
    let mut running = supervisor().start(&errand).unwrap();
    let (mut output, _errors) = running.take_output().unwrap();
    let mut said = Vec::new();
    output.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"|a\xff\n\"");
}

#[test]
fn the_input_is_the_file_or_nothing() {
    let stage = Stage::new();
    let mut errand = stage.errand(&["cat"]);
    assert_eq!(run(&errand).output, "");
    let input = stage.directory.path().join("input");
    std::fs::write(&input, "given").unwrap();
    errand.input = Some(input);
    assert_eq!(run(&errand).output, "given");
}

#[test]
fn no_file_of_ours_is_inherited() {
    let stage = Stage::new();
    let ran = run(&stage.errand(&["ls", "/proc/self/fd"]));
    // What whoever started the tests left open for everybody is theirs.
    let plain = Command::new("ls").arg("/proc/self/fd").output().unwrap();
    assert_eq!(ran.output, String::from_utf8(plain.stdout).unwrap());
}

#[test]
fn a_program_has_neither_our_terminal_nor_our_group() {
    let stage = Stage::new();
    let ran =
        run(&stage.shell("cut -d' ' -f5 /proc/$PPID/stat; cut -d' ' -f6 /proc/$$/stat; echo $$"));
    let said: Vec<&str> = ran.output.lines().collect();
    let ours = rustix::process::getpgrp().as_raw_nonzero().to_string();
    assert_ne!(
        said[0], ours,
        "an interrupt would end the supervising process"
    );
    assert_eq!(said[1], said[2], "it leads a session of its own");
}

#[test]
fn a_daemon_is_gone_when_its_program_is() {
    let stage = Stage::new();
    let ran = run(&stage.shell(
        "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon; exec sleep 1000' &)
         while ! [ -s daemon ]; do sleep 0.01; done; exit 3",
    ));
    assert_eq!(ran.ending.ended, RunEnded::Code(3));
    assert!(!is_alive(&stage.await_file("daemon")));
}

#[test]
fn nothing_outlives_a_killed_worker() {
    let stage = Stage::new();
    let script = "trap '' TERM HUP INT
        (setsid sh -c 'echo $$ > daemon; exec sleep 1000' &)
        echo $$ > program; echo $PPID > supervisor
        while [ -e program ]; do sleep 0.01; done";
    let mut worker = Command::new(SUPERVISOR)
        .arg("work")
        .args([&stage.work(), &stage.lock()])
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut processes = ["daemon", "program", "supervisor"]
        .map(|name| stage.await_file(name))
        .to_vec();
    eventually("another one waits for what comes next", || {
        supervising(&stage.work()).len() == 2
    });
    processes.extend(supervising(&stage.work()));
    assert!(processes.iter().all(|process| is_alive(process)));
    assert!(!stage.lock_is_free());
    worker.kill().unwrap();
    eventually("everything is gone", || {
        !processes.iter().any(|process| is_alive(process))
    });
    assert!(stage.lock_is_free());
    worker.wait().unwrap();
}

/// The supervising process that has no errand yet, once it has its last stage: until that is executed it looks
/// like another of its kind.
fn the_one_that_waits(stage: &Stage) -> String {
    let mut waiting = Vec::new();
    eventually("one waits, with its last stage", || {
        waiting = supervising(&stage.work());
        waiting.len() == 1 && last_stages(&stage.work()).len() == 1
    });
    waiting.remove(0)
}

#[test]
fn one_that_waits_gets_the_next_program() {
    let stage = Stage::new();
    let supervisor = standing_supervisor(&stage.work());
    assert!(
        supervising(&stage.work()).is_empty(),
        "nobody wanted any yet"
    );
    let first = run_by(&supervisor, &stage.shell("echo $PPID")).output;
    let waiting = the_one_that_waits(&stage);
    assert_ne!(first.trim(), waiting);
    let second = run_by(&supervisor, &stage.shell("echo $PPID")).output;
    assert_eq!(second.trim(), waiting);

    // Whoever is left is not left behind.
    let left = the_one_that_waits(&stage);
    drop(supervisor);
    assert!(!is_alive(&left));
}

#[test]
fn one_that_died_while_it_waited_is_not_missed() {
    let stage = Stage::new();
    let supervisor = standing_supervisor(&stage.work());
    run_by(&supervisor, &stage.shell("true"));
    let kill = |process: &str| {
        let killed = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
        eventually("it is gone", || !is_alive(process));
    };
    let waiting = the_one_that_waits(&stage);
    kill(&waiting);
    let ran = run_by(&supervisor, &stage.shell("echo $PPID"));
    assert_eq!(ran.ending.ended, RunEnded::Code(0));
    assert_ne!(ran.output.trim(), waiting);

    let waiting = the_one_that_waits(&stage);
    kill(&last_stages(&stage.work()).pop().unwrap());
    let ran = run_by(&supervisor, &stage.shell("echo $PPID"));
    assert_eq!(ran.ending.ended, RunEnded::Code(0));
    assert_eq!(ran.output.trim(), waiting);
}

#[test]
fn it_is_told_that_a_program_runs_and_how_far_it_is_confined() {
    let stage = Stage::new();
    let began = |errand: &Errand| {
        let mut told = Vec::new();
        let running = supervisor().start(errand).unwrap();
        let ending = running.wait_telling(|isolation| told.push(isolation));
        (told, ending.unwrap())
    };
    let mut errand = stage.shell("exit 3");
    let (told, ending) = began(&errand);
    assert_eq!(told, [Isolated::Off]);
    assert_eq!(ending.ended, RunEnded::Code(3));

    errand.command = vec!["no-such-program".into()];
    let (told, _) = began(&errand);
    assert_eq!(told, [], "what was not started did not begin");
}

#[test]
fn a_program_dies_with_its_supervisor() {
    let stage = Stage::new();
    let errand = stage.shell("echo $PPID > supervisor; echo $$ > program; exec sleep 30");
    let running = supervisor().start(&errand).unwrap();
    let program = stage.await_file("program");
    let killed = stage.await_file("supervisor").parse().unwrap();
    let killed = rustix::process::Pid::from_raw(killed).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let error = running.wait().unwrap_err();
    assert!(
        matches!(error, SandboxError::Unsupervised { .. }),
        "{error}"
    );
    eventually("the program is gone", || !is_alive(&program));
}

#[test]
fn a_supervisor_that_is_asked_to_end_leaves_nobody() {
    let stage = Stage::new();
    let errand = stage.shell(
        "(setsid sh -c 'echo $$ > daemon; exec sleep 30' &); echo $PPID > supervisor; exec sleep 30",
    );
    let running = supervisor().start(&errand).unwrap();
    let daemon = stage.await_file("daemon");
    let asked = stage.await_file("supervisor").parse().unwrap();
    let asked = rustix::process::Pid::from_raw(asked).unwrap();
    rustix::process::kill_process(asked, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().ended, RunEnded::Signal(9));
    assert!(!is_alive(&daemon));
}

#[test]
fn dropping_a_run_ends_it() {
    let stage = Stage::new();
    let running = supervisor()
        .start(&stage.shell("echo $$ > program; sleep 30"))
        .unwrap();
    let program = stage.await_file("program");
    let _still_there = running.stopper();
    drop(running);
    assert!(!is_alive(&program));
    assert!(stage.lock_is_free());
}

#[test]
fn a_program_can_end_in_its_own_way_when_it_is_stopped() {
    let stage = Stage::new();
    let errand =
        stage.shell("trap 'echo bye > last; exit 5' TERM; sleep 30 & echo $! > child; wait; wait");
    let running = supervisor().start(&errand).unwrap();
    let child = stage.await_file("child");
    let stopper = running.stopper();
    std::thread::spawn(move || stopper.stop());
    assert_eq!(running.wait().unwrap().ended, RunEnded::Code(5));
    assert_eq!(stage.await_file("last"), "bye");
    assert!(!is_alive(&child));
}

#[test]
fn those_in_the_group_of_a_stopped_program_are_asked_as_well() {
    let stage = Stage::new();
    let errand = stage.shell(
        "trap : TERM
         (trap 'echo yes > asked; exit' TERM; echo > ready; while [ -e ready ]; do sleep 0.01; done) &
         until [ -e asked ]; do sleep 0.01; done; exit 0",
    );
    let running = supervisor().start(&errand).unwrap();
    eventually("it is ready", || stage.work().join("ready").exists());
    running.stopper().stop();
    assert_eq!(running.wait().unwrap().ended, RunEnded::Code(0));
    assert_eq!(stage.await_file("asked"), "yes");
}

#[test]
fn a_program_that_does_not_want_to_stop_is_killed() {
    let stage = Stage::new();
    let errand =
        stage.shell("trap '' TERM; echo $$ > program; while [ -e program ]; do sleep 0.05; done");
    let running = supervisor().start(&errand).unwrap();
    stage.await_file("program");
    let asked = Instant::now();
    let stopper = running.stopper();
    stopper.stop();
    stopper.stop();
    assert_eq!(running.wait().unwrap().ended, RunEnded::Signal(9));
    let took = asked.elapsed();
    assert!(
        took > Duration::from_millis(400),
        "there was no grace: {took:?}"
    );
    // Afterwards it is no harm.
    stopper.stop();
}

#[test]
fn a_stopped_program_is_ended_at_any_moment() {
    let stage = Stage::new();
    for delay in 0..12 {
        let running = supervisor().start(&stage.shell("sleep 1000")).unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        running.stopper().stop();
        let ending = running.wait().unwrap();
        assert!(matches!(ending.ended, RunEnded::Signal(_)), "{ending:?}");
    }
}

/// Each process starts its successor and ends, so that whoever was seen is gone already.
#[test]
fn a_chain_of_forks_is_ended() {
    let stage = Stage::new();
    let ran = run(&stage.shell(
        "hop() { if [ $1 = 0 ]; then echo yes > survived; else hop $(($1 - 1)) & fi; }
         for chain in 1 2 3 4; do hop 20000 & done; sleep 0.1; exit 4",
    ));
    assert_eq!(ran.ending.ended, RunEnded::Code(4));
    assert!(!stage.work().join("survived").exists());
}

/// Each process starts others for as long as it lives.
#[test]
fn a_loop_of_forks_is_ended() {
    let stage = Stage::new();
    let errand = stage.shell(
        "trap '' TERM; echo $$ > program
         more() { n=0; while [ $n -lt 300 ]; do sleep 60 & n=$((n + 1)); sleep 0.002; done; wait; }
         for loop in 1 2 3; do (trap '' TERM; more) & done; more",
    );
    let running = supervisor().start(&errand).unwrap();
    stage.await_file("program");
    std::thread::sleep(Duration::from_millis(100));
    drop(running);
    assert!(stage.lock_is_free());
}

#[test]
fn locks_are_held_until_the_last_descendant_is_gone() {
    let stage = Stage::new();
    let running = supervisor()
        .start(&stage.shell("echo $$ > program; while ! [ -e go ]; do sleep 0.01; done"))
        .unwrap();
    stage.await_file("program");
    assert!(!stage.lock_is_free());
    // Shared: another may work there as well.
    assert_eq!(run(&stage.shell("exit 6")).ending.ended, RunEnded::Code(6));
    assert!(!stage.lock_is_free());
    std::fs::write(stage.work().join("go"), "").unwrap();
    running.wait().unwrap();
    assert!(stage.lock_is_free());
}

#[test]
fn an_errand_has_a_limit() {
    let stage = Stage::new();
    let mut errand = stage.shell("true");
    errand
        .environment
        .push(("LONG".into(), "x".repeat(9 << 20).into()));
    let error = supervisor().start(&errand).unwrap_err();
    assert!(matches!(error, SandboxError::File { .. }), "{error}");
    // Below ours but above the system's.
    errand.environment.pop();
    errand
        .environment
        .push(("LONG".into(), "x".repeat(7 << 20).into()));
    let ran = run(&errand);
    assert!(not_started(&ran.ending.ended).contains("too long"));
}

#[test]
fn a_supervisor_that_is_none_is_an_error() {
    let stage = Stage::new();
    let errand = stage.shell("true");
    let missing = Supervisor::new(vec!["/no/such/program".into()]);
    assert!(missing.start(&errand).is_err());
    let other = Supervisor::new(vec!["/bin/true".into()]);
    let told = other
        .start(&errand)
        .and_then(planwright_sandbox::Running::wait);
    assert!(told.is_err(), "{told:?}");
    let nothing = Supervisor::new(Vec::new());
    assert!(nothing.start(&errand).is_err());
}

#[test]
fn a_person_who_calls_it_gets_an_exit_code() {
    let check = |words: &[&str]| {
        let mut command = Command::new(SUPERVISOR);
        let output = command.args(words).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    };
    check(&["supervise"]);
    check(&["supervise", "--inner"]);
    check(&["supervise", "--inner", "1"]);
}

/// The system tells a child that its parent ended only if that is yet to happen.
#[test]
fn the_last_stage_starts_nothing_for_a_supervisor_that_is_gone() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut last_stage = Command::new(SUPERVISOR)
        .args(["supervise", "--inner", "1"])
        .stdin(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    BufReader::new(ours).read_to_string(&mut said).unwrap();
    assert_eq!(said, "{\"not_started\":\"its supervisor is gone\"}\n");
    assert!(!last_stage.wait().unwrap().success());
}

/// Somebody kills the supervising process, as a system without memory does. Whatever the program started is found and
/// ended, and neither reading nor waiting takes for ever.
#[test]
fn what_a_killed_supervisor_leaves_is_ended() {
    let daemon = "sh -c 'echo $$ > deep; exec sleep 1000'";
    for (name, starts) in [
        ("marked", format!("setsid {daemon} > /dev/null 2>&1 &")),
        ("writes", format!("env -i PATH=$PATH setsid {daemon} &")),
        (
            "below",
            format!("setsid sh -c \"env -i PATH=$PATH {daemon}; :\" > /dev/null 2>&1 &"),
        ),
    ] {
        let stage = Stage::new();
        let script = format!("{starts}\necho before; echo $PPID > supervisor; exec sleep 1000");
        let mut running = supervisor().start(&stage.shell(&script)).unwrap();
        let (mut output, mut errors) = running.take_output().unwrap();
        let killed = stage.await_file("supervisor").parse().unwrap();
        let deep = stage.await_file("deep");
        let killed = rustix::process::Pid::from_raw(killed).unwrap();
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut said = String::new();
            let _ = output.read_to_string(&mut said);
            let _ = errors.read_to_string(&mut said);
            tell.send(said)
        });
        let error = running.wait().unwrap_err();
        assert!(!is_alive(&deep), "{name}");
        let said = told.recv_timeout(Duration::from_secs(20));
        assert_eq!(said.as_deref(), Ok("before\n"), "{name}");
        let why = error.to_string();
        assert!(!why.contains("still run"), "{name}: {why}");
    }
}
