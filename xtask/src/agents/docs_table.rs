//! The table of agents in `docs/agents.md`: what was found is compared with it, or put into it.
//!
//! Cells of agents and stages that were not run stay as they are.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::findings::{AgentFindings, StageVerdict};

const SECTION_BEGIN: &str = "<!-- agents: made by `cargo xtask agents --write`; do not edit -->\n";
const SECTION_END: &str = "<!-- agents: end -->";

const COLUMNS: [&str; 8] = [
    "agent",
    "version",
    "run, diff, revise, apply, undo",
    "strategy",
    "failing model",
    "continues its conversation",
    "asks before",
    "usage",
];
/// The columns that say whether a stage works.
const STAGE_COLUMNS: std::ops::Range<usize> = 2..5;

const YES: &str = "yes";
const NO: &str = "no";
const NOT_RUN: &str = "not run";

type TableRow = [String; COLUMNS.len()];

/// The rows by agent.
#[derive(Debug, PartialEq)]
pub struct AgentTable(BTreeMap<String, TableRow>);

impl AgentTable {
    /// Reads the table in a document. Other columns than today's are a table of an earlier version, so nothing of it
    /// is kept.
    pub fn parse(document: &str) -> anyhow::Result<Self> {
        let (_, section, _) = split_document(document)?;
        let mut rows = section.lines().filter(|line| line.starts_with('|'));
        let header = rows.next().map(parse_row);
        if header.is_none_or(|header| header != COLUMNS) {
            return Ok(Self(BTreeMap::new()));
        }
        let rows = rows.skip(1).map(|line| {
            let cells = parse_row(line).into_iter().map(str::to_owned);
            let cells: Vec<String> = cells.collect();
            let row: TableRow = cells.try_into().ok().context("a row has other columns")?;
            Ok((row[0].trim_matches('`').to_owned(), row))
        });
        Ok(Self(rows.collect::<anyhow::Result<_>>()?))
    }

    /// The same table with what was found.
    pub fn with_findings(&self, found: &[AgentFindings]) -> Self {
        let mut rows = self.0.clone();
        for findings in found {
            let row = rows
                .entry(findings.agent.to_owned())
                .or_insert_with(|| COLUMNS.map(|_| NOT_RUN.to_owned()));
            for (cell, new) in row.iter_mut().zip(describe_findings(findings)) {
                *cell = new.unwrap_or_else(|| std::mem::take(cell));
            }
        }
        Self(rows)
    }

    /// What fails in `found` and does not fail in this table.
    pub fn new_failures(&self, found: &Self) -> Vec<String> {
        let mut failures = Vec::new();
        for (agent, row) in &found.0 {
            let documented = self.0.get(agent);
            for column in STAGE_COLUMNS {
                let is_documented = documented.is_some_and(|row| row[column] == NO);
                if row[column] == NO && !is_documented {
                    failures.push(format!("{agent}: {}", COLUMNS[column]));
                }
            }
        }
        failures
    }

    pub fn to_markdown(&self) -> String {
        let mut text = format_row(&COLUMNS.map(str::to_owned));
        text.push_str(&format!("|{}\n", " --- |".repeat(COLUMNS.len())));
        for row in self.0.values() {
            text.push_str(&format_row(row));
        }
        text
    }

    /// The document with this table.
    pub fn write_into(&self, document: &str) -> anyhow::Result<String> {
        let (before, _, after) = split_document(document)?;
        let table = self.to_markdown();
        Ok(format!(
            "{before}{SECTION_BEGIN}\n{table}\n{SECTION_END}{after}"
        ))
    }
}

