//! The hand-written loop: exactly the rows of the same transitions, written without reading or
//! deciding anything, one durable transaction each.
//!
//! The rows are made beforehand by running the transitions on a memory store.

use std::path::Path;
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Plan, PlanId, PlanVersion};
use rusqlite::{Connection, params};
use store::event_codec::encode_event;
use store::{MemoryStore, SqliteOptions, SqliteStore, StoreMaintenance};

use crate::work::{Life, Transitions, ready_plan};

/// What one transition writes.
pub struct Written {
    pub plan: Plan,
    pub plan_body: String,
    pub events: Vec<WrittenEvent>,
    pub head: Vec<u8>,
    pub lease: WrittenLease,
}

/// What happens to the lease.
pub enum WrittenLease {
    Kept,
    Put {
        owner: String,
        epoch: i64,
        expires_at: i64,
    },
    Dropped,
}

/// One event of it.
pub struct WrittenEvent {
    pub version: i64,
    pub body: String,
    pub texts: Option<String>,
    pub hash: Vec<u8>,
}

impl Written {
    /// Whether the plan is made by this transition.
    pub fn is_first(&self) -> bool {
        self.events.first().is_some_and(|event| event.version == 1)
    }

    pub fn puts_lease(&self) -> bool {
        matches!(self.lease, WrittenLease::Put { .. })
    }

    pub fn due_at(&self) -> Option<i64> {
        self.plan
            .stage
            .queue_entry()
            .map(|queued| queued.due_at().0)
    }

    /// What `plan` came to since it was at this version, with or without a lease.
    fn since(lifecycle: &Lifecycle, plan: PlanId, version: PlanVersion, leased: bool) -> Self {
        let row = lifecycle.get_plan(plan).unwrap();
        let events = lifecycle
            .store()
            .read_plan_events(plan, version, 100)
            .unwrap();
        Self {
            plan_body: serde_json::to_string(&row.plan).unwrap(),
            events: events
                .into_iter()
                .map(|event| WrittenEvent {
                    version: i64::try_from(event.recorded.version.0).unwrap(),
                    texts: encode_event(&event.recorded, row.head).texts,
                    body: event.body,
                    hash: event.hash.as_bytes().to_vec(),
                })
                .collect(),
            head: row.head.as_bytes().to_vec(),
            lease: match row.lease {
                Some(lease) => WrittenLease::Put {
                    epoch: i64::try_from(lease.epoch.0).unwrap(),
                    expires_at: lease.expires_at.0,
                    owner: lease.owner,
                },
                None if leased => WrittenLease::Dropped,
                None => WrittenLease::Kept,
            },
            plan: row.plan,
        }
    }
}

/// The rows of so many transitions of one plan.
pub fn rows(steps: usize) -> Vec<Written> {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let id = ready_plan(&lifecycle);
    let mut transitions = Transitions::of(&lifecycle, id);
    let mut version = lifecycle.get_plan(id).unwrap().plan.version;
    let mut written: Vec<Written> = Vec::new();
    for _ in 0..steps {
        transitions.step().unwrap();
        let leased = written.last().is_some_and(Written::puts_lease);
        let row = Written::since(&lifecycle, id, version, leased);
        version = row.plan.version;
        written.push(row);
    }
    written
}

/// The rows of a whole life, transition by transition.
pub fn life_rows() -> Vec<Written> {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let mut life = Life::begin(&lifecycle).unwrap();
    let id = life.plan();
    let mut last = Written::since(&lifecycle, id, PlanVersion(0), false);
    let mut written = Vec::new();
    while life.step().unwrap() {
        let next = Written::since(&lifecycle, id, last.plan.version, last.puts_lease());
        written.push(std::mem::replace(&mut last, next));
    }
    written.push(last);
    written
}

