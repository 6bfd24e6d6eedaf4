//! `planwright rule`: manages the rules that gate phase changes. `planwright invariant` is its old name.

use clap::Subcommand;
use plan::invariant::{Gate, Rule, RuleCheck, RuleDraft, RuleName, RuleScope};
use plan::{QualifiedName, Span};
use serde_json::json;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::{rule_warnings, ui};
use api::view::RuleView;

/// Manage the rules that gate phase changes
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Add a rule
    Add(Box<AddRuleArgs>),
    /// List rules
    List {
        /// List only the rules in force for this plan
        #[arg(long, value_name = "ID")]
        effective: Option<String>,
    },
    /// Remove a rule
    Remove {
        /// Rule name
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
    #[arg(long, value_name = "NAME")]
    action: Option<QualifiedName>,
    /// Scope: this plan
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
    /// Scope: plans on this project
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
    let warnings =
        rule_warnings::warn_unmatched_globs(app, &draft.check, args.scope.project.as_ref());
    lifecycle
        .rules()
        .add_rule(scope.clone(), draft, &app.new_call())?;
    let rules = lifecycle.rules().list_rules()?;
    let added = rules.find_rule(&scope, &args.name).map(RuleView::from);
    let text = format!(
        "Added rule {} ({scope})\n",
        ui::style_text(ui::BOLD, &args.name)
    );
    let mut answer = CommandAnswer::new(added, text);
    answer.messages.extend(warnings);
    Ok(answer)
}

fn list_rules(effective: Option<&str>, app: &App) -> Result<CommandAnswer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let book = match effective {
        Some(handle) => lifecycle
            .rules()
            .effective_rules(app.resolve_plan(handle)?)?,
        None => lifecycle.rules().list_rules()?,
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
    let scope = scope.resolve_scope(app)?;
    app.lifecycle()?
        .rules()
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
