//! The `planwright.yaml` that fits what was found.

use serde_json::json;

use super::detect::DetectedSetup;

/// The file, with a comment on each line that somebody may want to change.
pub fn render_config(found: &DetectedSetup) -> String {
    let mut lines = vec!["# How Planwright works on this repository.".to_owned()];
    match found.agents.as_slice() {
        [] => lines.push("# actor: NAME            # who works: planwright agent list".to_owned()),
        [only] => lines.push(line_with_comment(&format!("actor: {only}"), "who works")),
        several => {
            let names = several.join(", ");
            lines.push(line_with_comment(
                "# actor: NAME",
                &format!("who works; installed: {names}"),
            ));
        }
    }
    lines.push(line_with_comment(
        "profile: review",
        "manual, supervised, review or auto",
    ));
    if found.setup.is_some() || !found.include.is_empty() {
        lines.push("sandbox:".to_owned());
        if let Some(setup) = &found.setup {
            lines.push(line_with_comment(
                &format!("  setup: {}", json!(setup)),
                "run once in every new sandbox",
            ));
        }
        if !found.include.is_empty() {
            let files: Vec<String> = found
                .include
                .iter()
                .map(|file| json!(file).to_string())
                .collect();
            lines.push(line_with_comment(
                &format!("  include: [{}]", files.join(", ")),
                "ignored files that work needs",
            ));
        }
    }
    lines.push("limits:".to_owned());
    lines.push(line_with_comment(
        "  attempts: 3",
        "tries after passing failures, before it waits for you",
    ));
    lines.push(line_with_comment(
        "  timeout: 1h",
        "for one run of the agent",
    ));
    if let Some(test) = &found.test {
        lines.push(line_with_comment(
            "invariants:",
            "what must hold before anything lands here",
        ));
        lines.push("  - name: tests".to_owned());
        lines.push(line_with_comment(
            &format!("    command: {}", json!(test)),
            "in a clean checkout of the result",
        ));
        lines.push(line_with_comment(
            "    timeout: 10m",
            "after that they have failed",
        ));
        lines.push(line_with_comment(
            "    at: result",
            "what fails goes back to the agent",
        ));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn line_with_comment(line: &str, comment: &str) -> String {
    format!("{line:<24} # {comment}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may be blunt")]

    use super::*;
    use crate::yaml;

    #[test]
    fn what_is_written_can_be_read() {
        for agents in [vec![], vec!["claude"], vec!["claude", "codex"]] {
            let found = DetectedSetup {
                agents: agents.iter().map(|name| (*name).to_owned()).collect(),
                test: Some("npm test -- --run".to_owned()),
                setup: Some("npm ci # \"quoted\"".to_owned()),
                include: vec![".env".to_owned(), "odd, name".to_owned()],
            };
            let file = yaml::parse_repository(&render_config(&found), "planwright.yaml").unwrap();
            assert_eq!(file.setup, found.setup);
            assert_eq!(file.include, found.include);
            let [tests] = file.invariants.as_slice() else {
                panic!("the tests are a rule: {:?}", file.invariants);
            };
            assert_eq!(tests.name.as_str(), "tests");
            assert_eq!(tests.check.kind(), "command");
            assert_eq!(Some(tests.check.source()), found.test);
            assert_eq!(tests.at, [plan::invariant::Gate::Result]);
            let only = (agents.len() == 1).then(|| agents[0].parse().unwrap());
            assert_eq!(file.actor, only);
        }
    }
}
