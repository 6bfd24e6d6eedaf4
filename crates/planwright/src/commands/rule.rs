//! `planwright rule`: manages the rules that gate phase changes. `planwright invariant` is its old name.

use api::rules::{self, AddRuleRequest};
use api::view::{RemovedRuleView, RuleListView, RuleView};
use clap::Subcommand;
use plan::invariant::{Gate, Rule, RuleCheck, RuleName, RuleScope};
use plan::{QualifiedName, Span};

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::repository_config::{self, REPOSITORY_CONFIG_FILE};
use crate::wire::UserMessage;
use crate::{completion, current_repository, ui};

/// Manage the rules that gate phase changes
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Add a rule
    Add(Box<AddRuleArgs>),
    /// List rules
    List {
        /// List only the rules in force for this plan
        #[arg(long, value_name = "ID", add = completion::plans())]
        effective: Option<String>,
    },
    /// Remove a rule
    Remove {
        /// Rule name
        #[arg(add = completion::rules())]
        name: RuleName,
        #[command(flatten)]
        scope: RuleScopeArgs,
    },
}

#[derive(Debug, clap::Args)]
pub struct AddRuleArgs {
    /// Rule name, unique in its scope; a rule in a narrower scope replaces one of the same name
    name: RuleName,
    #[command(flatten)]
    scope: RuleScopeArgs,
    #[command(flatten)]
    check: RuleCheckArgs,
    /// Fail the command after this time, as in 90s or 20m [default: 10m]
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Gate to check the rule at: strategize, execute, result or apply; repeat for more [default: every
    /// gate the rule applies to]
    #[arg(long, value_name = "GATE")]
    at: Vec<Gate>,
    /// Warn on failure instead of blocking
    #[arg(long)]
    advisory: bool,
    /// Forbid waiving the rule or replacing it in a narrower scope
    #[arg(long)]
    non_overridable: bool,
}

/// The check of a rule: exactly one of these flags.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct RuleCheckArgs {
    /// CEL expression over the plan and its changes that must be true
    #[arg(long, value_name = "CEL")]
    expr: Option<String>,
    /// Allow changes only to matching paths
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    allow: Vec<String>,
    /// Forbid changes to matching paths
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    forbid: Vec<String>,
    /// Command that must succeed in a clean checkout of the result
    #[arg(long, value_name = "CMD")]
    command: Option<String>,
    /// Question that a person or judging agent must answer
    #[arg(long, value_name = "TEXT")]
    ask: Option<String>,
}

impl RuleCheckArgs {
    fn to_check(&self, timeout: Option<Span>) -> RuleCheck {
        if let Some(source) = &self.expr {
            return RuleCheck::Expr(source.clone());
        }
        if let Some(command) = &self.command {
            return RuleCheck::Command {
                command: command.clone(),
                timeout,
            };
        }
        if let Some(text) = &self.ask {
            return RuleCheck::Ask(text.clone());
        }
        match self.allow.is_empty() {
            true => RuleCheck::Forbid(self.forbid.clone()),
            false => RuleCheck::Allow(self.allow.clone()),
        }
    }
}

/// The scope of a rule; global by default.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct RuleScopeArgs {
    /// Scope: every plan (default)
    #[arg(long)]
    global: bool,
    /// Scope: plans of this action
    #[arg(long, value_name = "NAME", add = completion::actions())]
    action: Option<QualifiedName>,
    /// Scope: this plan
    #[arg(long, value_name = "ID", add = completion::plans())]
    plan: Option<String>,
    /// Scope: plans on this project
    #[arg(long, value_name = "NAME", add = completion::projects())]
    project: Option<QualifiedName>,
}

impl RuleScopeArgs {
    fn resolve_scope(&self, app: &App) -> Result<RuleScope, CommandError> {
        if let Some(name) = &self.project {
            return Ok(RuleScope::Project(name.clone()));
        }
        match (&self.action, &self.plan) {
            (Some(name), _) => Ok(RuleScope::Action(name.clone())),
            (None, Some(handle)) => Ok(RuleScope::Plan(app.resolve_plan(handle)?)),
            (None, None) => Ok(RuleScope::Global),
        }
    }
}

impl RuleCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Add(args) => add_rule(&args, app),
            Self::List { effective } => list_rules(effective.as_deref(), app),
            Self::Remove { name, scope } => remove_rule(&name, &scope, app),
        }
    }
}

