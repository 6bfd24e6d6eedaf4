//! The database goes away right after it committed: what was done is told as done.

use testkit::proxy::{CutAftermath, CutMoment, CuttingProxy};
use testkit::{PostgresDatabase, TestProgram, TestRunOutput};

const ACTION: &str =
    "name: tidy\ndescription: Tidy up\nstrategy_actor: robot\nexecution_actor: robot\n";

/// How the changesets of a plan are looked at for its view; nothing before a commit asks so.
const CHANGESETS_QUERY: &[u8] =
    b"SELECT body FROM changesets WHERE plan_id = $1 ORDER BY changeset_id";

/// Runs a command whose first look at the changesets, which comes after its commit, is cut off.
fn cut_after_commit(
    program: &TestProgram,
    wire: &CuttingProxy,
    arguments: &[&str],
) -> TestRunOutput {
    let cuts = wire.cut_count();
    wire.cut_on_bytes(
        CHANGESETS_QUERY,
        CutMoment::BeforeRequest,
        CutAftermath::Unreachable,
    );
    let said = program.run(arguments.iter().copied()).finish();
    assert_eq!(wire.cut_count(), cuts + 1, "it was not cut off");
    wire.restore();
    said
}

#[test]
fn a_committed_write_that_cannot_be_described_is_still_done() {
    let database = PostgresDatabase::new();
    let (wire, url) = CuttingProxy::for_url(&database.url());
    let mut program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    program.set_variable("PLANWRIGHT_STORE", url);
    let created = program
        .run(["action", "create", "--config", "-"])
        .with_input(ACTION)
        .finish();
    assert_eq!(created.exit_code(), Some(0), "{created:?}");

    let used = cut_after_commit(&program, &wire, &["use", "tidy", "--format", "json"]);
    assert_eq!(used.exit_code(), Some(0), "{used:?}");
    let id = used.envelope()["data"]["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();

    let claim = ["plumbing", "start-strategize", &id, "--owner", "ada"];
    let claimed = cut_after_commit(&program, &wire, &claim).envelope();
    assert_eq!(claimed["status"], "warn", "{claimed}");
    assert_eq!(claimed["data"]["receipt"]["epoch"], 1, "{claimed}");
    assert_eq!(claimed["messages"][0]["level"], "warn", "{claimed}");

    let completed = ["plumbing", "complete-strategize", &id, "--epoch", "1"];
    assert_eq!(program.run(completed).finish().exit_code(), Some(0));
    let moved = ["plumbing", "execute-plan", &id];
    assert_eq!(program.run(moved).finish().exit_code(), Some(0));
    let claim = ["plumbing", "start-execute", &id, "--owner", "ada"];
    assert_eq!(program.run(claim).finish().exit_code(), Some(0));
    let open = [
        "plumbing",
        "open-changeset",
        &id,
        "--epoch",
        "2",
        "--node",
        "n",
    ];
    let opened = cut_after_commit(&program, &wire, &open).envelope();
    assert!(opened["data"]["changeset_id"].is_string(), "{opened}");

    let cancelled = cut_after_commit(&program, &wire, &["cancel", &id]);
    assert_eq!(cancelled.exit_code(), Some(0), "{cancelled:?}");
    assert!(cancelled.stderr.contains("Done, but"), "{cancelled:?}");
    let shown = program.run(["plumbing", "show", &id]).finish().envelope();
    assert_eq!(shown["data"]["state"], "cancelled", "{shown}");
}
