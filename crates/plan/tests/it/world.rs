//! One plan with the rows beside it, moved by real commands only: what a store would hold, without
//! the store. Time and ids are pinned; nothing here decides anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use planwright_plan as plan;

use plan::action::ActionDefinition;
use plan::changeset::TreePath;
use plan::command::NewPlan;
use plan::decide::Request;
use plan::facts::PlanChange;
use plan::invariant::{Check, Gate, Rule, RuleBook, RuleDraft, Scope};
use plan::judgement::{Judgement, RuleOutcome, RuleVerdict};
use plan::ledger::{AccountName, Reservation};
use plan::plan::{Limits, ProfileSource};
use plan::project::{Place, Project, Resource};
use plan::{
    Action, ActionState, Actors, Caller, ChangesetId, Command, Decision, Epoch, Facts, Plan,
    PlanId, Profile, Recorded, Refusal, Row, Span, Timestamp, Verb, Version, decide,
};

pub const LEASE: Span = Span::seconds(30);
pub const PATIENCE: Span = Span::seconds(3600);
pub const START: Timestamp = Timestamp(1_767_225_600_000_000);

pub fn ada() -> Caller {
    Caller::Person("ada".into())
}

pub fn worker() -> Caller {
    Caller::Worker("w1".into())
}

/// What a plan lands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lands {
    /// Two resources.
    OnTargets,
    /// It has resources and may not write.
    ReadOnly,
    /// It has none.
    Projectless,
}

/// What the rules are said to have said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    Held,
    Failed,
    /// About an earlier version of the plan.
    OldPlan,
    /// About earlier rules.
    OldRules,
    /// Passes over a rule in force.
    Incomplete,
}

impl Judged {
    pub const ALL: [Self; 5] = [
        Self::Held,
        Self::Failed,
        Self::OldPlan,
        Self::OldRules,
        Self::Incomplete,
    ];

    pub fn is_stale(self) -> bool {
        match self {
            Self::Held | Self::Failed => false,
            Self::OldPlan | Self::OldRules | Self::Incomplete => true,
        }
    }
}

/// The details of a command.
#[derive(Debug, Clone, Copy)]
pub struct How {
    pub epoch: Epoch,
    pub judged: Judged,
    pub owner: &'static str,
    pub lease: Span,
    /// 0 is the usual; others give what a verb can also be asked with, wrong input included.
    pub variant: usize,
}

#[derive(Debug, Clone)]
pub struct World {
    pub facts: Facts,
    pub log: Vec<Recorded>,
    pub now: Timestamp,
    /// Plans that came to be beside this one.
    pub born: Vec<PlanChange>,
    /// Everything that was committed so far, to make ids of.
    pub commits: u64,
}

impl World {
    /// A plan that was just used by a person.
    pub fn new(profile: Profile, lands: Lands) -> Self {
        Self::numbered(7, profile, lands)
    }

    /// The same with an id of its own.
    pub fn numbered(number: u128, profile: Profile, lands: Lands) -> Self {
        let mut world = Self {
            facts: Facts {
                action: Some(action(lands)),
                rules: rules(),
                projects: vec![shop()],
                ..Facts::default()
            },
            log: Vec::new(),
            now: START,
            born: Vec::new(),
            commits: 0,
        };
        let new = NewPlan {
            definitions: Vec::new(),
            strategy_wanted: false,
            bases: Vec::new(),
            ways: Default::default(),
            id: PlanId::from_parts(START.milliseconds(), number),
            action: Some("tidy".parse().unwrap()),
            goal: Some("tidy up".into()),
            arguments: Vec::new(),
            fallback_actors: None,
            profile: Some((profile, ProfileSource::Flag)),
            fallback_profile: None,
            limits: Limits::default(),
            projects: match lands {
                Lands::OnTargets | Lands::ReadOnly => vec!["shop".parse().unwrap()],
                Lands::Projectless => Vec::new(),
            },
        };
        let request = Request {
            command: Command::Use(new),
            plan: None,
            caller: ada(),
            if_version: None,
        };
        let decision = decide(&world.facts, &request, world.now).unwrap();
        let change = decision.plans[0].clone();
        world.log.extend(change.events);
        world.facts.plan = Some(change.plan);
        world.commits += 1;
        world
    }

