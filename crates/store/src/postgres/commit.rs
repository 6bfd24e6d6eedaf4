//! The write path: one transaction, retried when it conflicts with others.
//!
//! Server errors and their handling:
//!
//! - Conflict (deadlock, serialization failure, a row that another transaction created): the
//!   transaction was rolled back. It is retried and decided on the new rows, so an unrelated commit
//!   never causes a refusal.
//! - Connection lost before COMMIT was sent: nothing was written. Retried once on another
//!   connection, because every server restart kills the pooled connections.
//! - Connection lost after COMMIT was sent: the outcome is unknown and is resolved (`in_doubt.rs`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use plan::Decision;

use super::connection::{FinalExchange, TransactionEnd};
use super::error::{PostgresError, is_fatal};
use super::facts::{self, LockedFacts};
use super::in_doubt::{PostgresCommitStatus, resolve_in_doubt_commit};
use super::pipeline::values;
use super::pool::PooledConnection;
use super::statements::ADOPT_SERVER;
use super::writes::build_write_calls;
use super::{PostgresStore, migrate};
use crate::commit::decide_with_completions;
use crate::fault::{FaultPoint, StoreFault};
use crate::{CommitError, CommitOutcome, StoreError, StoreWriter, Submission};

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

/// The outcome of an attempt that is not retried.
enum AttemptOutcome {
    Written(CommitOutcome),
    /// Nothing was written; the answer is final.
    Answered(Result<CommitOutcome, CommitError>),
    /// COMMIT was sent, but no response arrived.
    InDoubt(CommitOutcome, StoreError),
}

/// Counts the failures of earlier attempts.
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
        let mut locked =
            match facts::lock_and_read_facts(&mut connection, reads, key.as_ref(), &self.shared) {
                Ok(locked) => locked,
                Err(error) => return Err(roll_back_after(connection, error)),
            };
        let found_schema = u32::try_from(locked.schema_version).unwrap_or_default();
        if let Err(error) = migrate::require_supported_schema(place, found_schema) {
            return Err(roll_back_after(connection, PostgresError::Permanent(error)));
        }
        // 0 means that this role may not read the server's identity.
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
        let decided =
            decide_with_completions(decide, &mut locked.facts, locked.now, |plan_id, verb| {
                facts::read_completion(&mut connection, plan_id, verb, place)
            });
        let decision = match decided {
            Err(error) => return Err(roll_back_after(connection, error)),
            Ok(Ok(decision)) => decision,
            Ok(Err(refusal)) => {
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
        // The fault occurs after all statements and before COMMIT. How much of it reached the
        // server does not matter: without COMMIT the server rolls back.
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
                // COMMIT also ends a failed transaction, so the connection is clean. A lost one is
                // dropped by the pool.
                connection.return_to_pool();
                Err(error)
            }
            ExchangeOutcome::Unknown(error) => Ok(AttemptOutcome::InDoubt(committed, error)),
        }
    }

    /// Ends a transaction that writes nothing. The answer is final once it has ended.
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

    /// Prepares the next attempt, or returns the error if the retries are used up.
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
                // Every pooled connection can be stale; each is closed after it fails once.
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

/// The outcome of the last exchange of a transaction.
enum ExchangeOutcome {
    Committed,
    RolledBack(PostgresError),
    /// COMMIT may have been executed.
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
        // An error at a statement means that the server did not reach COMMIT. An error at COMMIT
        // means a rollback, unless it is fatal: then the server may have committed before it closed
        // the connection.
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

/// Rolls back. If that fails, the connection is closed, which also rolls back.
fn roll_back(mut connection: PooledConnection<'_>) {
    if connection.execute_batch("ROLLBACK").is_ok() {
        connection.return_to_pool();
    }
}

fn roll_back_after(connection: PooledConnection<'_>, error: PostgresError) -> PostgresError {
    match error {
        // A stale connection is not worth keeping; a lost one is gone.
        PostgresError::StaleStatement(_) | PostgresError::ConnectionLost(_) => drop(connection),
        PostgresError::Conflict(_)
        | PostgresError::SchemaMissing(_)
        | PostgresError::Permanent(_) => roll_back(connection),
    }
    error
}

/// Adopts a store that was moved here from another server, whose transaction ids differ: rebases
/// the ids and returns a conflict, so that the command is decided again. See `tail.rs`.
fn adopt_server(mut connection: PooledConnection<'_>) -> PostgresError {
    let system = connection.system_id;
    // Every writer holds a lock on this table until it ends. This lock therefore waits for all
    // writers that use the old base.
    const LOCK_SCHEMA_VERSION: &str =
        "ROLLBACK; BEGIN; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE";
    let adopted = connection
        .execute_batch(LOCK_SCHEMA_VERSION)
        .and_then(|()| {
            connection.query_all(None, vec![(ADOPT_SERVER, values![system])], Some("COMMIT"))
        });
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

/// Returns a random delay that grows with every conflict, so that two transactions do not collide
/// again.
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

    /// A statement whose values cannot be encoded is never sent. Statements sent before it must not
    /// be committed without it.
    #[test]
    fn a_statement_that_cannot_be_sent_aborts_the_transaction() {
        let database = PostgresDatabase::new();
        let store = PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
        store.migrate_schema().unwrap();
        let mut connection = store.shared.pool.acquire_connection().unwrap();
        connection.prepare_statements([INSERT_ACTION]).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        // The second column is a text, so the integer cannot be encoded.
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
        // The connection is not in a transaction and can be reused.
        connection.execute_batch("BEGIN; COMMIT").unwrap();
        connection.return_to_pool();
    }
}
