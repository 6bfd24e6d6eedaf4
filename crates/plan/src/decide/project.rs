//! Projects: making and changing them, and what they have to say about plans.

use std::collections::BTreeSet;

use crate::decide::Request;
use crate::decide::action::receipt;
use crate::project::{
    HostId, Paused, Place, PlanResource, Project, ProjectDifference, Resource, ResourceName,
};
use crate::{Decision, Facts, Name, Outcome, Plan, Refusal, Row, Timestamp};

/// Plans that are named in a refusal, of however many there are.
const MOST_NAMED: usize = 5;

/// Whether living plans are in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Force {
    /// They are.
    No,
    /// They will find the resource gone.
    Yes,
}

impl Force {
    pub fn when(forced: bool) -> Self {
        if forced { Self::Yes } else { Self::No }
    }
}

/// Creates a project. The very same again is fine, so that a script can say what it needs.
pub(super) fn create(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    name: &Name,
    resources: &[Resource],
) -> Result<Decision, Refusal> {
    let mut checked: Vec<Resource> = Vec::new();
    for resource in resources {
        if checked.iter().any(|earlier| earlier.name == resource.name) {
            return Err(Refusal::BadResource {
                name: resource.name.clone(),
                why: "it is named twice",
            });
        }
        check_place(name, &checked, resource)?;
        checked.push(resource.clone());
    }
    checked.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(existing) = find(facts, name) {
        let difference = ProjectDifference::between(&existing.resources, &checked);
        if difference.is_none() {
            return Ok(already_done(request, now));
        }
        return Err(Refusal::ProjectExists {
            name: name.clone(),
            at: existing.created_at,
            difference,
        });
    }
    Ok(put(
        request,
        now,
        Project {
            name: name.clone(),
            resources: checked,
            paused: None,
            created_at: now,
        },
    ))
}

/// Adds a resource.
pub(super) fn link(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    project: &Name,
    resource: &Resource,
) -> Result<Decision, Refusal> {
    let mut project = required(facts, project)?.clone();
    if let Some(existing) = project.resource(&resource.name) {
        if existing == resource {
            return Ok(already_done(request, now));
        }
        return Err(Refusal::ResourceExists {
            project: project.name,
            name: resource.name.clone(),
        });
    }
    check_place(&project.name, &project.resources, resource)?;
    project.resources.push(resource.clone());
    project
        .resources
        .sort_by(|one, other| one.name.cmp(&other.name));
    Ok(put(request, now, project))
}

/// Takes a resource away.
pub(super) fn unlink(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    project: &Name,
    name: &ResourceName,
    force: Force,
) -> Result<Decision, Refusal> {
    let mut project = required(facts, project)?.clone();
    require_resource(&project, name)?;
    require_no_live_plans(facts, &project.name, force)?;
    project.resources.retain(|resource| resource.name != *name);
    Ok(put(request, now, project))
}

/// Says where a resource lies now. Living plans find it there.
pub(super) fn relink(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    project: &Name,
    moved: &Resource,
) -> Result<Decision, Refusal> {
    let mut project = required(facts, project)?.clone();
    let existing = require_resource(&project, &moved.name)?;
    if existing == moved {
        return Ok(already_done(request, now));
    }
    let kind = existing.place.kind();
    if moved.place.kind() != kind {
        return Err(Refusal::ResourceKind {
            project: project.name,
            name: moved.name.clone(),
            kind,
        });
    }
    let others: Vec<Resource> = project
        .resources
        .iter()
        .filter(|resource| resource.name != moved.name)
        .cloned()
        .collect();
    check_place(&project.name, &others, moved)?;
    for resource in &mut project.resources {
        if resource.name == moved.name {
            *resource = moved.clone();
        }
    }
    Ok(put(request, now, project))
}

/// Keeps the project's plans from starting to work.
pub(super) fn pause(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    name: &Name,
) -> Result<Decision, Refusal> {
    let mut project = required(facts, name)?.clone();
    if project.paused.is_some() {
        return Ok(already_done(request, now));
    }
    project.paused = Some(Paused {
        at: now,
        by: request.caller.clone(),
    });
    Ok(put(request, now, project))
}

