//! Maps rows to domain types: reads the facts of a decision and writes the decision.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::changeset::{Changeset, ChangesetEntry, TreePath};
use plan::completion::CompletedCommand;
use plan::facts::{Lease, LivePlans, PlanChange, ReceiptOutcome};
use plan::id::NotAnId;
use plan::invariant::{Rule, RuleBook, RuleScope};
use plan::ledger::{AccountName, BudgetAccount, BudgetLedger};
use plan::review::PlanReview;
use plan::{
    Action, ChangesetId, CommandId, CommandReceipt, Decision, DecisionFacts, Digest, Epoch, Plan,
    PlanId, Project, QualifiedName, RowWrite, Timestamp, Verb,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Params, params};
use serde::de::DeserializeOwned;

use super::error::SqliteError;
use super::statements as sql;
use crate::commit::{COMPLETION_PAGE_SIZE, MAX_LIVE_PLANS_NAMED, find_completion};
use crate::event_codec::{decode_event, encode_event};
use crate::plan_columns::{PlanColumns, TermsColumns, decode_plan};
use crate::{
    ChangesetReads, IdempotencyKey, LedgerReads, ProjectReads, ReadSet, ReviewReads, RowAccess,
};

/// Returns the receipt committed under a key, with the digest of its arguments.
pub(super) fn select_earlier_answer(
    connection: &Connection,
    key: &IdempotencyKey,
) -> Result<Option<(Digest, CommandReceipt)>, SqliteError> {
    select_first(
        connection,
        sql::COMMAND_BY_KEY,
        params![key.scope, key.key],
        |row| {
            Ok((
                decode_digest(row.get_ref(0)?)?,
                decode_json(row.get_ref(1)?)?,
            ))
        },
    )
}

/// Reads the rows a decision needs, and the hash of the plan's last event.
pub(super) fn read_facts(
    connection: &Connection,
    reads: &ReadSet,
) -> Result<(DecisionFacts, Option<Digest>), SqliteError> {
    let mut facts = DecisionFacts::default();
    let mut head = None;
    if let Some((id, _)) = reads.plan
        && let Some(found) = select_plan_with_lease(connection, id)?
    {
        facts.plan = Some(Arc::new(found.0));
        head = Some(found.1);
        facts.lease = found.2;
    }
    if let Some((name, _)) = &reads.action {
        facts.action = select_action(connection, name)?;
    }
    read_projects(connection, &reads.projects, &mut facts)?;
    for (scope, _) in &reads.rules {
        add_scope_rules(connection, scope, &mut facts.rules)?;
    }
    sort_rules(&mut facts.rules);
    if let (LedgerReads::OfPlan, Some((id, _))) = (reads.ledger, reads.plan) {
        facts.ledger = select_ledger(connection, id)?;
    }
    if let (ReviewReads::OfPlan, Some((id, _))) = (reads.reviews, reads.plan) {
        facts.reviews = select_reviews(connection, id)?;
    }
    if let Some((id, _)) = reads.plan {
        read_changesets(connection, id, &reads.changesets, &mut facts)?;
    }
    Ok((facts, head))
}

/// Returns a verb's last completion, from the plan's log.
pub(super) fn select_completion(
    connection: &Connection,
    plan_id: PlanId,
    verb: Verb,
) -> Result<Option<CompletedCommand>, SqliteError> {
    find_completion(verb, |markers, before| {
        let [first, second, third] = [0, 1, 2].map(|index| markers.get(index));
        let before = i64::try_from(before.0).unwrap_or(i64::MAX);
        let values = params![
            plan_id.to_string(),
            before,
            first,
            second,
            third,
            COMPLETION_PAGE_SIZE
        ];
        select_all(connection, sql::COMPLETION_EVENTS, values, |row| {
            let texts = row.get_ref(1)?.as_str_or_null()?;
            decode_event(row.get_ref(0)?.as_str()?, texts)
                .map_err(|error| SqliteError::Corrupt(error.to_string()))
        })
    })
}

