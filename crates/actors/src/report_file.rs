//! The report file that an agent may write itself, instead of being judged by its exit code and
//! output.
//!
//! It is parsed strictly: an invalid report is a failure with a reason, whatever the exit code was.
//! Otherwise a wrapper with a bug would look as if its agent had succeeded.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use plan::decision::ReportedDecision;
use plan::stage::FailureCategory;
use plan::{ErasableText, Span};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use crate::secrets::SecretValues;
use crate::stream::dollars_to_micros;
use crate::{Report, ReportOutcome, Usage};

/// The longest report that is read.
const MAX_REPORT_BYTES: u64 = 1024 * 1024;

/// Reads the report file, if there is one. An invalid report is a failure. Secrets are removed from
/// the file, which is kept with the run.
pub(crate) fn read_report(path: &Path, secrets: &SecretValues) -> Option<Report> {
    let text = match read_regular_file(path) {
        Ok(text) => text?,
        Err(reason) => {
            // A file that cannot be read cannot be searched for secrets.
            if !secrets.is_empty() {
                let _ = std::fs::remove_file(path);
            }
            return Some(rejected_report(&reason));
        }
    };
    if text.trim().is_empty() {
        return Some(rejected_report("it is empty"));
    }
    let redacted = secrets.hide_in_line(&text);
    if redacted != text
        && let Err(error) = replace_file(path, &redacted)
    {
        return Some(rejected_report(&format!(
            "its secrets cannot be redacted: {error}"
        )));
    }
    Some(parse_report(&redacted).unwrap_or_else(|why| rejected_report(&why)))
}

