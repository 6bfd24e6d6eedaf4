//! Supervised programs: what they get, how their exit is reported, and that no process survives.

use std::ffi::OsString;
use std::io::{BufReader, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use planwright_sandbox::{IsolationLevel, ProcessSpec, ProgramExit, SandboxError, Supervisor};

use crate::process_fixture::{
    ProcessFixture, SUPERVISOR, is_alive, list_launchers, list_supervisors, make_idling_supervisor,
    make_supervisor, run_program, run_program_with, wait_until,
};
use crate::script::write_program;

fn not_started_reason(ended: &ProgramExit) -> &str {
    match ended {
        ProgramExit::NotStarted(why) => why,
        other => panic!("it ran: {other:?}"),
    }
}

#[test]
fn exit_code_is_reported() {
    let fixture = ProcessFixture::new();
    let ran = run_program(&fixture.shell_spec("exit 7"));
    assert_eq!(ran.ending.ended, ProgramExit::Code(7));
    assert_eq!(ran.ending.isolation, IsolationLevel::Off);
}

#[test]
fn signal_is_reported() {
    let fixture = ProcessFixture::new();
    let ran = run_program(&fixture.shell_spec("kill -USR1 $$"));
    assert_eq!(ran.ending.ended, ProgramExit::Signal(10));
}

#[test]
fn program_that_cannot_be_started_is_reported_with_a_reason() {
    let fixture = ProcessFixture::new();
    let check = |command: &[&str], expected: &str| {
        let ran = run_program(&fixture.process_spec(command));
        let why = not_started_reason(&ran.ending.ended);
        assert!(why.contains(expected), "{why}");
        assert!(fixture.is_lock_free());
    };
    std::fs::write(fixture.work_dir().join("plain"), "text").unwrap();
    check(&["no-such-program"], "no-such-program: No such file");
    check(&["./plain"], "./plain: Permission denied");
    check(&[], "there is no command");
    check(&["sh", "-c", "nul\0"], "nul");

    let mut spec = fixture.shell_spec("true");
    spec.directory = fixture.work_dir().join("missing");
    let ran = run_program(&spec);
    assert!(not_started_reason(&ran.ending.ended).contains("missing is not a directory"));

    let mut spec = fixture.shell_spec("true");
    spec.input = Some(fixture.work_dir().join("missing"));
    let ran = run_program(&spec);
    assert!(not_started_reason(&ran.ending.ended).contains("missing cannot be read"));

    let mut spec = fixture.shell_spec("true");
    spec.locks = vec![fixture.work_dir().join("missing/lock")];
    let ran = run_program(&spec);
    assert!(not_started_reason(&ran.ending.ended).contains("missing/lock cannot be opened"));
}

#[test]
fn program_is_looked_up_in_the_given_path() {
    let fixture = ProcessFixture::new();
    let program = fixture.work_dir().join("here-only");
    write_program(&program, "#!/bin/sh\necho found\n");
    let mut spec = fixture.process_spec(&["here-only"]);
    spec.environment = vec![("PATH".into(), fixture.work_dir().into())];
    assert_eq!(run_program(&spec).output, "found\n");
}

#[test]
fn both_outputs_are_passed_on() {
    let fixture = ProcessFixture::new();
    let ran = run_program(
        &fixture.shell_spec("echo out; echo err >&2; head -c 300000 /dev/zero | tr '\\0' x"),
    );
    assert_eq!(ran.output.len(), 4 + 300_000);
    assert_eq!(ran.errors, "err\n");
}

#[test]
fn unread_output_does_not_block_the_program() {
    let fixture = ProcessFixture::new();
    let running = make_supervisor()
        .start_program(&fixture.shell_spec("head -c 300000 /dev/zero && exit 3"))
        .unwrap();
    assert_eq!(running.wait().unwrap().ended, ProgramExit::Code(3));
}

#[test]
fn arguments_and_environment_are_exactly_as_given() {
    let fixture = ProcessFixture::new();
    let odd = OsString::from_vec(vec![b'a', 0xff, b'\n', b'"']);
    let mut spec = fixture.process_spec(&["/usr/bin/env"]);
    spec.environment = vec![("ONE".into(), odd.clone()), ("TWO".into(), "".into())];
    let mut running = make_supervisor().start_program(&spec).unwrap();
    let (mut output, _errors) = running.take_output().unwrap();
    let mut output_text = Vec::new();
    output.read_to_end(&mut output_text).unwrap();
    running.wait().unwrap();
    // Every program also gets a mark that identifies its run.
    let (given, rest) = output_text.split_at(b"ONE=a\xff\n\"\n".len());
    assert_eq!(given, b"ONE=a\xff\n\"\n");
    let mark = rest.strip_prefix(b"PLANWRIGHT_SUPERVISED=").unwrap();
    let mark = mark.strip_suffix(b"\nTWO=\n").unwrap();
    assert!(!mark.contains(&b'\n'));

    let mut spec = fixture.process_spec(&["/usr/bin/printf", "%s|%s"]);
    spec.command.extend(["".into(), odd]);
    let mut running = make_supervisor().start_program(&spec).unwrap();
    let (mut output, _errors) = running.take_output().unwrap();
    let mut output_text = Vec::new();
    output.read_to_end(&mut output_text).unwrap();
    assert_eq!(output_text, b"|a\xff\n\"");
}

#[test]
fn input_is_the_file_or_empty() {
    let fixture = ProcessFixture::new();
    let mut spec = fixture.process_spec(&["cat"]);
    assert_eq!(run_program(&spec).output, "");
    let input = fixture.directory.path().join("input");
    std::fs::write(&input, "given").unwrap();
    spec.input = Some(input);
    assert_eq!(run_program(&spec).output, "given");
}

#[test]
fn no_file_descriptor_is_inherited() {
    let fixture = ProcessFixture::new();
    let ran = run_program(&fixture.process_spec(&["ls", "/proc/self/fd"]));
    // Files that the test runner left open for all processes are not counted.
    let plain = Command::new("ls").arg("/proc/self/fd").output().unwrap();
    assert_eq!(ran.output, String::from_utf8(plain.stdout).unwrap());
}

#[test]
fn program_has_its_own_session_and_group() {
    let fixture = ProcessFixture::new();
    let ran = run_program(
        &fixture.shell_spec("cut -d' ' -f5 /proc/$PPID/stat; cut -d' ' -f6 /proc/$$/stat; echo $$"),
    );
    let output_text: Vec<&str> = ran.output.lines().collect();
    let own_end = rustix::process::getpgrp().as_raw_nonzero().to_string();
    assert_ne!(
        output_text[0], own_end,
        "an interrupt would end the supervising process"
    );
    assert_eq!(
        output_text[1], output_text[2],
        "it leads a session of its own"
    );
}

#[test]
fn daemon_is_killed_when_its_program_ends() {
    let fixture = ProcessFixture::new();
    let ran = run_program(&fixture.shell_spec(
        "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon; exec sleep 1000' &)
         while ! [ -s daemon ]; do sleep 0.01; done; exit 3",
    ));
    assert_eq!(ran.ending.ended, ProgramExit::Code(3));
    assert!(!is_alive(&fixture.await_file("daemon")));
}

#[test]
fn nothing_outlives_a_killed_worker() {
    let fixture = ProcessFixture::new();
    let script = "trap '' TERM HUP INT
        (setsid sh -c 'echo $$ > daemon; exec sleep 1000' &)
        echo $$ > program; echo $PPID > supervisor
        while [ -e program ]; do sleep 0.01; done";
    let mut worker = Command::new(SUPERVISOR)
        .arg("work")
        .args([&fixture.work_dir(), &fixture.lock_path()])
        .args(["sh", "-c", script])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut processes = ["daemon", "program", "supervisor"]
        .map(|name| fixture.await_file(name))
        .to_vec();
    wait_until("another one waits for what comes next", || {
        list_supervisors(&fixture.work_dir()).len() == 2
    });
    processes.extend(list_supervisors(&fixture.work_dir()));
    assert!(processes.iter().all(|process| is_alive(process)));
    assert!(!fixture.is_lock_free());
    worker.kill().unwrap();
    wait_until("everything is gone", || {
        !processes.iter().any(|process| is_alive(process))
    });
    assert!(fixture.is_lock_free());
    worker.wait().unwrap();
}

/// The idle supervising process, once it has a launcher: until that is executed, it looks like
/// another supervising process.
fn find_idle_supervisor(fixture: &ProcessFixture) -> String {
    let mut idle_pid = Vec::new();
    wait_until("one waits, with its last stage", || {
        idle_pid = list_supervisors(&fixture.work_dir());
        idle_pid.len() == 1 && list_launchers(&fixture.work_dir()).len() == 1
    });
    idle_pid.remove(0)
}

#[test]
fn idle_supervisor_gets_the_next_program() {
    let fixture = ProcessFixture::new();
    let supervisor = make_idling_supervisor(&fixture.work_dir());
    assert!(
        list_supervisors(&fixture.work_dir()).is_empty(),
        "nobody wanted any yet"
    );
    let first = run_program_with(&supervisor, &fixture.shell_spec("echo $PPID")).output;
    let idle_pid = find_idle_supervisor(&fixture);
    assert_ne!(first.trim(), idle_pid);
    let second = run_program_with(&supervisor, &fixture.shell_spec("echo $PPID")).output;
    assert_eq!(second.trim(), idle_pid);

    // An idle process is not left behind.
    let idle = find_idle_supervisor(&fixture);
    drop(supervisor);
    assert!(!is_alive(&idle));
}

#[test]
fn dead_idle_supervisor_is_replaced() {
    let fixture = ProcessFixture::new();
    let supervisor = make_idling_supervisor(&fixture.work_dir());
    run_program_with(&supervisor, &fixture.shell_spec("true"));
    let kill = |process: &str| {
        let killed = rustix::process::Pid::from_raw(process.parse().unwrap()).unwrap();
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
        wait_until("it is gone", || !is_alive(process));
    };
    let idle_pid = find_idle_supervisor(&fixture);
    kill(&idle_pid);
    let ran = run_program_with(&supervisor, &fixture.shell_spec("echo $PPID"));
    assert_eq!(ran.ending.ended, ProgramExit::Code(0));
    assert_ne!(ran.output.trim(), idle_pid);

    let idle_pid = find_idle_supervisor(&fixture);
    kill(&list_launchers(&fixture.work_dir()).pop().unwrap());
    let ran = run_program_with(&supervisor, &fixture.shell_spec("echo $PPID"));
    assert_eq!(ran.ending.ended, ProgramExit::Code(0));
    assert_eq!(ran.output.trim(), idle_pid);
}

#[test]
fn start_is_reported_with_the_isolation_level() {
    let fixture = ProcessFixture::new();
    let began = |spec: &ProcessSpec| {
        let mut reported = Vec::new();
        let running = make_supervisor().start_program(spec).unwrap();
        let ending = running.wait_reporting_start(|isolation| reported.push(isolation));
        (reported, ending.unwrap())
    };
    let mut spec = fixture.shell_spec("exit 3");
    let (reported, ending) = began(&spec);
    assert_eq!(reported, [IsolationLevel::Off]);
    assert_eq!(ending.ended, ProgramExit::Code(3));

    spec.command = vec!["no-such-program".into()];
    let (reported, _) = began(&spec);
    assert_eq!(reported, [], "what was not started did not begin");
}

#[test]
fn program_is_killed_with_its_supervisor() {
    let fixture = ProcessFixture::new();
    let spec = fixture.shell_spec("echo $PPID > supervisor; echo $$ > program; exec sleep 30");
    let running = make_supervisor().start_program(&spec).unwrap();
    let program = fixture.await_file("program");
    let killed = fixture.await_file("supervisor").parse().unwrap();
    let killed = rustix::process::Pid::from_raw(killed).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let error = running.wait().unwrap_err();
    assert!(
        matches!(error, SandboxError::SupervisorFailed { .. }),
        "{error}"
    );
    wait_until("the program is gone", || !is_alive(&program));
}

#[test]
fn terminated_supervisor_kills_everything() {
    let fixture = ProcessFixture::new();
    let spec = fixture.shell_spec(
        "(setsid sh -c 'echo $$ > daemon; exec sleep 30' &); echo $PPID > supervisor; exec sleep 30",
    );
    let running = make_supervisor().start_program(&spec).unwrap();
    let daemon = fixture.await_file("daemon");
    let terminated = fixture.await_file("supervisor").parse().unwrap();
    let terminated = rustix::process::Pid::from_raw(terminated).unwrap();
    rustix::process::kill_process(terminated, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().ended, ProgramExit::Signal(9));
    assert!(!is_alive(&daemon));
}

#[test]
fn dropping_a_run_kills_it() {
    let fixture = ProcessFixture::new();
    let running = make_supervisor()
        .start_program(&fixture.shell_spec("echo $$ > program; sleep 30"))
        .unwrap();
    let program = fixture.await_file("program");
    let _still_there = running.stopper();
    drop(running);
    assert!(!is_alive(&program));
    assert!(fixture.is_lock_free());
}

#[test]
fn stopped_program_can_exit_by_itself() {
    let fixture = ProcessFixture::new();
    let spec = fixture
        .shell_spec("trap 'echo bye > last; exit 5' TERM; sleep 30 & echo $! > child; wait; wait");
    let running = make_supervisor().start_program(&spec).unwrap();
    let child = fixture.await_file("child");
    let stopper = running.stopper();
    std::thread::spawn(move || stopper.stop());
    assert_eq!(running.wait().unwrap().ended, ProgramExit::Code(5));
    assert_eq!(fixture.await_file("last"), "bye");
    assert!(!is_alive(&child));
}

#[test]
fn process_group_of_a_stopped_program_gets_sigterm() {
    let fixture = ProcessFixture::new();
    let spec = fixture.shell_spec(
        "trap : TERM
         (trap 'echo yes > asked; exit' TERM; echo > ready; while [ -e ready ]; do sleep 0.01; done) &
         until [ -e asked ]; do sleep 0.01; done; exit 0",
    );
    let running = make_supervisor().start_program(&spec).unwrap();
    wait_until("it is ready", || fixture.work_dir().join("ready").exists());
    running.stopper().stop();
    assert_eq!(running.wait().unwrap().ended, ProgramExit::Code(0));
    assert_eq!(fixture.await_file("asked"), "yes");
}

#[test]
fn program_that_ignores_sigterm_is_killed() {
    let fixture = ProcessFixture::new();
    let spec = fixture
        .shell_spec("trap '' TERM; echo $$ > program; while [ -e program ]; do sleep 0.05; done");
    let running = make_supervisor().start_program(&spec).unwrap();
    fixture.await_file("program");
    let terminated = Instant::now();
    let stopper = running.stopper();
    stopper.stop();
    stopper.stop();
    assert_eq!(running.wait().unwrap().ended, ProgramExit::Signal(9));
    let took = terminated.elapsed();
    assert!(
        took > Duration::from_millis(400),
        "there was no grace: {took:?}"
    );
    // Stopping again does no harm.
    stopper.stop();
}

#[test]
fn program_can_be_stopped_at_any_moment() {
    let fixture = ProcessFixture::new();
    for delay in 0..12 {
        let running = make_supervisor()
            .start_program(&fixture.shell_spec("sleep 1000"))
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        running.stopper().stop();
        let ending = running.wait().unwrap();
        assert!(matches!(ending.ended, ProgramExit::Signal(_)), "{ending:?}");
    }
}

/// Each process starts its successor and exits, so that a process that was seen is already gone.
#[test]
fn chain_of_forks_is_killed() {
    let fixture = ProcessFixture::new();
    let ran = run_program(&fixture.shell_spec(
        "hop() { if [ $1 = 0 ]; then echo yes > survived; else hop $(($1 - 1)) & fi; }
         for chain in 1 2 3 4; do hop 20000 & done; sleep 0.1; exit 4",
    ));
    assert_eq!(ran.ending.ended, ProgramExit::Code(4));
    assert!(!fixture.work_dir().join("survived").exists());
}

/// Each process keeps starting others.
#[test]
fn loop_of_forks_is_killed() {
    let fixture = ProcessFixture::new();
    let spec = fixture.shell_spec(
        "trap '' TERM; echo $$ > program
         more() { n=0; while [ $n -lt 300 ]; do sleep 60 & n=$((n + 1)); sleep 0.002; done; wait; }
         for loop in 1 2 3; do (trap '' TERM; more) & done; more",
    );
    let running = make_supervisor().start_program(&spec).unwrap();
    fixture.await_file("program");
    std::thread::sleep(Duration::from_millis(100));
    drop(running);
    assert!(fixture.is_lock_free());
}

#[test]
fn locks_are_held_until_the_last_descendant_is_gone() {
    let fixture = ProcessFixture::new();
    let running = make_supervisor()
        .start_program(
            &fixture.shell_spec("echo $$ > program; while ! [ -e go ]; do sleep 0.01; done"),
        )
        .unwrap();
    fixture.await_file("program");
    assert!(!fixture.is_lock_free());
    // The lock is shared: another program may run there as well.
    assert_eq!(
        run_program(&fixture.shell_spec("exit 6")).ending.ended,
        ProgramExit::Code(6)
    );
    assert!(!fixture.is_lock_free());
    std::fs::write(fixture.work_dir().join("go"), "").unwrap();
    running.wait().unwrap();
    assert!(fixture.is_lock_free());
}

#[test]
fn process_spec_has_a_size_limit() {
    let fixture = ProcessFixture::new();
    let mut spec = fixture.shell_spec("true");
    spec.environment
        .push(("LONG".into(), "x".repeat(9 << 20).into()));
    let error = make_supervisor().start_program(&spec).unwrap_err();
    assert!(matches!(error, SandboxError::FileFailed { .. }), "{error}");
    // Below the engine's limit, but above the system's.
    spec.environment.pop();
    spec.environment
        .push(("LONG".into(), "x".repeat(7 << 20).into()));
    let ran = run_program(&spec);
    assert!(not_started_reason(&ran.ending.ended).contains("too long"));
}

#[test]
fn invalid_supervisor_program_is_an_error() {
    let fixture = ProcessFixture::new();
    let spec = fixture.shell_spec("true");
    let missing = Supervisor::new(vec!["/no/such/program".into()]);
    assert!(missing.start_program(&spec).is_err());
    let other = Supervisor::new(vec!["/bin/true".into()]);
    let reported = other
        .start_program(&spec)
        .and_then(planwright_sandbox::SupervisedRun::wait);
    assert!(reported.is_err(), "{reported:?}");
    let nothing = Supervisor::new(Vec::new());
    assert!(nothing.start_program(&spec).is_err());
}

#[test]
fn calling_it_without_a_socket_exits_with_2() {
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

/// The kernel sends the parent-death signal only if the parent ends later.
#[test]
fn launcher_starts_nothing_if_its_supervisor_is_gone() {
    let (own_end, launcher_end) = UnixStream::pair().unwrap();
    let mut launcher = Command::new(SUPERVISOR)
        .args(["supervise", "--inner", "1"])
        .stdin(OwnedFd::from(launcher_end))
        .spawn()
        .unwrap();
    own_end.shutdown(Shutdown::Write).unwrap();
    let mut output_text = String::new();
    BufReader::new(own_end)
        .read_to_string(&mut output_text)
        .unwrap();
    assert_eq!(
        output_text,
        "{\"not_started\":\"its supervisor is gone\"}\n"
    );
    assert!(!launcher.wait().unwrap().success());
}

/// The supervising process is killed, as by the OOM killer. Everything the program started is found
/// and killed, and neither reading nor waiting hangs.
#[test]
fn orphans_of_a_killed_supervisor_are_killed() {
    let daemon = "sh -c 'echo $$ > deep; exec sleep 1000'";
    for (name, starts) in [
        ("marked", format!("setsid {daemon} > /dev/null 2>&1 &")),
        ("writes", format!("env -i PATH=$PATH setsid {daemon} &")),
        (
            "below",
            format!("setsid sh -c \"env -i PATH=$PATH {daemon}; :\" > /dev/null 2>&1 &"),
        ),
    ] {
        let fixture = ProcessFixture::new();
        let script = format!("{starts}\necho before; echo $PPID > supervisor; exec sleep 1000");
        let mut running = make_supervisor()
            .start_program(&fixture.shell_spec(&script))
            .unwrap();
        let (mut output, mut errors) = running.take_output().unwrap();
        let killed = fixture.await_file("supervisor").parse().unwrap();
        let deep = fixture.await_file("deep");
        let killed = rustix::process::Pid::from_raw(killed).unwrap();
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut output_text = String::new();
            let _ = output.read_to_string(&mut output_text);
            let _ = errors.read_to_string(&mut output_text);
            sender.send(output_text)
        });
        let error = running.wait().unwrap_err();
        assert!(!is_alive(&deep), "{name}");
        let output_text = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(output_text.as_deref(), Ok("before\n"), "{name}");
        let why = error.to_string();
        assert!(!why.contains("still run"), "{name}: {why}");
    }
}
