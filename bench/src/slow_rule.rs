//! Many who meet the same slow rule: how often its command runs, and how long all of them take next to one.
//!
//! The command is confined and can keep no count of its own. It says when it ran, and fails, so that nobody lands and
//! everybody is told what it said: who runs it hears its own run, and who waits hears another's. So it ran as often as
//! different things were heard.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::rounds::{median, ratio, report};

const WORKERS: usize = 20;
const ROUNDS: usize = 5;

/// What `apply` ends with if a rule is not met.
const RULE_NOT_MET: i32 = 5;

/// Measures and prints a row.
pub fn measure() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let ground = Ground::new(&directory.path().canonicalize().unwrap());
    let plan = ground.handed_in();
    let (mut one, mut many, mut runs) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        one.push(ground.meet(&plan, &format!("alone-{round}"), 1).0);
        let (took, said) = ground.meet(&plan, &format!("together-{round}"), WORKERS);
        many.push(took);
        runs = runs.max(said);
    }
    let ratios: Vec<f64> = many
        .iter()
        .zip(&one)
        .map(|(many, one)| many / one)
        .collect();
    report(
        &format!(
            "{WORKERS} processes that meet the same rule, a command of 1 s: how often it runs, at most"
        ),
        &format!("**{runs}**"),
        "1",
    );
    let (many, one) = (median(many), median(one));
    report(
        &format!("{WORKERS} processes that meet the same rule / one that does"),
        &format!("{}: {many:.1} s / {one:.1} s", ratio(&ratios)),
        "",
    );
}

/// A home, a repository, and a project of it.
struct Ground {
    root: PathBuf,
}

impl Ground {
    fn new(root: &Path) -> Self {
        let ground = Self {
            root: root.to_owned(),
        };
        let (shop, action) = (root.join("shop"), root.join("tidy.yaml"));
        std::fs::create_dir_all(&shop).unwrap();
        std::fs::write(shop.join("README.md"), "# Shop\n").unwrap();
        for words in [
            &["init", "-q", "-b", "main", "."][..],
            &["add", "-A"],
            &["commit", "-q", "-m", "start"],
        ] {
            let mut git = Command::new("git");
            for (who, variable) in [
                ("AUTHOR", "NAME"),
                ("AUTHOR", "EMAIL"),
                ("COMMITTER", "NAME"),
                ("COMMITTER", "EMAIL"),
            ] {
                git.env(format!("GIT_{who}_{variable}"), "bench");
            }
            assert!(
                git.args(words)
                    .current_dir(&shop)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        std::fs::write(
            &action,
            "name: tidy\ndescription: Tidy the shop\nactor: bot\n",
        )
        .unwrap();
        ground.says(
            0,
            &["action", "create", "--config", action.to_str().unwrap()],
        );
        ground.says(
            0,
            &["project", "create", "shop", "--git", shop.to_str().unwrap()],
        );
        ground
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut program = Command::new(
            std::env::current_exe()
                .unwrap()
                .with_file_name("planwright"),
        );
        program
            .args(["--format", "json"])
            .args(words)
            .env("PLANWRIGHT_HOME", self.root.join("home"))
            .current_dir(self.root.join("shop"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        program
    }

    /// What a command says that ends like this.
    fn says(&self, code: i32, words: &[&str]) -> Value {
        let output = self.program(words).output().unwrap();
        data(code, &output)
    }

    /// A plan that changed a file, handed in.
    fn handed_in(&self) -> String {
        let made = self.says(0, &["use", "tidy", "shop"]);
        let plan = made["plan_id"].as_str().unwrap();
        let plumb = |words: &[&str]| {
            self.says(
                0,
                &[&["plumbing", words[0], plan][..], &words[1..]].concat(),
            )
        };
        plumb(&["start-strategize", "--owner", "bot"]);
        plumb(&["complete-strategize", "--epoch", "1"]);
        plumb(&["execute-plan"]);
        let claimed = plumb(&["start-execute", "--owner", "bot"]);
        let sandbox = Path::new(claimed["sandboxes"][0]["path"].as_str().unwrap());
        std::fs::write(sandbox.join("NOTES.md"), "Noted.\n").unwrap();
        plumb(&["complete-execute", "--epoch", "2"]);
        plan.to_owned()
    }

    /// So many meet a rule that nobody has met before: how long all of them take, in seconds, and how often its command
    /// ran.
    fn meet(&self, plan: &str, rule: &str, workers: usize) -> (f64, usize) {
        let command = format!("sleep 1; echo \"{rule} $(date +%s%N)\" >&2; exit 1");
        self.says(
            0,
            &[
                "invariant",
                "add",
                rule,
                "--command",
                &command,
                "--at",
                "apply",
            ],
        );
        let began = Instant::now();
        let started: Vec<_> = (0..workers)
            .map(|_| self.program(&["apply", plan, "--yes"]).spawn().unwrap())
            .collect();
        let ended: Vec<_> = started
            .into_iter()
            .map(|one| one.wait_with_output().unwrap())
            .collect();
        let took = began.elapsed().as_secs_f64();
        let said: BTreeSet<String> = ended
            .iter()
            .map(|output| {
                let data = data(RULE_NOT_MET, output);
                data["failed"][0]["evidence"].as_str().unwrap().to_owned()
            })
            .collect();
        self.says(0, &["invariant", "remove", rule]);
        (took, said.len())
    }
}

fn data(code: i32, output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let envelope: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    envelope["data"].clone()
}
