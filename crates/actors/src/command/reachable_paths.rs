//! What a confined program reaches besides the system: its sandboxes, what it was given, its own
//! configuration, and the tools people install for themselves.
//!
//! Deliberately absent: the home directory as a whole, and files in it that hold what others are trusted
//! with, such as cargo's credentials or git's.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use plan::actor::{ActorIsolation, CommandLine};
use sandbox::{Confinement, ReachablePaths};

use super::run_dir::RunDir;
use crate::{Assignment, HostEnv, Workplace};

/// Tools in a home directory, the caches of package managers, and the settings that builds and git need.
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

/// What commands of repositories reach besides the system and the checkout they run in: tools and the caches of
/// package managers, to be read, and what the person lets them write and read.
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

/// Files that the command names, as a script after its interpreter does.
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

/// What belongs to a program that may be only a link to where it was installed.
fn package_paths(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Ok(real) = program.canonicalize() else {
        return Vec::new();
    };
    // The program itself, because its directory may be one that cannot be opened as a whole.
    let mut package: Vec<PathBuf> = vec![real.clone()];
    package.extend(real.parent().map(Path::to_owned));
    // A package of node's needs those beside it.
    let modules = real
        .ancestors()
        .filter(|path| path.file_name() == Some("node_modules".as_ref()));
    package.extend(modules.last().map(Path::to_owned));
    // What lies beside `bin` belongs to it, unless it is a place for all sorts of things, as `~/.local` is.
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

/// Keeps paths out of what is out of reach.
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

    /// Those of the paths that are there, wherever links lead, and neither hold what is closed nor lie in
    /// it, nor hold the whole home directory.
    fn filter_allowed(&self, paths: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
        paths
            .into_iter()
            .filter(|path| path.is_absolute())
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| self.is_allowed(path))
    }

    fn is_allowed(&self, path: &Path) -> bool {
        let overlaps = |closed: &PathBuf| closed.starts_with(path) || path.starts_with(closed);
        let holds_home = |home: &PathBuf| home.starts_with(path);
        !self.denied.iter().any(overlaps) && !self.home.as_ref().is_some_and(holds_home)
    }

    /// Makes directories that a program could not make for itself: what is not there cannot be opened to it.
    /// Those are meant that end in a slash; an empty file in place of one would be worse than none.
    fn create_missing_dirs(&self, writable: &[String], host_env: &HostEnv) {
        let directories = writable.iter().filter(|path| path.ends_with('/'));
        for path in directories.filter_map(|path| host_env.expand(path)) {
            let existing_ancestor = path.ancestors().find(|path| path.exists());
            let real = existing_ancestor.and_then(|there| {
                let rest = path.strip_prefix(there).ok()?;
                let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
                let below = rest.components().all(is_name);
                below.then_some(there.canonicalize().ok()?.join(rest))
            });
            if let Some(real) = real.filter(|real| real.is_absolute() && self.is_allowed(real)) {
                // What cannot be made is missed by the program, which says so.
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
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap().join("home");
        let ours = home.join(".local/share/planwright");
        for path in [
            ".local/share/planwright/sandboxes",
            ".local/bin",
            "tools",
            ".claude",
        ] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        symlink(&ours, home.join("innocent")).unwrap();
        let path_filter = PathFilter::from_host_env(&HostEnv {
            environment: Vec::new(),
            home: Some(home.clone()),
            out_of_reach: vec![ours.clone()],
        });
        let given = [
            "/",
            "relative",
            home.to_str().unwrap(),
            ours.to_str().unwrap(),
            ours.join("sandboxes").to_str().unwrap(),
            home.join(".local").to_str().unwrap(),
            home.join("innocent").to_str().unwrap(),
            home.join("missing").to_str().unwrap(),
            home.join(".local/bin").to_str().unwrap(),
            home.join(".claude").to_str().unwrap(),
        ]
        .map(PathBuf::from);
        let allowed: Vec<PathBuf> = path_filter.filter_allowed(given.into()).collect();
        assert_eq!(allowed, [home.join(".local/bin"), home.join(".claude")]);
    }

    #[test]
    fn only_allowed_directories_are_created() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap().join("home");
        let ours = home.join("ours");
        fs::create_dir_all(&ours).unwrap();
        fs::write(home.join("file"), "").unwrap();
        symlink(&ours, home.join("innocent")).unwrap();
        let host_env = HostEnv {
            environment: Vec::new(),
            home: Some(home.clone()),
            out_of_reach: vec![ours.clone()],
        };
        let given = [
            "~/.agent/deep/",
            "~/.agent.json",
            "~/innocent/new/",
            "~/ours/new/",
            "~/none/../ours/new/",
            "~/file/new/",
            "relative/",
        ];
        PathFilter::from_host_env(&host_env)
            .create_missing_dirs(&given.map(str::to_owned), &host_env);
        assert!(home.join(".agent/deep").is_dir());
        assert!(!home.join(".agent.json").exists() && !home.join("none").exists());
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
        assert!(!Path::new("relative").exists());
    }

    #[test]
    fn package_paths_include_the_installation_of_a_program() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap();
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
