//! Carrying out submissions: one transaction per batch, in order, each decided on rows that include
//! the writes of those before it. Nobody is told anything before the transaction has ended.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rusqlite::Connection;

use super::connection::run;
use super::group::{Abandoned, Batch, Carrier, Job};
use super::statements as sql;
use super::writer::WriteTurn;
use super::wrong::Wrong;
use super::{SqliteStore, migrate, rows};
use crate::fault::{Fault, FaultPoint};
use crate::{Commit, CommitError, Committed, StoreError, Submission};

impl Commit for SqliteStore {
    fn commit(&self, submission: Submission) -> Result<Committed, CommitError> {
        let id = submission.id;
        match self.group.submit(self, submission) {
            Ok(Answer::Ended(ended)) => *ended,
            // It is the caller's decision that panicked, wherever it was run.
            Ok(Answer::Panicked(panic)) => resume_unwind(panic),
            Err(Abandoned) => Err(CommitError::Unknown {
                id,
                source: StoreError::Database {
                    why: "the thread that carried it out panicked".to_owned(),
                },
            }),
        }
    }
}

/// What came of a submission. Small, because it is moved from hand to hand, and batches are lists of it.
pub(super) enum Answer {
    Ended(Box<Result<Committed, CommitError>>),
    Panicked(Box<dyn Any + Send>),
}

impl Answer {
    fn of(ended: Result<Committed, CommitError>) -> Self {
        Self::Ended(Box::new(ended))
    }
}

/// What will be answered once the transaction has ended well.
enum Draft {
    /// Rows were written, among them the command's.
    Written(Answer),
    /// Nothing was written.
    Said(Answer),
}

/// How a transaction did not end well.
enum Trouble {
    /// It was rolled back before COMMIT.
    Undone(Wrong),
    /// COMMIT failed, or its answer was lost.
    InDoubt(Wrong, Vec<Draft>),
}

/// What became of a transaction in doubt.
enum Settled {
    Committed,
    Aborted,
    Unknown,
}

/// Is a member decided for the first time, or again after its batch was undone?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    Again,
}

type Member = Job<Submission, Answer>;

impl Carrier for SqliteStore {
    type Work = Submission;
    type Answer = Answer;
    type Turn<'a> = WriteTurn<'a>;

    fn take_turn(&self) -> WriteTurn<'_> {
        self.write_turn()
    }

    fn carry_out(&self, turn: &mut WriteTurn<'_>, batch: &mut Batch<'_, Submission, Answer>) {
        match turn.connection(self) {
            Ok(connection) => self.carry_out_together(connection, batch),
            Err(wrong) => self.fail_all(batch.jobs(), &wrong),
        }
    }

    fn upkeep_is_due(&self, turn: &WriteTurn<'_>) -> bool {
        turn.wal_is_long()
    }

    fn upkeep(&self, turn: &mut WriteTurn<'_>) {
        turn.shorten_wal();
    }
}

impl SqliteStore {
    fn carry_out_together(
        &self,
        connection: &Connection,
        batch: &mut Batch<'_, Submission, Answer>,
    ) {
        if let Err(wrong) = self.begin(connection) {
            // It would be the same for each of them alone.
            return self.fail_all(batch.jobs(), &wrong);
        }
        let decided = self.decide_all(connection, batch);
        let members = batch.jobs();
        match self.end(connection, decided) {
            Ok(drafts) => self.tell(members, drafts),
            Err(Trouble::Undone(_)) if members.len() > 1 => {
                self.carry_out_alone(connection, members);
            }
            Err(Trouble::Undone(wrong)) => self.fail_all(members, &wrong),
            Err(Trouble::InDoubt(wrong, drafts)) => {
                match settle(connection, &wrong, members, &drafts) {
                    Settled::Committed => self.tell(members, drafts),
                    Settled::Aborted if members.len() > 1 => {
                        self.carry_out_alone(connection, members);
                    }
                    Settled::Aborted => self.fail_all(members, &wrong),
                    Settled::Unknown => self.tell_unknown(members, drafts, &wrong),
                }
            }
        }
    }

