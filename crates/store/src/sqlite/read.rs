//! Reading: each call takes a connection of its own and reads in one snapshot.

use plan::changeset::{Changeset, Entry};
use plan::id::NotAnId;
use plan::invariant::{RuleBook, Scope};
use plan::judgement::Evidence;
use plan::ledger::Ledger;
use plan::stage::StateName;
use plan::{Action, Name, Phase, PlanId, Project, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::connection;
use super::rows::{self, all, digest, json, lease, one};
use super::statements as sql;
use super::tail::latest;
use super::wrong::Wrong;
use crate::{Agenda, Due, PlanFilter, PlanRow, Read, Snapshot, StoreError};

/// Behind every id: they are made of digits and upper-case letters.
const BEHIND_EVERY_ID: &str = "~";

/// Largest page.
const LARGEST_PAGE: usize = 1000;

impl Read for SqliteStore {
    fn plan(&self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        self.read(None, |connection| plan_row(connection, id))
    }

    fn plans(
        &self,
        filter: &PlanFilter,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, StoreError> {
        self.read(Vec::new(), |connection| {
            let ids = plan_ids(connection, filter, after, page(limit))?;
            let rows = ids.into_iter().map(|id| plan_row(connection, id));
            rows.filter_map(Result::transpose).collect()
        })
    }

    fn plans_like(&self, fragment: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let reversed: String = fragment.chars().rev().collect();
        self.read(Vec::new(), |connection| {
            let find = |statement, fragment: &str| {
                let behind = format!("{fragment}{BEHIND_EVERY_ID}");
                ids(
                    connection,
                    statement,
                    params![fragment, behind, page(limit)],
                )
            };
            let mut found = find(sql::PLAN_IDS_BY_START, fragment)?;
            found.extend(find(sql::PLAN_IDS_BY_END, &reversed)?);
            found.sort_unstable();
            found.dedup();
            found.truncate(page(limit));
            Ok(found)
        })
    }

    fn due(&self, phase: Phase, after: Option<Due>, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.due_by(sql::DUE, phase, after, limit)
    }

    fn claimable(
        &self,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.due_by(sql::CLAIMABLE, phase, after, limit)
    }

    fn agenda(&self, limit: usize) -> Result<Agenda, StoreError> {
        let now = self.options.clock.now();
        self.read(Agenda::NOTHING, |connection| {
            let due = Agenda::PHASES.map(|phase| {
                let due = due_rows(connection, sql::DUE, now, phase, None, limit);
                due.map(|due| (phase, due))
            });
            Ok(Agenda {
                latest: latest(connection)?,
                due: due.into_iter().collect::<Result<_, _>>()?,
            })
        })
    }

    fn expired(&self, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let now = self.options.clock.now().0;
        self.read(Vec::new(), |connection| {
            ids(connection, sql::EXPIRED, params![now, page(limit)])
        })
    }

    fn snapshot(&self, id: PlanId) -> Result<Option<Snapshot>, StoreError> {
        self.read(None, |connection| {
            let Some(row) = plan_row(connection, id)? else {
                return Ok(None);
            };
            let action = match &row.plan.action {
                Some(name) => rows::action(connection, name)?,
                None => None,
            };
            let scopes = row.plan.scopes();
            Ok(Some(Snapshot {
                action,
                rules: rules_of(connection, &scopes)?,
                evidence: evidence(connection, id, row.plan.entry(Phase::Execute))?,
                row,
            }))
        })
    }

    fn action(&self, name: &Name) -> Result<Option<Action>, StoreError> {
        self.read(None, |connection| rows::action(connection, name))
    }

    fn actions(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Action>, StoreError> {
        let after = after.map_or("", Name::full);
        self.read(Vec::new(), |connection| {
            all(
                connection,
                sql::ACTIONS,
                params![after, page(limit)],
                |row| json(row.get_ref(0)?),
            )
        })
    }

    fn project(&self, name: &Name) -> Result<Option<Project>, StoreError> {
        self.read(None, |connection| rows::project(connection, name))
    }

    fn projects(&self, after: Option<&Name>, limit: usize) -> Result<Vec<Project>, StoreError> {
        let after = after.map_or("", Name::full);
        self.read(Vec::new(), |connection| {
            all(
                connection,
                sql::PROJECTS,
                params![after, page(limit)],
                |row| json(row.get_ref(0)?),
            )
        })
    }

    fn rules(&self, scopes: &[Scope]) -> Result<RuleBook, StoreError> {
        self.read(RuleBook::default(), |connection| {
            if scopes.is_empty() {
                all_rules(connection)
            } else {
                rules_of(connection, scopes)
            }
        })
    }

    fn changesets(&self, plan: PlanId) -> Result<Vec<(Changeset, Vec<Entry>)>, StoreError> {
        self.read(Vec::new(), |connection| {
            let changesets: Vec<Changeset> =
                all(connection, sql::CHANGESETS, [plan.to_string()], |row| {
                    json(row.get_ref(0)?)
                })?;
            changesets
                .into_iter()
                .map(|changeset| {
                    let entries = rows::entries(connection, changeset.id)?;
                    Ok((changeset, entries))
                })
                .collect()
        })
    }

    fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        self.read(Ledger::default(), |connection| {
            rows::ledger(connection, plan)
        })
    }

    fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.options.clock.now())
    }
}

impl SqliteStore {
    fn due_by(
        &self,
        statement: &'static str,
        phase: Phase,
        after: Option<Due>,
        limit: usize,
    ) -> Result<Vec<Due>, StoreError> {
        let now = self.options.clock.now();
        self.read(Vec::new(), |connection| {
            due_rows(connection, statement, now, phase, after, limit)
        })
    }

