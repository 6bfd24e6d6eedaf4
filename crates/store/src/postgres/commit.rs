//! The write path: one transaction, run again while others are faster.
//!
//! What the server can tell us and what we make of it:
//!
//! - A collision (deadlock, serialization, a row somebody else created) undid the transaction. It is
//!   run again, so that the decision is made on the winner's rows; an unrelated commit never becomes
//!   a refusal.
//! - The end of the connection before COMMIT was sent: nothing was written. Once, everything is run
//!   again on another connection; pooled connections die with every restart of the server.
//! - The end of the connection after COMMIT was sent: nobody knows, so it is settled.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use plan::Decision;

use super::connection::{FinalExchange, TransactionEnd};
use super::error::{PostgresError, is_fatal};
use super::facts::{self, LockedFacts};
use super::in_doubt::{PostgresCommitStatus, resolve_in_doubt_commit};
use super::pipeline::values;
use super::pool::PooledConnection;
use super::statements::ADOPT;
use super::writes::build_write_calls;
use super::{PostgresStore, migrate};
use crate::fault::{FaultPoint, StoreFault};
use crate::{CommitError, CommitOutcome, StoreError, StoreWriter, Submission};

/// How often a transaction is run again because somebody was faster.
const MAX_CONFLICT_RETRIES: u32 = 20;

impl StoreWriter for PostgresStore {
    fn commit(&self, mut submission: Submission) -> Result<CommitOutcome, CommitError> {
        let mut retry_state = RetryState::default();
        loop {
            let connection = if retry_state.connection_lost {
                self.shared.pool.acquire_after_loss()?
            } else {
                self.shared.pool.acquire_connection()?
            };
            match self.attempt_commit(connection, &mut submission) {
                Ok(AttemptOutcome::Written(committed)) => {
                    self.announcer.announce_commit();
                    return Ok(committed);
                }
                Ok(AttemptOutcome::Answered(answer)) => return answer,
                Ok(AttemptOutcome::InDoubt(committed, error)) => {
                    return match resolve_in_doubt_commit(&self.shared, submission.id) {
                        PostgresCommitStatus::Committed => {
                            self.announcer.announce_commit();
                            Ok(committed)
                        }
                        PostgresCommitStatus::Aborted => Err(CommitError::Failed(error)),
                        PostgresCommitStatus::Unknown(source) => Err(CommitError::Unknown {
                            id: submission.id,
                            source,
                        }),
                    };
                }
                Err(error) => self.prepare_retry(error, &mut retry_state)?,
            }
        }
    }
}

/// How an attempt ended, if it need not be repeated.
enum AttemptOutcome {
    /// Something was committed.
    Written(CommitOutcome),
    /// Nothing was, and this is the answer.
    Answered(Result<CommitOutcome, CommitError>),
    /// COMMIT was sent and not answered.
    InDoubt(CommitOutcome, StoreError),
}

/// What was tried before.
#[derive(Default)]
struct RetryState {
    conflicts: u32,
    connection_lost: bool,
    stale_statements: u32,
    schema_setups: u32,
}

