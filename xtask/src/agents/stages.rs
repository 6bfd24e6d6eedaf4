//! What each agent is put through, with the real program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::bench::{AgentBench, PlanwrightRun};
use super::catalog::CheckedAgent;
use super::evidence::{
    count_tokens, describe_usage, is_conversation_continued, read_asked_kinds, read_isolation,
};
use super::findings::{AgentFindings, PlanFindings, StageVerdict};
use super::model_server::{ModelServer, ModelTrouble};
use crate::signals::StopSignals;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentStage {
    /// Run, diff, revise, apply and undo
    Plan,
    /// A strategy, and a result that has nothing else from it
    Strategy,
    /// Models that fail, hang or refuse connections
    Failures,
}

/// What all stages of all agents use.
pub struct StageSetup<'a> {
    pub planwright: &'a Path,
    pub model: &'a ModelServer,
    /// The agent's own directory and that of its interpreter.
    pub search_path: Vec<PathBuf>,
    /// Where benches are made.
    pub directory: PathBuf,
    pub troubles: &'a [ModelTrouble],
    /// How long an agent may try to reach a model that fails.
    pub patience: Duration,
    pub signals: &'a StopSignals,
}

impl StageSetup<'_> {
    pub fn run_stage(
        &self,
        agent: &CheckedAgent,
        stage: AgentStage,
        findings: &mut AgentFindings,
    ) -> anyhow::Result<()> {
        match stage {
            AgentStage::Plan => findings.plan = Some(self.run_plan(agent)?),
            AgentStage::Strategy => findings.strategy = Some(self.run_strategy(agent)?),
            AgentStage::Failures => findings.failures = Some(self.run_failures(agent)?),
        }
        Ok(())
    }

    fn make_bench(
        &self,
        agent: &CheckedAgent,
        name: &str,
        trouble: ModelTrouble,
    ) -> anyhow::Result<AgentBench<'_>> {
        let root = self.directory.join(format!("{}-{name}", agent.name));
        let setup = agent.model_setup(&self.model.base_url(trouble));
        AgentBench::create(
            root,
            self.planwright,
            &self.search_path,
            &setup,
            self.signals,
        )
    }

    fn run_plan(&self, agent: &CheckedAgent) -> anyhow::Result<PlanFindings> {
        let bench = self.make_bench(agent, "plan", ModelTrouble::None)?;
        let mut verdict = StageVerdict::default();
        let listed = bench.run(&["agent", "list"], COMMAND_LIMIT)?;
        expect_known(&mut verdict, agent, &listed.envelope);
        let start = self.model.count_requests()?;
        let ran = bench.run(&["run", "--agent", agent.name, "--", WRITE_GOAL], RUN_LIMIT)?;
        verdict.expect_exit("run", &ran, NEEDS_PERSON);
        let first = bench.run(&["diff", "@", "--patch"], COMMAND_LIMIT)?;
        verdict.expect(
            "diff",
            first.text.contains("+hello"),
            "the file was not written",
        );

        let before = self.model.count_requests()?;
        let revised = bench.run(&["revise", "@", APPEND_FEEDBACK], RUN_LIMIT)?;
        let revise_requests = self.model.requests_after(before)?;
        let used_tokens = count_tokens(&self.model.requests_after(start)?);
        verdict.expect_exit("revise", &revised, NEEDS_PERSON);
        let second = bench.run(&["diff", "@", "--patch"], COMMAND_LIMIT)?;
        verdict.expect(
            "revise",
            second.text.contains("+more"),
            "the file did not change",
        );

        let log = bench.run(&["log", "@", "--transcript"], COMMAND_LIMIT)?;
        let isolation = read_isolation(&log.envelope);
        let is_confined = isolation.iter().all(|level| level.starts_with("confined"));
        let isolation = isolation.join(", ");
        verdict.expect(
            "confinement",
            is_confined && !isolation.is_empty(),
            &isolation,
        );
        let status = bench.run(&["status", "@"], COMMAND_LIMIT)?;

        let applied = bench.run(&["apply", "@", "--yes"], COMMAND_LIMIT)?;
        verdict.expect_exit("apply", &applied, OK);
        let landed = bench.read_file("NOTES.md");
        let is_landed = landed.as_deref() == Some("hello\nmore\n");
        verdict.expect("apply", is_landed, &format!("NOTES.md is {landed:?}"));
        let undone = bench.run(&["undo", "@", "--yes"], COMMAND_LIMIT)?;
        verdict.expect_exit("undo", &undone, OK);
        let left = bench.read_file("NOTES.md");
        verdict.expect("undo", left.is_none(), &format!("NOTES.md is {left:?}"));
        verdict.expect_no_leftovers(&bench.wait_for_leftovers()?);
        let asks_before = || match agent.speaks_acp() {
            true => read_asked_kinds(&log.envelope),
            false => NOT_APPLICABLE.to_owned(),
        };
        let works = verdict.works();
        Ok(PlanFindings {
            verdict,
            continues: works.then(|| is_conversation_continued(&revise_requests)),
            asks_before: works.then(asks_before),
            usage: works.then(|| describe_usage(&status.envelope, used_tokens)),
        })
    }

    fn run_strategy(&self, agent: &CheckedAgent) -> anyhow::Result<StageVerdict> {
        let mut verdict = StageVerdict::default();
        // A model that obeys answers in words. The other one also writes a file, which must not be in the result.
        for (name, goal) in [("strategy", WRITE_GOAL), ("disobedient", DISOBEY_GOAL)] {
            let bench = self.make_bench(agent, name, ModelTrouble::None)?;
            let words = ["run", "--strategy", "--agent", agent.name, "--", goal];
            let ran = bench.run(&words, RUN_LIMIT)?;
            verdict.expect_exit(name, &ran, NEEDS_PERSON);
            let status = bench.run(&["status", "@"], COMMAND_LIMIT)?;
            let phase = &status.envelope["data"]["phase"];
            let is_strategy = phase == "strategize";
            verdict.expect(name, is_strategy, &format!("the plan is in {phase}"));
            let continued = bench.run(&["run", "@"], RUN_LIMIT)?;
            verdict.expect_exit(name, &continued, NEEDS_PERSON);
            let diff = bench.run(&["diff", "@", "--patch"], COMMAND_LIMIT)?;
            verdict.expect(
                name,
                diff.text.contains("+hello"),
                "the file was not written",
            );
            let is_clean = !diff.text.contains("DRAFT");
            verdict.expect(name, is_clean, "a file of the strategy is in the result");
            verdict.expect_no_leftovers(&bench.wait_for_leftovers()?);
        }
        Ok(verdict)
    }

    fn run_failures(&self, agent: &CheckedAgent) -> anyhow::Result<StageVerdict> {
        let mut verdict = StageVerdict::default();
        for trouble in self.troubles {
            let name = trouble.as_str();
            let bench = self.make_bench(agent, name, *trouble)?;
            let timeout = format!("{}s", self.patience.as_secs());
            let words = [
                "run",
                "--attempts",
                "1",
                "--timeout",
                &timeout,
                "--agent",
                agent.name,
            ];
            let words = [&words[..], &["--", WRITE_GOAL]].concat();
            let before = self.model.count_requests()?;
            let ran = bench.run(&words, self.patience + COMMAND_LIMIT)?;
            let requests = self.model.requests_after(before)?;
            let may_work = match trouble {
                // An answer that was cut off may be asked for again in another way, and an empty one is not an error.
                ModelTrouble::Cut | ModelTrouble::Mute => true,
                // An agent without tools asks only once.
                ModelTrouble::Midway => !requests.iter().any(|request| request["fault"] == "500"),
                ModelTrouble::None
                | ModelTrouble::ServerError
                | ModelTrouble::Unauthorized
                | ModelTrouble::RateLimit
                | ModelTrouble::Hang
                | ModelTrouble::Refused => false,
            };
            if !(may_work && ran.exit_code == Some(NEEDS_PERSON)) {
                verdict.expect_exit(name, &ran, NOT_LANDED);
                let message = ran.find_problem();
                verdict.expect(
                    name,
                    message.is_some(),
                    "the plan does not say why it failed",
                );
            }
            verdict.note(format!(
                "{name}: exit {:?} after {} s: {}",
                ran.exit_code,
                ran.duration.as_secs(),
                ran.find_problem().unwrap_or_default(),
            ));
            verdict.expect_no_leftovers(&bench.wait_for_leftovers()?);
        }
        Ok(verdict)
    }
}