    /// Decides each member again in a transaction of its own: what was wrong with one must not fail
    /// the others.
    fn carry_out_alone(&self, connection: &Connection, members: &mut [Member]) {
        for member in members {
            let decided = self
                .begin(connection)
                .and_then(|()| self.decide_and_write(connection, &mut member.work, Attempt::Again));
            let ended = self.end(connection, decided.map(|draft| vec![draft]));
            let member = std::slice::from_mut(member);
            match ended {
                Ok(drafts) => self.tell(member, drafts),
                Err(Trouble::Undone(wrong)) => self.fail_all(member, &wrong),
                Err(Trouble::InDoubt(wrong, drafts)) => {
                    match settle(connection, &wrong, member, &drafts) {
                        Settled::Committed => self.tell(member, drafts),
                        Settled::Aborted => self.fail_all(member, &wrong),
                        Settled::Unknown => self.tell_unknown(member, drafts, &wrong),
                    }
                }
            }
        }
    }

    /// Decides all members in the open transaction, and those that come while that takes.
    fn decide_all(
        &self,
        connection: &Connection,
        batch: &mut Batch<'_, Submission, Answer>,
    ) -> Result<Vec<Draft>, Wrong> {
        let mut drafts = Vec::with_capacity(batch.jobs().len());
        loop {
            for member in batch.jobs().iter_mut().skip(drafts.len()) {
                drafts.push(self.decide_and_write(connection, &mut member.work, Attempt::First)?);
            }
            batch.gather();
            if batch.jobs().len() == drafts.len() {
                return Ok(drafts);
            }
        }
    }

    /// Ends the transaction: commits what was decided, or rolls back. COMMIT is left out if nobody
    /// wrote anything.
    fn end(
        &self,
        connection: &Connection,
        decided: Result<Vec<Draft>, Wrong>,
    ) -> Result<Vec<Draft>, Trouble> {
        let written = |drafts: &[Draft]| drafts.iter().any(|d| matches!(d, Draft::Written(_)));
        let decided = decided.and_then(|drafts| {
            if written(&drafts) {
                self.fault(FaultPoint::BeforeCommit)?;
            }
            Ok(drafts)
        });
        let drafts = match decided {
            Ok(drafts) if written(&drafts) => drafts,
            Ok(drafts) => {
                roll_back(connection);
                return Ok(drafts);
            }
            Err(wrong) => {
                roll_back(connection);
                return Err(Trouble::Undone(wrong));
            }
        };
        match run(connection, sql::COMMIT).and_then(|()| self.fault(FaultPoint::AfterCommit)) {
            Ok(()) => Ok(drafts),
            Err(wrong) => {
                roll_back(connection);
                Err(Trouble::InDoubt(wrong, drafts))
            }
        }
    }

    /// Begins to write, on a schema that is ours: another process may have migrated the file since
    /// it was opened.
    fn begin(&self, connection: &Connection) -> Result<(), Wrong> {
        run(connection, sql::BEGIN_WRITE)?;
        let checked = migrate::number(connection, sql::SCHEMA_VERSION)
            .and_then(|found| migrate::require(found, self.known_schema()));
        if checked.is_err() {
            roll_back(connection);
        }
        checked
    }

    fn decide_and_write(
        &self,
        connection: &Connection,
        submission: &mut Submission,
        attempt: Attempt,
    ) -> Result<Draft, Wrong> {
        if let Some(answer) = remembered(connection, submission)? {
            return Ok(Draft::Said(Answer::of(answer)));
        }
        let (facts, head) = rows::facts(connection, &submission.reads)?;
        let now = self.options.clock.now();
        let decide = &mut submission.decide;
        let decision = match catch_unwind(AssertUnwindSafe(|| decide(&facts, now))) {
            Err(panic) => return Ok(Draft::Said(Answer::Panicked(panic))),
            Ok(Err(refusal)) => return Ok(Draft::Said(Answer::of(Err(refusal.into())))),
            Ok(Ok(decision)) => decision,
        };
        self.fault(FaultPoint::Decided)?;
        let committed = Committed::of(&decision, &facts);
        let key = submission.key.as_ref();
        let remember = key.is_some() && rows::is_remembered(&decision.receipt);
        if decision.plans.is_empty() && decision.rows.is_empty() && !remember {
            return Ok(Draft::Said(Answer::of(Ok(committed))));
        }
        if attempt == Attempt::Again {
            // Its batch may have been settled under this very id.
            let id = submission.id.to_string();
            connection
                .prepare_cached(sql::FORGET_ABORTED)?
                .execute([id])?;
        }
        let read = facts.plan.as_ref().map(|plan| plan.id).zip(head);
        rows::write(connection, &decision, read)?;
        rows::write_command(connection, submission.id, key, &decision.receipt)?;
        Ok(Draft::Written(Answer::of(Ok(committed))))
    }

