//! Reads. Every call is one read-only transaction with one snapshot, in one round trip. The schema
//! version is checked in the same snapshot.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, ChangesetEntry};
use plan::invariant::{RuleBook, RuleScope};
use plan::judgement::RuleEvidence;
use plan::ledger::BudgetLedger;
use plan::phase::Phase;
use plan::review::PlanReview;
use plan::stage::StateName;
use plan::{Action, ChangesetId, PlanId, Project, QualifiedName, Timestamp};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::connection::{PostgresConnection, StatementCall};
use super::error::{PostgresError, corrupt_error};
use super::migrate::{decode_schema_version, find_schema_version, require_supported_schema};
use super::pipeline::values;
use super::rows::{
    self, RowColumns, build_rule_book, decode_cursor, decode_entry, decode_plan_row,
};
use super::statements::{
    ACCOUNTS, ACTION, ACTIONS, ALL_RULES, ALL_SCOPE_REVISIONS, CHANGESETS, CLAIMABLE_PLANS,
    DUE_PLANS, ENTRIES, EVIDENCE, EXPIRED_LEASES, LATEST_EVENT, NOW, PLAN, PLAN_IDS_BY_FRAGMENT,
    PLANS, PLANS_BY_ACTION, PLANS_BY_ORIGIN, PLANS_BY_PROJECT, PLANS_BY_STATE,
    PLANS_NEEDING_A_PERSON, PROJECT, PROJECTS, RESERVATIONS, REVIEWS, RULES_OF_SCOPES,
    SCHEMA_VERSION, SCOPE_REVISIONS,
};
use super::tail::clamp_page_size;
use super::{PostgresShared, PostgresStore};
use crate::{
    Cursor, DuePlan, DueQueues, PlanFilter, PlanRow, PlanSnapshot, StoreError, StoreReader,
};

/// Sorts after every id.
const AFTER_EVERY_ID: &str = "~";

const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