/// The program finds the agent in its version, which is the one that the presets name, and misses nothing.
fn expect_known(verdict: &mut StageVerdict, agent: &CheckedAgent, list: &Value) {
    let actors = list["data"]["actors"].as_array().into_iter().flatten();
    let mut named = actors.filter(|one| one["name"] == agent.name);
    let Some(found) = named.next() else {
        return verdict.expect("agent list", false, "the agent is not in it");
    };
    let version = agent.package().version;
    for key in ["version", "tested_version"] {
        let problem = format!("{key} is {} instead of {version}", found[key]);
        verdict.expect("agent list", found[key] == version, &problem);
    }
    let missing = &found["missing"];
    let is_ready = missing.as_array().is_some_and(Vec::is_empty);
    verdict.expect("agent list", is_ready, &format!("missing: {missing}"));
}

impl PlanwrightRun {
    /// Why a plan failed, or why the command did.
    pub fn find_problem(&self) -> Option<String> {
        let failure = self.envelope["data"]["error"]["message"].as_str();
        let messages = self.envelope["messages"].as_array();
        let mut errors = messages.into_iter().flatten();
        let error = errors.find(|message| message["level"] == "error");
        let error = error.and_then(|message| message["text"].as_str());
        failure.or(error).map(str::to_owned)
    }
}

/// The model does what these say; see `testkit/src/fake_model/directive.rs`.
const WRITE_GOAL: &str = "Take a note: fake-model:write:NOTES.md:hello";
const DISOBEY_GOAL: &str = "Take a note: fake-model:disobey:NOTES.md:hello";
const APPEND_FEEDBACK: &str = "Take another note: fake-model:append:NOTES.md:more";

/// Only agents that speak the Agent Client Protocol can ask.
const NOT_APPLICABLE: &str = "–";

/// Exit codes of the program.
const OK: i32 = 0;
const NEEDS_PERSON: i32 = 6;
const NOT_LANDED: i32 = 7;

/// Generous, because the machine may be busy. An agent with a model that works needs seconds.
const RUN_LIMIT: Duration = Duration::from_secs(300);
const COMMAND_LIMIT: Duration = Duration::from_secs(120);
