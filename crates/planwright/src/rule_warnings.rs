//! Compares rules with what is there: whether the working tree has others than the target branch, and whether a
//! glob matches anything.

use plan::QualifiedName;
use plan::invariant::{RuleCheck, RuleDraft};
use sandbox::{LocalResource, ObjectId, ResourceLocation, Sandboxes};

use crate::cli::App;
use crate::error::CommandError;
use crate::repository_config::REPOSITORY_CONFIG_FILE;
use crate::wire::UserMessage;
use crate::{repository_config, yaml};

/// The target branch, if the rules in the working tree are not those on it.
pub fn branch_with_other_rules(app: &App, location: &LocalResource) -> Option<String> {
    let ResourceLocation::Git { path, target } = &location.location else {
        return None;
    };
    let sandboxes = &app.lifecycle().ok()?.local_host().ok()?.sandboxes;
    let tip = sandboxes.read_tip(location).ok()?;
    let here = repository_config::read_file(&path.join(REPOSITORY_CONFIG_FILE))
        .ok()?
        .unwrap_or_default();
    // What cannot be read there is not what stands here, either.
    let there = read_committed_rules(sandboxes, location, &tip).ok();
    (there != Some(here.invariants)).then(|| short_branch(target).to_owned())
}

fn read_committed_rules(
    sandboxes: &Sandboxes,
    location: &LocalResource,
    tip: &ObjectId,
) -> Result<Vec<RuleDraft>, CommandError> {
    let text = sandboxes.read_file_at(location, Some(tip), REPOSITORY_CONFIG_FILE);
    let text = text.map_err(lifecycle::LifecycleError::Sandbox)?;
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let file = yaml::parse_repository(&text, REPOSITORY_CONFIG_FILE);
    let file = file.map_err(|problem| CommandError::malformed_file(problem, &text))?;
    Ok(file.invariants)
}

/// Says of which globs of a rule nothing is there, in the project that it is for or that one is in.
pub fn warn_unmatched_globs(
    app: &App,
    check: &RuleCheck,
    project: Option<&QualifiedName>,
) -> Vec<UserMessage> {
    let (RuleCheck::Allow(globs) | RuleCheck::Forbid(globs)) = check else {
        return Vec::new();
    };
    let here = match project {
        Some(project) => Some(project.clone()),
        None => app.current_project().ok().flatten(),
    };
    let Some(project) = here else {
        return Vec::new();
    };
    // Nobody is kept from adding a rule because a repository cannot be looked at.
    let there = list_project_paths(app, &project).unwrap_or_default();
    if there.is_empty() {
        return Vec::new();
    }
    let idle = lifecycle::unmatched_globs(globs, &there);
    let warnings = idle.into_iter().map(|glob| UserMessage {
        level: "warn",
        text: format!("Nothing in {project} matches `{glob}` yet; is it spelt right?"),
    });
    warnings.collect()
}

fn list_project_paths(
    app: &App,
    project: &QualifiedName,
) -> Result<Vec<plan::changeset::TreePath>, lifecycle::LifecycleError> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Ok(Vec::new());
    };
    let sandboxes = &lifecycle.local_host()?.sandboxes;
    let mut paths = Vec::new();
    for location in lifecycle.locate_project_resources(std::slice::from_ref(project))? {
        if let ResourceLocation::Git { .. } = &location.location {
            let tip = sandboxes
                .read_tip(&location)
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            let listed = sandboxes.list_paths_at(&location, &tip);
            paths.extend(listed.map_err(lifecycle::LifecycleError::Sandbox)?);
        }
    }
    Ok(paths)
}

fn short_branch(target: &str) -> &str {
    target.strip_prefix("refs/heads/").unwrap_or(target)
}
