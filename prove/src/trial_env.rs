//! The environment of a trial: home directory, repository, store, and an actor that is this program.

use std::ffi::OsString;
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

use crate::call_trial::TrialDatabase;
use crate::client_process::open_store;
use crate::program_client::new_command;
use crate::trial::Trial;
use crate::worker_group::WORKER_LEASE;
use crate::worker_trial::asking_actor::STALE_PERMISSION_VARIABLE;
use crate::worker_trial::trial_actor::{RECORDS_DIR_VARIABLE, TRIAL_ID_VARIABLE};

/// The actor of a trial: this program with a subcommand.
pub struct TrialActorSpec {
    pub subcommand: &'static str,
    /// The format of its standard output.
    pub output_format: &'static str,
    /// Whether it also runs in the strategize phase.
    pub runs_strategize: bool,
    /// Environment variables of the `planwright` program.
    pub program_env: Vec<(&'static str, String)>,
}

/// The environment of a trial. Dropping it kills all processes of the trial.
pub struct TrialEnv {
    /// A copy of the program under a path of its own, by which its processes are found.
    pub program: PathBuf,
    pub repository: PathBuf,
    /// Where the actors and the harness write records that the engine cannot change.
    pub records_dir: PathBuf,
    /// Every process of the trial has this in its environment.
    pub trial_id: String,
    /// An engine that the harness reads with.
    pub lifecycle: Lifecycle,
    pub store: Arc<dyn Store>,
    actor: TrialActorSpec,
    has_asking_actor: bool,
    /// The `PATH` of workers, if it is not this program's own.
    worker_path: Option<OsString>,
    pub home: PathBuf,
    pub store_address: String,
    _server: Option<PostgresCluster>,
}

impl TrialEnv {
    /// Creates everything but the plans.
    pub fn create(trial: &Trial, actor: TrialActorSpec) -> anyhow::Result<Self> {
        let directory = &trial.directory;
        let (home, repository) = (directory.join("home"), directory.join("shop"));
        let records_dir = directory.join("records");
        for path in [&home, &repository, &records_dir] {
            std::fs::create_dir_all(path)?;
        }
        let program = directory.join("planwright");
        std::fs::hard_link(&trial.program, &program)
            .or_else(|_| std::fs::copy(&trial.program, &program).map(drop))
            .context("could not copy the program")?;
        let (store_address, server) = match trial.database {
            TrialDatabase::Sqlite => (format!("sqlite:{}", home.join("plans.db").display()), None),
            TrialDatabase::Postgres => {
                let mut cluster = PostgresCluster::create();
                cluster.append_settings("max_connections = 300\n");
                cluster.start_server();
                (cluster.url(), Some(cluster))
            }
        };
        let store = open_store(&store_address)?;
        let env = Self {
            program,
            repository,
            records_dir,
            trial_id: format!("{}-{}", trial.seed, std::process::id()),
            lifecycle: Lifecycle::on(Arc::clone(&store)),
            store,
            actor,
            has_asking_actor: false,
            worker_path: None,
            home,
            store_address,
            _server: server,
        };
        env.run_git(&["init", "-q", "-b", "main", "."])?;
        env.run_git(&["config", "user.name", "Ada"])?;
        env.run_git(&["config", "user.email", "ada@example.org"])?;
        std::fs::write(env.repository.join("README.md"), "# Shop\n")?;
        env.run_git(&["add", "-A"])?;
        env.run_git(&["commit", "-q", "-m", "start"])?;
        let repository = path_as_str(&env.repository)?;
        env.run_checked(&["project", "create", "shop", "--git", repository])?;
        let definition = directory.join("bot.yaml");
        std::fs::write(&definition, env.render_actor_definition()?)?;
        env.run_checked(&["actor", "add", path_as_str(&definition)?])?;
        Ok(env)
    }

    fn render_actor_definition(&self) -> anyhow::Result<String> {
        let own_path =
            std::env::current_exe().context("could not find the path of this program")?;
        let (own_path, records_dir) = (path_as_str(&own_path)?, path_as_str(&self.records_dir)?);
        let TrialActorSpec {
            subcommand,
            output_format,
            ..
        } = &self.actor;
        let strategize = match self.actor.runs_strategize {
            true => format!("strategize: {{command: [{own_path}, {subcommand}]}}\n"),
            false => String::new(),
        };
        Ok(format!(
            "name: bot\nkind: command\ncommand: [{own_path}, {subcommand}]\n{strategize}output: {output_format}\n\
             set_env: {{{RECORDS_DIR_VARIABLE}: {records_dir}, {TRIAL_ID_VARIABLE}: \"{}\"}}\n\
             writable: [{records_dir}]\nreadable: [{own_path}]\n",
            self.trial_id
        ))
    }

    /// Adds an actor that asks before it makes a tool call. Plans may use it from now on.
    pub fn add_asking_actor(&mut self, uses_stale_permissions: bool) -> anyhow::Result<()> {
        let own_path =
            std::env::current_exe().context("could not find the path of this program")?;
        let (own_path, records_dir) = (path_as_str(&own_path)?, path_as_str(&self.records_dir)?);
        let stale = u8::from(uses_stale_permissions);
        let definition = self.records_dir.with_file_name("asker.yaml");
        std::fs::write(
            &definition,
            format!(
                "name: asker\nkind: acp\ncommand: [{own_path}, asking-actor]\ntools: {{ask: [execute]}}\n\
                 set_env: {{{RECORDS_DIR_VARIABLE}: {records_dir}, {TRIAL_ID_VARIABLE}: \"{}\", \
                 {STALE_PERMISSION_VARIABLE}: \"{stale}\"}}\n\
                 writable: [{records_dir}]\nreadable: [{own_path}]\n",
                self.trial_id
            ),
        )?;
        self.run_checked(&["actor", "add", path_as_str(&definition)?])?;
        self.has_asking_actor = true;
        Ok(())
    }

