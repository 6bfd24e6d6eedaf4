//! The operations of a plan's life, named as in the reference.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use plan::action::ActionDefinition;
use plan::changeset::{Entry, Node, TreePath};
use plan::command::{Grounds, Into, LinkedPlan, NewPlan};
use plan::decision::ReportedDecision;
use plan::invariant::{Gate, RuleDraft, RuleName, Scope};
use plan::judgement::RuleOutcome;
use plan::plan::{Limits, ProfileSource};
use plan::stage::{Category, ConstraintKind, RefMove, ResultContent, Work};
use plan::takeover;
use plan::ways::Clean;
use plan::{
    Action, ActorDefinition, Actors, ChangesetId, Command, Epoch, How, Name, Outcome, Phase, Plan,
    PlanId, Profile, Receipt, Refusal, Span, Stage, Ways,
};
use store::{Committed, PlanRow};

use crate::judge::{Matter, check_rule};
use crate::submit::Subject;
use crate::{Call, Claim, Error, LEASE, LeaseWatch, Lifecycle, SubmitExceptions};

/// What an operation on a plan came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The plan after it; read anew if the answer was remembered.
    pub plan: Plan,
    /// What was answered.
    pub receipt: Receipt,
    /// The answer had been given before: under the same key, or to the same holder.
    pub repeated: bool,
}

/// What a plan is made of.
#[derive(Debug, Clone, Default)]
pub struct UseRequest {
    /// The action to use.
    pub action: Option<Name>,
    /// What it is for; the action's description if not said.
    pub goal: Option<String>,
    /// Arguments as `name`, `value`.
    pub arguments: Vec<(String, String)>,
    /// Who works, unless the action says so.
    pub fallback_actors: Option<Actors>,
    /// The profile, whatever the action says.
    pub profile: Option<Profile>,
    /// How actors are started, as far as that is known.
    pub definitions: Vec<ActorDefinition>,
    /// A strategy is to be looked at before execute.
    pub strategy_wanted: bool,
    /// The profile and where it was said, unless the action says so.
    pub fallback_profile: Option<(Profile, ProfileSource)>,
    /// What it may use.
    pub limits: Limits,
    /// The projects it works on.
    pub projects: Vec<Name>,
    /// Start from what is not committed yet, too.
    pub with_changes: bool,
    /// How the resources want to be worked on.
    pub ways: Ways,
}

impl Lifecycle {
    /// Stores a new action.
    pub fn create_action(
        &self,
        definition: ActionDefinition,
        call: &Call,
    ) -> Result<Action, Error> {
        for rule in &definition.invariants {
            check_rule(rule)?;
        }
        let name = definition.name.clone();
        self.submit(Command::CreateAction(definition), &Subject::default(), call)?;
        self.get_action(&name).map_err(Error::after_commit)
    }

    /// Takes an action out of use; its plans go on.
    pub fn archive_action(&self, name: &Name, call: &Call) -> Result<Action, Error> {
        self.submit(
            Command::ArchiveAction(name.clone()),
            &Subject::default(),
            call,
        )?;
        self.get_action(name).map_err(Error::after_commit)
    }

    /// Adds a rule to a scope.
    pub fn add_rule(&self, scope: Scope, draft: RuleDraft, call: &Call) -> Result<(), Error> {
        check_rule(&draft)?;
        let subject = self.subject_of_scope(&scope)?;
        self.submit(Command::AddRule { scope, draft }, &subject, call)?;
        Ok(())
    }

    /// Removes a rule from its scope.
    pub fn remove_rule(&self, scope: Scope, name: RuleName, call: &Call) -> Result<(), Error> {
        let subject = self.subject_of_scope(&scope)?;
        self.submit(Command::RemoveRule { scope, name }, &subject, call)?;
        Ok(())
    }

    /// Makes a plan.
    pub fn use_action(&self, request: UseRequest, call: &Call) -> Result<Done, Error> {
        let with_changes = request.with_changes;
        let mut new = self.new_plan(request);
        if with_changes {
            new.bases = self.bases_with_changes(new.id, &new.projects)?;
        }
        new.ways.rules = self.rules_to_freeze(&new.projects)?;
        let new = Command::Use(new);
        let committed = self.submit(new, &Subject::default(), call)?;
        self.done(committed)
    }

