//! `planwright demo`.

mod change;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use lifecycle::{Call, Error, Lifecycle, UseRequest};
use plan::changeset::{Entry, Operation, TreePath};
use plan::invariant::{Check, Gate, RuleDraft, Scope};
use plan::stage::ResultContent;
use plan::{ActionState, Caller, Epoch, Name, PlanId, Refusal, Span};
use serde_json::json;

use crate::cli::{App, open};
use crate::commands::Answer;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::home;
use crate::settings::StorePlace;
use crate::typed::Typed;
use crate::ui;
use crate::yaml;

/// How many processes race for one phase.
const RACERS: usize = 8;

/// The action of the story.
const ACTION: &str = "\
name: demo/tidy
description: Tidy one area of the repository
actor: demo-agent
arguments:
  - name: area
    type: string
    required: true
    description: The directory to tidy
";

/// Show what Planwright does, on a store of its own; asks nothing.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Tells and shows the story.
pub fn run(_args: &Args, app: &App) -> Result<Answer, CommandError> {
    let path = app.settings.home.join("demo").join("planwright.db");
    let lifecycle = open(&StorePlace::Sqlite(path.clone()))?;
    let mut story = Story {
        lifecycle,
        path,
        call: Call::by(home::person()),
        text: String::new(),
    };
    let action = story.action()?;
    let plan = story.plan(action.clone())?;
    story.strategize(plan)?;
    story.blocked(plan)?;
    let epoch = story.race(plan)?;
    story.work(plan, epoch)?;
    let demo_home = app.settings.home.join("demo");
    let changed = story.change(&demo_home, &action)?;
    story.prove()?;
    let handle = story.lifecycle.short_name(plan)?;
    let changed = story.lifecycle.short_name(changed)?;
    let store = format!("sqlite:{}", story.path.display());
    story.look_around(&app.typed, &handle, &changed, &store);
    Ok(Answer::new(
        json!({ "plan_id": plan, "store": store }),
        story.text,
    ))
}

struct Story {
    lifecycle: Lifecycle,
    path: PathBuf,
    call: Call,
    text: String,
}

impl Story {
    fn chapter(&mut self, title: &str) {
        self.text
            .push_str(&format!("\n{}\n", ui::styled(ui::BOLD, title)));
    }

    fn say(&mut self, line: impl AsRef<str>) {
        self.text.push_str(&format!("  {}\n", line.as_ref()));
    }

    fn action(&mut self) -> Result<Name, CommandError> {
        self.chapter("1. An action is a reusable template");
        for line in ACTION.lines() {
            self.say(ui::styled(ui::DIM, line));
        }
        let definition = yaml::action(ACTION, "demo")
            .map_err(|problem| CommandError::malformed(problem, ACTION))?;
        let name = definition.name.clone();
        match self.lifecycle.create_action(definition, &self.call) {
            Ok(_) => self.say(format!("stored action {name}")),
            Err(Error::Refused(Refusal::ActionExists { at, .. })) => {
                self.say(format!(
                    "action {name} is there since an earlier demo ({at})"
                ));
            }
            Err(error) => return Err(error.into()),
        }
        match self.lifecycle.get_action(&name)?.state {
            ActionState::Available => Ok(name),
            ActionState::Archived { .. } => Err(CommandError::new(
                Exit::Conflict,
                "Somebody archived the demo's action.",
            )
            .hint(format!("Remove {} and start again.", self.path.display()))),
        }
    }

    fn plan(&mut self, action: Name) -> Result<PlanId, CommandError> {
        self.chapter("2. Used, it becomes a plan");
        let request = UseRequest {
            action: Some(action),
            arguments: vec![("area".to_owned(), "src/billing".to_owned())],
            ..UseRequest::default()
        };
        let plan = self.lifecycle.use_action(request, &self.call)?.plan;
        self.say(format!("plan {} is {}", plan.id, plan.stage));
        Ok(plan.id)
    }

    fn strategize(&mut self, plan: PlanId) -> Result<(), CommandError> {
        self.chapter("3. An agent claims the strategize phase and hands in its strategy");
        let claim =
            self.lifecycle
                .start_strategize(plan, "demo-agent", Span::seconds(30), &self.call)?;
        self.say(format!(
            "claimed with epoch {}: whoever comes later is told so",
            claim.epoch()
        ));
        let decisions = serde_json::from_value(json!([{
            "kind": "strategy_choice",
            "question": "Where to begin?",
            "choice": "With the invoices; their tests are the best.",
            "alternatives": ["Everything at once"],
            "confidence": 0.8,
        }]))
        .expect("BUG: the demo's decisions are well formed");
        let done = claim.complete_strategize(decisions)?;
        self.say(format!(
            "the plan is {}, version {}",
            done.plan.stage, done.plan.version
        ));
        Ok(())
    }

    fn blocked(&mut self, plan: PlanId) -> Result<(), CommandError> {
        self.chapter("4. A rule blocks the next step, and nothing moves");
        let source = "arguments.area.startsWith('docs')";
        let draft = RuleDraft {
            name: "docs-only".parse().expect("BUG: a rule's name"),
            check: Check::Expr(source.to_owned()),
            at: vec![Gate::Execute],
            advisory: false,
            non_overridable: false,
        };
        let name = draft.name.clone();
        self.lifecycle
            .add_rule(Scope::Plan(plan), draft, &self.call)?;
        self.say(format!("rule {name}: {source}"));
        let before = self.lifecycle.get_plan(plan)?.plan;
        match self.lifecycle.execute_plan(plan, &self.call) {
            Err(Error::Blocked(blocked)) => self.say(format!("execute-plan: {blocked}")),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(broken("a failing rule did not block")),
        }
        let after = self.lifecycle.get_plan(plan)?.plan;
        if after != before {
            return Err(broken("a blocked step changed the plan"));
        }
        self.say(format!(
            "before: {} version {}; after: {} version {} – the same to the last byte",
            before.stage, before.version, after.stage, after.version
        ));
        self.lifecycle.waive(
            plan,
            name.clone(),
            "billing is what we want to tidy today",
            &self.call,
        )?;
        let done = self.lifecycle.execute_plan(plan, &self.call)?;
        self.say(format!(
            "waived {name} with a reason, on the record; now the plan is {}",
            done.plan.stage
        ));
        Ok(())
    }

