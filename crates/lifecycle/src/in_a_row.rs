//! What a worker does in one breath: hand in a result and go on with the next phase. As one commit where
//! that is possible, step by step where it is not.

use plan::decide::decide_in_a_row;
use plan::decision::ReportedDecision;
use plan::invariant::Gate;
use plan::judgement::Judgement;
use plan::ledger::{Amount, Grant, Metering};
use plan::stage::ResultContent;
use plan::{Command, Phase, Plan, Refusal, Request, Span};
use store::{Committed, Reads, Submission};

use crate::judge::Matter;
use crate::means::granted;
use crate::submit::{Subject, reads_for};
use crate::{Call, Claim, Done, Error, Lifecycle, UseRequest};

/// What came of going on.
pub enum WentOn {
    /// The next phase is claimed.
    Claimed(Box<Claim>),
    /// The result is in; what comes next waits for somebody else, or for a rule.
    Waits(Done),
    /// There was nothing left to do.
    Landed(Done),
}

impl Lifecycle {
    /// Makes a plan and claims its first phase.
    pub fn use_and_start(
        &self,
        request: UseRequest,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, Error> {
        if !request.projects.is_empty() {
            self.sites_of_projects(&request.projects)?;
        }
        if call.key.is_some() || !request.projects.is_empty() {
            // A key belongs to one command; and what a repository's own rules judge has to be stored.
            let plan = self.use_action(request, call)?.plan.id;
            return self.start_strategize(plan, owner, lease, call);
        }
        let new = self.new_plan(request.clone());
        let subject = Subject {
            plan: Some(new.id),
            action: new.action.clone(),
            projects: new.projects.clone(),
        };
        let commands = vec![Command::Use(new), start(Phase::Strategize, owner, lease)];
        match self.submit_in_a_row(&subject, commands, call) {
            Ok(committed) => self.claimed(committed, call),
            // Rules are in force: they judge what is stored, so it has to be stored first.
            Err(Error::Refused(Refusal::JudgementStale { .. })) => {
                let plan = self.use_action(request, call)?.plan.id;
                self.start_strategize(plan, owner, lease, &call.follow_up())
            }
            Err(error) => Err(error),
        }
    }

    /// Strategize without anybody: the goal is the strategy. No sandbox is made for it.
    pub(crate) fn strategize_at_once(
        &self,
        plan: &Plan,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Done, Error> {
        self.check_reach(plan)?;
        let commands = vec![
            start(Phase::Strategize, owner, lease),
            Command::CompleteStrategize {
                // What the claim right before it will be given.
                epoch: plan.epoch.next(),
                decisions: Vec::new(),
            },
        ];
        let submitted = match self.targets_of(plan, Gate::Strategize)?.rules.is_empty() {
            true => self.submit_in_a_row(&Subject::of(plan), commands, call),
            false => Err(stale()),
        };
        match submitted {
            Ok(committed) => return self.done(committed),
            // Rules are in force: they judge what is stored.
            Err(Error::Refused(Refusal::JudgementStale { .. })) => {}
            Err(error) => return Err(error),
        }
        let claimed = self.submit_judged(
            plan.id,
            Gate::Strategize,
            &Matter::Plan,
            call,
            |judgement| Command::Start {
                phase: Phase::Strategize,
                owner: owner.to_owned(),
                lease,
                judgement: Some(judgement),
            },
        )?;
        let epoch = claimed.receipt.epoch;
        let epoch = epoch.expect("BUG: a claim's receipt has its epoch");
        self.complete_strategize(plan.id, epoch, Vec::new(), &call.follow_up())
    }

    /// Claims a phase and sets aside what its holder may use. Execute may be claimed from a strategize that is
    /// still to begin and is nobody's work. Refused if it takes more than a commit.
    pub(crate) fn start_with_means(
        &self,
        plan: &Plan,
        phase: Phase,
        metering: Metering,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<(Claim, Grant), Error> {
        // Each claim is given the next.
        let mut epoch = plan.epoch.next();
        let mut commands = Vec::new();
        if plan.phase() != phase {
            commands.extend([
                start(plan.phase(), owner, lease),
                Command::CompleteStrategize {
                    epoch,
                    decisions: Vec::new(),
                },
                Command::ExecutePlan {
                    judgement: nothing(),
                },
            ]);
            epoch = epoch.next();
        }
        let budget = self.budget;
        commands.extend([
            start(phase, owner, lease),
            Command::Reserve {
                epoch,
                metering,
                budget,
            },
        ]);
        let committed = self.submit_in_a_row(&Subject::of(plan), commands, call)?;
        let grant = granted(&committed);
        Ok((self.claimed(committed, call)?, grant))
    }

    /// Decides commands in a row and commits all of them, or none.
    fn submit_in_a_row(
        &self,
        subject: &Subject,
        commands: Vec<Command>,
        call: &Call,
    ) -> Result<Committed, Error> {
        let reads = commands
            .iter()
            .map(|command| reads_for(command, subject))
            .fold(Reads::default(), Reads::and);
        let requests: Vec<Request> = commands
            .into_iter()
            .map(|command| Request {
                command,
                plan: subject.plan,
                caller: call.caller.clone(),
                if_version: None,
            })
            .collect();
        Ok(self.store.commit(Submission {
            id: self.ids.command(),
            key: None,
            reads,
            decide: Box::new(move |facts, now| decide_in_a_row(facts, &requests, now)),
        })?)
    }
}

impl Claim {
    /// Hands in the strategy and, if nobody has to be asked, claims execute.
    pub fn complete_strategize_and_go_on(
        mut self,
        decisions: Vec<ReportedDecision>,
        lease: Span,
    ) -> Result<WentOn, Error> {
        let (lifecycle, call, plan) = (self.lifecycle.clone(), self.call(), self.done.plan.id);
        let owner = self.owner();
        let commands = vec![
            Command::CompleteStrategize {
                epoch: self.epoch(),
                decisions: decisions.clone(),
            },
            Command::ExecutePlan {
                judgement: nothing(),
            },
            start(Phase::Execute, &owner, lease),
        ];
        let targets = lifecycle.targets_of(&self.done.plan, Gate::Execute)?;
        let submitted = match targets.rules.is_empty() {
            true => lifecycle.submit_in_a_row(&Subject::of(&self.done.plan), commands, &call),
            false => Err(stale()),
        };
        match submitted {
            Ok(committed) => {
                // The next claim takes the sandboxes over, which nobody may be in.
                self.holds.clear();
                return Ok(WentOn::Claimed(Box::new(
                    lifecycle.claimed(committed, &call)?,
                )));
            }
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_strategize(decisions)?;
        let next = lifecycle
            .execute_plan(plan, &call)
            .and_then(|_| lifecycle.start_execute(plan, &owner, lease, &call));
        match next {
            Ok(claim) => Ok(WentOn::Claimed(Box::new(claim))),
            Err(Error::Refused(_) | Error::Blocked(_)) => Ok(WentOn::Waits(done)),
            Err(error) => Err(error),
        }
    }

    /// Hands in the result and, if there is nothing to land and nobody has to be asked, takes the plan to
    /// its end.
    pub fn complete_execute_and_go_on(
        self,
        result: &ResultContent,
        lease: Span,
    ) -> Result<WentOn, Error> {
        if !self.done.plan.resources.is_empty() {
            return self.complete_execute(result).map(WentOn::Waits);
        }
        let (lifecycle, call, plan) = (self.lifecycle.clone(), self.call(), self.done.plan.id);
        let owner = self.owner();
        let commands = self.to_its_end(result, lease);
        let subject = Subject::of(&self.done.plan);
        match lifecycle.submit_in_a_row(&subject, commands, &call) {
            Ok(committed) => return lifecycle.done(committed).map(WentOn::Landed),
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let done = self.complete_execute(result)?;
        let next = lifecycle
            .apply_plan(plan, &call)
            .and_then(|_| lifecycle.start_apply(plan, &owner, lease, &call))
            .and_then(|claim| claim.complete_apply(Vec::new()));
        match next {
            Ok(done) => Ok(WentOn::Landed(done)),
            Err(Error::Refused(_) | Error::Blocked(_)) => Ok(WentOn::Waits(done)),
            Err(error) => Err(error),
        }
    }

    /// Charges what was used, hands in the result and takes the plan to its end as one commit. False if that
    /// takes more than one: there is something to land, rules have to be asked, or a person.
    pub(crate) fn end_at_once(
        &self,
        result: &ResultContent,
        used: Amount,
        lease: Span,
    ) -> Result<bool, Error> {
        let plan = &self.done.plan;
        if !plan.resources.is_empty() || !plan.lands_unasked() {
            return Ok(false);
        }
        let epoch = self.epoch();
        let mut commands = vec![Command::Settle { epoch, used }];
        commands.extend(self.to_its_end(result, lease));
        let lifecycle = &self.lifecycle;
        match lifecycle.submit_in_a_row(&Subject::of(plan), commands, &self.call()) {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// From the result of a plan that works on nothing to its end.
    fn to_its_end(&self, result: &ResultContent, lease: Span) -> Vec<Command> {
        vec![
            Command::CompleteExecute {
                epoch: self.epoch(),
                result: result.clone(),
                captured: Vec::new(),
                allow_empty: false,
                judgement: nothing(),
            },
            Command::ApplyPlan {
                judgement: nothing(),
            },
            start(Phase::Apply, &self.owner(), lease),
            Command::CompleteApply {
                // What the claim right before it will be given.
                epoch: self.epoch().next(),
                landed: Vec::new(),
                rest: None,
            },
        ]
    }
}

fn start(phase: Phase, owner: &str, lease: Span) -> Command {
    Command::Start {
        phase,
        owner: owner.to_owned(),
        lease,
        judgement: (phase == Phase::Strategize).then(nothing),
    }
}

/// Nobody has judged it yet.
fn stale() -> Error {
    Error::Refused(Refusal::JudgementStale {
        gate: Gate::Strategize,
    })
}

/// A place for the judgement that is filled in when the plan is read.
fn nothing() -> Judgement {
    Judgement::default()
}
