//! Commits submissions: one transaction per batch, decided in order, each on rows that include the
//! writes of those before it. Callers are answered only after the transaction has ended.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rusqlite::Connection;

use super::connection::run_statement;
use super::error::SqliteError;
use super::group::{BatchAbandoned, BatchJob, BatchRunner, CommitBatch};
use super::statements as sql;
use super::writer::WriteTurn;
use super::{SqliteStore, migrate, rows};
use crate::commit::decide_with_completions;
use crate::fault::{FaultPoint, StoreFault};
use crate::{CommitError, CommitOutcome, StoreError, StoreWriter, Submission};

impl StoreWriter for SqliteStore {
    fn commit(&self, submission: Submission) -> Result<CommitOutcome, CommitError> {
        let id = submission.id;
        match self.group.submit(self, submission) {
            Ok(SubmissionAnswer::Finished(result)) => *result,
            // The caller's own decision panicked, so the panic belongs on its thread.
            Ok(SubmissionAnswer::Panicked(panic)) => resume_unwind(panic),
            Err(BatchAbandoned) => Err(CommitError::Unknown {
                id,
                source: StoreError::Database {
                    why: "the thread that ran the batch panicked".to_owned(),
                },
            }),
        }
    }
}

/// The outcome of a submission. Boxed, because it is moved often and batches are lists of it.
pub(super) enum SubmissionAnswer {
    Finished(Box<Result<CommitOutcome, CommitError>>),
    Panicked(Box<dyn Any + Send>),
}

impl SubmissionAnswer {
    fn from_result(result: Result<CommitOutcome, CommitError>) -> Self {
        Self::Finished(Box::new(result))
    }
}

/// An answer that becomes final when the transaction is committed.
enum DraftAnswer {
    /// Rows were written, including the command's.
    Written(SubmissionAnswer),
    NothingWritten(SubmissionAnswer),
}

enum TransactionError {
    /// It was rolled back before COMMIT.
    RolledBack(SqliteError),
    /// COMMIT failed, or its response was lost.
    InDoubt(SqliteError, Vec<DraftAnswer>),
}

/// The outcome of a transaction in doubt.
enum SqliteCommitStatus {
    Committed,
    Aborted,
    Unknown,
}

/// Whether a member is decided for the first time, or again after its batch was rolled back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DecisionAttempt {
    First,
    Again,
}

type BatchMember = BatchJob<Submission, SubmissionAnswer>;

impl BatchRunner for SqliteStore {
    type Work = Submission;
    type Answer = SubmissionAnswer;
    type Turn<'a> = WriteTurn<'a>;

    fn take_turn(&self) -> WriteTurn<'_> {
        self.take_write_turn()
    }

    fn run_batch(
        &self,
        turn: &mut WriteTurn<'_>,
        batch: &mut CommitBatch<'_, Submission, SubmissionAnswer>,
    ) {
        match turn.connection(self) {
            Ok(connection) => self.run_together(connection, batch),
            Err(error) => self.fail_all(batch.jobs(), &error),
        }
    }

    fn needs_maintenance(&self, turn: &WriteTurn<'_>) -> bool {
        turn.needs_wal_truncation()
    }

    fn run_maintenance(&self, turn: &mut WriteTurn<'_>) {
        turn.try_truncate_wal();
    }
}

impl SqliteStore {
    fn run_together(
        &self,
        connection: &Connection,
        batch: &mut CommitBatch<'_, Submission, SubmissionAnswer>,
    ) {
        if let Err(error) = self.begin_transaction(connection) {
            // Each member alone would fail the same way.
            return self.fail_all(batch.jobs(), &error);
        }
        let decided = self.decide_all(connection, batch);
        let members = batch.jobs();
        match self.end_transaction(connection, decided) {
            Ok(drafts) => self.deliver_answers(members, drafts),
            Err(TransactionError::RolledBack(_)) if members.len() > 1 => {
                self.run_one_by_one(connection, members);
            }
            Err(TransactionError::RolledBack(error)) => self.fail_all(members, &error),
            Err(TransactionError::InDoubt(error, drafts)) => {
                match resolve_in_doubt_commit(connection, &error, members, &drafts) {
                    SqliteCommitStatus::Committed => self.deliver_answers(members, drafts),
                    SqliteCommitStatus::Aborted if members.len() > 1 => {
                        self.run_one_by_one(connection, members);
                    }
                    SqliteCommitStatus::Aborted => self.fail_all(members, &error),
                    SqliteCommitStatus::Unknown => self.deliver_unknown(members, drafts, &error),
                }
            }
        }
    }

