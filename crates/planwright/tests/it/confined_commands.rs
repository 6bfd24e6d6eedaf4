//! Commands that a repository defines run confined: whatever lands there may have been written by an agent.

use crate::daily::ScriptedAgentEnv;

/// Can anything be confined here?
fn can_confine() -> bool {
    sandbox::detect_isolation().confines_files()
}

/// An agent that writes what its goal says into a file, once.
const WRITING_AGENT: &str = "#!/bin/sh
case \"$PLANWRIGHT_GOAL\" in
  \"arm it\") echo \"$ARMED\" | tr '|' '\\n' > \"$ARMED_FILE\" ;;
  *) echo \"$PLANWRIGHT_GOAL\" >> src/a.txt ;;
esac
";

/// A loop whose agent can write this into that file of the repository.
fn env_writing_file(file: &str, text: &str) -> ScriptedAgentEnv {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\n");
    env.write_tool("agent", WRITING_AGENT);
    let text = text.replace("$MARK", env.tool_path("mark").to_str().unwrap());
    let extra = format!("set_env:\n  ARMED_FILE: {file}\n  ARMED: {text:?}\n");
    env.define_actor("agent", &extra);
    env
}

fn run_auto(env: &ScriptedAgentEnv, goal: &str) -> testkit::TestRunOutput {
    env.run_here(&["run", "--agent", "agent", "--profile", "auto", goal])
}

/// Guards against an agent that decides what later plans may do: no profile lands what a repository says about plans.
#[test]
fn no_profile_lands_changed_settings_of_a_repository() {
    for file in ["planwright.yaml", ".worktreeinclude"] {
        let env = env_writing_file(file, "profile: auto");
        let said = run_auto(&env, "arm it");
        assert_eq!(said.exit_code(), Some(6), "{file}: {said:?}");
        assert!(!env.repo.shop_path().join(file).exists());
        let plan = said.data()["plan_id"].as_str().unwrap().to_owned();
        let why = env.run_expecting(0, &["why", &plan]).to_string();
        assert!(
            why.contains("does not land changes to planwright.yaml"),
            "{why}"
        );
        env.run_expecting(0, &["apply", &plan, "--yes"]);
        assert!(env.repo.shop_path().join(file).exists());
    }
}

/// Plan 1 writes a set-up and a person lands it without looking; plan 2 runs it.
#[test]
fn a_set_up_that_an_agent_landed_reaches_nothing_of_the_persons() {
    if !can_confine() {
        return;
    }
    let env = env_writing_file(
        "planwright.yaml",
        "sandbox:|  setup: cat ~/secret > taken; touch $MARK; true",
    );
    std::fs::write(env.repo.program.home().join("secret"), "secret\n").unwrap();
    let said = run_auto(&env, "arm it");
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    env.run_expecting(0, &["apply", "@", "--yes"]);
    assert!(env.repo.read_file("planwright.yaml").contains("setup"));
    let said = run_auto(&env, "a line");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(
        !env.tool_path("mark").exists(),
        "what an agent landed ran with the person's rights"
    );
}

/// The text of the set-up stays what it was; what it runs does not.
#[test]
fn neither_does_a_script_that_the_set_up_runs() {
    if !can_confine() {
        return;
    }
    let env = env_writing_file("setup.sh", "touch $MARK; true");
    env.repo.write_file("setup.sh", "true\n");
    env.repo
        .write_file("planwright.yaml", "sandbox:\n  setup: sh setup.sh\n");
    env.repo.commit_all("with a set-up");
    assert_eq!(run_auto(&env, "arm it").exit_code(), Some(0));
    assert!(env.repo.read_file("setup.sh").contains("touch"));
    let said = run_auto(&env, "a line");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(!env.tool_path("mark").exists());
    // A person can let the set-up of this repository do what they can.
    let shop = env.repo.shop_path();
    let shop = shop.to_str().unwrap();
    env.run_expecting(0, &["config", "set", "sandbox.unconfined", "/elsewhere"]);
    assert_eq!(run_auto(&env, "another line").exit_code(), Some(0));
    assert!(
        !env.tool_path("mark").exists(),
        "it is about another repository"
    );
    let both = format!("/elsewhere, {shop}");
    env.run_expecting(0, &["config", "set", "sandbox.unconfined", &both]);
    let line = ["run", "--agent", "agent", "--goal", "a third line"];
    let said = env.run_as_person(&line);
    assert_eq!(said.exit_code(), Some(6), "{said:?}");
    assert!(env.tool_path("mark").exists());
    assert!(
        said.stderr
            .contains("runs unconfined, with your permissions"),
        "{said:?}"
    );
}

