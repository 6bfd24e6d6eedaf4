//! Creates and changes projects, and checks that a plan's projects are ready.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::authority::CommandAudience;
use crate::command::{CommandDefinition, CommandHeader};
use crate::decide::DecisionInput;
use crate::decide::DecisionRequest;
use crate::decide::action::receipt_without_plan;
use crate::project::{
    HostId, PlanResource, Project, ProjectDifference, ProjectPause, Resource, ResourceName,
    ResourcePlace,
};
use crate::reads::{CommandTarget, ReadSet};
use crate::{
    Decision, DecisionFacts, Plan, QualifiedName, ReceiptOutcome, Refusal, RowWrite, Timestamp,
    Verb,
};

/// Store a new project.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateProject {
    pub name: QualifiedName,
    pub resources: Vec<Resource>,
}

impl CommandDefinition for CreateProject {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::CreateProject, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.name)
    }

    fn arguments(&self) -> Value {
        json!([self.name, self.resources])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        create_project(input, &self.name, &self.resources)
    }
}

/// Add a resource to a project.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkResource {
    pub project: QualifiedName,
    pub resource: Resource,
}

impl CommandDefinition for LinkResource {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::LinkResource, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.project)
    }

    fn arguments(&self) -> Value {
        json!([self.project, self.resource])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        link_resource(input, &self.project, &self.resource)
    }
}

/// Remove a resource from a project.
#[derive(Debug, Clone, PartialEq)]
pub struct UnlinkResource {
    pub project: QualifiedName,
    pub name: ResourceName,
    /// Remove it even if unfinished plans use the project.
    pub force: bool,
}

impl CommandDefinition for UnlinkResource {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::UnlinkResource, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.project)
    }

    fn arguments(&self) -> Value {
        json!([self.project, self.name, self.force])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        unlink_resource(
            input,
            &self.project,
            &self.name,
            ForceRemoval::from_flag(self.force),
        )
    }
}

/// Change the location of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct RelinkResource {
    pub project: QualifiedName,
    pub name: ResourceName,
    pub host: HostId,
    pub place: ResourcePlace,
}

impl CommandDefinition for RelinkResource {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::RelinkResource, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.project)
    }

    fn arguments(&self) -> Value {
        json!([self.project, self.name, self.host, self.place])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        let moved = Resource {
            name: self.name.clone(),
            host: self.host.clone(),
            place: self.place.clone(),
        };
        relink_resource(input, &self.project, &moved)
    }
}

/// Stop a project's plans from starting work.
#[derive(Debug, Clone, PartialEq)]
pub struct PauseProject(pub QualifiedName);

impl CommandDefinition for PauseProject {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::PauseProject, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.0)
    }

    fn arguments(&self) -> Value {
        json!(self.0)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        pause_project(input, &self.0)
    }
}

/// Let a paused project's plans start work again.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumeProject(pub QualifiedName);

impl CommandDefinition for ResumeProject {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::ResumeProject, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.0)
    }

    fn arguments(&self) -> Value {
        json!(self.0)
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        resume_project(input, &self.0)
    }
}

/// Remove a project.
#[derive(Debug, Clone, PartialEq)]
pub struct DeleteProject {
    pub name: QualifiedName,
    /// Delete it even if unfinished plans use it.
    pub force: bool,
}

impl CommandDefinition for DeleteProject {
    fn header(&self) -> CommandHeader {
        CommandHeader::new(Verb::DeleteProject, CommandAudience::Workers)
    }

    fn reads(&self, _target: &CommandTarget) -> ReadSet {
        ReadSet::for_project(&self.name)
    }

    fn arguments(&self) -> Value {
        json!([self.name, self.force])
    }

    fn decide(&self, input: DecisionInput<'_>) -> Result<Decision, Refusal> {
        delete_project(input, &self.name, ForceRemoval::from_flag(self.force))
    }
}

/// Most plans listed in a refusal.
const MAX_NAMED_PLANS: usize = 5;

/// Whether unfinished plans prevent a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceRemoval {
    No,
    /// Remove it anyway; unfinished plans can no longer start.
    Yes,
}

impl ForceRemoval {
    pub fn from_flag(forced: bool) -> Self {
        if forced { Self::Yes } else { Self::No }
    }
}