    fn race(&mut self, plan: PlanId) -> Result<Epoch, CommandError> {
        self.chapter(&format!(
            "5. {RACERS} processes race for the execute phase; one wins"
        ));
        let failed = |error: std::io::Error| {
            CommandError::new(Exit::Error, format!("a racer did not start: {error}"))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let store = format!("sqlite:{}", self.path.display());
        let mut racers = Vec::new();
        for number in 1..=RACERS {
            #[expect(
                clippy::disallowed_methods,
                reason = "the demo races real processes of this program"
            )]
            let mut command = Command::new(&program);
            command.args([
                "--store",
                &store,
                "plumbing",
                "start-execute",
                &plan.to_string(),
            ]);
            command.args(["--owner", &format!("racer-{number}")]);
            racers.push(
                command
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped())
                    .spawn()
                    .map_err(failed)?,
            );
        }
        let mut won = Vec::new();
        let mut lost = 0;
        for racer in racers {
            let output = racer.wait_with_output().map_err(failed)?;
            match output.status.code() {
                Some(0) => won.push(output),
                Some(code) if code == i32::from(Exit::Conflict.code()) => lost += 1,
                _ => return Err(broken("a racer ended in an unexpected way")),
            }
        }
        let row = self.lifecycle.get_plan(plan)?;
        let (1, Some(holder)) = (won.len(), row.plan.stage.holder()) else {
            return Err(broken("the race had not exactly one winner"));
        };
        self.say(format!("{} won with epoch {}", holder.owner, holder.epoch));
        self.say(format!(
            "the other {lost} ended with exit code 4 and were told its name"
        ));
        Ok(holder.epoch)
    }

    fn work(&mut self, plan: PlanId, epoch: Epoch) -> Result<(), CommandError> {
        self.chapter("6. The winner records its changes, hands in the result, and it is applied");
        let node = plan::changeset::Node::main();
        let opened = self
            .lifecycle
            .open_changeset(plan, epoch, node, &self.call)?;
        let changeset = opened
            .receipt
            .changeset
            .ok_or_else(|| broken("no changeset was opened"))?;
        for (path, operation) in [
            ("src/billing/invoice.rs", Operation::Modify),
            ("src/billing/old.rs", Operation::Delete),
        ] {
            let path = TreePath::new(path).map_err(|_| broken("a path of the demo was refused"))?;
            let entry = Entry::new(path, operation);
            let into = plan::command::Into::Changeset(changeset);
            self.lifecycle
                .record_change(plan, epoch, into, entry.clone(), &self.call)?;
            self.say(format!("recorded {} {}", entry.operation, entry.path));
        }
        let worker = Call::by(Caller::Worker("demo-agent".to_owned()));
        let result = ResultContent {
            report: Some("Tidied billing: 2 files changed.".into()),
            trees: Vec::new(),
        };
        self.lifecycle
            .complete_execute(plan, epoch, &result, &worker)?;
        let late = Entry::new(
            TreePath::new("late").map_err(|_| broken("a path was refused"))?,
            Operation::Create,
        );
        let into = plan::command::Into::Changeset(changeset);
        match self
            .lifecycle
            .record_change(plan, epoch, into, late, &worker)
        {
            Err(Error::Refused(refusal)) => self.say(format!(
                "a change that comes too late is refused: {refusal}"
            )),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(broken("a change was taken after the result")),
        }
        self.lifecycle.apply_plan(plan, &self.call)?;
        let landing = self
            .lifecycle
            .start_apply(plan, "demo-agent", Span::seconds(30), &worker)?;
        let done = landing.complete_apply(Vec::new())?;
        self.say(format!(
            "the plan is {}, version {}: final",
            done.plan.stage, done.plan.version
        ));
        match self.lifecycle.cancel(plan, None, &self.call) {
            Err(Error::Refused(refusal)) => self.say(format!("cancel now: {refusal}")),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(broken("a final plan was changed")),
        }
        Ok(())
    }

    fn prove(&mut self) -> Result<(), CommandError> {
        self.chapter("9. Every step is an event in a hash chain; replaying it gives the plan");
        let verified = store::verify::verify(self.lifecycle.store())?;
        if let Some(problem) = verified.problems.first() {
            return Err(broken(problem));
        }
        self.say(format!(
            "verified {} and {} of this store",
            ui::count(verified.plans, "plan"),
            ui::count(verified.events, "event")
        ));
        Ok(())
    }

    fn look_around(&mut self, typed: &Typed, handle: &str, changed: &str, store: &str) {
        self.chapter("Look around");
        let typed = typed.at_store(store);
        for command in [
            format!("planwright status {handle}"),
            format!("planwright log {handle}"),
            format!("planwright log {handle} --decisions"),
            format!("planwright log {changed}"),
            "planwright store verify".to_owned(),
            "planwright help".to_owned(),
        ] {
            self.say(ui::styled(ui::CODE, typed.hint(&command)));
        }
    }
}

/// The demo shows guarantees; if one does not hold it must say so, not go on.
fn broken(what: &str) -> CommandError {
    CommandError::new(Exit::Error, format!("The demo found a defect: {what}."))
        .hint("Please report it with the output of: planwright doctor")
}
