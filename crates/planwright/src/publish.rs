//! The commands that publish a branch on which a plan landed: a push, and a pull request where a client is installed.

use std::path::Path;

use plan::Plan;
use plan::landing_options::LandingDestination;
use plan::project::ResourcePlace;

use crate::cli::App;
use crate::error::CommandError;
use crate::invocation::quote_word;
use crate::settings;

/// Returns the commands, as sentences. Repositories without a remote have none.
pub fn publish_commands(app: &App, plan: &Plan) -> Result<Vec<String>, CommandError> {
    let Some(LandingDestination::Branch(branch)) =
        plan.approval().map(|approval| &approval.options.shape)
    else {
        return Ok(Vec::new());
    };
    let mut commands = Vec::new();
    let branch = quote_word(branch);
    for resource in plan.resources() {
        let project = app.lifecycle()?.projects().get_project(&resource.project)?;
        let mut registered = project.resources.iter();
        let registered = registered.find(|one| one.name == resource.resource);
        let Some(ResourcePlace::Git { path, .. }) = registered.map(|one| &one.place) else {
            continue;
        };
        let Some(remote) = find_remote(Path::new(path)) else {
            continue;
        };
        let directory = quote_word(path);
        commands.push(format!(
            "Push it: git -C {directory} push --set-upstream {} {branch}",
            quote_word(&remote.name)
        ));
        commands.extend(pull_request_command(&remote, &directory, &branch));
    }
    Ok(commands)
}

/// The command of an installed client for the remote's host.
fn pull_request_command(remote: &GitRemote, directory: &str, branch: &str) -> Option<String> {
    let path = settings::read_git_env().path.unwrap_or_default();
    let is_installed =
        |program: &str| actors::find_program(program.as_ref(), &path, None).is_some();
    if remote.url.contains("gitlab") && is_installed("glab") {
        return Some(format!(
            "Then open a merge request: cd {directory} && glab mr create --source-branch {branch}"
        ));
    }
    let command =
        format!("Then open a pull request: cd {directory} && gh pr create --head {branch}");
    (remote.url.contains("github") && is_installed("gh")).then_some(command)
}

struct GitRemote {
    name: String,
    url: String,
}

/// Finds the remote `origin`, or else the first one, in the repository's configuration.
fn find_remote(repository: &Path) -> Option<GitRemote> {
    let config = ["config", ".git/config"].into_iter();
    let mut config = config.filter_map(|file| std::fs::read_to_string(repository.join(file)).ok());
    let remotes = read_remotes(&config.next()?);
    let origin = remotes.iter().position(|remote| remote.name == "origin");
    remotes.into_iter().nth(origin.unwrap_or(0))
}

/// Reads the remotes of a git configuration. Files that it includes are not read.
fn read_remotes(config: &str) -> Vec<GitRemote> {
    let mut remotes: Vec<GitRemote> = Vec::new();
    let mut in_remote = false;
    for line in config.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_prefix("remote \"");
            let name = name.and_then(|name| name.strip_suffix("\"]"));
            in_remote = name.is_some();
            remotes.extend(name.map(|name| GitRemote {
                name: name.to_owned(),
                url: String::new(),
            }));
        } else if let (true, Some((key, value))) = (in_remote, line.split_once('='))
            && key.trim() == "url"
            && let Some(remote) = remotes.last_mut()
        {
            value.trim().clone_into(&mut remote.url);
        }
    }
    remotes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_read_from_the_configuration() {
        let config = "[core]\n\turl = no\n[remote \"up\"]\n\turl = https://github.com/a/b\n\tfetch = +x\n\
                      [branch \"main\"]\n\tremote = up\n[remote \"origin\"]\n\turl=git@gitlab.com:a/b\n";
        let remotes = read_remotes(config);
        let found = remotes
            .iter()
            .map(|one| (one.name.as_str(), one.url.as_str()));
        let found: Vec<_> = found.collect();
        let expected = [
            ("up", "https://github.com/a/b"),
            ("origin", "git@gitlab.com:a/b"),
        ];
        assert_eq!(found, expected);
        assert!(read_remotes("[core]\n").is_empty());
    }
}
