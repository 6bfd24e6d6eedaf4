//! The only write path of the product: a command becomes a submission, its decision a commit.

use std::collections::BTreeSet;

use plan::invariant::{Scope, scopes_of};
use plan::ledger::Amount;
use plan::{Command, Digest, Name, Outcome, Phase, Plan, PlanId, Refusal, Request, decide};
use serde_json::{Value, json};
use store::{Access, ChangesetReads, Committed, Key, LedgerReads, ProjectReads, Reads, Submission};

use crate::{Call, Error, Lifecycle};

/// What a command is about.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// The plan.
    pub plan: Option<PlanId>,
    /// The action that plan was made of. Frozen at use, so it may be known from an earlier read.
    pub action: Option<Name>,
    /// The projects it works on; frozen, too.
    pub projects: Vec<Name>,
}

impl Subject {
    /// What never changes about a plan.
    pub fn of(plan: &Plan) -> Self {
        Self {
            plan: Some(plan.id),
            action: plan.action.clone(),
            projects: plan.projects().into_iter().cloned().collect(),
        }
    }

    /// The scopes whose rules bear on it.
    fn scopes(&self) -> Vec<Scope> {
        let of = |plan| scopes_of(plan, self.action.as_ref(), &self.projects);
        self.plan.map(of).unwrap_or_default()
    }
}

impl Lifecycle {
    /// Decides and commits one command.
    pub(crate) fn submit(
        &self,
        command: Command,
        subject: &Subject,
        call: &Call,
    ) -> Result<Committed, Error> {
        let key = call.key.as_ref().map(|key| Key {
            scope: key_scope(&command, subject.plan),
            key: key.clone(),
            fingerprint: fingerprint(&command, call),
        });
        let reads = reads_for(&command, subject);
        let request = Request {
            command,
            plan: subject.plan,
            caller: call.caller.clone(),
            if_version: call.if_version,
        };
        let committed = self.store.commit(Submission {
            id: self.ids.command(),
            key,
            reads,
            decide: Box::new(move |facts, now| decide(facts, &request, now)),
        })?;
        match committed.receipt.outcome {
            Outcome::Blocked(blocked) => Err(Error::Blocked(blocked)),
            Outcome::Done | Outcome::AlreadyDone => Ok(committed),
        }
    }

    /// The plan a command is about, with what never changes about it.
    pub(crate) fn subject(&self, plan: PlanId) -> Result<Subject, Error> {
        let row = self.store.plan(plan)?.ok_or(Refusal::NoSuchPlan(plan))?;
        Ok(Subject::of(&row.plan))
    }
}

