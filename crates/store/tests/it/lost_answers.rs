//! G3: tests that cut the connection to PostgreSQL around COMMIT.

use std::sync::Arc;

use plan::command::{CancelPlan, CreatePlan};
use plan::{Command, ReceiptOutcome};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{CommitError, Store};
use testkit::proxy::{CutAftermath, CutMoment};
use testkit::{CuttingProxy, PostgresDatabase, StoreDump, TestClient, TestIds, samples};

/// COMMIT on the wire: length and text. The response contains the same bytes.
const COMMIT: &[u8] = b"\0\0\0\x0bCOMMIT\0";

/// A store behind a proxy, and a direct one that sees what was committed.
struct ProxiedClient {
    proxy: CuttingProxy,
    proxied: TestClient,
    direct: Arc<dyn Store>,
    _database: PostgresDatabase,
}

impl ProxiedClient {
    fn new() -> Self {
        let database = PostgresDatabase::new();
        let (proxy, through) = CuttingProxy::for_url(&database.url());
        let open = |url: &str| PostgresStore::new(url, PostgresOptions::default()).unwrap();
        Self {
            proxied: TestClient::new(Arc::new(open(&through)), Arc::new(TestIds::new(1))),
            direct: Arc::new(open(&database.url())),
            proxy,
            _database: database,
        }
    }

    fn cut_next_commit(&self, moment: CutMoment, afterwards: CutAftermath) {
        self.proxy.cut_on_bytes(COMMIT, moment, afterwards);
    }
}

#[test]
fn a_commit_that_never_arrived_has_failed_and_can_be_retried() {
    let setup = ProxiedClient::new();
    let plan = setup.proxied.create_queued_plan("be cancelled");
    let before = StoreDump::read_store(setup.direct.as_ref());
    let cancel = || {
        setup
            .proxied
            .build_submission(Some(plan), Command::from(CancelPlan { reason: None }))
    };
    let submission = cancel();
    setup.cut_next_commit(CutMoment::BeforeRequest, CutAftermath::Restored);
    let answer = setup.proxied.store().commit(submission);
    assert_eq!(setup.proxy.cut_count(), 1);
    assert!(matches!(answer, Err(CommitError::Failed(_))), "{answer:?}");
    StoreDump::read_store(setup.direct.as_ref())
        .assert_same(&before, "after a commit that never arrived");
    let again = setup.proxied.store().commit(cancel()).unwrap();
    assert_eq!(again.receipt.outcome, ReceiptOutcome::Done);
}

#[test]
fn a_commit_with_a_lost_response_is_resolved() {
    let setup = ProxiedClient::new();
    let plan = setup.proxied.create_queued_plan("be cancelled");
    let submission = setup
        .proxied
        .build_submission(Some(plan), Command::from(CancelPlan { reason: None }));
    setup.cut_next_commit(CutMoment::AfterAnswer(COMMIT), CutAftermath::Restored);
    let committed = setup.proxied.store().commit(submission).unwrap();
    assert_eq!(setup.proxy.cut_count(), 1);
    let stored = setup.direct.read_plan(plan).unwrap().unwrap().plan;
    assert!(stored.stage().is_final());
    assert_eq!(committed.receipt.version, Some(stored.version()));
    assert_eq!(committed.plan.as_deref(), Some(&stored));
}

/// Takes as long as the store tries to resolve the commit, so both cases run at once.
#[test]
fn an_unresolved_commit_is_unknown_and_safe_to_retry() {
    std::thread::scope(|scope| {
        scope.spawn(|| check_unresolved_commit(CutMoment::AfterAnswer(COMMIT), 1));
        scope.spawn(|| check_unresolved_commit(CutMoment::BeforeRequest, 0));
    });
}

fn check_unresolved_commit(moment: CutMoment, happened: usize) {
    let setup = ProxiedClient::new();
    setup.proxied.create_queued_plan("make the store");
    let use_once = || {
        let new = samples::plan_for_goal(setup.proxied.ids().next_plan_id(), "once");
        setup
            .proxied
            .submit_with_key("k", "once", None, Command::from(CreatePlan(new)))
    };
    setup.cut_next_commit(moment, CutAftermath::Unreachable);
    let answer = use_once();
    assert!(
        matches!(answer, Err(CommitError::Unknown { .. })),
        "{answer:?}"
    );
    let plans = || StoreDump::read_store(setup.direct.as_ref()).plans.len();
    assert_eq!(plans(), 1 + happened);

    setup.proxy.restore();
    let again = use_once().unwrap();
    assert_eq!(again.is_repeat, happened == 1);
    assert_eq!(again.receipt.outcome, ReceiptOutcome::Done);
    assert_eq!(plans(), 2, "done once, whatever became of the first");
}
