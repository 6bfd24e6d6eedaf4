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

use super::connection::{Conclusion, Last};
use super::facts::{self, Held};
use super::pipeline::values;
use super::pool::Lent;
use super::settle::{Settled, settle};
use super::statements::ADOPT;
use super::trouble::{Trouble, is_fatal};
use super::writes::writes;
use super::{PostgresStore, migrate};
use crate::fault::{Fault, FaultPoint};
use crate::{Commit, CommitError, Committed, StoreError, Submission};

/// How often a transaction is run again because somebody was faster.
const MOST_COLLISIONS: u32 = 20;

impl Commit for PostgresStore {
    fn commit(&self, mut submission: Submission) -> Result<Committed, CommitError> {
        let mut attempts = Attempts::default();
        loop {
            let connection = if attempts.lost {
                self.shared.pool.lend_after_loss()?
            } else {
                self.shared.pool.lend()?
            };
            match self.attempt(connection, &mut submission) {
                Ok(Ending::Written(committed)) => {
                    self.announcer.committed();
                    return Ok(committed);
                }
                Ok(Ending::Answered(answer)) => return answer,
                Ok(Ending::Unanswered(committed, error)) => {
                    return match settle(&self.shared, submission.id) {
                        Settled::Committed => {
                            self.announcer.committed();
                            Ok(committed)
                        }
                        Settled::NeverHappened => Err(CommitError::Failed(error)),
                        Settled::Unknown(source) => Err(CommitError::Unknown {
                            id: submission.id,
                            source,
                        }),
                    };
                }
                Err(trouble) => self.overcome(trouble, &mut attempts)?,
            }
        }
    }
}

/// How an attempt ended, if it need not be repeated.
enum Ending {
    /// Something was committed.
    Written(Committed),
    /// Nothing was, and this is the answer.
    Answered(Result<Committed, CommitError>),
    /// COMMIT was sent and not answered.
    Unanswered(Committed, StoreError),
}

/// What was tried before.
#[derive(Default)]
struct Attempts {
    collisions: u32,
    lost: bool,
    outdated: u32,
    set_up: u32,
}

impl PostgresStore {
    fn attempt(
        &self,
        mut connection: Lent<'_>,
        submission: &mut Submission,
    ) -> Result<Ending, Trouble> {
        let Submission {
            id,
            key,
            reads,
            decide,
        } = submission;
        let place = self.shared.place();
        let held = match facts::read(&mut connection, reads, key.as_ref(), &self.shared) {
            Ok(held) => held,
            Err(trouble) => return Err(undo_after(connection, trouble)),
        };
        let known = u32::try_from(held.schema).unwrap_or_default();
        if let Err(error) = migrate::require_current(place, known) {
            return Err(undo_after(connection, Trouble::Final(error)));
        }
        if ![0, held.system].contains(&connection.system) {
            return Err(adopt(connection));
        }
        if let Some((fingerprint, receipt)) = held.remembered {
            undo(connection);
            let key = key.as_ref().expect("BUG: only a key can be remembered");
            return Ok(Ending::Answered(if fingerprint == key.fingerprint {
                Ok(Committed {
                    receipt,
                    plan: None,
                    remembered: true,
                })
            } else {
                Err(CommitError::KeyReused {
                    key: key.key.clone(),
                })
            }));
        }
        let decision = match decide(&held.facts, held.now) {
            Ok(decision) => decision,
            Err(refusal) => {
                undo(connection);
                return Ok(Ending::Answered(Err(refusal.into())));
            }
        };
        if let Err(error) = self.fail_at(FaultPoint::Decided) {
            return Err(undo_after(connection, Trouble::Final(error)));
        }
        let calls = match writes(*id, key.as_ref(), reads, &held, &decision) {
            Ok(calls) => calls,
            Err(error) => return Err(undo_after(connection, Trouble::Final(error))),
        };
        if calls.is_empty() {
            return self.end_without_writing(connection, &held, &decision);
        }
        if let Err(trouble) = connection.prepare(calls.iter().map(|(sql, _)| *sql)) {
            return Err(undo_after(connection, trouble));
        }
        // The fault comes when everything else was handed over and COMMIT was not. What then really
        // left this process does not matter: without COMMIT the server undoes it.
        let mut fault = None;
        let conclusion =
            connection.conclude(calls, || match self.fail_at(FaultPoint::BeforeCommit) {
                Ok(()) => Last::Commit,
                Err(error) => {
                    fault = Some(error);
                    Last::Rollback
                }
            });
        let committed = Committed::of(&decision, &held.facts);
        let ending = judge(&connection, conclusion);
        if let Some(error) = fault {
            connection.put_back();
            return Err(Trouble::Final(error));
        }
        match ending {
            Verdict::Committed => {
                connection.put_back();
                match self.fail_at(FaultPoint::AfterCommit) {
                    Ok(()) => Ok(Ending::Written(committed)),
                    Err(error) => Ok(Ending::Unanswered(committed, error)),
                }
            }
            Verdict::Undone(Trouble::Outdated(error)) => Err(Trouble::Outdated(error)),
            Verdict::Undone(trouble) => {
                // COMMIT of a transaction that failed ends it, too. A connection that is gone is not
                // kept.
                connection.put_back();
                Err(trouble)
            }
            Verdict::Unknown(error) => Ok(Ending::Unanswered(committed, error)),
        }
    }