impl StoreReader for PostgresStore {
    fn read_plan(&self, plan_id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        let rows = self
            .shared
            .read_rows(|_| vec![(PLAN, values![plan_id.to_string()])])?;
        self.decode_first(rows, decode_plan_row)
    }

    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        let rows = self
            .shared
            .read_rows(|_| vec![build_plan_page_call(filter, after, limit)])?;
        self.decode_all(rows, decode_plan_row)
    }

    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let reversed: String = fragment.chars().rev().collect();
        let rows = self.shared.read_rows(|_| {
            vec![(
                PLAN_IDS_BY_FRAGMENT,
                values![fragment, reversed.as_str(), clamp_page_size(limit)],
            )]
        })?;
        self.decode_all(rows, |row| row.parse_text(0))
    }

    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.query_due_plans(DUE_PLANS, phase, after, limit)
    }

    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.query_due_plans(CLAIMABLE_PLANS, phase, after, limit)
    }

    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError> {
        let rows = self.shared.read_rows(|connection| {
            let due = DueQueues::PHASE_ORDER.map(|phase| {
                let (behind_at, behind_id) = DuePlan::sort_key_after(None);
                let values = values![phase.as_str(), behind_at, behind_id, clamp_page_size(limit)];
                (DUE_PLANS, values)
            });
            let mut calls = vec![(LATEST_EVENT, values![connection.system_id])];
            calls.extend(due);
            calls
        })?;
        let Some([latest, due @ ..]) = rows.as_deref() else {
            return Ok(DueQueues::EMPTY);
        };
        let place = self.shared.place();
        let latest = map_columns(latest, place)
            .next()
            .map(decode_cursor)
            .transpose()?;
        let due = DueQueues::PHASE_ORDER.into_iter().zip(due);
        let due = due.map(|(phase, rows)| {
            let due: Result<_, StoreError> =
                map_columns(rows, place).map(decode_due_plan).collect();
            due.map(|due| (phase, due))
        });
        Ok(DueQueues {
            latest_cursor: latest.unwrap_or(Cursor::START),
            queues: due.collect::<Result<_, _>>()?,
        })
    }

    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let rows = self
            .shared
            .read_rows(|_| vec![(EXPIRED_LEASES, values![clamp_page_size(limit)])])?;
        self.decode_all(rows, |row| row.parse_text(0))
    }

    fn read_snapshot(&self, plan_id: PlanId) -> Result<Option<PlanSnapshot>, StoreError> {
        let read = self.shared.run_in_snapshot(|connection, place| {
            // The plan determines what else to read: two round trips, one snapshot.
            let plan = vec![(PLAN, values![plan_id.to_string()])];
            let rows = begin_snapshot(connection, place, plan, None)?;
            let Some(row) = rows[0].first() else {
                connection.execute_batch("COMMIT")?;
                return Ok(None);
            };
            let row =
                decode_plan_row(RowColumns::new(row, place)).map_err(PostgresError::Permanent)?;
            let scopes: Vec<String> = row
                .plan
                .rule_scopes()
                .iter()
                .map(ToString::to_string)
                .collect();
            let action = row.plan.action().map(QualifiedName::full_name);
            let entry = i64::from(row.plan.entry_number(Phase::Execute));
            let calls = vec![
                (ACTION, values![action]),
                (SCOPE_REVISIONS, values![scopes.clone()]),
                (RULES_OF_SCOPES, values![scopes]),
                (EVIDENCE, values![plan_id.to_string(), entry]),
            ];
            let rows = connection.query_all(None, calls, Some("COMMIT"))?;
            decode_snapshot(row.clone(), &rows, place)
                .map(Some)
                .map_err(PostgresError::Permanent)
        })?;
        Ok(read.flatten())
    }

    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError> {
        let rows = self
            .shared
            .read_rows(|_| vec![(ACTION, values![name.full_name()])])?;
        self.decode_first(rows, |row| row.decode_json(0))
    }

    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError> {
        let after = after.map_or("", QualifiedName::full_name);
        let rows = self
            .shared
            .read_rows(|_| vec![(ACTIONS, values![after, clamp_page_size(limit)])])?;
        self.decode_all(rows, |row| row.decode_json(0))
    }

    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError> {
        let rows = self
            .shared
            .read_rows(|_| vec![(PROJECT, values![name.full_name()])])?;
        self.decode_first(rows, |row| row.decode_json(0))
    }

    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError> {
        let after = after.map_or("", QualifiedName::full_name);
        let rows = self
            .shared
            .read_rows(|_| vec![(PROJECTS, values![after, clamp_page_size(limit)])])?;
        self.decode_all(rows, |row| row.decode_json(0))
    }

    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError> {
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let rows = self.shared.read_rows(|_| {
            if scopes.is_empty() {
                vec![(ALL_SCOPE_REVISIONS, values![]), (ALL_RULES, values![])]
            } else {
                vec![
                    (SCOPE_REVISIONS, values![scopes.clone()]),
                    (RULES_OF_SCOPES, values![scopes.clone()]),
                ]
            }
        })?;
        match rows.as_deref() {
            Some([revisions, rules]) => {
                let place = self.shared.place();
                build_rule_book(
                    map_columns(revisions, place),
                    decode_json_rows(rules, place)?,
                )
            }
            _ => Ok(RuleBook::default()),
        }
    }

    fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError> {
        let rows = self.shared.read_rows(|_| {
            vec![
                (CHANGESETS, values![plan_id.to_string()]),
                (ENTRIES, values![plan_id.to_string()]),
            ]
        })?;
        let Some([changesets, entries]) = rows.as_deref() else {
            return Ok(Vec::new());
        };
        let place = self.shared.place();
        let mut by_changeset: BTreeMap<ChangesetId, Vec<ChangesetEntry>> = BTreeMap::new();
        for row in map_columns(entries, place) {
            let (changeset, entry) = decode_entry(row)?;
            by_changeset.entry(changeset).or_default().push(entry);
        }
        map_columns(changesets, place)
            .map(|row| {
                let changeset: Changeset = row.decode_json(0)?;
                let entries = by_changeset.remove(&changeset.id).unwrap_or_default();
                Ok((changeset, entries))
            })
            .collect()
    }

    fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, StoreError> {
        let rows = self.shared.read_rows(|_| {
            vec![
                (ACCOUNTS, values![rows::list_account_names(plan_id)]),
                (RESERVATIONS, values![plan_id.to_string()]),
            ]
        })?;
        let Some([accounts, reservations]) = rows.as_deref() else {
            return Ok(BudgetLedger::default());
        };
        let place = self.shared.place();
        rows::build_ledger(
            map_columns(accounts, place),
            map_columns(reservations, place),
        )
    }

    fn list_reviews(&self, plan_id: PlanId) -> Result<Vec<PlanReview>, StoreError> {
        let values = || values![plan_id.to_string()];
        let rows = self.shared.read_rows(|_| vec![(REVIEWS, values())])?;
        match rows.as_deref() {
            Some([reviews]) => decode_json_rows(reviews, self.shared.place()),
            Some(_) | None => Ok(Vec::new()),
        }
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        let shared = &self.shared;
        shared.with_connection(|connection, place| {
            let rows = connection.query_statement(NOW, values![])?;
            match rows.first() {
                Some(row) => RowColumns::new(row, place)
                    .read_timestamp(0)
                    .map_err(PostgresError::Permanent),
                None => Err(PostgresError::Permanent(corrupt_error(
                    place,
                    "the server returned no time",
                ))),
            }
        })
    }
}

