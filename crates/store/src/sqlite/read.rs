//! Reads: each call takes a connection from the pool and reads in one snapshot.

use plan::changeset::{Changeset, ChangesetEntry};
use plan::id::NotAnId;
use plan::invariant::{RuleBook, RuleScope};
use plan::judgement::RuleEvidence;
use plan::ledger::BudgetLedger;
use plan::review::PlanReview;
use plan::stage::StateName;
use plan::{Action, Phase, PlanId, Project, QualifiedName, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::connection;
use super::error::SqliteError;
use super::rows::{
    self, decode_digest, decode_json, decode_lease, decode_plan_columns, select_all, select_first,
};
use super::statements as sql;
use super::tail::select_latest_cursor;
use crate::{DuePlan, DueQueues, PlanFilter, PlanRow, PlanSnapshot, StoreError, StoreReader};

/// Sorts after every id: ids consist of digits and upper-case letters.
const AFTER_EVERY_ID: &str = "~";

const MAX_PAGE_SIZE: usize = 1000;

impl StoreReader for SqliteStore {
    fn read_plan(&self, plan_id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        self.read_snapshot_or(None, |connection| select_plan_row(connection, plan_id))
    }

    fn list_plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        self.read_snapshot_or(Vec::new(), |connection| {
            let ids = select_plan_id_page(connection, filter, after, clamp_page_size(limit))?;
            let rows = ids.into_iter().map(|id| select_plan_row(connection, id));
            rows.filter_map(Result::transpose).collect()
        })
    }

    fn find_plan_ids(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let reversed: String = fragment.chars().rev().collect();
        self.read_snapshot_or(Vec::new(), |connection| {
            let find = |statement, fragment: &str| {
                let behind = format!("{fragment}{AFTER_EVERY_ID}");
                select_plan_ids(
                    connection,
                    statement,
                    params![fragment, behind, clamp_page_size(limit)],
                )
            };
            let mut found = find(sql::PLAN_IDS_BY_START, fragment)?;
            found.extend(find(sql::PLAN_IDS_BY_END, &reversed)?);
            found.sort_unstable();
            found.dedup();
            found.truncate(clamp_page_size(limit));
            Ok(found)
        })
    }

    fn list_due_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.query_due_plans(sql::DUE_PLANS, phase, after, limit)
    }

    fn list_claimable_plans(
        &self,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        self.query_due_plans(sql::CLAIMABLE_PLANS, phase, after, limit)
    }

    fn read_due_queues(&self, limit: usize) -> Result<DueQueues, StoreError> {
        let now = self.options.clock.now();
        self.read_snapshot_or(DueQueues::EMPTY, |connection| {
            let due = DueQueues::PHASE_ORDER.map(|phase| {
                let due = select_due_plans(connection, sql::DUE_PLANS, now, phase, None, limit);
                due.map(|due| (phase, due))
            });
            Ok(DueQueues {
                latest_cursor: select_latest_cursor(connection)?,
                queues: due.into_iter().collect::<Result<_, _>>()?,
            })
        })
    }

    fn list_expired_leases(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let now = self.options.clock.now().0;
        self.read_snapshot_or(Vec::new(), |connection| {
            select_plan_ids(
                connection,
                sql::EXPIRED_LEASES,
                params![now, clamp_page_size(limit)],
            )
        })
    }

    fn read_snapshot(&self, plan_id: PlanId) -> Result<Option<PlanSnapshot>, StoreError> {
        self.read_snapshot_or(None, |connection| {
            let Some(row) = select_plan_row(connection, plan_id)? else {
                return Ok(None);
            };
            let action = match row.plan.action() {
                Some(name) => rows::select_action(connection, name)?,
                None => None,
            };
            let scopes = row.plan.rule_scopes();
            Ok(Some(PlanSnapshot {
                action,
                rules: select_rules(connection, &scopes)?,
                evidence: select_evidence(
                    connection,
                    plan_id,
                    row.plan.entry_number(Phase::Execute),
                )?,
                row,
            }))
        })
    }

    fn read_action(&self, name: &QualifiedName) -> Result<Option<Action>, StoreError> {
        self.read_snapshot_or(None, |connection| rows::select_action(connection, name))
    }

    fn list_actions(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError> {
        let after = after.map_or("", QualifiedName::full_name);
        self.read_snapshot_or(Vec::new(), |connection| {
            select_all(
                connection,
                sql::ACTIONS,
                params![after, clamp_page_size(limit)],
                |row| decode_json(row.get_ref(0)?),
            )
        })
    }

    fn read_project(&self, name: &QualifiedName) -> Result<Option<Project>, StoreError> {
        self.read_snapshot_or(None, |connection| rows::select_project(connection, name))
    }

    fn list_projects(
        &self,
        after: Option<&QualifiedName>,
        limit: usize,
    ) -> Result<Vec<Project>, StoreError> {
        let after = after.map_or("", QualifiedName::full_name);
        self.read_snapshot_or(Vec::new(), |connection| {
            select_all(
                connection,
                sql::PROJECTS,
                params![after, clamp_page_size(limit)],
                |row| decode_json(row.get_ref(0)?),
            )
        })
    }

    fn read_rules(&self, scopes: &[RuleScope]) -> Result<RuleBook, StoreError> {
        self.read_snapshot_or(RuleBook::default(), |connection| {
            if scopes.is_empty() {
                select_all_rules(connection)
            } else {
                select_rules(connection, scopes)
            }
        })
    }

    fn list_changesets(
        &self,
        plan_id: PlanId,
    ) -> Result<Vec<(Changeset, Vec<ChangesetEntry>)>, StoreError> {
        self.read_snapshot_or(Vec::new(), |connection| {
            let changesets: Vec<Changeset> =
                select_all(connection, sql::CHANGESETS, [plan_id.to_string()], |row| {
                    decode_json(row.get_ref(0)?)
                })?;
            changesets
                .into_iter()
                .map(|changeset| {
                    let entries = rows::select_entries(connection, changeset.id)?;
                    Ok((changeset, entries))
                })
                .collect()
        })
    }

    fn read_ledger(&self, plan_id: PlanId) -> Result<BudgetLedger, StoreError> {
        self.read_snapshot_or(BudgetLedger::default(), |connection| {
            rows::select_ledger(connection, plan_id)
        })
    }

    fn list_reviews(&self, plan_id: PlanId) -> Result<Vec<PlanReview>, StoreError> {
        self.read_snapshot_or(Vec::new(), |connection| {
            rows::select_reviews(connection, plan_id)
        })
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.options.clock.now())
    }
}

