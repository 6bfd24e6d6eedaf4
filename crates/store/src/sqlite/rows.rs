//! Rows ↔ domain: what is read for a decision, what a decision writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::changeset::{Changeset, Entry, TreePath};
use plan::facts::{Lease, LivePlans, Outcome, PlanChange};
use plan::id::NotAnId;
use plan::invariant::{Rule, RuleBook, Scope};
use plan::ledger::{Account, AccountName, Ledger};
use plan::{
    Action, ChangesetId, CommandId, Decision, Digest, Epoch, Facts, Name, Plan, PlanId, Project,
    Receipt, Row, Timestamp,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, params};
use serde::de::DeserializeOwned;

use super::statements as sql;
use super::wrong::Wrong;
use crate::columns::PlanColumns;
use crate::commit::LIVE_PLANS_NAMED;
use crate::record::encode;
use crate::{Access, ChangesetReads, Key, LedgerReads, ProjectReads, Reads};

/// The answer that was committed under a key, with the digest of the arguments it was given.
pub(super) fn remembered(
    connection: &Connection,
    key: &Key,
) -> Result<Option<(Digest, Receipt)>, Wrong> {
    one(
        connection,
        sql::COMMAND_BY_KEY,
        params![key.scope, key.key],
        |row| Ok((digest(row.get_ref(0)?)?, json(row.get_ref(1)?)?)),
    )
}

/// The rows a decision needs, and the hash of the plan's last event.
pub(super) fn facts(
    connection: &Connection,
    reads: &Reads,
) -> Result<(Facts, Option<Digest>), Wrong> {
    let mut facts = Facts::default();
    let mut head = None;
    if let Some((id, _)) = reads.plan
        && let Some(found) = plan_with_lease(connection, id)?
    {
        facts.plan = Some(Arc::new(found.0));
        head = Some(found.1);
        facts.lease = found.2;
    }
    if let Some((name, _)) = &reads.action {
        facts.action = action(connection, name)?;
    }
    read_projects(connection, &reads.projects, &mut facts)?;
    for (scope, _) in &reads.rules {
        add_rules_of(connection, scope, &mut facts.rules)?;
    }
    sort_rules(&mut facts.rules);
    if let (LedgerReads::OfPlan, Some((id, _))) = (reads.ledger, reads.plan) {
        facts.ledger = ledger(connection, id)?;
    }
    if let Some((id, _)) = reads.plan {
        read_changesets(connection, id, &reads.changesets, &mut facts)?;
    }
    Ok((facts, head))
}

fn plan_with_lease(
    connection: &Connection,
    id: PlanId,
) -> Result<Option<(Plan, Digest, Option<Lease>)>, Wrong> {
    one(connection, sql::PLAN_WITH_LEASE, [id.to_string()], |row| {
        Ok((
            json(row.get_ref(0)?)?,
            digest(row.get_ref(1)?)?,
            lease(id, row, 2)?,
        ))
    })
}

/// A lease from its three columns, the first of which is at `first`; none if they are null.
pub(super) fn lease(
    plan: PlanId,
    row: &rusqlite::Row<'_>,
    first: usize,
) -> Result<Option<Lease>, Wrong> {
    let Some(owner) = row.get(first)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        plan,
        owner,
        epoch: Epoch(row.get(first + 1)?),
        expires_at: Timestamp(row.get(first + 2)?),
    }))
}

/// An action.
pub(super) fn action(connection: &Connection, name: &Name) -> Result<Option<Action>, Wrong> {
    one(connection, sql::ACTION, [name.full()], |row| {
        json(row.get_ref(0)?)
    })
}

/// A project.
pub(super) fn project(connection: &Connection, name: &Name) -> Result<Option<Project>, Wrong> {
    one(connection, sql::PROJECT, [name.full()], |row| {
        json(row.get_ref(0)?)
    })
}

/// What a plan used and what is set aside for it, beside all plans together.
pub(super) fn ledger(connection: &Connection, plan: PlanId) -> Result<Ledger, Wrong> {
    let account = |name: AccountName| -> Result<Account, Wrong> {
        let found = one(connection, sql::ACCOUNT, [name.to_string()], |row| {
            json(row.get_ref(0)?)
        })?;
        Ok(found.unwrap_or_default())
    };
    Ok(Ledger {
        global: account(AccountName::Global)?,
        plan: account(AccountName::Plan(plan))?,
        reservations: all(connection, sql::RESERVATIONS, [plan.to_string()], |row| {
            json(row.get_ref(0)?)
        })?,
    })
}

