//! Sizes of plans' changes, counted in the background.
//!
//! Counting starts git, which a list of many plans cannot wait for. Only differences of immutable trees are kept, so
//! nothing here can be out of date. The number of kept sizes is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use api::change_size::{ChangeSize, ChangedTrees, count_changed_lines};
use store::PlanRow;

use crate::engine_access::EngineAccess;

/// The most sizes that are kept. The oldest are counted again when somebody looks at their plans.
const MAX_KEPT_SIZES: usize = 2000;

/// The most sizes counted for one look at the board.
const MAX_COUNTED_AT_ONCE: usize = 200;

/// What is known about the size of a change.
#[derive(Debug, Clone)]
pub enum KnownSize {
    Counted(Arc<ChangeSize>),
    /// The trees are gone, or are on another host.
    Uncountable,
}

/// Sizes of changes, shared by all clients.
#[derive(Debug, Default)]
pub struct ChangeSizes {
    kept: Mutex<KeptSizes>,
    is_counting: AtomicBool,
}

#[derive(Debug, Default)]
struct KeptSizes {
    sizes: BTreeMap<ChangedTrees, KnownSize>,
    /// The keys, oldest first.
    order: VecDeque<ChangedTrees>,
}

impl KeptSizes {
    fn keep(&mut self, trees: ChangedTrees, size: KnownSize) {
        if self.sizes.insert(trees.clone(), size).is_none() {
            self.order.push_back(trees);
        }
        while self.order.len() > MAX_KEPT_SIZES {
            if let Some(oldest) = self.order.pop_front() {
                self.sizes.remove(&oldest);
            }
        }
    }
}

impl ChangeSizes {
    /// Returns the size if it was counted.
    pub fn find(&self, trees: &ChangedTrees) -> Option<KnownSize> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sizes.get(trees).cloned()
    }

    fn keep(&self, trees: ChangedTrees, size: KnownSize) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keep(trees, size);
    }

    /// Counts the sizes of these plans, one after the other, unless that is going on already. Callers that do not want
    /// to wait for it drop the future of the task that runs it.
    pub async fn count(&self, engine: &EngineAccess, rows: Vec<PlanRow>) {
        if self.is_counting.swap(true, Ordering::AcqRel) {
            return;
        }
        for row in rows.into_iter().take(MAX_COUNTED_AT_ONCE) {
            let Some(trees) = ChangedTrees::of_result(&row.plan) else {
                continue;
            };
            if self.find(&trees).is_some() {
                continue;
            }
            let counted = engine.read("diff", Some(row.plan.id()), move |lifecycle| {
                Ok(count_changed_lines(lifecycle, &row.plan)?)
            });
            match counted.await {
                Ok(size) => self.keep(trees, KnownSize::Counted(Arc::new(size))),
                // Busy, or the store is away: the next look at the board tries again.
                Err(problem)
                    if problem.status_code().is_server_error() && problem.retry_after.is_some() =>
                {
                    break;
                }
                Err(_) => self.keep(trees, KnownSize::Uncountable),
            }
        }
        self.is_counting.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(number: usize) -> ChangedTrees {
        ChangedTrees::new([("shop".to_owned(), "base".to_owned(), number.to_string())])
    }

    #[test]
    fn number_of_kept_sizes_is_bounded() {
        let mut kept = KeptSizes::default();
        for number in 0..=MAX_KEPT_SIZES {
            kept.keep(trees(number), KnownSize::Uncountable);
            kept.keep(trees(number), KnownSize::Uncountable);
        }
        assert_eq!(kept.sizes.len(), MAX_KEPT_SIZES);
        assert_eq!(kept.order.len(), MAX_KEPT_SIZES);
        assert!(!kept.sizes.contains_key(&trees(0)));
    }
}
