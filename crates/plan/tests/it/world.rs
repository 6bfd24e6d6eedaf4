//! A test world: one plan with its rows, changed by real commands only, as a store would hold them.
//! Time and ids are fixed. Nothing here decides anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use planwright_plan as plan;

use plan::action::ActionDefinition;
use plan::changeset::TreePath;
use plan::command::CreatePlan;
use plan::command::NewPlan;
use plan::completion::KnownCompletions;
use plan::decide::DecisionRequest;
use plan::facts::PlanChange;
use plan::invariant::{Gate, Rule, RuleBook, RuleCheck, RuleDraft, RuleScope};
use plan::judgement::{GateJudgement, RuleOutcome, RuleVerdict};
use plan::ledger::{AccountName, BudgetReservation};
use plan::plan::{PlanLimits, ProfileSource};
use plan::project::{Project, Resource, ResourcePlace};
use plan::{
    Action, ActionState, Caller, ChangesetId, Command, Decision, DecisionFacts, Epoch, Plan,
    PlanActors, PlanId, PlanVersion, Profile, RecordedEvent, Refusal, RowWrite, Span, Timestamp,
    Verb, decide,
};
use serde_json::Value;

use crate::completions::fold_completions;

pub const LEASE_LENGTH: Span = Span::from_seconds(30);
pub const ANSWER_TIMEOUT: Span = Span::from_seconds(3600);
pub const START_TIME: Timestamp = Timestamp(1_767_225_600_000_000);

pub fn ada() -> Caller {
    Caller::Person("ada".into())
}