impl PostgresStore {
    fn attempt_commit(
        &self,
        mut connection: PooledConnection<'_>,
        submission: &mut Submission,
    ) -> Result<AttemptOutcome, PostgresError> {
        let Submission {
            id,
            key,
            reads,
            decide,
        } = submission;
        let place = self.shared.place();
        let locked =
            match facts::lock_and_read_facts(&mut connection, reads, key.as_ref(), &self.shared) {
                Ok(locked) => locked,
                Err(error) => return Err(roll_back_after(connection, error)),
            };
        let found_schema = u32::try_from(locked.schema_version).unwrap_or_default();
        if let Err(error) = migrate::require_supported_schema(place, found_schema) {
            return Err(roll_back_after(connection, PostgresError::Permanent(error)));
        }
        if ![0, locked.system_id].contains(&connection.system_id) {
            return Err(adopt_server(connection));
        }
        if let Some((fingerprint, receipt)) = locked.earlier_answer {
            roll_back(connection);
            let key = key.as_ref().expect("BUG: only a key can be remembered");
            return Ok(AttemptOutcome::Answered(
                if fingerprint == key.fingerprint {
                    Ok(CommitOutcome {
                        receipt,
                        plan: None,
                        is_repeat: true,
                    })
                } else {
                    Err(CommitError::KeyReused {
                        key: key.key.clone(),
                    })
                },
            ));
        }
        let decision = match decide(&locked.facts, locked.now) {
            Ok(decision) => decision,
            Err(refusal) => {
                roll_back(connection);
                return Ok(AttemptOutcome::Answered(Err(refusal.into())));
            }
        };
        if let Err(error) = self.inject_fault(FaultPoint::Decided) {
            return Err(roll_back_after(connection, PostgresError::Permanent(error)));
        }
        let calls = match build_write_calls(*id, key.as_ref(), reads, &locked, &decision) {
            Ok(calls) => calls,
            Err(error) => return Err(roll_back_after(connection, PostgresError::Permanent(error))),
        };
        if calls.is_empty() {
            return self.end_without_writing(connection, &locked, &decision);
        }
        if let Err(error) = connection.prepare_statements(calls.iter().map(|(sql, _)| *sql)) {
            return Err(roll_back_after(connection, error));
        }
        // The fault comes when everything else was handed over and COMMIT was not. What then really
        // left this process does not matter: without COMMIT the server undoes it.
        let mut fault = None;
        let exchange = connection.finish_transaction(calls, || {
            match self.inject_fault(FaultPoint::BeforeCommit) {
                Ok(()) => TransactionEnd::Commit,
                Err(error) => {
                    fault = Some(error);
                    TransactionEnd::Rollback
                }
            }
        });
        let committed = CommitOutcome::from_decision(&decision, &locked.facts);
        let outcome = evaluate_exchange(&connection, exchange);
        if let Some(error) = fault {
            connection.return_to_pool();
            return Err(PostgresError::Permanent(error));
        }
        match outcome {
            ExchangeOutcome::Committed => {
                connection.return_to_pool();
                match self.inject_fault(FaultPoint::AfterCommit) {
                    Ok(()) => Ok(AttemptOutcome::Written(committed)),
                    Err(error) => Ok(AttemptOutcome::InDoubt(committed, error)),
                }
            }
            ExchangeOutcome::RolledBack(PostgresError::StaleStatement(error)) => {
                Err(PostgresError::StaleStatement(error))
            }
            ExchangeOutcome::RolledBack(error) => {
                // COMMIT of a transaction that failed ends it, too. A connection that is gone is not
                // kept.
                connection.return_to_pool();
                Err(error)
            }
            ExchangeOutcome::Unknown(error) => Ok(AttemptOutcome::InDoubt(committed, error)),
        }
    }

    /// Nothing to write and nothing to remember: the answer holds once the transaction has ended.
    fn end_without_writing(
        &self,
        mut connection: PooledConnection<'_>,
        locked: &LockedFacts,
        decision: &Decision,
    ) -> Result<AttemptOutcome, PostgresError> {
        if let Err(error) = self.inject_fault(FaultPoint::BeforeCommit) {
            return Err(roll_back_after(connection, PostgresError::Permanent(error)));
        }
        connection.execute_batch("COMMIT")?;
        connection.return_to_pool();
        Ok(AttemptOutcome::Answered(Ok(CommitOutcome::from_decision(
            decision,
            &locked.facts,
        ))))
    }

    /// Does what is needed before the next attempt; or says why there is none.
    fn prepare_retry(
        &self,
        error: PostgresError,
        retry_state: &mut RetryState,
    ) -> Result<(), StoreError> {
        match error {
            PostgresError::Permanent(error) => Err(error),
            PostgresError::ConnectionLost(error) => {
                if retry_state.connection_lost {
                    return Err(error);
                }
                retry_state.connection_lost = true;
                Ok(())
            }
            PostgresError::Conflict(error) => {
                retry_state.conflicts += 1;
                if retry_state.conflicts > MAX_CONFLICT_RETRIES {
                    return Err(error);
                }
                std::thread::sleep(conflict_delay(retry_state.conflicts));
                Ok(())
            }
            PostgresError::StaleStatement(error) => {
                retry_state.stale_statements += 1;
                // Each connection learns it for itself, and each of them is closed after that.
                if retry_state.stale_statements > 100 {
                    Err(error)
                } else {
                    Ok(())
                }
            }
            PostgresError::SchemaMissing(error) => {
                retry_state.schema_setups += 1;
                if retry_state.schema_setups > 3 {
                    return Err(error);
                }
                migrate::create_if_absent(&self.shared)
            }
        }
    }

    fn inject_fault(&self, point: FaultPoint) -> Result<(), StoreError> {
        match self.shared.faults.fault_at(point) {
            StoreFault::None => Ok(()),
            StoreFault::Fail => Err(StoreError::Database {
                why: format!("fault injected: {point:?}"),
            }),
            StoreFault::Full => Err(StoreError::Full {
                place: "fault injected".to_owned(),
            }),
        }
    }
}

/// What the answers to the last exchange mean.
enum ExchangeOutcome {
    /// It is durable.
    Committed,
    /// It is undone, for this reason.
    RolledBack(PostgresError),
    /// COMMIT may have been carried out.
    Unknown(StoreError),
}

