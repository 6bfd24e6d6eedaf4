//! A person who enters a sandbox runs git there with their own rights: nothing that an agent configured in its
//! repository may run then, and nothing that it committed may be lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::shop_repository::ShopRepository;

/// How an agent has a program of its own run, and what a person types that would run it.
struct AttackVector {
    name: &'static str,
    /// Run in the sandbox by the agent; `$EVIL` is its program.
    armed: &'static str,
    /// Run in the sandbox by the person.
    typed: &'static str,
}

const fn attack_vector(
    name: &'static str,
    armed: &'static str,
    typed: &'static str,
) -> AttackVector {
    AttackVector { name, armed, typed }
}

const ATTACK_VECTORS: &[AttackVector] = &[
    attack_vector(
        "fsmonitor",
        "git config core.fsmonitor \"$EVIL\"",
        "git status",
    ),
    attack_vector("alias", "git config alias.st \"!$EVIL\"", "git st"),
    attack_vector(
        "hook",
        "mkdir -p .git/hooks && cp \"$EVIL\" .git/hooks/post-checkout && git config --unset core.hooksPath",
        "git checkout -f -q HEAD",
    ),
    attack_vector(
        "hooks path",
        "mkdir hooks && cp \"$EVIL\" hooks/post-checkout && git config core.hooksPath \"$PWD/hooks\"",
        "git checkout -f -q HEAD",
    ),
    attack_vector(
        "included file",
        "printf '[core]\\n\\tfsmonitor = \"%s\"\\n' \"$EVIL\" > .git/more && git config include.path more",
        "git status",
    ),
    attack_vector(
        "configuration of a worktree",
        "git config extensions.worktreeConfig true && git config --worktree core.fsmonitor \"$EVIL\"",
        "git status",
    ),
    attack_vector(
        "filter",
        "git config filter.evil.clean \"$EVIL\" && echo '*.txt filter=evil' > .git/info/attributes",
        "touch src/a.txt; echo more >> src/a.txt; git add src/a.txt",
    ),
    attack_vector(
        "external diff",
        "git config diff.external \"$EVIL\" && echo more >> src/a.txt",
        "git diff",
    ),
    attack_vector(
        "credential helper",
        "git config credential.helper \"$EVIL\"",
        "printf 'protocol=https\\nhost=example.org\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill",
    ),
    attack_vector(
        "unfinished rebase",
        "git commit -q --allow-empty -m one && git rebase -q --exec false HEAD^ ; \
         echo \"exec $EVIL\" > .git/rebase-merge/git-rebase-todo",
        "git -c core.editor=true rebase --continue",
    ),
    attack_vector(
        "repository elsewhere in the sandbox",
        "mv .git other && git --git-dir=other config core.fsmonitor \"$EVIL\" && echo 'gitdir: other' > .git",
        "git status",
    ),
    attack_vector(
        "link in place of the repository",
        "mv .git other && git --git-dir=other config core.fsmonitor \"$EVIL\" && ln -s other .git",
        "git status",
    ),
    attack_vector(
        "nested repository",
        "git init -q lib && git -C lib -c user.name=a -c user.email=a@b commit -q --allow-empty -m lib && \
         git -C lib config core.fsmonitor \"$EVIL\"",
        "cd lib && git status",
    ),
    attack_vector(
        "nested repository that is a submodule of the outer one",
        "git init -q lib && git -C lib -c user.name=a -c user.email=a@b commit -q --allow-empty -m lib && \
         git -c advice.addEmbeddedRepo=false add lib && git commit -q -m lib && \
         git -C lib config core.fsmonitor \"$EVIL\"",
        "git status",
    ),
    attack_vector(
        "nested repository with a hook",
        "git init -q lib && mkdir -p lib/.git/hooks && cp \"$EVIL\" lib/.git/hooks/post-checkout && \
         git -C lib -c user.name=a -c user.email=a@b commit -q --allow-empty -m lib",
        "cd lib && git checkout -f -q -b other",
    ),
    attack_vector(
        "nested repository with a header that goes on behind its bracket",
        "git init -q lib && mkdir lib/tools && cp \"$EVIL\" 'lib/tools/x]' && \
         git -C lib -c user.name=a -c user.email=a@b commit -q --allow-empty -m lib && \
         echo '[core]fsmonitor=tools/x]' >> lib/.git/config",
        "cd lib && git status",
    ),
    attack_vector(
        "nested repository whose files are elsewhere",
        "git init -q lib && cd lib && echo ran > mark && git add mark && \
         git -c user.name=a -c user.email=a@b commit -q -m lib && \
         git config core.worktree \"$(dirname \"$EVIL\")\"",
        "cd lib && git checkout -f .",
    ),
    attack_vector(
        "index with the name of a configuration",
        "mkdir xgit && printf '[core]\\n\\tfsmonitor = \"%s\"\\n' \"$EVIL\" > xgit/config && git add xgit/config && \
         rm -r xgit && sed -i 's#xgit/config#.git/config#' .git/index",
        "git checkout -f . ; git status",
    ),
    attack_vector(
        "linked worktree",
        "git config core.fsmonitor \"$EVIL\" && git worktree add -q wt",
        "cd wt && git status",
    ),
];

