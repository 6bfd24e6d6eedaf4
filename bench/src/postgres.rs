//! PostgreSQL: 16 callers against `pgbench` sending the same statements, on the same server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::PlanId;
use store::{PostgresOptions, PostgresStore};

use crate::hand::{self, Written, WrittenLease};
use crate::rounds::{median, ratio, report};
use crate::work::{Transitions, ready_plan};

const CALLERS: usize = 16;
const ROUNDS: usize = 5;
const SECONDS: u64 = 4;
const SCHEMA: &str = "bench";

pub fn measure() {
    let url = std::env::var("PLANWRIGHT_TEST_POSTGRES")
        .expect("run this through `cargo xtask bench store`, which starts a server");
    let options = PostgresOptions {
        schema: SCHEMA.to_owned(),
        ..PostgresOptions::default()
    };
    let lifecycle = Lifecycle::open(PostgresStore::new(&url, options).unwrap());
    let ours: Vec<PlanId> = (0..CALLERS).map(|_| ready_plan(&lifecycle)).collect();
    let theirs: Vec<PlanId> = (0..CALLERS).map(|_| ready_plan(&lifecycle)).collect();
    let directory = tempfile::tempdir_in(".").unwrap();
    let script = directory.path().join("transition.sql");
    std::fs::write(&script, transitions(&theirs, &hand::rows(2))).unwrap();
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let by_pgbench = pgbench(&url, &script);
        rates.push(by_pgbench);
        ratios.push(callers(&lifecycle, &ours) / by_pgbench);
    }
    let rate = median(rates);
    report(
        "PostgreSQL, pgbench with 16 clients (the measure)",
        &format!("{rate:.0} transitions/s"),
        "",
    );
    report("PostgreSQL, 16 callers / pgbench", &ratio(&ratios), "0.7");
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn callers(lifecycle: &Lifecycle, plans: &[PlanId]) -> f64 {
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let stopwatch = Instant::now();
    std::thread::scope(|scope| {
        for plan in plans {
            scope.spawn(|| {
                let mut transitions = Transitions::of(lifecycle, *plan);
                // An even number of steps, so that the plan is free for the next round.
                while !over.load(Ordering::Relaxed) {
                    transitions.step().unwrap();
                    transitions.step().unwrap();
                    done.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(SECONDS));
        over.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed) as f64 / stopwatch.elapsed().as_secs_f64()
}

fn pgbench(url: &str, script: &std::path::Path) -> f64 {
    let output = Command::new(program("pgbench"))
        .env("PGOPTIONS", format!("-c search_path={SCHEMA}"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .args([format!("--client={CALLERS}"), format!("--time={SECONDS}")])
        .arg(format!("--file={}", script.display()))
        .arg(url)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // One run of the script is two transitions: a claim and a release.
    scripts_per_second(&String::from_utf8_lossy(&output.stdout)).unwrap() * 2.0
}

/// Where one of PostgreSQL's own programs is.
pub fn program(name: &str) -> PathBuf {
    match std::env::var("PLANWRIGHT_TEST_PGBIN") {
        Ok(directory) => Path::new(&directory).join(name),
        Err(_) => name.into(),
    }
}

/// What `pgbench` says at its end.
pub fn scripts_per_second(text: &str) -> Option<f64> {
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "))?;
    rate.split_whitespace().next()?.parse().ok()
}

/// The statements of a claim and a release, as the store sends them.
fn transitions(plans: &[PlanId], rows: &[Written]) -> String {
    let ids: Vec<String> = plans.iter().map(|id| format!("'{id}'")).collect();
    let plan = format!("(ARRAY[{}])[:client_id::int + 1]", ids.join(", "));
    rows.iter().map(|row| transaction(&plan, row)).collect()
}

/// The statements of a whole life of a plan that nobody had before.
pub fn life(rows: &[Written]) -> String {
    let mut script = "\\set plan random(1, 9000000000000000000)\n".to_owned();
    for row in rows {
        script += &transaction("(:plan)::text", row);
    }
    script
}

/// One transition of the plan that this expression names: what is held, what is read, what is written.
fn transaction(plan: &str, row: &Written) -> String {
    let (phase, state) = (
        row.plan.phase().as_str(),
        row.plan.stage.state_name().as_str(),
    );
    let due_at = row
        .due_at()
        .map_or("NULL".to_owned(), |moment| moment.to_string());
    let (head, body) = (hex(&row.head), literal(&row.plan_body));
    let count = row.events.len();
    let hold = if row.is_first() {
        String::new()
    } else {
        format!(
            "SELECT pg_advisory_xact_lock(:client_id::bigint);\n\
             SELECT head, body FROM plans WHERE plan_id = {plan} FOR UPDATE;\n"
        )
    };
    let entries = if row.puts_lease() {
        format!(
            "SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
             WHERE c.plan_id = {plan} AND NOT c.sealed ORDER BY e.changeset_id, e.path FOR UPDATE OF e;\n"
        )
    } else {
        String::new()
    };
    let moved = if row.is_first() {
        format!(
            "INSERT INTO plans (plan_id, id_reversed, version, phase, state, needs_person, due_at, head, body) \
             VALUES ({plan}, reverse({plan}), {count}, '{phase}', '{state}', false, {due_at}, '\\x{head}', '{body}') \
             RETURNING version"
        )
    } else {
        format!(
            "UPDATE plans SET version = version + {count}, phase = '{phase}', state = '{state}', \
                              needs_person = false, due_at = {due_at}, head = '\\x{head}', body = '{body}' \
             WHERE plan_id = {plan} RETURNING version"
        )
    };
    let events: Vec<String> = (1..)
        .zip(&row.events)
        .map(|(number, event)| {
            let texts = event
                .texts
                .as_ref()
                .map_or("NULL".to_owned(), |texts| format!("'{}'", literal(texts)));
            let (body, hash) = (literal(&event.body), hex(&event.hash));
            format!("({number}, '{body}', {texts}, '\\x{hash}'::bytea)")
        })
        .collect();
    let events = events.join(", ");
    let lease = match &row.lease {
        WrittenLease::Put {
            owner,
            epoch,
            expires_at,
        } => format!(
            "INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES ({plan}, '{owner}', {epoch}, {expires_at}) \
             ON CONFLICT (plan_id) DO UPDATE \
             SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at;\n"
        ),
        WrittenLease::Dropped => format!("DELETE FROM leases WHERE plan_id = {plan};\n"),
        WrittenLease::Kept => String::new(),
    };
    format!(
        "BEGIN;\n\
         {hold}\
         {entries}\
         SELECT v.version, v.system, v.xid_base, clock_timestamp(), \
                l.owner, l.epoch, l.expires_at, c.fingerprint, c.receipt, \
                ARRAY(SELECT body FROM rules WHERE scope = ANY(ARRAY[]::text[])), \
                ARRAY(SELECT body FROM changesets WHERE plan_id = {plan} AND NOT sealed ORDER BY changeset_id) \
         FROM schema_version v \
         LEFT JOIN leases l ON l.plan_id = {plan} \
         LEFT JOIN commands c ON c.key_scope = NULL AND c.key = NULL;\n\
         WITH moved AS ({moved}) \
         INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
         SELECT pg_current_xact_id()::text::bigint, told.number, {plan}, moved.version - {count} + told.number, \
                told.body, told.texts, told.hash \
         FROM moved, (VALUES {events}) AS told (number, body, texts, hash);\n\
         {lease}\
         INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt) \
         VALUES (md5(random()::text), true, NULL, NULL, NULL, NULL);\n\
         COMMIT;\n"
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As long as the text. `pgbench` takes a colon for a variable even within quotes, and nobody reads
/// these rows.
fn literal(text: &str) -> String {
    text.replace(['\'', ':'], ";")
}
