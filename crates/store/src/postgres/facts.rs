//! Reads and locks the rows a decision needs. All row locks of a commit are taken here in a fixed
//! order (see `mod.rs`). Rows that these locks cover are read after them.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::completion::CompletedCommand;
use plan::{CommandReceipt, DecisionFacts, Digest, PlanId, Project, Timestamp, Verb};

use super::PostgresShared;
use super::connection::{PostgresConnection, StatementCall};
use super::error::{PostgresError, corrupt_error};
use super::pipeline::values;
use super::rows::{self, RowColumns, build_rule_book, decode_entry, to_sql_integer};
use super::statements::{
    ADVISORY_LOCK_PROJECTS, ADVISORY_LOCK_PROJECTS_OF_PLAN, ADVISORY_LOCKS, COMPLETION_EVENTS,
    FACTS, LIVE_PLANS, LOCK_ACCOUNTS, LOCK_ACTION_EXCLUSIVE, LOCK_ACTION_SHARED, LOCK_ENTRIES,
    LOCK_ENTRIES_AT, LOCK_PLAN_EXCLUSIVE, LOCK_PLAN_SHARED, LOCK_PROJECTS_EXCLUSIVE,
    LOCK_PROJECTS_OF_PLAN, LOCK_PROJECTS_SHARED, LOCK_SCOPE_EXCLUSIVE, LOCK_SCOPES_SHARED,
    RESERVATIONS, REVIEWS,
};
use crate::commit::{COMPLETION_PAGE_SIZE, MAX_LIVE_PLANS_NAMED, find_completion};
use crate::event_codec::decode_event;
use crate::{
    ChangesetReads, IdempotencyKey, LedgerReads, ProjectReads, ReadSet, ReviewReads, RowAccess,
    StoreError,
};

pub(super) struct LockedFacts {
    pub facts: DecisionFacts,
    /// The hash of the plan's last event.
    pub head: Option<Digest>,
    /// The server's clock after all locks were taken.
    pub now: Timestamp,
    /// The receipt committed under the key, with the digest of its arguments.
    pub earlier_answer: Option<(Digest, CommandReceipt)>,
    pub schema_version: i32,
    /// The identity of the server that last wrote to the store.
    pub system_id: i64,
    /// The offset added to transaction ids (see `tail.rs`).
    pub xid_base: i64,
}

/// Begins a transaction, takes all locks and reads all rows, in one round trip.
pub(super) fn lock_and_read_facts(
    connection: &mut PostgresConnection,
    reads: &ReadSet,
    key: Option<&IdempotencyKey>,
    PostgresShared { pool, .. }: &PostgresShared,
) -> Result<LockedFacts, PostgresError> {
    let (schema, place) = (
        pool.connection_config().schema.as_str(),
        pool.connection_config().address.place.as_str(),
    );
    let mut calls: Vec<StatementCall<'_>> = Vec::with_capacity(8);
    take_advisory_locks(schema, reads, &mut calls);
    let plan = reads.plan.as_ref().map(|(id, access)| {
        let sql = match access {
            RowAccess::Exclusive => LOCK_PLAN_EXCLUSIVE,
            RowAccess::Shared => LOCK_PLAN_SHARED,
        };
        calls.push((sql, values![id.to_string()]));
        calls.len()
    });
    let action = reads.action.as_ref().map(|(name, access)| {
        let sql = match access {
            RowAccess::Exclusive => LOCK_ACTION_EXCLUSIVE,
            RowAccess::Shared => LOCK_ACTION_SHARED,
        };
        calls.push((sql, values![name.full_name()]));
        calls.len()
    });
    let first_scope = calls.len() + 1;
    lock_scopes(reads, &mut calls);
    let scopes = first_scope..calls.len() + 1;
    let projects = lock_projects(reads, &mut calls);
    let entries = lock_entries(reads, &mut calls);
    let ledger = lock_ledger(reads, &mut calls);
    let reviews = read_reviews(reads, &mut calls);
    let scope_names: Vec<String> = reads
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
            scope_names,
            plan_id.filter(|_| entries.is_some()),
        ],
    ));
    // Answer 0 belongs to BEGIN.
    let facts_index = calls.len();
    let live_plans = read_live_plans(reads, &mut calls);
    let answers = connection.query_all(Some("BEGIN"), calls, None)?;
    let columns = |answer: usize| {
        answers[answer]
            .iter()
            .map(|row| RowColumns::new(row, place))
    };
    let decode = || -> Result<LockedFacts, StoreError> {
        let mut facts = DecisionFacts::default();
        let mut head = None;
        if let Some(row) = plan.and_then(|answer| columns(answer).next()) {
            head = Some(row.read_digest(0)?);
            facts.plan = Some(Arc::new(row.decode_plan(2, 1)?));
        }
        if let Some(row) = action.and_then(|answer| columns(answer).next()) {
            facts.action = Some(row.decode_json(0)?);
        }
        for row in projects.clone().flat_map(columns) {
            facts.projects.push(row.decode_json(0)?);
        }
        facts
            .projects
            .sort_by(|one: &Project, other| one.name.cmp(&other.name));
        for row in live_plans.clone().flat_map(columns) {
            facts.live_plans.count += row.read_count(0)?;
            facts.live_plans.newest.extend(row.parse_plan_ids(1)?);
        }
        if let Some(entries) = entries {
            facts.entries = columns(entries)
                .map(decode_entry)
                .collect::<Result<_, _>>()?;
        }
        if let Some(first) = ledger {
            facts.ledger = rows::build_ledger(columns(first), columns(first + 1))?;
        }
        if let Some(reviews) = reviews {
            facts.reviews = columns(reviews)
                .map(|row| row.decode_json(0))
                .collect::<Result<_, _>>()?;
        }
        let Some(row) = columns(facts_index).next() else {
            return Err(corrupt_error(place, "the table `schema_version` is empty"));
        };
        if let Some((id, _)) = &reads.plan {
            facts.lease = row.decode_lease(4, *id)?;
        }
        facts.rules = build_rule_book(scopes.clone().flat_map(columns), row.decode_json_list(9)?)?;
        facts.changesets = row.decode_json_list(10)?;
        let earlier_answer = match row.read_optional_digest(7)? {
            Some(fingerprint) => Some((fingerprint, row.decode_json(8)?)),
            None => None,
        };
        Ok(LockedFacts {
            facts,
            head,
            now: row.read_timestamp(3)?,
            earlier_answer,
            schema_version: row.get(0)?,
            system_id: row.get(1)?,
            xid_base: row.get(2)?,
        })
    };
    decode().map_err(PostgresError::Permanent)
}