/// Adds the projects that are asked for, by name, and the living plans of those that may be changed.
fn read_projects(
    connection: &Connection,
    reads: &ProjectReads,
    facts: &mut Facts,
) -> Result<(), Wrong> {
    let mut names: BTreeSet<&Name> = BTreeSet::new();
    match reads {
        ProjectReads::None => {}
        ProjectReads::OfPlan => names.extend(facts.plan.iter().flat_map(|plan| plan.projects())),
        ProjectReads::Named(named) => {
            names.extend(named.iter().map(|(name, _)| name));
            for (name, access) in named {
                if *access == Access::Exclusive {
                    add_live_plans(connection, name, &mut facts.live_plans)?;
                }
            }
        }
    }
    for name in names {
        facts.projects.extend(project(connection, name)?);
    }
    Ok(())
}

fn add_live_plans(
    connection: &Connection,
    project: &Name,
    live: &mut LivePlans,
) -> Result<(), Wrong> {
    let count: Option<u64> = one(connection, sql::LIVE_PLANS_COUNT, [project.full()], |row| {
        Ok(row.get(0)?)
    })?;
    live.count += count.unwrap_or(0);
    let values = params![project.full(), LIVE_PLANS_NAMED];
    let newest = all(connection, sql::LIVE_PLANS, values, |row| {
        let id = row.get_ref(0)?.as_str()?.parse();
        id.map_err(|error: NotAnId| Wrong::Corrupt(error.to_string()))
    })?;
    live.newest.extend::<Vec<PlanId>>(newest);
    Ok(())
}

/// Adds the rules of a scope and its revision; nothing if nobody wrote to it.
pub(super) fn add_rules_of(
    connection: &Connection,
    scope: &Scope,
    book: &mut RuleBook,
) -> Result<(), Wrong> {
    let text = scope.to_string();
    let revision = one(connection, sql::SCOPE_REVISION, [&text], |row| {
        Ok(row.get(0)?)
    })?;
    let Some(revision) = revision else {
        return Ok(());
    };
    if book.revisions.insert(scope.clone(), revision).is_none() {
        let rules = all(connection, sql::RULES_OF_SCOPE, [&text], |row| {
            json(row.get_ref(0)?)
        })?;
        book.rules.extend::<Vec<_>>(rules);
    }
    Ok(())
}

/// Puts rules into the order in which every store gives them.
pub(super) fn sort_rules(book: &mut RuleBook) {
    let order = |rule: &Rule| (rule.scope.clone(), rule.draft.name.clone());
    book.rules.sort_by_cached_key(order);
}

fn read_changesets(
    connection: &Connection,
    plan: PlanId,
    reads: &ChangesetReads,
    facts: &mut Facts,
) -> Result<(), Wrong> {
    if *reads == ChangesetReads::None {
        return Ok(());
    }
    facts.changesets = all(
        connection,
        sql::OPEN_CHANGESETS,
        [plan.to_string()],
        |row| json(row.get_ref(0)?),
    )?;
    for changeset in &facts.changesets {
        let entries = match reads {
            ChangesetReads::None => Vec::new(),
            ChangesetReads::All => entries(connection, changeset.id)?,
            ChangesetReads::EntriesAt(paths) => entries_at(connection, changeset.id, paths)?,
        };
        let of_this = entries.into_iter().map(|entry| (changeset.id, entry));
        facts.entries.extend(of_this);
    }
    Ok(())
}

/// The entries of a changeset, by path.
pub(super) fn entries(
    connection: &Connection,
    changeset: ChangesetId,
) -> Result<Vec<Entry>, Wrong> {
    all(connection, sql::ENTRIES, [changeset.to_string()], |row| {
        json(row.get_ref(0)?)
    })
}

fn entries_at(
    connection: &Connection,
    changeset: ChangesetId,
    paths: &[TreePath],
) -> Result<Vec<Entry>, Wrong> {
    let id = changeset.to_string();
    let mut found = Vec::new();
    for path in paths {
        let entry = one(
            connection,
            sql::ENTRY,
            params![id, path.as_bytes()],
            |row| json(row.get_ref(0)?),
        )?;
        found.extend(entry);
    }
    Ok(found)
}

/// Writes a decision. `head` is the hash of the last event of the plan that was read.
pub(super) fn write(
    connection: &Connection,
    decision: &Decision,
    read: Option<(PlanId, Digest)>,
) -> Result<(), Wrong> {
    for change in &decision.plans {
        let known = read.filter(|(id, _)| *id == change.plan.id);
        write_plan(connection, change, known.map(|(_, head)| head))?;
    }
    for row in &decision.rows {
        write_row(connection, row)?;
    }
    Ok(())
}

