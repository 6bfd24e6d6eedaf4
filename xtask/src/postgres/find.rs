//! Finds PostgreSQL's server programs. Distributions keep them out of PATH, in one directory per version.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use super::install;
use crate::signals::StopSignals;

/// The directory that holds `initdb`, `postgres` and `pg_ctl` of one version.
pub struct ServerPrograms {
    directory: PathBuf,
}

impl ServerPrograms {
    /// Finds the programs, or installs them with the system's package manager.
    pub fn find_or_install(signals: &StopSignals) -> anyhow::Result<Self> {
        if let Some(found) = Self::find() {
            return Ok(found);
        }
        install::install_postgres(signals)?;
        match Self::find() {
            Some(found) => Ok(found),
            None => {
                bail!("PostgreSQL is installed, but initdb, postgres and pg_ctl were not found")
            }
        }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn find() -> Option<Self> {
        candidate_directories()
            .iter()
            .find_map(|directory| resolve_complete_directory(directory))
            .map(|directory| Self { directory })
    }
}

/// The directories to search, best first.
fn candidate_directories() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = env::var_os("PATH")
        .map(|path| env::split_paths(&path).collect())
        .unwrap_or_default();
    all.extend(pg_config_directory());
    for (parent, prefix, below) in VERSIONED_DIRECTORIES {
        all.extend(newest_versions_first(
            parent,
            prefix,
            below,
            list_names(parent),
        ));
    }
    all.push("/usr/local/pgsql/bin".into());
    all
}

/// One directory per version: its parent, how its name starts, and where the programs are below it.
const VERSIONED_DIRECTORIES: &[(&str, &str, &str)] = &[
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr/libexec", "postgresql", ""),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
];

const REQUIRED_PROGRAMS: [&str; 3] = ["initdb", "postgres", "pg_ctl"];

/// The directory itself if every program is there. Links are followed to the directory in which the version
/// keeps all its programs, since the optional ones, such as pgbench, are often not linked.
fn resolve_complete_directory(directory: &Path) -> Option<PathBuf> {
    let has_all = |directory: &Path| {
        REQUIRED_PROGRAMS
            .iter()
            .all(|program| directory.join(program).is_file())
    };
    if !has_all(directory) {
        return None;
    }
    let real = fs::canonicalize(directory.join("postgres"))
        .ok()?
        .parent()?
        .to_owned();
    Some(if has_all(&real) {
        real
    } else {
        directory.to_owned()
    })
}

fn pg_config_directory() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let directory = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| directory.trim().into())
}

fn list_names(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn newest_versions_first(
    parent: &str,
    prefix: &str,
    below: &str,
    mut names: Vec<String>,
) -> Vec<PathBuf> {
    names.retain(|name| name.starts_with(prefix));
    names.sort_by_key(|name| std::cmp::Reverse(version_numbers(name)));
    names
        .iter()
        .map(|name| Path::new(parent).join(name).join(below))
        .collect()
}

/// The numbers in a directory's name: 17 in `postgresql@17`, 9 and 6 in `9.6`. Compared as numbers, since 9
/// is older than 15.
fn version_numbers(name: &str) -> Vec<u32> {
    name.split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_order(parent: &str, prefix: &str, below: &str, names: &[&str], expected: &[&str]) {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(
            newest_versions_first(parent, prefix, below, names),
            expected
        );
    }

    #[test]
    fn the_newest_version_comes_first() {
        check_order(
            "/lib/pg",
            "",
            "bin",
            &["9.6", "15", "17"],
            &["/lib/pg/17/bin", "/lib/pg/15/bin", "/lib/pg/9.6/bin"],
        );
        check_order(
            "/usr",
            "pgsql-",
            "bin",
            &["lib", "pgsql-9.6", "pgsql-16"],
            &["/usr/pgsql-16/bin", "/usr/pgsql-9.6/bin"],
        );
        check_order(
            "/opt",
            "postgresql",
            "bin",
            &["postgresql", "postgresql@14", "zlib"],
            &["/opt/postgresql@14/bin", "/opt/postgresql/bin"],
        );
    }

    #[test]
    fn a_directory_counts_only_with_every_program() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("initdb"), "").unwrap();
        fs::write(directory.path().join("postgres"), "").unwrap();
        assert_eq!(resolve_complete_directory(directory.path()), None);
        fs::write(directory.path().join("pg_ctl"), "").unwrap();
        assert_eq!(
            resolve_complete_directory(directory.path()),
            Some(fs::canonicalize(directory.path()).unwrap())
        );
    }

    #[test]
    fn links_lead_to_the_directory_of_the_version() {
        let version = tempfile::tempdir().unwrap();
        let links = tempfile::tempdir().unwrap();
        for program in REQUIRED_PROGRAMS {
            fs::write(version.path().join(program), "").unwrap();
            std::os::unix::fs::symlink(version.path().join(program), links.path().join(program))
                .unwrap();
        }
        assert_eq!(
            resolve_complete_directory(links.path()),
            Some(fs::canonicalize(version.path()).unwrap())
        );
    }
}
