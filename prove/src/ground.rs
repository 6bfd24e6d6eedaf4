//! What a trial takes place on: a home, a repository, a store, and plans whose actor is this program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use fastrand::Rng;
use lifecycle::Lifecycle;
use plan::decide::{EngineStep, IdleReason, next_engine_step};
use plan::{Caller, Plan, PlanId};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use store::{PlanFilter, Store};
use testkit::PostgresCluster;

use crate::arena::Database;
use crate::binary::command;
use crate::client::open_store;
use crate::crowd::LEASE;
use crate::trial::Trial;
use crate::working::actor::{LEDGER, MARK};

/// Who works on the plans of a trial: this program, in another part.
pub struct Cast {
    /// The word that makes it an actor.
    pub word: &'static str,
    /// What it writes to its standard output.
    pub output: &'static str,
    /// It works in strategize, too.
    pub strategizes: bool,
    /// What the program finds in its environment.
    pub environment: Vec<(&'static str, String)>,
}

/// The ground of a trial.
pub struct Ground {
    /// The program, under a path that nobody else uses.
    pub program: PathBuf,
    /// The repository.
    pub shop: PathBuf,
    /// Where starts are written down.
    pub ledger: PathBuf,
    /// What every process of the trial has in its environment.
    pub mark: String,
    /// The engine, to look with.
    pub lifecycle: Lifecycle,
    /// The store below it.
    pub store: Arc<dyn Store>,
    cast: Cast,
    pub home: PathBuf,
    pub address: String,
    _server: Option<PostgresCluster>,
}

impl Ground {
    /// Makes everything but plans.
    pub fn prepare(trial: &Trial, cast: Cast) -> anyhow::Result<Self> {
        let directory = &trial.directory;
        let (home, shop) = (directory.join("home"), directory.join("shop"));
        let ledger = directory.join("ledger");
        for made in [&home, &shop, &ledger] {
            std::fs::create_dir_all(made)?;
        }
        // A path of its own, by which its processes are known.
        let program = directory.join("planwright");
        std::fs::hard_link(&trial.program, &program)
            .or_else(|_| std::fs::copy(&trial.program, &program).map(drop))
            .context("the program cannot be copied")?;
        let (address, server) = match trial.database {
            Database::Sqlite => (format!("sqlite:{}", home.join("plans.db").display()), None),
            Database::Postgres => {
                let mut cluster = PostgresCluster::create();
                cluster.append_settings("max_connections = 300\n");
                cluster.start_server();
                (cluster.url(), Some(cluster))
            }
        };
        let store = open_store(&address)?;
        let ground = Self {
            program,
            shop,
            ledger,
            mark: format!("{}-{}", trial.seed, std::process::id()),
            lifecycle: Lifecycle::on(Arc::clone(&store)),
            store,
            cast,
            home,
            address,
            _server: server,
        };
        ground.git(&["init", "-q", "-b", "main", "."])?;
        ground.git(&["config", "user.name", "Ada"])?;
        ground.git(&["config", "user.email", "ada@example.org"])?;
        std::fs::write(ground.shop.join("README.md"), "# Shop\n")?;
        ground.git(&["add", "-A"])?;
        ground.git(&["commit", "-q", "-m", "start"])?;
        let shop = text(&ground.shop)?;
        ground.must(&["project", "create", "shop", "--git", shop])?;
        let definition = directory.join("bot.yaml");
        std::fs::write(&definition, ground.definition()?)?;
        ground.must(&["actor", "add", text(&definition)?])?;
        Ok(ground)
    }

    /// This program, as an actor.
    fn definition(&self) -> anyhow::Result<String> {
        let own = std::env::current_exe().context("this program has no path")?;
        let (own, ledger) = (text(&own)?, text(&self.ledger)?);
        let Cast { word, output, .. } = &self.cast;
        let strategize = match self.cast.strategizes {
            true => format!("strategize: {{command: [{own}, {word}]}}\n"),
            false => String::new(),
        };
        Ok(format!(
            "name: bot\nkind: command\ncommand: [{own}, {word}]\n{strategize}output: {output}\n\
             set_env: {{{LEDGER}: {ledger}, {MARK}: \"{}\"}}\nwritable: [{ledger}]\nreadable: [{own}]\n",
            self.mark
        ))
    }

