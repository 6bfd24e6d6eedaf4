//! After the first landing in a repository that has no rules yet: proposes to make its tests a rule, once.

use std::fs::OpenOptions;
use std::path::Path;

use plan::{Digest, Plan};
use sandbox::ResourceLocation;

use crate::cli::{App, CliFormat};
use crate::commands::init::find_test_command;
use crate::home;

/// Returns the proposal; `None` if there is nothing to propose, or it was said before.
pub fn propose_rule(app: &App, plan: &Plan) -> Option<String> {
    if app.format != CliFormat::Human || !app.is_typed_by_person() {
        return None;
    }
    let located = app
        .lifecycle()
        .ok()?
        .projects()
        .locate_resources(plan)
        .ok()?;
    let root = located
        .iter()
        .find_map(|resource| match &resource.location {
            ResourceLocation::Git { path, .. } => Some(path.as_path()),
            ResourceLocation::Dir { .. } => None,
        })?;
    if root.join("planwright.yaml").exists() {
        return None;
    }
    let command = find_test_command(root)?;
    remember_proposal(&app.settings.home, root).then(|| {
        format!("Found `{command}`. Make it a rule that every result must pass: planwright init")
    })
}

/// Returns whether this is the first proposal for the repository.
fn remember_proposal(home: &Path, root: &Path) -> bool {
    let directory = home.join("proposed");
    let name = Digest::hash_bytes(root.as_os_str().as_encoded_bytes()).to_string();
    let file = directory.join(name);
    home::make_private_directory(&directory).is_ok()
        && OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .is_ok()
}
