//! Reads declarations from Rust source, line by line. Enough for figures and simple checks, which need no
//! parser: the code is formatted, so a declaration starts its line.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;

/// A Rust file of the repository.
pub struct SourceFile {
    /// Relative to the root of the workspace.
    pub path: PathBuf,
    pub text: String,
}

/// A declared name and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Declaration {
    pub name: String,
    pub line: usize,
}

/// Every Rust file that git tracks, or would track.
pub fn read_source_files() -> anyhow::Result<Vec<SourceFile>> {
    let output = Command::new("git")
        .current_dir(cargo::workspace_root())
        .args(["ls-files", "-z", "--cached", "--others"])
        .args(["--exclude-standard", "--", "*.rs"])
        .output()
        .context("could not run git")?;
    ensure!(output.status.success(), "git ls-files failed");
    let mut files = Vec::new();
    for path in String::from_utf8(output.stdout)?.split_terminator('\0') {
        // The index still lists a file that was deleted and not yet staged.
        match fs::read_to_string(cargo::workspace_root().join(path)) {
            Ok(text) => files.push(SourceFile {
                path: PathBuf::from(path),
                text,
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(format!("could not read {path}")),
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    files.dedup_by(|left, right| left.path == right.path);
    Ok(files)
}

impl SourceFile {
    /// The structs, enums, unions and traits declared in this file.
    pub fn type_declarations(&self) -> Vec<Declaration> {
        self.declarations(|words| {
            let keyword = ["struct ", "enum ", "trait ", "union "];
            keyword.iter().find_map(|word| words.strip_prefix(word))
        })
    }

    /// The functions declared in this file, except tests: a test's name is a sentence.
    pub fn function_declarations(&self) -> Vec<Declaration> {
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let mut functions = self.declarations(|words| words.strip_prefix("fn "));
        functions.retain(|function| {
            let attributes = lines[..function.line - 1].iter().rev();
            !attributes
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| line.starts_with("#[test]"))
        });
        functions
    }

    fn declarations(&self, name_after: impl Fn(&str) -> Option<&str>) -> Vec<Declaration> {
        let lines = self.text.lines().enumerate();
        let found = lines.filter_map(|(index, line)| {
            let name: String = name_after(skip_modifiers(line.trim_start()))?
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            (!name.is_empty()).then_some(Declaration {
                name,
                line: index + 1,
            })
        });
        found.collect()
    }
}

/// A line without `pub`, `pub(…)`, `const`, `async` and `unsafe` in front.
fn skip_modifiers(line: &str) -> &str {
    let mut rest = line;
    loop {
        let modifiers = ["pub ", "const ", "async ", "unsafe "];
        if let Some(after) = modifiers.iter().find_map(|word| rest.strip_prefix(word)) {
            rest = after;
        } else if let Some((_, after)) = rest
            .strip_prefix("pub(")
            .and_then(|scope| scope.split_once(") "))
        {
            rest = after;
        } else {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_found_and_tests_are_not_functions() {
        let file = SourceFile {
            path: PathBuf::from("crates/plan/src/plan.rs"),
            text: "pub(crate) struct Plan {\n}\n// struct Comment\nenum PlanState {}\n\
                   pub const fn new() {}\n#[test]\nfn a_sentence() {}\nconst LIMIT: u8 = 1;\n"
                .to_owned(),
        };
        let names = |found: Vec<Declaration>| -> Vec<String> {
            found.into_iter().map(|one| one.name).collect()
        };
        assert_eq!(names(file.type_declarations()), ["Plan", "PlanState"]);
        assert_eq!(names(file.function_declarations()), ["new"]);
    }
}