/// Creates a project. Repeating it with the same resources succeeds, so that scripts can be rerun.
fn create_project(
    input: DecisionInput<'_>,
    name: &QualifiedName,
    resources: &[Resource],
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut checked: Vec<Resource> = Vec::new();
    for resource in resources {
        if checked.iter().any(|earlier| earlier.name == resource.name) {
            return Err(Refusal::BadResource {
                name: resource.name.clone(),
                why: "it is listed twice",
            });
        }
        check_place(name, &checked, resource)?;
        checked.push(resource.clone());
    }
    checked.sort_by(|one, other| one.name.cmp(&other.name));
    if let Some(existing) = find_project(facts, name) {
        let difference = ProjectDifference::between(&existing.resources, &checked);
        if difference.is_empty() {
            return Ok(already_done(request, now));
        }
        return Err(Refusal::ProjectExists {
            name: name.clone(),
            at: existing.created_at,
            difference,
        });
    }
    Ok(store_project(
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

fn link_resource(
    input: DecisionInput<'_>,
    project: &QualifiedName,
    resource: &Resource,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut project = require_project(facts, project)?.clone();
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
    Ok(store_project(request, now, project))
}

fn unlink_resource(
    input: DecisionInput<'_>,
    project: &QualifiedName,
    name: &ResourceName,
    force: ForceRemoval,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut project = require_project(facts, project)?.clone();
    require_resource(&project, name)?;
    require_no_live_plans(facts, &project.name, force)?;
    project.resources.retain(|resource| resource.name != *name);
    Ok(store_project(request, now, project))
}

/// Changes the location of a resource. Unfinished plans use the new location.
fn relink_resource(
    input: DecisionInput<'_>,
    project: &QualifiedName,
    moved: &Resource,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut project = require_project(facts, project)?.clone();
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
    Ok(store_project(request, now, project))
}

/// Stops the project's plans from starting work.
fn pause_project(input: DecisionInput<'_>, name: &QualifiedName) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut project = require_project(facts, name)?.clone();
    if project.paused.is_some() {
        return Ok(already_done(request, now));
    }
    project.paused = Some(ProjectPause {
        at: now,
        by: request.caller.clone(),
    });
    Ok(store_project(request, now, project))
}

fn resume_project(input: DecisionInput<'_>, name: &QualifiedName) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    let mut project = require_project(facts, name)?.clone();
    if project.paused.is_none() {
        return Ok(already_done(request, now));
    }
    project.paused = None;
    Ok(store_project(request, now, project))
}

/// Removes a project. Its directories are not touched.
fn delete_project(
    input: DecisionInput<'_>,
    name: &QualifiedName,
    force: ForceRemoval,
) -> Result<Decision, Refusal> {
    let DecisionInput {
        facts,
        request,
        now,
    } = input;
    require_project(facts, name)?;
    require_no_live_plans(facts, name, force)?;
    Ok(Decision {
        plans: Vec::new(),
        rows: vec![RowWrite::DropProject(name.clone())],
        receipt: receipt_without_plan(request, now),
    })
}

/// Returns the resources of these projects as a new plan freezes them. Each project counts once.
pub(super) fn freeze_projects(
    facts: &DecisionFacts,
    names: &[QualifiedName],
) -> Result<Vec<PlanResource>, Refusal> {
    let mut frozen = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert((*name).clone())) {
        let project = require_project(facts, name)?;
        if project.resources.is_empty() {
            return Err(Refusal::ProjectEmpty(name.clone()));
        }
        frozen.extend(project.freeze_resources());
    }
    Ok(frozen)
}

/// Checks that all projects and resources of the plan still exist.
pub(super) fn require_resources_exist(facts: &DecisionFacts, plan: &Plan) -> Result<(), Refusal> {
    for resource in plan.resources() {
        let project = require_project(facts, &resource.project)?;
        require_resource(project, &resource.resource)?;
    }
    Ok(())
}

/// Checks that all projects and resources of the plan exist and none is paused.
pub(super) fn require_projects_ready(facts: &DecisionFacts, plan: &Plan) -> Result<(), Refusal> {
    for name in plan.projects() {
        let project = require_project(facts, name)?;
        if let Some(paused) = &project.paused {
            return Err(Refusal::ProjectPaused {
                project: name.clone(),
                paused: paused.clone(),
            });
        }
    }
    require_resources_exist(facts, plan)
}

fn find_project<'a>(facts: &'a DecisionFacts, name: &QualifiedName) -> Option<&'a Project> {
    facts.projects.iter().find(|project| project.name == *name)
}

fn require_project<'a>(
    facts: &'a DecisionFacts,
    name: &QualifiedName,
) -> Result<&'a Project, Refusal> {
    find_project(facts, name).ok_or_else(|| Refusal::NoSuchProject(name.clone()))
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

/// Checks the syntax of the location, and that no other resource of the project uses it.
fn check_place(
    project: &QualifiedName,
    others: &[Resource],
    resource: &Resource,
) -> Result<(), Refusal> {
    resource
        .place
        .check_syntax()
        .map_err(|why| Refusal::BadResource {
            name: resource.name.clone(),
            why,
        })?;
    let occupant = others
        .iter()
        .find(|other| other.shares_place_with(resource));
    match occupant {
        None => Ok(()),
        Some(other) => Err(Refusal::PlaceTaken {
            project: project.clone(),
            name: resource.name.clone(),
            other: other.name.clone(),
        }),
    }
}

fn require_no_live_plans(
    facts: &DecisionFacts,
    project: &QualifiedName,
    force: ForceRemoval,
) -> Result<(), Refusal> {
    if force == ForceRemoval::Yes || facts.live_plans.count == 0 {
        return Ok(());
    }
    let mut plans = facts.live_plans.newest.clone();
    plans.truncate(MAX_NAMED_PLANS);
    Err(Refusal::ProjectInUse {
        project: project.clone(),
        count: facts.live_plans.count,
        plans,
    })
}

fn store_project(request: &DecisionRequest, now: Timestamp, project: Project) -> Decision {
    Decision {
        plans: Vec::new(),
        rows: vec![RowWrite::PutProject(project)],
        receipt: receipt_without_plan(request, now),
    }
}

fn already_done(request: &DecisionRequest, now: Timestamp) -> Decision {
    let mut receipt = receipt_without_plan(request, now);
    receipt.outcome = ReceiptOutcome::AlreadyDone;
    Decision {
        plans: Vec::new(),
        rows: Vec::new(),
        receipt,
    }
}
