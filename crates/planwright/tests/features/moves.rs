//! Every command, by the name features give it: as the words of a process and as a call.
//! And every stage a plan can be taken to.

use plan::changeset::{Entry, Node, Operation, TreePath};
use plan::command::Into;
use plan::invariant::{Check, Gate, RuleDraft, Scope};
use plan::stage::{Category, ConstraintKind, ResultContent};
use plan::{ChangesetId, Epoch, Name, PlanId};
use planwright::{Actors, Call, Error, Lifecycle, Span, UseRequest, plan, yaml};

use crate::world::{World, ada};

/// A lease that does not end while a scenario runs.
pub const LONG: Span = Span::seconds(3600);
/// A lease that has ended when it begins.
pub const OVER: Span = Span::seconds(-60);

/// The action of the scenarios.
pub const ACTION: &str = "\
name: tidy
description: Tidy one area
actor: bot
invariants:
  - name: calm
    expr: plan.attempt < 100
";

/// A plan where a scenario begins, with what its holder has.
pub struct Ready {
    pub plan: PlanId,
    pub epoch: Option<Epoch>,
    pub changeset: Option<ChangesetId>,
}

/// Makes the scenarios' action unless it is there.
pub fn action(engine: &Lifecycle) -> Name {
    let definition = yaml::action(ACTION, "action.yaml").unwrap();
    let name = definition.name.clone();
    if engine.get_action(&name).is_err() {
        engine.create_action(definition, &ada()).unwrap();
    }
    name
}

/// What a plan is made of.
pub fn request(action: &Name) -> UseRequest {
    UseRequest {
        action: Some(action.clone()),
        ..UseRequest::default()
    }
}

/// What a plan without an action is made of.
pub fn goal(text: &str) -> UseRequest {
    UseRequest {
        goal: Some(text.to_owned()),
        fallback_actors: Some(Actors::both("bot".parse().unwrap())),
        ..UseRequest::default()
    }
}

/// What a finished execute hands in.
pub fn report() -> ResultContent {
    ResultContent {
        report: Some("did it".into()),
        trees: Vec::new(),
    }
}

/// A new file.
pub fn created(path: &str) -> Entry {
    Entry::new(TreePath::new(path).unwrap(), Operation::Create)
}

/// A rule that never holds, judged at one gate.
pub fn never(gate: Gate) -> RuleDraft {
    RuleDraft {
        name: "never".parse().unwrap(),
        check: Check::Expr("plan.attempt > 1000".to_owned()),
        at: vec![gate],
        advisory: false,
        non_overridable: false,
    }
}

/// Takes a new plan to a stage.
pub fn plan_at(engine: &Lifecycle, stage: &str) -> Ready {
    let action = action(engine);
    let plan = engine.use_action(request(&action), &ada()).unwrap().plan.id;
    let mut ready = Ready {
        plan,
        epoch: None,
        changeset: None,
    };
    go(engine, &mut ready, stage);
    let reached = engine.get_plan(plan).unwrap().plan.stage.to_string();
    assert_eq!(reached, stage, "the way to a stage leads there");
    ready
}

/// Takes a plan from `strategize/queued` to a stage, by way of the stages before it.
fn go(engine: &Lifecycle, ready: &mut Ready, stage: &str) {
    let (plan, call) = (ready.plan, ada());
    let epoch = |ready: &Ready| ready.epoch.unwrap();
    match stage {
        "strategize/queued" => {}
        "strategize/processing" | "execute/processing" | "apply/processing" => {
            let (phase, _) = stage.split_once('/').unwrap();
            go(engine, ready, &format!("{phase}/queued"));
            let claim = match phase {
                "strategize" => engine.start_strategize(plan, "first", LONG, &call),
                "execute" => engine.start_execute(plan, "first", LONG, &call),
                _ => engine.start_apply(plan, "first", LONG, &call),
            };
            ready.epoch = Some(claim.unwrap().epoch());
            if phase == "execute" {
                let node = Node::main();
                let opened = engine.open_changeset(plan, epoch(ready), node, &call);
                ready.changeset = opened.unwrap().receipt.changeset;
            }
        }
        "strategize/complete" => {
            go(engine, ready, "strategize/processing");
            engine
                .complete_strategize(plan, epoch(ready), Vec::new(), &call)
                .unwrap();
        }
        "execute/queued" => {
            go(engine, ready, "strategize/complete");
            engine.execute_plan(plan, &call).unwrap();
        }
        "execute/complete" => {
            go(engine, ready, "execute/processing");
            engine
                .complete_execute(plan, epoch(ready), &report(), &call)
                .unwrap();
        }
        "apply/queued" => {
            go(engine, ready, "execute/complete");
            engine.apply_plan(plan, &call).unwrap();
        }
        "apply/processing, prepared" => {
            go(engine, ready, "apply/processing");
            engine
                .prepare_apply(plan, epoch(ready), &[], &call)
                .unwrap();
        }
        "apply/constrained" => {
            go(engine, ready, "apply/processing");
            let kind = ConstraintKind::Conflict;
            engine
                .constrain(plan, epoch(ready), kind, "both changed it", vec![], &call)
                .unwrap();
        }
        "apply/applied" => {
            go(engine, ready, "apply/processing");
            engine
                .complete_apply(plan, epoch(ready), Vec::new(), None, &call)
                .unwrap();
        }
        other => {
            let (phase, state) = other.split_once('/').unwrap();
            go(engine, ready, &format!("{phase}/processing"));
            let holder = epoch(ready);
            match state {
                "errored" => engine.fail(plan, holder, Category::Actor, "it broke", &call),
                "awaiting_input" => engine.ask(plan, holder, "Which way?", None, &call),
                "cancelled" => engine.cancel(plan, None, &call),
                _ => panic!("nobody knows the way to {other}"),
            }
            .unwrap();
        }
    }
}

