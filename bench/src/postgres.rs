//! PostgreSQL: 16 callers against `pgbench` sending the same statements, on the same server.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lifecycle::Lifecycle;
use plan::PlanId;
use store::{PostgresOptions, PostgresStore};

use crate::hand::{self, Written};
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
    let program = match std::env::var("PLANWRIGHT_TEST_PGBIN") {
        Ok(directory) => std::path::Path::new(&directory).join("pgbench"),
        Err(_) => "pgbench".into(),
    };
    let output = Command::new(program)
        .env("PGOPTIONS", format!("-c search_path={SCHEMA}"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .args([format!("--client={CALLERS}"), format!("--time={SECONDS}")])
        .arg(format!("--file={}", script.display()))
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .unwrap();
    let scripts: f64 = rate.split_whitespace().next().unwrap().parse().unwrap();
    // One run of the script is two transitions: a claim and a release.
    scripts * 2.0
}

/// The statements of a claim and a release, as the store sends them.
fn transitions(plans: &[PlanId], rows: &[Written]) -> String {
    let ids: Vec<String> = plans.iter().map(|id| format!("'{id}'")).collect();
    let plan = format!("(ARRAY[{}])[:client_id::int + 1]", ids.join(", "));
    let mut script = String::new();
    for row in rows {
        let (phase, state) = (row.plan.phase().as_str(), row.plan.stage.state().as_str());
        let due_at = row
            .plan
            .stage
            .waiting()
            .map_or("NULL".to_owned(), |queued| queued.due_at().0.to_string());
        let head: String = row.head.iter().map(|byte| format!("{byte:02x}")).collect();
        let lease = match &row.lease {
            Some((owner, epoch, expires_at)) => format!(
                "INSERT INTO leases (plan_id, owner, epoch, expires_at) VALUES ({plan}, '{owner}', {epoch}, {expires_at}) \
                 ON CONFLICT (plan_id) DO UPDATE \
                 SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at;"
            ),
            None => format!("DELETE FROM leases WHERE plan_id = {plan};"),
        };
        let entries = if row.lease.is_some() {
            format!(
                "SELECT e.changeset_id, e.body FROM changesets c JOIN entries e USING (changeset_id) \
                 WHERE c.plan_id = {plan} AND NOT c.sealed ORDER BY e.changeset_id, e.path FOR UPDATE OF e;\n"
            )
        } else {
            String::new()
        };
        write!(
            script,
            "BEGIN;\n\
             SELECT pg_advisory_xact_lock(:client_id::bigint);\n\
             SELECT head, body FROM plans WHERE plan_id = {plan} FOR UPDATE;\n\
             {entries}\
             SELECT v.version, v.system, v.xid_base, clock_timestamp(), \
                    l.owner, l.epoch, l.expires_at, c.fingerprint, c.receipt, \
                    ARRAY(SELECT body FROM rules WHERE scope = ANY(ARRAY[]::text[])), \
                    ARRAY(SELECT body FROM changesets WHERE plan_id = {plan} AND NOT sealed ORDER BY changeset_id) \
             FROM schema_version v \
             LEFT JOIN leases l ON l.plan_id = {plan} \
             LEFT JOIN commands c ON c.key_scope = NULL AND c.key = NULL;\n\
             WITH moved AS ( \
                 UPDATE plans SET version = version + 1, phase = '{phase}', state = '{state}', \
                                  needs_person = false, due_at = {due_at}, head = '\\x{head}', \
                                  body = '{plan_body}' \
                 WHERE plan_id = {plan} RETURNING version) \
             INSERT INTO events (xid, position, plan_id, version, body, texts, hash) \
             SELECT pg_current_xact_id()::text::bigint, 1, {plan}, moved.version, '{event_body}', NULL, '\\x{head}' \
             FROM moved;\n\
             {lease}\n\
             INSERT INTO commands (command_id, committed, key_scope, key, fingerprint, receipt) \
             VALUES (md5(random()::text), true, NULL, NULL, NULL, NULL);\n\
             COMMIT;\n",
            plan_body = literal(&row.plan_body),
            event_body = literal(&row.event_body),
        )
        .unwrap();
    }
    script
}

/// As long as the text. `pgbench` takes a colon for a variable even within quotes, and nobody reads
/// these rows.
fn literal(text: &str) -> String {
    text.replace(['\'', ':'], ";")
}
