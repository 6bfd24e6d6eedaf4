//! Warnings about rules: they differ between working tree and target branch, or a glob matches no file.

use plan::QualifiedName;
use plan::invariant::{RuleCheck, RuleDraft};
use sandbox::{LocalResource, ObjectId, ResourceLocation, Sandboxes};

use crate::cli::App;
use crate::error::CommandError;
use crate::repository_config::REPOSITORY_CONFIG_FILE;
use crate::wire::UserMessage;
use crate::{repository_config, yaml};

/// Returns the target branch if its rules differ from those in the working tree.
pub fn branch_with_other_rules(app: &App, location: &LocalResource) -> Option<String> {
    let ResourceLocation::Git { path, target } = &location.location else {
        return None;
    };
    let sandboxes = &app.lifecycle().ok()?.local_host().ok()?.sandboxes;
    let tip = sandboxes.read_tip(location).ok()?;
    let here = repository_config::read_file(&path.join(REPOSITORY_CONFIG_FILE))
        .ok()?
        .unwrap_or_default();
    // Rules that cannot be read on the branch count as different.
    let there = read_committed_rules(sandboxes, location, &tip).ok();
    (there != Some(here.invariants)).then(|| short_branch(target).to_owned())
}

fn read_committed_rules(
    sandboxes: &Sandboxes,
    location: &LocalResource,
    tip: &ObjectId,
) -> Result<Vec<RuleDraft>, CommandError> {
    let text = sandboxes
        .checks()
        .read_file_at(location, Some(tip), REPOSITORY_CONFIG_FILE);
    let text = text.map_err(lifecycle::LifecycleError::Sandbox)?;
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let file = yaml::parse_repository(&text, REPOSITORY_CONFIG_FILE);
    let file = file.map_err(|problem| CommandError::malformed_file(problem, &text))?;
    Ok(file.invariants)
}

/// Warns about globs of a rule that match no file of `project`, or of the current project if `None`.
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
    // An unreadable repository must not prevent adding a rule.
    let paths = list_project_paths(app, &project).unwrap_or_default();
    if paths.is_empty() {
        return Vec::new();
    }
    let unmatched = lifecycle::unmatched_globs(globs, &paths);
    let warnings = unmatched.into_iter().map(|glob| UserMessage {
        level: "warn",
        text: format!("`{glob}` matches no file in {project} yet. Check the spelling."),
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
    for location in lifecycle
        .sandboxes()
        .locate_project_resources(std::slice::from_ref(project))?
    {
        if let ResourceLocation::Git { .. } = &location.location {
            let tip = sandboxes
                .read_tip(&location)
                .map_err(lifecycle::LifecycleError::Sandbox)?;
            let listed = sandboxes.checks().list_paths_at(&location, &tip);
            paths.extend(listed.map_err(lifecycle::LifecycleError::Sandbox)?);
        }
    }
    Ok(paths)
}

fn short_branch(target: &str) -> &str {
    target.strip_prefix("refs/heads/").unwrap_or(target)
}