/// Lets them start again.
pub(super) fn resume(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    name: &Name,
) -> Result<Decision, Refusal> {
    let mut project = required(facts, name)?.clone();
    if project.paused.is_none() {
        return Ok(already_done(request, now));
    }
    project.paused = None;
    Ok(put(request, now, project))
}

/// Removes a project; its directories are left alone.
pub(super) fn delete(
    facts: &Facts,
    request: &Request,
    now: Timestamp,
    name: &Name,
    force: Force,
) -> Result<Decision, Refusal> {
    required(facts, name)?;
    require_no_live_plans(facts, name, force)?;
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![Row::DropProject(name.clone())],
        receipt: receipt(request, now),
    })
}

/// The resources of these projects, as a plan that uses them freezes them.
pub(super) fn freeze(facts: &Facts, names: &[Name]) -> Result<Vec<PlanResource>, Refusal> {
    let mut frozen = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert((*name).clone())) {
        let project = required(facts, name)?;
        if project.resources.is_empty() {
            return Err(Refusal::ProjectEmpty(name.clone()));
        }
        frozen.extend(project.frozen());
    }
    Ok(frozen)
}

/// Everything the plan works on is still there.
pub(super) fn require_all(facts: &Facts, plan: &Plan) -> Result<(), Refusal> {
    for resource in &plan.resources {
        let project = required(facts, &resource.project)?;
        require_resource(project, &resource.resource)?;
    }
    Ok(())
}

/// Everything the plan works on is still there, and may be worked on.
pub(super) fn require_ready(facts: &Facts, plan: &Plan) -> Result<(), Refusal> {
    for name in plan.projects() {
        let project = required(facts, name)?;
        if let Some(paused) = &project.paused {
            return Err(Refusal::ProjectPaused {
                project: name.clone(),
                paused: paused.clone(),
            });
        }
    }
    require_all(facts, plan)
}

fn find<'a>(facts: &'a Facts, name: &Name) -> Option<&'a Project> {
    facts.projects.iter().find(|project| project.name == *name)
}

fn required<'a>(facts: &'a Facts, name: &Name) -> Result<&'a Project, Refusal> {
    find(facts, name).ok_or_else(|| Refusal::NoSuchProject(name.clone()))
}

fn require_resource<'a>(
    project: &'a Project,
    name: &ResourceName,
) -> Result<&'a Resource, Refusal> {
    project
        .resource(name)
        .ok_or_else(|| Refusal::NoSuchResource {
            project: project.name.clone(),
            name: name.clone(),
        })
}

/// The place is well written, and none of the others is there.
fn check_place(project: &Name, others: &[Resource], resource: &Resource) -> Result<(), Refusal> {
    resource.place.check().map_err(|why| Refusal::BadResource {
        name: resource.name.clone(),
        why,
    })?;
    let there = others
        .iter()
        .find(|other| other.shares_place_with(resource));
    match there {
        None => Ok(()),
        Some(other) => Err(Refusal::PlaceTaken {
            project: project.clone(),
            name: resource.name.clone(),
            other: other.name.clone(),
        }),
    }
}

fn require_no_live_plans(facts: &Facts, project: &Name, force: Force) -> Result<(), Refusal> {
    if force == Force::Yes || facts.live_plans.count == 0 {
        return Ok(());
    }
    let mut plans = facts.live_plans.newest.clone();
    plans.truncate(MOST_NAMED);
    Err(Refusal::ProjectInUse {
        project: project.clone(),
        count: facts.live_plans.count,
        plans,
    })
}

fn put(request: &Request, now: Timestamp, project: Project) -> Decision {
    Decision {
        plans: Vec::new(),
        rows: vec![Row::PutProject(project)],
        receipt: receipt(request, now),
    }
}

fn already_done(request: &Request, now: Timestamp) -> Decision {
    let mut receipt = receipt(request, now);
    receipt.outcome = Outcome::AlreadyDone;
    Decision {
        plans: Vec::new(),
        rows: Vec::new(),
        receipt,
    }
}

/// The parts of a command as the resource it is about.
pub(super) fn moved(name: &ResourceName, host: &HostId, place: &Place) -> Resource {
    Resource {
        name: name.clone(),
        host: host.clone(),
        place: place.clone(),
    }
}