    /// Decides each member again in its own transaction, so that one failing member does not fail
    /// the others.
    fn run_one_by_one(&self, connection: &Connection, members: &mut [BatchMember]) {
        for member in members {
            let decided = self.begin_transaction(connection).and_then(|()| {
                self.decide_and_write(connection, &mut member.work, DecisionAttempt::Again)
            });
            let ended = self.end_transaction(connection, decided.map(|draft| vec![draft]));
            let member = std::slice::from_mut(member);
            match ended {
                Ok(drafts) => self.deliver_answers(member, drafts),
                Err(TransactionError::RolledBack(error)) => self.fail_all(member, &error),
                Err(TransactionError::InDoubt(error, drafts)) => {
                    match resolve_in_doubt_commit(connection, &error, member, &drafts) {
                        SqliteCommitStatus::Committed => self.deliver_answers(member, drafts),
                        SqliteCommitStatus::Aborted => self.fail_all(member, &error),
                        SqliteCommitStatus::Unknown => self.deliver_unknown(member, drafts, &error),
                    }
                }
            }
        }
    }

    /// Decides all members in the open transaction, including those that join meanwhile.
    fn decide_all(
        &self,
        connection: &Connection,
        batch: &mut CommitBatch<'_, Submission, SubmissionAnswer>,
    ) -> Result<Vec<DraftAnswer>, SqliteError> {
        let mut drafts = Vec::with_capacity(batch.jobs().len());
        loop {
            for member in batch.jobs().iter_mut().skip(drafts.len()) {
                drafts.push(self.decide_and_write(
                    connection,
                    &mut member.work,
                    DecisionAttempt::First,
                )?);
            }
            batch.gather_waiting();
            if batch.jobs().len() == drafts.len() {
                return Ok(drafts);
            }
        }
    }

    /// Commits what was decided, or rolls back. Skips COMMIT if no member wrote anything.
    fn end_transaction(
        &self,
        connection: &Connection,
        decided: Result<Vec<DraftAnswer>, SqliteError>,
    ) -> Result<Vec<DraftAnswer>, TransactionError> {
        let wrote_rows =
            |drafts: &[DraftAnswer]| drafts.iter().any(|d| matches!(d, DraftAnswer::Written(_)));
        let decided = decided.and_then(|drafts| {
            if wrote_rows(&drafts) {
                self.inject_fault(FaultPoint::BeforeCommit)?;
            }
            Ok(drafts)
        });
        let drafts = match decided {
            Ok(drafts) if wrote_rows(&drafts) => drafts,
            Ok(drafts) => {
                roll_back(connection);
                return Ok(drafts);
            }
            Err(error) => {
                roll_back(connection);
                return Err(TransactionError::RolledBack(error));
            }
        };
        match run_statement(connection, sql::COMMIT)
            .and_then(|()| self.inject_fault(FaultPoint::AfterCommit))
        {
            Ok(()) => Ok(drafts),
            Err(error) => {
                roll_back(connection);
                Err(TransactionError::InDoubt(error, drafts))
            }
        }
    }

    /// Begins a write transaction and checks the schema: another process may have migrated the file
    /// since it was opened.
    pub(super) fn begin_transaction(&self, connection: &Connection) -> Result<(), SqliteError> {
        run_statement(connection, sql::BEGIN_WRITE)?;
        let checked = migrate::query_number(connection, sql::SCHEMA_VERSION).and_then(|found| {
            migrate::require_supported_schema(found, self.supported_schema_version())
        });
        if checked.is_err() {
            roll_back(connection);
        }
        checked
    }

