//! The baseline for SQLite: a loop that writes the rows of the same transitions without reading or deciding anything,
//! one durable transaction each.
//!
//! The rows are recorded beforehand by running the transitions on a memory store.

use std::path::Path;
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Plan, PlanId, PlanVersion};
use rusqlite::{Connection, params};
use store::event_codec::encode_event;
use store::{MemoryStore, SqliteOptions, SqliteStore, StoreMaintenance};

use crate::workload::{ClaimReleaseCycle, StepwiseWorkflow, create_ready_plan};

/// The rows that one transition writes.
pub struct TransitionRows {
    pub plan: Plan,
    pub plan_body: String,
    pub events: Vec<EventRow>,
    pub head: Vec<u8>,
    pub lease: LeaseWrite,
}

/// How a transition changes the lease row.
pub enum LeaseWrite {
    Unchanged,
    Upsert {
        owner: String,
        epoch: i64,
        expires_at: i64,
    },
    Delete,
}

pub struct EventRow {
    pub version: i64,
    pub body: String,
    pub texts: Option<String>,
    pub hash: Vec<u8>,
}

impl TransitionRows {
    /// Whether this transition creates the plan.
    pub fn creates_plan(&self) -> bool {
        self.events.first().is_some_and(|event| event.version == 1)
    }

    pub fn writes_lease(&self) -> bool {
        matches!(self.lease, LeaseWrite::Upsert { .. })
    }

    pub fn due_at(&self) -> Option<i64> {
        self.plan
            .stage()
            .queue_entry()
            .map(|entry| entry.due_at().0)
    }

    /// Reads what the last transition wrote: the plan's row and its events after `version`. `was_leased` says whether
    /// the plan had a lease before.
    fn read_after(
        lifecycle: &Lifecycle,
        plan_id: PlanId,
        version: PlanVersion,
        was_leased: bool,
    ) -> Self {
        let row = lifecycle.get_plan(plan_id).unwrap();
        let events = lifecycle
            .store()
            .read_plan_events(plan_id, version, 100)
            .unwrap();
        Self {
            plan_body: serde_json::to_string(row.plan.state()).unwrap(),
            events: events
                .into_iter()
                .map(|event| EventRow {
                    version: i64::try_from(event.recorded.version.0).unwrap(),
                    texts: encode_event(&event.recorded, row.head).texts,
                    body: event.body,
                    hash: event.hash.as_bytes().to_vec(),
                })
                .collect(),
            head: row.head.as_bytes().to_vec(),
            lease: match row.lease {
                Some(lease) => LeaseWrite::Upsert {
                    epoch: i64::try_from(lease.epoch.0).unwrap(),
                    expires_at: lease.expires_at.0,
                    owner: lease.owner,
                },
                None if was_leased => LeaseWrite::Delete,
                None => LeaseWrite::Unchanged,
            },
            plan: row.plan,
        }
    }
}

/// The rows of `steps` claims and releases of one plan.
pub fn record_transitions(steps: usize) -> Vec<TransitionRows> {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let plan_id = create_ready_plan(&lifecycle);
    let mut cycle = ClaimReleaseCycle::new(&lifecycle, plan_id);
    let mut version = lifecycle.get_plan(plan_id).unwrap().plan.version();
    let mut transitions: Vec<TransitionRows> = Vec::new();
    for _ in 0..steps {
        cycle.run_step().unwrap();
        let was_leased = transitions.last().is_some_and(TransitionRows::writes_lease);
        let rows = TransitionRows::read_after(&lifecycle, plan_id, version, was_leased);
        version = rows.plan.version();
        transitions.push(rows);
    }
    transitions
}

/// The rows of a complete workflow.
pub fn record_workflow() -> Vec<TransitionRows> {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let mut workflow = StepwiseWorkflow::create_plan(&lifecycle).unwrap();
    let plan_id = workflow.plan_id();
    let mut last = TransitionRows::read_after(&lifecycle, plan_id, PlanVersion(0), false);
    let mut transitions = Vec::new();
    while workflow.run_step().unwrap() {
        let next = TransitionRows::read_after(
            &lifecycle,
            plan_id,
            last.plan.version(),
            last.writes_lease(),
        );
        transitions.push(std::mem::replace(&mut last, next));
    }
    transitions.push(last);
    transitions
}

/// Writes these rows to an empty store of the same schema, one transaction per transition. Returns the time it takes.
pub fn time_transitions(directory: &Path, transitions: &[TransitionRows]) -> Duration {
    let path = directory.join(format!("hand-{}.db", transitions.len()));
    let connection = create_database(&path);
    let plan_id = transitions[0].plan.id().to_string();
    insert_plan(&connection, &plan_id);
    let stopwatch = Instant::now();
    for (number, rows) in transitions.iter().enumerate() {
        execute_sql(&connection, "BEGIN IMMEDIATE", &[]);
        write_transition(&connection, &plan_id, &format!("{number:026}"), rows);
        execute_sql(&connection, "COMMIT", &[]);
    }
    stopwatch.elapsed()
}

