//! Finds the version of an installed program in the files around it. Starts nothing.

use std::path::Path;

/// The version of the package that a program belongs to. `None` if its files do not tell.
pub fn find_installed_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    find_node_version(&real)
        .or_else(|| find_python_version(&real))
        .or_else(|| find_version_in_name(&real))
}

/// From the manifest of the package that the program is in.
fn find_node_version(program: &Path) -> Option<String> {
    let manifest = find_node_manifest(program)?;
    Some(manifest.get("version")?.as_str()?.to_owned())
}

/// `package.json` of the innermost package that a program is in. `program` has no symlinks.
pub(crate) fn find_node_manifest(program: &Path) -> Option<serde_json::Value> {
    let mut directories = program.ancestors().skip(1);
    let package = directories.find(|directory| {
        let parent = directory.parent();
        let scope = parent.filter(|scope| file_name(scope).starts_with('@'));
        let modules = scope.map_or(parent, Path::parent);
        modules.is_some_and(|modules| file_name(modules) == "node_modules")
    })?;
    let manifest = std::fs::read_to_string(package.join("package.json")).ok()?;
    serde_json::from_str(&manifest).ok()
}

/// From the metadata of the Python package that the program is from: `aider_chat-0.86.2.dist-info`.
fn find_python_version(program: &Path) -> Option<String> {
    let prefix = program.parent()?.parent()?;
    let libraries = std::fs::read_dir(prefix.join("lib")).ok()?.flatten();
    let pythons =
        libraries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python"));
    let packages =
        pythons.filter_map(|python| std::fs::read_dir(python.path().join("site-packages")).ok());
    let mut versions = packages.flatten().flatten().filter_map(|entry| {
        let directory = entry.file_name();
        let package = directory.to_str()?.strip_suffix(".dist-info")?;
        let (_, version) = package.split_once('-')?;
        has_script(&entry.path(), &file_name(program)).then(|| version.to_owned())
    });
    versions.next()
}

/// Does the package with this metadata bring a script of this name?
fn has_script(metadata: &Path, name: &str) -> bool {
    let entry_points = std::fs::read_to_string(metadata.join("entry_points.txt"));
    let entry_points = entry_points.unwrap_or_default();
    let mut lines = entry_points.lines();
    lines.any(|line| {
        let script = line.split_once('=').map(|(script, _)| script.trim());
        script == Some(name)
    })
}

/// Some installers name the program after its version: `~/.local/share/claude/versions/2.1.326`.
fn find_version_in_name(program: &Path) -> Option<String> {
    let name = file_name(program);
    parse_version(&name).map(|_| name)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Is this version older than the other one? `false` if one of them is not a version.
pub fn is_older_version(version: &str, other: &str) -> bool {
    parse_version(version)
        .zip(parse_version(other))
        .is_some_and(|(version, other)| version < other)
}

/// The numbers of a version such as `2.1.326` or `1.0.0-beta.1`.
fn parse_version(version: &str) -> Option<Vec<u64>> {
    parse_numbers(version).filter(|numbers| numbers.len() > 1)
}

/// The same, or only the first number, such as `22`.
pub(crate) fn parse_numbers(version: &str) -> Option<Vec<u64>> {
    let numbers = version.split(['-', '+']).next()?;
    numbers
        .split('.')
        .map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn version_is_read_from_the_files_of_a_program() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        let check = |path: &str, expected: Option<&str>| {
            let version = find_installed_version(&root.join(path));
            assert_eq!(version.as_deref(), expected, "{path}");
        };
        let package = "npm/lib/node_modules/@a/agent";
        write(&format!("{package}/bin/cli.js"), "");
        write(
            &format!("{package}/package.json"),
            r#"{"version": "2.1.197"}"#,
        );
        // The package of a dependency does not count.
        write(
            &format!("{package}/bin/package.json"),
            r#"{"version": "1.0.0"}"#,
        );
        fs::create_dir_all(root.join("npm/bin")).unwrap();
        symlink(
            root.join(package).join("bin/cli.js"),
            root.join("npm/bin/agent"),
        )
        .unwrap();
        check("npm/bin/agent", Some("2.1.197"));

        write("venv/bin/aider", "");
        write("venv/bin/vibe", "");
        write("venv/bin/vibe-acp", "");
        write("venv/bin/other", "");
        for (metadata, scripts) in [
            ("aider_chat-0.86.2", "aider = aider.main:main\n"),
            (
                "mistral_vibe-3.0.2",
                "vibe = vibe.cli:main\nvibe-acp = vibe.acp:main\n",
            ),
            ("httpx-0.1.0", "httpx = httpx:main\n"),
        ] {
            let file =
                format!("venv/lib/python3.12/site-packages/{metadata}.dist-info/entry_points.txt");
            write(&file, &format!("[console_scripts]\n{scripts}"));
        }
        check("venv/bin/aider", Some("0.86.2"));
        check("venv/bin/vibe", Some("3.0.2"));
        check("venv/bin/vibe-acp", Some("3.0.2"));
        check("venv/bin/other", None);

        write("share/claude/versions/2.1.326", "");
        symlink(
            root.join("share/claude/versions/2.1.326"),
            root.join("claude"),
        )
        .unwrap();
        check("claude", Some("2.1.326"));
        write("bin/agent", "");
        check("bin/agent", None);
        check("bin/missing", None);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, other, expected) in [
            ("2.1.197", "2.1.326", true),
            ("2.1.1000", "2.1.326", false),
            ("2.1.326", "2.1.326", false),
            ("0.9", "0.10.1", true),
            ("1.0.0-beta.2", "1.0.1", true),
            ("unknown", "1.0.0", false),
        ] {
            assert_eq!(
                is_older_version(version, other),
                expected,
                "{version} {other}"
            );
        }
    }
}
