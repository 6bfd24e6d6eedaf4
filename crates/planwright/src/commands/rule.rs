//! `planwright rule`: the rules that gate phase changes. `planwright invariant` is its old name.

use clap::Subcommand;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleName, RuleScope};
use plan::{QualifiedName, Span};
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::wire::RuleView;
use crate::{home, rule_warnings, ui};

/// Rules that gate every phase change
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Add a rule.
    Add(Box<AddRuleArgs>),
    /// List rules.
    List {
        /// Only the rules in force for this plan, the narrower replacing the wider.
        #[arg(long, value_name = "ID")]
        effective: Option<String>,
    },
    /// Remove a rule.
    Remove {
        /// Its name.
        name: RuleName,
        #[command(flatten)]
        scope: RuleScopeArgs,
    },
}

/// A new rule.
#[derive(Debug, clap::Args)]
pub struct AddRuleArgs {
    /// Its name, unique in its scope; a narrower rule of the same name replaces a wider one.
    name: RuleName,
    #[command(flatten)]
    scope: RuleScopeArgs,
    #[command(flatten)]
    check: RuleCheckArgs,
    /// After this long a command has failed, as in 90s or 20m [default: 10m].
    #[arg(long, value_name = "TIME")]
    timeout: Option<Span>,
    /// Where it is judged: strategize, execute, result or apply; wherever it has something to judge if not
    /// said.
    #[arg(long, value_name = "GATE")]
    at: Vec<Gate>,
    /// A failure is told but does not block.
    #[arg(long)]
    advisory: bool,
    /// No narrower rule replaces it and nobody waives it.
    #[arg(long)]
    non_overridable: bool,
}

/// What must hold; a rule is of one kind.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct RuleCheckArgs {
    /// A CEL expression over the plan and what it changed that must be true.
    #[arg(long, value_name = "CEL")]
    expr: Option<String>,
    /// Nothing but what matches may change.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    allow: Vec<String>,
    /// Nothing that matches may change.
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    forbid: Vec<String>,
    /// A command that must succeed in a clean checkout of the result.
    #[arg(long, value_name = "CMD")]
    command: Option<String>,
    /// Something that a person has to look at.
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

/// Where a rule holds; everywhere if not said.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct RuleScopeArgs {
    /// For every plan; this is the default.
    #[arg(long)]
    global: bool,
    /// For plans of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<QualifiedName>,
    /// For this plan.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
    /// For plans that work on this project.
    #[arg(long, value_name = "NAME")]
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
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        match self {
            Self::Add(args) => add_rule(&args, app),
            Self::List { effective } => list_rules(effective.as_deref(), app),
            Self::Remove { name, scope } => remove_rule(&name, &scope, app),
        }
    }
}

fn add_rule(args: &AddRuleArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    home::require_person("change rules")?;
    if args.timeout.is_some() && args.check.command.is_none() {
        return Err(CommandError::usage("--timeout is for rules by --command."));
    }
    let check = args.check.to_check(args.timeout);
    let mut at = match args.at.is_empty() {
        true => lifecycle::default_gates(&check),
        false => args.at.clone(),
    };
    at.sort_unstable();
    at.dedup();
    let scope = args.scope.resolve_scope(app)?;
    let draft = RuleDraft {
        name: args.name.clone(),
        check,
        at,
        advisory: args.advisory,
        non_overridable: args.non_overridable,
    };
    let lifecycle = app.lifecycle()?;
    let idle = rule_warnings::warn_unmatched_globs(app, &draft.check, args.scope.project.as_ref());
    lifecycle.add_rule(scope.clone(), draft, &app.new_call())?;
    let rules = lifecycle.list_rules()?;
    let added = rules.find_rule(&scope, &args.name).map(RuleView::from);
    let text = format!(
        "Added rule {} ({scope})\n",
        ui::style_text(ui::BOLD, &args.name)
    );
    let mut answer = CommandAnswer::new(added, text);
    answer.messages.extend(idle);
    Ok(answer)
}

fn list_rules(effective: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let book = match effective {
        Some(handle) => lifecycle.effective_rules(app.resolve_plan(handle)?)?,
        None => lifecycle.list_rules()?,
    };
    let rules: Vec<&Rule> = if effective.is_some() {
        book.effective_rules()
    } else {
        book.rules.iter().collect()
    };
    let mut table = ui::TextTable::new(["RULE", "SCOPE", "AT", "", "KIND", "CHECK"]);
    for rule in &rules {
        let gates: Vec<&str> = rule.draft.at.iter().map(|gate| gate.as_str()).collect();
        let remark = match (rule.draft.advisory, rule.draft.non_overridable) {
            (true, _) => "advisory",
            (false, true) => "non-overridable",
            (false, false) => "",
        };
        table.add_row([
            (rule.draft.name.to_string(), ui::BOLD),
            (rule.scope.to_string(), ui::DIM),
            (gates.join(","), ui::DIM),
            (remark.to_owned(), ui::WARN),
            (rule.draft.check.kind().to_owned(), ui::DIM),
            (
                ui::truncate_line(&rule.draft.check.source(), 70),
                anstyle::Style::new(),
            ),
        ]);
    }
    let views: Vec<RuleView> = rules.iter().map(|rule| RuleView::from(*rule)).collect();
    let text = if rules.is_empty() {
        "No rules.\n".to_owned()
    } else {
        table.to_string()
    };
    Ok(CommandAnswer::new(json!({ "rules": views }), text))
}

fn remove_rule(
    name: &RuleName,
    scope: &RuleScopeArgs,
    app: &App,
) -> Result<CommandAnswer, CommandError> {
    home::require_person("change rules")?;
    let scope = scope.resolve_scope(app)?;
    app.lifecycle()?
        .remove_rule(scope.clone(), name.clone(), &app.new_call())?;
    let text = format!(
        "Removed rule {} ({scope})\n",
        ui::style_text(ui::BOLD, name)
    );
    Ok(CommandAnswer::new(
        json!({ "name": name, "scope": scope }),
        text,
    ))
}
