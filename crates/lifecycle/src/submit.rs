//! The only write path of the product. Turns a command into a submission, which the store decides and commits.

use std::collections::BTreeSet;

use plan::authority::check_authority;
use plan::invariant::{RuleScope, scopes_for_plan};
use plan::ledger::BudgetAmount;
use plan::{
    Caller, Command, DecisionRequest, Digest, Phase, Plan, PlanId, QualifiedName, ReceiptOutcome,
    Refusal, decide,
};
use serde_json::{Value, json};
use store::{
    ChangesetReads, CommitOutcome, IdempotencyKey, LedgerReads, ProjectReads, ReadSet, RowAccess,
    Submission,
};

use crate::{Call, Lifecycle, LifecycleError};

/// The plan a command is about, with the parts of it that never change.
#[derive(Debug, Clone, Default)]
pub struct CommandTarget {
    pub plan_id: Option<PlanId>,
    /// The plan's action. Frozen at use, so it may come from an earlier read.
    pub action: Option<QualifiedName>,
    /// The plan's projects. Also frozen at use.
    pub projects: Vec<QualifiedName>,
}

impl CommandTarget {
    pub fn for_plan(plan: &Plan) -> Self {
        Self {
            plan_id: Some(plan.id),
            action: plan.action.clone(),
            projects: plan.projects().into_iter().cloned().collect(),
        }
    }

    /// The scopes whose rules apply to the plan.
    fn scopes(&self) -> Vec<RuleScope> {
        let scopes_for = |plan| scopes_for_plan(plan, self.action.as_ref(), &self.projects);
        self.plan_id.map(scopes_for).unwrap_or_default()
    }
}

impl Lifecycle {
    /// Decides and commits one command.
    pub(crate) fn submit(
        &self,
        command: Command,
        target: &CommandTarget,
        call: &Call,
    ) -> Result<CommitOutcome, LifecycleError> {
        // Before a remembered answer is returned. What an agent may do depends on the plan, so `decide` checks it; the
        // scope of its keys keeps other callers' answers from it.
        if !matches!(call.caller, Caller::Agent(_)) {
            check_authority(&command, &call.caller, None)?;
        }
        let key = call.key.as_ref().map(|key| IdempotencyKey {
            scope: key_scope(&command, target.plan_id, key.scope_owner(&call.caller)),
            key: key.text.clone(),
            fingerprint: fingerprint_command(&command, call),
        });
        let reads = reads_for(&command, target);
        let request = DecisionRequest {
            command,
            plan_id: target.plan_id,
            caller: call.caller.clone(),
            if_version: call.if_version,
        };
        // The store calls `decide` inside the transaction, possibly more than once, on locked rows.
        let committed = self.store.commit(Submission {
            id: self.ids.new_command_id(),
            key,
            reads,
            decide: Box::new(move |facts, now| decide(facts, &request, now)),
        })?;
        match committed.receipt.outcome {
            ReceiptOutcome::Blocked(blocked) => Err(LifecycleError::Blocked(blocked)),
            ReceiptOutcome::Done | ReceiptOutcome::AlreadyDone => Ok(committed),
        }
    }

    pub(crate) fn read_command_target(
        &self,
        plan_id: PlanId,
    ) -> Result<CommandTarget, LifecycleError> {
        let row = self
            .store
            .read_plan(plan_id)?
            .ok_or(Refusal::NoSuchPlan(plan_id))?;
        Ok(CommandTarget::for_plan(&row.plan))
    }
}