    /// Nothing to write and nothing to remember: the answer holds once the transaction has ended.
    fn end_without_writing(
        &self,
        mut connection: Lent<'_>,
        held: &Held,
        decision: &Decision,
    ) -> Result<Ending, Trouble> {
        if let Err(error) = self.fail_at(FaultPoint::BeforeCommit) {
            return Err(undo_after(connection, Trouble::Final(error)));
        }
        connection.batch("COMMIT")?;
        connection.put_back();
        Ok(Ending::Answered(Ok(Committed::of(decision, &held.facts))))
    }

    /// Does what is needed before the next attempt; or says why there is none.
    fn overcome(&self, trouble: Trouble, attempts: &mut Attempts) -> Result<(), StoreError> {
        match trouble {
            Trouble::Final(error) => Err(error),
            Trouble::Lost(error) => {
                if attempts.lost {
                    return Err(error);
                }
                attempts.lost = true;
                Ok(())
            }
            Trouble::Collision(error) => {
                attempts.collisions += 1;
                if attempts.collisions > MOST_COLLISIONS {
                    return Err(error);
                }
                std::thread::sleep(pause(attempts.collisions));
                Ok(())
            }
            Trouble::Outdated(error) => {
                attempts.outdated += 1;
                // Each connection learns it for itself, and each of them is closed after that.
                if attempts.outdated > 100 {
                    Err(error)
                } else {
                    Ok(())
                }
            }
            Trouble::Schema(error) => {
                attempts.set_up += 1;
                if attempts.set_up > 3 {
                    return Err(error);
                }
                migrate::set_up(&self.shared)
            }
        }
    }

    fn fail_at(&self, point: FaultPoint) -> Result<(), StoreError> {
        match self.shared.faults.at(point) {
            Fault::None => Ok(()),
            Fault::Fail => Err(StoreError::Database {
                why: format!("fault injected: {point:?}"),
            }),
            Fault::Full => Err(StoreError::Full {
                place: "fault injected".to_owned(),
            }),
        }
    }
}

/// What the answers to the last exchange mean.
enum Verdict {
    /// It is durable.
    Committed,
    /// It is undone, for this reason.
    Undone(Trouble),
    /// COMMIT may have been carried out.
    Unknown(StoreError),
}