impl PostgresStore {
    fn query_due_plans(
        &self,
        statement: &'static str,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        let (behind_at, behind_id) = DuePlan::sort_key_after(after);
        let rows = self.shared.read_rows(|_| {
            vec![(
                statement,
                values![
                    phase.as_str(),
                    behind_at,
                    behind_id.as_str(),
                    clamp_page_size(limit)
                ],
            )]
        })?;
        self.decode_all(rows, decode_due_plan)
    }

    fn decode_first<T>(
        &self,
        rows: Option<Vec<Vec<Row>>>,
        decode: impl Fn(RowColumns<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.decode_all(rows, decode)?.into_iter().next())
    }

    /// Decodes the rows of a single statement; empty if there is no store.
    fn decode_all<T>(
        &self,
        rows: Option<Vec<Vec<Row>>>,
        decode: impl Fn(RowColumns<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = rows.and_then(|mut rows| rows.pop()).unwrap_or_default();
        map_columns(&rows, self.shared.place())
            .map(decode)
            .collect()
    }
}

impl PostgresShared {
    /// Runs statements in one snapshot and returns their rows; `None` if there is no store.
    pub(super) fn read_rows<'a>(
        &self,
        calls: impl Fn(&PostgresConnection) -> Vec<StatementCall<'a>>,
    ) -> Result<Option<Vec<Vec<Row>>>, StoreError> {
        self.run_in_snapshot(|connection, place| {
            let calls = calls(connection);
            let mut rows = begin_snapshot(connection, place, calls, Some("COMMIT"))?;
            rows.pop();
            Ok(rows)
        })
    }

    /// Runs `read`, which begins and ends a transaction; `None` if there is no store.
    pub(super) fn run_in_snapshot<T>(
        &self,
        read: impl Fn(&mut PostgresConnection, &str) -> Result<T, PostgresError>,
    ) -> Result<Option<T>, StoreError> {
        self.with_connection(|connection, place| match read(connection, place) {
            Ok(value) => Ok(Some(value)),
            Err(PostgresError::SchemaMissing(error)) => {
                connection.execute_batch("ROLLBACK")?;
                match find_schema_version(connection, place)? {
                    None => Ok(None),
                    Some(found) => {
                        require_supported_schema(place, found).map_err(PostgresError::Permanent)?;
                        // The store was created since the check, or its version number is wrong.
                        Err(PostgresError::Conflict(error))
                    }
                }
            }
            Err(error) => Err(error),
        })
    }

    /// Runs a read-only operation and retries it where that helps.
    pub(super) fn with_connection<T>(
        &self,
        operation: impl Fn(&mut PostgresConnection, &str) -> Result<T, PostgresError>,
    ) -> Result<T, StoreError> {
        let (mut attempt, mut stale_attempt) = (1, 1);
        let mut connection_lost = false;
        loop {
            let mut connection = if connection_lost {
                self.pool.acquire_after_loss()?
            } else {
                self.pool.acquire_connection()?
            };
            match operation(&mut connection, self.place()) {
                Ok(value) => {
                    connection.return_to_pool();
                    return Ok(value);
                }
                Err(PostgresError::ConnectionLost(error)) if connection_lost => return Err(error),
                Err(PostgresError::ConnectionLost(_)) => connection_lost = true,
                Err(PostgresError::Conflict(_)) if attempt < 3 => attempt += 1,
                // Every pooled connection can be stale; each is closed after it fails once.
                Err(PostgresError::StaleStatement(_)) if stale_attempt < 100 => stale_attempt += 1,
                Err(error) => return Err(error.into_store_error()),
            }
        }
    }
}

