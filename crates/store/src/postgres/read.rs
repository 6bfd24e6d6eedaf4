//! Reading. Every call is one read-only transaction with one snapshot, in one round trip; the schema
//! is checked in the same snapshot.

use std::collections::BTreeMap;

use plan::changeset::{Changeset, Entry};
use plan::invariant::{RuleBook, Scope};
use plan::judgement::Evidence;
use plan::ledger::Ledger;
use plan::phase::Phase;
use plan::stage::StateName;
use plan::{Action, ChangesetId, Name, PlanId, Project, Timestamp};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::connection::{Call, Connection};
use super::migrate::{look, read_version, require_current};
use super::pipeline::values;
use super::rows::{self, Columns, cursor, entry, plan_row, rule_book};
use super::statements::{
    ACCOUNTS, ACTION, ACTIONS, CHANGESETS, CLAIMABLE, DUE, ENTRIES, EVIDENCE, EXPIRED,
    LATEST_EVENT, NOW, PLAN, PLANS, PLANS_BY_ACTION, PLANS_BY_PROJECT, PLANS_BY_STATE, PLANS_LIKE,
    PLANS_NEEDING_A_PERSON, PROJECT, PROJECTS, RESERVATIONS, RULES, RULES_OF, SCHEMA, SCOPES,
    SCOPES_OF,
};
use super::tail::page;
use super::trouble::{Trouble, corrupt};
use super::{PostgresStore, Shared};
use crate::{Agenda, Cursor, Due, PlanFilter, PlanRow, Read, Snapshot, StoreError};

/// Sorts behind every id.
const BEHIND_ALL: &str = "~";

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