/// One cell per column; `None` where nothing was found out.
fn describe_findings(findings: &AgentFindings) -> [Option<String>; COLUMNS.len()] {
    let verdict = |verdict: Option<&StageVerdict>| verdict.map(|one| yes_or_no(one.works()));
    let plan = findings.plan.as_ref();
    [
        Some(format!("`{}`", findings.agent)),
        Some(findings.version.to_owned()),
        verdict(plan.map(|plan| &plan.verdict)),
        verdict(findings.strategy.as_ref()),
        verdict(findings.failures.as_ref()),
        plan.and_then(|plan| plan.continues.map(yes_or_no)),
        plan.and_then(|plan| plan.asks_before.clone()),
        plan.and_then(|plan| plan.usage.clone()),
    ]
}

fn yes_or_no(value: bool) -> String {
    let word = if value { YES } else { NO };
    word.to_owned()
}

/// The document before the section, in it and after it.
fn split_document(document: &str) -> anyhow::Result<(&str, &str, &str)> {
    let split = document
        .split_once(SECTION_BEGIN)
        .and_then(|(before, rest)| {
            let (section, after) = rest.split_once(SECTION_END)?;
            Some((before, section, after))
        });
    let (before, section, after) = split.context("docs/agents.md has no section for the table")?;
    ensure!(
        !after.contains(SECTION_BEGIN),
        "docs/agents.md has two tables"
    );
    Ok((before, section, after))
}

fn parse_row(line: &str) -> Vec<&str> {
    let line = line.trim().trim_matches('|');
    line.split('|').map(str::trim).collect()
}

fn format_row(row: &TableRow) -> String {
    format!("| {} |\n", row.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::findings::PlanFindings;
    use super::*;

    fn document(table: &str) -> String {
        format!("# Agents\n\n{SECTION_BEGIN}\n{table}\n{SECTION_END}\n\nMore.\n")
    }

    fn failed_verdict() -> StageVerdict {
        let mut verdict = StageVerdict::default();
        verdict.expect("run", false, "it did not start");
        verdict
    }

    fn plan_findings(verdict: StageVerdict) -> AgentFindings {
        let mut findings = AgentFindings::new("codex", "2.0");
        findings.plan = Some(PlanFindings {
            verdict,
            continues: Some(true),
            asks_before: Some("–".to_owned()),
            usage: Some("tokens".to_owned()),
        });
        findings
    }

    #[test]
    fn findings_replace_only_the_cells_of_their_stages() {
        let empty = AgentTable::parse(&document("")).unwrap();
        let mut findings = plan_findings(StageVerdict::default());
        findings.failures = Some(StageVerdict::default());
        let first = empty.with_findings(&[findings]);
        let written = first.write_into(&document("old")).unwrap();
        assert!(written.starts_with("# Agents\n") && written.ends_with("\nMore.\n"));
        let row = "| `codex` | 2.0 | yes | not run | yes | yes | – | tokens |\n";
        assert!(written.contains(row), "{written}");

        let read_again = AgentTable::parse(&written).unwrap();
        assert_eq!(read_again, first);
        let mut strategy = AgentFindings::new("codex", "2.0");
        strategy.strategy = Some(failed_verdict());
        let second = read_again.with_findings(&[strategy]);
        let row = "| `codex` | 2.0 | yes | no | yes | yes | – | tokens |\n";
        assert!(second.to_markdown().contains(row), "{second:?}");
    }

    #[test]
    fn a_failure_is_new_unless_it_is_documented() {
        let empty = AgentTable::parse(&document("")).unwrap();
        let works = empty.with_findings(&[plan_findings(StageVerdict::default())]);
        let fails = works.with_findings(&[plan_findings(failed_verdict())]);
        let new = ["codex: run, diff, revise, apply, undo"];
        assert_eq!(works.new_failures(&fails), new);
        assert_eq!(empty.new_failures(&fails), new);
        assert_eq!(fails.new_failures(&fails), [""; 0]);
        assert_eq!(fails.new_failures(&works), [""; 0]);
    }

    #[test]
    fn a_document_without_the_section_is_refused() {
        assert!(AgentTable::parse("# Agents\n").is_err());
    }
}
