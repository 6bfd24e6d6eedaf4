//! A person's repository, a project for it, and plans that work on it, all through the program.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Program, Said};

/// A program with a home, and a repository `shop` beside it registered as a project.
pub struct Yard {
    pub program: Program,
    place: tempfile::TempDir,
    user: Option<u32>,
}

/// A user who may do nothing special.
const NOBODY: u32 = 65534;

impl Yard {
    pub fn new() -> Self {
        Self::with(Program::new(env!("CARGO_BIN_EXE_planwright")))
    }

    pub fn with(program: Program) -> Self {
        let yard = Self {
            program,
            place: tempfile::TempDir::with_prefix("planwright-yard-").unwrap(),
            user: None,
        };
        std::fs::create_dir(yard.shop()).unwrap();
        yard.git(&["init", "-q", "-b", "main", "."]);
        yard.git(&["config", "user.name", "Ada"]);
        yard.git(&["config", "user.email", "ada@example.org"]);
        yard.write("README.md", "# Shop\n");
        yard.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n");
        yard.write("src/b.txt", "alpha\nbeta\n");
        yard.commit("start");
        yard.write_beside(
            "tidy.yaml",
            "name: tidy\ndescription: Tidy the shop\nactor: bot\n",
        );
        let config = yard.place.path().join("tidy.yaml");
        yard.ok(&["action", "create", "--config", config.to_str().unwrap()]);
        yard.ok(&[
            "project",
            "create",
            "shop",
            "--git",
            yard.shop().to_str().unwrap(),
        ]);
        yard
    }

    /// Gives everything to a user whom permissions bind; `false` if that cannot be done here.
    pub fn belongs_to_an_ordinary_user(&mut self) -> bool {
        if !rustix::process::geteuid().is_root() {
            return true;
        }
        self.user = Some(NOBODY);
        self.program.run_by(NOBODY);
        hand_over(self.place.path());
        hand_over(self.program.home());
        // The program itself may lie where nobody else comes.
        let mut above = Path::new(env!("CARGO_BIN_EXE_planwright"))
            .ancestors()
            .skip(1);
        above.all(|directory| {
            std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o1 != 0)
        })
    }

    pub fn shop(&self) -> PathBuf {
        self.place.path().join("shop")
    }

    /// Another repository beside it.
    pub fn other_repository(&self, name: &str) -> String {
        let path = self.place.path().join(name);
        self.git(&["clone", "-q", ".", path.to_str().unwrap()]);
        path.to_str().unwrap().to_owned()
    }

    /// Another repository beside it, with a history of its own.
    pub fn new_repository(&self, name: &str) -> String {
        let path = self.place.path().join(name);
        std::fs::create_dir(&path).unwrap();
        git_in(&path, &["init", "-q", "-b", "main", "."]);
        let ada = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let commit = ["commit", "-q", "--allow-empty", "-m", "other"];
        git_in(&path, &[&ada[..], &commit].concat());
        path.to_str().unwrap().to_owned()
    }

    /// Moves the repository, as a person would by hand.
    pub fn move_shop(&self, name: &str) -> String {
        let path = self.place.path().join(name);
        std::fs::rename(self.shop(), &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn write(&self, path: &str, text: &str) {
        self.write_beside(&format!("shop/{path}"), text);
    }

    /// Writes a file beside the repository, and says where.
    pub fn write_beside(&self, path: &str, text: &str) -> String {
        let path = self.place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.shop().join(path)).unwrap()
    }

    #[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
    pub fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let output = command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/local/bin")
            .env("HOME", "/nonexistent")
            .current_dir(self.shop())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Runs the program, whatever comes of it.
    pub fn run(&self, words: &[&str]) -> Said {
        let words = [&["--format", "json"], words].concat();
        self.program.run(words).finish()
    }

    /// Runs it; it must work.
    #[track_caller]
    pub fn ok(&self, words: &[&str]) -> Value {
        let said = self.run(words);
        assert_eq!(said.code(), Some(0), "{words:?}: {said:?}");
        said.data()
    }

    /// Runs it; it must end like this, saying so.
    #[track_caller]
    pub fn bad(&self, code: i32, words: &[&str], says: &str) -> Said {
        let said = self.run(words);
        assert_eq!(said.code(), Some(code), "{words:?}: {said:?}");
        let messages = said.messages();
        assert!(messages.contains(says), "{words:?}: {messages}");
        said
    }

    /// Runs it with a fault; it is killed.
    #[track_caller]
    pub fn killed(&self, step: &str, words: &[&str]) {
        let fault = format!("step:{step}:kill");
        let run = self.program.run(words).set("PLANWRIGHT_FAULT", fault);
        let said = run.finish();
        assert!(said.was_killed(), "{step}, {words:?}: {said:?}");
    }

    /// A plan in execute, and its sandbox.
    pub fn working(&self) -> (String, PathBuf) {
        self.working_on("shop")
    }

    /// The same on another project.
    fn working_on(&self, project: &str) -> (String, PathBuf) {
        let made = self.ok(&["use", "tidy", project]);
        let plan = made["plan_id"].as_str().unwrap().to_owned();
        let p = plan.as_str();
        self.ok(&["plumbing", "start-strategize", p, "--owner", "bot"]);
        self.ok(&["plumbing", "complete-strategize", p, "--epoch", "1"]);
        self.ok(&["plumbing", "execute-plan", p]);
        let claimed = self.ok(&["plumbing", "start-execute", p, "--owner", "bot"]);
        let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
        (plan, PathBuf::from(path))
    }

    /// A plan whose work is this, handed in.
    pub fn handed_in(&self, work: impl Fn(&Path)) -> String {
        self.handed_in_to("shop", work)
    }

    /// The same on another project.
    pub fn handed_in_to(&self, project: &str, work: impl Fn(&Path)) -> String {
        let (plan, sandbox) = self.working_on(project);
        work(&sandbox);
        self.ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
        plan
    }

    /// A plan that changed the last line of a file and made another.
    pub fn usual(&self) -> String {
        self.handed_in(|sandbox| {
            std::fs::write(
                sandbox.join("src/a.txt"),
                "one\ntwo\nthree\nfour\nfive\nSIX\n",
            )
            .unwrap();
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
        })
    }

    /// A plan that made one file, with its name in it.
    pub fn usual_like(&self, name: &str) -> String {
        self.handed_in(|sandbox| std::fs::write(sandbox.join(name), format!("{name}\n")).unwrap())
    }

    pub fn state_of(&self, plan: &str) -> String {
        let view = self.ok(&["plumbing", "show", plan]);
        format!(
            "{}/{}",
            view["phase"].as_str().unwrap(),
            view["state"].as_str().unwrap()
        )
    }

    /// The files are the branch's, and no lock, journal, pin or staged file is left.
    pub fn assert_tidy(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
        for left in ["index.lock", "planwright"] {
            assert!(!self.shop().join(".git").join(left).exists(), "{left}");
        }
        assert_eq!(self.git(&["for-each-ref", "refs/planwright"]), "");
    }
}

/// Runs git in a directory; it must work.
#[allow(clippy::disallowed_methods, reason = "an agent uses git by itself")]
pub fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .env("HOME", "/nonexistent")
        .current_dir(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn hand_over(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if std::fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            hand_over(&entry.unwrap().path());
        }
    }
}