impl Read for PostgresStore {
    fn plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        let rows = self
            .shared
            .read(|_| vec![(PLAN, values![id.to_string()])])?;
        self.first(rows, plan_row)
    }

    fn plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        let rows = self
            .shared
            .read(|_| vec![page_of_plans(filter, after, limit)])?;
        self.all(rows, plan_row)
    }

    fn plans_like(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let reversed: String = fragment.chars().rev().collect();
        let rows = self.shared.read(|_| {
            vec![(
                PLANS_LIKE,
                values![fragment, reversed.as_str(), page(limit)],
            )]
        })?;
        self.all(rows, |row| row.parsed(0))
    }

    fn due(&self, phase: Phase, after: Option<Due>, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.due_by(DUE, phase, after, limit)
    }

    fn claimable(
        &self,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.due_by(CLAIMABLE, phase, after, limit)
    }

    fn agenda(&self, limit: usize) -> Result<Agenda, StoreError> {
        let rows = self.shared.read(|connection| {
            let due = Agenda::PHASES.map(|phase| {
                let (behind_at, behind_id) = Due::behind(None);
                let values = values![phase.as_str(), behind_at, behind_id, page(limit)];
                (DUE, values)
            });
            let mut calls = vec![(LATEST_EVENT, values![connection.system])];
            calls.extend(due);
            calls
        })?;
        let Some([latest, due @ ..]) = rows.as_deref() else {
            return Ok(Agenda::NOTHING);
        };
        let place = self.shared.place();
        let latest = columns(latest, place).next().map(cursor).transpose()?;
        let due = Agenda::PHASES.into_iter().zip(due);
        let due = due.map(|(phase, rows)| {
            let due: Result<_, StoreError> = columns(rows, place).map(a_due).collect();
            due.map(|due| (phase, due))
        });
        Ok(Agenda {
            latest: latest.unwrap_or(Cursor::START),
            due: due.collect::<Result<_, _>>()?,
        })
    }

    fn expired(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let rows = self
            .shared
            .read(|_| vec![(EXPIRED, values![page(limit)])])?;
        self.all(rows, |row| row.parsed(0))
    }

    fn snapshot(&self, id: PlanId) -> Result<Option<Snapshot>, StoreError> {
        let read = self.shared.in_snapshot(|connection, place| {
            // What else is to be read stands in the plan: two round trips, one snapshot.
            let plan = vec![(PLAN, values![id.to_string()])];
            let rows = begin(connection, place, plan, None)?;
            let Some(row) = rows[0].first() else {
                connection.batch("COMMIT")?;
                return Ok(None);
            };
            let row = plan_row(Columns::of(row, place)).map_err(Trouble::Final)?;
            let scopes: Vec<String> = row.plan.scopes().iter().map(ToString::to_string).collect();
            let action = row.plan.action.as_ref().map(Name::full);
            let entry = i64::from(row.plan.entry(Phase::Execute));
            let calls = vec![
                (ACTION, values![action]),
                (SCOPES_OF, values![scopes.clone()]),
                (RULES_OF, values![scopes]),
                (EVIDENCE, values![id.to_string(), entry]),
            ];
            let rows = connection.rows(None, calls, Some("COMMIT"))?;
            snapshot(row.clone(), &rows, place)
                .map(Some)
                .map_err(Trouble::Final)
        })?;
        Ok(read.flatten())
    }

    fn action(&self, name: &Name) -> Result<Option<Action>, StoreError> {
        let rows = self.shared.read(|_| vec![(ACTION, values![name.full()])])?;
        self.first(rows, |row| row.json(0))
    }

    fn actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, StoreError> {
        let after = after.map_or("", Name::full);
        let rows = self
            .shared
            .read(|_| vec![(ACTIONS, values![after, page(limit)])])?;
        self.all(rows, |row| row.json(0))
    }

    fn project(&self, name: &Name) -> Result<Option<Project>, StoreError> {
        let rows = self
            .shared
            .read(|_| vec![(PROJECT, values![name.full()])])?;
        self.first(rows, |row| row.json(0))
    }

    fn projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let after = after.map_or("", Name::full);
        let rows = self
            .shared
            .read(|_| vec![(PROJECTS, values![after, page(limit)])])?;
        self.all(rows, |row| row.json(0))
    }

    fn rules(&self, scopes: &[Scope]) -> Result<RuleBook, StoreError> {
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let rows = self.shared.read(|_| {
            if scopes.is_empty() {
                vec![(SCOPES, values![]), (RULES, values![])]
            } else {
                vec![
                    (SCOPES_OF, values![scopes.clone()]),
                    (RULES_OF, values![scopes.clone()]),
                ]
            }
        })?;
        match rows.as_deref() {
            Some([revisions, rules]) => {
                let place = self.shared.place();
                rule_book(columns(revisions, place), all_json(rules, place)?)
            }
            _ => Ok(RuleBook::default()),
        }
    }

    fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, StoreError> {
        let rows = self.shared.read(|_| {
            vec![
                (CHANGESETS, values![plan.to_string()]),
                (ENTRIES, values![plan.to_string()]),
            ]
        })?;
        let Some([changesets, entries]) = rows.as_deref() else {
            return Ok(Vec::new());
        };
        let place = self.shared.place();
        let mut by_changeset: BTreeMap<ChangesetId, Vec<Entry>> = BTreeMap::new();
        for row in columns(entries, place) {
            let (changeset, entry) = entry(row)?;
            by_changeset.entry(changeset).or_default().push(entry);
        }
        columns(changesets, place)
            .map(|row| {
                let changeset: Changeset = row.json(0)?;
                let entries = by_changeset.remove(&changeset.id).unwrap_or_default();
                Ok((changeset, entries))
            })
            .collect()
    }

    fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        let rows = self.shared.read(|_| {
            vec![
                (ACCOUNTS, values![rows::account_names(plan)]),
                (RESERVATIONS, values![plan.to_string()]),
            ]
        })?;
        let Some([accounts, reservations]) = rows.as_deref() else {
            return Ok(Ledger::default());
        };
        let place = self.shared.place();
        rows::ledger(columns(accounts, place), columns(reservations, place))
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        let shared = &self.shared;
        shared.with_connection(|connection, place| {
            let rows = connection.query(NOW, values![])?;
            match rows.first() {
                Some(row) => Columns::of(row, place).moment(0).map_err(Trouble::Final),
                None => Err(Trouble::Final(corrupt(place, "the server has no clock"))),
            }
        })
    }
}

impl PostgresStore {
    fn due_by(
        &self,
        statement: &'static str,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let (behind_at, behind_id) = Due::behind(after);
        let rows = self.shared.read(|_| {
            vec![(
                statement,
                values![phase.as_str(), behind_at, behind_id.as_str(), page(limit)],
            )]
        })?;
        self.all(rows, a_due)
    }

    fn first<T>(
        &self,
        rows: Option<Vec<Vec<Row>>>,
        decode: impl Fn(Columns<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(rows, decode)?.into_iter().next())
    }

    /// The rows of the one statement there was; none if there is no store.
    fn all<T>(
        &self,
        rows: Option<Vec<Vec<Row>>>,
        decode: impl Fn(Columns<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = rows.and_then(|mut rows| rows.pop()).unwrap_or_default();
        columns(&rows, self.shared.place()).map(decode).collect()
    }
}

impl Shared {
    /// The rows of some statements, all from one snapshot; `None` if there is no store.
    pub(super) fn read<'a>(
        &self,
        calls: impl Fn(&Connection) -> Vec<Call<'a>>,
    ) -> Result<Option<Vec<Vec<Row>>>, StoreError> {
        self.in_snapshot(|connection, place| {
            let calls = calls(connection);
            let mut rows = begin(connection, place, calls, Some("COMMIT"))?;
            rows.pop();
            Ok(rows)
        })
    }

