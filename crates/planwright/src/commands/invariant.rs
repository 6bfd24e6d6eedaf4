//! `planwright invariant`.

use clap::Subcommand;
use plan::Name;
use plan::invariant::{Check, Gate, Rule, RuleDraft, RuleName, Scope};
use serde_json::json;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::ui;
use crate::wire::RuleView;

/// Invariants: rules that gate every phase change.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Add a rule.
    Add(Box<AddArgs>),
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
        scope: ScopeArgs,
    },
}

/// A new rule.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// Its name, unique in its scope; a narrower rule of the same name replaces a wider one.
    name: RuleName,
    #[command(flatten)]
    scope: ScopeArgs,
    /// A CEL expression over plan, action and arguments that must be true.
    #[arg(long, value_name = "CEL", required_unless_present_any = ["allow", "forbid", "command", "ask"])]
    expr: Option<String>,
    #[arg(long, hide = true, value_name = "GLOB")]
    allow: Vec<String>,
    #[arg(long, hide = true, value_name = "GLOB")]
    forbid: Vec<String>,
    #[arg(long, hide = true, value_name = "CMD")]
    command: Option<String>,
    #[arg(long, hide = true, value_name = "TEXT")]
    ask: Option<String>,
    /// Where it is judged: strategize, execute, result or apply; everywhere if not said.
    #[arg(long, value_name = "GATE")]
    at: Vec<Gate>,
    /// A failure is told but does not block.
    #[arg(long)]
    advisory: bool,
    /// No narrower rule replaces it and nobody waives it.
    #[arg(long)]
    non_overridable: bool,
}

/// Where a rule holds; everywhere if not said.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct ScopeArgs {
    /// For every plan; this is the default.
    #[arg(long)]
    global: bool,
    /// For plans of this action.
    #[arg(long, value_name = "NAME")]
    action: Option<Name>,
    /// For this plan.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
    #[arg(long, hide = true, value_name = "PROJECT")]
    project: Option<String>,
}

impl ScopeArgs {
    fn resolve(&self, app: &App) -> Result<Scope, CommandError> {
        if self.project.is_some() {
            return Err(CommandError::usage("Projects are not supported yet.")
                .hint("Use --global, --action NAME or --plan ID."));
        }
        match (&self.action, &self.plan) {
            (Some(name), _) => Ok(Scope::Action(name.clone())),
            (None, Some(handle)) => Ok(Scope::Plan(app.plan(handle)?)),
            (None, None) => Ok(Scope::Global),
        }
    }
}

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        match self {
            Self::Add(args) => add(&args, app),
            Self::List { effective } => list(effective.as_deref(), app),
            Self::Remove { name, scope } => remove(&name, &scope, app),
        }
    }
}

fn add(args: &AddArgs, app: &App) -> Result<Answer, CommandError> {
    let later = [
        ("--allow", !args.allow.is_empty()),
        ("--forbid", !args.forbid.is_empty()),
        ("--command", args.command.is_some()),
        ("--ask", args.ask.is_some()),
    ];
    if let Some((flag, _)) = later.iter().find(|(_, given)| *given) {
        return Err(
            CommandError::usage(format!("Rules by {flag} are not supported yet."))
                .hint("Use --expr with a CEL expression, as in: --expr 'plan.attempt <= 3'"),
        );
    }
    let check = Check::Expr(args.expr.clone().unwrap_or_default());
    let mut at = if args.at.is_empty() {
        check.default_gates()
    } else {
        args.at.clone()
    };
    at.sort_unstable();
    at.dedup();
    let scope = args.scope.resolve(app)?;
    let draft = RuleDraft {
        name: args.name.clone(),
        check,
        at,
        advisory: args.advisory,
        non_overridable: args.non_overridable,
    };
    let lifecycle = app.lifecycle()?;
    lifecycle.add_rule(scope.clone(), draft, &app.call())?;
    let rules = lifecycle.list_rules()?;
    let added = rules.find(&scope, &args.name).map(RuleView::from);
    let text = format!(
        "Added rule {} ({scope})\n",
        ui::styled(ui::BOLD, &args.name)
    );
    Ok(Answer::new(added, text))
}

fn list(effective: Option<&str>, app: &App) -> Result<Answer, CommandError> {
    let lifecycle = app.lifecycle()?;
    let book = match effective {
        Some(handle) => lifecycle.rules_of(&lifecycle.get_plan(app.plan(handle)?)?.plan)?,
        None => lifecycle.list_rules()?,
    };
    let rules: Vec<&Rule> = if effective.is_some() {
        book.effective()
    } else {
        book.rules.iter().collect()
    };
    let mut table = ui::Table::new(["RULE", "SCOPE", "AT", "", "CHECK"]);
    for rule in &rules {
        let gates: Vec<&str> = rule.draft.at.iter().map(|gate| gate.as_str()).collect();
        let remark = match (rule.draft.advisory, rule.draft.non_overridable) {
            (true, _) => "advisory",
            (false, true) => "non-overridable",
            (false, false) => "",
        };
        table.row([
            (rule.draft.name.to_string(), ui::BOLD),
            (rule.scope.to_string(), ui::DIM),
            (gates.join(","), ui::DIM),
            (remark.to_owned(), ui::WARN),
            (
                ui::one_line(rule.draft.check.source(), 70),
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
    Ok(Answer::new(json!({ "rules": views }), text))
}

fn remove(name: &RuleName, scope: &ScopeArgs, app: &App) -> Result<Answer, CommandError> {
    let scope = scope.resolve(app)?;
    app.lifecycle()?
        .remove_rule(scope.clone(), name.clone(), &app.call())?;
    let text = format!("Removed rule {} ({scope})\n", ui::styled(ui::BOLD, name));
    Ok(Answer::new(json!({ "name": name, "scope": scope }), text))
}
