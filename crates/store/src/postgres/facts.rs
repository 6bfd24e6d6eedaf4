//! Reading what a decision is made on, and holding it: all row locks of a commit are taken here, in
//! one order (see `mod.rs`), and what the locks do not cover is read behind them.

use std::collections::BTreeSet;

use plan::{Digest, Facts, Receipt, Timestamp};

use super::Shared;
use super::connection::{Call, Connection};
use super::pipeline::values;
use super::rows::{Columns, entry, rule_book};
use super::statements::{
    FACTS, LOCK_ACTION_EXCLUSIVE, LOCK_ACTION_SHARED, LOCK_ENTRIES, LOCK_ENTRIES_AT,
    LOCK_PLAN_EXCLUSIVE, LOCK_PLAN_SHARED, LOCK_SCOPE_EXCLUSIVE, LOCK_SCOPES_SHARED, TAKE_TURNS,
};
use super::trouble::{Trouble, corrupt};
use crate::{Access, ChangesetReads, Key, Reads, StoreError};

/// What was read and is held.
pub(super) struct Held {
    /// The rows.
    pub facts: Facts,
    /// The hash of the plan's last event.
    pub head: Option<Digest>,
    /// The server's clock.
    pub now: Timestamp,
    /// The answer committed under the key, with the digest of its arguments.
    pub remembered: Option<(Digest, Receipt)>,
    /// The schema of the database.
    pub schema: i32,
    /// The server that last wrote to it.
    pub system: i64,
    /// What its transactions are counted from.
    pub xid_base: i64,
}

/// Begins a transaction and reads in it, in one round trip.
pub(super) fn read(
    connection: &mut Connection,
    reads: &Reads,
    key: Option<&Key>,
    Shared { pool, .. }: &Shared,
) -> Result<Held, Trouble> {
    let (schema, place) = (
        pool.dial().schema.as_str(),
        pool.dial().address.place.as_str(),
    );
    let mut calls: Vec<Call<'_>> = Vec::with_capacity(8);
    take_turns(schema, reads, &mut calls);
    let plan = reads.plan.as_ref().map(|(id, access)| {
        let sql = match access {
            Access::Exclusive => LOCK_PLAN_EXCLUSIVE,
            Access::Shared => LOCK_PLAN_SHARED,
        };
        calls.push((sql, values![id.to_string()]));
        calls.len()
    });
    let action = reads.action.as_ref().map(|(name, access)| {
        let sql = match access {
            Access::Exclusive => LOCK_ACTION_EXCLUSIVE,
            Access::Shared => LOCK_ACTION_SHARED,
        };
        calls.push((sql, values![name.full()]));
        calls.len()
    });
    let first_scope = calls.len() + 1;
    lock_scopes(reads, &mut calls);
    let scopes = first_scope..calls.len() + 1;
    let entries = lock_entries(reads, &mut calls);
    let scopes_wanted: Vec<String> = reads
        .rules
        .iter()
        .map(|(scope, _)| scope.to_string())
        .collect();
    let plan_id = reads.plan.as_ref().map(|(id, _)| id.to_string());
    calls.push((
        FACTS,
        values![
            plan_id.clone(),
            key.map(|key| key.scope.as_str()),
            key.map(|key| key.key.as_str()),
            scopes_wanted,
            plan_id.filter(|_| entries.is_some()),
        ],
    ));
    // Answer 0 is the one to BEGIN.
    let last = calls.len();
    let answers = connection.rows(Some("BEGIN"), calls, None)?;
    let columns = |answer: usize| answers[answer].iter().map(|row| Columns::of(row, place));
    let decode = || -> Result<Held, StoreError> {
        let mut facts = Facts::default();
        let mut head = None;
        if let Some(row) = plan.and_then(|answer| columns(answer).next()) {
            head = Some(row.digest(0)?);
            facts.plan = Some(row.json(1)?);
        }
        if let Some(row) = action.and_then(|answer| columns(answer).next()) {
            facts.action = Some(row.json(0)?);
        }
        if let Some(entries) = entries {
            facts.entries = columns(entries).map(entry).collect::<Result<_, _>>()?;
        }
        let Some(row) = columns(last).next() else {
            return Err(corrupt(place, "the table of the schema's version is empty"));
        };
        if let Some((id, _)) = &reads.plan {
            facts.lease = row.lease(4, *id)?;
        }
        facts.rules = rule_book(scopes.clone().flat_map(columns), row.jsons(9)?)?;
        facts.changesets = row.jsons(10)?;
        let remembered = match row.optional_digest(7)? {
            Some(fingerprint) => Some((fingerprint, row.json(8)?)),
            None => None,
        };
        Ok(Held {
            facts,
            head,
            now: row.moment(3)?,
            remembered,
            schema: row.get(0)?,
            system: row.get(1)?,
            xid_base: row.get(2)?,
        })
    };
    decode().map_err(Trouble::Final)
}

