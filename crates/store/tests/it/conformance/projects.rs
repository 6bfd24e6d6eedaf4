//! Tests projects: names are unique, projects in use do not change, and plans are found by project.

use plan::command::{
    CancelPlan, CompleteStrategize, CreatePlan, CreateProject, DeleteProject, ExecutePlan,
    LinkResource, PauseProject, ReleaseLease, RelinkResource, ResumeProject, UndoLanding,
    UnlinkResource,
};
use plan::command::{LinkedPlan, NewPlan};
use plan::project::{Project, Resource};
use plan::{Command, Phase, PlanId, QualifiedName, ReceiptOutcome, Refusal};
use store::verify::verify_store;
use store::{CommitError, PlanFilter};
use testkit::client::{LONG_LEASE, expect_done};
use testkit::{TestClient, samples};

use crate::store_fixture::{StoreFixture, commit_while};

super::on_every_store! {
    sixteen_creators_of_the_same_project_create_it_once_without_a_refusal,
    of_sixteen_different_projects_with_one_name_one_is_created,
    projects_are_listed_by_name_in_pages,
    a_project_is_changed_and_read_back,
    a_project_is_deleted_or_used_but_not_both,
    a_project_is_not_deleted_while_it_is_being_used,
    a_project_is_not_deleted_while_a_plan_of_it_is_undone,
    no_plan_starts_once_its_project_is_paused,
    a_project_is_not_paused_while_a_plan_of_it_starts,
    resources_linked_at_once_are_all_kept,
    unfinished_plans_of_a_project_are_counted_and_the_newest_listed,
    an_ended_plan_does_not_use_its_project,
    plans_are_listed_by_project,
    a_key_remembers_how_a_project_was_created,
}

fn shop() -> QualifiedName {
    samples::parse_name("shop")
}

fn creates(name: &QualifiedName, resources: &[Resource]) -> Command {
    Command::from(CreateProject {
        name: name.clone(),
        resources: resources.to_vec(),
    })
}

fn deletes(name: &QualifiedName, force: bool) -> Command {
    Command::from(DeleteProject {
        name: name.clone(),
        force,
    })
}

fn add_project(client: &TestClient, name: &QualifiedName) {
    expect_done(client.submit(creates(name, &[samples::git_resource("code")])));
}

fn uses(client: &TestClient, projects: &[&QualifiedName]) -> NewPlan {
    NewPlan {
        projects: projects.iter().map(|name| (*name).clone()).collect(),
        ..samples::plan_for_goal(client.ids().next_plan_id(), "work on it")
    }
}

fn add_plan(client: &TestClient, project: &QualifiedName) -> PlanId {
    client.add_plan(uses(client, &[project]))
}

fn cancel(client: &TestClient, plan: PlanId) {
    client.must_submit(plan, Command::from(CancelPlan { reason: None }));
}

fn project(client: &TestClient, name: &QualifiedName) -> Option<Project> {
    client.store().read_project(name).unwrap()
}

fn sixteen_creators_of_the_same_project_create_it_once_without_a_refusal(fixture: &StoreFixture) {
    let answers = fixture.race(16, |_, client| {
        client.submit(creates(&shop(), &[samples::git_resource("code")]))
    });
    let outcomes: Vec<ReceiptOutcome> = answers
        .into_iter()
        .map(|answer| answer.unwrap().receipt.outcome)
        .collect();
    let created = outcomes.iter().filter(|one| **one == ReceiptOutcome::Done);
    assert_eq!(created.count(), 1, "{outcomes:?}");
    assert_eq!(fixture.open().list_projects(None, 100).unwrap().len(), 1);
}

fn of_sixteen_different_projects_with_one_name_one_is_created(fixture: &StoreFixture) {
    let answers = fixture.race(16, |number, client| {
        client.submit(creates(
            &shop(),
            &[samples::git_resource(&format!("from-{number}"))],
        ))
    });
    let winners: Vec<usize> = (0..16).filter(|&number| answers[number].is_ok()).collect();
    let [winner] = winners[..] else {
        panic!("{answers:?}");
    };
    for answer in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(
            matches!(answer, CommitError::Refused(Refusal::ProjectExists { .. })),
            "{answer:?}"
        );
    }
    let stored = project(&fixture.client(), &shop()).unwrap();
    let expected = vec![samples::git_resource(&format!("from-{winner}"))];
    assert_eq!(stored.resources, expected);
}