    /// What `read` reads; `None` if there is no store. `read` ends the transaction it begins.
    pub(super) fn in_snapshot<T>(
        &self,
        read: impl Fn(&mut Connection, &str) -> Result<T, Trouble>,
    ) -> Result<Option<T>, StoreError> {
        self.with_connection(|connection, place| match read(connection, place) {
            Ok(value) => Ok(Some(value)),
            Err(Trouble::Schema(error)) => {
                connection.batch("ROLLBACK")?;
                match look(connection, place)? {
                    None => Ok(None),
                    Some(found) => {
                        require_current(place, found).map_err(Trouble::Final)?;
                        // It was set up since we looked; or it is not what its version says.
                        Err(Trouble::Collision(error))
                    }
                }
            }
            Err(trouble) => Err(trouble),
        })
    }

    /// Does something that changes nothing, and again if that helps.
    pub(super) fn with_connection<T>(
        &self,
        work: impl Fn(&mut Connection, &str) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let (mut attempt, mut outdated) = (1, 1);
        let mut lost = false;
        loop {
            let mut connection = if lost {
                self.pool.lend_after_loss()?
            } else {
                self.pool.lend()?
            };
            match work(&mut connection, self.place()) {
                Ok(value) => {
                    connection.put_back();
                    return Ok(value);
                }
                Err(Trouble::Lost(error)) if lost => return Err(error),
                Err(Trouble::Lost(_)) => lost = true,
                Err(Trouble::Collision(_)) if attempt < 3 => attempt += 1,
                // Each connection learns it for itself, and each of them is closed after that.
                Err(Trouble::Outdated(_)) if outdated < 100 => outdated += 1,
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
    }
}

/// Begins a snapshot and reads in it; the rows of each call and of what comes last.
pub(super) fn begin(
    connection: &mut Connection,
    place: &str,
    mut calls: Vec<Call<'_>>,
    last: Option<&'static str>,
) -> Result<Vec<Vec<Row>>, Trouble> {
    calls.insert(0, (SCHEMA, values![]));
    let mut rows = connection.rows(Some(BEGIN), calls, last)?;
    require_schema(&rows[1], place)?;
    rows.drain(..2);
    Ok(rows)
}

fn require_schema(rows: &[Row], place: &str) -> Result<(), Trouble> {
    let version = match rows.first() {
        Some(row) => read_version(Columns::of(row, place)),
        None => Err(corrupt(place, "the table of the schema's version is empty")),
    };
    version
        .and_then(|version| require_current(place, version))
        .map_err(Trouble::Final)
}

fn snapshot(row: PlanRow, rows: &[Vec<Row>], place: &str) -> Result<Snapshot, StoreError> {
    let [action, revisions, rules, evidence, _] = rows else {
        return Err(corrupt(place, "BUG: four statements, four answers"));
    };
    let mut evidence: Vec<Evidence> = all_json(evidence, place)?;
    evidence.sort_by(Evidence::in_order);
    Ok(Snapshot {
        action: columns(action, place)
            .next()
            .map(|row| row.json(0))
            .transpose()?,
        rules: rule_book(columns(revisions, place), all_json(rules, place)?)?,
        evidence,
        row,
    })
}

/// The statement whose index narrows most.
fn page_of_plans<'a>(filter: &'a PlanFilter, after: Option<PlanId>, limit: usize) -> Call<'a> {
    let after = after.map_or_else(|| BEHIND_ALL.to_owned(), |after| after.to_string());
    let action = filter.action.as_ref().map(Name::full);
    let phase = filter.phase.map(Phase::as_str);
    let state = filter.state.map(StateName::as_str);
    let limit = page(limit);
    if let Some(project) = &filter.project {
        let (project, needs) = (project.full(), filter.needs_person);
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

fn a_due(row: Columns<'_>) -> Result<Due, StoreError> {
    Ok(Due {
        due_at: Timestamp(row.get(0)?),
        plan: row.parsed(1)?,
    })
}

/// The first column of each row, decoded.
fn all_json<T: DeserializeOwned>(rows: &[Row], place: &str) -> Result<Vec<T>, StoreError> {
    columns(rows, place).map(|row| row.json(0)).collect()
}

fn columns<'a>(rows: &'a [Row], place: &'a str) -> impl Iterator<Item = Columns<'a>> {
    rows.iter().map(move |row| Columns::of(row, place))
}