    /// Reads in one snapshot. A store that does not exist yet, or was never written to, is `empty`.
    pub(super) fn read<T>(
        &self,
        empty: T,
        read: impl FnOnce(&Connection) -> Result<T, Wrong>,
    ) -> Result<T, StoreError> {
        self.try_read(empty, read)
            .map_err(|wrong| wrong.at(self.place.shown()))
    }

    fn try_read<T>(
        &self,
        empty: T,
        read: impl FnOnce(&Connection) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let Some(reader) = self.readers.take(&self.place)? else {
            return Ok(empty);
        };
        let snapshot = connection::Snapshot::begin(&reader, self.known_schema())?;
        let found = match snapshot {
            Some(_) => read(&reader.connection)?,
            None => empty,
        };
        drop(snapshot);
        self.readers.give_back(reader);
        Ok(found)
    }
}

/// Pages are bounded whatever is asked for.
pub(super) fn page(limit: usize) -> usize {
    limit.clamp(1, LARGEST_PAGE)
}

fn due_rows(
    connection: &Connection,
    statement: &'static str,
    now: Timestamp,
    phase: Phase,
    after: Option<Due>,
    limit: usize,
) -> Result<Vec<Due>, Wrong> {
    let (behind_at, behind_id) = Due::behind(after);
    let values = params![phase.as_str(), now.0, behind_at, behind_id, page(limit)];
    all(connection, statement, values, |row| {
        Ok(Due {
            due_at: Timestamp(row.get(0)?),
            plan: id(row.get_ref(1)?)?,
        })
    })
}

fn plan_row(connection: &Connection, id: PlanId) -> Result<Option<PlanRow>, Wrong> {
    one(connection, sql::PLAN_ROW, [id.to_string()], |row| {
        let verdict = row.get_ref(5)?;
        Ok(PlanRow {
            plan: json(row.get_ref(0)?)?,
            head: digest(row.get_ref(1)?)?,
            lease: lease(id, row, 2)?,
            verdict: match verdict {
                ValueRef::Null => None,
                verdict => Some(json(verdict)?),
            },
        })
    })
}

/// The ids of a page, newest first, by the index that fits what is asked for.
fn plan_ids(
    connection: &Connection,
    filter: &PlanFilter,
    after: Option<PlanId>,
    limit: usize,
) -> Result<Vec<PlanId>, Wrong> {
    let before = after.map_or(BEHIND_EVERY_ID.to_owned(), |id| id.to_string());
    let phase = filter.phase.map(Phase::as_str);
    let state = filter.state.map(StateName::as_str);
    let action = filter.action.as_ref().map(Name::full);
    if let Some(project) = &filter.project {
        let needs = filter.needs_person;
        let values = params![project.full(), before, action, phase, state, needs, limit];
        return ids(connection, sql::PLAN_IDS_BY_PROJECT, values);
    }
    if filter.needs_person {
        let values = params![before, action, phase, state, limit];
        return ids(connection, sql::PLAN_IDS_NEEDING_A_PERSON, values);
    }
    if action.is_some() {
        let values = params![action, before, phase, state, limit];
        return ids(connection, sql::PLAN_IDS_BY_ACTION, values);
    }
    if phase.is_none() && state.is_none() {
        return ids(connection, sql::PLAN_IDS, params![before, limit]);
    }
    // The index is ordered within one phase and state. Where only one of the two is given, a page
    // of each that fits is read, and the newest of all are the page.
    let mut found = Vec::new();
    for each_phase in Phase::ALL.iter().map(|each| each.as_str()) {
        for each_state in StateName::ALL.iter().map(|each| each.as_str()) {
            if phase.is_none_or(|phase| phase == each_phase)
                && state.is_none_or(|state| state == each_state)
            {
                let values = params![each_phase, each_state, before, limit];
                found.extend(ids(connection, sql::PLAN_IDS_BY_STAGE, values)?);
            }
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.truncate(limit);
    Ok(found)
}

fn ids(
    connection: &Connection,
    statement: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<PlanId>, Wrong> {
    all(connection, statement, values, |row| id(row.get_ref(0)?))
}

fn id(value: ValueRef<'_>) -> Result<PlanId, Wrong> {
    let id = value.as_str()?.parse();
    id.map_err(|error: NotAnId| Wrong::Corrupt(error.to_string()))
}

fn rules_of(connection: &Connection, scopes: &[Scope]) -> Result<RuleBook, Wrong> {
    let mut book = RuleBook::default();
    for scope in scopes {
        rows::add_rules_of(connection, scope, &mut book)?;
    }
    rows::sort_rules(&mut book);
    Ok(book)
}

fn all_rules(connection: &Connection) -> Result<RuleBook, Wrong> {
    let revisions = all(connection, sql::ALL_SCOPE_REVISIONS, [], |row| {
        let scope: Result<Scope, String> = row.get_ref(0)?.as_str()?.parse();
        Ok((scope.map_err(Wrong::Corrupt)?, row.get(1)?))
    })?;
    let mut book = RuleBook {
        revisions: revisions.into_iter().collect(),
        rules: all(connection, sql::ALL_RULES, [], |row| json(row.get_ref(0)?))?,
    };
    rows::sort_rules(&mut book);
    Ok(book)
}

fn evidence(connection: &Connection, plan: PlanId, entry: u32) -> Result<Vec<Evidence>, Wrong> {
    let mut found: Vec<Evidence> = all(
        connection,
        sql::EVIDENCE,
        params![plan.to_string(), entry],
        |row| json(row.get_ref(0)?),
    )?;
    found.sort_by(Evidence::in_order);
    Ok(found)
}