fn projects_are_listed_by_name_in_pages(fixture: &StoreFixture) {
    let client = fixture.client();
    assert_eq!(client.store().list_projects(None, 10).unwrap(), Vec::new());
    assert_eq!(project(&client, &shop()), None);
    let names = ["acme/b", "acme/a", "local/z", "zoo/a", "b"].map(samples::parse_name);
    for name in &names {
        add_project(&client, name);
    }
    let mut listed: Vec<QualifiedName> = Vec::new();
    loop {
        let page = client.store().list_projects(listed.last(), 2).unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.into_iter().map(|project| project.name));
    }
    let mut sorted = names.to_vec();
    sorted.sort();
    assert_eq!(listed, sorted);
}

fn a_project_is_changed_and_read_back(fixture: &StoreFixture) {
    let client = fixture.client();
    add_project(&client, &shop());
    let submit = |command| expect_done(client.submit(command));
    let docs = samples::git_resource("docs");
    submit(Command::from(LinkResource {
        project: shop(),
        resource: docs.clone(),
    }));
    let moved = Resource {
        host: "elsewhere".parse().unwrap(),
        ..docs.clone()
    };
    submit(Command::from(RelinkResource {
        project: shop(),
        name: moved.name.clone(),
        host: moved.host.clone(),
        place: moved.place.clone(),
    }));
    submit(Command::from(UnlinkResource {
        project: shop(),
        name: "code".parse().unwrap(),
        force: false,
    }));
    submit(Command::from(PauseProject(shop())));
    let stored = project(&fixture.client(), &shop()).unwrap();
    assert_eq!(stored.resources, [moved]);
    assert!(stored.paused.is_some());
    submit(Command::from(ResumeProject(shop())));
    assert_eq!(project(&client, &shop()).unwrap().paused, None);
    submit(deletes(&shop(), false));
    assert_eq!(project(&client, &shop()), None);
    add_project(&client, &shop());
}

