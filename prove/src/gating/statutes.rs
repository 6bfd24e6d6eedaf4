//! Which rules there were, and when. The store keeps only those that are in force, so whoever changes rules
//! in a trial does so through here, one after the other in each scope, and it is written down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::bail;
use plan::invariant::{Rule, RuleScope};
use plan::{Plan, Timestamp};

use crate::ground::Ground;
use crate::trial::moment;

/// All scopes.
#[derive(Default)]
pub struct Statutes {
    books: Mutex<BTreeMap<RuleScope, Arc<Mutex<Book>>>>,
}

/// The rules of a scope, one revision after the other.
#[derive(Default)]
struct Book {
    amendments: Vec<Amendment>,
    /// When a change was last asked for. One whose process was killed may still come.
    asked: i64,
}

/// The rules of a scope from one moment on, which lies somewhere between two others.
#[derive(Debug, Clone)]
struct Amendment {
    revision: u64,
    called: i64,
    answered: i64,
    rules: Vec<Rule>,
}

impl Statutes {
    fn book(&self, scope: &RuleScope) -> Arc<Mutex<Book>> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(books.entry(scope.clone()).or_default())
    }

    /// Changes the rules of a scope, if that is what comes of it.
    pub fn amend(
        &self,
        ground: &Ground,
        scope: &RuleScope,
        change: impl FnOnce(&[Rule]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let book = self.book(scope);
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        book.catch_up(ground, scope)?;
        book.asked = moment();
        change(book.amendments.last().map_or(&[], |last| &last.rules))?;
        book.catch_up(ground, scope)
    }

    /// Looks once more: what was killed may have done its work in the end.
    pub fn close(&self, ground: &Ground) -> anyhow::Result<()> {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        for (scope, book) in &*books {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            book.catch_up(ground, scope)?;
        }
        Ok(())
    }

    /// Every set of rules that may have been in a plan's scopes at a moment. Mostly that is one.
    pub fn possible(&self, plan: &Plan, at: Timestamp) -> Vec<Vec<Rule>> {
        let mut possible = vec![Vec::new()];
        for scope in scopes(plan) {
            let book = self.book(&scope);
            let book = book.lock().unwrap_or_else(PoisonError::into_inner);
            let sets = book.at(at.0);
            possible = possible
                .iter()
                .flat_map(|before: &Vec<Rule>| {
                    sets.iter()
                        .map(move |set| [before.as_slice(), set.as_slice()].concat())
                })
                .collect();
        }
        possible
    }

    /// The rules in a plan's scopes at these revisions.
    pub fn exactly(&self, plan: &Plan, revisions: &BTreeMap<RuleScope, u64>) -> Vec<Rule> {
        let of = |scope: RuleScope| {
            let revision = revisions.get(&scope).copied().unwrap_or(0);
            let book = self.book(&scope);
            let book = book.lock().unwrap_or_else(PoisonError::into_inner);
            let mut found = book.amendments.iter();
            let found = found.find(|one| one.revision == revision);
            found.map(|one| one.rules.clone()).unwrap_or_default()
        };
        scopes(plan).into_iter().flat_map(of).collect()
    }
}

/// The scopes of a trial that bear on a plan.
pub fn scopes(plan: &Plan) -> Vec<RuleScope> {
    let mut scopes = vec![RuleScope::Global];
    scopes.extend(
        plan.resources
            .iter()
            .map(|one| RuleScope::Project(one.project.clone())),
    );
    scopes.push(RuleScope::Plan(plan.id));
    scopes
}

impl Book {
    fn catch_up(&mut self, ground: &Ground, scope: &RuleScope) -> anyhow::Result<()> {
        let read = ground.store.read_rules(std::slice::from_ref(scope))?;
        let (revision, known) = (read.revision(scope), self.amendments.len() as u64);
        if revision == known {
            return Ok(());
        }
        if revision != known + 1 {
            bail!(
                "the rules of {scope} are at revision {revision}, and were changed {known} times"
            );
        }
        self.amendments.push(Amendment {
            revision,
            called: self.asked,
            answered: moment(),
            rules: read.rules,
        });
        Ok(())
    }

    /// The sets that there may have been at a moment.
    fn at(&self, at: i64) -> Vec<&Vec<Rule>> {
        static NONE: Vec<Rule> = Vec::new();
        let ended = |index: usize| {
            let next = self.amendments.get(index);
            next.is_some_and(|next| next.answered < at)
        };
        let begun = self.amendments.iter().take_while(|one| one.called <= at);
        let mut sets: Vec<&Vec<Rule>> = begun
            .enumerate()
            .filter(|(index, _)| !ended(index + 1))
            .map(|(_, one)| &one.rules)
            .collect();
        if !ended(0) {
            sets.push(&NONE);
        }
        sets
    }
}