/// What an agent has run: a program that leaves a mark outside of the sandbox.
struct PlantedProgram {
    place: tempfile::TempDir,
}

impl PlantedProgram {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let evil = Self {
            place: tempfile::TempDir::with_prefix("planwright-evil-").unwrap(),
        };
        let script = format!("#!/bin/sh\necho ran >> '{}'\n", evil.mark_path().display());
        std::fs::write(evil.program_path(), script).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(evil.program_path(), mode).unwrap();
        evil
    }

    fn program_path(&self) -> PathBuf {
        self.place.path().join("evil")
    }

    fn mark_path(&self) -> PathBuf {
        self.place.path().join("mark")
    }

    /// Has the agent do this in its sandbox.
    fn plant_script(&self, at: &Path, script: &str) {
        let said = run_shell_script(at, script, &self.program_path());
        assert!(said.0, "{script}: {}", said.1);
        let _ = std::fs::remove_file(self.mark_path());
    }

    #[track_caller]
    fn assert_nothing_ran(&self, what: &str) {
        assert!(
            !self.mark_path().exists(),
            "{what}: what the agent configured ran"
        );
    }
}

/// Runs a script as a person or an agent would: did it end well, and what did it say?
#[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
fn run_shell_script(at: &Path, script: &str, evil: &Path) -> (bool, String) {
    let output = Command::new("/bin/sh")
        .args(["-c", script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .env("HOME", "/nonexistent")
        .env("EVIL", evil)
        .current_dir(at)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.success(), said)
}

fn sandbox_path(repo: &ShopRepository, plan: &str) -> PathBuf {
    let printed = repo.run_ok(&["path", plan]);
    PathBuf::from(printed["sandboxes"][0]["path"].as_str().unwrap())
}

/// A plan whose agent did this.
fn submit_planted_plan(repo: &ShopRepository, evil: &PlantedProgram, script: &str) -> String {
    let (plan, sandbox) = repo.plan_in_execute();
    std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
    evil.plant_script(&sandbox, script);
    let handed_in = repo.run(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    if handed_in.exit_code() != Some(0) {
        // What cannot be handed in can be looked at all the same.
        repo.run_ok(&["plumbing", "release", &plan, "--epoch", "2"]);
    }
    let _ = std::fs::remove_file(evil.mark_path());
    plan
}

#[test]
fn nothing_that_an_agent_configured_runs_where_path_leads() {
    let repo = ShopRepository::new();
    let evil = PlantedProgram::new();
    let mut ran = Vec::new();
    for vector in ATTACK_VECTORS {
        let plan = submit_planted_plan(&repo, &evil, vector.armed);
        let sandbox = sandbox_path(&repo, &plan);
        let (_, said) = run_shell_script(&sandbox, vector.typed, &evil.program_path());
        let told = "git config --list --show-origin";
        let (_, told) = run_shell_script(&sandbox, told, &evil.program_path());
        if evil.mark_path().exists() || told.contains("/evil") {
            ran.push(format!("{}: {said}{told}", vector.name));
        }
    }
    let names: Vec<&str> = ran.iter().filter_map(|one| one.split(':').next()).collect();
    assert!(ran.is_empty(), "{} ran, {names:?}: {ran:#?}", ran.len());
}

#[test]
fn nothing_that_an_agent_configured_runs_in_a_shell_there() {
    let repo = ShopRepository::new();
    let evil = PlantedProgram::new();
    let script = "git config core.fsmonitor \"$EVIL\" && git config alias.st \"!$EVIL\" && \
                  git init -q --bare fixtures/bare && git -C fixtures/bare config alias.st \"!$EVIL\"";
    let typed = "git status; git st; cd fixtures/bare && git st; git log -1; touch \"$SEEN\"\n";
    for words in [
        ["shell", "", ""],
        ["revise", "--by-hand", "Have another look"],
    ] {
        let plan = submit_planted_plan(&repo, &evil, script);
        let seen = evil.place.path().join(words[0]);
        let mut line = vec![words[0], plan.as_str()];
        line.extend(words[1..].iter().filter(|word| !word.is_empty()));
        let run = repo.program.run(line);
        let run = run
            .with_variable("SHELL", "/bin/sh")
            .with_variable("SEEN", &seen);
        let said = run.with_input(typed).finish();
        assert!(seen.exists(), "{words:?}: {said:?}");
        evil.assert_nothing_ran(&format!("{words:?}: {said:?}"));
        assert!(said.stderr.contains("fixtures/bare"), "{said:?}");
    }
}

#[test]
fn commits_and_stashes_of_an_agent_are_kept() {
    let repo = ShopRepository::new();
    let evil = PlantedProgram::new();
    let (plan, sandbox) = repo.plan_in_execute();
    evil.plant_script(
        &sandbox,
        "echo one > one.txt && git add one.txt && git commit -q -m 'by the agent' && \
         git checkout -q -b side && echo two > two.txt && git add two.txt && git commit -q -m 'on the side' && \
         git checkout -q main && echo stashed >> README.md && git stash -q && \
         echo staged > staged.txt && git add staged.txt && git pack-refs --all && git gc -q && \
         git config core.fsmonitor \"$EVIL\"",
    );
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    let looks = |when: &str| {
        let at = sandbox_path(&repo, &plan);
        let (well, said) = run_shell_script(
            &at,
            "git log --format=%s main && git log --format=%s side && git stash list && git stash show -p && \
             git status --porcelain && git fsck --connectivity-only",
            &evil.program_path(),
        );
        assert!(well, "{when}: {said}");
        for told in [
            "by the agent",
            "on the side",
            "stash@{0}",
            "+stashed",
            "A  staged.txt",
        ] {
            assert!(said.contains(told), "{when}, {told}: {said}");
        }
        evil.assert_nothing_ran(when);
    };
    looks("first");
    // Nothing is exchanged twice while nobody else works there.
    looks("again");
    let beside = sandbox.parent().unwrap();
    let set_aside = || {
        let names = std::fs::read_dir(beside).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.contains("set-aside")).count()
    };
    assert_eq!(set_aside(), 1);
    // The agent goes on where it was, and may arm it again.
    repo.run_ok(&["revise", &plan, "Go on", "--detach"]);
    let start = ["plumbing", "start-execute", &plan, "--owner", "bot"];
    let claimed = repo.run_ok(&start);
    let epoch = claimed["epoch"].as_u64().unwrap().to_string();
    evil.plant_script(
        &sandbox,
        "git commit -q -m 'once more' && git config core.fsmonitor \"$EVIL\" && echo staged > staged.txt && \
         git reset -q --soft HEAD^",
    );
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", &epoch]);
    looks("after the agent went on");
    assert_eq!(set_aside(), 2);
}

#[test]
fn a_plain_clone_below_the_sandbox_is_left_alone() {
    let repo = ShopRepository::new();
    let evil = PlantedProgram::new();
    let library = repo.clone_repository("library");
    let (plan, sandbox) = repo.plan_in_execute();
    std::fs::write(sandbox.join(".gitignore"), "vendor/\n").unwrap();
    evil.plant_script(
        &sandbox,
        &format!("git clone -q '{library}' vendor/library"),
    );
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    let at = sandbox_path(&repo, &plan);
    let (well, said) = run_shell_script(
        &at.join("vendor/library"),
        "git log --format=%s",
        Path::new("x"),
    );
    assert!(well && said.contains("start"), "{said}");
}

/// What an agent added against the ignore rules is its work, also after a person looked at it.
#[test]
fn a_file_that_an_agent_added_by_force_is_handed_in_after_a_visit() {
    let repo = ShopRepository::new();
    repo.write_file(".gitignore", "build/\n");
    repo.commit_all("ignore");
    let evil = PlantedProgram::new();
    let (plan, sandbox) = repo.plan_in_execute();
    evil.plant_script(
        &sandbox,
        "git config core.splitIndex true && mkdir build && echo made > build/made.txt && git add -f build",
    );
    repo.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
    let run = repo.program.run(["shell", plan.as_str()]);
    let run = run.with_variable("SHELL", "/bin/sh");
    let said = run.with_input("echo mine > mine.txt\n").finish();
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    repo.run_ok(&["apply", &plan, "--yes"]);
    assert_eq!(repo.run_git(&["show", "main:build/made.txt"]), "made");
    assert_eq!(repo.run_git(&["show", "main:mine.txt"]), "mine");
}

/// While somebody works there its repository is theirs, and a person is told.
#[test]
fn a_sandbox_in_use_is_said_to_be() {
    let repo = ShopRepository::new();
    let (plan, sandbox) = repo.plan_in_execute();
    std::fs::write(sandbox.join(".git/theirs"), "").unwrap();
    let said = repo.run(&["path", &plan]);
    assert_eq!(said.exit_code(), Some(0), "{said:?}");
    assert!(said.messages().contains("Do not run git in it"), "{said:?}");
    let data: Value = said.data();
    assert_eq!(data["sandboxes"][0]["path"], sandbox.to_str().unwrap());
    assert!(sandbox.join(".git/theirs").exists());
    let said = repo.program.run(["shell", plan.as_str()]).finish();
    assert_eq!(said.exit_code(), Some(4), "{said:?}");
}