/// Replaces a file without following a symlink.
fn replace_file(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::remove_file(path)?;
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

fn rejected_report(reason: &str) -> Report {
    Report::failed(
        FailureCategory::Actor,
        format!("the agent's report is invalid: {reason}"),
    )
}

/// An agent may put anything in place of its report, such as a symlink to a file that it cannot
/// read itself, or a pipe without a writer. Neither is followed.
fn read_regular_file(path: &Path) -> Result<Option<String>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_REPORT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_REPORT_BYTES {
        return Err("it is larger than 1 MiB".to_owned());
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| "it is not UTF-8".to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReport {
    outcome: WrittenOutcome,
    summary: Option<String>,
    message: Option<String>,
    category: Option<FailureCategory>,
    question: Option<String>,
    timeout: Option<String>,
    #[serde(default)]
    decisions: Vec<ReportedDecision>,
    #[serde(default)]
    usage: WrittenUsage,
    session: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum WrittenOutcome {
    Done,
    Failed,
    Ask,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cost_usd: f64,
}

fn parse_report(text: &str) -> Result<Report, String> {
    let written: WrittenReport = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check_texts(&written)?;
    let only_with =
        |key: &str, outcome: &str| Err(format!("`{key}` is only allowed with outcome `{outcome}`"));
    if written.question.is_some() && written.outcome != WrittenOutcome::Ask {
        return only_with("question", "ask");
    }
    if written.timeout.is_some() && written.outcome != WrittenOutcome::Ask {
        return only_with("timeout", "ask");
    }
    if written.category.is_some() && written.outcome != WrittenOutcome::Failed {
        return only_with("category", "failed");
    }
    if written.message.is_some() && written.outcome != WrittenOutcome::Failed {
        return only_with("message", "failed");
    }
    if let Some(decision) = written
        .decisions
        .iter()
        .find(|decision| !decision.kind.is_for_actors())
    {
        return Err(format!(
            "`{}` is not a decision for agents to make",
            decision.kind
        ));
    }
    let outcome = match written.outcome {
        WrittenOutcome::Done => ReportOutcome::Done,
        WrittenOutcome::Failed => ReportOutcome::Failed {
            category: written.category.unwrap_or(FailureCategory::Actor),
            message: written
                .message
                .filter(|message| !message.trim().is_empty())
                .ok_or("outcome `failed` needs a `message`")?,
        },
        WrittenOutcome::Ask => ReportOutcome::NeedsAnswer {
            question: written
                .question
                .filter(|question| !question.trim().is_empty())
                .ok_or("outcome `ask` needs a `question`")?,
            timeout: written
                .timeout
                .map(|timeout| timeout.parse::<Span>())
                .transpose()
                .map_err(|error| format!("`timeout`: {error}"))?,
        },
    };
    let cost_micros =
        dollars_to_micros(written.usage.cost_usd).ok_or("`cost_usd` is not an amount of money")?;
    Ok(Report {
        outcome,
        summary: written.summary.filter(|summary| !summary.trim().is_empty()),
        decisions: written.decisions,
        usage: Usage {
            input_tokens: written.usage.input_tokens,
            output_tokens: written.usage.output_tokens,
            cost_micros,
        },
        includes_usage_of: Vec::new(),
        session: written.session.filter(|session| !session.is_empty()),
        exit_code: None,
    })
}

/// Checks that every text can be stored.
fn check_texts(written: &WrittenReport) -> Result<(), String> {
    let own_texts = [
        ("summary", &written.summary),
        ("message", &written.message),
        ("question", &written.question),
        ("session", &written.session),
    ];
    let report_texts = own_texts
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.as_ref()?)));
    let decision_texts = written.decisions.iter().flat_map(|decision| {
        [&decision.question, &decision.choice]
            .into_iter()
            .chain(&decision.alternatives)
            .chain(&decision.rationale)
            .map(|text| ("decisions", text))
    });
    for (key, text) in report_texts.chain(decision_texts) {
        if text.contains('\0') {
            return Err(format!("`{key}` contains a NUL character"));
        }
        if text.len() > ErasableText::MAX_BYTES {
            return Err(format!("`{key}` is longer than 256 KiB"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn read_report_text(text: impl AsRef<[u8]>) -> Option<Report> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        fs::write(&path, text).unwrap();
        read_report(&path, &SecretValues::default())
    }

    #[track_caller]
    fn assert_rejected(text: impl AsRef<[u8]>, expected_reason: &str) {
        let report = read_report_text(text).unwrap();
        let ReportOutcome::Failed { category, message } = report.outcome else {
            panic!("{report:?}");
        };
        assert_eq!(category, FailureCategory::Actor);
        let reason = message.strip_prefix("the agent's report is invalid: ");
        assert!(reason.unwrap().contains(expected_reason), "{message}");
    }

    #[test]
    fn full_report_is_accepted() {
        let report = read_report_text(
            r#"{"outcome": "done", "summary": "Did it.", "session": "s",
                "usage": {"input_tokens": 5, "output_tokens": 6, "cost_usd": 0.25},
                "decisions": [{"kind": "strategy_choice", "question": "How?", "choice": "So"}]}"#,
        )
        .unwrap();
        assert_eq!(report.outcome, ReportOutcome::Done);
        assert_eq!(report.summary.as_deref(), Some("Did it."));
        assert_eq!(report.session.as_deref(), Some("s"));
        assert_eq!(report.usage.cost_micros, 250_000);
        assert_eq!(report.decisions[0].choice, "So");
    }

    #[test]
    fn failures_and_questions_are_accepted() {
        let failed = read_report_text(
            r#"{"outcome": "failed", "message": "no net", "category": "transient"}"#,
        );
        assert_eq!(
            failed.unwrap(),
            Report::failed(FailureCategory::Transient, "no net")
        );
        for (timeout_field, timeout) in [
            ("", None),
            (r#", "timeout": "2h""#, Some(Span::from_seconds(7200))),
        ] {
            let asks = format!(r#"{{"outcome": "ask", "question": "Which?"{timeout_field}}}"#);
            let question = "Which?".into();
            assert_eq!(
                read_report_text(asks).unwrap().outcome,
                ReportOutcome::NeedsAnswer { question, timeout }
            );
        }
    }

    #[test]
    fn missing_report_is_none() {
        assert!(read_report(Path::new("/nowhere/at/all"), &SecretValues::default()).is_none());
    }

    #[test]
    fn kept_file_has_no_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        let secrets = SecretValues::from_variables([("TOKEN", "s3cr3t-value")].into_iter());
        let written = [
            r#"{"outcome": "done", "summary": "used s3cr3t-value"}"#,
            r#"{"outcome": "done", "summary": "used \u00733cr3t-value"}"#,
        ];
        for text in written {
            fs::write(&path, text).unwrap();
            let report = read_report(&path, &secrets).unwrap();
            assert_eq!(report.summary.as_deref(), Some("used [TOKEN]"));
            let kept = fs::read_to_string(&path).unwrap();
            assert!(
                kept.contains("[TOKEN]") && !kept.contains("3cr3t"),
                "{kept}"
            );
        }
        fs::write(&path, b"s3cr3t-value \xff").unwrap();
        read_report(&path, &secrets).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn invalid_report_fails_with_a_reason() {
        assert_rejected("", "it is empty");
        assert_rejected(" \n", "it is empty");
        assert_rejected(
            r#"{"outcome": "ask", "question": " \n"}"#,
            "needs a `question`",
        );
        assert_rejected("done", "expected value at line 1 column 1");
        assert_rejected("{}", "missing field `outcome`");
        assert_rejected(r#"{"outcome": "well"}"#, "unknown variant `well`");
        assert_rejected(
            r#"{"outcome": "done", "sumary": "x"}"#,
            "unknown field `sumary`",
        );
        assert_rejected(
            r#"{"outcome": "done", "summary": 5}"#,
            "invalid type: integer `5`",
        );
        assert_rejected(r#"{"outcome": "done"} trailing"#, "trailing characters");
        assert_rejected(r#"{"outcome": "failed"}"#, "needs a `message`");
        assert_rejected(r#"{"outcome": "ask"}"#, "needs a `question`");
        assert_rejected(
            r#"{"outcome": "done", "question": "?"}"#,
            "`question` is only allowed with outcome `ask`",
        );
        assert_rejected(
            r#"{"outcome": "done", "timeout": "2h"}"#,
            "`timeout` is only allowed with outcome `ask`",
        );
        assert_rejected(
            r#"{"outcome": "ask", "question": "?", "timeout": "soon"}"#,
            "`timeout`: `soon` is not a duration",
        );
        assert_rejected(r#"{"outcome": "done", "summary": "a\u0000b"}"#, "NUL");
        assert_rejected(
            r#"{"outcome": "done", "usage": {"cost_usd": -1}}"#,
            "not an amount of money",
        );
        assert_rejected(
            r#"{"outcome": "done", "decisions": [{"kind": "user_intervention", "question": "", "choice": ""}]}"#,
            "`user_intervention` is not a decision for agents to make",
        );
        assert_rejected([0xff, 0xfe], "not UTF-8");
        let large = format!(
            r#"{{"outcome": "done", "summary": "{}"}}"#,
            "x".repeat(300_000)
        );
        assert_rejected(large, "`summary` is longer than 256 KiB");
        assert_rejected("x".repeat(1024 * 1024 + 1), "larger than 1 MiB");
    }

    #[test]
    fn symlinks_and_directories_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let secret = directory.path().join("secret");
        fs::write(&secret, r#"{"outcome": "done"}"#).unwrap();
        let path = directory.path().join("report.json");
        symlink(&secret, &path).unwrap();
        let outcome_text = |report: Option<Report>| format!("{:?}", report.unwrap().outcome);
        assert!(
            outcome_text(read_report(&path, &SecretValues::default())).contains("symbolic link")
        );
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(outcome_text(read_report(&path, &SecretValues::default())).contains("not a file"));
    }
}