/// Rules by command, and the set-up of their checkouts, have what their settings give them, and no more.
#[test]
fn paths_that_a_person_opens_are_reachable_for_set_ups_and_rules() {
    if !can_confine() {
        return;
    }
    let env = env_writing_file("unused", "");
    let cache = env.tool_path("cache");
    let file = format!(
        "sandbox:\n  setup: echo set-up >> {0}/log\ninvariants:\n  - name: tests\n    \
         command: echo rule >> {0}/log\n",
        cache.display()
    );
    env.repo.write_file("planwright.yaml", &file);
    env.repo.commit_all("rules");
    std::fs::create_dir(&cache).unwrap();
    let said = run_auto(&env, "a line");
    assert_eq!(said.exit_code(), Some(7), "{said:?}");
    let told = said.stdout.clone();
    for hint in [
        "runs confined",
        "sandbox.readable",
        "sandbox.writable",
        "sandbox.unconfined",
        "with your rights",
    ] {
        assert!(told.contains(hint), "{hint}: {told}");
    }
    assert!(!cache.join("log").exists());
    std::fs::remove_dir(&cache).unwrap();
    // What ends in a slash is made where it is missing.
    let opened = format!("{}/", cache.display());
    env.run_expecting(0, &["config", "set", "sandbox.writable", &opened]);
    let said = env.run_as_person(&["retry", "@"]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    // What is only read is not written.
    env.run_expecting(0, &["config", "unset", "sandbox.writable"]);
    let read_only = cache.to_str().unwrap();
    env.run_expecting(0, &["config", "set", "sandbox.readable", read_only]);
    assert_eq!(run_auto(&env, "another line").exit_code(), Some(7));
    let file = format!("sandbox:\n  setup: grep set-up {}/log\n", cache.display());
    env.repo.write_file("planwright.yaml", &file);
    env.repo.commit_all("read it");
    let said = run_auto(&env, "a third line");
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    let log = std::fs::read_to_string(cache.join("log")).unwrap();
    assert_eq!(log, "set-up\nset-up\nrule\n");
}

#[test]
fn a_rule_that_is_kept_from_something_says_what_helps() {
    if !can_confine() {
        return;
    }
    let env = env_writing_file("unused", "");
    let command = format!("touch {}", env.tool_path("mark").display());
    let file = format!("invariants:\n  - name: tests\n    command: {command}\n");
    env.repo.write_file("planwright.yaml", &file);
    env.repo.commit_all("rules");
    let said = env.run_here(&["run", "--agent", "agent", "--goal", "a line"]);
    assert_eq!(said.exit_code(), Some(5), "{said:?}");
    assert!(!env.tool_path("mark").exists());
    let why = env.run_here(&["why", "@"]).stdout;
    assert!(why.contains("config set sandbox.writable"), "{why}");
}

/// What opens a sandbox is for the person to say, not for what lands.
#[test]
fn a_repository_opens_nothing_to_its_own_commands() {
    let env = env_writing_file("unused", "");
    for line in ["writable: [/]", "unconfined: [/]", "isolation: off"] {
        env.repo
            .write_file("planwright.yaml", &format!("sandbox:\n  {line}\n"));
        let said = run_auto(&env, "a line");
        assert_eq!(said.exit_code(), Some(1), "{said:?}");
        assert!(said.messages().contains("unknown key"), "{said:?}");
    }
    for (value, says) in [
        ("cache", "begins with"),
        ("/", "everything"),
        ("~/", "everything"),
        (" , ", "at least one path"),
    ] {
        let said = env.run_here(&["config", "set", "sandbox.writable", value]);
        assert_eq!(said.exit_code(), Some(2), "{value}: {said:?}");
        assert!(said.messages().contains(says), "{value}: {said:?}");
    }
}
