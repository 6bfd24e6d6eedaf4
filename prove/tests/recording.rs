//! A change that is recorded between judging a result and handing it in: it moves no version, and is judged all
//! the same.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

use std::sync::{Arc, Mutex};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::ChangesetSelector as Target;
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{Caller, Event, PlanActors, Span};
use planwright_prove::wrapped::{Doors, Wrapped};
use store::{MemoryStore, Store, Submission};

/// What they do.
type Before = Box<dyn FnOnce() + Send>;

/// Somebody else is faster than the next submission.
#[derive(Default, Clone)]
struct First(Arc<Mutex<Option<Before>>>);

impl Doors for First {
    fn submission(&self, submission: Submission) -> Submission {
        if let Some(first) = self.0.lock().unwrap().take() {
            first();
        }
        submission
    }
}

#[test]
fn a_change_that_comes_late_is_judged_too() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let doors = First::default();
    let others = Lifecycle::on(Arc::clone(&store));
    let lifecycle = Lifecycle::on(Arc::new(Wrapped::new(store, doors.clone())));
    let call = Call::by(Caller::Person("ada".into()));
    let bot: plan::QualifiedName = "bot".parse().unwrap();
    let request = UseRequest {
        goal: Some("x".into()),
        fallback_actors: Some(PlanActors::for_both_phases(bot)),
        ..UseRequest::default()
    };
    let plan = lifecycle.use_action(request, &call).unwrap().plan.id;
    let draft = RuleDraft {
        name: "hands-off".parse().unwrap(),
        check: RuleCheck::Forbid(vec!["secret".into()]),
        at: vec![Gate::Result],
        advisory: false,
        non_overridable: false,
    };
    lifecycle
        .add_rule(RuleScope::Plan(plan), draft, &call)
        .unwrap();
    let lease = Span::from_seconds(60);
    let claim = lifecycle
        .start_strategize(plan, "bot", lease, &call)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan, &call).unwrap();
    let claim = lifecycle.start_execute(plan, "bot", lease, &call).unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan, epoch, Node::main(), &call)
        .unwrap();
    *doors.0.lock().unwrap() = Some(Box::new(move || {
        let entry = ChangesetEntry::new(TreePath::new("secret").unwrap(), PathOperation::Create);
        let call = Call::by(Caller::Person("bob".into()));
        others
            .record_change(plan, epoch, Target::Node(Node::main()), entry, &call)
            .unwrap();
    }));
    let result = ResultContent {
        report: Some("done".to_owned().into()),
        ..ResultContent::default()
    };
    lifecycle
        .complete_execute(plan, epoch, &result, &call)
        .unwrap();
    let history = lifecycle.read_history(plan).unwrap();
    let unmet = history.iter().find_map(|one| match &one.event {
        Event::ExecuteCompleted { unmet, .. } => Some(unmet.len()),
        _ => None,
    });
    assert_eq!(unmet, Some(1));
}