    /// A world that goes on with a plan that came to be in another.
    pub fn of_born(&self, change: &PlanChange) -> Self {
        Self {
            facts: Facts {
                plan: Some(change.plan.clone()),
                action: self.facts.action.clone(),
                rules: self.facts.rules.clone(),
                projects: self.facts.projects.clone(),
                ..Facts::default()
            },
            log: change.events.clone(),
            now: self.now,
            born: Vec::new(),
            commits: self.commits + 1000,
        }
    }

    pub fn plan(&self) -> &Plan {
        self.facts.plan.as_ref().unwrap()
    }

    /// The plan, to be made what no command makes of it.
    pub fn plan_mut(&mut self) -> &mut Plan {
        Arc::make_mut(self.facts.plan.as_mut().unwrap())
    }

    pub fn stage(&self) -> String {
        self.plan().stage.to_string()
    }

    pub fn decide(&self, caller: &Caller, command: Command) -> Result<Decision, Refusal> {
        let request = Request {
            command,
            plan: Some(self.plan().id),
            caller: caller.clone(),
            if_version: None,
        };
        decide(&self.facts, &request, self.now)
    }

    /// Takes a decision over, as a store would.
    pub fn commit(&mut self, decision: &Decision) {
        let id = self.plan().id;
        for change in &decision.plans {
            if change.plan.id == id {
                self.log.extend(change.events.iter().cloned());
                self.facts.plan = Some(change.plan.clone());
            } else {
                self.born.push(change.clone());
            }
        }
        for row in &decision.rows {
            self.write(row);
        }
        self.commits += 1;
    }

    pub fn submit(&mut self, caller: &Caller, command: Command) -> Result<Decision, Refusal> {
        let decision = self.decide(caller, command)?;
        self.commit(&decision);
        Ok(decision)
    }

    /// The usual command of a verb by a person; it must be carried out.
    #[track_caller]
    pub fn person(&mut self, verb: Verb) -> &mut Self {
        self.done_by(&ada(), verb)
    }

    #[track_caller]
    pub fn done_by(&mut self, caller: &Caller, verb: Verb) -> &mut Self {
        let command = self.command(verb);
        let stage = self.stage();
        let decision = self.submit(caller, command);
        match decision {
            Ok(decision) => assert_eq!(
                decision.receipt.outcome,
                plan::Outcome::Done,
                "{verb} in {stage}"
            ),
            Err(refusal) => panic!("{verb} in {stage}: {refusal}"),
        }
        self
    }

    #[track_caller]
    pub fn refused(&self, caller: &Caller, command: Command) -> Refusal {
        let verb = command.verb();
        match self.decide(caller, command) {
            Ok(decision) => panic!("{verb} in {}: {:?}", self.stage(), decision.receipt),
            Err(refusal) => refusal,
        }
    }

    pub fn wait(&mut self, span: Span) -> &mut Self {
        self.now = self.now.plus(span);
        self
    }

    pub fn usual(&self) -> How {
        How {
            epoch: self.plan().epoch,
            judged: Judged::Held,
            owner: "w1",
            lease: LEASE,
            variant: 0,
        }
    }

    /// The usual command: right epoch, passing judgement, sound input.
    #[track_caller]
    pub fn command(&self, verb: Verb) -> Command {
        self.command_with(verb, self.usual())
            .unwrap_or_else(|| panic!("{verb} is not about a plan that exists"))
    }

    #[track_caller]
    pub fn variant(&self, verb: Verb, variant: usize) -> Command {
        let how = How {
            variant,
            ..self.usual()
        };
        self.command_with(verb, how).unwrap()
    }

    pub fn judgement(&self, judged: Judged) -> Judgement {
        let mut judgement = Judgement {
            version: self.plan().version,
            revisions: self.facts.rules.revisions.clone(),
            verdicts: self
                .facts
                .rules
                .effective_at(&Gate::ALL)
                .iter()
                .map(|rule| RuleVerdict {
                    rule: rule.reference(),
                    outcome: RuleOutcome::Held,
                })
                .collect(),
            ..Judgement::default()
        };
        match judged {
            Judged::Held => {}
            Judged::Failed => {
                for verdict in &mut judgement.verdicts {
                    verdict.outcome = RuleOutcome::Failed("it is not".into());
                }
            }
            Judged::OldPlan => judgement.version = Version(self.plan().version.0 - 1),
            Judged::OldRules => judgement.revisions = BTreeMap::new(),
            Judged::Incomplete => judgement.verdicts.clear(),
        }
        judgement
    }

