//! Making the sandboxes of a claim: the first effect of every claim in strategize and execute.
//!
//! May be repeated: a holder that has its sandbox gets the same one, and what has to be done in it
//! first (`Plan::entrance`) is taken back only by the commit that says it was done.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use actors::Stop;
use plan::base::Start;
use plan::stage::Category;
use plan::{Base, Command, Epoch, Phase, Plan, PlanId, Refusal};
use sandbox::{Entered, Hold, ObjectId, Room, SandboxCondition, SandboxError, Site};

use crate::{Aside, Call, Claim, Error, Lifecycle};

/// How long making a sandbox ready may take.
const SET_UP_LIMIT: Duration = Duration::from_secs(600);

/// How often it is looked meanwhile whether the claim still holds.
const LOOK: Duration = Duration::from_millis(250);

/// A sandbox of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnteredSandbox {
    /// The plan's resource.
    pub resource: String,
    /// The files to work on.
    pub path: PathBuf,
}

impl Lifecycle {
    /// Makes a claim's sandboxes. If that fails the plan halts with the reason: a claim without a
    /// sandbox is no place to work.
    pub(crate) fn ready(&self, mut claim: Claim, call: &Call) -> Result<Claim, Error> {
        let plan = claim.plan();
        let epoch = claim.epoch();
        if plan.resources.is_empty() || claim.phase() == Phase::Apply || !plan.is_held_by(epoch) {
            return Ok(claim);
        }
        let entered = self.keeping_the_lease(plan.id, epoch, call, || {
            self.enter(plan, epoch, &call.follow_up())
        });
        match entered {
            Ok((plan, sandboxes, holds)) => {
                claim.done.plan = plan;
                claim.sandboxes = sandboxes;
                claim.holds = holds;
                Ok(claim)
            }
            Err(Error::Stopped) => {
                // Whoever took the plan away meanwhile is told of here, too.
                self.release(plan.id, epoch, &call.follow_up())?;
                Err(Error::Stopped)
            }
            Err(error) => {
                let category = category_of(&error);
                // If even this fails, the lease runs out and the plan is reclaimed.
                let _ = self.fail(
                    plan.id,
                    epoch,
                    category,
                    &error.to_string(),
                    &call.follow_up(),
                );
                Err(error)
            }
        }
    }