    /// The program with these arguments, not started yet.
    pub fn program_command(&self, arguments: &[&str]) -> Command {
        let mut command = new_command(&self.program);
        command
            .args(["--format", "json", "--store", &self.store_address])
            .args(arguments)
            .env("PLANWRIGHT_HOME", &self.home)
            .env(TRIAL_ID_VARIABLE, &self.trial_id)
            .envs(self.actor.program_env.iter().cloned())
            .current_dir(&self.repository)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A worker, not started yet.
    pub fn worker_command(&self, concurrency: u32) -> Command {
        let lease = WORKER_LEASE.as_secs().to_string();
        let concurrency = concurrency.to_string();
        let arguments = [
            "work",
            "--concurrency",
            &concurrency,
            "--lease-seconds",
            &lease,
        ];
        let mut worker = self.program_command(&arguments);
        worker.stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(path) = &self.worker_path {
            worker.env("PATH", path);
        }
        worker
    }

    /// Lets workers find the programs in this directory before others.
    #[expect(
        clippy::disallowed_methods,
        reason = "workers need the programs that this one finds"
    )]
    pub fn put_before_path(&mut self, directory: &Path) -> anyhow::Result<()> {
        let own_path = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&own_path);
        let all = std::iter::once(directory.to_owned()).chain(others);
        self.worker_path = Some(std::env::join_paths(all)?);
        Ok(())
    }

    /// Runs the program; returns its exit code and its JSON envelope.
    pub fn run_program(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, Value)> {
        let output: Output = self.program_command(arguments).output()?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let line = stdout.lines().last().unwrap_or_default();
        let envelope = serde_json::from_str(line).unwrap_or_default();
        Ok((output.status.code(), envelope))
    }

    /// Runs the program and kills it after a random time; returns whether it was still running then. If it was not, it
    /// must have exited, with any code, and not have crashed.
    pub fn run_and_kill(&self, arguments: &[&str], random: &mut Rng) -> anyhow::Result<bool> {
        const PANIC_EXIT_CODE: i32 = 101;
        let mut child = self.program_command(arguments).spawn()?;
        std::thread::sleep(Duration::from_micros(random.u64(1_000..250_000)));
        let killed = child.try_wait()?.is_none();
        if killed {
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        match output.status.code() {
            None | Some(PANIC_EXIT_CODE) if !killed => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                bail!("{arguments:?} ended with {}: {stderr}", output.status)
            }
            _ => Ok(killed),
        }
    }

    /// Runs the program and fails unless it exits with 0; returns the data of its envelope.
    pub fn run_checked(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        match self.run_program(arguments)? {
            (Some(0), mut envelope) => Ok(envelope["data"].take()),
            (code, envelope) => bail!("{arguments:?} ended with {code:?}: {envelope}"),
        }
    }

    /// Starts a process that creates a plan for the workers. The harness does not wait for it, because a paused worker
    /// may block the store.
    pub fn spawn_plan_creator(&self, random: &mut Rng) -> anyhow::Result<Child> {
        let profile = if random.u8(..100) < 75 {
            "auto"
        } else {
            "review"
        };
        let actor = match self.has_asking_actor && random.u8(..100) < 30 {
            true => "asker",
            false => "bot",
        };
        let mut arguments = vec!["run", "--detach", "--actor", actor, "--profile", profile];
        arguments.extend(["--attempts", if random.bool() { "3" } else { "9" }]);
        if random.bool() {
            arguments.extend(["--project", "shop"]);
        } else {
            arguments.push("--no-project");
        }
        arguments.push("Make a file");
        let mut creator = self.program_command(&arguments);
        creator.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(creator.spawn()?)
    }

    /// Whether the store accepts writes soon. A worker that is paused while it holds the write lock of a SQLite file
    /// blocks all writers. That is a property of such files, not what a trial tests.
    pub fn is_store_writable(&self) -> bool {
        let Some(database) = self.store_address.strip_prefix("sqlite:") else {
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

    /// Reads all plans.
    pub fn list_plans(&self) -> anyhow::Result<Vec<Plan>> {
        const PAGE_SIZE: usize = 500;
        let mut plans: Vec<Plan> = Vec::new();
        loop {
            let after: Option<PlanId> = plans.last().map(Plan::id);
            let page = self
                .lifecycle
                .list_plans(&PlanFilter::default(), after, PAGE_SIZE)?;
            let is_last = page.len() < PAGE_SIZE;
            plans.extend(page.into_iter().map(|row| row.plan));
            if is_last {
                return Ok(plans);
            }
        }
    }

    /// Reads the plans that still have work for a worker.
    pub fn list_unfinished_plans(&self) -> anyhow::Result<Vec<Plan>> {
        let now = self.store.now()?;
        let worker = Caller::Worker("observer".to_owned());
        let is_finished = |plan: &Plan| {
            let next = next_engine_step(plan, &worker, now);
            matches!(
                next,
                EngineStep::Idle(IdleReason::NeedsPerson | IdleReason::Ended)
            )
        };
        let mut plans = self.list_plans()?;
        plans.retain(|plan| !is_finished(plan));
        Ok(plans)
    }

    /// Runs git in the repository, as a person would.
    pub fn run_git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run_git_in(&self.repository, arguments)
    }

    /// Runs git in another directory, such as a sandbox.
    pub fn run_git_in(&self, directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let output = new_command(Path::new("git"))
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(directory)
            .output()?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("git {arguments:?}: {stderr}");
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The path as an argument.
pub fn path_as_str(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .context("the path of the trial directory is not UTF-8")
}