fn select_plan_with_lease(
    connection: &Connection,
    id: PlanId,
) -> Result<Option<(Plan, Digest, Option<Lease>)>, SqliteError> {
    select_first(connection, sql::PLAN_WITH_LEASE, [id.to_string()], |row| {
        Ok((
            decode_plan_columns(row)?,
            decode_digest(row.get_ref(2)?)?,
            decode_lease(id, row, 3)?,
        ))
    })
}

/// Decodes a plan from the first two columns: the bodies of its terms and of its state.
pub(super) fn decode_plan_columns(row: &rusqlite::Row<'_>) -> Result<Plan, SqliteError> {
    let Some(terms) = row.get_ref(0)?.as_str_or_null()? else {
        return Err(SqliteError::Corrupt("a plan has no terms".to_owned()));
    };
    decode_plan(terms, row.get_ref(1)?.as_str()?)
        .map_err(|error| SqliteError::Corrupt(error.to_string()))
}

/// Decodes a lease from three columns starting at `first`; `None` if they are null.
pub(super) fn decode_lease(
    plan_id: PlanId,
    row: &rusqlite::Row<'_>,
    first: usize,
) -> Result<Option<Lease>, SqliteError> {
    let Some(owner) = row.get(first)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        plan: plan_id,
        owner,
        epoch: Epoch(row.get(first + 1)?),
        expires_at: Timestamp(row.get(first + 2)?),
    }))
}

pub(super) fn select_action(
    connection: &Connection,
    name: &QualifiedName,
) -> Result<Option<Action>, SqliteError> {
    select_first(connection, sql::ACTION, [name.full_name()], |row| {
        decode_json(row.get_ref(0)?)
    })
}

pub(super) fn select_project(
    connection: &Connection,
    name: &QualifiedName,
) -> Result<Option<Project>, SqliteError> {
    select_first(connection, sql::PROJECT, [name.full_name()], |row| {
        decode_json(row.get_ref(0)?)
    })
}

pub(super) fn select_ledger(
    connection: &Connection,
    plan_id: PlanId,
) -> Result<BudgetLedger, SqliteError> {
    let account = |name: AccountName| -> Result<BudgetAccount, SqliteError> {
        let found = select_first(connection, sql::ACCOUNT, [name.to_string()], |row| {
            decode_json(row.get_ref(0)?)
        })?;
        Ok(found.unwrap_or_default())
    };
    Ok(BudgetLedger {
        global: account(AccountName::Global)?,
        plan: account(AccountName::Plan(plan_id))?,
        reservations: select_all(
            connection,
            sql::RESERVATIONS,
            [plan_id.to_string()],
            |row| decode_json(row.get_ref(0)?),
        )?,
    })
}

pub(super) fn select_reviews(
    connection: &Connection,
    plan_id: PlanId,
) -> Result<Vec<PlanReview>, SqliteError> {
    select_all(connection, sql::REVIEWS, [plan_id.to_string()], |row| {
        decode_json(row.get_ref(0)?)
    })
}

/// Adds the requested projects sorted by name, and the unfinished plans of those read exclusively.
fn read_projects(
    connection: &Connection,
    reads: &ProjectReads,
    facts: &mut DecisionFacts,
) -> Result<(), SqliteError> {
    let mut names: BTreeSet<&QualifiedName> = BTreeSet::new();
    match reads {
        ProjectReads::None => {}
        ProjectReads::OfPlan => names.extend(facts.plan.iter().flat_map(|plan| plan.projects())),
        ProjectReads::Named(named) => {
            names.extend(named.iter().map(|(name, _)| name));
            for (name, access) in named {
                if *access == RowAccess::Exclusive {
                    add_live_plans(connection, name, &mut facts.live_plans)?;
                }
            }
        }
    }
    for name in names {
        facts.projects.extend(select_project(connection, name)?);
    }
    Ok(())
}

