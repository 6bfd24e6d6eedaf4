//! Paths a confined program may read or write, in addition to system directories: its sandboxes,
//! its own configuration, and tools in the user's home.
//!
//! Deliberately absent: the home directory as a whole, and files in it with credentials, such as
//! cargo's or git's.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use plan::actor::{ActorIsolation, CommandLine};
use sandbox::{Confinement, ReachablePaths};

use super::run_dir::RunDir;
use crate::{Assignment, HostEnv, Workplace};

/// Tools in a home directory, caches of package managers, and settings that builds and git need.
const HOME_TOOL_PATHS: &[&str] = &[
    ".asdf",
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
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".nvm",
    ".pnpm-store",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
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
    path_filter.create_missing_dirs(writable, host_env);
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

pub(super) fn build_confinement(
    command_line: &CommandLine,
    host_env: &HostEnv,
    program: &Path,
    (assignment, workplace, run_dir): (&Assignment, &Workplace<'_>, &RunDir),
) -> Confinement {
    if command_line.isolation == ActorIsolation::Off {
        return Confinement::Off;
    }
    let path_filter = PathFilter::from_host_env(host_env);
    path_filter.create_missing_dirs(&command_line.writable, host_env);
    let named = |paths: &[String]| -> Vec<PathBuf> {
        let paths = paths.iter().filter_map(|path| host_env.expand(path));
        paths.collect()
    };

    let mut writable: Vec<PathBuf> = assignment
        .sandboxes
        .iter()
        .map(|sandbox| sandbox.path.clone())
        .collect();
    writable.extend([run_dir.out_dir.clone(), run_dir.tmp_dir.clone()]);
    writable.extend(path_filter.filter_allowed(named(&command_line.writable)));

    let mut readable = workplace.readable_paths.clone();
    readable.extend([run_dir.assignment_file.clone(), run_dir.prompt_file.clone()]);
    let mut tools: Vec<PathBuf> = std::env::split_paths(host_env.path()).collect();
    tools.extend(package_paths(program, host_env.home.as_deref()));
    if let Some(home) = &host_env.home {
        tools.extend(HOME_TOOL_PATHS.iter().map(|tool| home.join(tool)));
    }
    tools.extend(named(&command_line.readable));
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

/// The files that belong to a program, which may be a symlink to its installation.
fn package_paths(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Ok(real) = program.canonicalize() else {
        return Vec::new();
    };
    // The program itself, because its directory may be too broad to be allowed.
    let mut package: Vec<PathBuf> = vec![real.clone()];
    package.extend(real.parent().map(Path::to_owned));
    // A node package needs the packages beside it.
    let modules = real
        .ancestors()
        .filter(|path| path.file_name() == Some("node_modules".as_ref()));
    package.extend(modules.last().map(Path::to_owned));
    // What lies beside `bin` belongs to the program, unless the directory is shared, like
    // `~/.local`.
    if let Some(prefix) = real
        .parent()
        .filter(|bin| bin.ends_with("bin"))
        .and_then(Path::parent)
    {
        let is_shared = home.is_some_and(|home| prefix == home || prefix.parent() == Some(home));
        if !is_shared {
            package.push(prefix.to_owned());
        }
    }
    package
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
    fn create_missing_dirs(&self, writable: &[String], host_env: &HostEnv) {
        let directories = writable.iter().filter(|path| path.ends_with('/'));
        for path in directories.filter_map(|path| host_env.expand(path)) {
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
            .create_missing_dirs(&listed.map(str::to_owned), &host_env);
        assert!(home.join(".agent/deep").is_dir());
        assert!(!home.join(".agent.json").exists() && !home.join("none").exists());
        assert_eq!(fs::read_dir(&denied_dir).unwrap().count(), 0);
        assert!(!Path::new("relative").exists());
    }

    #[test]
    fn package_paths_include_the_installation_of_a_program() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let real = home.join(".nvm/v22/lib/node_modules/@a/agent/cli.js");
        let bin = home.join(".nvm/v22/bin");
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::create_dir_all(&bin).unwrap();
        fs::write(&real, "").unwrap();
        symlink(&real, bin.join("agent")).unwrap();
        let paths = package_paths(&bin.join("agent"), Some(&home));
        assert!(
            paths.contains(&home.join(".nvm/v22/lib/node_modules")),
            "{paths:?}"
        );

        for (program, prefix, expected) in [
            (".local/bin/a", ".local", false),
            ("tools/b/bin/a", "tools/b", true),
        ] {
            let program = home.join(program);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "").unwrap();
            let paths = package_paths(&program, Some(&home));
            assert_eq!(paths.contains(&home.join(prefix)), expected, "{paths:?}");
        }
    }
}
