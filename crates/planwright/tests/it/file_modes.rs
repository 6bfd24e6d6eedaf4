//! Permissions of files, of which git keeps only whether they are executed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::daily::ScriptedAgentEnv;

fn read_mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn write_with_mode(path: &Path, mode: u32) {
    std::fs::write(path, "text\n").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn with_directory(script: &str) -> (ScriptedAgentEnv, PathBuf) {
    let env = ScriptedAgentEnv::with_script(&format!("#!/bin/sh\nset -e\n{script}"));
    let notes = env.tool_path("notes");
    std::fs::create_dir(&notes).unwrap();
    for (name, mode) in [
        ("secret", 0o600),
        ("tool", 0o750),
        ("group", 0o640),
        ("usual", 0o644),
        ("script", 0o640),
        ("moved", 0o600),
        ("removed", 0o600),
    ] {
        write_with_mode(&notes.join(name), mode);
    }
    let path = notes.to_str().unwrap();
    env.repo
        .run_ok(&["project", "create", "notes", "--dir", path]);
    (env, notes)
}

#[test]
fn files_of_a_directory_keep_their_permissions() {
    let (env, notes) = with_directory(
        "stat -c '%n %a' secret tool group usual > \"$STARTS.modes\"
for name in secret tool group usual script; do echo more >> $name; done
chmod +x script
mv moved away
rm removed
(umask 077; echo new > private; echo new > command; chmod 700 command)
echo new > public
",
    );
    let run = [
        "run",
        "--project",
        "notes",
        "--agent",
        "scribe",
        "Write more",
    ];
    let plan = env.run_expecting(6, &run)["plan_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let seen = std::fs::read_to_string(env.tool_path("starts.modes")).unwrap();
    assert_eq!(seen, "secret 600\ntool 750\ngroup 640\nusual 644\n");
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let landed = |name: &str| read_mode(&notes.join(name));
    for (name, expected) in [
        ("secret", 0o600),
        ("tool", 0o750),
        ("group", 0o640),
        ("usual", 0o644),
        ("script", 0o750),
        ("away", 0o600),
        ("private", 0o600),
        ("command", 0o700),
        ("public", 0o644),
    ] {
        assert_eq!(landed(name), expected, "{name}: {:o}", landed(name));
    }
    let text = std::fs::read_to_string(notes.join("secret")).unwrap();
    assert_eq!(text, "text\nmore\n");
    // What comes back by an undo comes back as it was.
    env.run_expecting(0, &["undo", &plan, "--yes"]);
    for (name, expected) in [("removed", 0o600), ("moved", 0o600), ("script", 0o640)] {
        assert_eq!(landed(name), expected, "{name}: {:o}", landed(name));
    }
}

#[test]
fn files_that_land_in_a_checkout_keep_the_permissions_of_those_they_replace() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\necho more >> src/a.txt\necho more >> src/b.txt\nchmod +x src/b.txt\n",
    );
    for name in ["src/a.txt", "src/b.txt"] {
        let place = env.repo.shop_path().join(name);
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    for how in ["commit", "uncommitted"] {
        let (plan, _) = env.start_plan(6);
        env.run_expecting(0, &["apply", &plan, "--yes", "--as", how]);
        assert_eq!(
            read_mode(&env.repo.shop_path().join("src/a.txt")),
            0o600,
            "{how}"
        );
        assert_eq!(
            read_mode(&env.repo.shop_path().join("src/b.txt")),
            0o700,
            "{how}"
        );
    }
    assert_eq!(
        env.repo.run_git(&["diff", "--name-only", "--summary"]),
        "src/a.txt\nsrc/b.txt"
    );
}
