//! A person's repository, a project for it, and plans that work on it, all through the program.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{TestProgram, TestRunOutput};

/// A program with a home, and a repository `shop` beside it registered as a project.
pub struct ShopRepository {
    pub program: TestProgram,
    place: tempfile::TempDir,
    user: Option<u32>,
}

/// A user who may do nothing special.
const UNPRIVILEGED_UID: u32 = 65534;

impl ShopRepository {
    pub fn new() -> Self {
        Self::with_program(TestProgram::new(env!("CARGO_BIN_EXE_planwright")))
    }

    pub fn with_program(program: TestProgram) -> Self {
        let repo = Self {
            program,
            place: tempfile::TempDir::with_prefix("planwright-yard-").unwrap(),
            user: None,
        };
        std::fs::create_dir(repo.shop_path()).unwrap();
        repo.run_git(&["init", "-q", "-b", "main", "."]);
        repo.run_git(&["config", "user.name", "Ada"]);
        repo.run_git(&["config", "user.email", "ada@example.org"]);
        repo.write_file("README.md", "# Shop\n");
        repo.write_file("src/a.txt", "one\ntwo\nthree\nfour\nfive\nsix\n");
        repo.write_file("src/b.txt", "alpha\nbeta\n");
        repo.commit_all("start");
        repo.write_file_beside(
            "tidy.yaml",
            "name: tidy\ndescription: Tidy the shop\nactor: bot\n",
        );
        let config = repo.place.path().join("tidy.yaml");
        repo.run_ok(&["action", "create", "--config", config.to_str().unwrap()]);
        repo.run_ok(&[
            "project",
            "create",
            "shop",
            "--git",
            repo.shop_path().to_str().unwrap(),
        ]);
        repo
    }

