//! Nobody else can read what is in the home, whatever the umask.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::Program;

use crate::yard::Yard;

/// A program that is run with this umask, and the directory that has to stay as long as it is used.
fn program_with_umask(umask: &str) -> (Program, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("planwright");
    let program = env!("CARGO_BIN_EXE_planwright");
    let text = format!("#!/bin/sh\numask {umask}\nexec '{program}' \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    set_mode(&script, 0o755);
    (Program::new(script), place)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

/// Everything below a directory that others have a right to. What is in a working copy has the modes that git gives
/// it; only its own directory counts.
fn open_to_others(directory: &Path, working_copies: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_symlink() {
            continue;
        }
        if mode_of(&path) & 0o077 != 0 {
            found.push(format!("{:o} {}", mode_of(&path), path.display()));
        }
        if metadata.is_dir() && !working_copies.contains(&path) {
            found.extend(open_to_others(&path, working_copies));
        }
    }
    found
}

#[test]
fn everything_in_the_home_is_private_whatever_the_umask() {
    for (umask, plain, executable) in [("000", 0o666, 0o777), ("022", 0o644, 0o755)] {
        let (program, _place) = program_with_umask(umask);
        let yard = Yard::with(program);
        let home = yard.program.home().to_owned();
        let actor = "name: scribe\nkind: command\ncommand: [sh, -c, 'date > made.txt']\n";
        let actor = yard.write_beside("scribe.yaml", actor);
        yard.ok(&["actor", "add", &actor]);
        yard.ok(&["config", "set", "budget.cost", "50"]);
        let notes = yard.write_beside("notes/a.txt", "one\n");
        let notes = Path::new(&notes).parent().unwrap().to_str().unwrap();
        yard.ok(&["project", "create", "notes", "--dir", notes]);
        yard.handed_in_to("notes", |sandbox| {
            std::fs::write(sandbox.join("a.txt"), "two\n").unwrap();
        });
        yard.write("late.txt", "not committed\n");
        yard.ok(&["use", "tidy", "shop", "--with-changes"]);
        let landed = yard.handed_in(|sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
            std::fs::write(sandbox.join("run.sh"), "#!/bin/sh\n").unwrap();
            set_mode(&sandbox.join("run.sh"), 0o700);
        });
        let said = yard.run(&[
            "run",
            "--actor",
            "scribe",
            "--project",
            "shop",
            "Write a line",
        ]);
        assert_eq!(said.code(), Some(6), "{said:?}");
        let (_, working) = yard.working();
        let sandboxes = home.join("sandboxes");
        let working_copies: Vec<PathBuf> = std::fs::read_dir(&sandboxes)
            .unwrap()
            .flat_map(|plan| std::fs::read_dir(plan.unwrap().path()).unwrap())
            .flat_map(|epoch| std::fs::read_dir(epoch.unwrap().path()).unwrap())
            .map(|room| room.unwrap().path())
            .filter(|room| room.is_dir())
            .collect();
        assert!(working_copies.contains(&working));
        yard.ok(&["diff", &landed]);
        let copy = home.join("copy.db");
        yard.ok(&["store", "backup", copy.to_str().unwrap()]);
        let open = open_to_others(&home, &working_copies);
        assert!(open.is_empty(), "umask {umask}:\n{}", open.join("\n"));
        // What lands is as open as the person's umask says.
        std::fs::remove_file(yard.shop().join("late.txt")).unwrap();
        yard.ok(&["apply", &landed, "--yes"]);
        assert_eq!(mode_of(&yard.shop().join("new.txt")), plain);
        assert_eq!(mode_of(&yard.shop().join("run.sh")), executable);
        assert_eq!(mode_of(&yard.shop().join(".git/index")), plain);
    }
}

/// A home is made for its owner alone, and one of an earlier version is closed by the next write.
#[test]
fn a_home_is_closed_unless_it_is_shared() {
    for shared in [false, true] {
        let yard = Yard::new();
        let home = yard.program.home().to_owned();
        let plan = yard.usual();
        let other = home.join("other.txt");
        if shared {
            std::fs::write(&other, "of somebody\n").unwrap();
            set_mode(&other, 0o644);
        }
        for open in ["", "sandboxes", "vaults"] {
            set_mode(&home.join(open), 0o755);
        }
        yard.ok(&["diff", &plan]);
        assert_eq!(
            mode_of(&home.join("vaults")),
            0o755,
            "reading changes nothing"
        );
        yard.ok(&["revise", &plan, "more"]);
        yard.ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
        assert_eq!(mode_of(&home.join("sandboxes")), 0o700);
        assert_eq!(mode_of(&home.join("vaults")), 0o700);
        assert_eq!(mode_of(&home), if shared { 0o755 } else { 0o700 });
        if shared {
            assert_eq!(mode_of(&other), 0o644);
        }
    }
    let yard = Yard::new();
    let home = yard.program.home().join("new/home");
    let home = home.to_str().unwrap();
    let said = yard.program.run(["config", "set", "budget.cost", "1"]);
    let said = said.set("PLANWRIGHT_HOME", home).finish();
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert_eq!(mode_of(Path::new(home)), 0o700);
    assert_eq!(mode_of(&Path::new(home).join("config.yaml")), 0o600);
}
