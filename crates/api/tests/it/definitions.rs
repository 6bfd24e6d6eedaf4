//! Actions, agents and rules as they are listed, and what a host's check finds.

use lifecycle::Lifecycle;
use plan::ActorDefinition;
use plan::actor::ActorKind;
use plan::invariant::{Gate, RuleCheck, RuleScope};
use plan::repository_policy::RepositoryPolicy;
use planwright_api::actions;
use planwright_api::actors::{self, ActorCatalog, DefinitionSource};
use planwright_api::doctor::{self, DoctorFinding};
use planwright_api::plan_config::RepositoryAction;
use planwright_api::rules::{self, AddRuleRequest};
use planwright_api::sandboxes::{self, SandboxOperationError};
use planwright_api::view::ActionListView;
use store::MemoryStore;
use testkit::samples;

use crate::shop_repository::{ShopFixture, call_as_ada};

#[test]
fn a_page_of_actions_starts_with_those_of_the_repository() {
    let lifecycle = Lifecycle::open(MemoryStore::new());
    for name in ["one", "three", "two"] {
        let definition = samples::reusable_action(name);
        actions::create_action(&lifecycle, &definition, &call_as_ada()).unwrap();
    }
    let in_repository = ["own", "two"].map(|name| RepositoryAction {
        definition: samples::reusable_action(name),
        file: "/home/ada/shop/planwright.yaml".into(),
    });
    let list = |after: Option<&str>| {
        let after = after.map(samples::parse_name);
        let page = actions::list_actions(&lifecycle, &in_repository, after.as_ref(), 2).unwrap();
        let view = ActionListView::from(&page);
        let rows = view.actions.into_iter();
        let rows: Vec<(String, &str)> = rows.map(|one| (one.name, one.state)).collect();
        (rows, view.next)
    };
    let row = |name: &str, state| (name.to_owned(), state);
    let (first, next) = list(None);
    assert_eq!(
        first,
        [
            row("own", "available"),
            row("two", "shadowed"),
            row("one", "available"),
            row("three", "available"),
        ]
    );
    assert_eq!(next.as_deref(), Some("three"));
    assert_eq!(list(Some("three")), (vec![row("two", "available")], None));
    let archived = actions::archive_action(&lifecycle, &samples::parse_name("two"), &call_as_ada());
    assert!(!actions::is_available(&archived.unwrap()));
    assert_eq!(list(None).0[1], row("two", "available"));
}

#[test]
fn the_users_agent_hides_the_repositorys_and_the_preset() {
    let define = |name: &str, description: &str| ActorDefinition {
        name: samples::parse_name(name),
        description: Some(description.to_owned()),
        kind: ActorKind::Human { timeout: None },
    };
    let catalog = ActorCatalog {
        own: vec![define("claude", "mine")],
        ..ActorCatalog::default()
    };
    let in_repository = [define("claude", "theirs"), define("robot", "theirs")];
    let found = actors::list_actors(&catalog, &in_repository, &::actors::HostEnv::default());
    let source_of = |name: &str| {
        let mut same = found
            .iter()
            .filter(|one| one.definition.name == samples::parse_name(name));
        let first = same.next().unwrap();
        assert!(same.next().is_none(), "{name} is listed once");
        first.source
    };
    assert_eq!(source_of("claude"), DefinitionSource::You);
    assert_eq!(source_of("robot"), DefinitionSource::Repository);
    assert_eq!(source_of("codex"), DefinitionSource::Preset);
}

#[test]
fn a_rule_is_checked_at_every_gate_that_it_applies_to() {
    let shop = ShopFixture::new();
    let request = AddRuleRequest {
        scope: RuleScope::Project(samples::parse_name("shop")),
        name: "docs".parse().unwrap(),
        check: RuleCheck::Allow(vec!["*.md".to_owned(), "docs/**".to_owned()]),
        at: Vec::new(),
        advisory: false,
        non_overridable: false,
    };
    let added = rules::add_rule(&shop.lifecycle, &request, &call_as_ada()).unwrap();
    let added = added.unwrap();
    assert_eq!(added.draft.at, lifecycle::default_gates(&request.check));
    let shop_name = samples::parse_name("shop");
    let unmatched = rules::find_unmatched_globs(&shop.lifecycle, &request.check, &shop_name);
    assert_eq!(unmatched, ["docs/**"]);
    let again = AddRuleRequest {
        at: vec![Gate::Result, Gate::Apply, Gate::Result],
        name: "twice".parse().unwrap(),
        ..request.clone()
    };
    let added = rules::add_rule(&shop.lifecycle, &again, &call_as_ada()).unwrap();
    assert_eq!(added.unwrap().draft.at, [Gate::Result, Gate::Apply]);
    let scope = &request.scope;
    rules::remove_rule(&shop.lifecycle, scope, &again.name, &call_as_ada()).unwrap();
    let left = rules::list_rules(&shop.lifecycle).unwrap();
    assert_eq!(left.len(), 1);
}

#[test]
fn only_sandboxes_of_finished_plans_are_removed() {
    let shop = ShopFixture::new();
    let plan_id = crate::changing_plans::create_result(&shop, RepositoryPolicy::default());
    let refused = sandboxes::clean_plan_sandboxes(&shop.lifecycle, plan_id);
    assert!(
        matches!(refused, Err(SandboxOperationError::NotFinished(_))),
        "{refused:?}"
    );
    let cleaned = sandboxes::clean_all_sandboxes(&shop.lifecycle).unwrap();
    assert!(cleaned.is_empty(), "{cleaned:?}");
    shop.lifecycle
        .cancel_plan(plan_id, None, &call_as_ada())
        .unwrap();
    let cleaned = sandboxes::clean_all_sandboxes(&shop.lifecycle).unwrap();
    assert!(cleaned[0].result.as_ref().unwrap().is_removed);
    let restored = sandboxes::restore_sandboxes(&shop.lifecycle, plan_id).unwrap();
    assert!(restored.sandboxes[0].path.join("notes.md").exists());
}

#[test]
fn a_check_of_the_store_also_looks_for_remnants_of_crashes() {
    let shop = ShopFixture::new();
    let found = doctor::check_store(&shop.lifecycle);
    assert!(found.iter().all(DoctorFinding::is_ok), "{found:?}");
    assert!(
        matches!(
            found.last(),
            Some(DoctorFinding::CrashRemnants {
                unfinished_landings: 0,
                leftovers: 0
            })
        ),
        "{found:?}"
    );
    let repaired = doctor::repair_host(&shop.lifecycle, "doctor", &call_as_ada()).unwrap();
    assert!(repaired.is_empty(), "{repaired:?}");
}
