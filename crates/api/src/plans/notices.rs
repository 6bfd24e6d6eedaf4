//! What a person should know about a plan they just created: what its agent does not see, and what keeps it from
//! starting.

use std::path::PathBuf;

use lifecycle::Lifecycle;
use plan::{Plan, QualifiedName};
use sandbox::{LocalResource, ResourceLocation};
use serde::Serialize;

use super::create::{CreatePlanRequest, CreatedPlan};
use crate::actions::FoundAction;
use crate::plan_config::{PlanConfig, RepositoryAction};

/// A fact about a new plan that may surprise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PlanNotice {
    /// The setup command of this resource runs with the user's permissions, because of a setting.
    UnconfinedSetup { resource: String },
    /// The rules in the working tree differ from those on this branch. The plan must meet both.
    UncommittedRules { resource: String, branch: String },
    /// `planwright.yaml` has uncommitted changes, and the current file is used.
    UncommittedConfig { resource: String },
    /// The agent does not see this many uncommitted files.
    UncommittedFiles { resource: String, count: usize },
    /// This agent has no definition. If it does no work, it only answers `ask` rules.
    UndefinedActor { actor: QualifiedName, works: bool },
    /// The stored action was used; this file defines a different one of the same name.
    OtherActionInRepository {
        action: QualifiedName,
        file: PathBuf,
    },
    /// Nothing starts until the project is resumed.
    ProjectPaused { project: QualifiedName },
}

/// Finds what is worth saying about a new plan.
pub fn find_notices(
    lifecycle: &Lifecycle,
    request: &CreatePlanRequest,
    config: &PlanConfig,
    created: &CreatedPlan,
) -> Vec<PlanNotice> {
    let mut notices = find_source_notices(lifecycle, request);
    notices.extend(find_undefined_actor(&created.outcome.plan));
    if let Some(action) = &created.action {
        notices.extend(find_other_action(action, &config.repository.actions));
    }
    notices.extend(find_paused_projects(lifecycle, &request.projects));
    notices
}

/// Finds what the sandboxes of a new plan leave out or run. Skips what cannot be read.
pub fn find_source_notices(lifecycle: &Lifecycle, request: &CreatePlanRequest) -> Vec<PlanNotice> {
    let locations = lifecycle
        .sandboxes()
        .locate_project_resources(&request.projects)
        .unwrap_or_default();
    let mut notices = Vec::new();
    for location in &locations {
        notices.extend(find_resource_notices(lifecycle, location, request));
    }
    notices
}

fn find_resource_notices(
    lifecycle: &Lifecycle,
    location: &LocalResource,
    request: &CreatePlanRequest,
) -> Vec<PlanNotice> {
    let resource = || location.name.clone();
    let mut notices = Vec::new();
    let Ok(local_host) = lifecycle.local_host() else {
        return notices;
    };
    if local_host.sandboxes.runs_set_up_unconfined(location) {
        notices.push(PlanNotice::UnconfinedSetup {
            resource: resource(),
        });
    }
    // A plan on a directory starts from the files as they are.
    let ResourceLocation::Git { target, .. } = &location.location else {
        return notices;
    };
    let rules_differ = lifecycle.gates().rules_differ_from_target(location);
    let rules_differ = rules_differ.unwrap_or(false);
    if rules_differ {
        let branch = target.strip_prefix("refs/heads/").unwrap_or(target);
        notices.push(PlanNotice::UncommittedRules {
            resource: resource(),
            branch: branch.to_owned(),
        });
    }
    if request.with_uncommitted_changes {
        return notices;
    }
    let repository = local_host.sandboxes.open_repository(location);
    let uncommitted = repository.and_then(|repository| repository.list_uncommitted_paths());
    let mut uncommitted = uncommitted.unwrap_or_default();
    let count = uncommitted.len();
    uncommitted
        .retain(|path| path.as_bytes() != plan::invariant::REPOSITORY_CONFIG_FILE.as_bytes());
    // The notice about differing rules already says that the file is used.
    if uncommitted.len() < count && !rules_differ {
        notices.push(PlanNotice::UncommittedConfig {
            resource: resource(),
        });
    }
    if !uncommitted.is_empty() {
        notices.push(PlanNotice::UncommittedFiles {
            resource: resource(),
            count: uncommitted.len(),
        });
    }
    notices
}

fn find_undefined_actor(plan: &Plan) -> Option<PlanNotice> {
    let mut names = plan.actors().actor_names();
    let undefined = names.find(|actor| plan.actor_definition(actor).is_none())?;
    Some(PlanNotice::UndefinedActor {
        actor: undefined.clone(),
        works: [&plan.actors().strategy, &plan.actors().execution].contains(&undefined),
    })
}

/// A repository's different action of the same name, which a stored one hides.
fn find_other_action(action: &FoundAction, defined: &[RepositoryAction]) -> Option<PlanNotice> {
    let FoundAction::Stored(stored) = action else {
        return None;
    };
    let other = defined
        .iter()
        .find(|one| one.definition.name == *stored.name() && one.definition != stored.definition)?;
    Some(PlanNotice::OtherActionInRepository {
        action: stored.name().clone(),
        file: other.file.clone(),
    })
}

fn find_paused_projects(lifecycle: &Lifecycle, projects: &[QualifiedName]) -> Vec<PlanNotice> {
    let is_paused = |name: &&QualifiedName| {
        let project = lifecycle.projects().get_project(name);
        project.is_ok_and(|project| project.paused.is_some())
    };
    let paused = projects.iter().filter(is_paused).cloned();
    paused
        .map(|project| PlanNotice::ProjectPaused { project })
        .collect()
}