fn add_live_plans(
    connection: &Connection,
    project: &QualifiedName,
    live: &mut LivePlans,
) -> Result<(), SqliteError> {
    let count: Option<u64> = select_first(
        connection,
        sql::LIVE_PLANS_COUNT,
        [project.full_name()],
        |row| Ok(row.get(0)?),
    )?;
    live.count += count.unwrap_or(0);
    let values = params![project.full_name(), MAX_LIVE_PLANS_NAMED];
    let newest = select_all(connection, sql::LIVE_PLANS, values, |row| {
        let id = row.get_ref(0)?.as_str()?.parse();
        id.map_err(|error: NotAnId| SqliteError::Corrupt(error.to_string()))
    })?;
    live.newest.extend::<Vec<PlanId>>(newest);
    Ok(())
}

/// Adds a scope's rules and revision; nothing if the scope was never written.
pub(super) fn add_scope_rules(
    connection: &Connection,
    scope: &RuleScope,
    book: &mut RuleBook,
) -> Result<(), SqliteError> {
    let text = scope.to_string();
    let revision = select_first(connection, sql::SCOPE_REVISION, [&text], |row| {
        Ok(row.get(0)?)
    })?;
    let Some(revision) = revision else {
        return Ok(());
    };
    if book.revisions.insert(scope.clone(), revision).is_none() {
        let rules = select_all(connection, sql::RULES_OF_SCOPE, [&text], |row| {
            decode_json(row.get_ref(0)?)
        })?;
        book.rules.extend::<Vec<_>>(rules);
    }
    Ok(())
}

/// Sorts rules in the order all stores use.
pub(super) fn sort_rules(book: &mut RuleBook) {
    let order = |rule: &Rule| (rule.scope.clone(), rule.draft.name.clone());
    book.rules.sort_by_cached_key(order);
}

fn read_changesets(
    connection: &Connection,
    plan_id: PlanId,
    reads: &ChangesetReads,
    facts: &mut DecisionFacts,
) -> Result<(), SqliteError> {
    if *reads == ChangesetReads::None {
        return Ok(());
    }
    facts.changesets = select_all(
        connection,
        sql::OPEN_CHANGESETS,
        [plan_id.to_string()],
        |row| decode_json(row.get_ref(0)?),
    )?;
    for changeset in &facts.changesets {
        let entries = match reads {
            ChangesetReads::None => Vec::new(),
            ChangesetReads::All => select_entries(connection, changeset.id)?,
            ChangesetReads::EntriesAt(paths) => select_entries_at(connection, changeset.id, paths)?,
        };
        let own_entries = entries.into_iter().map(|entry| (changeset.id, entry));
        facts.entries.extend(own_entries);
    }
    Ok(())
}

/// Returns the entries of a changeset sorted by path.
pub(super) fn select_entries(
    connection: &Connection,
    changeset_id: ChangesetId,
) -> Result<Vec<ChangesetEntry>, SqliteError> {
    select_all(
        connection,
        sql::ENTRIES,
        [changeset_id.to_string()],
        |row| decode_json(row.get_ref(0)?),
    )
}

fn select_entries_at(
    connection: &Connection,
    changeset_id: ChangesetId,
    paths: &[TreePath],
) -> Result<Vec<ChangesetEntry>, SqliteError> {
    let id = changeset_id.to_string();
    let mut found = Vec::new();
    for path in paths {
        let entry = select_first(
            connection,
            sql::ENTRY,
            params![id, path.as_bytes()],
            |row| decode_json(row.get_ref(0)?),
        )?;
        found.extend(entry);
    }
    Ok(found)
}

/// Writes a decision. `head` is the hash of the last event of the plan that was read.
pub(super) fn write_decision(
    connection: &Connection,
    decision: &Decision,
    plan_head: Option<(PlanId, Digest)>,
) -> Result<(), SqliteError> {
    for change in &decision.plans {
        let known = plan_head.filter(|(id, _)| *id == change.plan.id());
        write_plan(connection, change, known.map(|(_, head)| head))?;
    }
    for row in &decision.rows {
        write_row(connection, row)?;
    }
    Ok(())
}

