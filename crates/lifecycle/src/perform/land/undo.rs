//! Taking back what landed: a new plan with the inverse change.
//!
//! Whoever takes a plan back while others do gets the same plan as they: each try has a key that all of
//! them derive alike, and the store gives what was committed under it.

use plan::command::LinkedPlan;
use plan::how::Shape;
use plan::plan::Origin;
use plan::stage::{IgnoredPaths, Landing, ResultContent, ResultTree, StateName};
use plan::{Command, How, Phase, Plan, PlanId, Stage};
use sandbox::Room;
use store::{PlanFilter, PlanRow};

use crate::perform::enter::object;
use crate::{Call, Done, Error, Lifecycle};

/// How many plans are looked at for one that takes another back.
const MOST_PLANS: usize = 1000;

/// A plan that takes another back.
#[derive(Debug, Clone, PartialEq)]
pub struct Undone {
    /// The plan: a new one, or one that was begun and has not ended.
    pub plan: PlanId,
    /// It was taken back before, by this or another call.
    pub repeated: Option<Done>,
    /// How it should arrive: like what it takes back.
    pub how: How,
}

impl Lifecycle {
    /// Makes a plan that takes a landed one back: the inverse change, to be merged with what came
    /// since.
    pub fn undo(&self, plan: PlanId, call: &Call) -> Result<Undone, Error> {
        let origin = self.get_plan(plan)?.plan;
        if !matches!(origin.stage, Stage::Apply(Landing::Applied(_))) || !origin.has_targets() {
            let nothing = LinkedPlan {
                id: self.ids.plan(),
                resources: Vec::new(),
                result: ResultContent::default(),
            };
            // Refused: nothing landed.
            let done = self.run(plan, Command::Undo(nothing), call)?;
            return Ok(Undone {
                plan: done.plan.id,
                repeated: None,
                how: How::default(),
            });
        }
        let how = origin.approval.as_ref().map(|approval| &approval.how);
        let shape = how.map(|how| how.shape.clone()).unwrap_or_default();
        if let Shape::Branch(name) = shape {
            return Err(Error::LandedOnBranch { branch: name });
        }
        let how = How {
            shape,
            ..How::default()
        };
        if call.key.is_none()
            && let Some(id) = self.unfinished_undo(&origin)?
        {
            return Ok(Undone {
                plan: id,
                repeated: None,
                how,
            });
        }
        let workshop = &self.hands()?.workshop;
        let mut trees = Vec::new();
        for step in &origin.landed {
            let site = self.site_named(&origin, &step.resource)?;
            let room = Room { plan, site: &site };
            let (tree, changes) = workshop.before_landing(&room, &object(&step.new)?)?;
            let resource = origin
                .resources
                .iter()
                .find(|one| one.name == step.resource);
            let target = resource.and_then(|resource| resource.target.clone());
            trees.push(ResultTree {
                resource: step.resource.clone(),
                target: target.unwrap_or_default(),
                base: step.new.clone(),
                tree: tree.to_string(),
                changes: Some(changes),
                ignored: IgnoredPaths::default(),
                // A person asks for it to be undone.
                changes_settings: false,
            });
        }
        let result = ResultContent {
            report: None,
            trees,
        };
        let done = match call.key {
            Some(_) => self.make_undo(plan, &result, call)?,
            None => self.the_undo(&origin, &result, call)?,
        };
        Ok(Undone {
            plan: done.plan.id,
            repeated: Some(done).filter(|done| done.plan.stage.is_final()),
            how,
        })
    }

    fn make_undo(&self, plan: PlanId, result: &ResultContent, call: &Call) -> Result<Done, Error> {
        let trees = result.trees.iter();
        let linked = LinkedPlan {
            id: self.ids.plan(),
            resources: trees.map(|tree| tree.resource.clone()).collect(),
            result: result.clone(),
        };
        self.run(plan, Command::Undo(linked), call)
    }

    /// The plan that takes this one back: of those who ask at once, and of those who ask again, all get
    /// the same. One that was cancelled, or was taken back itself, makes room for the next.
    fn the_undo(&self, origin: &Plan, result: &ResultContent, call: &Call) -> Result<Done, Error> {
        // What has landed stays at its version: whoever expects another is refused, whoever expects this
        // one asks for the same as who expects none.
        if call
            .if_version
            .is_some_and(|version| version != origin.version)
        {
            return self.make_undo(origin.id, result, call);
        }
        let mut number = 1_u32;
        loop {
            let key = format!("planwright undo {number}");
            let call = call.follow_up().with_key(key);
            let done = self.make_undo(origin.id, result, &call)?;
            let is_spent = match &done.plan.stage {
                Stage::Apply(Landing::Applied(_)) => self.is_taken_back(&done.plan)?,
                stage => stage.is_final(),
            };
            if !is_spent {
                return Ok(done);
            }
            number += 1;
        }
    }

    /// Did a plan land that takes this one back?
    fn is_taken_back(&self, plan: &Plan) -> Result<bool, Error> {
        let filter = PlanFilter {
            phase: Some(Phase::Apply),
            state: Some(StateName::Applied),
            project: plan.resources.first().map(|one| one.project.clone()),
            ..PlanFilter::default()
        };
        let rows = self.store.plans(&filter, None, MOST_PLANS)?;
        let undoes = |row: &PlanRow| row.plan.origin == Origin::UndoOf(plan.id);
        Ok(rows.iter().any(undoes))
    }

    /// A plan with the inverse of this one that has not ended: a crash cut it off, or something is in its
    /// way. Taking back goes on with it.
    fn unfinished_undo(&self, origin: &Plan) -> Result<Option<PlanId>, Error> {
        let stages = [
            (Phase::Execute, StateName::Complete),
            (Phase::Apply, StateName::Queued),
            (Phase::Apply, StateName::Processing),
            (Phase::Apply, StateName::Errored),
            (Phase::Apply, StateName::Constrained),
        ];
        for (phase, state) in stages {
            let filter = PlanFilter {
                phase: Some(phase),
                state: Some(state),
                project: origin.resources.first().map(|one| one.project.clone()),
                ..PlanFilter::default()
            };
            let rows = self.store.plans(&filter, None, MOST_PLANS)?;
            let undoes = |row: &&PlanRow| row.plan.origin == Origin::UndoOf(origin.id);
            if let Some(row) = rows.iter().find(undoes) {
                return Ok(Some(row.plan.id));
            }
        }
        Ok(None)
    }
}
