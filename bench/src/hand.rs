//! The hand-written loop: exactly the rows of the same transitions, written without reading or
//! deciding anything, one durable transaction each.
//!
//! The rows are made beforehand by running the transitions on a memory store.

use std::path::Path;
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::{Plan, Version};
use rusqlite::{Connection, TransactionBehavior, params};
use store::record::encode;
use store::{Maintain, MemoryStore, SqliteOptions, SqliteStore};

use crate::work::{Transitions, ready_plan};

/// What one transition writes.
pub struct Written {
    pub plan: Plan,
    pub plan_body: String,
    pub event_body: String,
    pub event_texts: Option<String>,
    pub head: Vec<u8>,
    pub lease: Option<(String, i64, i64)>,
    pub command: String,
    pub receipt: Option<String>,
}

/// The rows of so many transitions of one plan.
pub fn rows(steps: usize) -> Vec<Written> {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    let id = ready_plan(&lifecycle);
    let mut transitions = Transitions::of(&lifecycle, id);
    let mut written = Vec::new();
    for step in 0..steps {
        transitions.step().unwrap();
        let row = lifecycle.get_plan(id).unwrap();
        let after = Version(row.plan.version.0 - 1);
        let event = lifecycle
            .store()
            .plan_events(id, after, 1)
            .unwrap()
            .remove(0);
        let encoded = encode(&event.recorded, row.head);
        written.push(Written {
            plan_body: serde_json::to_string(&row.plan).unwrap(),
            event_body: event.body,
            event_texts: encoded.texts,
            head: event.hash.as_bytes().to_vec(),
            lease: row.lease.map(|lease| {
                (
                    lease.owner,
                    i64::try_from(lease.epoch.0).unwrap(),
                    lease.expires_at.0,
                )
            }),
            command: format!("{step:026}"),
            receipt: None,
            plan: row.plan,
        });
    }
    written
}

/// How long the loop takes for these rows, in a fresh store of the same schema.
pub fn run(directory: &Path, rows: &[Written]) -> Duration {
    let path = directory.join(format!("hand-{}.db", rows.len()));
    for suffix in ["", "-wal", "-shm", "-turn"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    SqliteStore::new(&path, SqliteOptions::default())
        .migrate()
        .unwrap();
    let mut connection = Connection::open(&path).unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    connection
        .pragma_update(None, "foreign_keys", "ON")
        .unwrap();
    insert_plan(&connection, &rows[0].plan);
    let stopwatch = Instant::now();
    for row in rows {
        write(&mut connection, row);
    }
    stopwatch.elapsed()
}

fn insert_plan(connection: &Connection, plan: &Plan) {
    let id = plan.id.to_string();
    let reversed: String = id.chars().rev().collect();
    connection
        .execute(
            "INSERT INTO plans (plan_id, id_reversed, version, phase, state, action, needs_person, due_at, head, body)
             VALUES (?1, ?2, 0, 'execute', 'queued', NULL, 0, 0, zeroblob(32), '')",
            params![id, reversed],
        )
        .unwrap();
}

fn write(connection: &mut Connection, row: &Written) {
    let id = row.plan.id.to_string();
    let version = i64::try_from(row.plan.version.0).unwrap();
    let due_at = row.plan.stage.waiting().map(|queued| queued.due_at().0);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let execute = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
        transaction
            .prepare_cached(sql)
            .unwrap()
            .execute(values)
            .unwrap();
    };
    execute(
        "UPDATE plans SET version = ?2, phase = ?3, state = ?4, needs_person = ?5, due_at = ?6, head = ?7, body = ?8
         WHERE plan_id = ?1",
        params![
            id,
            version,
            row.plan.phase().as_str(),
            row.plan.stage.state().as_str(),
            row.plan.needs_person(),
            due_at,
            row.head,
            row.plan_body
        ],
    );
    execute(
        "INSERT INTO events (plan_id, version, body, texts, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, version, row.event_body, row.event_texts, row.head],
    );
    match &row.lease {
        Some((owner, epoch, expires_at)) => execute(
            "INSERT OR REPLACE INTO leases (plan_id, owner, epoch, expires_at) VALUES (?1, ?2, ?3, ?4)",
            params![id, owner, epoch, expires_at],
        ),
        None => execute("DELETE FROM leases WHERE plan_id = ?1", params![id]),
    }
    execute(
        "INSERT INTO commands (command_id, committed, receipt) VALUES (?1, 1, ?2)",
        params![row.command, row.receipt],
    );
    transaction.commit().unwrap();
}