/// How long the loop takes for these rows, in a fresh store of the same schema.
pub fn run(directory: &Path, rows: &[Written]) -> Duration {
    let connection = fresh(&directory.join(format!("hand-{}.db", rows.len())));
    let id = rows[0].plan.id.to_string();
    insert_plan(&connection, &id);
    let stopwatch = Instant::now();
    for (number, row) in rows.iter().enumerate() {
        execute(&connection, "BEGIN IMMEDIATE", &[]);
        write(&connection, &id, &format!("{number:026}"), row);
        execute(&connection, "COMMIT", &[]);
    }
    stopwatch.elapsed()
}

/// Begins lives for this long, `group` transitions in a transaction. How long each took, and all of them.
///
/// A life is over with the transaction that holds its last transition.
pub fn run_lives(
    path: &Path,
    rows: &[Written],
    duration: Duration,
    group: usize,
) -> (Vec<Duration>, Duration) {
    let connection = fresh(path);
    let stopwatch = Instant::now();
    let mut latencies = Vec::new();
    let mut begun = Vec::new();
    let mut transitions = 0;
    // Whole groups, so that every life that was begun is over.
    while stopwatch.elapsed() < duration || transitions % group != 0 {
        begun.push(Instant::now());
        let life = begun.len();
        let id = format!("{life:026}");
        for (number, row) in rows.iter().enumerate() {
            if transitions % group == 0 {
                execute(&connection, "BEGIN IMMEDIATE", &[]);
            }
            write(&connection, &id, &format!("{life:020}-{number:05}"), row);
            transitions += 1;
            if transitions % group == 0 {
                execute(&connection, "COMMIT", &[]);
                let over = transitions / rows.len();
                latencies.extend(begun[latencies.len()..over].iter().map(Instant::elapsed));
            }
        }
    }
    (latencies, stopwatch.elapsed())
}

fn fresh(path: &Path) -> Connection {
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

fn execute(connection: &Connection, sql: &str, values: &[&dyn rusqlite::ToSql]) {
    let mut statement = connection.prepare_cached(sql).unwrap();
    statement.execute(values).unwrap();
}

fn insert_plan(connection: &Connection, id: &str) {
    let reversed: String = id.chars().rev().collect();
    execute(
        connection,
        "INSERT INTO plans (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
         VALUES (?1, ?2, 0, 'execute', 'queued', NULL, 0, 0, zeroblob(32), '')",
        params![id, reversed],
    );
}

fn write(connection: &Connection, id: &str, command: &str, row: &Written) {
    let version = i64::try_from(row.plan.version.0).unwrap();
    let execute = |sql: &str, values: &[&dyn rusqlite::ToSql]| execute(connection, sql, values);
    let (phase, state) = (
        row.plan.phase().as_str(),
        row.plan.stage.state_name().as_str(),
    );
    if row.is_first() {
        let reversed: String = id.chars().rev().collect();
        execute(
            "INSERT INTO plans (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
             VALUES (?1, ?2, ?3, ?4, ?5, NULL, ?6, ?7, ?8, ?9)",
            params![
                id,
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
    } else {
        execute(
            "UPDATE plans SET version = ?2, phase = ?3, state = ?4, needs_person = ?5, due_at = ?6, head = ?7, body = ?8
             WHERE plan_id = ?1",
            params![
                id,
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
            params![id, event.version, event.body, event.texts, event.hash],
        );
    }
    match &row.lease {
        WrittenLease::Put {
            owner,
            epoch,
            expires_at,
        } => execute(
            "INSERT OR REPLACE INTO leases (plan_id, owner, epoch, expires_at) VALUES (?1, ?2, ?3, ?4)",
            params![id, owner, epoch, expires_at],
        ),
        WrittenLease::Dropped => execute("DELETE FROM leases WHERE plan_id = ?1", params![id]),
        WrittenLease::Kept => {}
    }
    execute(
        "INSERT INTO commands (command_id, committed, receipt) VALUES (?1, 1, NULL)",
        params![command],
    );
}