/// Inserts or updates the plan's row, then its events, which refer to the row.
fn write_plan(
    connection: &Connection,
    change: &PlanChange,
    known_head: Option<Digest>,
) -> Result<(), SqliteError> {
    let id = change.plan.id().to_string();
    let previous_version = change
        .events
        .first()
        .map_or(0, |first| first.version.0.saturating_sub(1));
    let previous = match known_head {
        _ if previous_version == 0 => Digest::ZERO,
        Some(head) => head,
        None => select_first(connection, sql::PLAN_HEAD, [&id], |row| {
            decode_digest(row.get_ref(0)?)
        })?
        .ok_or_else(|| {
            SqliteError::Database(format!("plan {} does not exist", change.plan.id()))
        })?,
    };
    let mut head = previous;
    let encoded: Vec<_> = change
        .events
        .iter()
        .map(|recorded| {
            let encoded = encode_event(recorded, head);
            head = encoded.hash;
            encoded
        })
        .collect();
    write_plan_row(connection, &change.plan, previous_version, head)?;
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
    previous_version: u64,
    head: Digest,
) -> Result<(), SqliteError> {
    let columns = PlanColumns::from_plan(plan);
    let due_at = columns.due_at.map(|due_at| due_at.0);
    if previous_version == 0 {
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
        let terms = TermsColumns::from_plan(plan);
        connection
            .prepare_cached(sql::INSERT_PLAN_TERMS)?
            .execute(params![columns.plan_id, terms.origin_plan, terms.body])?;
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
            previous_version,
            columns.version,
            columns.phase,
            columns.state,
            columns.needs_person,
            due_at,
            head.as_bytes(),
            columns.body,
        ])?;
    if changed == 1 {
        // A plan's projects never change; only its end is recorded.
        if !columns.live && !columns.projects.is_empty() {
            connection
                .prepare_cached(sql::END_PLAN_PROJECTS)?
                .execute([columns.plan_id])?;
        }
        return Ok(());
    }
    // Cannot happen in a correct program: the decision read this row in the same transaction.
    Err(SqliteError::Database(format!(
        "plan {} was decided at version {previous_version}, but another version is stored",
        plan.id()
    )))
}

fn write_row(connection: &Connection, row: &RowWrite) -> Result<(), SqliteError> {
    let execute = |statement: &str, values: &[&dyn rusqlite::ToSql]| -> Result<(), SqliteError> {
        connection.prepare_cached(statement)?.execute(values)?;
        Ok(())
    };
    match row {
        RowWrite::PutAction(action) => execute(
            sql::PUT_ACTION,
            params![action.name().full_name(), encode_json(action)],
        ),
        RowWrite::PutProject(project) => execute(
            sql::PUT_PROJECT,
            params![project.name.full_name(), encode_json(project)],
        ),
        RowWrite::DropProject(name) => execute(sql::DROP_PROJECT, params![name.full_name()]),
        RowWrite::PutRule(rule) => {
            let scope = rule.scope.to_string();
            execute(sql::PUT_SCOPE_REVISION, params![scope, rule.revision])?;
            let name = rule.draft.name.as_str();
            execute(sql::PUT_RULE, params![scope, name, encode_json(rule)])
        }
        RowWrite::DropRule {
            scope,
            name,
            revision,
        } => {
            let scope = scope.to_string();
            execute(sql::PUT_SCOPE_REVISION, params![scope, revision])?;
            execute(sql::DROP_RULE, params![scope, name.as_str()])
        }
        RowWrite::PutLease(lease) => execute(
            sql::PUT_LEASE,
            params![
                lease.plan.to_string(),
                lease.owner,
                lease.epoch.0,
                lease.expires_at.0
            ],
        ),
        RowWrite::DropLease(plan) => execute(sql::DROP_LEASE, params![plan.to_string()]),
        RowWrite::PutChangeset(changeset) => write_changeset(connection, changeset),
        RowWrite::PutEntry(changeset, entry) => execute(
            sql::PUT_ENTRY,
            params![
                changeset.to_string(),
                entry.path.as_bytes(),
                encode_json(entry)
            ],
        ),
        RowWrite::DropEntry(changeset, path) => execute(
            sql::DROP_ENTRY,
            params![changeset.to_string(), path.as_bytes()],
        ),
        RowWrite::PutVerdict(verdict) => {
            let plan = verdict.plan.to_string();
            // Only an index column, not the plan itself; the next event overwrites it.
            let version = i64::try_from(verdict.version.0).unwrap_or(i64::MAX);
            execute(sql::MARK_BLOCKED, params![plan, version])?;
            execute(sql::PUT_VERDICT, params![plan, encode_json(verdict)])
        }
        RowWrite::PutEvidence(evidence) => {
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
                    encode_json(evidence)
                ],
            )
        }
        RowWrite::PutAccount(name, account) => execute(
            sql::PUT_ACCOUNT,
            params![name.to_string(), encode_json(account)],
        ),
        RowWrite::PutReservation(reservation) => execute(
            sql::PUT_RESERVATION,
            params![
                reservation.plan.to_string(),
                reservation.epoch.0,
                encode_json(reservation)
            ],
        ),
        RowWrite::DropReservation(plan, epoch) => {
            execute(sql::DROP_RESERVATION, params![plan.to_string(), epoch.0])
        }
        RowWrite::PutReview(review) => execute(
            sql::PUT_REVIEW,
            params![review.plan.to_string(), review.person, encode_json(review)],
        ),
        RowWrite::DropReviews(plan) => execute(sql::DROP_REVIEWS, params![plan.to_string()]),
    }
}

