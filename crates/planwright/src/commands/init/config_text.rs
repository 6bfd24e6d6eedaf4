//! Renders the `planwright.yaml` that `init` proposes.

use serde_json::json;

use super::detect::DetectedSetup;

/// Renders the file, with a comment on each line that users may want to change.
pub fn render_config(found: &DetectedSetup) -> String {
    let mut lines = vec!["# Planwright settings for this repository.".to_owned()];
    match found.agents.as_slice() {
        [] => lines.push(
            "# actor: NAME            # default agent; see: planwright agent list".to_owned(),
        ),
        // The file is shared, so it does not choose the agent that one person has.
        installed => {
            let names = installed.join(", ");
            lines.push(line_with_comment(
                "# actor: NAME",
                &format!("default agent for everybody; installed here: {names}"),
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
                "runs once in every new sandbox",
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
                "ignored files to copy into sandboxes",
            ));
        }
    }
    lines.push("limits:".to_owned());
    lines.push(line_with_comment(
        "  attempts: 3",
        "tries per phase, then the plan waits for you",
    ));
    lines.push(line_with_comment("  timeout: 1h", "per run of the agent"));
    if let Some(test) = &found.test {
        lines.push(line_with_comment(
            "invariants:",
            "rules that must hold before anything lands here",
        ));
        lines.push("  - name: tests".to_owned());
        lines.push(line_with_comment(
            &format!("    command: {}", json!(test)),
            "runs in a clean checkout of the result",
        ));
        lines.push(line_with_comment(
            "    timeout: 10m",
            "counts as failed after this",
        ));
        lines.push(line_with_comment(
            "    at: result",
            "failures go back to the agent",
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
    fn the_proposed_file_parses() {
        for agents in [vec![], vec!["claude"], vec!["claude", "codex"]] {
            let found = DetectedSetup {
                agents: agents.iter().map(|name| (*name).to_owned()).collect(),
                test: Some("npm test -- --run".to_owned()),
                setup: Some("npm ci # \"quoted\"".to_owned()),
                include: vec![".env".to_owned(), "odd, name".to_owned()],
                not_installed: Vec::new(),
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
            assert_eq!(file.actor, None, "the file is shared");
        }
    }
}