/// Starts workflows for `duration`, with `group_size` transitions per transaction. Returns the latency of each workflow
/// and the total time.
///
/// A workflow ends with the commit of the transaction that holds its last transition.
pub fn run_workflows(
    path: &Path,
    workflow: &[TransitionRows],
    duration: Duration,
    group_size: usize,
) -> (Vec<Duration>, Duration) {
    let connection = create_database(path);
    let stopwatch = Instant::now();
    let mut latencies = Vec::new();
    let mut start_times = Vec::new();
    let mut transitions = 0;
    // The last group is filled up, so that every workflow that was started is committed.
    while stopwatch.elapsed() < duration || transitions % group_size != 0 {
        start_times.push(Instant::now());
        let workflow_number = start_times.len();
        let plan_id = format!("{workflow_number:026}");
        for (number, rows) in workflow.iter().enumerate() {
            if transitions % group_size == 0 {
                execute_sql(&connection, "BEGIN IMMEDIATE", &[]);
            }
            let command_id = format!("{workflow_number:020}-{number:05}");
            write_transition(&connection, &plan_id, &command_id, rows);
            transitions += 1;
            if transitions % group_size == 0 {
                execute_sql(&connection, "COMMIT", &[]);
                let committed = transitions / workflow.len();
                let newly_committed = &start_times[latencies.len()..committed];
                latencies.extend(newly_committed.iter().map(Instant::elapsed));
            }
        }
    }
    (latencies, stopwatch.elapsed())
}

/// An empty database with the store's schema, and a connection that writes as durably as the store does.
fn create_database(path: &Path) -> Connection {
    for suffix in ["", "-wal", "-shm", "-turn"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    SqliteStore::new(path, SqliteOptions::default())
        .migrate_schema()
        .unwrap();
    let connection = Connection::open(path).unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    connection
        .pragma_update(None, "foreign_keys", "ON")
        .unwrap();
    connection
}

fn execute_sql(connection: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) {
    let mut statement = connection.prepare_cached(sql).unwrap();
    statement.execute(values).unwrap();
}

fn insert_plan(connection: &Connection, plan_id: &str) {
    let reversed: String = plan_id.chars().rev().collect();
    execute_sql(
        connection,
        "INSERT INTO plans (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
         VALUES (?1, ?2, 0, 'execute', 'queued', NULL, 0, 0, zeroblob(32), '')",
        params![plan_id, reversed],
    );
}

fn write_transition(
    connection: &Connection,
    plan_id: &str,
    command_id: &str,
    row: &TransitionRows,
) {
    let version = i64::try_from(row.plan.version().0).unwrap();
    let execute = |sql: &str, values: &[&dyn rusqlite::ToSql]| execute_sql(connection, sql, values);
    let (phase, state) = (
        row.plan.phase().as_str(),
        row.plan.stage().state_name().as_str(),
    );
    if row.creates_plan() {
        let terms = serde_json::to_string(&**row.plan.terms()).unwrap();
        let reversed: String = plan_id.chars().rev().collect();
        execute(
            "INSERT INTO plans (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
             VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7, ?8, ?9)",
            params![
                plan_id,
                reversed,
                version,
                phase,
                state,
                row.plan.needs_person(),
                row.due_at(),
                row.head,
                row.plan_body
            ],
        );
        execute(
            "INSERT INTO plan_terms (plan_id, body) VALUES (?1, ?2)",
            params![plan_id, terms],
        );
    } else {
        execute(
            "UPDATE plans SET version = ?2, phase = ?3, state = ?4, needs_person = ?5, due_at = ?6, head = ?7, body = ?8
             WHERE plan_id = ?1",
            params![
                plan_id,
                version,
                phase,
                state,
                row.plan.needs_person(),
                row.due_at(),
                row.head,
                row.plan_body
            ],
        );
    }
    for event in &row.events {
        execute(
            "INSERT INTO events (plan_id, version, body, texts, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![plan_id, event.version, event.body, event.texts, event.hash],
        );
    }
    match &row.lease {
        LeaseWrite::Upsert {
            owner,
            epoch,
            expires_at,
        } => execute(
            "INSERT OR REPLACE INTO leases (plan_id, owner, epoch, expires_at) VALUES (?1, ?2, ?3, ?4)",
            params![plan_id, owner, epoch, expires_at],
        ),
        LeaseWrite::Delete => execute("DELETE FROM leases WHERE plan_id = ?1", params![plan_id]),
        LeaseWrite::Unchanged => {}
    }
    execute(
        "INSERT INTO commands (command_id, committed, receipt) VALUES (?1, 1, NULL)",
        params![command_id],
    );
}
