//! The PostgreSQL store with 16 callers, against `pgbench` sending the same statements to the same server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::PlanId;
use store::{PostgresOptions, PostgresStore};

use crate::handwritten_loop::{self, LeaseWrite, TransitionRows};
use crate::statistics::{format_ratios, median, print_row};
use crate::workload::{ClaimReleaseCycle, create_ready_plan};

const CALLERS: usize = 16;
const ROUNDS: usize = 5;
const ROUND_SECONDS: u64 = 4;
const SCHEMA: &str = "bench";

pub fn measure_store() {
    let url = std::env::var("PLANWRIGHT_TEST_POSTGRES")
        .expect("PLANWRIGHT_TEST_POSTGRES is not set. Run: cargo xtask bench store");
    let options = PostgresOptions {
        schema: SCHEMA.to_owned(),
        ..PostgresOptions::default()
    };
    let lifecycle = Lifecycle::open(PostgresStore::new(&url, options).unwrap());
    let create_plans = || -> Vec<PlanId> {
        let plan_ids = (0..CALLERS).map(|_| create_ready_plan(&lifecycle));
        plan_ids.collect()
    };
    let (own_plans, pgbench_plans) = (create_plans(), create_plans());
    let directory = tempfile::tempdir_in(".").unwrap();
    let script = directory.path().join("transition.sql");
    let claim_and_release = handwritten_loop::record_transitions(2);
    std::fs::write(
        &script,
        claim_release_script(&pgbench_plans, &claim_and_release),
    )
    .unwrap();
    let (mut ratios, mut baseline_rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let baseline = measure_pgbench(&url, &script);
        baseline_rates.push(baseline);
        ratios.push(measure_callers(&lifecycle, &own_plans) / baseline);
    }
    let baseline = median(baseline_rates);
    print_row(
        &format!("PostgreSQL, pgbench with {CALLERS} clients (baseline)"),
        &format!("{baseline:.0} transitions/s"),
        "",
    );
    print_row(
        &format!("PostgreSQL, {CALLERS} callers / pgbench"),
        &format_ratios(&ratios),
        "0.7",
    );
}