/// Returns a verb's last completion, from the log of a plan that is locked.
pub(super) fn read_completion(
    connection: &mut PostgresConnection,
    plan_id: PlanId,
    verb: Verb,
    place: &str,
) -> Result<Option<CompletedCommand>, PostgresError> {
    find_completion(verb, |markers, before| {
        // `_` matches any character here. An event found by mistake is ignored by the search.
        let patterns: Vec<String> = markers.iter().map(|text| format!("%{text}%")).collect();
        let before = i64::try_from(before.0).unwrap_or(i64::MAX);
        let limit = to_sql_integer(COMPLETION_PAGE_SIZE as u64);
        let values = values![plan_id.to_string(), before, patterns, limit];
        let rows = connection.query_statement(COMPLETION_EVENTS, values)?;
        let decoded = rows.iter().map(|row| {
            let row = RowColumns::new(row, place);
            decode_event(row.get(0)?, row.get(1)?).map_err(|error| corrupt_error(place, error))
        });
        let decoded: Result<_, StoreError> = decoded.collect();
        decoded.map_err(PostgresError::Permanent)
    })
}

/// Takes advisory locks for the rows that are about to be locked, in the same order.
///
/// A transaction that changes a plan gets its transaction id while it holds the plan's advisory
/// lock. That keeps the plan's events in order (see `tail.rs`). The row lock alone would not: a
/// transaction that waits for it may already have a smaller id than the one it waits for.
///
/// Row locks are not a fair queue either: new shared lockers join the current ones past a waiting
/// exclusive locker, which can starve it.
fn take_advisory_locks(schema: &str, reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) {
    let plan = reads
        .plan
        .iter()
        .map(|(id, access)| (id.to_string(), *access));
    let action = reads.action.iter();
    let action = action.map(|(name, access)| (format!("action {}", name.full_name()), *access));
    let scopes = sorted_scopes(reads).into_iter();
    let scopes = scopes.map(|(scope, access)| (format!("rules {scope}"), access));
    let ledger = match reads.ledger {
        LedgerReads::None => None,
        LedgerReads::OfPlan => Some(("ledger".to_owned(), RowAccess::Exclusive)),
    };
    let (lock_keys, exclusive): (Vec<i64>, Vec<bool>) = plan
        .chain(action)
        .chain(scopes)
        .chain(ledger)
        .map(|(subject, access)| {
            (
                advisory_lock_key(schema, &subject),
                access == RowAccess::Exclusive,
            )
        })
        .unzip();
    if !lock_keys.is_empty() {
        calls.push((ADVISORY_LOCKS, values![lock_keys, exclusive]));
    }
    match &reads.projects {
        ProjectReads::None => {}
        ProjectReads::Named(_) => {
            let (names, exclusive): (Vec<String>, Vec<bool>) = sorted_projects(reads)
                .into_iter()
                .map(|(name, access)| (name, access == RowAccess::Exclusive))
                .unzip();
            if !names.is_empty() {
                let schema = schema.to_owned();
                calls.push((ADVISORY_LOCK_PROJECTS, values![schema, names, exclusive]));
            }
        }
        ProjectReads::OfPlan => {
            let plan = reads.plan.as_ref().map(|(id, _)| id.to_string());
            calls.push((
                ADVISORY_LOCK_PROJECTS_OF_PLAN,
                values![schema.to_owned(), plan],
            ));
        }
    }
}