    fn write(&mut self, row: &Row) {
        match row {
            Row::PutLease(lease) => self.facts.lease = Some(lease.clone()),
            Row::DropLease(_) => self.facts.lease = None,
            Row::PutChangeset(changeset) => {
                self.facts.changesets.retain(|open| open.id != changeset.id);
                if changeset.seal.is_none() {
                    self.facts.changesets.push(changeset.clone());
                }
            }
            Row::PutEntry(changeset, entry) => {
                self.drop_entry(*changeset, &entry.path);
                self.facts.entries.push((*changeset, entry.clone()));
            }
            Row::DropEntry(changeset, path) => self.drop_entry(*changeset, path),
            Row::PutVerdict(_) | Row::PutEvidence(_) => {}
            Row::PutAccount(AccountName::Global, account) => self.facts.ledger.global = *account,
            Row::PutAccount(AccountName::Plan(_), account) => self.facts.ledger.plan = *account,
            Row::PutReservation(reservation) => {
                self.drop_reservation(reservation.epoch);
                self.facts.ledger.reservations.push(*reservation);
            }
            Row::DropReservation(_, epoch) => self.drop_reservation(*epoch),
            Row::PutAction(_)
            | Row::PutProject(_)
            | Row::DropProject(_)
            | Row::PutRule(_)
            | Row::DropRule { .. } => {
                panic!("no command about a plan writes {row:?}")
            }
        }
    }

    fn drop_reservation(&mut self, epoch: Epoch) {
        let others = |other: &Reservation| other.epoch != epoch;
        self.facts.ledger.reservations.retain(others);
    }

    fn drop_entry(&mut self, changeset: ChangesetId, path: &TreePath) {
        self.facts
            .entries
            .retain(|(of, entry)| *of != changeset || entry.path != *path);
    }
}

fn action(lands: Lands) -> Action {
    Action {
        definition: ActionDefinition {
            name: "tidy".parse().unwrap(),
            description: "Tidy up".into(),
            long_description: None,
            actors: Some(Actors::both("bot".parse().unwrap())),
            arguments: Vec::new(),
            invariants: Vec::new(),
            automation_profile: None,
            read_only: lands == Lands::ReadOnly,
            reusable: true,
        },
        state: ActionState::Available,
        created_at: START,
        created_by: ada(),
        used_by: None,
    }
}

/// The project plans work on: `shop/app`, which has a branch, and `shop/docs`, which has none.
pub fn shop() -> Project {
    let resource = |name: &str, place| Resource {
        name: name.parse().unwrap(),
        host: "here".parse().unwrap(),
        place,
    };
    Project {
        name: "shop".parse().unwrap(),
        resources: vec![
            resource(
                "app",
                Place::Git {
                    path: "/src/app".into(),
                    branch: "refs/heads/main".into(),
                },
            ),
            resource(
                "docs",
                Place::Dir {
                    path: "/src/docs".into(),
                },
            ),
        ],
        paused: None,
        created_at: START,
    }
}

/// One rule that can be waived, judged at every gate, one that cannot, and one that asks, both judged at
/// none.
fn rules() -> RuleBook {
    let expr = || Check::Expr("tree.is_clean".into());
    let rule = |name: &str, check: Check, at: &[Gate], non_overridable| Rule {
        scope: Scope::Global,
        revision: 1,
        draft: RuleDraft {
            name: name.parse().unwrap(),
            check,
            at: at.to_vec(),
            advisory: false,
            non_overridable,
        },
        added_at: START,
        added_by: ada(),
    };
    RuleBook {
        revisions: BTreeMap::from([(Scope::Global, 2)]),
        rules: vec![
            rule("clean", expr(), &Gate::ALL, false),
            rule("hard", expr(), &[], true),
            rule("looked-at", Check::Ask("Is it good?".into()), &[], false),
        ],
    }
}
