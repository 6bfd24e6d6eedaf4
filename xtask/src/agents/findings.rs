//! What was found out about an agent.

use super::bench::PlanwrightRun;
use super::stages::AgentStage;

/// A stage that was not run is `None`.
pub struct AgentFindings {
    pub agent: &'static str,
    pub version: &'static str,
    pub plan: Option<PlanFindings>,
    pub strategy: Option<StageVerdict>,
    pub failures: Option<StageVerdict>,
}

/// Besides the verdict, `None` where the agent did not get far enough.
pub struct PlanFindings {
    pub verdict: StageVerdict,
    /// The agent goes on with its conversation after feedback.
    pub continues: Option<bool>,
    /// What the agent asks about before it does it.
    pub asks_before: Option<String>,
    /// What the agent reports to have used.
    pub usage: Option<String>,
}

/// What went wrong in a stage. A stage without problems works.
#[derive(Default)]
pub struct StageVerdict {
    problems: Vec<String>,
    notes: Vec<String>,
}

impl StageVerdict {
    pub fn works(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn expect(&mut self, step: &str, holds: bool, problem: &str) {
        if !holds {
            self.problems.push(format!("{step}: {problem}"));
        }
    }

    pub fn expect_exit(&mut self, step: &str, run: &PlanwrightRun, expected: i32) {
        let problem = match run.exit_code {
            Some(code) if code == expected => return,
            Some(code) => format!("exit {code} instead of {expected}"),
            None => format!("stopped after {} s", run.duration.as_secs()),
        };
        let said = run.find_problem().unwrap_or_else(|| end_of(&run.text));
        self.problems.push(format!("{step}: {problem}: {said}"));
    }

    pub fn expect_no_leftovers(&mut self, commands: &[String]) {
        for command in commands {
            self.problems.push(format!("still running: {command}"));
        }
    }

    /// Adds what is worth reading even if the stage works.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn print(&self, agent: &str, stage: &str) {
        let word = if self.works() { "ok" } else { "FAILED" };
        eprintln!("{agent:13} {stage:9} {word}");
        for line in self.notes.iter().chain(&self.problems) {
            eprintln!("    {}", line.replace('\n', "\n    "));
        }
    }
}

impl AgentFindings {
    pub fn new(agent: &'static str, version: &'static str) -> Self {
        Self {
            agent,
            version,
            plan: None,
            strategy: None,
            failures: None,
        }
    }

    pub fn set_not_installed(&mut self, stage: AgentStage, problem: &str) {
        let mut verdict = StageVerdict::default();
        verdict.expect("installation", false, problem);
        match stage {
            AgentStage::Plan => {
                self.plan = Some(PlanFindings {
                    verdict,
                    continues: None,
                    asks_before: None,
                    usage: None,
                });
            }
            AgentStage::Strategy => self.strategy = Some(verdict),
            AgentStage::Failures => self.failures = Some(verdict),
        }
    }

    pub fn print_stage(&self, stage: AgentStage) {
        let (name, verdict) = match stage {
            AgentStage::Plan => ("plan", self.plan.as_ref().map(|plan| &plan.verdict)),
            AgentStage::Strategy => ("strategy", self.strategy.as_ref()),
            AgentStage::Failures => ("failures", self.failures.as_ref()),
        };
        if let Some(verdict) = verdict {
            verdict.print(self.agent, name);
        }
    }
}

/// The last characters of a long output.
fn end_of(text: &str) -> String {
    const MAX_QUOTED_BYTES: usize = 600;
    let start = text.len().saturating_sub(MAX_QUOTED_BYTES);
    text[text.ceil_char_boundary(start)..].to_owned()
}