    /// Claims the strategize phase.
    pub fn start_strategize(
        &self,
        plan: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, Error> {
        self.check_reach_of(plan)?;
        let owner = owner.to_owned();
        let committed =
            self.submit_judged(plan, Gate::Strategize, &Matter::Plan, call, |judgement| {
                Command::Start {
                    phase: Phase::Strategize,
                    owner: owner.clone(),
                    lease,
                    judgement: Some(judgement),
                }
            })?;
        self.claimed(committed, call)
    }

    /// Hands in the strategy.
    pub fn complete_strategize(
        &self,
        plan: PlanId,
        epoch: Epoch,
        decisions: Vec<ReportedDecision>,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(plan, Command::CompleteStrategize { epoch, decisions }, call)
    }

    /// Moves a finished strategy into execute.
    pub fn execute_plan(&self, plan: PlanId, call: &Call) -> Result<Done, Error> {
        let command = |judgement| Command::ExecutePlan { judgement };
        let committed = self.submit_judged(plan, Gate::Execute, &Matter::Plan, call, command)?;
        self.done(committed)
    }

    /// Claims the execute phase.
    pub fn start_execute(
        &self,
        plan: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, Error> {
        self.start(plan, Phase::Execute, owner, lease, call)
    }

    /// Opens a changeset for a unit of work.
    pub fn open_changeset(
        &self,
        plan: PlanId,
        epoch: Epoch,
        node: Node,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(
            plan,
            Command::OpenChangeset {
                epoch,
                id: self.ids.changeset(),
                node,
            },
            call,
        )
    }

    /// Records one change where it belongs.
    pub fn record_change(
        &self,
        plan: PlanId,
        epoch: Epoch,
        into: Into,
        entry: Entry,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(plan, Command::RecordChange { epoch, into, entry }, call)
    }

    /// Closes a changeset for good.
    pub fn seal_changeset(
        &self,
        plan: PlanId,
        epoch: Epoch,
        changeset: ChangesetId,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(plan, Command::SealChangeset { epoch, changeset }, call)
    }

    /// Hands in the result.
    pub fn complete_execute(
        &self,
        plan: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        call: &Call,
    ) -> Result<Done, Error> {
        self.complete_execute_with(plan, epoch, result, SubmitExceptions::default(), call)
    }

    /// Hands in the result, whatever of this a person lets pass.
    pub fn complete_execute_with(
        &self,
        plan: PlanId,
        epoch: Epoch,
        result: &ResultContent,
        allowed: SubmitExceptions,
        call: &Call,
    ) -> Result<Done, Error> {
        let (result, captured) = self.captured(plan, epoch, result, allowed)?;
        let matter = Matter::Result(&result);
        // Its checks may take longer than the lease.
        let committed = self.keeping_the_lease(plan, epoch, call, || {
            self.submit_judged(plan, Gate::Result, &matter, call, |judgement| {
                Command::CompleteExecute {
                    epoch,
                    result: result.clone(),
                    captured: captured.clone(),
                    allow_empty: allowed.empty,
                    judgement,
                }
            })
        })?;
        self.done(committed)
    }

    /// Signs the result as it shall arrive; lands nothing by itself.
    pub fn approve(&self, plan: PlanId, how: &How, call: &Call) -> Result<Done, Error> {
        self.approve_for(plan, how, false, call)
    }

    /// The same; `once` if it is for the landing that the caller is about to begin, and no other.
    pub(crate) fn approve_for(
        &self,
        plan: PlanId,
        how: &How,
        once: bool,
        call: &Call,
    ) -> Result<Done, Error> {
        self.check_arrival(plan, how)?;
        let row = self.get_plan(plan)?;
        let targets = self.targets_of(&row.plan, Gate::Apply)?;
        let how = how.clone();
        let approve = Command::Approve { how, targets, once };
        let committed = self.submit(approve, &Subject::of(&row.plan), call)?;
        self.done(committed)
    }

    /// Says whether a rule that asks holds for a plan as it stands.
    pub fn rule_on(
        &self,
        plan: PlanId,
        rule: RuleName,
        outcome: RuleOutcome,
        call: &Call,
    ) -> Result<Done, Error> {
        let row = self.get_plan(plan)?;
        let gate = gate_ahead(&row.plan);
        let targets = self.targets_of(&row.plan, gate)?;
        let subject = match &row.plan.result {
            Some(result) if gate == Gate::Apply => Matter::Result(result),
            Some(_) | None => Matter::Plan,
        };
        let command = Command::RuleOn {
            rule,
            subject: subject.digest(&row.plan, gate),
            outcome,
            targets,
        };
        let committed = self.submit(command, &Subject::of(&row.plan), call)?;
        self.done(committed)
    }

    /// Moves a finished result into apply.
    pub fn apply_plan(&self, plan: PlanId, call: &Call) -> Result<Done, Error> {
        let command = |judgement| Command::ApplyPlan { judgement };
        let committed = self.submit_judged(plan, Gate::Apply, &Matter::Stored, call, command)?;
        self.done(committed)
    }

    /// Claims the apply phase.
    pub fn start_apply(
        &self,
        plan: PlanId,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, Error> {
        self.start(plan, Phase::Apply, owner, lease, call)
    }

    /// Stores what is about to be done to the targets: the point of no return.
    pub fn prepare_apply(
        &self,
        plan: PlanId,
        epoch: Epoch,
        moves: &[RefMove],
        call: &Call,
    ) -> Result<Done, Error> {
        let row = self.get_plan(plan)?;
        let matter = self.merged(&row.plan, moves)?;
        let committed = self.submit_judged(plan, Gate::Apply, &matter, call, |judgement| {
            Command::PrepareApply {
                epoch,
                moves: moves.to_vec(),
                judgement,
            }
        })?;
        self.done(committed)
    }

    /// Takes that back, nothing having been done.
    pub fn withdraw_apply(&self, plan: PlanId, epoch: Epoch, call: &Call) -> Result<Done, Error> {
        self.run(plan, Command::WithdrawApply { epoch }, call)
    }

    /// Records that everything landed: `landed` are the resources that were looked up and have it.
    pub fn complete_apply(
        &self,
        plan: PlanId,
        epoch: Epoch,
        landed: Vec<String>,
        rest: Option<LinkedPlan>,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(
            plan,
            Command::CompleteApply {
                epoch,
                landed,
                rest,
            },
            call,
        )
    }

    /// Records that it cannot land as it is.
    pub fn constrain(
        &self,
        plan: PlanId,
        epoch: Epoch,
        kind: ConstraintKind,
        message: &str,
        paths: Vec<TreePath>,
        call: &Call,
    ) -> Result<Done, Error> {
        let message = message.to_owned();
        self.run(
            plan,
            Command::Constrain {
                epoch,
                kind,
                message,
                paths,
                commits: Vec::new(),
            },
            call,
        )
    }

    /// Keeps a lease.
    pub fn renew(
        &self,
        plan: PlanId,
        epoch: Epoch,
        lease: Span,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(plan, Command::Renew { epoch, lease }, call)
    }

    /// Gives a lease back.
    pub fn release(&self, plan: PlanId, epoch: Epoch, call: &Call) -> Result<Done, Error> {
        self.run(plan, Command::Release { epoch }, call)
    }

    /// Takes an expired lease, or that of a process of this host that has ended. One that runs on this host keeps its
    /// plan, whatever the clock says.
    pub fn reclaim(&self, plan: PlanId, call: &Call) -> Result<Done, Error> {
        if self.hands.is_some() {
            return self.reclaim_from_the_gone(plan, call);
        }
        let grounds = Grounds::Expired;
        self.run(plan, Command::Reclaim { grounds }, call)
    }

    /// Takes the lease of a holder that is gone: it signed in on this host and its process has ended, or it did not
    /// sign in here and its lease has expired.
    pub fn reclaim_from_the_gone(&self, plan: PlanId, call: &Call) -> Result<Done, Error> {
        self.take_over(plan, &mut LeaseWatch::new(LEASE), call)
    }

    /// The same; and of a holder whose process runs on this host, if the watch saw it not renew its lease for as long
    /// as one lasts: it is stopped, or hangs.
    pub fn take_over(
        &self,
        plan: PlanId,
        watch: &mut LeaseWatch,
        call: &Call,
    ) -> Result<Done, Error> {
        let row = self.get_plan(plan)?;
        self.take_over_as_seen(&row, watch, call)
    }

    pub(crate) fn take_over_as_seen(
        &self,
        row: &PlanRow,
        watch: &mut LeaseWatch,
        call: &Call,
    ) -> Result<Done, Error> {
        let liveness = self.holder_liveness(row)?;
        let grounds = match (liveness, &row.lease) {
            (Some(liveness), Some(lease)) => {
                let unrenewed_for = watch.unrenewed_for(lease, Instant::now());
                let grounds = takeover::grounds(liveness, lease, unrenewed_for, watch.length());
                grounds.ok_or_else(|| held(row))?
            }
            // Whether it is held at all is decided on the rows as they are then.
            (Some(_) | None, _) => Grounds::Expired,
        };
        self.run(row.plan.id, Command::Reclaim { grounds }, call)
    }

    /// Takes a lease back that the caller itself holds under this epoch and nobody works under any more.
    pub(crate) fn take_back(&self, plan: PlanId, epoch: Epoch, call: &Call) -> Result<Done, Error> {
        let grounds = Grounds::OwnerDead(epoch);
        self.run(plan, Command::Reclaim { grounds }, call)
    }

    /// Takes every lease that has expired, at most `limit`, but for those of processes that run on this host. What
    /// somebody else reclaimed or renewed in the meantime is left alone.
    pub fn reclaim_expired(&self, limit: usize, call: &Call) -> Result<Vec<Plan>, Error> {
        self.reclaim_expired_but(&BTreeSet::new(), limit, call)
    }

    /// The same, but for plans that the caller has in hand: it renews those itself.
    pub(crate) fn reclaim_expired_but(
        &self,
        in_hand: &BTreeSet<PlanId>,
        limit: usize,
        call: &Call,
    ) -> Result<Vec<Plan>, Error> {
        let mut reclaimed = Vec::new();
        let expired = self.store.expired(limit)?;
        for plan in expired.into_iter().filter(|plan| !in_hand.contains(plan)) {
            match self.reclaim(plan, &call.follow_up()) {
                Ok(done) => reclaimed.push(done.plan),
                Err(Error::Refused(refusal)) if is_left_to_its_holder(&refusal) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reclaimed)
    }

    /// Ends work with an error.
    pub fn fail(
        &self,
        plan: PlanId,
        epoch: Epoch,
        category: Category,
        message: &str,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(
            plan,
            Command::Fail {
                epoch,
                category,
                message: message.to_owned(),
            },
            call,
        )
    }

    /// Asks a person, and ends the lease.
    pub fn ask(
        &self,
        plan: PlanId,
        epoch: Epoch,
        question: &str,
        patience: Option<Span>,
        call: &Call,
    ) -> Result<Done, Error> {
        self.run(
            plan,
            Command::Ask {
                epoch,
                question: question.to_owned(),
                patience,
            },
            call,
        )
    }

    /// Answers the question.
    pub fn answer(&self, plan: PlanId, text: &str, call: &Call) -> Result<Done, Error> {
        self.run(
            plan,
            Command::Answer {
                text: text.to_owned(),
            },
            call,
        )
    }

    /// Gives up on a question whose deadline has passed.
    pub fn expire_question(&self, plan: PlanId, call: &Call) -> Result<Done, Error> {
        self.run(plan, Command::ExpireQuestion, call)
    }

    /// Tries the phase again.
    pub fn retry(
        &self,
        plan: PlanId,
        fresh: bool,
        limits: Option<Limits>,
        call: &Call,
    ) -> Result<Done, Error> {
        self.check_places(&self.get_plan(plan)?.plan)?;
        self.run(plan, Command::Retry { fresh, limits }, call)
    }

    /// Sends the work back with feedback.
    pub fn revise(
        &self,
        plan: PlanId,
        feedback: &str,
        dropped: Vec<TreePath>,
        call: &Call,
    ) -> Result<Done, Error> {
        self.check_places(&self.get_plan(plan)?.plan)?;
        self.run(
            plan,
            Command::Revise {
                feedback: feedback.to_owned(),
                dropped,
            },
            call,
        )
    }

    /// Goes back to strategize.
    pub fn revert(&self, plan: PlanId, reason: &str, call: &Call) -> Result<Done, Error> {
        self.run(
            plan,
            Command::Revert {
                reason: reason.to_owned(),
            },
            call,
        )
    }

    /// Sets a rule aside for this plan.
    pub fn waive(
        &self,
        plan: PlanId,
        rule: RuleName,
        reason: &str,
        call: &Call,
    ) -> Result<Done, Error> {
        let row = self.get_plan(plan)?;
        let waive = Command::Waive {
            rule,
            reason: reason.to_owned(),
            targets: self.targets_of(&row.plan, gate_ahead(&row.plan))?,
        };
        let committed = self.submit(waive, &Subject::of(&row.plan), call)?;
        self.done(committed)
    }

    /// Ends the plan without landing.
    pub fn cancel(&self, plan: PlanId, reason: Option<&str>, call: &Call) -> Result<Done, Error> {
        let reason = reason.map(str::to_owned);
        let done = self.run(plan, Command::Cancel { reason }, call)?;
        if done.plan.ways.clean == Clean::OnTerminal && self.hands.is_some() {
            // What cannot be tidied up now is found by `sandbox clean`.
            let _ = self.tidy(&done.plan);
        }
        Ok(done)
    }

    pub(crate) fn new_plan(&self, request: UseRequest) -> NewPlan {
        NewPlan {
            id: self.ids.plan(),
            action: request.action,
            goal: request.goal,
            arguments: request.arguments,
            fallback_actors: request.fallback_actors,
            profile: request
                .profile
                .map(|profile| (profile, ProfileSource::Flag)),
            fallback_profile: request.fallback_profile,
            definitions: request.definitions,
            strategy_wanted: request.strategy_wanted,
            limits: request.limits,
            projects: request.projects,
            bases: Vec::new(),
            ways: request.ways,
        }
    }

    fn start(
        &self,
        plan: PlanId,
        phase: Phase,
        owner: &str,
        lease: Span,
        call: &Call,
    ) -> Result<Claim, Error> {
        self.check_reach_of(plan)?;
        let command = Command::Start {
            phase,
            owner: owner.to_owned(),
            lease,
            judgement: None,
        };
        let committed = self.submit(command, &about(plan), call)?;
        self.claimed(committed, call)
    }

    pub(crate) fn run(&self, plan: PlanId, command: Command, call: &Call) -> Result<Done, Error> {
        let committed = self.submit(command, &about(plan), call)?;
        self.done(committed)
    }

    pub(crate) fn done(&self, committed: Committed) -> Result<Done, Error> {
        let repeated = committed.remembered || committed.receipt.outcome == Outcome::AlreadyDone;
        let plan = match committed.plan {
            Some(plan) => Arc::unwrap_or_clone(plan),
            None => {
                let id = committed
                    .receipt
                    .plan
                    .expect("BUG: a receipt of an operation on a plan names it");
                self.get_plan(id).map_err(Error::after_commit)?.plan
            }
        };
        Ok(Done {
            plan,
            receipt: committed.receipt,
            repeated,
        })
    }

    pub(crate) fn claimed(&self, committed: Committed, call: &Call) -> Result<Claim, Error> {
        let claim = Claim::new(self.clone(), self.done(committed)?, call);
        self.ready(claim, call)
    }

    fn subject_of_scope(&self, scope: &Scope) -> Result<Subject, Error> {
        match scope {
            Scope::Global
            | Scope::Project(_)
            | Scope::Repository(_)
            | Scope::WorkingTree(_)
            | Scope::Action(_) => Ok(Subject::default()),
            Scope::Plan(id) => self.subject(*id),
        }
    }
}

fn about(plan: PlanId) -> Subject {
    Subject {
        plan: Some(plan),
        ..Subject::default()
    }
}

/// Its process runs on this host.
fn held(row: &PlanRow) -> Error {
    let lease = row.lease.as_ref();
    let refusal = row.plan.stage.holder().map(|holder| Refusal::Held {
        holder: holder.clone(),
        expires_at: lease.map(|lease| lease.expires_at),
    });
    Error::Refused(refusal.unwrap_or(Refusal::NoSuchPlan(row.plan.id)))
}

/// Does a refused takeover only mean that the plan is in good hands?
pub(crate) fn is_left_to_its_holder(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { .. }
            | Refusal::LeaseRuns { .. }
            | Refusal::WrongState { .. }
            | Refusal::Final { .. }
    )
}

/// The gate that a plan stands before, or stood before when somebody began to work.
pub(crate) fn gate_ahead(plan: &Plan) -> Gate {
    match &plan.stage {
        Stage::Strategize(Work::Complete) => Gate::Execute,
        Stage::Strategize(_) => Gate::Strategize,
        Stage::Execute(_) | Stage::Apply(_) => Gate::Apply,
    }
}
