//! Formats the message of a landing commit.

use plan::{Digest, PlanId};

/// The message of a landing commit, and its date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingMessage {
    pub plan_id: PlanId,
    /// The plan's goal, or what the person wrote instead. The first line, shortened, becomes the subject.
    pub text: String,
    /// The agent that did the work, for a trailer.
    pub agent: Option<String>,
    /// The head of the plan's event chain before the landing.
    pub chain_head: Digest,
    /// Author and committer date, in seconds since 1970.
    pub unix_seconds: i64,
    /// Land even if the target already has all changes.
    pub allow_empty: bool,
}

/// Longer subjects are cut off in most listings.
const MAX_SUBJECT_CHARS: usize = 72;

/// The goal may be a long document; the whole text stays with the plan.
const MAX_BODY_BYTES: usize = 4096;

impl LandingMessage {
    /// Subject, body and trailers.
    pub(crate) fn to_text(&self) -> String {
        let content = self.text.trim();
        let (first, more) = content.split_once('\n').unwrap_or((content, ""));
        let (subject, remainder) = split_subject(first.trim());
        let subject = match subject.as_str() {
            "" => "Land a plan",
            subject => subject,
        };
        let body = format!("{remainder}\n{more}");
        let mut text = format!("{subject}\n\n");
        if !body.trim().is_empty() {
            text.push_str(&truncate_body(body.trim()));
            text.push_str("\n\n");
        }
        text.push_str(&format!(
            "Planwright-Plan: {}\nPlanwright-Chain: {}\n",
            self.plan_id, self.chain_head
        ));
        if let Some(agent) = &self.agent {
            text.push_str(&format!("Planwright-Agent: {agent}\n"));
        }
        text
    }
}

/// Splits a line at a word, so that the first part fits a subject.
fn split_subject(line: &str) -> (String, String) {
    let Some((limit, _)) = line.char_indices().nth(MAX_SUBJECT_CHARS) else {
        return (line.to_owned(), String::new());
    };
    // One character less, for the ellipsis.
    let head = line[..limit].char_indices().next_back();
    let head = head.map_or("", |(last, _)| &line[..last]);
    let cut = head.rfind(char::is_whitespace).filter(|cut| *cut > 0);
    let cut = cut.unwrap_or(head.len());
    let (subject, remainder) = line.split_at(cut);
    (
        format!("{}…", subject.trim_end()),
        format!("…{}", remainder.trim_start()),
    )
}

/// Cuts a text to the maximum, with an ellipsis.
fn truncate_body(text: &str) -> String {
    if text.len() <= MAX_BODY_BYTES {
        return text.to_owned();
    }
    let mut end = MAX_BODY_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_without_trailers(goal: &str) -> String {
        let message = LandingMessage {
            plan_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
            text: goal.to_owned(),
            agent: None,
            chain_head: Digest::ZERO,
            unix_seconds: 0,
            allow_empty: false,
        };
        let text = message.to_text();
        let (content, trailers) = text.rsplit_once("\n\n").unwrap();
        assert!(trailers.starts_with("Planwright-Plan: "), "{text}");
        content.to_owned()
    }

    #[test]
    fn one_line_goal_is_the_subject() {
        assert_eq!(format_without_trailers("Tidy the shop"), "Tidy the shop");
        assert_eq!(
            format_without_trailers("Tidy\n\nAll of it"),
            "Tidy\n\nAll of it"
        );
        assert_eq!(format_without_trailers("  "), "Land a plan");
    }

    #[test]
    fn long_goal_is_cut_at_a_word_and_limited() {
        let long = format!("{}end", "word ".repeat(20));
        let text = format_without_trailers(&long);
        let (subject, body) = text.split_once("\n\n").unwrap();
        assert!(subject.chars().count() <= 72, "{subject}");
        assert!(subject.ends_with("word…"), "{subject}");
        assert!(body.starts_with("…word") && body.ends_with("end"), "{body}");
        for huge in [
            "x".repeat(200_000),
            "é".repeat(100_000),
            "\u{1f980} ".repeat(9_000),
        ] {
            let text = format_without_trailers(&huge);
            assert!(text.lines().next().unwrap().chars().count() <= 72);
            assert!(text.len() < 5_000, "{}", text.len());
        }
    }
}