/// Begins a snapshot, checks the schema and runs the calls. Returns the rows of each call and of
/// `last`.
pub(super) fn begin_snapshot(
    connection: &mut PostgresConnection,
    place: &str,
    mut calls: Vec<StatementCall<'_>>,
    last: Option<&'static str>,
) -> Result<Vec<Vec<Row>>, PostgresError> {
    calls.insert(0, (SCHEMA_VERSION, values![]));
    let mut rows = connection.query_all(Some(BEGIN_SNAPSHOT), calls, last)?;
    check_schema_rows(&rows[1], place)?;
    rows.drain(..2);
    Ok(rows)
}

fn check_schema_rows(rows: &[Row], place: &str) -> Result<(), PostgresError> {
    let version = match rows.first() {
        Some(row) => decode_schema_version(RowColumns::new(row, place)),
        None => Err(corrupt_error(place, "the table `schema_version` is empty")),
    };
    version
        .and_then(|version| require_supported_schema(place, version))
        .map_err(PostgresError::Permanent)
}

fn decode_snapshot(
    row: PlanRow,
    rows: &[Vec<Row>],
    place: &str,
) -> Result<PlanSnapshot, StoreError> {
    let [action, revisions, rules, evidence, _] = rows else {
        return Err(corrupt_error(place, "BUG: four statements, four answers"));
    };
    let mut evidence: Vec<RuleEvidence> = decode_json_rows(evidence, place)?;
    evidence.sort_by(RuleEvidence::compare_by_rule);
    Ok(PlanSnapshot {
        action: map_columns(action, place)
            .next()
            .map(|row| row.decode_json(0))
            .transpose()?,
        rules: build_rule_book(
            map_columns(revisions, place),
            decode_json_rows(rules, place)?,
        )?,
        evidence,
        row,
    })
}

/// Chooses the statement with the most selective index.
fn build_plan_page_call<'a>(
    filter: &'a PlanFilter,
    after: Option<PlanId>,
    limit: usize,
) -> StatementCall<'a> {
    let after = after.map_or_else(|| AFTER_EVERY_ID.to_owned(), |after| after.to_string());
    let action = filter.action.as_ref().map(QualifiedName::full_name);
    let phase = filter.phase.map(Phase::as_str);
    let state = filter.state.map(StateName::as_str);
    let limit = clamp_page_size(limit);
    if let Some(origin) = filter.origin {
        let project = filter.project.as_ref().map(QualifiedName::full_name);
        let (origin, needs) = (origin.to_string(), filter.needs_person);
        let values = values![after, limit, origin, action, phase, state, needs, project];
        return (PLANS_BY_ORIGIN, values);
    }
    if let Some(project) = &filter.project {
        let (project, needs) = (project.full_name(), filter.needs_person);
        let values = values![after, limit, project, action, phase, state, needs];
        return (PLANS_BY_PROJECT, values);
    }
    if filter.needs_person {
        return (
            PLANS_NEEDING_A_PERSON,
            values![after, limit, action, phase, state],
        );
    }
    if action.is_some() {
        return (PLANS_BY_ACTION, values![after, limit, action, phase, state]);
    }
    if phase.is_none() && state.is_none() {
        return (PLANS, values![after, limit]);
    }
    let pairs = Phase::ALL
        .into_iter()
        .flat_map(|phase| StateName::ALL.map(|state| (phase, state)));
    let (phases, states): (Vec<String>, Vec<String>) = pairs
        .filter(|(phase, state)| {
            filter.phase.is_none_or(|wanted| wanted == *phase)
                && filter.state.is_none_or(|wanted| wanted == *state)
        })
        .map(|(phase, state)| (phase.as_str().to_owned(), state.as_str().to_owned()))
        .unzip();
    (PLANS_BY_STATE, values![after, limit, phases, states])
}

fn decode_due_plan(row: RowColumns<'_>) -> Result<DuePlan, StoreError> {
    Ok(DuePlan {
        due_at: Timestamp(row.get(0)?),
        plan_id: row.parse_text(1)?,
    })
}

/// Decodes the first column of each row.
fn decode_json_rows<T: DeserializeOwned>(rows: &[Row], place: &str) -> Result<Vec<T>, StoreError> {
    map_columns(rows, place)
        .map(|row| row.decode_json(0))
        .collect()
}

fn map_columns<'a>(rows: &'a [Row], place: &'a str) -> impl Iterator<Item = RowColumns<'a>> {
    rows.iter().map(move |row| RowColumns::new(row, place))
}
