//! `cargo xtask dist`: makes what is published: a tarball, a Debian package, checksums and the install script.
//!
//! The binary is linked statically against musl, so that it runs on any Linux with a recent kernel. Archives of the
//! same commit have the same content: file times are the commit's, owners are root.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

use crate::signals::StopSignals;
use crate::{cargo, child, man};

/// Make a tarball, a Debian package, checksums and the install script
#[derive(clap::Args)]
pub struct DistArgs {
    /// Target to build for [default: this machine's architecture, statically linked]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Directory to write to [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const INSTALL_SCRIPT: &str = include_str!("../assets/install.sh");

/// Shells with completions: the name, and the file below `share`.
const COMPLETION_FILES: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/planwright"),
    ("zsh", "zsh/site-functions/_planwright"),
    ("fish", "fish/vendor_completions.d/planwright.fish"),
];

/// Zsh loads the file as a function. Its first call has to complete, too, not only to register.
const ZSH_FIRST_CALL: &str =
    "\n[[ $funcstack[1] == _planwright ]] && _clap_dynamic_completer_planwright\n";

const DOCUMENTS: [&str; 5] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

#[expect(clippy::print_stdout, reason = "the files are this command's output")]
pub fn run(arguments: &DistArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let target = match &arguments.target {
        Some(target) => target.clone(),
        None => format!("{}-unknown-linux-musl", std::env::consts::ARCH),
    };
    let out = match &arguments.out {
        Some(directory) => std::path::absolute(directory)?,
        None => cargo::target_directory()?.join("dist"),
    };
    let binary = build_binary(&target, &signals)?;
    let staging = tempfile::tempdir().context("no temporary directory")?;
    let release = Release {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target,
        commit_time: read_commit_time()?,
    };
    let tree = staging.path().join(release.tree_name());
    stage_files(&tree, &binary, &signals)?;
    fs::create_dir_all(&out)?;
    let tarball = out.join(format!("{}.tar.gz", release.tree_name()));
    release.write_tarball(&tree, &tarball)?;
    let mut made = vec![tarball];
    if let Some(architecture) = release.debian_architecture() {
        let package = out.join(format!("planwright_{}_{architecture}.deb", release.version));
        release.write_debian_package(&tree, architecture, &package)?;
        made.push(package);
    }
    let script = out.join("install.sh");
    fs::write(&script, INSTALL_SCRIPT)?;
    made.push(script);
    made.push(write_checksums(&out, &made)?);
    for file in made {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// What the archives are named after and dated with.
struct Release {
    version: String,
    target: String,
    /// Seconds since 1970.
    commit_time: u64,
}

impl Release {
    fn tree_name(&self) -> String {
        format!("planwright-{}-{}", self.version, self.target)
    }

    /// Debian's name of the architecture; `None` for one that we make no package for.
    fn debian_architecture(&self) -> Option<&'static str> {
        match self.target.split('-').next() {
            Some("x86_64") => Some("amd64"),
            Some("aarch64") => Some("arm64"),
            Some(_) | None => None,
        }
    }

    fn write_tarball(&self, tree: &Path, tarball: &Path) -> anyhow::Result<()> {
        let parent = tree.parent().context("the tree has no parent")?;
        self.make_archive(parent, &self.tree_name(), tarball)
    }

    /// Archives a directory or `.` with names, times and owners that do not depend on this machine.
    fn make_archive(&self, directory: &Path, content: &str, archive: &Path) -> anyhow::Result<()> {
        let mut command = Command::new("tar");
        command
            .arg("--create")
            .args(["--sort=name", "--format=gnu", "--mode=go-w"])
            .args(["--owner=0", "--group=0", "--numeric-owner"])
            .arg(format!("--mtime=@{}", self.commit_time))
            .arg("--use-compress-program=gzip --no-name")
            .arg("--file")
            .arg(archive)
            .arg("--directory")
            .args([directory.as_os_str(), content.as_ref()]);
        run_tool(&mut command)
    }

    /// Writes a Debian package: an `ar` archive of a version, control files and the files to install.
    fn write_debian_package(
        &self,
        tree: &Path,
        architecture: &str,
        package: &Path,
    ) -> anyhow::Result<()> {
        let work = tempfile::tempdir().context("no temporary directory")?;
        let root = work.path().join("root");
        let usr = root.join("usr");
        copy_tree(tree, &usr)?;
        // Debian's zsh looks in another directory than zsh by itself.
        let zsh = usr.join("share/zsh");
        fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))?;
        let licence = usr.join("share/doc/planwright/LICENSE");
        fs::rename(&licence, licence.with_file_name("copyright"))?;
        let size_kib = directory_bytes(&root)?.div_ceil(1024);
        let control = format!(
            "Package: planwright\nVersion: {}\nArchitecture: {architecture}\n\
             Maintainer: Planwright maintainers <maintainers@planwright.invalid>\nInstalled-Size: {size_kib}\n\
             Depends: git\nSection: devel\nPriority: optional\n\
             Description: transactional plan engine for AI agents\n \
             Agents work in a private copy of a repository. Rules are checked in code, and\n \
             what is approved lands exactly once or not at all.\n",
            self.version
        );
        let control_directory = work.path().join("control");
        fs::create_dir(&control_directory)?;
        fs::write(control_directory.join("control"), control)?;
        let control_archive = work.path().join("control.tar.gz");
        self.make_archive(&control_directory, ".", &control_archive)?;
        let data_archive = work.path().join("data.tar.gz");
        self.make_archive(&root, ".", &data_archive)?;
        let members = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar.gz", fs::read(control_archive)?),
            ("data.tar.gz", fs::read(data_archive)?),
        ];
        fs::write(package, self.ar_archive(&members)?)?;
        Ok(())
    }

    /// The bytes of an `ar` archive, with fixed owners and modes.
    fn ar_archive(&self, members: &[(&str, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
        let mut archive = b"!<arch>\n".to_vec();
        for (name, content) in members {
            let (time, size) = (self.commit_time, content.len());
            writeln!(
                archive,
                "{name:<16}{time:<12}0     0     100644  {size:<10}`"
            )?;
            archive.extend(content);
            if size % 2 == 1 {
                archive.push(b'\n');
            }
        }
        Ok(archive)
    }
}

/// Builds the release binary and returns its path.
fn build_binary(target: &str, signals: &StopSignals) -> anyhow::Result<PathBuf> {
    let mut command = cargo::cargo_command();
    let build = ["build", "--release", "--package", "planwright"];
    command.args(build).args(["--target", target]);
    let status = child::run_child(&mut command, signals).context("could not run cargo")?;
    if !status.success() {
        bail!(
            "the build for {target} failed. It needs the target and, for musl, a C compiler:\n  \
             rustup target add {target}\n  apt-get install musl-tools"
        );
    }
    let directory = cargo::target_directory()?.join(target);
    Ok(directory.join("release").join("planwright"))
}

/// Lays out the tree of the tarball, which is also a prefix such as `/usr/local`.
fn stage_files(tree: &Path, binary: &Path, signals: &StopSignals) -> anyhow::Result<()> {
    let share = tree.join("share");
    fs::create_dir_all(tree.join("bin"))?;
    fs::copy(binary, tree.join("bin/planwright")).context("the binary is missing")?;
    man::write_pages(&share.join("man/man1"), signals)?;
    for (shell, file) in COMPLETION_FILES {
        let mut command = Command::new(binary);
        let output = command.args(["completions", shell]).output();
        let output = output.context("the binary does not run on this machine")?;
        ensure!(
            output.status.success(),
            "planwright completions {shell} failed"
        );
        let mut script = output.stdout;
        if shell == "zsh" {
            script.extend(ZSH_FIRST_CALL.bytes());
        }
        let path = share.join(file);
        fs::create_dir_all(path.parent().context("a file has a parent")?)?;
        fs::write(path, script)?;
    }
    let documents = share.join("doc/planwright");
    fs::create_dir_all(&documents)?;
    for name in DOCUMENTS {
        fs::copy(cargo::workspace_root().join(name), documents.join(name))
            .with_context(|| format!("{name} is missing"))?;
    }
    Ok(())
}

/// Writes `SHA256SUMS` for files of a directory, as `sha256sum --check` reads it.
fn write_checksums(directory: &Path, files: &[PathBuf]) -> anyhow::Result<PathBuf> {
    let names = files.iter().filter_map(|file| file.file_name());
    let output = Command::new("sha256sum")
        .current_dir(directory)
        .arg("--")
        .args(names)
        .output()
        .context("could not run sha256sum")?;
    ensure!(output.status.success(), "sha256sum failed");
    let sums = directory.join("SHA256SUMS");
    fs::write(&sums, output.stdout)?;
    Ok(sums)
}

fn read_commit_time() -> anyhow::Result<u64> {
    let output = Command::new("git")
        .current_dir(cargo::workspace_root())
        .args(["log", "-1", "--format=%ct"])
        .output()
        .context("could not run git")?;
    let text = String::from_utf8(output.stdout)?;
    text.trim().parse().context("git knows no commit time")
}

fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("cp");
    run_tool(command.args(["-R", "--"]).args([from, to]).current_dir({
        let parent = to.parent().context("a directory has a parent")?;
        fs::create_dir_all(parent)?;
        parent
    }))
}

