//! Files that git ignores: what an agent committed or staged of them is part of its result, what was there before
//! it began never is, and what is left out is named.

use serde_json::{Value, json};

use crate::daily::{ScriptedAgentEnv, describe_state};

/// A repository that tracks a file which it ignores.
fn with_tracked_build(script: &str) -> ScriptedAgentEnv {
    let env = ScriptedAgentEnv::with_script(&format!("#!/bin/sh\nset -e\n{script}"));
    env.repo.write_file(".gitignore", "build/\ndist/\n.env\n");
    env.repo.write_file("build/gen.txt", "one\ntwo\nthree\n");
    env.repo.run_git(&["add", "-f", "build/gen.txt"]);
    env.repo.commit_all("with a tracked file that is ignored");
    env
}

fn run_auto(env: &ScriptedAgentEnv, code: i32) -> (String, Value) {
    let words = ["run", "--profile", "auto", "--agent", "scribe", "Build it"];
    let data = env.run_expecting(code, &words);
    (data["plan_id"].as_str().unwrap().to_owned(), data)
}

fn ignored_names(data: &Value, kind: &str) -> Value {
    data["ignored"]["shop/shop"][kind]["names"].clone()
}

#[test]
fn a_committed_rename_to_an_ignored_name_lands_whole_once_a_person_agrees() {
    let env = with_tracked_build(
        "git mv build/gen.txt build/final.txt
echo four >> build/final.txt
git commit -qam renamed
",
    );
    let start = env.repo.run_git(&["rev-parse", "HEAD"]);
    let (plan, data) = run_auto(&env, 6);
    assert_eq!(describe_state(&data), "execute/complete");
    assert_eq!(ignored_names(&data, "forced"), json!(["build/final.txt"]));
    assert_eq!(
        env.repo.run_git(&["rev-parse", "HEAD"]),
        start,
        "nothing landed"
    );
    let why = env.run_as_person(&["why", &plan]).stdout;
    assert!(
        why.contains("Profile auto does not land ignored files"),
        "{why}"
    );
    let stat = env.run_as_person(&["diff", &plan, "--stat"]).stdout;
    assert!(
        stat.contains("added by the agent (1): build/final.txt"),
        "{stat}"
    );
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    assert_eq!(
        env.repo.read_file("build/final.txt"),
        "one\ntwo\nthree\nfour\n"
    );
    assert!(!env.repo.shop_path().join("build/gen.txt").exists());
    assert_eq!(env.repo.run_git(&["ls-files", "build"]), "build/final.txt");
}

#[test]
fn ignored_files_that_are_staged_or_committed_are_part_of_the_result() {
    for script in [
        "mkdir dist; echo js > dist/o.js; git add -f dist/o.js; git commit -qm built",
        "mkdir dist; echo js > dist/o.js; git add -f dist/o.js",
        "mkdir dist; echo old > dist/o.js; git add -f dist/o.js; echo js > dist/o.js",
        "mkdir dist; echo js > dist/o.js; git add -f -N dist/o.js",
        "mkdir dist; echo js > dist/o.js; git add -f dist/o.js; git update-index --split-index",
    ] {
        let env = with_tracked_build(script);
        let (plan, data) = run_auto(&env, 6);
        assert_eq!(
            ignored_names(&data, "forced"),
            json!(["dist/o.js"]),
            "{script}"
        );
        assert_eq!(ignored_names(&data, "left_out"), json!(null), "{script}");
        env.run_expecting(0, &["apply", &plan, "--yes"]);
        assert_eq!(env.repo.read_file("dist/o.js"), "js\n", "{script}");
    }
}

#[test]
fn ignored_files_that_are_not_staged_are_left_out_and_named() {
    let env = with_tracked_build(
        "mkdir -p dist/deep; echo js > dist/deep/o.js; echo x > dist/p.js; echo y > build/other
echo more >> build/gen.txt
",
    );
    let (plan, data) = run_auto(&env, 0);
    assert_eq!(describe_state(&data), "apply/applied");
    assert_eq!(
        ignored_names(&data, "left_out"),
        json!(["build/other", "dist/"])
    );
    let stat = env.run_as_person(&["diff", &plan, "--stat"]).stdout;
    assert!(stat.contains("left out (2): build/other, dist/"), "{stat}");
    let status = env.run_as_person(&["status", &plan]).stdout;
    assert!(status.contains("2: build/other, dist/"), "{status}");
    assert!(
        env.repo
            .read_file("build/gen.txt")
            .ends_with("three\nmore\n")
    );
}