/// In any order: a committed use keeps the project, a committed delete refuses the use.
fn a_project_is_deleted_or_used_but_not_both(fixture: &StoreFixture) {
    let client = fixture.client();
    for round in 0..12 {
        let name = samples::parse_name(&format!("shop-{round}"));
        add_project(&client, &name);
        let answers = fixture.race(8, |number, client| {
            if number == 3 {
                client.submit(deletes(&name, false))
            } else {
                client.submit(Command::from(CreatePlan(uses(client, &[&name]))))
            }
        });
        let deleted = answers[3].is_ok();
        let uses = answers.iter().enumerate().filter(|(one, _)| *one != 3);
        let used = uses.clone().filter(|(_, answer)| answer.is_ok()).count();
        assert!(deleted != (used > 0), "deleted: {deleted}, used: {used}");
        for (_, answer) in uses {
            match answer {
                Ok(_) | Err(CommitError::Refused(Refusal::NoSuchProject(_))) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        if let Err(refused) = &answers[3] {
            assert!(
                matches!(refused, CommitError::Refused(Refusal::ProjectInUse { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(project(&client, &name).is_none(), deleted);
    }
}

fn a_project_is_not_deleted_while_it_is_being_used(fixture: &StoreFixture) {
    let client = fixture.client();
    add_project(&client, &shop());
    let submission =
        client.build_submission(None, Command::from(CreatePlan(uses(&client, &[&shop()]))));
    let other = fixture.client();
    let delete = move || {
        let answer = other.submit(deletes(&shop(), false));
        assert!(
            matches!(
                answer,
                Err(CommitError::Refused(Refusal::ProjectInUse { count: 1, .. }))
            ),
            "{answer:?}"
        );
    };
    let (answer, in_time) = commit_while(&client, submission, delete);
    expect_done(answer);
    assert!(!in_time, "it did not wait");
    assert!(project(&client, &shop()).is_some());
}

fn a_project_is_not_deleted_while_a_plan_of_it_is_undone(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = samples::parse_name(samples::PROJECT_NAME);
    expect_done(client.submit(creates(&name, &samples::sample_project().resources)));
    let landed = client.create_landed_plan("done");
    let undo = Command::from(UndoLanding(LinkedPlan {
        id: client.ids().next_plan_id(),
        resources: vec![samples::RESOURCE_NAME.to_owned()],
        result: samples::result_content("undo"),
    }));
    let submission = client.build_submission(Some(landed), undo);
    let (other, deleted) = (fixture.client(), name.clone());
    let delete = move || {
        let answer = other.submit(deletes(&deleted, false));
        assert!(
            matches!(
                answer,
                Err(CommitError::Refused(Refusal::ProjectInUse { count: 1, .. }))
            ),
            "{answer:?}"
        );
    };
    let (answer, in_time) = commit_while(&client, submission, delete);
    expect_done(answer);
    assert!(!in_time, "it did not wait");
}

fn no_plan_starts_once_its_project_is_paused(fixture: &StoreFixture) {
    let client = fixture.client();
    add_project(&client, &shop());
    for phase in [Phase::Strategize, Phase::Execute] {
        let plan = add_plan(&client, &shop());
        if phase == Phase::Execute {
            let epoch = client.claim_phase(plan, LONG_LEASE);
            let decisions = Vec::new();
            client.must_submit(plan, Command::from(CompleteStrategize { epoch, decisions }));
            let judgement = client.judge_rules(plan, plan::invariant::Gate::Execute);
            client.must_submit(plan, Command::from(ExecutePlan { judgement }));
        }
        expect_done(client.submit(Command::from(PauseProject(shop()))));
        let answer = client.submit_for_plan(plan, client.start_command(plan, phase, LONG_LEASE));
        let Err(CommitError::Refused(Refusal::ProjectPaused { project, .. })) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(project, shop());
        expect_done(client.submit(Command::from(ResumeProject(shop()))));
        client.claim_phase(plan, LONG_LEASE);
        expect_done(client.submit(deletes(&shop(), true)));
        let answer = client.submit_for_plan(plan, client.start_command(plan, phase, LONG_LEASE));
        assert!(
            matches!(answer, Err(CommitError::Refused(Refusal::Held { .. }))),
            "{answer:?}"
        );
        let epoch = client.load_plan(plan).epoch();
        client.must_submit(plan, Command::from(ReleaseLease { epoch }));
        let answer = client.submit_for_plan(plan, client.start_command(plan, phase, LONG_LEASE));
        assert!(
            matches!(answer, Err(CommitError::Refused(Refusal::NoSuchProject(_)))),
            "{answer:?}"
        );
        add_project(&client, &shop());
    }
}

fn a_project_is_not_paused_while_a_plan_of_it_starts(fixture: &StoreFixture) {
    let client = fixture.client();
    add_project(&client, &shop());
    let plan = add_plan(&client, &shop());
    let start = client.start_command(plan, Phase::Strategize, LONG_LEASE);
    let submission = client.build_submission(Some(plan), start);
    let other = fixture.client();
    let pause = move || {
        drop(expect_done(
            other.submit(Command::from(PauseProject(shop()))),
        ))
    };
    let (answer, in_time) = commit_while(&client, submission, pause);
    expect_done(answer);
    assert!(!in_time, "it did not wait");
    assert!(project(&client, &shop()).unwrap().paused.is_some());
}

fn resources_linked_at_once_are_all_kept(fixture: &StoreFixture) {
    add_project(&fixture.client(), &shop());
    fixture.race(16, |number, client| {
        expect_done(client.submit(Command::from(LinkResource {
            project: shop(),
            resource: samples::git_resource(&format!("part-{number}")),
        })));
    });
    let stored = project(&fixture.client(), &shop()).unwrap();
    assert_eq!(stored.resources.len(), 17);
}

fn unfinished_plans_of_a_project_are_counted_and_the_newest_listed(fixture: &StoreFixture) {
    let client = fixture.client();
    let other = samples::parse_name("other");
    add_project(&client, &shop());
    add_project(&client, &other);
    let mut plans: Vec<PlanId> = (0..7).map(|_| add_plan(&client, &shop())).collect();
    add_plan(&client, &other);
    plans.push(client.add_plan(uses(&client, &[&other, &shop(), &other])));
    cancel(&client, plans.remove(3));
    plans.sort();
    plans.reverse();
    for command in [
        deletes(&shop(), false),
        Command::from(UnlinkResource {
            project: shop(),
            name: "code".parse().unwrap(),
            force: false,
        }),
    ] {
        let answer = client.submit(command);
        let Err(CommitError::Refused(Refusal::ProjectInUse {
            count,
            plans: named,
            ..
        })) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((count, named.as_slice()), (7, &plans[..5]));
    }
    expect_done(client.submit(deletes(&shop(), true)));
}

fn an_ended_plan_does_not_use_its_project(fixture: &StoreFixture) {
    let client = fixture.client();
    let name = samples::parse_name(samples::PROJECT_NAME);
    expect_done(client.submit(creates(&name, &samples::sample_project().resources)));
    client.create_landed_plan("done");
    let cancelled = client.create_queued_plan("not needed");
    assert!(client.submit(deletes(&name, false)).is_err());
    cancel(&client, cancelled);
    expect_done(client.submit(deletes(&name, false)));
    assert_eq!(
        verify_store(fixture.open().as_ref()).unwrap().problems,
        Vec::<String>::new()
    );
}

fn plans_are_listed_by_project(fixture: &StoreFixture) {
    let client = fixture.client();
    let other = samples::parse_name("acme/shop");
    add_project(&client, &shop());
    add_project(&client, &other);
    let mut own = Vec::new();
    for number in 0..9 {
        let both = uses(&client, &[&shop(), &other]);
        own.push(match number % 3 {
            0 => client.add_plan(both),
            _ => add_plan(&client, &shop()),
        });
        add_plan(&client, &other);
    }
    cancel(&client, own[4]);
    client.claim_phase(own[5], LONG_LEASE);
    let listed = |filter: PlanFilter, limit: usize| {
        let filter = PlanFilter {
            project: Some(shop()),
            ..filter
        };
        let mut found: Vec<PlanId> = Vec::new();
        loop {
            let after = found.last().copied();
            let page = client.store().list_plans(&filter, after, limit).unwrap();
            if page.is_empty() {
                return found;
            }
            assert!(page.iter().all(|row| filter.matches(row)));
            found.extend(page.iter().map(|row| row.plan.id()));
        }
    };
    own.sort();
    let newest_first: Vec<PlanId> = own.iter().rev().copied().collect();
    for limit in [1, 2, 100] {
        assert_eq!(listed(PlanFilter::default(), limit), newest_first);
    }
    for filter in [
        PlanFilter {
            state: Some(plan::stage::StateName::Cancelled),
            ..PlanFilter::default()
        },
        PlanFilter {
            phase: Some(Phase::Execute),
            ..PlanFilter::default()
        },
        PlanFilter {
            needs_person: true,
            ..PlanFilter::default()
        },
        PlanFilter {
            action: Some(samples::parse_name("tidy")),
            ..PlanFilter::default()
        },
    ] {
        let all = client.store().list_plans(&filter, None, 100).unwrap();
        let expected: Vec<PlanId> = all
            .iter()
            .map(|row| row.plan.id())
            .filter(|id| own.contains(id))
            .collect();
        assert_eq!(listed(filter, 2), expected);
    }
}

fn a_key_remembers_how_a_project_was_created(fixture: &StoreFixture) {
    let client = fixture.client();
    let create = || creates(&shop(), &[samples::git_resource("code")]);
    let first = client.submit_with_key("k", "code", None, create()).unwrap();
    expect_done(client.submit(deletes(&shop(), false)));
    let again = client.submit_with_key("k", "code", None, create()).unwrap();
    assert!(again.is_repeat);
    assert_eq!(again.receipt, first.receipt);
    assert_eq!(project(&client, &shop()), None);
    // A receipt without changes is stored, too.
    add_project(&client, &shop());
    let same = client.submit_with_key("l", "code", None, create()).unwrap();
    assert_eq!(same.receipt.outcome, ReceiptOutcome::AlreadyDone);
    let again = client.submit_with_key("l", "code", None, create()).unwrap();
    assert_eq!((again.is_repeat, again.receipt), (true, same.receipt));
}