    fn fault(&self, point: FaultPoint) -> Result<(), Wrong> {
        match self.options.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Fail => Err(Wrong::Database(format!("fault injected: {point:?}"))),
            Fault::Full => Err(Wrong::Full),
        }
    }

    /// The transaction has ended well: everybody gets what was drafted.
    fn tell(&self, members: &mut [Member], drafts: Vec<Draft>) {
        let mut written = false;
        for (member, draft) in members.iter_mut().zip(drafts) {
            member.answer = Some(match draft {
                Draft::Written(answer) => {
                    written = true;
                    answer
                }
                Draft::Said(answer) => answer,
            });
        }
        if written {
            self.commits.announce();
        }
    }

    fn fail_all(&self, members: &mut [Member], wrong: &Wrong) {
        for member in members {
            let error = wrong.clone().at(self.place.shown());
            member.answer = Some(Answer::of(Err(error.into())));
        }
    }

    /// Those that wrote nothing can be told that nothing was written.
    fn tell_unknown(&self, members: &mut [Member], drafts: Vec<Draft>, wrong: &Wrong) {
        for (member, draft) in members.iter_mut().zip(drafts) {
            let source = wrong.clone().at(self.place.shown());
            let error = match draft {
                Draft::Written(_) => CommitError::Unknown {
                    id: member.work.id,
                    source,
                },
                Draft::Said(_) => source.into(),
            };
            member.answer = Some(Answer::of(Err(error)));
        }
    }
}

/// The answer that was committed under the submission's key, if there is one.
fn remembered(
    connection: &Connection,
    submission: &Submission,
) -> Result<Option<Result<Committed, CommitError>>, Wrong> {
    let Some(key) = &submission.key else {
        return Ok(None);
    };
    let found = rows::remembered(connection, key)?;
    Ok(found.map(|(fingerprint, receipt)| {
        if fingerprint != key.fingerprint {
            return Err(CommitError::KeyReused {
                key: key.key.clone(),
            });
        }
        Ok(Committed {
            receipt,
            plan: None,
            remembered: true,
        })
    }))
}

/// What became of a transaction whose COMMIT failed or was not heard of. It was written whole or
/// not at all, so that one member's command tells about all.
///
/// To find no trace of it is not enough. After a failed fsync its frames may lie whole in the log,
/// unseen until somebody recovers the log after a crash; then they would count. Writing something
/// else durably takes their place, and that is what inserting the command as aborted does.
fn settle(connection: &Connection, wrong: &Wrong, members: &[Member], drafts: &[Draft]) -> Settled {
    let written = members
        .iter()
        .zip(drafts)
        .find(|(_, draft)| matches!(draft, Draft::Written(_)));
    let Some((member, _)) = written else {
        return Settled::Aborted;
    };
    let id = member.work.id.to_string();
    let aborted = insert_aborted(connection, &id);
    roll_back(connection);
    if aborted.is_ok() {
        return Settled::Aborted;
    }
    let fate = rows::one(connection, sql::COMMAND_FATE, [&id], |row| Ok(row.get(0)?));
    match fate {
        Ok(Some(true)) => Settled::Committed,
        Ok(Some(false)) => Settled::Aborted,
        Ok(None) if wrong.proves_nothing_was_committed() => Settled::Aborted,
        Ok(None) | Err(_) => Settled::Unknown,
    }
}

fn insert_aborted(connection: &Connection, id: &str) -> Result<(), Wrong> {
    run(connection, sql::BEGIN_WRITE)?;
    connection
        .prepare_cached(sql::INSERT_ABORTED)?
        .execute([id])?;
    run(connection, sql::COMMIT)
}

/// Ends the transaction if one is open. If that fails the connection stays in it, and is closed
/// with the turn.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        let _ = run(connection, sql::ROLLBACK);
    }
}
