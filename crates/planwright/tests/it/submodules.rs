//! What an agent writes below a submodule is refused by name: git would keep only the submodule's commit.

use crate::daily::{ScriptedAgentEnv, describe_state};

/// A repository with a submodule `lib`, whose own repository is beside it.
fn with_submodule(script: &str) -> ScriptedAgentEnv {
    let env = ScriptedAgentEnv::with_script(&format!("#!/bin/sh\nset -e\n{script}"));
    let inner = env.repo.clone_repository("inner");
    let allowed = "protocol.file.allow=always";
    env.repo
        .run_git(&["-c", allowed, "submodule", "--quiet", "add", &inner, "lib"]);
    env.repo.commit_all("with a submodule");
    env
}

#[test]
fn writes_below_a_submodule_are_refused_by_name() {
    for (script, named) in [
        ("echo x > lib/new.txt; echo x >> src/a.txt", "lib/new.txt"),
        (
            "mkdir -p lib/deep; echo x > lib/deep/one; echo y > lib/two; echo x >> src/a.txt",
            "lib/deep/one, lib/two",
        ),
        (
            "git rm -q --cached lib || exit 0; echo x > lib/new.txt; git add lib; git commit -qm x",
            "lib/new.txt",
        ),
    ] {
        let env = with_submodule(script);
        let (plan, data) = env.start_plan(7);
        assert_eq!(describe_state(&data), "execute/errored", "{script}");
        assert_eq!(data["error"]["category"], "actor", "{script}: {data}");
        let says = data["error"]["message"].as_str().unwrap();
        let expected = format!("{named} cannot be part of the result");
        assert!(says.starts_with(&expected), "{script}: {says}");
        // Tried again, it is still there and still refused.
        assert_eq!(
            env.run_as_person(&["retry", &plan]).exit_code(),
            Some(7),
            "{script}"
        );
        // Nor is it thrown away: its sandbox stays until somebody saw to it.
        env.run_expecting(0, &["cancel", &plan]);
        env.run_expecting(4, &["sandbox", "clean", &plan]);
    }
}

/// Guards against opening what an agent left in the place of a file: a pipe is waited for without end.
#[test]
fn a_pipe_in_the_place_of_a_submodules_repository_keeps_nobody_waiting() {
    let env = with_submodule("mkfifo lib/.git; echo x >> src/a.txt");
    let said = env.run_here(&["run", "--agent", "scribe", "Write a line"]);
    assert!(matches!(said.exit_code(), Some(6 | 7)), "{said:?}");
}

#[test]
fn a_submodule_that_is_not_written_to_is_no_obstacle() {
    for script in [
        "echo x >> src/a.txt",
        "mkdir -p lib/empty; echo x >> src/a.txt",
        "rmdir lib; echo x >> src/a.txt",
    ] {
        let env = with_submodule(script);
        let (plan, _) = env.start_plan(6);
        env.run_expecting(0, &["apply", &plan, "--yes"]);
        assert!(env.repo.read_file("src/a.txt").ends_with("x\n"), "{script}");
    }
}

/// Submodules that a set-up checks out, so that the agent can build, are compared with their commit.
#[test]
fn a_submodule_that_was_checked_out_is_compared_with_its_commit() {
    for (script, code) in [
        ("cat lib/README.md; echo x >> src/a.txt", 6),
        ("echo x >> lib/README.md; echo x >> src/a.txt", 7),
        ("rm lib/README.md; echo x >> src/a.txt", 7),
        ("echo x > lib/README.new; echo x >> src/a.txt", 7),
    ] {
        let env = with_submodule(script);
        // The set-up is confined; where the submodule comes from is for the person to open.
        let inner = env.repo.shop_path().with_file_name("inner");
        let inner = inner.to_str().unwrap();
        env.run_expecting(0, &["config", "set", "sandbox.readable", inner]);
        let set_up = "git -c protocol.file.allow=always submodule --quiet update --init";
        let text = format!("sandbox:\n  setup: {set_up}\n");
        env.repo.write_file("planwright.yaml", &text);
        env.repo.commit_all("with a set-up");
        let (_, data) = env.start_plan(code);
        if code == 7 {
            let says = data["error"]["message"].as_str().unwrap();
            assert!(says.starts_with("lib/README."), "{script}: {says}");
        }
    }
}
