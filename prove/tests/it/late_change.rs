//! A change recorded between judging a result and submitting it is judged, too, although it does not change the plan's
//! version.

use std::sync::{Arc, Mutex};

use lifecycle::{Call, Lifecycle, UseRequest};
use plan::changeset::{ChangesetEntry, Node, PathOperation, TreePath};
use plan::command::{ChangesetSelector, RecordChange};
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{Caller, Event, PlanActors, Span};
use planwright_prove::hooked_store::{HookedStore, StoreHooks};
use store::{MemoryStore, Store, Submission};

/// An action that runs once.
type OneTimeAction = Box<dyn FnOnce() + Send>;

/// Runs an action right before the next submission, as if another caller were faster.
#[derive(Default, Clone)]
struct BeforeNextSubmission(Arc<Mutex<Option<OneTimeAction>>>);

impl StoreHooks for BeforeNextSubmission {
    fn edit_submission(&self, submission: Submission) -> Submission {
        if let Some(action) = self.0.lock().unwrap().take() {
            action();
        }
        submission
    }
}

#[test]
fn a_change_recorded_after_the_judgement_is_judged_too() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let hooks = BeforeNextSubmission::default();
    let others = Lifecycle::on(Arc::clone(&store));
    let lifecycle = Lifecycle::on(Arc::new(HookedStore::new(store, hooks.clone())));
    let call = Call::by(Caller::Person("ada".into()));
    let actor: plan::QualifiedName = "bot".parse().unwrap();
    let request = UseRequest {
        goal: Some("x".into()),
        fallback_actors: Some(PlanActors::for_both_phases(actor)),
        ..UseRequest::default()
    };
    let plan_id = lifecycle.use_action(request, &call).unwrap().plan.id();
    let draft = RuleDraft {
        name: "hands-off".parse().unwrap(),
        check: RuleCheck::Forbid(vec!["secret".into()]),
        at: vec![Gate::Result],
        advisory: false,
        non_overridable: false,
    };
    lifecycle
        .rules()
        .add_rule(RuleScope::Plan(plan_id), draft, &call)
        .unwrap();
    let lease = Span::from_seconds(60);
    let claim = lifecycle
        .claims()
        .start_strategize(plan_id, "bot", lease, &call)
        .unwrap();
    claim.complete_strategize(Vec::new()).unwrap();
    lifecycle.execute_plan(plan_id, &call).unwrap();
    let claim = lifecycle
        .claims()
        .start_execute(plan_id, "bot", lease, &call)
        .unwrap();
    let epoch = claim.epoch();
    lifecycle
        .open_changeset(plan_id, epoch, Node::main(), &call)
        .unwrap();
    *hooks.0.lock().unwrap() = Some(Box::new(move || {
        let entry = ChangesetEntry::new(TreePath::new("secret").unwrap(), PathOperation::Create);
        let call = Call::by(Caller::Person("bob".into()));
        others
            .submit_command(
                plan_id,
                RecordChange::new(epoch, ChangesetSelector::Node(Node::main()), entry),
                &call,
            )
            .unwrap();
    }));
    let result = ResultContent {
        report: Some("done".to_owned().into()),
        ..ResultContent::default()
    };
    lifecycle
        .complete_execute(plan_id, epoch, &result, &call)
        .unwrap();
    let history = lifecycle.history().read_history(plan_id).unwrap();
    let unmet = history.iter().find_map(|recorded| match &recorded.event {
        Event::ExecuteCompleted { unmet, .. } => Some(unmet.len()),
        _ => None,
    });
    assert_eq!(unmet, Some(1));
}