/// Inserts or updates the plan's row, then its events: they refer to the row.
fn write_plan(
    connection: &Connection,
    change: &PlanChange,
    known_head: Option<Digest>,
) -> Result<(), Wrong> {
    let id = change.plan.id.to_string();
    let before = change
        .events
        .first()
        .map_or(0, |first| first.version.0.saturating_sub(1));
    let previous = match known_head {
        _ if before == 0 => Digest::ZERO,
        Some(head) => head,
        None => one(connection, sql::PLAN_HEAD, [&id], |row| {
            digest(row.get_ref(0)?)
        })?
        .ok_or_else(|| {
            Wrong::Database(format!("plan {} is not there to change", change.plan.id))
        })?,
    };
    let mut head = previous;
    let encoded: Vec<_> = change
        .events
        .iter()
        .map(|recorded| {
            let encoded = encode(recorded, head);
            head = encoded.hash;
            encoded
        })
        .collect();
    write_plan_row(connection, &change.plan, before, head)?;
    let mut insert = connection.prepare_cached(sql::INSERT_EVENT)?;
    for (recorded, encoded) in change.events.iter().zip(&encoded) {
        insert.execute(params![
            id,
            recorded.version.0,
            encoded.body,
            encoded.texts,
            encoded.hash.as_bytes(),
        ])?;
    }
    Ok(())
}

fn write_plan_row(
    connection: &Connection,
    plan: &Plan,
    before: u64,
    head: Digest,
) -> Result<(), Wrong> {
    let columns = PlanColumns::of(plan);
    let due_at = columns.due_at.map(|due_at| due_at.0);
    if before == 0 {
        connection
            .prepare_cached(sql::INSERT_PLAN)?
            .execute(params![
                columns.plan_id,
                columns.id_reversed,
                columns.version,
                columns.phase,
                columns.state,
                columns.action,
                columns.needs_person,
                due_at,
                head.as_bytes(),
                columns.body,
            ])?;
        let mut insert = connection.prepare_cached(sql::INSERT_PLAN_PROJECT)?;
        for project in &columns.projects {
            insert.execute(params![project, columns.plan_id, columns.live])?;
        }
        return Ok(());
    }
    let changed = connection
        .prepare_cached(sql::UPDATE_PLAN)?
        .execute(params![
            columns.plan_id,
            before,
            columns.version,
            columns.phase,
            columns.state,
            columns.needs_person,
            due_at,
            head.as_bytes(),
            columns.body,
        ])?;
    if changed == 1 {
        // The projects of a plan never change; that it ends does, once.
        if !columns.live && !columns.projects.is_empty() {
            connection
                .prepare_cached(sql::END_PLAN_PROJECTS)?
                .execute([columns.plan_id])?;
        }
        return Ok(());
    }
    // The decision was made on this very row, in this transaction.
    Err(Wrong::Database(format!(
        "plan {} was decided at version {before}, which is not what is stored",
        plan.id
    )))
}