/// What is left out of one run can be added in the next; what is taken out of the index again goes.
#[test]
fn ignored_files_can_be_added_in_the_next_run_and_taken_out_again() {
    let env = with_tracked_build(
        "if grep -q 'rather not' \"$PLANWRIGHT_ASSIGNMENT\"; then
  git rm -q --cached dist/o.js
elif grep -q 'add it' \"$PLANWRIGHT_ASSIGNMENT\"; then
  git add -f dist/o.js
else
  mkdir dist; echo js > dist/o.js; echo x >> src/a.txt
fi
",
    );
    let (plan, data) = env.start_plan(6);
    assert_eq!(ignored_names(&data, "left_out"), json!(["dist/"]));
    assert_eq!(
        env.run_as_person(&["revise", &plan, "add it"]).exit_code(),
        Some(6)
    );
    let data = env.run_expecting(0, &["status", &plan]);
    assert_eq!(ignored_names(&data, "forced"), json!(["dist/o.js"]));
    let names_of = |plan: &str| env.run_as_person(&["diff", plan, "--name-only"]).stdout;
    assert_eq!(names_of(&plan), "dist/o.js\nsrc/a.txt\n");
    assert_eq!(
        env.run_as_person(&["revise", &plan, "rather not"])
            .exit_code(),
        Some(6)
    );
    let data = env.run_expecting(0, &["status", &plan]);
    assert_eq!(ignored_names(&data, "left_out"), json!(["dist/"]));
    assert_eq!(names_of(&plan), "src/a.txt\n");
}

/// A `.env` that was copied into the sandbox stays out of the result, whatever the agent does about it.
#[test]
fn files_that_were_there_before_the_agent_began_are_never_captured() {
    for script in [
        "git add -f .env; git commit -qm secret",
        "printf 'build/\\ndist/\\n' > .gitignore; git add -A; git commit -qm open",
        "printf '!.env\\n' >> .gitignore",
        "rm -rf .git; git init -q .; git add -f .env",
        "echo SECRET=more >> .env; git add -f .env",
    ] {
        let env = with_tracked_build(&format!("{script}\necho x >> src/a.txt"));
        env.repo.write_file(".env", "SECRET=1\n");
        env.repo
            .write_file("planwright.yaml", "sandbox:\n  include: [.env]\n");
        env.repo.commit_all("with a secret");
        let (plan, data) = env.start_plan(6);
        assert_eq!(
            ignored_names(&data, "withheld"),
            json!([".env"]),
            "{script}"
        );
        let shown = env.run_as_person(&["diff", &plan, "--name-only"]).stdout;
        assert!(!shown.contains(".env"), "{script}: {shown}");
        assert!(shown.contains("src/a.txt"), "{script}: {shown}");
        let stat = env.run_as_person(&["diff", &plan, "--stat"]).stdout;
        assert!(
            stat.contains("existed before the agent started (1): .env"),
            "{stat}"
        );
        env.run_expecting(0, &["apply", &plan, "--yes"]);
        assert_eq!(env.repo.run_git(&["ls-files", ".env"]), "", "{script}");
        assert_eq!(env.repo.read_file(".env"), "SECRET=1\n", "{script}");
    }
}

/// What a set-up made and git ignores is no work of the agent's; what the agent adds beside it is.
#[test]
fn files_made_by_the_set_up_are_neither_captured_nor_named() {
    let env = with_tracked_build("echo mine > dist/mine.js; git add -f dist; echo x >> src/a.txt");
    let set_up = "sandbox:\n  setup: mkdir dist && echo theirs > dist/theirs.js\n";
    env.repo.write_file("planwright.yaml", set_up);
    env.repo.commit_all("with a set-up");
    let (plan, data) = env.start_plan(6);
    assert_eq!(ignored_names(&data, "forced"), json!(["dist/mine.js"]));
    assert_eq!(ignored_names(&data, "withheld"), json!(["dist/theirs.js"]));
    assert_eq!(ignored_names(&data, "left_out"), json!(null));
    let shown = env.run_as_person(&["diff", &plan, "--name-only"]).stdout;
    assert_eq!(shown, "dist/mine.js\nsrc/a.txt\n");
}

/// A tracked file that the agent stops tracking because it is ignored.
#[test]
fn a_file_that_the_agent_stops_tracking_is_deleted_by_the_result() {
    let env = with_tracked_build("git rm -q --cached build/gen.txt; git commit -qm untracked");
    let (plan, data) = env.start_plan(6);
    assert_eq!(ignored_names(&data, "left_out"), json!(["build/"]));
    assert_eq!(
        env.run_as_person(&["diff", &plan, "--name-only"]).stdout,
        "build/gen.txt\n"
    );
}

/// Whatever the agent made of its repository, the rest of its work is captured.
#[test]
fn an_index_that_cannot_be_read_names_nothing() {
    for script in [
        "rm .git/index",
        "echo nonsense > .git/index",
        "rm .git/index; ln -s /etc/passwd .git/index",
        "rm .git/index; mkfifo .git/index",
        "rm .git/index; mkdir .git/index",
        "mv .git elsewhere; rm -rf elsewhere; echo 'gitdir: /nonexistent' > .git",
        "rm -rf .git",
        "git update-index --split-index; rm .git/sharedindex.*",
        "truncate -s 300M .git/index",
    ] {
        let env = with_tracked_build(&format!(
            "mkdir dist; echo js > dist/o.js; git add -f dist/o.js; echo x >> src/a.txt\n{script}"
        ));
        let (plan, data) = env.start_plan(6);
        assert_eq!(
            ignored_names(&data, "left_out"),
            json!(["dist/"]),
            "{script}"
        );
        let shown = env.run_as_person(&["diff", &plan, "--name-only"]).stdout;
        assert_eq!(shown, "src/a.txt\n", "{script}");
    }
}