/// Transitions per second.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn measure_callers(lifecycle: &Lifecycle, plan_ids: &[PlanId]) -> f64 {
    let (transitions, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let stopwatch = Instant::now();
    std::thread::scope(|scope| {
        for plan_id in plan_ids {
            scope.spawn(|| {
                let mut cycle = ClaimReleaseCycle::new(lifecycle, *plan_id);
                // An even number of steps, so that the plan is free for the next round.
                while !stop.load(Ordering::Relaxed) {
                    cycle.run_step().unwrap();
                    cycle.run_step().unwrap();
                    transitions.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(ROUND_SECONDS));
        stop.store(true, Ordering::Relaxed);
    });
    transitions.load(Ordering::Relaxed) as f64 / stopwatch.elapsed().as_secs_f64()
}

/// Transitions per second.
fn measure_pgbench(url: &str, script: &Path) -> f64 {
    let output = Command::new(program_path("pgbench"))
        .env("PGOPTIONS", format!("-c search_path={SCHEMA}"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .args([
            format!("--client={CALLERS}"),
            format!("--time={ROUND_SECONDS}"),
        ])
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
    parse_script_rate(&String::from_utf8_lossy(&output.stdout)).unwrap() * 2.0
}

/// The path of a PostgreSQL client program. `cargo xtask bench` sets the directory.
pub fn program_path(name: &str) -> PathBuf {
    match std::env::var("PLANWRIGHT_TEST_PGBIN") {
        Ok(directory) => Path::new(&directory).join(name),
        Err(_) => name.into(),
    }
}

/// Reads scripts per second from the summary that `pgbench` prints.
pub fn parse_script_rate(text: &str) -> Option<f64> {
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "))?;
    rate.split_whitespace().next()?.parse().ok()
}

/// A `pgbench` script with the statements of these transitions, as the store sends them. Each client has its own plan.
fn claim_release_script(plan_ids: &[PlanId], transitions: &[TransitionRows]) -> String {
    let ids: Vec<String> = plan_ids.iter().map(|id| format!("'{id}'")).collect();
    let plan = format!("(ARRAY[{}])[:client_id::int + 1]", ids.join(", "));
    transitions
        .iter()
        .map(|rows| transaction_sql(&plan, rows))
        .collect()
}

/// A `pgbench` script that runs a complete workflow of a new plan.
pub fn workflow_script(transitions: &[TransitionRows]) -> String {
    let mut script = "\\set plan random(1, 9000000000000000000)\n".to_owned();
    for rows in transitions {
        script += &transaction_sql("(:plan)::text", rows);
    }
    script
}

/// The transaction of one transition: lock, read, write. `plan` is an SQL expression for the plan's id.
fn transaction_sql(plan: &str, row: &TransitionRows) -> String {
    let (phase, state) = (
        row.plan.phase().as_str(),
        row.plan.stage().state_name().as_str(),
    );
    let due_at = row
        .due_at()
        .map_or("NULL".to_owned(), |time| time.to_string());
    let (head, body) = (encode_hex(&row.head), to_literal(&row.plan_body));
    let count = row.events.len();
    let lock_plan = if row.creates_plan() {
        String::new()
    } else {
        format!(
            "SELECT pg_advisory_xact_lock(:client_id::bigint);\n\
             SELECT head, body FROM plans WHERE plan_id = {plan} FOR UPDATE;\n"
        )
    };
    let read_entries = if row.writes_lease() {
        format!(
            "SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
             WHERE c.plan_id = {plan} AND NOT c.sealed ORDER BY e.changeset_id, e.path FOR UPDATE OF e;\n"
        )
    } else {
        String::new()
    };
    let write_plan = if row.creates_plan() {
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
            let texts = event.texts.as_ref().map_or("NULL".to_owned(), |texts| {
                format!("'{}'", to_literal(texts))
            });
            let (body, hash) = (to_literal(&event.body), encode_hex(&event.hash));
            format!("({number}, '{body}', {texts}, '\\x{hash}'::bytea)")
        })
        .collect();
    let events = events.join(", ");
    let write_lease = match &row.lease {
        LeaseWrite::Upsert {
            owner,
            epoch,
            expires_at,
        } => format!(
            "INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES ({plan}, '{owner}', {epoch}, {expires_at}) \
             ON CONFLICT (plan_id) DO UPDATE \
             SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at;\n"
        ),
        LeaseWrite::Delete => format!("DELETE FROM leases WHERE plan_id = {plan};\n"),
        LeaseWrite::Unchanged => String::new(),
    };
    format!(
        "BEGIN;\n\
         {lock_plan}\
         {read_entries}\
         SELECT v.version, v.system, v.xid_base, clock_timestamp(), \
                l.owner, l.epoch, l.expires_at, c.fingerprint, c.receipt, \
                ARRAY(SELECT body FROM rules WHERE scope = ANY(ARRAY[]::text[])), \
                ARRAY(SELECT body FROM changesets WHERE plan_id = {plan} AND NOT sealed ORDER BY changeset_id) \
         FROM schema_version v \
         LEFT JOIN leases l ON l.plan_id = {plan} \
         LEFT JOIN commands c ON c.key_scope = NULL AND c.key = NULL;\n\
         WITH written AS ({write_plan}) \
         INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
         SELECT pg_current_xact_id()::text::bigint, event.number, {plan}, written.version - {count} + event.number, \
                event.body, event.texts, event.hash \
         FROM written, (VALUES {events}) AS event (number, body, texts, hash);\n\
         {write_lease}\
         INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt) \
         VALUES (md5(random()::text), true, NULL, NULL, NULL, NULL);\n\
         COMMIT;\n"
    )
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replaces characters that would need quoting; the length stays the same. `pgbench` expands `:name` even inside quotes,
/// and nothing reads these rows.
fn to_literal(text: &str) -> String {
    text.replace(['\'', ':'], ";")
}