fn write_changeset(connection: &Connection, changeset: &Changeset) -> Result<(), SqliteError> {
    connection
        .prepare_cached(sql::PUT_CHANGESET)?
        .execute(params![
            changeset.id.to_string(),
            changeset.plan.to_string(),
            changeset.epoch.0,
            changeset.node.as_str(),
            changeset.seal.is_some(),
            encode_json(changeset),
        ])?;
    Ok(())
}

/// Records the command and its receipt under its key. Does not keep a blocked gate's receipt,
/// because a retry must evaluate the gate again.
pub(super) fn write_command(
    connection: &Connection,
    command_id: CommandId,
    key: Option<&IdempotencyKey>,
    receipt: &CommandReceipt,
) -> Result<(), SqliteError> {
    let id = command_id.to_string();
    let mut insert = connection.prepare_cached(sql::INSERT_COMMAND)?;
    match key.filter(|_| is_kept_under_key(receipt)) {
        Some(key) => insert.execute(params![
            id,
            key.scope,
            key.key,
            key.fingerprint.as_bytes(),
            encode_json(receipt)
        ])?,
        None => {
            let nothing = rusqlite::types::Null;
            insert.execute(params![id, nothing, nothing, nothing, nothing])?
        }
    };
    Ok(())
}

/// Checks whether this receipt is returned again for the same key.
pub(super) fn is_kept_under_key(receipt: &CommandReceipt) -> bool {
    match receipt.outcome {
        ReceiptOutcome::Done | ReceiptOutcome::AlreadyDone => true,
        ReceiptOutcome::Blocked(_) => false,
    }
}

pub(super) fn select_first<T>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
    decode: impl FnOnce(&rusqlite::Row<'_>) -> Result<T, SqliteError>,
) -> Result<Option<T>, SqliteError> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(decode).transpose()
}

pub(super) fn select_all<T>(
    connection: &Connection,
    statement: &str,
    values: impl Params,
    mut decode: impl FnMut(&rusqlite::Row<'_>) -> Result<T, SqliteError>,
) -> Result<Vec<T>, SqliteError> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(values)?;
    let mut decoded = Vec::new();
    while let Some(row) = rows.next()? {
        decoded.push(decode(row)?);
    }
    Ok(decoded)
}

/// Decodes a value from JSON without copying the text.
pub(super) fn decode_json<T: DeserializeOwned>(value: ValueRef<'_>) -> Result<T, SqliteError> {
    serde_json::from_str(value.as_str()?).map_err(|error| SqliteError::Corrupt(error.to_string()))
}

pub(super) fn decode_digest(value: ValueRef<'_>) -> Result<Digest, SqliteError> {
    Digest::from_bytes(value.as_blob()?)
        .ok_or_else(|| SqliteError::Corrupt("a hash is not 32 bytes long".to_owned()))
}

pub(super) fn encode_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("BUG: what is stored always encodes")
}