fn add_rule(args: &AddRuleArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    if args.timeout.is_some() && args.check.command.is_none() {
        return Err(CommandError::usage("--timeout requires --command."));
    }
    let request = AddRuleRequest {
        scope: args.scope.resolve_scope(app)?,
        name: args.name.clone(),
        check: args.check.to_check(args.timeout),
        at: args.at.clone(),
        advisory: args.advisory,
        non_overridable: args.non_overridable,
    };
    let project = match &args.scope.project {
        Some(project) => Some(project.clone()),
        None => app.current_project().ok().flatten(),
    };
    let lifecycle = app.lifecycle()?;
    let added = rules::add_rule(lifecycle, &request, &app.new_call())?;
    let scope = &request.scope;
    let text = format!(
        "Added rule {} for {}\n",
        ui::style_text(ui::BOLD, &args.name),
        describe_scope(&scope.to_string())
    );
    let mut answer = CommandAnswer::new(added.as_ref().map(RuleView::from), text);
    if let Some(project) = &project {
        let unmatched = rules::find_unmatched_globs(lifecycle, &request.check, project);
        answer
            .messages
            .extend(unmatched.iter().map(|glob| UserMessage {
                level: "warn",
                text: format!("`{glob}` matches no file in {project} yet."),
            }));
    }
    let is_in_repository = current_repository::find_checkout_root().is_some();
    if is_in_repository && *scope == RuleScope::Global && !args.scope.global {
        answer.messages.push(UserMessage {
            level: "warn",
            text: "The rule applies to every plan of every repository.".to_owned(),
        });
        let project = project.map_or_else(|| "PROJECT".to_owned(), |one| one.to_string());
        answer = answer
            .with_hint("For this repository only, put it into planwright.yaml or pass --project:")
            .with_hint(format!(
                "planwright rule add {} --project {project} …",
                args.name
            ))
            .with_hint(format!(
                "To remove this one: planwright rule remove {}",
                args.name
            ));
    }
    Ok(answer)
}

/// Says which plans a rule is for: `project shop` for the scope `project:local/shop`.
pub fn describe_scope(scope: &str) -> String {
    match scope.split_once(':') {
        Some(("project", name)) => format!("project {}", without_namespace(name)),
        Some(("action", name)) => format!("action {}", without_namespace(name)),
        Some(("repository", name)) => format!("repository {name}"),
        Some(("working-tree", name)) => format!("uncommitted rules of {name}"),
        // The end of an id is enough to name a plan.
        Some(("plan", id)) => format!("plan {}", id[id.len() - 4..].to_lowercase()),
        Some(_) | None => "all plans".to_owned(),
    }
}

fn describe_gates(gates: &[&str]) -> String {
    match gates.len() == Gate::ALL.len() {
        true => "every gate".to_owned(),
        false => gates.join(", "),
    }
}

fn without_namespace(name: &str) -> &str {
    name.strip_prefix("local/").unwrap_or(name)
}

fn list_rules(effective: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let rules = match effective {
        Some(handle) => rules::list_effective_rules(lifecycle, app.resolve_plan(handle)?)?,
        None => {
            let mut stored = rules::list_rules(lifecycle)?;
            stored.extend(read_repository_rules()?);
            stored
        }
    };
    let mut table = ui::TextTable::new(["RULE", "FOR", "AT", "", "KIND", "CHECK"]);
    for rule in &rules {
        let gates: Vec<&str> = rule.draft.at.iter().map(|gate| gate.as_str()).collect();
        let remark = match (rule.draft.advisory, rule.draft.non_overridable) {
            (true, _) => "advisory",
            (false, true) => "non-overridable",
            (false, false) => "",
        };
        table.add_row([
            (rule.draft.name.to_string(), ui::BOLD),
            (describe_scope(&rule.scope.to_string()), ui::DIM),
            (describe_gates(&gates), ui::DIM),
            (remark.to_owned(), ui::WARN),
            (rule.draft.check.kind().to_owned(), ui::DIM),
            (
                ui::truncate_line(&rule.draft.check.source(), 70),
                anstyle::Style::new(),
            ),
        ]);
    }
    let text = if rules.is_empty() {
        "No rules.\n".to_owned()
    } else {
        table.to_string()
    };
    Ok(CommandAnswer::new(RuleListView::new(&rules), text))
}

/// The rules in the working tree of the current repository.
fn read_repository_rules() -> Result<Vec<Rule>, CommandError> {
    let Some(root) = current_repository::find_checkout_root() else {
        return Ok(Vec::new());
    };
    let path = root.join(REPOSITORY_CONFIG_FILE);
    let file = repository_config::read_file(&path)?.unwrap_or_default();
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let scope = RuleScope::Repository(name.into_owned());
    let drafts = file.invariants.into_iter();
    Ok(drafts
        .map(|draft| Rule::from_file(scope.clone(), draft, REPOSITORY_CONFIG_FILE))
        .collect())
}

fn remove_rule(
    name: &RuleName,
    scope: &RuleScopeArgs,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    let scope = scope.resolve_scope(app)?;
    rules::remove_rule(app.lifecycle()?, &scope, name, &app.new_call())?;
    let text = format!(
        "Removed rule {} for {}\n",
        ui::style_text(ui::BOLD, name),
        describe_scope(&scope.to_string())
    );
    let name = name.clone();
    Ok(CommandAnswer::new(RemovedRuleView { name, scope }, text))
}