/// The rows a command is decided on, and how each is held.
pub fn reads_for(command: &Command, subject: &Subject) -> Reads {
    let action = subject.action.as_ref();
    let own_plan = |access| subject.plan.map(|id| (id, access));
    let rules_of_plan = || {
        let shared = |scope| (scope, Access::Shared);
        subject.scopes().into_iter().map(shared).collect()
    };
    let exclusive = Reads {
        plan: own_plan(Access::Exclusive),
        ..Reads::default()
    };
    let gated = |changesets| Reads {
        // Held so that its rules cannot change unnoticed between judging and committing.
        action: action.map(|name| (name.clone(), Access::Shared)),
        rules: rules_of_plan(),
        changesets,
        ..exclusive.clone()
    };
    match command {
        Command::CreateAction(definition) => Reads {
            action: Some((definition.name.clone(), Access::Exclusive)),
            rules: vec![(Scope::Action(definition.name.clone()), Access::Exclusive)],
            ..Reads::default()
        },
        Command::ArchiveAction(name) => Reads {
            action: Some((name.clone(), Access::Exclusive)),
            ..Reads::default()
        },
        Command::AddRule { scope, .. } | Command::RemoveRule { scope, .. } => {
            rule_reads(scope, subject)
        }
        Command::CreateProject { name, .. }
        | Command::PauseProject(name)
        | Command::ResumeProject(name)
        | Command::DeleteProject { name, .. }
        | Command::LinkResource { project: name, .. }
        | Command::UnlinkResource { project: name, .. }
        | Command::RelinkResource { project: name, .. } => Reads {
            projects: ProjectReads::Named(vec![(name.clone(), Access::Exclusive)]),
            ..Reads::default()
        },
        Command::Use(new) => Reads {
            action: new.action.clone().map(|name| (name, Access::Exclusive)),
            projects: used_projects(&new.projects),
            ..Reads::default()
        },
        Command::Start {
            phase: Phase::Strategize,
            ..
        } => Reads {
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
        } => Reads {
            projects: ProjectReads::OfPlan,
            changesets: ChangesetReads::All,
            ..exclusive
        },
        Command::SealChangeset { .. } => Reads {
            changesets: ChangesetReads::All,
            ..exclusive
        },
        // Neither a claim nor a new plan comes of a project that is being paused or deleted.
        Command::Start {
            phase: Phase::Apply,
            ..
        }
        | Command::Undo(_) => Reads {
            projects: ProjectReads::OfPlan,
            ..exclusive
        },
        Command::OpenChangeset { .. } => Reads {
            changesets: ChangesetReads::EntriesAt(Vec::new()),
            ..exclusive
        },
        Command::RecordChange { entry, .. } => Reads {
            // Recorders of one plan do not wait for each other; whoever moves the plan waits for
            // them, and they for it.
            plan: own_plan(Access::Shared),
            changesets: ChangesetReads::EntriesAt(vec![entry.path.clone()]),
            ..Reads::default()
        },
        // Who ends somebody's authority settles what was set aside for them; who gives new limits looks
        // what is used already.
        Command::Reserve { .. }
        | Command::Settle { .. }
        | Command::Reclaim { .. }
        | Command::Retry { .. }
        | Command::Revise { .. }
        | Command::Revert { .. }
        | Command::Cancel { .. } => Reads {
            ledger: LedgerReads::OfPlan,
            ..exclusive
        },
        Command::KeepEvidence { used, .. } if *used != Amount::default() => Reads {
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

/// The projects of a new plan, each once; none is changed by being used. Where there is none, that is
/// said too: who claims the plan in the same commit need not look for any.
fn used_projects(names: &[Name]) -> ProjectReads {
    let names: BTreeSet<&Name> = names.iter().collect();
    ProjectReads::Named(
        names
            .into_iter()
            .map(|name| (name.clone(), Access::Shared))
            .collect(),
    )
}

/// Whoever changes the rules of a scope holds what the scope belongs to, and sees wider rules.
fn rule_reads(scope: &Scope, subject: &Subject) -> Reads {
    let wider = |scope: Scope| (scope, Access::Shared);
    let own = (scope.clone(), Access::Exclusive);
    match scope {
        // What is read there is not in the store; nothing of it is written, either.
        Scope::Global | Scope::Repository(_) | Scope::WorkingTree(_) => Reads {
            rules: vec![own],
            ..Reads::default()
        },
        Scope::Project(name) => Reads {
            projects: ProjectReads::Named(vec![(name.clone(), Access::Shared)]),
            rules: vec![wider(Scope::Global), own],
            ..Reads::default()
        },
        Scope::Action(name) => Reads {
            action: Some((name.clone(), Access::Exclusive)),
            rules: vec![wider(Scope::Global), own],
            ..Reads::default()
        },
        Scope::Plan(id) => {
            let scopes = subject.scopes().into_iter();
            let mut rules: Vec<_> = scopes.filter(|other| other != scope).map(wider).collect();
            rules.push(own);
            let action = subject.action.as_ref();
            Reads {
                plan: Some((*id, Access::Exclusive)),
                action: action.map(|name| (name.clone(), Access::Shared)),
                rules,
                ..Reads::default()
            }
        }
    }
}

fn key_scope(command: &Command, plan: Option<PlanId>) -> String {
    match plan {
        Some(plan) => format!("{} {plan}", command.verb()),
        None => command.verb().to_string(),
    }
}

/// Digest of what the caller said; new ids and judgements, which differ each time, are left out.
fn fingerprint(command: &Command, call: &Call) -> Digest {
    let said: Value = match command {
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
            // Its rules were read by the engine, not said by the caller.
            plan::Ways {
                rules: Vec::new(),
                ..new.ways.clone()
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
            how,
            targets: _,
            once: _,
        } => json!(how),
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
            patience,
        } => json!([epoch, question, patience]),
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
    Digest::of(
        json!([command.verb(), call.if_version, said])
            .to_string()
            .as_bytes(),
    )
}