fn evaluate_exchange(
    connection: &PooledConnection<'_>,
    exchange: FinalExchange,
) -> ExchangeOutcome {
    let answers = match (exchange.answers, exchange.end) {
        (Ok(answers), _) => answers,
        (Err(error), TransactionEnd::Rollback) => return ExchangeOutcome::RolledBack(error),
        (Err(error), TransactionEnd::Commit) => {
            return ExchangeOutcome::Unknown(error.into_store_error());
        }
    };
    let commit_index = answers.len() - 1;
    for (number, answer) in answers.iter().enumerate() {
        let Err(error) = answer else { continue };
        let failure = connection.classify_error(error);
        // An error from the server at a statement means that it did not get as far as COMMIT. At
        // COMMIT itself it means that it was undone, unless the server ended the connection with it:
        // then it may have come after the deed.
        let is_rolled_back = match error.as_db_error() {
            Some(error) => number < commit_index || !is_fatal(error),
            None => exchange.end == TransactionEnd::Rollback,
        };
        return if is_rolled_back {
            ExchangeOutcome::RolledBack(failure)
        } else {
            ExchangeOutcome::Unknown(failure.into_store_error())
        };
    }
    match exchange.end {
        TransactionEnd::Commit => ExchangeOutcome::Committed,
        TransactionEnd::Rollback => {
            ExchangeOutcome::RolledBack(PostgresError::Permanent(StoreError::Database {
                why: "a statement could not be sent".to_owned(),
            }))
        }
    }
}

/// Ends the transaction, changing nothing. If that cannot be done the connection is closed, which
/// comes to the same.
fn roll_back(mut connection: PooledConnection<'_>) {
    if connection.execute_batch("ROLLBACK").is_ok() {
        connection.return_to_pool();
    }
}

fn roll_back_after(connection: PooledConnection<'_>, error: PostgresError) -> PostgresError {
    match error {
        // Not worth keeping, or not there any more.
        PostgresError::StaleStatement(_) | PostgresError::ConnectionLost(_) => drop(connection),
        PostgresError::Conflict(_)
        | PostgresError::SchemaMissing(_)
        | PostgresError::Permanent(_) => roll_back(connection),
    }
    error
}

/// The store was copied to this server from another one, whose transactions were counted
/// differently: counts on from there, and decides again. See `tail.rs`.
fn adopt_server(mut connection: PooledConnection<'_>) -> PostgresError {
    let system = connection.system_id;
    // Every writer reads this table and holds it to its end. Locked, nobody is under way with the old
    // base.
    const LOCK_SCHEMA_VERSION: &str =
        "ROLLBACK; BEGIN; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE";
    let adopted = connection
        .execute_batch(LOCK_SCHEMA_VERSION)
        .and_then(|()| connection.query_all(None, vec![(ADOPT, values![system])], Some("COMMIT")));
    match adopted {
        Ok(_) => {
            connection.return_to_pool();
            PostgresError::Conflict(StoreError::Database {
                why: "the store was moved to another server".to_owned(),
            })
        }
        Err(error) => roll_back_after(connection, error),
    }
}

/// Longer with every collision, and never the same for two who collided.
fn conflict_delay(collisions: u32) -> Duration {
    let max_micros = 500 << collisions.min(7);
    let random = RandomState::new().build_hasher().finish();
    Duration::from_micros(random % max_micros)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use testkit::PostgresDatabase;

    use super::super::statements::INSERT_ACTION;
    use super::*;
    use crate::{PostgresOptions, StoreMaintenance};

    /// A statement whose values cannot be encoded is never sent. What was sent before it must not
    /// be committed without it.
    #[test]
    fn a_statement_that_cannot_be_sent_takes_the_others_with_it() {
        let database = PostgresDatabase::new();
        let store = PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
        store.migrate_schema().unwrap();
        let mut connection = store.shared.pool.acquire_connection().unwrap();
        connection.prepare_statements([INSERT_ACTION]).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        // The second column is a text.
        let calls = vec![
            (INSERT_ACTION, values!["sent", "{}"]),
            (INSERT_ACTION, values!["not sent", 1_i64]),
        ];
        let exchange = connection.finish_transaction(calls, || TransactionEnd::Commit);
        let outcome = evaluate_exchange(&connection, exchange);
        let written = database.run_sql("SELECT count(*) FROM planwright.actions");
        assert_eq!(written, ["0"]);
        assert!(matches!(
            outcome,
            ExchangeOutcome::RolledBack(PostgresError::Permanent(StoreError::Database { .. }))
        ));
        // It is in no transaction any more: somebody else may have it.
        connection.execute_batch("BEGIN; COMMIT").unwrap();
        connection.return_to_pool();
    }
}