/// Locks the projects in order of their names. Returns the indexes of the answers. No command
/// changes one project and relies on another, so exclusive locks may come first.
fn lock_projects(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) -> std::ops::Range<usize> {
    let first = calls.len() + 1;
    match &reads.projects {
        ProjectReads::None => {}
        ProjectReads::Named(_) => {
            for (access, sql) in [
                (RowAccess::Exclusive, LOCK_PROJECTS_EXCLUSIVE),
                (RowAccess::Shared, LOCK_PROJECTS_SHARED),
            ] {
                let names: Vec<String> = sorted_projects(reads)
                    .into_iter()
                    .filter(|(_, wanted_access)| *wanted_access == access)
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

/// Reads the unfinished plans of projects read exclusively. Returns the indexes of the answers.
fn read_live_plans(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) -> std::ops::Range<usize> {
    let first = calls.len() + 1;
    for (name, access) in sorted_projects(reads) {
        if access == RowAccess::Exclusive {
            let max_named = to_sql_integer(MAX_LIVE_PLANS_NAMED as u64);
            calls.push((LIVE_PLANS, values![name, max_named]));
        }
    }
    first..calls.len() + 1
}

/// Returns the named projects sorted by name, without duplicates. The stricter access wins.
fn sorted_projects(reads: &ReadSet) -> Vec<(String, RowAccess)> {
    let ProjectReads::Named(named) = &reads.projects else {
        return Vec::new();
    };
    let named = named
        .iter()
        .map(|(name, access)| (name.full_name().to_owned(), *access));
    sort_and_merge(named.collect())
}

/// Returns the key of an advisory lock. The key includes the schema, because advisory locks are per
/// database. Colliding keys only cause an unnecessary wait.
pub(super) fn advisory_lock_key(schema: &str, subject: &str) -> i64 {
    let digest = Digest::hash_parts([schema.as_bytes(), subject.as_bytes()]);
    let first = digest.as_bytes().first_chunk::<8>();
    i64::from_be_bytes(*first.expect("BUG: a digest has 32 bytes"))
}

/// Locks the scopes in the server's text order. Consecutive shared scopes are locked in one
/// statement.
fn lock_scopes(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) {
    let mut shared: Vec<String> = Vec::new();
    for (scope, access) in sorted_scopes(reads) {
        match access {
            RowAccess::Shared => shared.push(scope),
            RowAccess::Exclusive => {
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

/// Returns the scopes sorted by text, without duplicates. The stricter access wins.
fn sorted_scopes(reads: &ReadSet) -> Vec<(String, RowAccess)> {
    let scopes = reads.rules.iter();
    sort_and_merge(
        scopes
            .map(|(scope, access)| (scope.to_string(), *access))
            .collect(),
    )
}

fn sort_and_merge(mut requests: Vec<(String, RowAccess)>) -> Vec<(String, RowAccess)> {
    requests.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
    requests.dedup_by(|later, earlier| later.0 == earlier.0);
    requests
}

/// Locks the accounts and reads the reservations. Returns the index of the first of both answers.
fn lock_ledger(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) -> Option<usize> {
    let (plan, _) = match reads.ledger {
        LedgerReads::None => return None,
        LedgerReads::OfPlan => reads.plan.as_ref()?,
    };
    calls.push((LOCK_ACCOUNTS, values![rows::list_account_names(*plan)]));
    let first = calls.len();
    calls.push((RESERVATIONS, values![plan.to_string()]));
    Some(first)
}

/// Reads what people noted about the plan, whose lock covers it. Returns the index of the answer.
fn read_reviews(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) -> Option<usize> {
    let (plan, _) = match reads.reviews {
        ReviewReads::None => return None,
        ReviewReads::OfPlan => reads.plan.as_ref()?,
    };
    calls.push((REVIEWS, values![plan.to_string()]));
    Some(calls.len())
}

/// Locks entries of open changesets. Returns the index of the answer.
fn lock_entries(reads: &ReadSet, calls: &mut Vec<StatementCall<'_>>) -> Option<usize> {
    let (plan, _) = reads.plan.as_ref()?;
    calls.push(match &reads.changesets {
        ChangesetReads::None => return None,
        ChangesetReads::All => (LOCK_ENTRIES, values![plan.to_string()]),
        ChangesetReads::EntriesAt(paths) => {
            let digests: BTreeSet<Digest> = paths
                .iter()
                .map(|path| Digest::hash_bytes(path.as_bytes()))
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
