//! Finds the files that a program needs to start: its installation, its interpreter, and the
//! installation of that. Wherever a person put them, also right below the home directory.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::program;

/// How many interpreters are followed: a wrapper script may be run by a script.
const MAX_INTERPRETERS: usize = 4;

/// Enough for the first lines of a script.
const MAX_HEAD_BYTES: u64 = 4 * 1024;

pub(super) fn find_program_files(
    program: &Path,
    home: Option<&Path>,
    search_path: &OsStr,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut next_program = Some(program.to_owned());
    for _ in 0..=MAX_INTERPRETERS {
        let Some(program) = next_program else { break };
        files.extend(find_installation(&program, home));
        next_program = find_interpreter(&program, search_path);
    }
    files
}

/// The files that belong to a program, which may be a symlink to its installation.
fn find_installation(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Ok(real) = program.canonicalize() else {
        return Vec::new();
    };
    // The program itself, because its directory may be too broad to be allowed.
    let mut files: Vec<PathBuf> = vec![real.clone()];
    files.extend(real.parent().map(Path::to_owned));
    // A node package needs the packages beside it.
    let modules = real
        .ancestors()
        .filter(|path| path.file_name() == Some("node_modules".as_ref()));
    files.extend(modules.last().map(Path::to_owned));
    // In a virtual environment, the interpreter is a symlink, and what it needs is beside the
    // symlink as well as beside its target.
    for path in [program, &real] {
        if let Some(prefix) = prefix_of(path) {
            files.extend(find_prefix_files(prefix, home));
        }
    }
    files
}

/// The directory that holds `bin`.
fn prefix_of(program: &Path) -> Option<&Path> {
    let bin = program.parent().filter(|bin| bin.ends_with("bin"));
    bin.and_then(Path::parent)
}

/// What lies beside `bin` and belongs to the programs in it.
fn find_prefix_files(prefix: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    if home == Some(prefix) {
        return Vec::new();
    }
    let venv_config = prefix.join("pyvenv.cfg");
    if venv_config.is_file() {
        let mut files = vec![prefix.to_owned()];
        if let Some(base_prefix) = read_base_python(&venv_config)
            .as_deref()
            .and_then(prefix_of)
        {
            files.extend(find_prefix_files(base_prefix, home));
        }
        return files;
    }
    let is_conda_environment = prefix.join("conda-meta").is_dir();
    // Right below the home, a prefix may hold other things too, as `~/.local` does.
    let is_shared = home.is_some_and(|home| prefix.parent() == Some(home));
    if is_conda_environment || !is_shared {
        return vec![prefix.to_owned()];
    }
    let libraries = ["lib", "lib64", "libexec"];
    libraries.map(|name| prefix.join(name)).into()
}

/// The Python that a virtual environment was made with.
fn read_base_python(venv_config: &Path) -> Option<PathBuf> {
    let config = read_head(venv_config)?;
    let mut settings = config.lines().filter_map(|line| line.split_once('='));
    let (_, bin) = settings.find(|(key, _)| key.trim() == "home")?;
    Path::new(bin.trim())
        .canonicalize()
        .ok()?
        .join("python")
        .into()
}

