//! `planwright demo`: walks through the main guarantees on a store of its own. Each chapter checks what it
//! shows, and fails if it does not hold.

mod change;
mod example;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use lifecycle::{Call, Lifecycle, LifecycleError, UseRequest};
use plan::changeset::{ChangesetEntry, PathOperation, TreePath};
use plan::command::RecordChange;
use plan::invariant::{Gate, RuleCheck, RuleDraft, RuleScope};
use plan::stage::ResultContent;
use plan::{ActionState, Caller, Epoch, PlanId, QualifiedName, Refusal, Span};
use serde_json::json;

use self::example::ExamplePlans;
use crate::cli::{App, CliFormat, open_lifecycle};
use crate::commands::{CommandAnswer, serve};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::home;
use crate::invocation::ProgramInvocation;
use crate::settings::StoreAddress;
use crate::ui;
use crate::yaml;

/// Processes that compete for one phase.
const RACER_COUNT: usize = 8;

const DEMO_ACTION: &str = "\
name: demo/tidy
description: Tidy one area of the repository
actor: demo-agent
arguments:
  - name: area
    type: string
    required: true
    description: The directory to tidy
";

/// Show what Planwright does, in a store of its own
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Show a small repository with plans in every state on the page, and try everything there
    #[arg(long)]
    open: bool,
    /// Print a link to the page instead of opening the browser
    #[arg(long, requires = "open")]
    print: bool,
}

pub fn run(args: &DemoArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if args.open {
        return open_example_page(args.print, app);
    }
    let path = app.settings.home.join("demo").join("planwright.db");
    let lifecycle = open_lifecycle(&StoreAddress::Sqlite(path.clone()))?;
    let mut demo = DemoRun {
        lifecycle,
        path,
        call: Call::by(home::current_person()),
        text: String::new(),
        chapters: 0,
    };
    let demo_home = app.settings.home.join("demo");
    let changed = demo.change_repository(&demo_home)?;
    let action = demo.create_action()?;
    let plan = demo.create_plan(action)?;
    demo.run_strategize(plan)?;
    demo.show_blocked_step(plan)?;
    let epoch = demo.race_processes(plan)?;
    demo.run_execute(plan, epoch)?;
    demo.verify_store()?;
    let handle = demo.lifecycle.short_handle(plan)?;
    let changed = demo.lifecycle.short_handle(changed)?;
    let store = format!("sqlite:{}", demo.path.display());
    demo.list_next_commands(&app.invocation, &handle, &changed, &store);
    Ok(CommandAnswer::new(
        json!({ "plan_id": plan, "store": store }),
        demo.text,
    ))
}

/// Shows the example's plans on its own page. Its server ends by itself, like that of `planwright open`.
fn open_example_page(print: bool, app: &App) -> Result<CommandAnswer, CommandError> {
    serve::refuse_agents()?;
    let example = ExamplePlans::new(&app.settings.home.join("demo"));
    if app.format == CliFormat::Human && !example.exists() {
        anstream::eprintln!("Making a small repository with plans in every state…");
    }
    example.ensure_created()?;
    let words: &[&str] = match print {
        true => &["open", "--print"],
        false => &["open"],
    };
    let (code, answer) = example.run_json(words)?;
    let data = &answer["data"];
    let Some(address) = data["address"].as_str().filter(|_| code == Some(0)) else {
        let said = answer["messages"][0]["text"].as_str();
        return Err(CommandError::new(
            CommandExit::Error,
            said.unwrap_or("The demo's server did not start."),
        ));
    };
    // With `--print`, only the link, for scripts.
    let text = match data["link"].as_str() {
        Some(link) => format!("{link}\n"),
        None => format!("Opened {address}\n"),
    };
    let home = example.planwright_home();
    let repository = example.repository();
    let data = json!({
        "address": address,
        "link": data["link"],
        "home": home,
        "repository": repository,
    });
    let variable = format!("PLANWRIGHT_HOME={}", home.display());
    Ok(CommandAnswer::new(data, text)
        .with_hint(format!("The repository is {}", repository.display()))
        .with_hint(format!("Stop it: {variable} planwright open --stop")))
}

struct DemoRun {
    lifecycle: Lifecycle,
    path: PathBuf,
    call: Call,
    text: String,
    /// Numbered chapters so far.
    chapters: u32,
}

impl DemoRun {
    fn start_chapter(&mut self, title: &str) {
        self.chapters += 1;
        let number = self.chapters;
        self.add_heading(&format!("{number}. {title}"));
    }

    fn add_heading(&mut self, title: &str) {
        self.text
            .push_str(&format!("\n{}\n", ui::style_text(ui::BOLD, title)));
    }