fn write_row(connection: &Connection, row: &Row) -> Result<(), Wrong> {
    let execute = |statement: &str, values: &[&dyn rusqlite::ToSql]| -> Result<(), Wrong> {
        connection.prepare_cached(statement)?.execute(values)?;
        Ok(())
    };
    match row {
        Row::PutAction(action) => {
            execute(sql::PUT_ACTION, params![action.name().full(), text(action)])
        }
        Row::PutProject(project) => execute(
            sql::PUT_PROJECT,
            params![project.name.full(), text(project)],
        ),
        Row::DropProject(name) => execute(sql::DROP_PROJECT, params![name.full()]),
        Row::PutRule(rule) => {
            let scope = rule.scope.to_string();
            execute(sql::PUT_SCOPE_REVISION, params![scope, rule.revision])?;
            let name = rule.draft.name.as_str();
            execute(sql::PUT_RULE, params![scope, name, text(rule)])
        }
        Row::DropRule {
            scope,
            name,
            revision,
        } => {
            let scope = scope.to_string();
            execute(sql::PUT_SCOPE_REVISION, params![scope, revision])?;
            execute(sql::DROP_RULE, params![scope, name.as_str()])
        }
        Row::PutLease(lease) => execute(
            sql::PUT_LEASE,
            params![
                lease.plan.to_string(),
                lease.owner,
                lease.epoch.0,
                lease.expires_at.0
            ],
        ),
        Row::DropLease(plan) => execute(sql::DROP_LEASE, params![plan.to_string()]),
        Row::PutChangeset(changeset) => write_changeset(connection, changeset),
        Row::PutEntry(changeset, entry) => execute(
            sql::PUT_ENTRY,
            params![changeset.to_string(), entry.path.as_bytes(), text(entry)],
        ),
        Row::DropEntry(changeset, path) => execute(
            sql::DROP_ENTRY,
            params![changeset.to_string(), path.as_bytes()],
        ),
        Row::PutVerdict(verdict) => {
            let plan = verdict.plan.to_string();
            // A column to find it by, not the plan: what its next event writes takes it back.
            let version = i64::try_from(verdict.version.0).unwrap_or(i64::MAX);
            execute(sql::MARK_BLOCKED, params![plan, version])?;
            execute(sql::PUT_VERDICT, params![plan, text(verdict)])
        }
        Row::PutEvidence(evidence) => {
            let rule = &evidence.verdict.rule;
            execute(
                sql::PUT_EVIDENCE,
                params![
                    evidence.plan.to_string(),
                    evidence.entry,
                    rule.scope.to_string(),
                    rule.name.as_str(),
                    rule.revision,
                    evidence.subject.to_string(),
                    text(evidence)
                ],
            )
        }
        Row::PutAccount(name, account) => {
            execute(sql::PUT_ACCOUNT, params![name.to_string(), text(account)])
        }
        Row::PutReservation(reservation) => execute(
            sql::PUT_RESERVATION,
            params![
                reservation.plan.to_string(),
                reservation.epoch.0,
                text(reservation)
            ],
        ),
        Row::DropReservation(plan, epoch) => {
            execute(sql::DROP_RESERVATION, params![plan.to_string(), epoch.0])
        }
    }
}

fn write_changeset(connection: &Connection, changeset: &Changeset) -> Result<(), Wrong> {
    connection
        .prepare_cached(sql::PUT_CHANGESET)?
        .execute(params![
            changeset.id.to_string(),
            changeset.plan.to_string(),
            changeset.epoch.0,
            changeset.node.as_str(),
            changeset.seal.is_some(),
            text(changeset),
        ])?;
    Ok(())
}

/// Writes that a command was committed, and its answer under its key. A gate that did not open must
/// be judged again, so that answer is not kept.
pub(super) fn write_command(
    connection: &Connection,
    id: CommandId,
    key: Option<&Key>,
    receipt: &Receipt,
) -> Result<(), Wrong> {
    let id = id.to_string();
    let mut insert = connection.prepare_cached(sql::INSERT_COMMAND)?;
    match key.filter(|_| is_remembered(receipt)) {
        Some(key) => insert.execute(params![
            id,
            key.scope,
            key.key,
            key.fingerprint.as_bytes(),
            text(receipt)
        ])?,
        None => {
            let nothing = rusqlite::types::Null;
            insert.execute(params![id, nothing, nothing, nothing, nothing])?
        }
    };
    Ok(())
}

/// Is this answer given again under its key?
pub(super) fn is_remembered(receipt: &Receipt) -> bool {
    match receipt.outcome {
        Outcome::Done | Outcome::AlreadyDone => true,
        Outcome::Blocked(_) => false,
    }
}

/// The first row of a statement, decoded.
pub(super) fn one<T>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
    decode: impl FnOnce(&rusqlite::Row<'_>) -> Result<T, Wrong>,
) -> Result<Option<T>, Wrong> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(decode).transpose()
}

/// All rows of a statement, decoded.
pub(super) fn all<T>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
    mut decode: impl FnMut(&rusqlite::Row<'_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(values)?;
    let mut decoded = Vec::new();
    while let Some(row) = rows.next()? {
        decoded.push(decode(row)?);
    }
    Ok(decoded)
}

/// A value from its JSON, without copying the text first.
pub(super) fn json<T: DeserializeOwned>(value: ValueRef<'_>) -> Result<T, Wrong> {
    serde_json::from_str(value.as_str()?).map_err(|error| Wrong::Corrupt(error.to_string()))
}

/// A digest from its bytes.
pub(super) fn digest(value: ValueRef<'_>) -> Result<Digest, Wrong> {
    Digest::from_bytes(value.as_blob()?)
        .ok_or_else(|| Wrong::Corrupt("a hash is not 32 bytes long".to_owned()))
}

fn text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("BUG: what is stored always encodes")
}
