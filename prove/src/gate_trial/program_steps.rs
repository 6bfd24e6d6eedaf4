//! Steps of a client on plans with a repository: workers run them, and the client drives them through the program, and
//! sometimes through an engine without a local host.

use plan::invariant::RuleCheck;
use plan::stage::{ApplyState, WorkState};
use plan::{Plan, PlanStage, Profile};

use super::gate_client::GateClient;
use super::spending_actor::{MAX_TOKENS_PER_CALL, MICROS_PER_TOKEN};

impl GateClient<'_> {
    /// Creates a plan for the workers.
    pub(super) fn create_plan_by_program(&mut self) -> anyhow::Result<()> {
        let profile = self.random.choice(["manual", "review", "review", "auto"]);
        let limits = self.limit_arguments(0);
        let mut arguments = vec!["run", "--detach", "--actor", "bot", "--project", "shop"];
        arguments.extend(["--attempts", "9", "--profile", profile.unwrap_or("auto")]);
        arguments.extend(limits.iter().map(String::as_str));
        arguments.push("Write some");
        self.run_program(&arguments)
    }

    /// Limits that leave some budget beyond the current usage.
    fn limit_arguments(&mut self, used: u64) -> Vec<String> {
        let tokens = used
            + self
                .random
                .u64(MAX_TOKENS_PER_CALL..6 * MAX_TOKENS_PER_CALL);
        let mut arguments = vec!["--max-tokens".to_owned(), tokens.to_string()];
        if self.roll_percent(40) {
            let micros = tokens * MICROS_PER_TOKEN;
            let money = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            arguments.extend(["--max-cost".to_owned(), money]);
        }
        arguments
    }

    /// Takes the next step of a plan, or judges one of its rules.
    pub(super) fn advance_by_program(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let handle = plan.id().to_string();
        let handle = handle.as_str();
        match plan.stage() {
            PlanStage::Execute(WorkState::Complete) => match self.random.u8(..100) {
                0..25 => self.run_program(&["apply", handle, "--yes"]),
                25..60 => self.run_program(&["approve", handle]),
                60..75 => self.run_program(&["revise", handle, "--detach", "Once more"]),
                _ => self.judge_rule(plan),
            },
            PlanStage::Apply(ApplyState::Constrained(_)) => match self.random.u8(..100) {
                0..50 => self.run_program(&["apply", handle, "--yes"]),
                50..75 => self.run_program(&["revise", handle, "--detach", "Once more"]),
                _ => self.judge_rule(plan),
            },
            PlanStage::Strategize(WorkState::Errored(_))
            | PlanStage::Execute(WorkState::Errored(_)) => {
                let used = self.env.store.read_ledger(plan.id())?.plan.settled.tokens;
                let mut arguments = vec![
                    "retry".to_owned(),
                    plan.id().to_string(),
                    "--detach".to_owned(),
                ];
                arguments.extend(self.limit_arguments(used));
                self.run_program(&arguments)
            }
            PlanStage::Apply(ApplyState::Errored(_)) => {
                self.run_program(&["retry", handle, "--detach"])
            }
            PlanStage::Strategize(WorkState::Complete) if self.roll_percent(70) => {
                self.run_program(&["plumbing", "execute-plan", handle])
            }
            PlanStage::Strategize(WorkState::Queued(_))
                if plan.profile() == Profile::Manual && self.roll_percent(40) =>
            {
                self.run_program(&["run", handle])
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
                match self.random.u8(..100) {
                    0..3 => self.run_program(&["cancel", handle]),
                    3..15 => self.judge_rule(plan),
                    // A worker is running it.
                    _ => Ok(()),
                }
            }
        }
    }

    /// Enters apply through the library, so that a worker can land the result. Often adds a rule first, which voids the
    /// approval.
    pub(super) fn land_by_library(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if self.roll_percent(70) {
            self.add_harmless_rule(plan)?;
        }
        let by_person = self.roll_percent(85);
        let call = self.new_call(by_person);
        let answer = self.lifecycle.apply_plan(plan.id(), &call);
        self.accept_answer(answer).map(drop)
    }

    /// Answers or waives a rule.
    fn judge_rule(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let Some(rule) = self.pick_rule(plan)? else {
            return Ok(());
        };
        let (plan, rule, kind) = (
            plan.id().to_string(),
            rule.draft.name.to_string(),
            rule.draft.check,
        );
        let arguments = match kind {
            RuleCheck::Ask(_) if self.roll_percent(75) => vec!["approve", &plan, "--rule", &rule],
            RuleCheck::Ask(_) => vec!["approve", &plan, "--rule", &rule, "--reject", "no"],
            RuleCheck::Expr(_)
            | RuleCheck::Allow(_)
            | RuleCheck::Forbid(_)
            | RuleCheck::Command { .. } => {
                vec!["waive", &plan, &rule, "--reason", "so be it"]
            }
        };
        self.run_program(&arguments)
    }
}