fn directory_bytes(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => directory_bytes(&entry.path())?,
            false => metadata.len(),
        };
    }
    Ok(bytes)
}

fn run_tool(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("could not run {name}"))?;
    ensure!(status.success(), "{name} failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A release as small as it can be: the tarball, the sums and the script.
    fn make_release(directory: &Path) -> PathBuf {
        let release = Release {
            version: "1.2.3".to_owned(),
            target: format!("{}-unknown-linux-musl", std::env::consts::ARCH),
            commit_time: 1_700_000_000,
        };
        let tree = directory.join(release.tree_name());
        for (file, text) in [
            ("bin/planwright", "#!/bin/sh\necho planwright 1.2.3\n"),
            ("share/man/man1/planwright.1", ".TH planwright 1\n"),
        ] {
            let path = tree.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        }
        run_tool(
            Command::new("chmod")
                .arg("755")
                .arg(tree.join("bin/planwright")),
        )
        .unwrap();
        let tarball = directory.join(format!("{}.tar.gz", release.tree_name()));
        release.write_tarball(&tree, &tarball).unwrap();
        write_checksums(directory, std::slice::from_ref(&tarball)).unwrap();
        fs::write(directory.join("install.sh"), INSTALL_SCRIPT).unwrap();
        tarball
    }

    fn install(directory: &Path, prefix: &Path) -> (bool, String) {
        let mut command = Command::new("sh");
        command
            .arg(directory.join("install.sh"))
            .arg("--prefix")
            .arg(prefix);
        let output = command.arg("--from").arg(directory).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    #[test]
    fn the_install_script_installs_a_release_and_replaces_an_older_one() {
        let place = tempfile::tempdir().unwrap();
        make_release(place.path());
        let prefix = place.path().join("prefix");
        for _ in 0..2 {
            let (ok, said) = install(place.path(), &prefix);
            assert!(ok, "{said}");
            let ran = Command::new(prefix.join("bin/planwright"))
                .output()
                .unwrap();
            assert_eq!(ran.stdout, b"planwright 1.2.3\n");
            assert!(prefix.join("share/man/man1/planwright.1").exists());
        }
    }

    #[test]
    fn the_install_script_refuses_what_does_not_match_its_checksum() {
        let place = tempfile::tempdir().unwrap();
        let tarball = make_release(place.path());
        let mut bytes = fs::read(&tarball).unwrap();
        bytes.push(0);
        fs::write(&tarball, bytes).unwrap();
        let prefix = place.path().join("prefix");
        let (ok, said) = install(place.path(), &prefix);
        assert!(!ok, "{said}");
        assert!(said.contains("checksum"), "{said}");
        assert!(!prefix.exists());
    }

    #[test]
    fn archives_of_the_same_files_are_equal() {
        let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = places
            .each_ref()
            .map(|place| fs::read(make_release(place.path())).unwrap());
        assert!(one == other);
    }

    #[test]
    fn members_of_a_package_are_padded_to_even_lengths() {
        let release = Release {
            version: String::new(),
            target: String::new(),
            commit_time: 7,
        };
        let members = [("a", b"odd".to_vec()), ("b", b"even".to_vec())];
        let archive = String::from_utf8(release.ar_archive(&members).unwrap()).unwrap();
        assert_eq!(
            archive,
            "!<arch>\n\
             a               7           0     0     100644  3         `\nodd\n\
             b               7           0     0     100644  4         `\neven"
        );
    }
}