    /// The program with these words, not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = command(&self.program);
        command
            .args(["--format", "json", "--store", &self.address])
            .args(words)
            .env("PLANWRIGHT_HOME", &self.home)
            .env(MARK, &self.mark)
            .envs(self.cast.environment.iter().cloned())
            .current_dir(&self.shop)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A worker, not started yet.
    pub fn worker(&self, concurrency: u32) -> Command {
        let lease = LEASE.as_secs().to_string();
        let plans = concurrency.to_string();
        let words = ["work", "--concurrency", &plans, "--lease-seconds", &lease];
        let mut worker = self.command(&words);
        worker.stdout(Stdio::null()).stderr(Stdio::null());
        worker
    }

    /// Runs the program to its end: its exit code, and what it answered.
    pub fn ask(&self, words: &[&str]) -> anyhow::Result<(Option<i32>, Value)> {
        let output: Output = self.command(words).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().last().unwrap_or_default();
        let envelope = serde_json::from_str(line).unwrap_or_default();
        Ok((output.status.code(), envelope))
    }

    /// Runs the program and kills it at some moment, if it takes that long. Was it killed? One that was not must have
    /// ended by itself, whatever it answered.
    pub fn ask_and_kill(&self, words: &[&str], random: &mut Rng) -> anyhow::Result<bool> {
        const PANICKED: i32 = 101;
        let mut child = self.command(words).spawn()?;
        std::thread::sleep(Duration::from_micros(random.u64(1_000..250_000)));
        let killed = child.try_wait()?.is_none();
        if killed {
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        match output.status.code() {
            None | Some(PANICKED) if !killed => {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!("{words:?} ended with {}: {said}", output.status)
            }
            _ => Ok(killed),
        }
    }

    /// Runs the program; it must work.
    pub fn must(&self, words: &[&str]) -> anyhow::Result<Value> {
        match self.ask(words)? {
            (Some(0), mut envelope) => Ok(envelope["data"].take()),
            (code, envelope) => bail!("{words:?} ended with {code:?}: {envelope}"),
        }
    }

    /// A process that makes a plan for whoever comes first. It is not waited for: whoever is stopped in the
    /// middle of something may keep it waiting.
    pub fn make_plan(&self, random: &mut Rng) -> anyhow::Result<Child> {
        let profile = if random.u8(..100) < 75 {
            "auto"
        } else {
            "review"
        };
        let mut words = vec!["run", "--detach", "--actor", "bot", "--profile", profile];
        words.extend(["--attempts", if random.bool() { "3" } else { "9" }]);
        if random.bool() {
            words.extend(["--project", "shop"]);
        } else {
            words.push("--no-project");
        }
        words.push("Make a file");
        let mut maker = self.command(&words);
        maker.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(maker.spawn()?)
    }

    /// Can somebody write, within a moment? Whoever is stopped during its turn on a file keeps everybody
    /// else out, which is how files are and not what a trial is about.
    pub fn is_open(&self) -> bool {
        let Some(database) = self.address.strip_prefix("sqlite:") else {
            return true;
        };
        ["-next", "-turn"].iter().all(|lock| {
            let Ok(file) = File::open(format!("{database}{lock}")) else {
                return true;
            };
            (0..50).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
            })
        })
    }

    /// All plans.
    pub fn plans(&self) -> anyhow::Result<Vec<Plan>> {
        const PAGE: usize = 500;
        let mut plans: Vec<Plan> = Vec::new();
        loop {
            let after: Option<PlanId> = plans.last().map(|plan| plan.id);
            let page = self
                .lifecycle
                .list_plans(&PlanFilter::default(), after, PAGE)?;
            let last = page.len() < PAGE;
            plans.extend(page.into_iter().map(|row| row.plan));
            if last {
                return Ok(plans);
            }
        }
    }

    /// Plans with which a worker is not done.
    pub fn unfinished(&self) -> anyhow::Result<Vec<Plan>> {
        let now = self.store.now()?;
        let worker = Caller::Worker("looking".to_owned());
        let rests = |plan: &Plan| {
            let next = next_engine_step(plan, &worker, now);
            matches!(
                next,
                EngineStep::Idle(IdleReason::NeedsPerson | IdleReason::Ended)
            )
        };
        let mut plans = self.plans()?;
        plans.retain(|plan| !rests(plan));
        Ok(plans)
    }

    /// git, as a person uses it.
    pub fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.git_in(&self.shop, arguments)
    }

    /// git in another directory, such as an agent's.
    pub fn git_in(&self, directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let output = command(Path::new("git"))
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(directory)
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("git {arguments:?}: {said}");
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// A path, as an argument.
pub fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .context("the directory of a trial is not UTF-8")
}