/// The program that runs a script. `None` if it is not a script.
pub(crate) fn find_interpreter(script: &Path, search_path: &OsStr) -> Option<PathBuf> {
    let head = read_head(script)?;
    let mut lines = head.strip_prefix("#!")?.lines();
    let mut words = lines.next()?.split_whitespace();
    let interpreter = Path::new(words.next()?);
    // If a path is too long for the first line, pip writes a shell script that Python ignores.
    if let Some(command) = lines.next().and_then(|line| line.strip_prefix("'''exec' ")) {
        let path = match command.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => command.split_whitespace().next(),
        };
        return path.map(PathBuf::from);
    }
    if interpreter.file_name() != Some("env".as_ref()) {
        return Some(interpreter.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    program::find_program(OsStr::new(name), search_path, None)
}

/// The beginning of a text file.
pub(crate) fn read_head(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MAX_HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A home with programs, each with its parent directories.
    struct TestHome {
        _directory: tempfile::TempDir,
        path: PathBuf,
    }

    impl TestHome {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().canonicalize().unwrap();
            Self {
                _directory: directory,
                path,
            }
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn link(&self, name: &str, target: &Path) -> PathBuf {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, &path).unwrap();
            path
        }

        #[track_caller]
        fn check(&self, program: &Path, needed: &[&str], not_needed: &[&str]) {
            let search_path = self.path.join("node-v24/bin");
            let files = find_program_files(program, Some(&self.path), search_path.as_os_str());
            for name in needed {
                assert!(files.contains(&self.path.join(name)), "{name}: {files:?}");
            }
            for name in not_needed {
                assert!(!files.contains(&self.path.join(name)), "{name}: {files:?}");
            }
        }
    }

    #[test]
    fn virtual_environment_below_the_home_is_found_with_its_python() {
        let home = TestHome::new();
        home.write("python3.12/bin/python3.12", "\u{7f}ELF");
        let base_bin = home.path.join("python3.12/bin");
        home.write(
            "aider-env/pyvenv.cfg",
            &format!("home = {}\nversion = 3.12\n", base_bin.display()),
        );
        let python = home.link("aider-env/bin/python", &base_bin.join("python3.12"));
        let script = format!("#!{}\nimport sys\n", python.display());
        let aider = home.write("aider-env/bin/aider", &script);
        let needed = ["aider-env", "python3.12/lib", "python3.12/bin/python3.12"];
        home.check(&aider, &needed, &["python3.12", ""]);

        // As written by pip if the first line would be too long, and linked by pipx.
        let script = format!(
            "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n",
            python.display()
        );
        let long = home.write("aider-env/bin/long", &script);
        home.check(&home.link(".local/bin/long", &long), &needed, &[".local"]);
        // A script elsewhere that runs in the environment.
        let script = home.write("bin/script", &format!("#!{}\n", python.display()));
        home.check(&script, &needed, &[]);
        // A copied interpreter is not a symlink: its base is only in the configuration.
        fs::remove_file(&python).unwrap();
        home.write("aider-env/bin/python", "\u{7f}ELF");
        home.check(&aider, &["aider-env", "python3.12/lib"], &[]);
    }

    #[test]
    fn conda_environment_below_the_home_is_found() {
        let home = TestHome::new();
        fs::create_dir_all(home.path.join("miniconda3/conda-meta")).unwrap();
        let python = home.write("miniconda3/bin/python", "\u{7f}ELF");
        let script = format!("#!{}\n", python.display());
        let agent = home.write("miniconda3/bin/agent", &script);
        home.check(&agent, &["miniconda3"], &[]);
    }

    #[test]
    fn node_of_a_script_is_found() {
        let home = TestHome::new();
        home.write("node-v24/bin/node", "\u{7f}ELF");
        let script = "#!/usr/bin/env -S node --no-warnings\n";
        let cli = home.write("prefix/lib/node_modules/@a/agent/cli.js", script);
        let agent = home.link("prefix/bin/agent", &cli);
        home.check(
            &agent,
            &["prefix/lib/node_modules", "node-v24/lib", "node-v24/bin"],
            &["prefix", "node-v24"],
        );
    }

    #[test]
    fn prefix_is_readable_unless_it_is_shared() {
        let home = TestHome::new();
        let shared = home.write(".local/bin/a", "");
        home.check(&shared, &[".local/bin", ".local/lib"], &[".local"]);
        let own = home.write("tools/b/bin/b", "");
        home.check(&own, &["tools/b"], &[]);
        let in_home = home.write("bin/c", "");
        home.check(&in_home, &["bin", "bin/c"], &["", "lib"]);
    }
}