/// The rows that a command's decision reads, and how each is locked.
pub fn reads_for(command: &Command, target: &CommandTarget) -> ReadSet {
    let action = target.action.as_ref();
    let own_plan = |access| target.plan_id.map(|id| (id, access));
    let rules_of_plan = || {
        let shared = |scope| (scope, RowAccess::Shared);
        target.scopes().into_iter().map(shared).collect()
    };
    let exclusive = ReadSet {
        plan: own_plan(RowAccess::Exclusive),
        ..ReadSet::default()
    };
    let gated = |changesets| ReadSet {
        // Locked so that its rules cannot change between the judgement and the commit.
        action: action.map(|name| (name.clone(), RowAccess::Shared)),
        rules: rules_of_plan(),
        changesets,
        ..exclusive.clone()
    };
    match command {
        Command::CreateAction(definition) => ReadSet {
            action: Some((definition.name.clone(), RowAccess::Exclusive)),
            rules: vec![(
                RuleScope::Action(definition.name.clone()),
                RowAccess::Exclusive,
            )],
            ..ReadSet::default()
        },
        Command::ArchiveAction(name) => ReadSet {
            action: Some((name.clone(), RowAccess::Exclusive)),
            ..ReadSet::default()
        },
        Command::AddRule { scope, .. } | Command::RemoveRule { scope, .. } => {
            rule_reads(scope, target)
        }
        Command::CreateProject { name, .. }
        | Command::PauseProject(name)
        | Command::ResumeProject(name)
        | Command::DeleteProject { name, .. }
        | Command::LinkResource { project: name, .. }
        | Command::UnlinkResource { project: name, .. }
        | Command::RelinkResource { project: name, .. } => ReadSet {
            projects: ProjectReads::Named(vec![(name.clone(), RowAccess::Exclusive)]),
            ..ReadSet::default()
        },
        Command::Use(new) => ReadSet {
            action: new.action.clone().map(|name| (name, RowAccess::Exclusive)),
            projects: used_projects(&new.projects),
            ..ReadSet::default()
        },
        Command::Start {
            phase: Phase::Strategize,
            ..
        } => ReadSet {
            projects: ProjectReads::OfPlan,
            ..gated(ChangesetReads::None)
        },
        Command::ExecutePlan { .. }
        | Command::ApplyPlan { .. }
        | Command::PrepareApply { .. }
        | Command::Approve { .. }
        | Command::RuleOn { .. }
        | Command::Waive { .. } => gated(ChangesetReads::None),
        Command::CompleteExecute { .. } => gated(ChangesetReads::All),
        Command::Start {
            phase: Phase::Execute,
            ..
        } => ReadSet {
            projects: ProjectReads::OfPlan,
            changesets: ChangesetReads::All,
            ..exclusive
        },
        Command::SealChangeset { .. } => ReadSet {
            changesets: ChangesetReads::All,
            ..exclusive
        },
        // The projects are read so that a paused or deleted project refuses claims and new plans.
        Command::Start {
            phase: Phase::Apply,
            ..
        }
        | Command::Undo(_) => ReadSet {
            projects: ProjectReads::OfPlan,
            ..exclusive
        },
        Command::OpenChangeset { .. } => ReadSet {
            changesets: ChangesetReads::EntriesAt(Vec::new()),
            ..exclusive
        },
        Command::RecordChange { entry, .. } => ReadSet {
            // A shared lock: recorders of one plan do not block each other, but they and a command
            // that moves the plan do.
            plan: own_plan(RowAccess::Shared),
            changesets: ChangesetReads::EntriesAt(vec![entry.path.clone()]),
            ..ReadSet::default()
        },
        // Commands that end a lease settle its reservation; commands that set limits compare them with
        // what is already spent.
        Command::Reserve { .. }
        | Command::Settle { .. }
        | Command::Reclaim { .. }
        | Command::Retry { .. }
        | Command::Revise { .. }
        | Command::Revert { .. }
        | Command::Cancel { .. } => ReadSet {
            ledger: LedgerReads::OfPlan,
            ..exclusive
        },
        Command::KeepEvidence { used, .. } if *used != BudgetAmount::default() => ReadSet {
            ledger: LedgerReads::OfPlan,
            ..exclusive
        },
        Command::CompleteStrategize { .. }
        | Command::KeepEvidence { .. }
        | Command::RecordBases { .. }
        | Command::WithdrawApply { .. }
        | Command::CompleteApply { .. }
        | Command::Constrain { .. }
        | Command::Renew { .. }
        | Command::Release { .. }
        | Command::Fail { .. }
        | Command::Ask { .. }
        | Command::Answer { .. }
        | Command::ExpireQuestion => exclusive,
    }
}

/// The projects of a new plan, without duplicates. Explicitly empty if there are none, so that a claim in
/// the same commit does not look for any.
fn used_projects(names: &[QualifiedName]) -> ProjectReads {
    let names: BTreeSet<&QualifiedName> = names.iter().collect();
    ProjectReads::Named(
        names
            .into_iter()
            .map(|name| (name.clone(), RowAccess::Shared))
            .collect(),
    )
}

/// The reads for changing a scope's rules: locks the scope's owner, and sees the rules of wider scopes.
fn rule_reads(scope: &RuleScope, target: &CommandTarget) -> ReadSet {
    let wider = |scope: RuleScope| (scope, RowAccess::Shared);
    let own = (scope.clone(), RowAccess::Exclusive);
    match scope {
        // Repository and working-tree rules are not stored, so there is no owner row to lock.
        RuleScope::Global | RuleScope::Repository(_) | RuleScope::WorkingTree(_) => ReadSet {
            rules: vec![own],
            ..ReadSet::default()
        },
        RuleScope::Project(name) => ReadSet {
            projects: ProjectReads::Named(vec![(name.clone(), RowAccess::Shared)]),
            rules: vec![wider(RuleScope::Global), own],
            ..ReadSet::default()
        },
        RuleScope::Action(name) => ReadSet {
            action: Some((name.clone(), RowAccess::Exclusive)),
            rules: vec![wider(RuleScope::Global), own],
            ..ReadSet::default()
        },
        RuleScope::Plan(id) => {
            let scopes = target.scopes().into_iter();
            let mut rules: Vec<_> = scopes.filter(|other| other != scope).map(wider).collect();
            rules.push(own);
            let action = target.action.as_ref();
            ReadSet {
                plan: Some((*id, RowAccess::Exclusive)),
                action: action.map(|name| (name.clone(), RowAccess::Shared)),
                rules,
                ..ReadSet::default()
            }
        }
    }
}

