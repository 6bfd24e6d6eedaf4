//! Commands that a repository defines run confined: whatever lands there may have been written by an agent.

use crate::daily::Loop;

/// Can anything be confined here?
fn is_confined() -> bool {
    sandbox::offered().confines_files()
}

/// An agent that writes what its goal says into a file, once.
const AGENT: &str = "#!/bin/sh
case \"$PLANWRIGHT_GOAL\" in
  \"arm it\") echo \"$ARMED\" | tr '|' '\\n' > \"$ARMED_FILE\" ;;
  *) echo \"$PLANWRIGHT_GOAL\" >> src/a.txt ;;
esac
";

/// A loop whose agent can write this into that file of the repository.
fn armed_with(file: &str, text: &str) -> Loop {
    let day = Loop::with("#!/bin/sh\n");
    day.write_tool("agent", AGENT);
    let text = text.replace("$MARK", day.file("mark").to_str().unwrap());
    let extra = format!("set_env:\n  ARMED_FILE: {file}\n  ARMED: {text:?}\n");
    day.define("agent", &extra);
    day
}

fn goes(day: &Loop, goal: &str) -> testkit::Said {
    day.here(&["run", "--actor", "agent", "--profile", "auto", goal])
}

/// Guards against an agent that decides what later plans may do: no profile lands what a repository says about plans.
#[test]
fn no_profile_lands_changed_settings_of_a_repository() {
    for file in ["planwright.yaml", ".worktreeinclude"] {
        let day = armed_with(file, "profile: auto");
        let said = goes(&day, "arm it");
        assert_eq!(said.code(), Some(6), "{file}: {said:?}");
        assert!(!day.yard.shop().join(file).exists());
        let plan = said.data()["plan_id"].as_str().unwrap().to_owned();
        let why = day.ends(0, &["why", &plan]).to_string();
        assert!(
            why.contains("does not land changes to planwright.yaml"),
            "{why}"
        );
        day.ends(0, &["apply", &plan, "--yes"]);
        assert!(day.yard.shop().join(file).exists());
    }
}

/// Plan 1 writes a set-up and a person lands it without looking; plan 2 runs it.
#[test]
fn a_set_up_that_an_agent_landed_reaches_nothing_of_the_persons() {
    if !is_confined() {
        return;
    }
    let day = armed_with(
        "planwright.yaml",
        "sandbox:|  setup: cat ~/secret > taken; touch $MARK; true",
    );
    std::fs::write(day.yard.program.home().join("secret"), "secret\n").unwrap();
    let said = goes(&day, "arm it");
    assert_eq!(said.code(), Some(6), "{said:?}");
    day.ends(0, &["apply", "@", "--yes"]);
    assert!(day.yard.read("planwright.yaml").contains("setup"));
    let said = goes(&day, "a line");
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(
        !day.file("mark").exists(),
        "what an agent landed ran with the person's rights"
    );
}

/// The text of the set-up stays what it was; what it runs does not.
#[test]
fn neither_does_a_script_that_the_set_up_runs() {
    if !is_confined() {
        return;
    }
    let day = armed_with("setup.sh", "touch $MARK; true");
    day.yard.write("setup.sh", "true\n");
    day.yard
        .write("planwright.yaml", "sandbox:\n  setup: sh setup.sh\n");
    day.yard.commit("with a set-up");
    assert_eq!(goes(&day, "arm it").code(), Some(0));
    assert!(day.yard.read("setup.sh").contains("touch"));
    let said = goes(&day, "a line");
    assert_eq!(said.code(), Some(0), "{said:?}");
    assert!(!day.file("mark").exists());
    // A person can let the set-up of this repository do what they can.
    let shop = day.yard.shop();
    let shop = shop.to_str().unwrap();
    day.ends(0, &["config", "set", "sandbox.unconfined", "/elsewhere"]);
    assert_eq!(goes(&day, "another line").code(), Some(0));
    assert!(!day.file("mark").exists(), "it is about another repository");
    let both = format!("/elsewhere, {shop}");
    day.ends(0, &["config", "set", "sandbox.unconfined", &both]);
    let line = ["run", "--actor", "agent", "--goal", "a third line"];
    let said = day.seen(&line);
    assert_eq!(said.code(), Some(6), "{said:?}");
    assert!(day.file("mark").exists());
    assert!(
        said.stderr.contains("runs unconfined, with your rights"),
        "{said:?}"
    );
}

/// Rules by command, and the set-up of their checkouts, have what their settings give them, and no more.
#[test]
fn what_the_person_opens_is_open_to_set_ups_and_rules() {
    if !is_confined() {
        return;
    }
    let day = armed_with("unused", "");
    let cache = day.file("cache");
    let file = format!(
        "sandbox:\n  setup: echo set-up >> {0}/log\ninvariants:\n  - name: tests\n    \
         command: echo rule >> {0}/log\n",
        cache.display()
    );
    day.yard.write("planwright.yaml", &file);
    day.yard.commit("rules");
    std::fs::create_dir(&cache).unwrap();
    let said = goes(&day, "a line");
    assert_eq!(said.code(), Some(7), "{said:?}");
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
    day.ends(0, &["config", "set", "sandbox.writable", &opened]);
    let said = day.seen(&["retry", "@"]);
    assert_eq!(said.code(), Some(0), "{said:?}");
    // What is only read is not written.
    day.ends(0, &["config", "unset", "sandbox.writable"]);
    let read_only = cache.to_str().unwrap();
    day.ends(0, &["config", "set", "sandbox.readable", read_only]);
    assert_eq!(goes(&day, "another line").code(), Some(7));
    let file = format!("sandbox:\n  setup: grep set-up {}/log\n", cache.display());
    day.yard.write("planwright.yaml", &file);
    day.yard.commit("read it");
    let said = goes(&day, "a third line");
    assert_eq!(said.code(), Some(0), "{said:?}");
    let log = std::fs::read_to_string(cache.join("log")).unwrap();
    assert_eq!(log, "set-up\nset-up\nrule\n");
}

#[test]
fn a_rule_that_is_kept_from_something_says_what_helps() {
    if !is_confined() {
        return;
    }
    let day = armed_with("unused", "");
    let command = format!("touch {}", day.file("mark").display());
    let file = format!("invariants:\n  - name: tests\n    command: {command}\n");
    day.yard.write("planwright.yaml", &file);
    day.yard.commit("rules");
    let said = day.here(&["run", "--actor", "agent", "--goal", "a line"]);
    assert_eq!(said.code(), Some(5), "{said:?}");
    assert!(!day.file("mark").exists());
    let why = day.here(&["why", "@"]).stdout;
    assert!(why.contains("config set sandbox.writable"), "{why}");
}

/// What opens a sandbox is for the person to say, not for what lands.
#[test]
fn a_repository_opens_nothing_to_its_own_commands() {
    let day = armed_with("unused", "");
    for line in ["writable: [/]", "unconfined: [/]", "isolation: off"] {
        day.yard
            .write("planwright.yaml", &format!("sandbox:\n  {line}\n"));
        let said = goes(&day, "a line");
        assert_eq!(said.code(), Some(1), "{said:?}");
        assert!(said.messages().contains("unknown key"), "{said:?}");
    }
    for (value, says) in [
        ("cache", "begins with"),
        ("/", "everything"),
        ("~/", "everything"),
        (" , ", "no path"),
    ] {
        let said = day.here(&["config", "set", "sandbox.writable", value]);
        assert_eq!(said.code(), Some(2), "{value}: {said:?}");
        assert!(said.messages().contains(says), "{value}: {said:?}");
    }
}