    /// Gives everything to a user whom permissions bind; `false` if that cannot be done here.
    pub fn hand_to_ordinary_user(&mut self) -> bool {
        if !rustix::process::geteuid().is_root() {
            return true;
        }
        self.user = Some(UNPRIVILEGED_UID);
        self.program.run_as_user(UNPRIVILEGED_UID);
        chown_tree(self.place.path());
        chown_tree(self.program.home());
        // The program itself may lie where nobody else comes.
        let mut above = Path::new(env!("CARGO_BIN_EXE_planwright"))
            .ancestors()
            .skip(1);
        above.all(|directory| {
            std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o1 != 0)
        })
    }

    pub fn shop_path(&self) -> PathBuf {
        self.place.path().join("shop")
    }

    /// Another repository beside it.
    pub fn clone_repository(&self, name: &str) -> String {
        let path = self.place.path().join(name);
        self.run_git(&["clone", "-q", ".", path.to_str().unwrap()]);
        path.to_str().unwrap().to_owned()
    }

    /// Another repository beside it, with a history of its own.
    pub fn create_repository(&self, name: &str) -> String {
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
        std::fs::rename(self.shop_path(), &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn write_file(&self, path: &str, text: &str) {
        self.write_file_beside(&format!("shop/{path}"), text);
    }

    /// Writes a file beside the repository, and says where.
    pub fn write_file_beside(&self, path: &str, text: &str) -> String {
        let path = self.place.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn read_file(&self, path: &str) -> String {
        std::fs::read_to_string(self.shop_path().join(path)).unwrap()
    }

    #[allow(clippy::disallowed_methods, reason = "a person uses git by themselves")]
    pub fn run_git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let output = command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/local/bin")
            .env("HOME", "/nonexistent")
            .current_dir(self.shop_path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub fn commit_all(&self, message: &str) {
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "-q", "-m", message]);
    }

    /// Runs the program, whatever comes of it.
    pub fn run(&self, words: &[&str]) -> TestRunOutput {
        let words = [&["--format", "json"], words].concat();
        self.program.run(words).finish()
    }

    /// Runs it; it must work.
    #[track_caller]
    pub fn run_ok(&self, words: &[&str]) -> Value {
        let said = self.run(words);
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        said.data()
    }

    /// Runs it as a person does; it must work. Returns what it prints.
    #[track_caller]
    pub fn run_plain(&self, words: &[&str]) -> String {
        let said = self.program.run(words).finish();
        assert_eq!(said.exit_code(), Some(0), "{words:?}: {said:?}");
        said.stdout
    }

    /// Runs it; it must end like this, saying so.
    #[track_caller]
    pub fn run_bad(&self, code: i32, words: &[&str], says: &str) -> TestRunOutput {
        let said = self.run(words);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        let messages = said.messages();
        assert!(messages.contains(says), "{words:?}: {messages}");
        said
    }

    /// Runs it with a fault; it is killed.
    #[track_caller]
    pub fn run_killed_at(&self, step: &str, words: &[&str]) {
        let fault = format!("step:{step}:kill");
        let run = self
            .program
            .run(words)
            .with_variable("PLANWRIGHT_FAULT", fault);
        let said = run.finish();
        assert!(said.was_killed(), "{step}, {words:?}: {said:?}");
    }

    /// A plan in execute, and its sandbox.
    pub fn plan_in_execute(&self) -> (String, PathBuf) {
        self.plan_in_execute_on("shop")
    }

    /// The same on another project.
    fn plan_in_execute_on(&self, project: &str) -> (String, PathBuf) {
        let made = self.run_ok(&["use", "tidy", project]);
        let plan = made["plan_id"].as_str().unwrap().to_owned();
        let p = plan.as_str();
        self.run_ok(&["plumbing", "start-strategize", p, "--owner", "bot"]);
        self.run_ok(&["plumbing", "complete-strategize", p, "--epoch", "1"]);
        self.run_ok(&["plumbing", "execute-plan", p]);
        let claimed = self.run_ok(&["plumbing", "start-execute", p, "--owner", "bot"]);
        let path = claimed["sandboxes"][0]["path"].as_str().unwrap();
        (plan, PathBuf::from(path))
    }

    /// A plan whose work is this, handed in.
    pub fn submit_plan(&self, work: impl Fn(&Path)) -> String {
        self.submit_plan_on("shop", work)
    }

    /// The same on another project.
    pub fn submit_plan_on(&self, project: &str, work: impl Fn(&Path)) -> String {
        let (plan, sandbox) = self.plan_in_execute_on(project);
        work(&sandbox);
        self.run_ok(&["plumbing", "complete-execute", &plan, "--epoch", "2"]);
        plan
    }

    /// Works on a plan that was sent back, and submits the result.
    pub fn submit_again(&self, plan: &str, work: impl Fn(&Path)) {
        let claimed = self.run_ok(&["plumbing", "start-execute", plan, "--owner", "bot"]);
        work(Path::new(claimed["sandboxes"][0]["path"].as_str().unwrap()));
        let epoch = claimed["lease"]["epoch"].to_string();
        self.run_ok(&["plumbing", "complete-execute", plan, "--epoch", &epoch]);
    }

    /// A plan that changed the last line of a file and made another.
    pub fn submit_usual_change(&self) -> String {
        self.submit_plan(|sandbox| {
            std::fs::write(
                sandbox.join("src/a.txt"),
                "one\ntwo\nthree\nfour\nfive\nSIX\n",
            )
            .unwrap();
            std::fs::write(sandbox.join("new.txt"), "new\n").unwrap();
        })
    }

    /// A plan that made one file, with its name in it.
    pub fn submit_new_file(&self, name: &str) -> String {
        self.submit_plan(|sandbox| std::fs::write(sandbox.join(name), format!("{name}\n")).unwrap())
    }

    pub fn plan_state(&self, plan: &str) -> String {
        let view = self.run_ok(&["plumbing", "show", plan]);
        format!(
            "{}/{}",
            view["phase"].as_str().unwrap(),
            view["state"].as_str().unwrap()
        )
    }

    /// The files are the branch's, and no lock, journal, pin or staged file is left.
    pub fn assert_tidy(&self) {
        assert_eq!(self.run_git(&["status", "--porcelain"]), "");
        for left in ["index.lock", "planwright"] {
            assert!(!self.shop_path().join(".git").join(left).exists(), "{left}");
        }
        assert_eq!(self.run_git(&["for-each-ref", "refs/planwright"]), "");
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

fn chown_tree(path: &Path) {
    std::os::unix::fs::lchown(path, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
    if std::fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            chown_tree(&entry.unwrap().path());
        }
    }
}
