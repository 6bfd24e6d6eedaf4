//! Several who land the same plan at once: each learns what came of it.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use testkit::{PostgresDatabase, TestProcess, TestProgram, TestRunOutput};

use crate::daily::wait_for;
use crate::shop_repository::ShopRepository;

/// Keeps every landing into the repository waiting just before it moves anything.
struct PausedLandings(File);

impl PausedLandings {
    fn pause(repo: &ShopRepository) -> Self {
        let lock = File::open(repo.shop_path().join(".git")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        Self(lock)
    }

    fn resume(self) {
        flock(&self.0, FlockOperation::Unlock).unwrap();
    }
}

fn start_program(repo: &ShopRepository, words: &[&str]) -> TestProcess {
    let words = [&["--format", "json"], words].concat();
    repo.program.run(words).start()
}

/// Two landings of a plan: one holds it, past the point of no return, and one came after it.
fn start_two_landings(
    repo: &ShopRepository,
    plan: &str,
    second: &[&str],
) -> (PausedLandings, TestProcess, TestProcess) {
    let held = PausedLandings::pause(repo);
    let first = start_program(repo, &["apply", plan, "--yes"]);
    wait_for("the first to hold it", || {
        repo.run_ok(&["plumbing", "show", plan])["prepared"] == true
    });
    let present = || {
        let present = repo.program.home().join("present");
        std::fs::read_dir(present).unwrap().count()
    };
    let before = present();
    let second = start_program(repo, &[&["apply", plan, "--yes"], second].concat());
    // Having looked at the plan, it signs in.
    wait_for("the second to sign in", || present() > before);
    (held, first, second)
}

#[test]
fn a_second_apply_reports_that_it_landed() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let (held, first, second) = start_two_landings(&repo, &plan, &[]);
    held.resume();
    for said in [first.finish(), second.finish()] {
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        assert_eq!(said.data()["state"], "applied");
        let landed = said.data()["landed"][0].clone();
        assert_eq!(
            landed["new"],
            repo.run_git(&["rev-parse", "HEAD"]),
            "{landed}"
        );
    }
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "2");
    repo.assert_tidy();
}

#[test]
fn a_second_apply_reports_that_it_cannot_land() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let (held, first, second) = start_two_landings(&repo, &plan, &[]);
    repo.write_file("src/a.txt", "mine\n");
    held.resume();
    for said in [first.finish(), second.finish()] {
        assert_eq!(said.exit_code(), Some(4), "{said:?}");
        assert!(said.messages().contains("local edits"), "{said:?}");
    }
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn a_second_apply_takes_over_from_a_killed_one() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let (held, first, second) = start_two_landings(&repo, &plan, &[]);
    first.kill();
    held.resume();
    let said = second.finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(repo.plan_state(&plan), "apply/applied");
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "2");
    repo.assert_tidy();
}

/// It landed, but not as the second asked: that is not what they get to hear.
#[test]
fn a_second_apply_with_other_options_reports_that_they_were_not_used() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    let (held, first, second) = start_two_landings(&repo, &plan, &["--as", "branch", "side"]);
    held.resume();
    assert_eq!(first.finish().exit_code(), Some(0));
    let said = second.finish();
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
    assert_eq!(repo.run_git(&["branch", "--list", "side"]), "");
}

/// What is asked for beside workers, who take whatever waits to land.
fn land_beside_workers(repo: &ShopRepository, plans: usize) {
    let made = |number| {
        repo.submit_plan(|sandbox| {
            std::fs::write(sandbox.join(format!("{number}.txt")), "new\n").unwrap();
        })
    };
    let plans: Vec<String> = (0..plans).map(made).collect();
    let workers = [(); 3].map(|()| start_program(repo, &["work"]));
    let answers: Vec<TestRunOutput> = plans
        .iter()
        .map(|plan| start_program(repo, &["apply", plan, "--yes"]).finish())
        .collect();
    for worker in workers {
        worker.kill();
    }
    for said in answers {
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
        assert_eq!(said.data()["state"], "applied");
    }
}

#[test]
fn an_apply_beside_workers_reports_that_it_landed() {
    land_beside_workers(&ShopRepository::new(), 6);
}

#[test]
fn an_apply_beside_workers_on_postgres_reports_that_it_landed() {
    let database = PostgresDatabase::new();
    let mut program = TestProgram::new(env!("CARGO_BIN_EXE_planwright"));
    program.set_variable("PLANWRIGHT_STORE", database.url());
    land_beside_workers(&ShopRepository::with_program(program), 12);
}

/// Whoever takes something back beside workers does, too: that is a landing as well.
#[test]
fn undos_at_the_same_time_all_report_the_undo() {
    let repo = ShopRepository::new();
    let plan = repo.submit_usual_change();
    repo.run_ok(&["apply", &plan, "--yes"]);
    let taken: Vec<TestProcess> = (0..3)
        .map(|_| start_program(&repo, &["undo", &plan, "--yes"]))
        .collect();
    for said in taken.into_iter().map(TestProcess::finish) {
        assert_eq!(said.exit_code(), Some(0), "{said:?}");
    }
    assert_eq!(repo.run_git(&["rev-list", "--count", "HEAD"]), "3");
    repo.assert_tidy();
}