    fn decide_and_write(
        &self,
        connection: &Connection,
        submission: &mut Submission,
        attempt: DecisionAttempt,
    ) -> Result<DraftAnswer, SqliteError> {
        if let Some(answer) = find_earlier_answer(connection, submission)? {
            return Ok(DraftAnswer::NothingWritten(SubmissionAnswer::from_result(
                answer,
            )));
        }
        let (mut facts, head) = rows::read_facts(connection, &submission.reads)?;
        let now = self.options.clock.now();
        let decide = &mut submission.decide;
        // The leader runs decisions of other callers, so a panic must not unwind through it.
        let decided = catch_unwind(AssertUnwindSafe(|| {
            decide_with_completions(decide, &mut facts, now, |plan_id, verb| {
                rows::select_completion(connection, plan_id, verb)
            })
        }));
        let decision = match decided {
            Err(panic) => {
                return Ok(DraftAnswer::NothingWritten(SubmissionAnswer::Panicked(
                    panic,
                )));
            }
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Err(refusal))) => {
                return Ok(DraftAnswer::NothingWritten(SubmissionAnswer::from_result(
                    Err(refusal.into()),
                )));
            }
            Ok(Ok(Ok(decision))) => decision,
        };
        self.inject_fault(FaultPoint::Decided)?;
        let committed = CommitOutcome::from_decision(&decision, &facts);
        let key = submission.key.as_ref();
        let remember = key.is_some() && rows::is_kept_under_key(&decision.receipt);
        if decision.plans.is_empty() && decision.rows.is_empty() && !remember {
            return Ok(DraftAnswer::NothingWritten(SubmissionAnswer::from_result(
                Ok(committed),
            )));
        }
        if attempt == DecisionAttempt::Again {
            // The batch may have been resolved as aborted under this id.
            let id = submission.id.to_string();
            connection
                .prepare_cached(sql::DELETE_ABORTED)?
                .execute([id])?;
        }
        let plan_head = facts.plan.as_ref().map(|plan| plan.id()).zip(head);
        rows::write_decision(connection, &decision, plan_head)?;
        rows::write_command(connection, submission.id, key, &decision.receipt)?;
        Ok(DraftAnswer::Written(SubmissionAnswer::from_result(Ok(
            committed,
        ))))
    }

    fn inject_fault(&self, point: FaultPoint) -> Result<(), SqliteError> {
        match self.options.faults.fault_at(point) {
            StoreFault::None => Ok(()),
            StoreFault::Fail => Err(SqliteError::Database(format!("fault injected: {point:?}"))),
            StoreFault::Full => Err(SqliteError::Full),
        }
    }

    /// Delivers the drafts after a successful commit.
    fn deliver_answers(&self, members: &mut [BatchMember], drafts: Vec<DraftAnswer>) {
        let mut written = false;
        for (member, draft) in members.iter_mut().zip(drafts) {
            member.answer = Some(match draft {
                DraftAnswer::Written(answer) => {
                    written = true;
                    answer
                }
                DraftAnswer::NothingWritten(answer) => answer,
            });
        }
        if written {
            self.commit_watch.record_commit();
        }
    }

    fn fail_all(&self, members: &mut [BatchMember], cause: &SqliteError) {
        for member in members {
            let error = cause.clone().into_store_error(self.file.display_path());
            member.answer = Some(SubmissionAnswer::from_result(Err(error.into())));
        }
    }

    /// Reports an unknown outcome, except to members that wrote nothing.
    fn deliver_unknown(
        &self,
        members: &mut [BatchMember],
        drafts: Vec<DraftAnswer>,
        cause: &SqliteError,
    ) {
        for (member, draft) in members.iter_mut().zip(drafts) {
            let source = cause.clone().into_store_error(self.file.display_path());
            let error = match draft {
                DraftAnswer::Written(_) => CommitError::Unknown {
                    id: member.work.id,
                    source,
                },
                DraftAnswer::NothingWritten(_) => source.into(),
            };
            member.answer = Some(SubmissionAnswer::from_result(Err(error)));
        }
    }
}

/// Returns the answer committed under the submission's key.
fn find_earlier_answer(
    connection: &Connection,
    submission: &Submission,
) -> Result<Option<Result<CommitOutcome, CommitError>>, SqliteError> {
    let Some(key) = &submission.key else {
        return Ok(None);
    };
    let found = rows::select_earlier_answer(connection, key)?;
    Ok(found.map(|(fingerprint, receipt)| {
        if fingerprint != key.fingerprint {
            return Err(CommitError::KeyReused {
                key: key.key.clone(),
            });
        }
        Ok(CommitOutcome {
            receipt,
            plan: None,
            is_repeat: true,
        })
    }))
}

/// Determines the outcome of a transaction whose COMMIT failed or whose response was lost. It was
/// written whole or not at all, so one member's command decides for all.
///
/// Finding no trace of it does not prove an abort. After a failed fsync its frames may be complete
/// in the WAL, and crash recovery would then apply them. A durable write overwrites those frames;
/// inserting the command as aborted is that write.
fn resolve_in_doubt_commit(
    connection: &Connection,
    error: &SqliteError,
    members: &[BatchMember],
    drafts: &[DraftAnswer],
) -> SqliteCommitStatus {
    let written = members
        .iter()
        .zip(drafts)
        .find(|(_, draft)| matches!(draft, DraftAnswer::Written(_)));
    let Some((member, _)) = written else {
        return SqliteCommitStatus::Aborted;
    };
    let id = member.work.id.to_string();
    let aborted = insert_aborted(connection, &id);
    roll_back(connection);
    if aborted.is_ok() {
        return SqliteCommitStatus::Aborted;
    }
    let status = rows::select_first(
        connection,
        sql::COMMAND_STATUS,
        [&id],
        |row| Ok(row.get(0)?),
    );
    match status {
        Ok(Some(true)) => SqliteCommitStatus::Committed,
        Ok(Some(false)) => SqliteCommitStatus::Aborted,
        Ok(None) if error.proves_nothing_was_committed() => SqliteCommitStatus::Aborted,
        Ok(None) | Err(_) => SqliteCommitStatus::Unknown,
    }
}

fn insert_aborted(connection: &Connection, id: &str) -> Result<(), SqliteError> {
    run_statement(connection, sql::BEGIN_WRITE)?;
    connection
        .prepare_cached(sql::INSERT_ABORTED)?
        .execute([id])?;
    run_statement(connection, sql::COMMIT)
}

/// Ends the transaction if one is open. If that fails, the connection is closed at the end of the
/// turn.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        let _ = run_statement(connection, sql::ROLLBACK);
    }
}
