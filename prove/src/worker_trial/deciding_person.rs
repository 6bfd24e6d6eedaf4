//! A person who allows and rejects the tool calls that actors ask for. Sometimes their answer is about a request that is
//! over.

use anyhow::bail;
use fastrand::Rng;
use lifecycle::{Call, LifecycleError};
use plan::command::AnswerPermission;
use plan::{Caller, Digest, PlanId};

use crate::trial_env::TrialEnv;

#[derive(Default)]
pub struct DecidingPerson {
    /// Requests that were answered before.
    answered: Vec<(PlanId, Digest)>,
}

impl DecidingPerson {
    /// Answers the open requests.
    pub fn answer_requests(&mut self, env: &TrialEnv, random: &mut Rng) -> anyhow::Result<()> {
        let plans = env.list_plans()?;
        let open = plans.iter().filter_map(|plan| {
            let question = plan.stage().open_permission()?;
            Some((plan.id(), question.digest))
        });
        for (plan_id, digest) in open {
            // A paused worker may hold the write lock.
            if !env.is_store_writable() {
                return Ok(());
            }
            if random.u8(..100) < 20 {
                self.repeat_old_answer(env, (plan_id, digest), random)?;
            }
            answer(env, plan_id, digest, random.u8(..100) < 70)?;
            self.answered.push((plan_id, digest));
        }
        Ok(())
    }

    /// Allows a request that was answered before, for the plan that asks now. It must not count.
    fn repeat_old_answer(
        &self,
        env: &TrialEnv,
        (plan_id, open): (PlanId, Digest),
        random: &mut Rng,
    ) -> anyhow::Result<()> {
        let same_plan = self.answered.iter().rfind(|(plan, _)| *plan == plan_id);
        let other = self
            .answered
            .get(random.usize(..self.answered.len().max(1)));
        let Some((_, digest)) = same_plan.or(other).filter(|(_, digest)| *digest != open) else {
            return Ok(());
        };
        match answer(env, plan_id, *digest, true)? {
            true => bail!("{plan_id}: an answer to another request was accepted"),
            false => Ok(()),
        }
    }
}

/// Returns whether the answer was accepted.
fn answer(env: &TrialEnv, plan_id: PlanId, digest: Digest, allowed: bool) -> anyhow::Result<bool> {
    let call = Call::by(Caller::Person("ada".to_owned()));
    match env
        .lifecycle
        .submit_command(plan_id, AnswerPermission { digest, allowed }, &call)
    {
        Ok(_) => Ok(true),
        // The run ended meanwhile.
        Err(LifecycleError::Refused(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
