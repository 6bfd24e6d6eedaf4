//! What the commit that lands says.

use plan::{Digest, PlanId};

/// The message of a landing commit, and when it is said to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingMessage {
    /// The plan.
    pub plan_id: PlanId,
    /// What it is for; its first words become the subject.
    pub goal: String,
    /// The head of the plan's chain of events before it landed.
    pub chain_head: Digest,
    /// Seconds since 1970.
    pub unix_seconds: i64,
    /// Land it even if the target has it all already.
    pub allow_empty: bool,
}

/// Longest subject that is shown whole wherever commits are listed.
const MAX_SUBJECT_CHARS: usize = 72;

/// Longest text under it: a goal may be a whole document, which is kept with its plan.
const MAX_BODY_BYTES: usize = 4096;

impl LandingMessage {
    /// Subject, text and trailers.
    pub(crate) fn to_text(&self) -> String {
        let goal = self.goal.trim();
        let (first, more) = goal.split_once('\n').unwrap_or((goal, ""));
        let (subject, left) = split_subject(first.trim());
        let subject = match subject.as_str() {
            "" => "Land a plan",
            subject => subject,
        };
        let body = format!("{left}\n{more}");
        let mut text = format!("{subject}\n\n");
        if !body.trim().is_empty() {
            text.push_str(&truncate_body(body.trim()));
            text.push_str("\n\n");
        }
        text.push_str(&format!(
            "Planwright-Plan: {}\nPlanwright-Chain: {}\n",
            self.plan_id, self.chain_head
        ));
        text
    }
}

/// A line cut at a word so that it can be a subject, and what is left of it.
fn split_subject(line: &str) -> (String, String) {
    let Some((limit, _)) = line.char_indices().nth(MAX_SUBJECT_CHARS) else {
        return (line.to_owned(), String::new());
    };
    // One less, for the mark of the cut.
    let head = line[..limit].char_indices().next_back();
    let head = head.map_or("", |(last, _)| &line[..last]);
    let cut = head.rfind(char::is_whitespace).filter(|cut| *cut > 0);
    let cut = cut.unwrap_or(head.len());
    let (subject, left) = line.split_at(cut);
    (
        format!("{}…", subject.trim_end()),
        format!("…{}", left.trim_start()),
    )
}

/// A text of at most so many bytes, and a mark if some are missing.
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
            goal: goal.to_owned(),
            chain_head: Digest::ZERO,
            unix_seconds: 0,
            allow_empty: false,
        };
        let text = message.to_text();
        let (own, trailers) = text.rsplit_once("\n\n").unwrap();
        assert!(trailers.starts_with("Planwright-Plan: "), "{text}");
        own.to_owned()
    }

    #[test]
    fn a_goal_of_a_line_is_the_subject() {
        assert_eq!(format_without_trailers("Tidy the shop"), "Tidy the shop");
        assert_eq!(
            format_without_trailers("Tidy\n\nAll of it"),
            "Tidy\n\nAll of it"
        );
        assert_eq!(format_without_trailers("  "), "Land a plan");
    }

    #[test]
    fn a_long_goal_is_cut_at_a_word_and_bounded() {
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
