//! `planwright answer`: answers an agent's question and continues the plan, or decides a tool call that an agent
//! waits for.

use api::plans::{self, AnswerRequest, PermissionDecision};
use api::view::PermissionView;
use lifecycle::Call;
use plan::PlanId;

use crate::cli::App;
use crate::commands::plan_arg::resolve_plan_and_text;
use crate::commands::{CommandAnswer, ConditionArgs, answer_or_receipt, continue_unless_detached};
use crate::error::CommandError;
use crate::{completion, ui};

/// Answer the question a plan is waiting on
///
/// With --request, allow or reject the one tool call that an agent asks for while it works.
#[derive(Debug, clap::Args)]
#[command(override_usage = "planwright answer [OPTIONS] [PLAN] <TEXT>")]
pub struct AnswerArgs {
    /// Plan ID or handle; @- is the plan used before [default: the plan last used here]
    #[arg(value_name = "PLAN", add = completion::plans())]
    first: Option<String>,
    /// Answer to the question; with --request, `allow` or `reject`
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// The request to decide, as `status` shows it
    #[arg(long, value_name = "REQUEST")]
    request: Option<String>,
    /// Leave the work to a worker instead of continuing here
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    conditions: ConditionArgs,
}

pub fn run(args: &AnswerArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let call = args.conditions.apply_to(app.new_call());
    let words = (args.first.as_deref(), args.second.as_deref());
    if let Some(request) = &args.request {
        let (plan_id, word) = resolve_plan_and_text(app, words.0, words.1, "answer", "allow")?;
        return decide_request(app, plan_id, (request, word), &call);
    }
    let (plan_id, text) = resolve_plan_and_text(app, words.0, words.1, "answer", "\"TEXT\"")?;
    let request = AnswerRequest {
        text: text.to_owned(),
    };
    let done = plans::answer_question(app.lifecycle()?, plan_id, &request, &call)?;
    continue_unless_detached(args.detach, app, &done)
}

fn decide_request(
    app: &App,
    plan_id: PlanId,
    (request, word): (&str, &str),
    call: &Call,
) -> Result<CommandAnswer, CommandError> {
    let allow = match word {
        "allow" => true,
        "reject" => false,
        other => {
            return Err(CommandError::usage(format!(
                "`{other}` does not decide a request: answer `allow` or `reject`."
            )));
        }
    };
    let lifecycle = app.lifecycle()?;
    let asked = PermissionView::of_plan(&lifecycle.get_plan(plan_id)?.plan);
    let decision = PermissionDecision {
        request: request.to_owned(),
        allow,
    };
    let done = plans::answer_permission(lifecycle, plan_id, &decision, call)?;
    let handle = lifecycle.short_handle(plan_id)?;
    let verb = if allow { "Allowed" } else { "Rejected" };
    let what = asked.map_or_else(|| "the request".to_owned(), |asked| asked.summary);
    let once = if allow { ", this time only" } else { "" };
    let text = format!(
        "{verb} for {handle}: {}{once}\n",
        ui::escape_controls(&what)
    );
    let described = plans::view_change(lifecycle, &done).map_err(CommandError::from);
    let answer = described.map(|view| CommandAnswer::new(view, text));
    let hint = format!("planwright run {handle}");
    answer_or_receipt(&done, answer.map(|answer| answer.with_hint(hint)))
}
