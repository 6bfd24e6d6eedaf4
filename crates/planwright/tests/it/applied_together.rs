//! Several who land the same plan at once: each learns what came of it.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use testkit::{PostgresDatabase, Program, Running, Said};

use crate::daily::wait_for;
use crate::yard::Yard;

/// Keeps every landing into the repository waiting just before it moves anything.
struct Held(File);

impl Held {
    fn back(yard: &Yard) -> Self {
        let lock = File::open(yard.shop().join(".git")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        Self(lock)
    }

    fn let_go(self) {
        flock(&self.0, FlockOperation::Unlock).unwrap();
    }
}

fn start(yard: &Yard, words: &[&str]) -> Running {
    let words = [&["--format", "json"], words].concat();
    yard.program.run(words).start()
}

/// Two landings of a plan: one holds it, past the point of no return, and one came after it.
fn two_landings(yard: &Yard, plan: &str, second: &[&str]) -> (Held, Running, Running) {
    let held = Held::back(yard);
    let first = start(yard, &["apply", plan, "--yes"]);
    wait_for("the first to hold it", || {
        yard.ok(&["plumbing", "show", plan])["prepared"] == true
    });
    let present = || {
        let present = yard.program.home().join("present");
        std::fs::read_dir(present).unwrap().count()
    };
    let before = present();
    let second = start(yard, &[&["apply", plan, "--yes"], second].concat());
    // Having looked at the plan, it signs in.
    wait_for("the second to sign in", || present() > before);
    (held, first, second)
}

#[test]
fn who_comes_second_learns_that_it_landed() {
    let yard = Yard::new();
    let plan = yard.usual();
    let (held, first, second) = two_landings(&yard, &plan, &[]);
    held.let_go();
    for said in [first.finish(), second.finish()] {
        assert_eq!(said.code(), Some(0), "{said:?}");
        assert_eq!(said.data()["state"], "applied");
        let landed = said.data()["landed"][0].clone();
        assert_eq!(landed["new"], yard.git(&["rev-parse", "HEAD"]), "{landed}");
    }
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "2");
    yard.assert_tidy();
}

#[test]
fn who_comes_second_learns_that_it_cannot_land() {
    let yard = Yard::new();
    let plan = yard.usual();
    let (held, first, second) = two_landings(&yard, &plan, &[]);
    yard.write("src/a.txt", "mine\n");
    held.let_go();
    for said in [first.finish(), second.finish()] {
        assert_eq!(said.code(), Some(4), "{said:?}");
        assert!(said.messages().contains("local edits"), "{said:?}");
    }
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn who_comes_second_takes_over_from_one_that_is_killed() {
    let yard = Yard::new();
    let plan = yard.usual();
    let (held, first, second) = two_landings(&yard, &plan, &[]);
    first.kill();
    held.let_go();
    let said = second.finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert_eq!(yard.state_of(&plan), "apply/applied");
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "2");
    yard.assert_tidy();
}

/// It landed, but not as the second asked: that is not what they get to hear.
#[test]
fn who_asked_for_another_form_is_told_that_it_did_not_happen() {
    let yard = Yard::new();
    let plan = yard.usual();
    let (held, first, second) = two_landings(&yard, &plan, &["--as", "branch", "side"]);
    held.let_go();
    assert_eq!(first.finish().code(), Some(0));
    let said = second.finish();
    assert_eq!(said.code(), Some(4), "{said:?}");
    assert_eq!(yard.git(&["branch", "--list", "side"]), "");
}

/// What is asked for beside workers, who take whatever waits to land.
fn land_beside_workers(yard: &Yard, plans: usize) {
    let made = |number| {
        yard.handed_in(|sandbox| {
            std::fs::write(sandbox.join(format!("{number}.txt")), "new\n").unwrap();
        })
    };
    let plans: Vec<String> = (0..plans).map(made).collect();
    let workers = [(); 3].map(|()| start(yard, &["work"]));
    let answers: Vec<Said> = plans
        .iter()
        .map(|plan| start(yard, &["apply", plan, "--yes"]).finish())
        .collect();
    for worker in workers {
        worker.kill();
    }
    for said in answers {
        assert_eq!(said.code(), Some(0), "{said:?}");
        assert_eq!(said.data()["state"], "applied");
    }
}

#[test]
fn whoever_lands_beside_workers_learns_that_it_landed() {
    land_beside_workers(&Yard::new(), 6);
}

#[test]
fn whoever_lands_beside_workers_on_postgres_learns_that_it_landed() {
    let database = PostgresDatabase::new();
    let mut program = Program::new(env!("CARGO_BIN_EXE_planwright"));
    program.set("PLANWRIGHT_STORE", database.url());
    land_beside_workers(&Yard::with(program), 12);
}

/// Whoever takes something back beside workers does, too: that is a landing as well.
#[test]
fn who_takes_it_back_at_the_same_time_learns_that_it_was_taken_back() {
    let yard = Yard::new();
    let plan = yard.usual();
    yard.ok(&["apply", &plan, "--yes"]);
    let taken: Vec<Running> = (0..3)
        .map(|_| start(&yard, &["undo", &plan, "--yes"]))
        .collect();
    for said in taken.into_iter().map(Running::finish) {
        assert_eq!(said.code(), Some(0), "{said:?}");
    }
    assert_eq!(yard.git(&["rev-list", "--count", "HEAD"]), "3");
    yard.assert_tidy();
}