fn judge(connection: &Lent<'_>, conclusion: Conclusion) -> Verdict {
    let answers = match (conclusion.answers, conclusion.last) {
        (Ok(answers), _) => answers,
        (Err(trouble), Last::Rollback) => return Verdict::Undone(trouble),
        (Err(trouble), Last::Commit) => return Verdict::Unknown(trouble.into_error()),
    };
    let commit = answers.len() - 1;
    for (number, answer) in answers.iter().enumerate() {
        let Err(error) = answer else { continue };
        let trouble = connection.trouble(error);
        // An error from the server at a statement means that it did not get as far as COMMIT. At
        // COMMIT itself it means that it was undone, unless the server ended the connection with it:
        // then it may have come after the deed.
        let undone = match error.as_db_error() {
            Some(error) => number < commit || !is_fatal(error),
            None => conclusion.last == Last::Rollback,
        };
        return if undone {
            Verdict::Undone(trouble)
        } else {
            Verdict::Unknown(trouble.into_error())
        };
    }
    match conclusion.last {
        Last::Commit => Verdict::Committed,
        Last::Rollback => Verdict::Undone(Trouble::Final(StoreError::Database {
            why: "a statement could not be sent".to_owned(),
        })),
    }
}

/// Ends the transaction, changing nothing. If that cannot be done the connection is closed, which
/// comes to the same.
fn undo(mut connection: Lent<'_>) {
    if connection.batch("ROLLBACK").is_ok() {
        connection.put_back();
    }
}

fn undo_after(connection: Lent<'_>, trouble: Trouble) -> Trouble {
    match trouble {
        // Not worth keeping, or not there any more.
        Trouble::Outdated(_) | Trouble::Lost(_) => drop(connection),
        Trouble::Collision(_) | Trouble::Schema(_) | Trouble::Final(_) => undo(connection),
    }
    trouble
}

/// The store was copied to this server from another one, whose transactions were counted
/// differently: counts on from there, and decides again. See `tail.rs`.
fn adopt(mut connection: Lent<'_>) -> Trouble {
    let system = connection.system;
    // Every writer reads this table and holds it to its end. Locked, nobody is under way with the old
    // base.
    const LOCK: &str = "ROLLBACK; BEGIN; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE";
    let adopted = connection
        .batch(LOCK)
        .and_then(|()| connection.rows(None, vec![(ADOPT, values![system])], Some("COMMIT")));
    match adopted {
        Ok(_) => {
            connection.put_back();
            Trouble::Collision(StoreError::Database {
                why: "the store was moved to another server".to_owned(),
            })
        }
        Err(trouble) => undo_after(connection, trouble),
    }
}

/// Longer with every collision, and never the same for two who collided.
fn pause(collisions: u32) -> Duration {
    let most = 500 << collisions.min(7);
    let random = RandomState::new().build_hasher().finish();
    Duration::from_micros(random % most)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use testkit::PostgresDatabase;

    use super::super::statements::INSERT_ACTION;
    use super::*;
    use crate::{Maintain, PostgresOptions};

    /// A statement whose values cannot be encoded is never sent. What was sent before it must not
    /// be committed without it.
    #[test]
    fn a_statement_that_cannot_be_sent_takes_the_others_with_it() {
        let database = PostgresDatabase::new();
        let store = PostgresStore::new(&database.url(), PostgresOptions::default()).unwrap();
        store.migrate().unwrap();
        let mut connection = store.shared.pool.lend().unwrap();
        connection.prepare([INSERT_ACTION]).unwrap();
        connection.batch("BEGIN").unwrap();
        // The second column is a text.
        let calls = vec![
            (INSERT_ACTION, values!["sent", "{}"]),
            (INSERT_ACTION, values!["not sent", 1_i64]),
        ];
        let conclusion = connection.conclude(calls, || Last::Commit);
        let verdict = judge(&connection, conclusion);
        let written = database.sql("SELECT count(*) FROM planwright.actions");
        assert_eq!(written, ["0"]);
        assert!(matches!(
            verdict,
            Verdict::Undone(Trouble::Final(StoreError::Database { .. }))
        ));
        // It is in no transaction any more: somebody else may have it.
        connection.batch("BEGIN; COMMIT").unwrap();
        connection.put_back();
    }
}