    fn add_line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(&format!("  {}\n", line.as_ref()));
    }

    fn create_action(&mut self) -> Result<QualifiedName, CommandError> {
        self.start_chapter("Work that you repeat is an action, with arguments");
        for line in DEMO_ACTION.lines() {
            self.add_line(ui::style_text(ui::DIM, line));
        }
        let definition = yaml::parse_action(DEMO_ACTION, "demo")
            .map_err(|problem| CommandError::malformed_file(problem, DEMO_ACTION))?;
        let name = definition.name.clone();
        match self
            .lifecycle
            .actions()
            .create_action(definition, &self.call)
        {
            Ok(_) => self.add_line(format!("stored action {name}")),
            Err(LifecycleError::Refused(Refusal::ActionExists { at, .. })) => {
                self.add_line(format!("action {name} exists since an earlier demo ({at})"));
            }
            Err(error) => return Err(error.into()),
        }
        match self.lifecycle.actions().get_action(&name)?.state {
            ActionState::Available => Ok(name),
            ActionState::Archived { .. } => Err(CommandError::new(
                CommandExit::Conflict,
                "The demo's action is archived.",
            )
            .with_hint(format!(
                "Delete {} and run the demo again.",
                self.path.display()
            ))),
        }
    }

    fn create_plan(&mut self, action: QualifiedName) -> Result<PlanId, CommandError> {
        self.start_chapter("Used, it becomes a plan");
        let request = UseRequest {
            action: Some(action),
            arguments: vec![("area".to_owned(), "src/billing".to_owned())],
            ..UseRequest::default()
        };
        let plan = self.lifecycle.use_action(request, &self.call)?.plan;
        self.add_line(format!("plan {} is {}", plan.id(), plan.stage()));
        Ok(plan.id())
    }

    fn run_strategize(&mut self, plan_id: PlanId) -> Result<(), CommandError> {
        self.start_chapter("An agent claims the first phase and submits its strategy");
        let claim = self.lifecycle.claims().start_strategize(
            plan_id,
            "demo-agent",
            Span::from_seconds(30),
            &self.call,
        )?;
        self.add_line(format!(
            "claimed with epoch {}; other claims are refused",
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
        self.add_line(format!(
            "the plan is {}, version {}",
            done.plan.stage(),
            done.plan.version()
        ));
        Ok(())
    }

    fn show_blocked_step(&mut self, plan_id: PlanId) -> Result<(), CommandError> {
        self.start_chapter("A rule blocks the next step, and nothing moves");
        let source = "arguments.area.startsWith('docs')";
        let draft = RuleDraft {
            name: "docs-only".parse().expect("BUG: a rule's name"),
            check: RuleCheck::Expr(source.to_owned()),
            at: vec![Gate::Execute],
            advisory: false,
            non_overridable: false,
        };
        let name = draft.name.clone();
        self.lifecycle
            .rules()
            .add_rule(RuleScope::Plan(plan_id), draft, &self.call)?;
        self.add_line(format!("rule {name}: {source}"));
        let before = self.lifecycle.get_plan(plan_id)?.plan;
        match self.lifecycle.execute_plan(plan_id, &self.call) {
            Err(LifecycleError::Blocked(blocked)) => {
                self.add_line(format!("execute-plan: {blocked}"))
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(defect_error("a failing rule did not block")),
        }
        let after = self.lifecycle.get_plan(plan_id)?.plan;
        if after != before {
            return Err(defect_error("a blocked step changed the plan"));
        }
        self.add_line(format!(
            "before: {} version {}; after: {} version {} – identical",
            before.stage(),
            before.version(),
            after.stage(),
            after.version()
        ));
        self.lifecycle.rules().waive_rule(
            plan_id,
            name.clone(),
            "billing is what we want to tidy today",
            &self.call,
        )?;
        let done = self.lifecycle.execute_plan(plan_id, &self.call)?;
        self.add_line(format!(
            "waived {name}, with a reason in the log; now the plan is {}",
            done.plan.stage()
        ));
        Ok(())
    }

    fn race_processes(&mut self, plan_id: PlanId) -> Result<Epoch, CommandError> {
        self.start_chapter(&format!(
            "{RACER_COUNT} processes race for the next phase; one wins"
        ));
        let failed = |error: std::io::Error| {
            CommandError::new(
                CommandExit::Error,
                format!("A competing process did not start: {error}"),
            )
        };
        let program = std::env::current_exe().map_err(failed)?;
        let store = format!("sqlite:{}", self.path.display());
        let mut racers = Vec::new();
        for number in 1..=RACER_COUNT {
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
                &plan_id.to_string(),
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
                Some(code) if code == i32::from(CommandExit::Conflict.code()) => lost += 1,
                _ => {
                    return Err(defect_error(
                        "a competing process exited with an unexpected code",
                    ));
                }
            }
        }
        let row = self.lifecycle.get_plan(plan_id)?;
        let (1, Some(holder)) = (won.len(), row.plan.stage().holder()) else {
            return Err(defect_error("the race did not have exactly one winner"));
        };
        self.add_line(format!("{} won with epoch {}", holder.owner, holder.epoch));
        self.add_line(format!(
            "the other {lost} exited with code 4 and named the winner"
        ));
        Ok(holder.epoch)
    }

    fn run_execute(&mut self, plan_id: PlanId, epoch: Epoch) -> Result<(), CommandError> {
        self.start_chapter(
            "The winner records its changes and submits the result, which is applied",
        );
        let node = plan::changeset::Node::main();
        let opened = self
            .lifecycle
            .open_changeset(plan_id, epoch, node, &self.call)?;
        let changeset = opened
            .receipt
            .changeset
            .ok_or_else(|| defect_error("no changeset was opened"))?;
        for (path, operation) in [
            ("src/billing/invoice.rs", PathOperation::Modify),
            ("src/billing/old.rs", PathOperation::Delete),
        ] {
            let path =
                TreePath::new(path).map_err(|_| defect_error("a path of the demo was refused"))?;
            let entry = ChangesetEntry::new(path, operation);
            let into = plan::command::ChangesetSelector::Changeset(changeset);
            self.lifecycle.submit_command(
                plan_id,
                RecordChange::new(epoch, into, entry.clone()),
                &self.call,
            )?;
            self.add_line(format!("recorded {} {}", entry.operation, entry.path));
        }
        let worker = Call::by(Caller::Worker("demo-agent".to_owned()));
        let result = ResultContent {
            report: Some("Tidied billing: 2 files changed.".into()),
            trees: Vec::new(),
        };
        self.lifecycle
            .complete_execute(plan_id, epoch, &result, &worker)?;
        let late = ChangesetEntry::new(
            TreePath::new("late").map_err(|_| defect_error("a path was refused"))?,
            PathOperation::Create,
        );
        let into = plan::command::ChangesetSelector::Changeset(changeset);
        match self
            .lifecycle
            .submit_command(plan_id, RecordChange::new(epoch, into, late), &worker)
        {
            Err(LifecycleError::Refused(refusal)) => {
                self.add_line(format!("a late change is refused: {refusal}"))
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(defect_error("a change was accepted after the result")),
        }
        self.lifecycle.apply_plan(plan_id, &self.call)?;
        let landing = self.lifecycle.claims().start_apply(
            plan_id,
            "demo-agent",
            Span::from_seconds(30),
            &worker,
        )?;
        let done = landing.complete_apply(Vec::new())?;
        self.add_line(format!(
            "the plan is {}, version {}: final",
            done.plan.stage(),
            done.plan.version()
        ));
        match self.lifecycle.cancel_plan(plan_id, None, &self.call) {
            Err(LifecycleError::Refused(refusal)) => {
                self.add_line(format!("cancel now: {refusal}"))
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(defect_error("a final plan was changed")),
        }
        Ok(())
    }

    fn verify_store(&mut self) -> Result<(), CommandError> {
        self.start_chapter("Every step is an event in a hash chain; replaying it gives the plan");
        let verified = store::verify::verify_store(self.lifecycle.store())?;
        if let Some(problem) = verified.problems.first() {
            return Err(defect_error(problem));
        }
        self.add_line(format!(
            "verified {} and {} of this store",
            ui::pluralize(verified.plans, "plan"),
            ui::pluralize(verified.events, "event")
        ));
        Ok(())
    }

    fn list_next_commands(
        &mut self,
        invocation: &ProgramInvocation,
        handle: &str,
        changed: &str,
        store: &str,
    ) {
        self.add_heading("On your own repository");
        for command in [
            "planwright run \"Fix the failing test\"",
            "planwright help agents",
        ] {
            self.add_line(ui::style_text(ui::CODE, invocation.render_hint(command)));
        }
        self.add_heading("On a page, with plans in every state");
        let command = invocation.render_hint("planwright demo --open");
        self.add_line(ui::style_text(ui::CODE, command));
        self.add_heading("Try next");
        let invocation = invocation.with_store(store);
        for command in [
            format!("planwright status {handle}"),
            format!("planwright log {handle}"),
            format!("planwright log {handle} --decisions"),
            format!("planwright log {changed}"),
            "planwright store verify".to_owned(),
            "planwright help".to_owned(),
        ] {
            self.add_line(ui::style_text(ui::CODE, invocation.render_hint(&command)));
        }
    }
}

/// A guarantee that did not hold. The demo stops instead of showing something untrue.
fn defect_error(what: &str) -> CommandError {
    CommandError::new(
        CommandExit::Error,
        format!("The demo found a defect: {what}."),
    )
    .with_hint("Please report it with the output of: planwright doctor")
}
