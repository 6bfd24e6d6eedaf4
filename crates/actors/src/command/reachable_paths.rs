//! Paths a confined program may read or write, in addition to system directories: its sandboxes,
//! its own configuration, and tools in the user's home.
//!
//! Deliberately absent: the home directory as a whole, and files in it with credentials, such as
//! cargo's or git's.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use plan::actor::{ActorIsolation, CommandLine};
use sandbox::{Confinement, ReachablePaths};

use super::program_files::find_program_files;
use super::program_variables::{expand_moved, paths_named_by_variables};
use super::run_dir::RunDir;
use crate::{Assignment, HostEnv, Workplace};

/// Tools in a home directory, caches of package managers, and settings that builds and git need.
const HOME_TOOL_PATHS: &[&str] = &[
    ".asdf",
    ".asdfrc",
    ".bun",
    ".bundle/cache",
    ".cache/bazel",
    ".cache/deno",
    ".cache/go-build",
    ".cache/node",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pypoetry",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/bin",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".config/mise",
    ".deno",
    ".gem/ruby",
    ".gitconfig",
    ".gradle/caches",
    ".gradle/wrapper",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/state/mise",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".nvm",
    ".pnpm-store",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".tool-versions",
    ".volta",
    ".yarn",
    "go",
];

/// Paths that commands of a repository may access besides the system and their checkout: tools and
/// package caches to read, and what the user's settings add.
pub fn reachable_command_paths(
    host_env: &HostEnv,
    writable: &[String],
    readable: &[String],
) -> ReachablePaths {
    let path_filter = PathFilter::from_host_env(host_env);
    let expanded = writable.iter().filter_map(|path| host_env.expand(path));
    path_filter.create_missing_dirs(expanded);
    let named = writable.iter().filter_map(|path| host_env.expand(path));
    let writable = path_filter.filter_allowed(named.collect()).collect();
    let mut tools: Vec<PathBuf> = std::env::split_paths(host_env.path()).collect();
    if let Some(home) = &host_env.home {
        tools.extend(HOME_TOOL_PATHS.iter().map(|tool| home.join(tool)));
    }
    tools.extend(readable.iter().filter_map(|path| host_env.expand(path)));
    ReachablePaths {
        writable,
        readable: path_filter.filter_allowed(tools).collect(),
    }
}

/// What one run adds to the paths of its definition.
pub(crate) struct RunPaths<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) workplace: &'a Workplace<'a>,
    pub(crate) run_dir: &'a RunDir,
    /// Files of the run to read.
    pub(crate) run_files: Vec<PathBuf>,
    /// The program of the relay to the tools of the run.
    pub(crate) relay: Option<PathBuf>,
}

pub(crate) fn build_confinement(
    command_line: &CommandLine,
    host_env: &HostEnv,
    program: &Path,
    run_paths: RunPaths<'_>,
) -> Confinement {
    let RunPaths {
        assignment,
        workplace,
        run_dir,
        run_files,
        relay,
    } = run_paths;
    if command_line.isolation == ActorIsolation::Off {
        return Confinement::Off;
    }
    let path_filter = PathFilter::from_host_env(host_env);
    let named = |paths: &[String]| -> Vec<PathBuf> {
        let paths = paths.iter();
        paths
            .flat_map(|path| expand_moved(path, command_line, host_env))
            .collect()
    };
    path_filter.create_missing_dirs(named(&command_line.writable).into_iter());

    let mut writable: Vec<PathBuf> = assignment
        .sandboxes
        .iter()
        .map(|sandbox| sandbox.path.clone())
        .collect();
    writable.extend([run_dir.out_dir.clone(), run_dir.tmp_dir.clone()]);
    writable.extend(path_filter.filter_allowed(named(&command_line.writable)));

    let mut readable = workplace.readable_paths.clone();
    readable.extend(run_files);
    let mut tools: Vec<PathBuf> = std::env::split_paths(host_env.path()).collect();
    let home = host_env.home.as_deref();
    tools.extend(relay);
    tools.extend(find_program_files(program, home, host_env.path()));
    for tool in HOME_TOOL_PATHS {
        tools.extend(expand_moved(&format!("~/{tool}"), command_line, host_env));
    }
    tools.extend(named(&command_line.readable));
    tools.extend(paths_named_by_variables(command_line, host_env));
    tools.extend(files_named_in_command(command_line, host_env));
    readable.extend(path_filter.filter_allowed(tools));

    let reach = ReachablePaths { writable, readable };
    match command_line.isolation {
        ActorIsolation::Required => Confinement::Required(reach),
        ActorIsolation::WherePossible | ActorIsolation::Off => Confinement::WherePossible(reach),
    }
}

