//! G3 on the wire: the connection to PostgreSQL is cut at the worst moments.

use std::sync::Arc;

use plan::{Command, ReceiptOutcome};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{CommitError, Store};
use testkit::proxy::{CutAftermath, CutMoment};
use testkit::{CuttingProxy, PostgresDatabase, StoreDump, TestClient, TestIds, samples};

/// COMMIT as it goes over the wire: its length, then its text. The answer to it holds the same bytes.
const COMMIT: &[u8] = b"\0\0\0\x0bCOMMIT\0";

/// A store at the far end of a wire that can be cut, and one next to the server that sees what is.
struct Ends {
    proxy: CuttingProxy,
    far: TestClient,
    near: Arc<dyn Store>,
    _database: PostgresDatabase,
}

impl Ends {
    fn new() -> Self {
        let database = PostgresDatabase::new();
        let (proxy, through) = CuttingProxy::for_url(&database.url());
        let open = |url: &str| PostgresStore::new(url, PostgresOptions::default()).unwrap();
        Self {
            far: TestClient::new(Arc::new(open(&through)), Arc::new(TestIds::new(1))),
            near: Arc::new(open(&database.url())),
            proxy,
            _database: database,
        }
    }

    fn cut_the_next_commit(&self, moment: CutMoment, afterwards: CutAftermath) {
        self.proxy.cut_on_bytes(COMMIT, moment, afterwards);
    }
}

#[test]
fn a_commit_that_never_arrived_has_not_happened_and_can_be_repeated() {
    let ends = Ends::new();
    let plan = ends.far.create_queued_plan("be cancelled");
    let before = StoreDump::read_store(ends.near.as_ref());
    let cancel = || {
        ends.far
            .build_submission(Some(plan), Command::Cancel { reason: None })
    };
    let submission = cancel();
    ends.cut_the_next_commit(CutMoment::BeforeRequest, CutAftermath::Restored);
    let answer = ends.far.store().commit(submission);
    assert_eq!(ends.proxy.cut_count(), 1);
    assert!(matches!(answer, Err(CommitError::Failed(_))), "{answer:?}");
    StoreDump::read_store(ends.near.as_ref())
        .assert_same(&before, "after a commit that never arrived");
    let again = ends.far.store().commit(cancel()).unwrap();
    assert_eq!(again.receipt.outcome, ReceiptOutcome::Done);
}

#[test]
fn a_commit_whose_answer_was_lost_is_settled() {
    let ends = Ends::new();
    let plan = ends.far.create_queued_plan("be cancelled");
    let submission = ends
        .far
        .build_submission(Some(plan), Command::Cancel { reason: None });
    ends.cut_the_next_commit(CutMoment::AfterAnswer(COMMIT), CutAftermath::Restored);
    let committed = ends.far.store().commit(submission).unwrap();
    assert_eq!(ends.proxy.cut_count(), 1);
    let stored = ends.near.read_plan(plan).unwrap().unwrap().plan;
    assert!(stored.stage.is_final());
    assert_eq!(committed.receipt.version, Some(stored.version));
    assert_eq!(committed.plan.as_deref(), Some(&stored));
}

/// Takes as long as the store tries to learn it, hence both at once.
#[test]
fn what_cannot_be_learnt_is_said_and_repeating_with_the_key_is_safe() {
    std::thread::scope(|scope| {
        scope.spawn(|| learn_nothing(CutMoment::AfterAnswer(COMMIT), 1));
        scope.spawn(|| learn_nothing(CutMoment::BeforeRequest, 0));
    });
}

fn learn_nothing(moment: CutMoment, happened: usize) {
    let ends = Ends::new();
    ends.far.create_queued_plan("make the store");
    let use_once = || {
        let new = samples::plan_for_goal(ends.far.ids().next_plan_id(), "once");
        ends.far
            .submit_with_key("k", "once", None, Command::Use(new))
    };
    ends.cut_the_next_commit(moment, CutAftermath::Unreachable);
    let answer = use_once();
    assert!(
        matches!(answer, Err(CommitError::Unknown { .. })),
        "{answer:?}"
    );
    let plans = || StoreDump::read_store(ends.near.as_ref()).plans.len();
    assert_eq!(plans(), 1 + happened);

    ends.proxy.restore();
    let again = use_once().unwrap();
    assert_eq!(again.is_repeat, happened == 1);
    assert_eq!(again.receipt.outcome, ReceiptOutcome::Done);
    assert_eq!(plans(), 2, "done once, whatever became of the first");
}
