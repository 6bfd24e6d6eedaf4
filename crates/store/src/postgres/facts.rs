//! Reading what a decision is made on, and holding it: all row locks of a commit are taken here, in
//! one order (see `mod.rs`), and what the locks do not cover is read behind them.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::{Digest, Facts, Project, Receipt, Timestamp};

use super::Shared;
use super::connection::{Call, Connection};
use super::pipeline::values;
use super::rows::{self, Columns, entry, number, rule_book};
use super::statements::{
    FACTS, LIVE_PLANS, LOCK_ACCOUNTS, LOCK_ACTION_EXCLUSIVE, LOCK_ACTION_SHARED, LOCK_ENTRIES,
    LOCK_ENTRIES_AT, LOCK_PLAN_EXCLUSIVE, LOCK_PLAN_SHARED, LOCK_PROJECTS_EXCLUSIVE,
    LOCK_PROJECTS_OF_PLAN, LOCK_PROJECTS_SHARED, LOCK_SCOPE_EXCLUSIVE, LOCK_SCOPES_SHARED,
    RESERVATIONS, TAKE_PROJECT_TURNS, TAKE_TURNS, TAKE_TURNS_OF_PLAN,
};
use super::trouble::{Trouble, corrupt};
use crate::commit::LIVE_PLANS_NAMED;
use crate::{Access, ChangesetReads, Key, LedgerReads, ProjectReads, Reads, StoreError};

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
    let projects = lock_projects(reads, &mut calls);
    let entries = lock_entries(reads, &mut calls);
    let ledger = lock_ledger(reads, &mut calls);
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
    let live_plans = read_live_plans(reads, &mut calls);
    let answers = connection.rows(Some("BEGIN"), calls, None)?;
    let columns = |answer: usize| answers[answer].iter().map(|row| Columns::of(row, place));
    let decode = || -> Result<Held, StoreError> {
        let mut facts = Facts::default();
        let mut head = None;
        if let Some(row) = plan.and_then(|answer| columns(answer).next()) {
            head = Some(row.digest(0)?);
            facts.plan = Some(Arc::new(row.json(1)?));
        }
        if let Some(row) = action.and_then(|answer| columns(answer).next()) {
            facts.action = Some(row.json(0)?);
        }
        for row in projects.clone().flat_map(columns) {
            facts.projects.push(row.json(0)?);
        }
        facts
            .projects
            .sort_by(|one: &Project, other| one.name.cmp(&other.name));
        for row in live_plans.clone().flat_map(columns) {
            facts.live_plans.count += row.count(0)?;
            facts.live_plans.newest.extend(row.ids(1)?);
        }
        if let Some(entries) = entries {
            facts.entries = columns(entries).map(entry).collect::<Result<_, _>>()?;
        }
        if let Some(first) = ledger {
            facts.ledger = rows::ledger(columns(first), columns(first + 1))?;
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
    let ledger = match reads.ledger {
        LedgerReads::None => None,
        LedgerReads::OfPlan => Some(("ledger".to_owned(), Access::Exclusive)),
    };
    let (turns, alone): (Vec<i64>, Vec<bool>) = plan
        .chain(action)
        .chain(scopes)
        .chain(ledger)
        .map(|(what, access)| (turn(schema, &what), access == Access::Exclusive))
        .unzip();
    if !turns.is_empty() {
        calls.push((TAKE_TURNS, values![turns, alone]));
    }
    match &reads.projects {
        ProjectReads::None => {}
        ProjectReads::Named(_) => {
            let (names, alone): (Vec<String>, Vec<bool>) = sorted_projects(reads)
                .into_iter()
                .map(|(name, access)| (name, access == Access::Exclusive))
                .unzip();
            if !names.is_empty() {
                let schema = schema.to_owned();
                calls.push((TAKE_PROJECT_TURNS, values![schema, names, alone]));
            }
        }
        ProjectReads::OfPlan => {
            let plan = reads.plan.as_ref().map(|(id, _)| id.to_string());
            calls.push((TAKE_TURNS_OF_PLAN, values![schema.to_owned(), plan]));
        }
    }
}

/// Locks the projects, by name; the numbers of the answers. No command changes one project and
/// relies on another, so that those to be changed may come first.
fn lock_projects(reads: &Reads, calls: &mut Vec<Call<'_>>) -> std::ops::Range<usize> {
    let first = calls.len() + 1;
    match &reads.projects {
        ProjectReads::None => {}
        ProjectReads::Named(_) => {
            for (access, sql) in [
                (Access::Exclusive, LOCK_PROJECTS_EXCLUSIVE),
                (Access::Shared, LOCK_PROJECTS_SHARED),
            ] {
                let names: Vec<String> = sorted_projects(reads)
                    .into_iter()
                    .filter(|(_, wanted)| *wanted == access)
                    .map(|(name, _)| name)
                    .collect();
                if !names.is_empty() {
                    calls.push((sql, values![names]));
                }
            }
        }
        ProjectReads::OfPlan => {
            let plan = reads.plan.as_ref().map(|(id, _)| id.to_string());
            calls.push((LOCK_PROJECTS_OF_PLAN, values![plan]));
        }
    }
    first..calls.len() + 1
}

/// Reads who uses the projects that may be changed; the numbers of the answers.
fn read_live_plans(reads: &Reads, calls: &mut Vec<Call<'_>>) -> std::ops::Range<usize> {
    let first = calls.len() + 1;
    for (name, access) in sorted_projects(reads) {
        if access == Access::Exclusive {
            let most = number(LIVE_PLANS_NAMED as u64);
            calls.push((LIVE_PLANS, values![name, most]));
        }
    }
    first..calls.len() + 1
}

/// The named projects in the order of their names. Of one that is asked for twice the stronger wish
/// holds.
fn sorted_projects(reads: &Reads) -> Vec<(String, Access)> {
    let ProjectReads::Named(named) = &reads.projects else {
        return Vec::new();
    };
    let named = named
        .iter()
        .map(|(name, access)| (name.full().to_owned(), *access));
    sorted(named.collect())
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
    let scopes = reads.rules.iter();
    sorted(
        scopes
            .map(|(scope, access)| (scope.to_string(), *access))
            .collect(),
    )
}

fn sorted(mut wanted: Vec<(String, Access)>) -> Vec<(String, Access)> {
    wanted.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    wanted.dedup_by(|later, earlier| later.0 == earlier.0);
    wanted
}

/// Locks the accounts and reads what is set aside; the number of the first of the two answers.
fn lock_ledger(reads: &Reads, calls: &mut Vec<Call<'_>>) -> Option<usize> {
    let (plan, _) = match reads.ledger {
        LedgerReads::None => return None,
        LedgerReads::OfPlan => reads.plan.as_ref()?,
    };
    calls.push((LOCK_ACCOUNTS, values![rows::account_names(*plan)]));
    let first = calls.len();
    calls.push((RESERVATIONS, values![plan.to_string()]));
    Some(first)
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