    /// Can a plan be worked on from here? Asked before it is claimed, so that a plan whose resources
    /// are elsewhere stays claimable there. What is gone is for the claim to say.
    pub(crate) fn check_reach(&self, plan: &Plan) -> Result<(), Error> {
        match self.sites(plan) {
            Err(error @ (Error::WaitingForHost { .. } | Error::NoHands)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Are the resources of a plan where its projects say? Asked before it is moved, so that it is not sent
    /// to work on what is gone. Of what lies on another host nobody knows here.
    pub fn check_places(&self, plan: &Plan) -> Result<(), Error> {
        let Some(hands) = &self.hands else {
            return Ok(());
        };
        for resource in &plan.resources {
            match self.site(resource) {
                Ok(site) => hands.workshop.check_place(&site)?,
                Err(Error::WaitingForHost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The same of a plan that is not known yet.
    pub(crate) fn check_reach_of(&self, plan: plan::PlanId) -> Result<(), Error> {
        match self.store.plan(plan)? {
            Some(row) if !row.plan.resources.is_empty() => self.check_reach(&row.plan),
            Some(_) | None => Ok(()),
        }
    }

    fn enter(
        &self,
        plan: &Plan,
        epoch: Epoch,
        call: &Call,
    ) -> Result<(Plan, Vec<EnteredSandbox>, Vec<Hold>), Error> {
        let (mut sandboxes, mut holds) = (Vec::new(), Vec::new());
        let mut bases = Vec::new();
        for site in self.sites(plan)? {
            let room = Room {
                plan: plan.id,
                site: &site,
            };
            let Entered { sandbox, hold } = self.enter_one(plan, epoch, &room, call)?;
            bases.push(Base {
                resource: site.name.clone(),
                commit: sandbox.base.to_string(),
            });
            sandboxes.push(EnteredSandbox {
                resource: site.name,
                path: sandbox.path,
            });
            holds.push(hold);
        }
        if plan.bases == bases && plan.entrance.is_plain() {
            return Ok((plan.clone(), sandboxes, holds));
        }
        let done = self.run(plan.id, Command::RecordBases { epoch, bases }, call)?;
        Ok((done.plan, sandboxes, holds))
    }

    fn enter_one(
        &self,
        plan: &Plan,
        epoch: Epoch,
        room: &Room<'_>,
        call: &Call,
    ) -> Result<Entered, Error> {
        let workshop = &self.hands()?.workshop;
        let base = match plan.base(&room.site.name) {
            Some(commit) => object(commit)?,
            None => workshop.tip(room.site)?,
        };
        let start = match plan.entrance.start {
            Start::Continue => sandbox::Start::Continue,
            Start::Base => sandbox::Start::Base,
            Start::Afresh => sandbox::Start::Afresh,
        };
        if start == sandbox::Start::Continue {
            // A plan that began with a result has it in its sandbox.
            if let Some(tree) = result_tree(plan, &room.site.name) {
                workshop.seed(room, epoch, &base, &object(tree)?)?;
            }
        }
        let Entered { mut sandbox, hold } = workshop.enter(room, epoch, &base, start)?;
        let mut wanted = plan.ways.furnishings.iter();
        let wanted = wanted.find(|one| one.resource == room.site.name);
        let is_new = sandbox.made_by == epoch;
        let mut has_ignored = !is_new;
        if is_new {
            let include = wanted.map(|one| one.include.as_slice()).unwrap_or_default();
            has_ignored = workshop.furnish(room, &sandbox, include)?.files > 0;
        }
        let setup = wanted.and_then(|one| one.setup.as_deref());
        has_ignored |= setup.is_some();
        let was_set_up = setup.is_none() || sandbox.is_set_up();
        if let Some(command) = setup.filter(|_| !sandbox.is_set_up()) {
            self.tell(plan, Aside::SetsUp(command));
            let is_wanted = self.is_wanted(plan.id, epoch, call);
            workshop.set_up(room, &sandbox, command, SET_UP_LIMIT, &is_wanted)?;
        }
        // Before the agent works: what is ignored and there by now is not its work.
        if has_ignored {
            let found = if is_new || !was_set_up {
                SandboxCondition::BeforeAnyAgent
            } else if start == sandbox::Start::Base {
                SandboxCondition::AtBase
            } else {
                SandboxCondition::AsLeft
            };
            workshop.protect_ignored(room, &sandbox, found)?;
        }
        if plan.entrance.catch_up {
            let tip = workshop.tip(room.site)?;
            sandbox = workshop.catch_up(room, epoch, &tip)?;
        }
        if !plan.entrance.dropped.is_empty() {
            workshop.drop_paths(room, epoch, &plan.entrance.dropped)?;
        }
        Ok(Entered { sandbox, hold })
    }

    /// Asks whether work that takes its time is still wanted: nobody asked to stop, nobody took the plan
    /// away.
    fn is_wanted<'a>(
        &'a self,
        plan: PlanId,
        epoch: Epoch,
        call: &'a Call,
    ) -> impl Fn() -> bool + 'a {
        let looked = Cell::new(Instant::now());
        move || {
            if call.stop.as_ref().is_some_and(Stop::is_asked) {
                return false;
            }
            if looked.get().elapsed() < LOOK {
                return true;
            }
            looked.set(Instant::now());
            match self.store.plan(plan) {
                Ok(row) => row.is_some_and(|row| row.plan.is_held_by(epoch)),
                // A store that cannot be read says neither.
                Err(_) => true,
            }
        }
    }

    /// What a person has not committed in the resources of these projects, as bases of a new plan.
    pub(crate) fn bases_with_changes(
        &self,
        plan: plan::PlanId,
        projects: &[plan::Name],
    ) -> Result<Vec<Base>, Error> {
        let workshop = &self.hands()?.workshop;
        let mut bases = Vec::new();
        for site in self.sites_of_projects(projects)? {
            let room = Room { plan, site: &site };
            let tip = workshop.tip(&site)?;
            let base = workshop.snapshot_changes(&room, &tip)?;
            bases.push(Base {
                resource: site.name.clone(),
                commit: base.to_string(),
            });
        }
        Ok(bases)
    }

    /// Where the resources of projects lie, as a plan that uses them now would call them.
    pub fn sites_of_projects(&self, projects: &[plan::Name]) -> Result<Vec<Site>, Error> {
        let mut sites = Vec::new();
        for name in projects {
            let project = self.get_project(name)?;
            for resource in project.frozen() {
                sites.push(self.site(&resource)?);
            }
        }
        Ok(sites)
    }
}

/// What sort of failure it is that a sandbox could not be made.
fn category_of(error: &Error) -> Category {
    match error {
        Error::Sandbox(error) if error.is_passing() => Category::Transient,
        Error::Store(_) | Error::Unknown(_) => Category::Transient,
        Error::Sandbox(_)
        | Error::ResourceGone { .. }
        | Error::NoHands
        | Error::WaitingForHost { .. }
        | Error::LandedOnBranch { .. }
        | Error::Stopped
        | Error::Refused(_)
        | Error::Blocked(_)
        | Error::KeyReused { .. }
        | Error::Expr(_)
        | Error::Rules(_) => Category::Resource,
    }
}

/// The hash of an object that a plan remembers.
pub(crate) fn object(text: &str) -> Result<ObjectId, Error> {
    text.parse().map_err(|_| {
        Error::Sandbox(SandboxError::Git {
            command: "rev-parse".to_owned(),
            said: format!("`{text}` is not the hash of an object"),
        })
    })
}

/// What a plan handed in of a resource.
pub(super) fn result_tree<'a>(plan: &'a Plan, resource: &str) -> Option<&'a str> {
    let trees = plan.result.iter().flat_map(|result| &result.trees);
    trees
        .filter(|tree| tree.resource == resource)
        .map(|tree| tree.tree.as_str())
        .next()
}

impl From<SandboxError> for Error {
    fn from(error: SandboxError) -> Self {
        match error {
            // What git's fence says is what the store would say.
            SandboxError::Fenced { given, current } => Self::Refused(Refusal::Fenced {
                given: Epoch(given),
                current: Epoch(current),
            }),
            SandboxError::SetUpStopped { .. } => Self::Stopped,
            other => Self::Sandbox(other),
        }
    }
}
