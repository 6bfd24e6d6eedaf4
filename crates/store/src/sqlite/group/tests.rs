//! Tests that every caller is answered once, with real threads or a model checker (`cargo test -p
//! planwright-store --features shuttle group`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[cfg(feature = "shuttle")]
use shuttle::thread;
#[cfg(not(feature = "shuttle"))]
use std::thread;

/// Doubles numbers and records the batches. Panics on [`POISONED_WORK`] before it answers.
#[derive(Default)]
struct Doubler {
    turn: Mutex<Vec<Vec<u64>>>,
    needs_maintenance: bool,
}

const POISONED_WORK: u64 = 13;

impl BatchRunner for Doubler {
    type Work = u64;
    type Answer = u64;
    type Turn<'a> = crate::sync::MutexGuard<'a, Vec<Vec<u64>>>;

    fn take_turn(&self) -> Self::Turn<'_> {
        lock(&self.turn)
    }

    fn run_batch(&self, turn: &mut Self::Turn<'_>, batch: &mut CommitBatch<'_, u64, u64>) {
        // Includes callers that arrive while the batch runs.
        batch.gather_waiting();
        turn.push(batch.jobs().iter().map(|job| job.work).collect());
        let poisoned = batch.jobs().iter().any(|job| job.work == POISONED_WORK);
        assert!(!poisoned, "poisoned batch");
        for job in batch.jobs() {
            job.answer = Some(job.work * 2);
        }
    }

    fn needs_maintenance(&self, _turn: &Self::Turn<'_>) -> bool {
        self.needs_maintenance
    }

    fn run_maintenance(&self, _turn: &mut Self::Turn<'_>) {}
}

/// Starts one thread per list; each submits its numbers one after the other.
fn submit_all(doubler: Doubler, threads: &[Vec<u64>]) -> (Vec<Vec<u64>>, u64) {
    let shared = Arc::new((CommitGroup::<u64, u64>::default(), doubler));
    let handles: Vec<_> = threads
        .iter()
        .cloned()
        .map(|numbers| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (group, doubler) = &*shared;
                let mut abandoned = 0;
                for number in numbers {
                    match catch_unwind(AssertUnwindSafe(|| group.submit(doubler, number))) {
                        Ok(Ok(answer)) => assert_eq!(answer, number * 2),
                        Ok(Err(BatchAbandoned)) | Err(_) => abandoned += 1,
                    }
                }
                abandoned
            })
        })
        .collect();
    let abandoned = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .sum();
    let queue = lock(&shared.0.0);
    assert!(
        !queue.has_leader && queue.waiting.is_empty(),
        "no caller is left waiting"
    );
    drop(queue);
    let batches = lock(&shared.1.turn).clone();
    (batches, abandoned)
}

fn check_every_caller_is_answered_once(needs_maintenance: bool) {
    let doubler = Doubler {
        needs_maintenance,
        ..Doubler::default()
    };
    let threads = [vec![1, 2], vec![3, 4], vec![5]];
    let (batches, abandoned) = submit_all(doubler, &threads);
    assert_eq!(abandoned, 0);
    let mut answered: Vec<u64> = batches.concat();
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3, 4, 5], "each exactly once: {batches:?}");
}

#[cfg(feature = "shuttle")]
mod model_checked {
    use super::*;

    const SCHEDULES: usize = 5_000;

    #[test]
    fn every_schedule_answers_every_caller_once() {
        shuttle::check_random(|| check_every_caller_is_answered_once(false), SCHEDULES);
        shuttle::check_pct(|| check_every_caller_is_answered_once(false), SCHEDULES, 3);
    }

    #[test]
    fn every_schedule_answers_every_caller_once_with_maintenance() {
        shuttle::check_random(|| check_every_caller_is_answered_once(true), SCHEDULES);
    }

    #[test]
    fn all_schedules_of_two_callers() {
        shuttle::check_dfs(
            || {
                submit_all(Doubler::default(), &[vec![1], vec![2]]);
            },
            Some(20_000),
        );
    }
}

#[cfg(not(feature = "shuttle"))]
mod with_threads {
    use super::*;

    #[test]
    fn a_lone_caller_leads_its_own_batch() {
        let (batches, _) = submit_all(Doubler::default(), &[vec![1, 2, 3]]);
        assert_eq!(batches, [[1], [2], [3]]);
    }

    #[test]
    fn every_caller_is_answered_once() {
        for needs_maintenance in [false, true] {
            check_every_caller_is_answered_once(needs_maintenance);
        }
    }

    #[test]
    fn waiting_callers_form_one_batch_in_order_of_at_most_64() {
        let shared = Arc::new((CommitGroup::<u64, u64>::default(), Doubler::default()));
        // Holds back the first leader until a hundred others wait.
        let turn = lock(&shared.1.turn);
        let mut handles = Vec::new();
        for number in 100..201 {
            let others = Arc::clone(&shared);
            handles.push(thread::spawn(move || others.0.submit(&others.1, number)));
            let arrived = || {
                let queue = lock(&shared.0.0);
                queue.has_leader && queue.waiting.len() as u64 == number - 100
            };
            while !arrived() {
                thread::yield_now();
            }
        }
        drop(turn);
        for handle in handles {
            handle.join().unwrap().unwrap();
        }
        let batches = lock(&shared.1.turn).clone();
        assert_eq!(
            batches,
            [
                (100..164).collect::<Vec<_>>(),
                (164..201).collect::<Vec<_>>()
            ]
        );
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_waiting() {
        let threads: Vec<Vec<u64>> = (0..8)
            .map(|thread| {
                (0..50)
                    .map(|step| {
                        if step % 10 == 3 && thread % 3 == 0 {
                            POISONED_WORK
                        } else {
                            100 + step
                        }
                    })
                    .collect()
            })
            .collect();
        let (batches, abandoned) = submit_all(Doubler::default(), &threads);
        let poisoned: usize = batches
            .iter()
            .filter(|batch| batch.contains(&POISONED_WORK))
            .map(Vec::len)
            .sum();
        assert_eq!(
            abandoned as usize, poisoned,
            "only the poisoned batches are lost"
        );
        assert!(poisoned >= 15);
    }
}
