//! Nobody else can read what is in the home, whatever the umask.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testkit::TestProgram;

use crate::shop_repository::ShopRepository;

/// A program that is run with this umask, and the directory that has to stay as long as it is used.
fn program_with_umask(umask: &str) -> (TestProgram, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("planwright");
    let program = env!("CARGO_BIN_EXE_planwright");
    let text = format!("#!/bin/sh\numask {umask}\nexec '{program}' \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    set_mode(&script, 0o755);
    (TestProgram::new(script), place)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn read_mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

/// Everything below a directory that others have a right to. What is in a working copy has the modes that git gives
/// it; only its own directory counts.
fn list_open_to_others(directory: &Path, working_copies: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_symlink() {
            continue;
        }
        if read_mode(&path) & 0o077 != 0 {
            found.push(format!("{:o} {}", read_mode(&path), path.display()));
        }
        if metadata.is_dir() && !working_copies.contains(&path) {
            found.extend(list_open_to_others(&path, working_copies));
        }
    }
    found
}

#[test]
fn everything_in_the_home_is_private_whatever_the_umask() {
    for (umask, plain, executable) in [("000", 0o666, 0o777), ("022", 0o644, 0o755)] {
        let (program, _place) = program_with_umask(umask);
        let repo = ShopRepository::with_program(program);
        let home = repo.program.home().to_owned();
        let actor = "name: scribe\nkind: command\ncommand: [sh, -c, 'date > made.txt']\n";
        let actor = repo.write_file_beside("scribe.yaml", actor);
        repo.run_ok(&["agent", "add", &actor]);
        repo.run_ok(&["config", "set", "budget.cost", "50"]);
        let notes = repo.write_file_beside("notes/a.txt", "one\n");
        let notes = Path::new(&notes).parent().unwrap().to_str().unwrap();
        repo.run_ok(&["project", "create", "notes", "--dir", notes]);
        repo.submit_plan_on("notes", |sandbox| {
            std::fs::write(sandbox.join("a.txt"), "two\n").unwrap();
        });
        repo.write_file("late.txt", "not committed\n");
        repo.run_ok(&["use", "tidy", "shop", "--with-changes"]);
        let landed = repo.submit_plan(|sandbox| {
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
            std::fs::write(sandbox.join("run.sh"), "#!/bin/sh\n").unwrap();
            set_mode(&sandbox.join("run.sh"), 0o700);
        });
        let said = repo.run(&[
            "run",
            "--agent",
            "scribe",
            "--project",
            "shop",
            "Write a line",
        ]);
        assert_eq!(said.exit_code(), Some(6), "{said:?}");
        let (_, working) = repo.plan_in_execute();
        let sandboxes = home.join("sandboxes");
        let working_copies: Vec<PathBuf> = std::fs::read_dir(&sandboxes)
            .unwrap()
            .flat_map(|plan| std::fs::read_dir(plan.unwrap().path()).unwrap())
            .flat_map(|epoch| std::fs::read_dir(epoch.unwrap().path()).unwrap())
            .map(|room| room.unwrap().path())
            .filter(|room| room.is_dir())
            .collect();
        assert!(working_copies.contains(&working));
        repo.run_ok(&["diff", &landed]);
        let copy = home.join("copy.db");
        repo.run_ok(&["store", "backup", copy.to_str().unwrap()]);
        let open = list_open_to_others(&home, &working_copies);
        assert!(open.is_empty(), "umask {umask}:\n{}", open.join("\n"));
        // What lands is as open as the person's umask says.
        std::fs::remove_file(repo.shop_path().join("late.txt")).unwrap();
        repo.run_ok(&["apply", &landed, "--yes"]);
        assert_eq!(read_mode(&repo.shop_path().join("new.txt")), plain);
        assert_eq!(read_mode(&repo.shop_path().join("run.sh")), executable);
        assert_eq!(read_mode(&repo.shop_path().join(".git/index")), plain);
    }
}

/// A home is made for its owner alone, and one of an earlier version is closed by the next write.
#[test]
fn a_home_is_closed_unless_it_is_shared() {
    for shared in [false, true] {
        let repo = ShopRepository::new();
        let home = repo.program.home().to_owned();
        let plan = repo.submit_usual_change();
        let other = home.join("other.txt");
        if shared {
            std::fs::write(&other, "of somebody\n").unwrap();
            set_mode(&other, 0o644);
        }
        for open in ["", "sandboxes", "vaults"] {
            set_mode(&home.join(open), 0o755);
        }
        repo.run_ok(&["diff", &plan]);
        assert_eq!(
            read_mode(&home.join("vaults")),
            0o755,
            "reading changes nothing"
        );
        repo.run_ok(&["revise", &plan, "more"]);
        repo.run_ok(&["plumbing", "start-execute", &plan, "--owner", "bot"]);
        assert_eq!(read_mode(&home.join("sandboxes")), 0o700);
        assert_eq!(read_mode(&home.join("vaults")), 0o700);
        assert_eq!(read_mode(&home), if shared { 0o755 } else { 0o700 });
        if shared {
            assert_eq!(read_mode(&other), 0o644);
        }
    }
    let repo = ShopRepository::new();
    let home = repo.program.home().join("new/home");
    let home = home.to_str().unwrap();
    let said = repo.program.run(["config", "set", "budget.cost", "1"]);
    let said = said.with_variable("PLANWRIGHT_HOME", home).finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert_eq!(read_mode(Path::new(home)), 0o700);
    assert_eq!(read_mode(&Path::new(home).join("config.yaml")), 0o600);
}