/// The scope within which an idempotency key must be unique.
fn key_scope(command: &Command, plan_id: Option<PlanId>, owner: Option<&Caller>) -> String {
    let mut scope = command.verb().to_string();
    if let Some(plan_id) = plan_id {
        scope.push_str(&format!(" {plan_id}"));
    }
    if let Some(owner) = owner {
        scope.push_str(&format!(" {owner}"));
    }
    scope
}

/// Digest of the caller's arguments. Leaves out generated ids and judgements, which differ on each attempt.
fn fingerprint_command(command: &Command, call: &Call) -> Digest {
    let arguments: Value = match command {
        Command::CreateAction(definition) => json!(definition),
        Command::ArchiveAction(name) => json!(name),
        Command::AddRule { scope, draft } => json!([scope, draft]),
        Command::RemoveRule { scope, name } => json!([scope, name]),
        Command::CreateProject { name, resources } => json!([name, resources]),
        Command::LinkResource { project, resource } => json!([project, resource]),
        Command::UnlinkResource {
            project,
            name,
            force,
        } => json!([project, name, force]),
        Command::RelinkResource {
            project,
            name,
            host,
            place,
        } => json!([project, name, host, place]),
        Command::PauseProject(name) | Command::ResumeProject(name) => json!(name),
        Command::DeleteProject { name, force } => json!([name, force]),
        Command::Use(new) => json!([
            new.action,
            new.goal,
            new.arguments,
            new.fallback_actors,
            new.profile,
            new.fallback_profile,
            new.limits,
            new.strategy_wanted,
            new.projects,
            // The engine reads the working-tree rules; they are not an argument of the caller.
            plan::RepositoryPolicy {
                rules: Vec::new(),
                ..new.policy.clone()
            },
            new.bases.is_empty()
        ]),
        Command::Start {
            phase,
            owner,
            lease,
            judgement: _,
        } => json!([phase, owner, lease]),
        Command::RecordBases { epoch, bases } => json!([epoch, bases]),
        Command::CompleteStrategize { epoch, decisions } => json!([epoch, decisions]),
        Command::Approve {
            options,
            targets: _,
            once: _,
        } => json!(options),
        Command::OpenChangeset { epoch, id: _, node } => json!([epoch, node]),
        Command::RecordChange { epoch, into, entry } => json!([epoch, format!("{into:?}"), entry]),
        Command::SealChangeset { epoch, changeset } => json!([epoch, changeset]),
        Command::CompleteExecute {
            epoch,
            result,
            captured: _,
            allow_empty,
            judgement: _,
        } => json!([epoch, result.report, allow_empty]),
        Command::PrepareApply {
            epoch,
            moves,
            judgement: _,
        } => json!([epoch, moves]),
        Command::CompleteApply {
            epoch,
            landed,
            rest,
        } => {
            json!([
                epoch,
                landed,
                rest.as_ref().map(|rest| (&rest.resources, &rest.result))
            ])
        }
        Command::Constrain {
            epoch,
            kind,
            message,
            paths,
            commits,
        } => {
            json!([epoch, kind, message, paths, commits])
        }
        Command::Renew { epoch, lease } => json!([epoch, lease]),
        Command::Reserve {
            epoch,
            metering,
            budget,
        } => json!([epoch, format!("{metering:?}"), budget]),
        Command::Settle { epoch, used } => json!([epoch, used]),
        Command::WithdrawApply { epoch } | Command::Release { epoch } => json!(epoch),
        Command::Reclaim { grounds } => json!(format!("{grounds:?}")),
        Command::Fail {
            epoch,
            category,
            message,
        } => json!([epoch, category, message]),
        Command::Ask {
            epoch,
            question,
            answer_timeout,
        } => json!([epoch, question, answer_timeout]),
        Command::Answer { text } => json!(text),
        Command::Retry { fresh, limits } => json!([fresh, limits]),
        Command::Revise { feedback, dropped } => json!([feedback, dropped]),
        Command::Revert { reason } => json!(reason),
        Command::Waive {
            rule,
            reason,
            targets: _,
        } => json!([rule, reason]),
        Command::RuleOn {
            rule,
            subject: _,
            outcome,
            targets: _,
        } => json!([rule, outcome]),
        Command::KeepEvidence { judgement: _, used } => json!(used),
        Command::Cancel { reason } => json!(reason),
        Command::Undo(linked) => json!([linked.resources, linked.result]),
        Command::ExecutePlan { judgement: _ }
        | Command::ApplyPlan { judgement: _ }
        | Command::ExpireQuestion => Value::Null,
    };
    Digest::hash_bytes(
        json!([command.verb(), call.if_version, arguments])
            .to_string()
            .as_bytes(),
    )
}
