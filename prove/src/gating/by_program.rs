//! Plans that land on the repository: workers have them worked on, and people drive them through the
//! program. What an engine without hands can do is sometimes done by the library.

use plan::invariant::Check;
use plan::stage::{Landing, Work};
use plan::{Plan, Profile, Stage};

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
            Stage::Execute(Work::Complete) => match self.random.u8(..100) {
                0..25 => self.program(&["apply", handle, "--yes"]),
                25..60 => self.program(&["approve", handle]),
                60..75 => self.program(&["revise", handle, "--detach", "Once more"]),
                _ => self.say(plan),
            },
            Stage::Apply(Landing::Constrained(_)) => match self.random.u8(..100) {
                0..50 => self.program(&["apply", handle, "--yes"]),
                50..75 => self.program(&["revise", handle, "--detach", "Once more"]),
                _ => self.say(plan),
            },
            Stage::Strategize(Work::Errored(_)) | Stage::Execute(Work::Errored(_)) => {
                let used = self.ground.store.ledger(plan.id)?.plan.settled.tokens;
                let mut words = vec!["retry".to_owned(), id(plan.id), "--detach".to_owned()];
                words.extend(self.limit_words(used));
                self.program(&words)
            }
            Stage::Apply(Landing::Errored(_)) => self.program(&["retry", handle, "--detach"]),
            Stage::Strategize(Work::Complete) if self.chance(70) => {
                self.program(&["plumbing", "execute-plan", handle])
            }
            Stage::Strategize(Work::Queued(_))
                if plan.profile == Profile::Manual && self.chance(40) =>
            {
                self.program(&["run", handle])
            }
            Stage::Strategize(_) | Stage::Execute(_) | Stage::Apply(_) => {
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
            Check::Ask(_) if self.chance(75) => vec!["approve", &plan, "--rule", &rule],
            Check::Ask(_) => vec!["approve", &plan, "--rule", &rule, "--reject", "no"],
            Check::Expr(_) | Check::Allow(_) | Check::Forbid(_) | Check::Command { .. } => {
                vec!["waive", &plan, &rule, "--reason", "so be it"]
            }
        };
        self.program(&words)
    }
}