impl SqliteStore {
    fn query_due_plans(
        &self,
        statement: &'static str,
        phase: Phase,
        after: Option<DuePlan>,
        limit: usize,
    ) -> Result<Vec<DuePlan>, StoreError> {
        let now = self.options.clock.now();
        self.read_snapshot_or(Vec::new(), |connection| {
            select_due_plans(connection, statement, now, phase, after, limit)
        })
    }

    /// Reads in one snapshot. Returns `empty` if the store does not exist or was never written.
    pub(super) fn read_snapshot_or<T>(
        &self,
        empty: T,
        read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
    ) -> Result<T, StoreError> {
        self.try_read_snapshot(empty, read)
            .map_err(|error| error.into_store_error(self.file.display_path()))
    }

    fn try_read_snapshot<T>(
        &self,
        empty: T,
        read: impl FnOnce(&Connection) -> Result<T, SqliteError>,
    ) -> Result<T, SqliteError> {
        let Some(reader) = self.readers.take_reader(&self.file)? else {
            return Ok(empty);
        };
        let snapshot =
            connection::ReadTransaction::begin(&reader, self.supported_schema_version())?;
        let found = match snapshot {
            Some(_) => read(&reader.connection)?,
            None => empty,
        };
        drop(snapshot);
        self.readers.return_reader(reader);
        Ok(found)
    }
}

pub(super) fn clamp_page_size(limit: usize) -> usize {
    limit.clamp(1, MAX_PAGE_SIZE)
}

fn select_due_plans(
    connection: &Connection,
    statement: &'static str,
    now: Timestamp,
    phase: Phase,
    after: Option<DuePlan>,
    limit: usize,
) -> Result<Vec<DuePlan>, SqliteError> {
    let (behind_at, behind_id) = DuePlan::sort_key_after(after);
    let values = params![
        phase.as_str(),
        now.0,
        behind_at,
        behind_id,
        clamp_page_size(limit)
    ];
    select_all(connection, statement, values, |row| {
        Ok(DuePlan {
            due_at: Timestamp(row.get(0)?),
            plan_id: parse_plan_id(row.get_ref(1)?)?,
        })
    })
}

