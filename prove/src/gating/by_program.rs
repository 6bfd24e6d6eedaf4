//! Plans that land on the repository: workers have them worked on, and people drive them through the
//! program. What an engine without hands can do is sometimes done by the library.

use plan::invariant::RuleCheck;
use plan::stage::{ApplyState, WorkState};
use plan::{Plan, PlanStage, Profile};

use super::player::{Player, id};
use super::spender::{CALL, PRICE};

impl Player<'_> {
    /// Makes a plan for the workers.
    pub(super) fn make_by_program(&mut self) -> anyhow::Result<()> {
        let profile = self.random.choice(["manual", "review", "review", "auto"]);
        let limits = self.limit_words(0);
        let mut words = vec!["run", "--detach", "--actor", "bot", "--project", "shop"];
        words.extend(["--attempts", "9", "--profile", profile.unwrap_or("auto")]);
        words.extend(limits.iter().map(String::as_str));
        words.push("Write some");
        self.program(&words)
    }

    /// Limits that leave something beyond what is used.
    fn limit_words(&mut self, used: u64) -> Vec<String> {
        let tokens = used + self.random.u64(CALL..6 * CALL);
        let mut words = vec!["--max-tokens".to_owned(), tokens.to_string()];
        if self.chance(40) {
            let micros = tokens * PRICE;
            let money = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            words.extend(["--max-cost".to_owned(), money]);
        }
        words
    }

    /// One step further, or a word about it.
    pub(super) fn go_on_by_program(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let handle = id(plan.id);
        let handle = handle.as_str();
        match &plan.stage {
            PlanStage::Execute(WorkState::Complete) => match self.random.u8(..100) {
                0..25 => self.program(&["apply", handle, "--yes"]),
                25..60 => self.program(&["approve", handle]),
                60..75 => self.program(&["revise", handle, "--detach", "Once more"]),
                _ => self.say(plan),
            },
            PlanStage::Apply(ApplyState::Constrained(_)) => match self.random.u8(..100) {
                0..50 => self.program(&["apply", handle, "--yes"]),
                50..75 => self.program(&["revise", handle, "--detach", "Once more"]),
                _ => self.say(plan),
            },
            PlanStage::Strategize(WorkState::Errored(_))
            | PlanStage::Execute(WorkState::Errored(_)) => {
                let used = self.ground.store.read_ledger(plan.id)?.plan.settled.tokens;
                let mut words = vec!["retry".to_owned(), id(plan.id), "--detach".to_owned()];
                words.extend(self.limit_words(used));
                self.program(&words)
            }
            PlanStage::Apply(ApplyState::Errored(_)) => {
                self.program(&["retry", handle, "--detach"])
            }
            PlanStage::Strategize(WorkState::Complete) if self.chance(70) => {
                self.program(&["plumbing", "execute-plan", handle])
            }
            PlanStage::Strategize(WorkState::Queued(_))
                if plan.profile == Profile::Manual && self.chance(40) =>
            {
                self.program(&["run", handle])
            }
            PlanStage::Strategize(_) | PlanStage::Execute(_) | PlanStage::Apply(_) => {
                match self.random.u8(..100) {
                    0..3 => self.program(&["cancel", handle]),
                    3..15 => self.say(plan),
                    // Somebody works on it.
                    _ => Ok(()),
                }
            }
        }
    }

    /// Moves a result on to where somebody with hands can land it; often after the rules changed that it was
    /// signed under.
    pub(super) fn land_by_library(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if self.chance(70) {
            self.remark(plan)?;
        }
        let by_person = self.chance(85);
        let call = self.call(by_person);
        let moved = self.lifecycle.apply_plan(plan.id, &call);
        self.heard(moved).map(drop)
    }

    /// What people say of rules.
    fn say(&mut self, plan: &Plan) -> anyhow::Result<()> {
        let Some(rule) = self.some_rule(plan)? else {
            return Ok(());
        };
        let (plan, rule, kind) = (id(plan.id), rule.draft.name.to_string(), rule.draft.check);
        let words = match kind {
            RuleCheck::Ask(_) if self.chance(75) => vec!["approve", &plan, "--rule", &rule],
            RuleCheck::Ask(_) => vec!["approve", &plan, "--rule", &rule, "--reject", "no"],
            RuleCheck::Expr(_)
            | RuleCheck::Allow(_)
            | RuleCheck::Forbid(_)
            | RuleCheck::Command { .. } => {
                vec!["waive", &plan, &rule, "--reason", "so be it"]
            }
        };
        self.program(&words)
    }
}