/// Takes the turns at the rows that are about to be locked, in the order of the locks.
///
/// Who changes a plan gets its transaction's number in its turn: that keeps the plan's events in
/// order (see `tail.rs`). The row's lock alone would not: who waits for it may have got a number
/// before the one in front. Nor is it a queue: those who share a row join the ones that hold it past
/// anybody who waits to change it, and as long as they keep coming, it waits.
fn take_turns(schema: &str, reads: &Reads, calls: &mut Vec<Call<'_>>) {
    let plan = reads
        .plan
        .iter()
        .map(|(id, access)| (id.to_string(), *access));
    let action = reads.action.iter();
    let action = action.map(|(name, access)| (format!("action {}", name.full()), *access));
    let scopes = sorted_scopes(reads).into_iter();
    let scopes = scopes.map(|(scope, access)| (format!("rules {scope}"), access));
    let (turns, alone): (Vec<i64>, Vec<bool>) = plan
        .chain(action)
        .chain(scopes)
        .map(|(what, access)| (turn(schema, &what), access == Access::Exclusive))
        .unzip();
    if !turns.is_empty() {
        calls.push((TAKE_TURNS, values![turns, alone]));
    }
}

/// The number under which turns at something of a schema are taken. Turns are the database's, so the
/// schema is in it. Two things with one number would only wait for each other without need.
pub(super) fn turn(schema: &str, what: &str) -> i64 {
    let digest = Digest::of_parts([schema.as_bytes(), what.as_bytes()]);
    let first = digest.as_bytes().first_chunk::<8>();
    i64::from_be_bytes(*first.expect("BUG: a digest has 32 bytes"))
}

/// Locks the scopes in the order of their texts, as the server sorts them. Those that are shared can
/// be taken together as long as no other comes between.
fn lock_scopes(reads: &Reads, calls: &mut Vec<Call<'_>>) {
    let mut shared: Vec<String> = Vec::new();
    for (scope, access) in sorted_scopes(reads) {
        match access {
            Access::Shared => shared.push(scope),
            Access::Exclusive => {
                if !shared.is_empty() {
                    calls.push((LOCK_SCOPES_SHARED, values![std::mem::take(&mut shared)]));
                }
                calls.push((LOCK_SCOPE_EXCLUSIVE, values![scope]));
            }
        }
    }
    if !shared.is_empty() {
        calls.push((LOCK_SCOPES_SHARED, values![shared]));
    }
}

/// The scopes in the order of their texts. Of one that is asked for twice the stronger wish holds.
fn sorted_scopes(reads: &Reads) -> Vec<(String, Access)> {
    let mut sorted: Vec<(String, Access)> = reads
        .rules
        .iter()
        .map(|(scope, access)| (scope.to_string(), *access))
        .collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    sorted.dedup_by(|later, earlier| later.0 == earlier.0);
    sorted
}

/// Locks entries of open changesets; the number of the answer.
fn lock_entries(reads: &Reads, calls: &mut Vec<Call<'_>>) -> Option<usize> {
    let (plan, _) = reads.plan.as_ref()?;
    calls.push(match &reads.changesets {
        ChangesetReads::None => return None,
        ChangesetReads::All => (LOCK_ENTRIES, values![plan.to_string()]),
        ChangesetReads::EntriesAt(paths) => {
            let digests: BTreeSet<Digest> = paths
                .iter()
                .map(|path| Digest::of(path.as_bytes()))
                .collect();
            let digests: Vec<Vec<u8>> = digests
                .iter()
                .map(|digest| digest.as_bytes().to_vec())
                .collect();
            (LOCK_ENTRIES_AT, values![plan.to_string(), digests])
        }
    });
    Some(calls.len())
}