/// Files that the command names, such as a script after its interpreter.
fn files_named_in_command(command_line: &CommandLine, host_env: &HostEnv) -> Vec<PathBuf> {
    let commands = [
        Some(&command_line.command),
        command_line.strategize.as_ref(),
        command_line.resume.as_ref(),
    ];
    let words = commands.into_iter().flatten().flatten();
    words
        .filter_map(|word| host_env.expand(word))
        .filter(|path| path.is_absolute() && path.is_file())
        .collect()
}

/// Removes denied paths.
struct PathFilter {
    denied: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl PathFilter {
    fn from_host_env(host_env: &HostEnv) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        Self {
            denied: host_env.out_of_reach.iter().map(real).collect(),
            home: host_env.home.as_ref().map(real),
        }
    }

    /// Keeps paths that exist, with symlinks resolved, and that neither contain a denied path, nor
    /// are inside one, nor contain the home directory.
    fn filter_allowed(&self, paths: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
        paths
            .into_iter()
            .filter(|path| path.is_absolute())
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| self.is_allowed(path))
    }

    fn is_allowed(&self, path: &Path) -> bool {
        let overlaps = |denied: &PathBuf| denied.starts_with(path) || path.starts_with(denied);
        let holds_home = |home: &PathBuf| home.starts_with(path);
        !self.denied.iter().any(overlaps) && !self.home.as_ref().is_some_and(holds_home)
    }

    /// Creates missing directories that a program cannot create itself: only an existing path can
    /// be opened to it. A path must end in a slash; an empty file instead would do harm.
    fn create_missing_dirs(&self, writable: impl Iterator<Item = PathBuf>) {
        let ends_in_slash = |path: &PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b"/");
        for path in writable.filter(ends_in_slash) {
            let existing_ancestor = path.ancestors().find(|path| path.exists());
            let real = existing_ancestor.and_then(|ancestor| {
                let rest = path.strip_prefix(ancestor).ok()?;
                let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
                let below = rest.components().all(is_name);
                below.then_some(ancestor.canonicalize().ok()?.join(rest))
            });
            if let Some(real) = real.filter(|real| real.is_absolute() && self.is_allowed(real)) {
                // If it cannot be created, the program reports that it is missing.
                let _ = std::fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(real);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn home_denied_paths_and_links_to_them_are_not_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap().join("home");
        let denied_dir = home.join(".local/share/planwright");
        for path in [
            ".local/share/planwright/sandboxes",
            ".local/bin",
            "tools",
            ".claude",
        ] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        symlink(&denied_dir, home.join("innocent")).unwrap();
        let path_filter = PathFilter::from_host_env(&HostEnv {
            environment: Vec::new(),
            home: Some(home.clone()),
            out_of_reach: vec![denied_dir.clone()],
            tool_relay: Vec::new(),
        });
        let listed = [
            "/",
            "relative",
            home.to_str().unwrap(),
            denied_dir.to_str().unwrap(),
            denied_dir.join("sandboxes").to_str().unwrap(),
            home.join(".local").to_str().unwrap(),
            home.join("innocent").to_str().unwrap(),
            home.join("missing").to_str().unwrap(),
            home.join(".local/bin").to_str().unwrap(),
            home.join(".claude").to_str().unwrap(),
        ]
        .map(PathBuf::from);
        let allowed: Vec<PathBuf> = path_filter.filter_allowed(listed.into()).collect();
        assert_eq!(allowed, [home.join(".local/bin"), home.join(".claude")]);
    }

    #[test]
    fn only_allowed_directories_are_created() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap().join("home");
        let denied_dir = home.join("ours");
        fs::create_dir_all(&denied_dir).unwrap();
        fs::write(home.join("file"), "").unwrap();
        symlink(&denied_dir, home.join("innocent")).unwrap();
        let host_env = HostEnv {
            environment: Vec::new(),
            home: Some(home.clone()),
            out_of_reach: vec![denied_dir.clone()],
            tool_relay: Vec::new(),
        };
        let listed = [
            "~/.agent/deep/",
            "~/.agent.json",
            "~/innocent/new/",
            "~/ours/new/",
            "~/none/../ours/new/",
            "~/file/new/",
            "relative/",
        ];
        PathFilter::from_host_env(&host_env)
            .create_missing_dirs(listed.iter().filter_map(|path| host_env.expand(path)));
        assert!(home.join(".agent/deep").is_dir());
        assert!(!home.join(".agent.json").exists() && !home.join("none").exists());
        assert_eq!(fs::read_dir(&denied_dir).unwrap().count(), 0);
        assert!(!Path::new("relative").exists());
    }
}