#[test]
fn odd_forced_paths_are_captured_or_refused_by_name() {
    let env = with_tracked_build(
        "mkdir dist; ln -s ../src/a.txt dist/link; git add -f dist/link
ln -s src linked; mkdir -p build; printf 'x' > \"dist/$(printf 'not-utf8-\\377')\"; git add -f dist
mkdir build/sub; echo deep > build/sub/deep; git add -f build/sub/deep; rm -r build/sub; ln -s ../src build/sub
",
    );
    let (plan, _) = env.start_plan(6);
    let files = env.run_expecting(0, &["diff", &plan])["resources"][0]["files"].clone();
    let paths: Vec<&Value> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["path"])
        .collect();
    let not_utf8 = json!(b"dist/not-utf8-\xff");
    assert_eq!(paths, [&json!("dist/link"), &not_utf8, &json!("linked")]);

    let env = with_tracked_build(
        "git init -q dist; echo x > dist/x; git -C dist add x; git -C dist -c user.name=x -c user.email=x@y commit -qm x
git add -f dist; echo x >> src/a.txt
",
    );
    let (_, data) = env.start_plan(7);
    let says = data["error"]["message"].as_str().unwrap();
    assert!(says.starts_with("dist cannot be part"), "{says}");
}

/// Work that landed and work that did not: what git ignores is kept below the home when the sandbox goes, for nobody
/// but its owner, and only so much of it.
#[test]
fn ignored_files_are_kept_in_a_private_archive_when_the_sandbox_goes() {
    use std::os::unix::fs::PermissionsExt;
    let script = "mkdir dist; echo js > dist/o.js; echo x >> src/a.txt; mkdir build/big
truncate -s 40M build/big/blob; i=0; mkdir build/many
while [ $i -lt 2001 ]; do : > build/many/$i; i=$((i+1)); done
";
    for landed in [false, true] {
        let env = with_tracked_build(script);
        let (plan, data) = env.start_plan(6);
        let left_out = json!(["build/big/", "build/many/", "dist/"]);
        assert_eq!(ignored_names(&data, "left_out"), left_out);
        if landed {
            env.run_expecting(0, &["apply", &plan, "--yes"]);
        } else {
            env.run_expecting(0, &["cancel", &plan]);
            let cleaned = env.run_expecting(0, &["sandbox", "clean", &plan])["cleaned"][0].clone();
            let archived = &cleaned["archived"][0];
            assert_eq!(archived["files"], 1, "{cleaned}");
            let not_kept = json!(["build/many/", "build/big/"]);
            assert_eq!(archived["not_kept"]["names"], not_kept, "{cleaned}");
        }
        let listed = env.run_expecting(0, &["sandbox", "list"]);
        assert_eq!(listed["archives"][0]["plan_id"], plan.as_str(), "{listed}");
        let archive = listed["archives"][0]["path"].as_str().unwrap();
        let status = env.run_as_person(&["status", &plan]).stdout;
        assert!(status.contains(archive), "{status}");
        let mode = std::fs::metadata(archive).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let of_resource = format!("{archive}/shop+shop");
        let mut holders = std::fs::read_dir(of_resource).unwrap();
        let kept = holders.next().unwrap().unwrap().path().join("dist/o.js");
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "js\n");
        if !landed {
            let restored = env.run_expecting(0, &["sandbox", "restore", &plan]);
            let path = restored["sandboxes"][0]["path"].as_str().unwrap();
            let file = format!("{path}/dist/o.js");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "js\n");
            // What was kept before does not stand in for what is there now. Twice: the second time it is kept in the same
            // place.
            for text in ["newer\n", "newest\n"] {
                std::fs::write(&file, text).unwrap();
                env.run_expecting(0, &["sandbox", "clean", &plan]);
                env.run_expecting(0, &["sandbox", "restore", &plan]);
                assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
            }
        }
    }
}

/// What a run that failed left behind is the agent's, too: it can be added by the next, and is named if it is not.
#[test]
fn ignored_files_of_a_failed_run_can_be_added_by_the_next() {
    for (then, kind, named) in [
        ("git add -f dist/o.js", "forced", "dist/o.js"),
        ("true", "left_out", "dist/"),
    ] {
        let env = with_tracked_build(&format!(
            "if [ -e dist/o.js ]; then {then}; echo x >> src/a.txt
else mkdir dist; echo js > dist/o.js; exit 3; fi
"
        ));
        let (plan, _) = env.start_plan(7);
        assert_eq!(
            env.run_as_person(&["retry", &plan]).exit_code(),
            Some(6),
            "{then}"
        );
        let data = env.run_expecting(0, &["status", &plan]);
        assert_eq!(ignored_names(&data, kind), json!([named]), "{data}");
        assert_eq!(ignored_names(&data, "withheld"), json!(null), "{data}");
    }
}
