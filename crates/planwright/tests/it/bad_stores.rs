//! Stores that are none, are somebody else's, or cannot be reached. They are left as they are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use testkit::TestRun;

use crate::shell::TranscriptShell;

/// Commands that read, and commands that write.
const READING_COMMANDS: [&[&str]; 3] = [&["list"], &["status", "@"], &["store", "verify"]];
const WRITING_COMMANDS: [&[&str]; 3] = [
    &["init"],
    &["use", "tidy", "--arg", "area=src"],
    &["rule", "add", "calm", "--expr", "true"],
];

/// Reading and writing end with exit code 1 and leave the file as it is, byte by byte.
#[track_caller]
fn assert_refused_by_all(shell: &TranscriptShell, path: &Path) {
    let before = fs::read(path).ok();
    let store = format!("sqlite:{}", path.display());
    for words in READING_COMMANDS.iter().chain(&WRITING_COMMANDS) {
        let words = [&["--store", &store], *words].concat();
        shell.run_bad(1, &words);
        assert_eq!(fs::read(path).ok(), before, "{words:?} changed it");
    }
}

#[test]
fn files_that_are_no_database_are_refused() {
    let shell = TranscriptShell::new();
    let directory = shell.home_path().join("directory");
    fs::create_dir(&directory).unwrap();
    assert_refused_by_all(&shell, &directory);
    let text = shell.write_file(
        "text.db",
        "This is a text, and rather a long one at that.\n".repeat(9),
    );
    assert_refused_by_all(&shell, &text);
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_path_nobody_can_use() {
    let shell = TranscriptShell::new();
    // For root too.
    shell.run_bad(1, &["--store", "sqlite:/proc/planwright.db", "init"]);
    shell.run_bad(1, &["--store", "sqlite:/dev/null", "list"]);
    shell.run_bad(1, &["--store", "sqlite:/dev/null", "init"]);
    shell.write_file("file", "");
    shell.run_bad(1, &["--store", "sqlite:file/planwright.db", "init"]);
    shell.run_bad(1, &["--store", "sqlite:file/planwright.db", "list"]);
    std::os::unix::fs::symlink("nowhere", shell.home_path().join("link.db")).unwrap();
    shell.run_bad(1, &["--store", "sqlite:link.db", "init"]);
    insta::assert_snapshot!(shell.transcript());
}

/// Root may read anything, so that this shows something only when somebody else runs it.
#[test]
fn a_file_without_permission() {
    let (shell, _) = TranscriptShell::with_plan();
    fs::set_permissions(shell.store_path(), fs::Permissions::from_mode(0o000)).unwrap();
    let said = shell.run(&["list"]).finish();
    if fs::read(shell.store_path()).is_ok() {
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    } else {
        assert_eq!(said.exit_code(), Some(1), "{said:?}");
        assert!(said.stderr.contains("permission"), "{said:?}");
    }
}

#[test]
fn a_database_of_another_application() {
    let shell = TranscriptShell::new();
    let path = shell.home_path().join("theirs.db");
    let theirs = Connection::open(&path).unwrap();
    theirs
        .execute_batch("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('Blue')")
        .unwrap();
    drop(theirs);
    assert_refused_by_all(&shell, &path);
    insta::assert_snapshot!(shell.transcript());
}

/// The default store, written by a program that knows another schema.
fn with_schema(version: u32) -> TranscriptShell {
    let (shell, _) = TranscriptShell::with_plan();
    let ours = Connection::open(shell.store_path()).unwrap();
    ours.pragma_update(None, "user_version", version).unwrap();
    ours.pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .unwrap();
    drop(ours);
    shell
}

#[test]
fn a_store_of_a_newer_program() {
    let shell = with_schema(99);
    assert_refused_by_all(&shell, &shell.store_path());
    shell.run_bad(1, &["store", "migrate"]);
    let said = shell.run(&["doctor"]).finish();
    shell.keep_run(&["doctor"], &said);
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_store_of_an_older_program_is_not_read() {
    let shell = with_schema(1);
    for words in READING_COMMANDS {
        let said = shell.run_bad(1, words);
        assert!(said.stderr.contains("store migrate"), "{said:?}");
    }
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn addresses_that_are_none() {
    let shell = TranscriptShell::new();
    for store in [
        "memory",
        "memory:",
        "sqlite:",
        "sqlite::memory:",
        "mysql://here",
        "planwright.db",
        "",
        "postgres://",
        "postgres://ada:secret@here:notaport/db",
        "postgres://ada:secret@[here/db",
        "postgres://ada:secret@here/db?unheard=of",
    ] {
        let said = shell.run_bad_store(store);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(!told.contains("secret"), "{told}");
    }
    assert!(!shell.store_path().exists());
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_server_that_does_not_answer() {
    let shell = TranscriptShell::new();
    // Nobody listens on port 1.
    let store = "postgres://ada:secret@127.0.0.1:1/plans";
    for words in READING_COMMANDS.iter().chain(&WRITING_COMMANDS) {
        let said = shell.run_bad(1, &[&["--store", store], *words].concat());
        assert!(!said.stderr.contains("secret"), "{said:?}");
    }
    let said = shell.run(&["--store", store, "doctor"]).finish();
    shell.keep_run(&["--store", store, "doctor"], &said);
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    let shown = shell.run_quietly(&["--store", store, "config", "get", "store"]);
    assert!(!shown.to_string().contains("secret"), "{shown}");
    insta::assert_snapshot!(shell.transcript());
}

#[test]
fn a_backup_overwrites_nothing() {
    let (shell, _) = TranscriptShell::with_plan();
    shell.write_file("precious", "the only copy");
    shell.run_bad(1, &["store", "backup", "precious"]);
    assert_eq!(
        fs::read(shell.home_path().join("precious")).unwrap(),
        b"the only copy"
    );
    shell.run_bad(1, &["store", "backup", "no/such/directory/copy.db"]);
    shell.run_bad(1, &["store", "backup", "."]);
    let nowhere = TranscriptShell::new();
    nowhere.run_bad(1, &["store", "backup", "copy.db"]);
    assert!(!nowhere.home_path().join("copy.db").exists());
    insta::assert_snapshot!(format!("{}{}", shell.transcript(), nowhere.transcript()));
}

#[test]
fn a_backup_is_a_store() {
    let (shell, plan) = TranscriptShell::with_plan();
    shell.run_quietly(&["store", "backup", "copy.db"]);
    let shown = shell.run_quietly(&["--store", "sqlite:copy.db", "status", &plan]);
    assert_eq!(shown["plan_id"], plan.as_str());
    shell.run_quietly(&["--store", "sqlite:copy.db", "cancel", &plan]);
    assert_eq!(shell.run_quietly(&["status", &plan])["state"], "queued");
}

/// Reading never writes: neither a store nor a home appears.
#[test]
fn looking_at_an_absent_store_creates_nothing() {
    let shell = TranscriptShell::new();
    let home = shell.home_path().join("not/there/yet");
    let looks: [&[&str]; 14] = [
        &[],
        &["list"],
        &["status", "@"],
        &["why", "@"],
        &["log", "@"],
        &["action", "list"],
        &["action", "show", "x"],
        &["rule", "list"],
        &["profile", "list"],
        &["config", "list"],
        &["store", "verify"],
        &["doctor"],
        &["plumbing", "events"],
        &["plumbing", "reclaim"],
    ];
    for words in looks {
        let said = shell
            .run(words)
            .with_variable("PLANWRIGHT_HOME", &home)
            .finish();
        assert!(
            [Some(0), Some(3)].contains(&said.exit_code()),
            "{words:?}: {said:?}"
        );
        assert!(!shell.home_path().join("not").exists(), "{words:?} wrote");
    }
}

/// What a refused command was about to make is not made either.
#[test]
fn a_refused_command_makes_no_store() {
    let shell = TranscriptShell::new();
    let home = shell.home_path().join("not/there/yet");
    let refused: [(&[&str], i32); 5] = [
        (&["use", "absent"], 3),
        (&["action", "archive", "absent"], 3),
        (&["cancel", "@"], 3),
        (&["plumbing", "execute-plan", "@"], 3),
        (&["rule", "remove", "absent"], 3),
    ];
    for (words, code) in refused {
        let run: TestRun = shell.run(words).with_variable("PLANWRIGHT_HOME", &home);
        let said = run.finish();
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
    }
    let listed = shell
        .run(&["list"])
        .with_variable("PLANWRIGHT_HOME", &home)
        .finish();
    assert_eq!(listed.stdout, "No plans.\n");
}

/// A store that was damaged is found out, and nothing is said to be well.
#[test]
fn a_store_that_was_tampered_with_does_not_verify() {
    let (shell, plan) = TranscriptShell::with_plan();
    let tables = Connection::open(shell.store_path()).unwrap();
    let changed = tables
        .execute(
            "UPDATE events SET body = replace(body, 'review', 'auto')",
            [],
        )
        .unwrap();
    assert_eq!(changed, 1);
    drop(tables);
    let said = shell.run(&["store", "verify"]).finish();
    assert_eq!(said.exit_code(), Some(1), "{said:?}");
    assert!(said.stdout.contains(&plan), "{said:?}");
    let envelope = shell.run(&["--format", "json", "store", "verify"]).finish();
    assert_eq!(envelope.envelope()["status"], "error");
}

#[test]
fn hints_do_not_repeat_the_password_of_the_store() {
    let shell = TranscriptShell::new();
    let store = "postgres://ada:swordfish@127.0.0.1:1/plans";
    for format in ["human", "json"] {
        let run = shell.run(&["--store", store, "--format", format, "doctor"]);
        let said = run.with_variable("PATH", "/usr/bin:/bin").finish();
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(!all.contains("swordfish"), "{said:?}");
        assert!(all.contains("planwright help agents"), "{said:?}");
        assert!(all.contains("PLANWRIGHT_STORE"), "{said:?}");
    }
}