fn select_plan_row(connection: &Connection, id: PlanId) -> Result<Option<PlanRow>, SqliteError> {
    select_first(connection, sql::PLAN_ROW, [id.to_string()], |row| {
        let verdict = row.get_ref(6)?;
        Ok(PlanRow {
            plan: decode_plan_columns(row)?,
            head: decode_digest(row.get_ref(2)?)?,
            lease: decode_lease(id, row, 3)?,
            verdict: match verdict {
                ValueRef::Null => None,
                verdict => Some(decode_json(verdict)?),
            },
        })
    })
}

/// Returns the ids of a page, newest first, using the index that fits the filter.
fn select_plan_id_page(
    connection: &Connection,
    filter: &PlanFilter,
    after: Option<PlanId>,
    limit: usize,
) -> Result<Vec<PlanId>, SqliteError> {
    let before = after.map_or(AFTER_EVERY_ID.to_owned(), |id| id.to_string());
    let phase = filter.phase.map(Phase::as_str);
    let state = filter.state.map(StateName::as_str);
    let action = filter.action.as_ref().map(QualifiedName::full_name);
    if let Some(origin) = filter.origin {
        let project = filter.project.as_ref().map(QualifiedName::full_name);
        let values = params![
            origin.to_string(),
            before,
            action,
            phase,
            state,
            filter.needs_person,
            project,
            limit
        ];
        return select_plan_ids(connection, sql::PLAN_IDS_BY_ORIGIN, values);
    }
    if let Some(project) = &filter.project {
        let needs = filter.needs_person;
        let values = params![
            project.full_name(),
            before,
            action,
            phase,
            state,
            needs,
            limit
        ];
        return select_plan_ids(connection, sql::PLAN_IDS_BY_PROJECT, values);
    }
    if filter.needs_person {
        let values = params![before, action, phase, state, limit];
        return select_plan_ids(connection, sql::PLAN_IDS_NEEDING_A_PERSON, values);
    }
    if action.is_some() {
        let values = params![action, before, phase, state, limit];
        return select_plan_ids(connection, sql::PLAN_IDS_BY_ACTION, values);
    }
    if phase.is_none() && state.is_none() {
        return select_plan_ids(connection, sql::PLAN_IDS, params![before, limit]);
    }
    // The index is sorted within one phase and state. If only one of them is given, this reads a
    // page of each combination and keeps the newest.
    let mut found = Vec::new();
    for each_phase in Phase::ALL.iter().map(|each| each.as_str()) {
        for each_state in StateName::ALL.iter().map(|each| each.as_str()) {
            if phase.is_none_or(|phase| phase == each_phase)
                && state.is_none_or(|state| state == each_state)
            {
                let values = params![each_phase, each_state, before, limit];
                found.extend(select_plan_ids(connection, sql::PLAN_IDS_BY_STAGE, values)?);
            }
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.truncate(limit);
    Ok(found)
}

fn select_plan_ids(
    connection: &Connection,
    statement: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<PlanId>, SqliteError> {
    select_all(connection, statement, values, |row| {
        parse_plan_id(row.get_ref(0)?)
    })
}

fn parse_plan_id(value: ValueRef<'_>) -> Result<PlanId, SqliteError> {
    let id = value.as_str()?.parse();
    id.map_err(|error: NotAnId| SqliteError::Corrupt(error.to_string()))
}

fn select_rules(connection: &Connection, scopes: &[RuleScope]) -> Result<RuleBook, SqliteError> {
    let mut book = RuleBook::default();
    for scope in scopes {
        rows::add_scope_rules(connection, scope, &mut book)?;
    }
    rows::sort_rules(&mut book);
    Ok(book)
}

fn select_all_rules(connection: &Connection) -> Result<RuleBook, SqliteError> {
    let revisions = select_all(connection, sql::ALL_SCOPE_REVISIONS, [], |row| {
        let scope: Result<RuleScope, String> = row.get_ref(0)?.as_str()?.parse();
        Ok((scope.map_err(SqliteError::Corrupt)?, row.get(1)?))
    })?;
    let mut book = RuleBook {
        revisions: revisions.into_iter().collect(),
        rules: select_all(connection, sql::ALL_RULES, [], |row| {
            decode_json(row.get_ref(0)?)
        })?,
    };
    rows::sort_rules(&mut book);
    Ok(book)
}

fn select_evidence(
    connection: &Connection,
    plan: PlanId,
    entry: u32,
) -> Result<Vec<RuleEvidence>, SqliteError> {
    let mut found: Vec<RuleEvidence> = select_all(
        connection,
        sql::EVIDENCE,
        params![plan.to_string(), entry],
        |row| decode_json(row.get_ref(0)?),
    )?;
    found.sort_by(RuleEvidence::compare_by_rule);
    Ok(found)
}
