//! Compares rules with what is there: whether the working tree has others than the target branch, and whether a
//! glob matches anything.

use plan::Name;
use plan::invariant::{Check, RuleDraft};
use sandbox::{ObjectId, Site, SitePlace, Workshop};

use crate::cli::App;
use crate::error::CommandError;
use crate::wire::Message;
use crate::wishes::FILE;
use crate::{wishes, yaml};

/// The target branch, if the rules in the working tree are not those on it.
pub fn other_rules_on(app: &App, site: &Site) -> Option<String> {
    let SitePlace::Git { path, target } = &site.place else {
        return None;
    };
    let workshop = &app.lifecycle().ok()?.hands().ok()?.workshop;
    let tip = workshop.tip(site).ok()?;
    let here = wishes::read(&path.join(FILE)).ok()?.unwrap_or_default();
    // What cannot be read there is not what stands here, either.
    let there = committed(workshop, site, &tip).ok();
    (there != Some(here.invariants)).then(|| short(target).to_owned())
}

fn committed(
    workshop: &Workshop,
    site: &Site,
    tip: &ObjectId,
) -> Result<Vec<RuleDraft>, CommandError> {
    let text = workshop.file_at(site, Some(tip), FILE);
    let text = text.map_err(lifecycle::Error::Sandbox)?;
    let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
    let file = yaml::repository(&text, FILE);
    let file = file.map_err(|problem| CommandError::malformed(problem, &text))?;
    Ok(file.invariants)
}

/// Says of which globs of a rule nothing is there, in the project that it is for or that one is in.
pub fn idle_globs(app: &App, check: &Check, project: Option<&Name>) -> Vec<Message> {
    let (Check::Allow(globs) | Check::Forbid(globs)) = check else {
        return Vec::new();
    };
    let here = match project {
        Some(project) => Some(project.clone()),
        None => app.project_here().ok().flatten(),
    };
    let Some(project) = here else {
        return Vec::new();
    };
    // Nobody is kept from adding a rule because a repository cannot be looked at.
    let there = paths_of(app, &project).unwrap_or_default();
    if there.is_empty() {
        return Vec::new();
    }
    let idle = lifecycle::unmatched_globs(globs, &there);
    let told = idle.into_iter().map(|glob| Message {
        level: "warn",
        text: format!("Nothing in {project} matches `{glob}` yet; is it spelt right?"),
    });
    told.collect()
}

fn paths_of(app: &App, project: &Name) -> Result<Vec<plan::changeset::TreePath>, lifecycle::Error> {
    let Ok(lifecycle) = app.lifecycle() else {
        return Ok(Vec::new());
    };
    let workshop = &lifecycle.hands()?.workshop;
    let mut paths = Vec::new();
    for site in lifecycle.sites_of_projects(std::slice::from_ref(project))? {
        if let SitePlace::Git { .. } = &site.place {
            let tip = workshop.tip(&site).map_err(lifecycle::Error::Sandbox)?;
            let listed = workshop.paths_at(&site, &tip);
            paths.extend(listed.map_err(lifecycle::Error::Sandbox)?);
        }
    }
    Ok(paths)
}

fn short(target: &str) -> &str {
    target.strip_prefix("refs/heads/").unwrap_or(target)
}