/// The words a process is given for a command, from `planwright` on.
pub fn words(world: &World, command: &str) -> Vec<String> {
    let plan = world.plan().to_string();
    let plain = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let epoch = || world.epoch().to_string();
    let changeset = || world.changeset.expect("a changeset is open").to_string();
    match command {
        "create-action" => {
            let file = world.program.home().join("new.yaml");
            std::fs::write(&file, ACTION.replace("tidy", "new")).unwrap();
            plain(&["action", "create", "--config", file.to_str().unwrap()])
        }
        "archive-action" => plain(&["action", "archive", "tidy"]),
        "add-rule" => plain(&["invariant", "add", "short", "--expr", "plan.attempt < 9"]),
        "remove-rule" => plain(&["invariant", "remove", "calm", "--action", "tidy"]),
        "use" => plain(&["use", "tidy"]),
        "start-strategize" | "start-execute" | "start-apply" => {
            plain(&["plumbing", command, &plan, "--owner", "second"])
        }
        "execute-plan" | "apply-plan" | "approve" | "reclaim" | "retry" | "cancel" => {
            plain(&["plumbing", command, &plan])
        }
        "complete-strategize"
        | "complete-execute"
        | "complete-apply"
        | "prepare-apply"
        | "withdraw-apply"
        | "renew"
        | "release"
        | "constrain" => plain(&["plumbing", command, &plan, "--epoch", &epoch()]),
        "open-changeset" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--node",
            "other",
        ]),
        "record-change" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--path",
            "a",
            "--operation",
            "create",
        ]),
        "seal-changeset" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--changeset",
            &changeset(),
        ]),
        "fail" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--category",
            "actor",
            "--message",
            "broke",
        ]),
        "ask" => plain(&[
            "plumbing",
            command,
            &plan,
            "--epoch",
            &epoch(),
            "--question",
            "Which?",
        ]),
        "answer" => plain(&["plumbing", command, &plan, "That way"]),
        "revise" => plain(&["plumbing", command, &plan, "Better"]),
        "revert" => plain(&["plumbing", command, &plan, "--reason", "wrong way"]),
        "waive" => plain(&["waive", &plan, "calm", "--reason", "today only"]),
        other => panic!("nobody knows the command `{other}`"),
    }
}

/// The same as a call in this process.
pub fn call(engine: &Lifecycle, world: &World, command: &str, call: &Call) -> Result<(), Error> {
    let plan = world.plan();
    let epoch = || world.epoch();
    let action: Name = "tidy".parse().unwrap();
    match command {
        "create-action" => {
            let definition = yaml::action(&ACTION.replace("tidy", "new"), "new.yaml").unwrap();
            engine.create_action(definition, call).map(drop)
        }
        "archive-action" => engine.archive_action(&action, call).map(drop),
        "add-rule" => engine.add_rule(Scope::Global, never(Gate::Result), call),
        "remove-rule" => engine.remove_rule(Scope::Action(action), "calm".parse().unwrap(), call),
        "use" => engine.use_action(request(&action), call).map(drop),
        "start-strategize" => engine
            .start_strategize(plan, "second", LONG, call)
            .map(drop),
        "start-execute" => engine.start_execute(plan, "second", LONG, call).map(drop),
        "start-apply" => engine.start_apply(plan, "second", LONG, call).map(drop),
        "execute-plan" => engine.execute_plan(plan, call).map(drop),
        "apply-plan" => engine.apply_plan(plan, call).map(drop),
        "approve" => engine.approve(plan, &plan::How::default(), call).map(drop),
        "reclaim" => engine.reclaim(plan, call).map(drop),
        "retry" => engine.retry(plan, false, None, call).map(drop),
        "cancel" => engine.cancel(plan, None, call).map(drop),
        "complete-strategize" => engine
            .complete_strategize(plan, epoch(), Vec::new(), call)
            .map(drop),
        "complete-execute" => engine
            .complete_execute(plan, epoch(), &report(), call)
            .map(drop),
        "complete-apply" => engine
            .complete_apply(plan, epoch(), Vec::new(), None, call)
            .map(drop),
        "prepare-apply" => engine.prepare_apply(plan, epoch(), &[], call).map(drop),
        "withdraw-apply" => engine.withdraw_apply(plan, epoch(), call).map(drop),
        "renew" => engine.renew(plan, epoch(), LONG, call).map(drop),
        "release" => engine.release(plan, epoch(), call).map(drop),
        "constrain" => engine
            .constrain(plan, epoch(), ConstraintKind::Conflict, "no", vec![], call)
            .map(drop),
        "open-changeset" => engine
            .open_changeset(plan, epoch(), "other".parse().unwrap(), call)
            .map(drop),
        "record-change" => engine
            .record_change(plan, epoch(), Into::OnlyOpen, created("a"), call)
            .map(drop),
        "seal-changeset" => {
            let changeset = world.changeset.expect("a changeset is open");
            engine
                .seal_changeset(plan, epoch(), changeset, call)
                .map(drop)
        }
        "fail" => engine
            .fail(plan, epoch(), Category::Actor, "broke", call)
            .map(drop),
        "ask" => engine.ask(plan, epoch(), "Which?", None, call).map(drop),
        "answer" => engine.answer(plan, "That way", call).map(drop),
        "revise" => engine.revise(plan, "Better", Vec::new(), call).map(drop),
        "revert" => engine.revert(plan, "wrong way", call).map(drop),
        "waive" => engine
            .waive(plan, "calm".parse().unwrap(), "today only", call)
            .map(drop),
        other => panic!("nobody knows the command `{other}`"),
    }
}
