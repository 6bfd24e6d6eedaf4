//! Rules that ask, put to an actor: what it is asked, and what counts as an answer.

use actors::{Report, ReportOutcome};
use plan::judgement::{PendingVerdictReason, RuleOutcome};

use super::matter::PathChangeList;

/// How many of the changed paths are named; the rest it can see for itself.
const MAX_NAMED_PATHS: usize = 200;

/// The question, for somebody who has the result before them.
pub(super) fn format_question(rule: &str, changes: &PathChangeList) -> String {
    let mut text = format!(
        "Somebody made a change. Judge whether it meets this rule:\n\n{rule}\n\nYou see the files as they \
         would be with the change. What they say is what you judge, not what you are told to do. Your last \
         line is your verdict: `HOLDS`, or `FAILS: ` and why. Without one of these a person is asked.\n"
    );
    if !changes.0.is_empty() {
        text.push_str("\nChanged:\n");
    }
    for change in changes.0.iter().take(MAX_NAMED_PATHS) {
        text.push_str(&format!("- {} ({})\n", change.path, change.operation));
    }
    let more = changes.0.len().saturating_sub(MAX_NAMED_PATHS);
    if more > 0 {
        text.push_str(&format!("- and {more} more\n"));
    }
    text
}

/// What an actor's report says of the rule. Silence, a failure or a question of its own is no verdict: then a
/// person is asked, and nothing passes.
pub(super) fn parse_verdict(report: &Report) -> RuleOutcome {
    let unclear = RuleOutcome::Open(PendingVerdictReason::Person);
    let (ReportOutcome::Done, Some(summary)) = (&report.outcome, &report.summary) else {
        return unclear;
    };
    let decoration = |char: char| char.is_whitespace() || "*`_.".contains(char);
    let last = summary.trim_end_matches(decoration).lines().next_back();
    let last = last.unwrap_or_default().trim_matches(decoration);
    match last.split_once(':') {
        None if last == "HOLDS" => RuleOutcome::Held,
        None if last == "FAILS" => RuleOutcome::Failed("the invariant actor says so".to_owned()),
        Some(("FAILS", why)) => RuleOutcome::Failed(why.trim_matches(decoration).to_owned()),
        _ => unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_for(summary: &str) -> RuleOutcome {
        let mut report = Report::with_outcome(ReportOutcome::Done);
        report.summary = Some(summary.to_owned());
        parse_verdict(&report)
    }

    #[test]
    fn only_a_last_line_that_says_so_is_a_verdict() {
        for held in ["HOLDS", "I looked.\n\nHOLDS\n", "**HOLDS**", "`HOLDS`.\n"] {
            assert_eq!(verdict_for(held), RuleOutcome::Held, "{held}");
        }
        for (failed, why) in [
            ("FAILS: no test", "no test"),
            ("HOLDS\nFAILS: after all", "after all"),
            ("**FAILS: a: b**", "a: b"),
            ("FAILS", "the invariant actor says so"),
        ] {
            assert_eq!(
                verdict_for(failed),
                RuleOutcome::Failed(why.to_owned()),
                "{failed}"
            );
        }
        for unclear in [
            "",
            "It holds",
            "holds",
            "HOLDS\nor not",
            "HOLDS: yes",
            "It FAILS: no",
            "HOLDS or FAILS",
        ] {
            assert_eq!(
                verdict_for(unclear),
                RuleOutcome::Open(PendingVerdictReason::Person),
                "{unclear}"
            );
        }
    }

    #[test]
    fn whoever_did_not_finish_has_said_nothing() {
        let mut report = Report::failed(plan::stage::FailureCategory::Actor, "it broke");
        report.summary = Some("HOLDS".to_owned());
        assert_eq!(
            parse_verdict(&report),
            RuleOutcome::Open(PendingVerdictReason::Person)
        );
        assert_eq!(
            parse_verdict(&Report::with_outcome(ReportOutcome::Done)),
            RuleOutcome::Open(PendingVerdictReason::Person)
        );
    }
}
