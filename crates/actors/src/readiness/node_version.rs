//! The Node.js that an agent's package asks for, and the one that would run it.

use std::ffi::OsStr;
use std::path::Path;

use super::MissingNeed;
use crate::command::{find_interpreter, read_head};
use crate::installed_version::{find_node_manifest, parse_numbers};

/// `None` if the agent is not a Node.js script, or if its files do not tell that the version is too old.
pub(super) fn find_missing_node(program: &Path, search_path: &OsStr) -> Option<MissingNeed> {
    let real = program.canonicalize().ok()?;
    let manifest = find_node_manifest(&real)?;
    let range = manifest["engines"]["node"].as_str()?;
    // Other ranges are rare, and not worth a guess.
    let lowest = parse_numbers(range.trim().strip_prefix(">=")?.trim())?;
    let found = match find_interpreter(&real, search_path) {
        Some(node) => Some(parse_numbers(&find_node_version(&node)?)?),
        // A script names its interpreter; the rest are programs.
        None if is_node_script(&real) => None,
        None => return None,
    };
    let is_too_old = found.as_ref().is_none_or(|found| *found < lowest);
    is_too_old.then(|| MissingNeed::Node {
        lowest: join_numbers(&lowest),
        found: found.as_deref().map(join_numbers),
    })
}

fn join_numbers(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    numbers.join(".")
}

fn is_node_script(program: &Path) -> bool {
    let head = read_head(program).unwrap_or_default();
    let first = head.lines().next().unwrap_or_default();
    first.starts_with("#!") && first.contains("node")
}

/// From the headers beside it, the package that it is in, or the name of a directory such as `v22.1.0`.
fn find_node_version(node: &Path) -> Option<String> {
    let real = node.canonicalize().ok()?;
    if real.file_name() != Some(OsStr::new("node")) {
        return None;
    }
    let prefix = real.parent()?.parent()?;
    read_header_version(&prefix.join("include/node/node_version.h"))
        .or_else(|| {
            let manifest = find_node_manifest(&real)?;
            Some(manifest["version"].as_str()?.to_owned())
        })
        .or_else(|| real.ancestors().skip(1).find_map(read_name_version))
}

fn read_header_version(header: &Path) -> Option<String> {
    let text = std::fs::read_to_string(header).ok()?;
    let number = |name: &str| {
        let define = format!("#define NODE_{name}_VERSION ");
        let line = text.lines().find_map(|line| line.strip_prefix(&define))?;
        line.trim().parse::<u64>().ok()
    };
    let (major, minor, patch) = (number("MAJOR")?, number("MINOR")?, number("PATCH")?);
    Some(format!("{major}.{minor}.{patch}"))
}

/// `v22.1.0`, `22.1.0` or `node-v22.1.0-linux-x64`.
fn read_name_version(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let name = name.strip_prefix("node-").unwrap_or(name);
    let version = name.strip_prefix('v').unwrap_or(name);
    let version = version.split('-').next()?;
    let numbers = parse_numbers(version)?;
    (numbers.len() == 3).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_node_is_read_from_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let check = |path: &str, expected: Option<&str>| {
            let node = root.join(path);
            std::fs::create_dir_all(node.parent().unwrap()).unwrap();
            std::fs::write(&node, "").unwrap();
            assert_eq!(find_node_version(&node).as_deref(), expected, "{path}");
        };
        check("versions/node/v20.1.0/bin/node", Some("20.1.0"));
        check("opt/node-v22.3.4-linux-x64/bin/node", Some("22.3.4"));
        check("Cellar/node/24.0.1/bin/node", Some("24.0.1"));
        check("plain/bin/node", None);
        check("v20.1.0/bin/other", None);
        let header = root.join("system/include/node/node_version.h");
        std::fs::create_dir_all(header.parent().unwrap()).unwrap();
        let defines = "#define NODE_MAJOR_VERSION 18\n#define NODE_MINOR_VERSION 2\n#define NODE_PATCH_VERSION 0\n";
        std::fs::write(header, defines).unwrap();
        check("system/bin/node", Some("18.2.0"));
    }
}