pub fn worker() -> Caller {
    Caller::Worker("w1".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LandingSetup {
    /// Has two resources to land on.
    OnTargets,
    /// Has resources but is read-only.
    ReadOnly,
    /// Has no resources.
    Projectless,
}

/// The judgement that a command carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgementVariant {
    Held,
    Failed,
    /// Of an earlier version of the plan.
    OldPlan,
    /// Of earlier rule revisions.
    OldRules,
    /// Omits a rule in force.
    Incomplete,
}

impl JudgementVariant {
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

/// Parameters of a generated command.
#[derive(Debug, Clone, Copy)]
pub struct CommandInput {
    pub epoch: Epoch,
    pub judged: JudgementVariant,
    pub owner: &'static str,
    pub lease: Span,
    /// 0 is the default. Other numbers select other inputs of a verb, including invalid ones.
    pub variant: usize,
}

#[derive(Debug, Clone)]
pub struct PlanWorld {
    pub facts: DecisionFacts,
    pub log: Vec<RecordedEvent>,
    pub now: Timestamp,
    /// Other plans that commands created.
    pub new_plans: Vec<PlanChange>,
    /// Number of commits so far, used to make ids.
    pub commits: u64,
}

impl PlanWorld {
    /// A plan that a person has just created.
    pub fn new(profile: Profile, lands: LandingSetup) -> Self {
        Self::with_number(7, profile, lands)
    }

    /// Like [`PlanWorld::new`], with another plan id.
    pub fn with_number(number: u128, profile: Profile, lands: LandingSetup) -> Self {
        let mut world = Self {
            facts: DecisionFacts {
                action: Some(tidy_action(lands)),
                rules: test_rules(),
                projects: vec![shop_project()],
                ..DecisionFacts::default()
            },
            log: Vec::new(),
            now: START_TIME,
            new_plans: Vec::new(),
            commits: 0,
        };
        let new = NewPlan {
            definitions: Vec::new(),
            strategy_wanted: false,
            bases: Vec::new(),
            policy: Default::default(),
            id: PlanId::from_parts(START_TIME.as_milliseconds(), number),
            action: Some("tidy".parse().unwrap()),
            goal: Some("tidy up".into()),
            arguments: Vec::new(),
            fallback_actors: None,
            profile: Some((profile, ProfileSource::Flag)),
            fallback_profile: None,
            limits: PlanLimits::default(),
            projects: match lands {
                LandingSetup::OnTargets | LandingSetup::ReadOnly => vec!["shop".parse().unwrap()],
                LandingSetup::Projectless => Vec::new(),
            },
        };
        let request = DecisionRequest {
            command: Command::from(CreatePlan(new)),
            plan_id: None,
            caller: ada(),
            if_version: None,
        };
        let decision = decide(&world.facts, &request, world.now).unwrap();
        let change = decision.plans[0].clone();
        fold_completions(&mut world.facts.completions, None, &change.events);
        world.log.extend(change.events);
        world.facts.plan = Some(change.plan);
        world.commits += 1;
        world
    }

    /// Returns a world for a plan that was created in this one.
    pub fn world_of_new_plan(&self, change: &PlanChange) -> Self {
        let mut completions = KnownCompletions::new();
        fold_completions(&mut completions, None, &change.events);
        Self {
            facts: DecisionFacts {
                plan: Some(change.plan.clone()),
                action: self.facts.action.clone(),
                rules: self.facts.rules.clone(),
                projects: self.facts.projects.clone(),
                completions,
                ..DecisionFacts::default()
            },
            log: change.events.clone(),
            now: self.now,
            new_plans: Vec::new(),
            commits: self.commits + 1000,
        }
    }

    pub fn plan(&self) -> &Plan {
        self.facts.plan.as_ref().unwrap()
    }

    /// Changes encoded fields of the plan, for states that no command produces.
    pub fn edit_plan(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut fields = merge_encoded_parts(self.plan());
        edit(&mut fields);
        self.facts.plan = Some(Arc::new(decode_parts(fields)));
    }

    pub fn stage(&self) -> String {
        self.plan().stage().to_string()
    }

    pub fn decide(&self, caller: &Caller, command: Command) -> Result<Decision, Refusal> {
        let request = DecisionRequest {
            command,
            plan_id: Some(self.plan().id()),
            caller: caller.clone(),
            if_version: None,
        };
        decide(&self.facts, &request, self.now)
    }

    /// Applies a decision as a store would.
    pub fn commit(&mut self, decision: &Decision) {
        let id = self.plan().id();
        for change in &decision.plans {
            if change.plan.id() == id {
                let before = Some(self.plan().clone());
                fold_completions(&mut self.facts.completions, before, &change.events);
                self.log.extend(change.events.iter().cloned());
                self.facts.plan = Some(change.plan.clone());
            } else {
                self.new_plans.push(change.clone());
            }
        }
        for row in &decision.rows {
            self.write_row(row);
        }
        self.commits += 1;
    }

    pub fn submit(&mut self, caller: &Caller, command: Command) -> Result<Decision, Refusal> {
        let decision = self.decide(caller, command)?;
        self.commit(&decision);
        Ok(decision)
    }

    /// Submits a verb's default command as a person. Panics if it is refused.
    #[track_caller]
    pub fn submit_as_person(&mut self, verb: Verb) -> &mut Self {
        self.submit_as(&ada(), verb)
    }

    #[track_caller]
    pub fn submit_as(&mut self, caller: &Caller, verb: Verb) -> &mut Self {
        let command = self.default_command(verb);
        let stage = self.stage();
        let decision = self.submit(caller, command);
        match decision {
            Ok(decision) => assert_eq!(
                decision.receipt.outcome,
                plan::ReceiptOutcome::Done,
                "{verb} in {stage}"
            ),
            Err(refusal) => panic!("{verb} in {stage}: {refusal}"),
        }
        self
    }

    #[track_caller]
    pub fn expect_refusal(&self, caller: &Caller, command: Command) -> Refusal {
        let verb = command.verb();
        match self.decide(caller, command) {
            Ok(decision) => panic!("{verb} in {}: {:?}", self.stage(), decision.receipt),
            Err(refusal) => refusal,
        }
    }

    pub fn advance_clock(&mut self, span: Span) -> &mut Self {
        self.now = self.now.saturating_add(span);
        self
    }

    pub fn default_input(&self) -> CommandInput {
        CommandInput {
            epoch: self.plan().epoch(),
            judged: JudgementVariant::Held,
            owner: "w1",
            lease: LEASE_LENGTH,
            variant: 0,
        }
    }

    /// Returns the default command: current epoch, passing judgement, valid input.
    #[track_caller]
    pub fn default_command(&self, verb: Verb) -> Command {
        self.command_with(verb, self.default_input())
            .unwrap_or_else(|| panic!("{verb} is not about a plan that exists"))
    }

    #[track_caller]
    pub fn command_variant(&self, verb: Verb, variant: usize) -> Command {
        let input = CommandInput {
            variant,
            ..self.default_input()
        };
        self.command_with(verb, input).unwrap()
    }

    pub fn judgement(&self, judged: JudgementVariant) -> GateJudgement {
        let mut judgement = GateJudgement {
            version: self.plan().version(),
            revisions: self.facts.rules.revisions.clone(),
            verdicts: self
                .facts
                .rules
                .effective_rules_at(&Gate::ALL)
                .iter()
                .map(|rule| RuleVerdict {
                    rule: rule.reference(),
                    outcome: RuleOutcome::Held,
                })
                .collect(),
            ..GateJudgement::default()
        };
        match judged {
            JudgementVariant::Held => {}
            JudgementVariant::Failed => {
                for verdict in &mut judgement.verdicts {
                    verdict.outcome = RuleOutcome::Failed("it is not".into());
                }
            }
            JudgementVariant::OldPlan => {
                judgement.version = PlanVersion(self.plan().version().0 - 1)
            }
            JudgementVariant::OldRules => judgement.revisions = BTreeMap::new(),
            JudgementVariant::Incomplete => judgement.verdicts.clear(),
        }
        judgement
    }

    fn write_row(&mut self, row: &RowWrite) {
        match row {
            RowWrite::PutLease(lease) => self.facts.lease = Some(lease.clone()),
            RowWrite::DropLease(_) => self.facts.lease = None,
            RowWrite::PutChangeset(changeset) => {
                self.facts.changesets.retain(|open| open.id != changeset.id);
                if changeset.seal.is_none() {
                    self.facts.changesets.push(changeset.clone());
                }
            }
            RowWrite::PutEntry(changeset, entry) => {
                self.drop_entry(*changeset, &entry.path);
                self.facts.entries.push((*changeset, entry.clone()));
            }
            RowWrite::DropEntry(changeset, path) => self.drop_entry(*changeset, path),
            RowWrite::PutVerdict(_) | RowWrite::PutEvidence(_) => {}
            RowWrite::PutAccount(AccountName::Global, account) => {
                self.facts.ledger.global = *account
            }
            RowWrite::PutAccount(AccountName::Plan(_), account) => {
                self.facts.ledger.plan = *account
            }
            RowWrite::PutReservation(reservation) => {
                self.drop_reservation(reservation.epoch);
                self.facts.ledger.reservations.push(*reservation);
            }
            RowWrite::DropReservation(_, epoch) => self.drop_reservation(*epoch),
            RowWrite::PutReview(review) => {
                let reviews = &mut self.facts.reviews;
                reviews.retain(|other| other.person != review.person);
                reviews.push(review.clone());
            }
            RowWrite::DropReviews(_) => self.facts.reviews.clear(),
            RowWrite::PutAction(_)
            | RowWrite::PutProject(_)
            | RowWrite::DropProject(_)
            | RowWrite::PutRule(_)
            | RowWrite::DropRule { .. } => {
                panic!("no command about a plan writes {row:?}")
            }
        }
    }

    fn drop_reservation(&mut self, epoch: Epoch) {
        let others = |other: &BudgetReservation| other.epoch != epoch;
        self.facts.ledger.reservations.retain(others);
    }

    fn drop_entry(&mut self, changeset: ChangesetId, path: &TreePath) {
        self.facts
            .entries
            .retain(|(of, entry)| *of != changeset || entry.path != *path);
    }
}

/// Returns the encoded terms and state of a plan as one object. They share no field names.
pub fn merge_encoded_parts(plan: &Plan) -> Value {
    let mut fields = serde_json::to_value(&**plan.terms()).unwrap();
    let state = serde_json::to_value(plan.state()).unwrap();
    let state = state.as_object().unwrap().clone();
    fields.as_object_mut().unwrap().extend(state);
    fields
}

/// Decodes a plan from such an object.
pub fn decode_parts(fields: Value) -> Plan {
    let terms = serde_json::from_value(fields.clone()).unwrap();
    Plan::from_parts(Arc::new(terms), serde_json::from_value(fields).unwrap())
}

fn tidy_action(lands: LandingSetup) -> Action {
    Action {
        definition: ActionDefinition {
            name: "tidy".parse().unwrap(),
            description: "Tidy up".into(),
            long_description: None,
            actors: Some(PlanActors::for_both_phases("bot".parse().unwrap())),
            arguments: Vec::new(),
            invariants: Vec::new(),
            automation_profile: None,
            read_only: lands == LandingSetup::ReadOnly,
            reusable: true,
            tools: plan::permission::ToolPolicy::default(),
        },
        state: ActionState::Available,
        created_at: START_TIME,
        created_by: ada(),
        used_by: None,
    }
}

/// The plans' project: `shop/app`, which has a branch, and `shop/docs`, which has none.
pub fn shop_project() -> Project {
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
                ResourcePlace::Git {
                    path: "/src/app".into(),
                    branch: "refs/heads/main".into(),
                },
            ),
            resource(
                "docs",
                ResourcePlace::Dir {
                    path: "/src/docs".into(),
                },
            ),
        ],
        paused: None,
        created_at: START_TIME,
    }
}

/// One waivable rule judged at every gate, a non-overridable rule and a rule that asks. The last
/// two are judged at no gate.
fn test_rules() -> RuleBook {
    let expr = || RuleCheck::Expr("tree.is_clean".into());
    let rule = |name: &str, check: RuleCheck, at: &[Gate], non_overridable| Rule {
        scope: RuleScope::Global,
        revision: 1,
        draft: RuleDraft {
            name: name.parse().unwrap(),
            check,
            at: at.to_vec(),
            advisory: false,
            non_overridable,
        },
        added_at: START_TIME,
        added_by: ada(),
    };
    RuleBook {
        revisions: BTreeMap::from([(RuleScope::Global, 2)]),
        rules: vec![
            rule("clean", expr(), &Gate::ALL, false),
            rule("hard", expr(), &[], true),
            rule(
                "looked-at",
                RuleCheck::Ask("Is it good?".into()),
                &[],
                false,
            ),
        ],
    }
}
