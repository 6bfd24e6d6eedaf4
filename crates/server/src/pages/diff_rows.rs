//! The rows of a file's diff, one below the other or side by side.

use api::view::{FileDiffView, HunkPartName, LineKind, LineView, RegionView};

use super::syntax::{LineColorer, Token, TokenKind};
use super::visible::visible;
use super::word_diff::find_changed_words;

/// A longer line would fill the screen.
const MAX_PLAIN_BYTES: usize = 2000;

/// How a diff is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffLayout {
    #[default]
    Unified,
    Split,
}

/// Whether parts can be taken or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HunkChoices {
    Shown,
    Hidden,
}

/// Whether code is coloured. Very large diffs are not: the page would become too heavy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeColors {
    Shown,
    Hidden,
}

#[derive(Debug, Clone, Copy)]
pub struct DiffStyle {
    pub layout: DiffLayout,
    pub choices: HunkChoices,
    pub colors: CodeColors,
}

/// Lines that belong together, with a header.
pub struct HunkBlock {
    pub id: String,
    /// It came after the person looked.
    pub is_new: bool,
    pub header: Option<HunkHeader>,
    pub rows: Vec<DiffRow>,
}

pub struct HunkHeader {
    /// Unchanged lines above that are not shown.
    pub gap: Option<HiddenLines>,
    /// The function or section that the lines are in.
    pub section: String,
    /// What the choice lands; `None` if there is nothing to choose.
    pub choice: Option<&'static str>,
}

/// Unchanged lines that are not shown.
pub struct HiddenLines {
    /// The numbers of the first one.
    pub old: usize,
    pub new: usize,
    pub count: usize,
}

pub enum DiffRow {
    Line(DiffLine),
    Pair {
        old: Option<DiffLine>,
        new: Option<DiffLine>,
    },
}

pub struct DiffLine {
    /// `added`, `removed` or nothing.
    pub class: &'static str,
    pub sign: &'static str,
    pub side: &'static str,
    pub line: usize,
    pub old: String,
    pub new: String,
    pub pieces: Vec<CodePiece>,
    /// The first changed line of its part.
    pub is_first: bool,
    /// Shown in a box of a few lines.
    pub is_long: bool,
}

/// A part of a line that looks the same.
pub struct CodePiece {
    pub text: String,
    /// The kind of token, or nothing.
    pub class: &'static str,
    pub is_changed: bool,
}

impl DiffRow {
    /// Whether a reader who goes from part to part stops here.
    pub fn is_first(&self) -> bool {
        match self {
            Self::Line(line) => line.is_first,
            Self::Pair { old, new } => old.iter().chain(new).any(|line| line.is_first),
        }
    }
}

/// The blocks of a file, from top to bottom, and where the lines after the last one begin.
pub fn make_blocks(file: &FileDiffView, style: DiffStyle) -> (Vec<HunkBlock>, Option<HiddenLines>) {
    let mut writer = RowWriter::new(&file.path.to_string(), style);
    let mut blocks = Vec::new();
    let (mut next_old, mut next_new) = (1, 1);
    for hunk in &file.hunks {
        let mut choice = (style.choices == HunkChoices::Shown).then_some(match hunk.part {
            HunkPartName::Lines => "Land",
            HunkPartName::Mode => "Land the new mode",
            HunkPartName::Whole => "Land this file",
        });
        for region in &hunk.regions {
            let (old, new) = first_numbers(region);
            let gap = (old > next_old).then(|| HiddenLines {
                old: next_old,
                new: next_new,
                count: old - next_old,
            });
            if gap.is_some() {
                writer.skip_lines();
            }
            let is_header_needed = gap.is_some() || choice.is_some();
            let header = is_header_needed.then(|| HunkHeader {
                gap,
                section: visible(region.section.as_deref().unwrap_or_default()),
                choice: choice.take(),
            });
            blocks.push(HunkBlock {
                id: hunk.id.to_string(),
                is_new: false,
                header,
                rows: writer.write_region(&region.lines),
            });
            (next_old, next_new) = numbers_after(region, (old, new));
        }
        // A part without lines, such as a mode or a binary file.
        if let Some(choice) = choice {
            blocks.push(HunkBlock {
                id: hunk.id.to_string(),
                is_new: false,
                header: Some(HunkHeader {
                    gap: None,
                    section: String::new(),
                    choice: Some(choice),
                }),
                rows: Vec::new(),
            });
        }
    }
    let has_both = file.old_blob.is_some() && file.new_blob.is_some();
    let tail = HiddenLines {
        old: next_old,
        new: next_new,
        count: 0,
    };
    let has_lines = blocks.iter().any(|block| !block.rows.is_empty());
    (blocks, (has_both && has_lines).then_some(tail))
}

/// Unchanged lines that a reader asked for.
pub fn make_context_rows(path: &str, lines: &[LineView], style: DiffStyle) -> Vec<DiffRow> {
    RowWriter::new(path, style).write_region(lines)
}

/// The numbers of the first shown line on both sides.
fn first_numbers(region: &RegionView) -> (usize, usize) {
    let context = region
        .lines
        .iter()
        .take_while(|line| line.kind == LineKind::Context);
    let count = context.count();
    (
        region.old_start.saturating_sub(count),
        region.new_start.saturating_sub(count),
    )
}

fn numbers_after(region: &RegionView, first: (usize, usize)) -> (usize, usize) {
    let count = |kind: LineKind| region.lines.iter().filter(|line| line.kind == kind).count();
    let context = count(LineKind::Context);
    (
        first.0 + context + count(LineKind::Removed),
        first.1 + context + count(LineKind::Added),
    )
}

/// Writes the lines of a file in order.
struct RowWriter {
    style: DiffStyle,
    old_colors: LineColorer,
    new_colors: LineColorer,
}

impl RowWriter {
    fn new(path: &str, style: DiffStyle) -> Self {
        let path = match style.colors {
            CodeColors::Shown => path,
            CodeColors::Hidden => "",
        };
        Self {
            style,
            old_colors: LineColorer::for_path(path),
            new_colors: LineColorer::for_path(path),
        }
    }

    fn skip_lines(&mut self) {
        self.old_colors.skip_lines();
        self.new_colors.skip_lines();
    }

    fn write_region(&mut self, lines: &[LineView]) -> Vec<DiffRow> {
        let lines = self.write_lines(lines);
        match self.style.layout {
            DiffLayout::Unified => lines.into_iter().map(DiffRow::Line).collect(),
            DiffLayout::Split => pair_lines(lines),
        }
    }

    fn write_lines(&mut self, lines: &[LineView]) -> Vec<DiffLine> {
        let of_kind = |kind: LineKind| lines.iter().filter(move |line| line.kind == kind);
        let removed: Vec<&LineView> = of_kind(LineKind::Removed).collect();
        let added: Vec<&LineView> = of_kind(LineKind::Added).collect();
        let (mut removed_seen, mut added_seen) = (0, 0);
        let mut is_first = true;
        let mut written = Vec::with_capacity(lines.len());
        for line in lines {
            // The n-th removed line is compared with the n-th added one.
            let partner = match line.kind {
                LineKind::Context => None,
                LineKind::Removed => {
                    removed_seen += 1;
                    added.get(removed_seen - 1)
                }
                LineKind::Added => {
                    added_seen += 1;
                    removed.get(added_seen - 1)
                }
            };
            let changed = partner.map_or_else(Vec::new, |partner| {
                find_changed_words(&line.text, &partner.text)
            });
            let tokens = match line.kind {
                LineKind::Context => {
                    self.old_colors.color_line(&line.text);
                    self.new_colors.color_line(&line.text)
                }
                LineKind::Removed => self.old_colors.color_line(&line.text),
                LineKind::Added => self.new_colors.color_line(&line.text),
            };
            let (class, sign, side) = match line.kind {
                LineKind::Context => ("", "", "new"),
                LineKind::Removed => ("removed", "\u{2212}", "old"),
                LineKind::Added => ("added", "+", "new"),
            };
            let number = |number: Option<usize>| number.map_or(String::new(), |it| it.to_string());
            let is_changed = line.kind != LineKind::Context;
            written.push(DiffLine {
                class,
                sign,
                side,
                line: line.new.or(line.old).unwrap_or_default(),
                old: number(line.old),
                new: number(line.new),
                pieces: cut_pieces(&line.text, &tokens, &changed),
                is_first: is_changed && is_first,
                is_long: line.text.len() > MAX_PLAIN_BYTES,
            });
            is_first = is_first && !is_changed;
        }
        written
    }
}

/// Puts removed lines beside the added ones that replace them.
fn pair_lines(lines: Vec<DiffLine>) -> Vec<DiffRow> {
    let mut rows = Vec::new();
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let flush =
        |removed: &mut Vec<DiffLine>, added: &mut Vec<DiffLine>, rows: &mut Vec<DiffRow>| {
            let count = removed.len().max(added.len());
            let (mut old, mut new) = (removed.drain(..), added.drain(..));
            rows.extend((0..count).map(|_| DiffRow::Pair {
                old: old.next(),
                new: new.next(),
            }));
        };
    for line in lines {
        match line.class {
            "removed" => removed.push(line),
            "added" => added.push(line),
            _ => {
                flush(&mut removed, &mut added, &mut rows);
                rows.push(DiffRow::Line(line));
            }
        }
    }
    flush(&mut removed, &mut added, &mut rows);
    rows
}

/// Cuts a line where its colour or its mark changes.
fn cut_pieces(line: &str, tokens: &[Token], changed: &[std::ops::Range<usize>]) -> Vec<CodePiece> {
    let mut borders: Vec<usize> = tokens
        .iter()
        .flat_map(|token| [token.range.start, token.range.end])
        .chain(changed.iter().flat_map(|range| [range.start, range.end]))
        .chain([0, line.len()])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    let (mut tokens, mut changed) = (tokens.iter().peekable(), changed.iter().peekable());
    let mut pieces = Vec::with_capacity(borders.len());
    for border in borders.windows(2) {
        let (start, end) = (border[0], border[1]);
        while tokens.next_if(|token| token.range.end <= start).is_some() {}
        while changed.next_if(|range| range.end <= start).is_some() {}
        let token = tokens.peek().filter(|token| token.range.start <= start);
        pieces.push(CodePiece {
            text: visible(&line[start..end]),
            class: match token.map(|token| token.kind) {
                Some(TokenKind::Comment) => "c",
                Some(TokenKind::Text) => "t",
                Some(TokenKind::Number) => "n",
                Some(TokenKind::Keyword) => "k",
                None => "",
            },
            is_changed: changed.peek().is_some_and(|range| range.start <= start),
        });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: LineKind, text: &str) -> LineView {
        LineView {
            kind,
            old: Some(1),
            new: Some(1),
            text: text.to_owned(),
            line_end: api::view::LineEnd::Lf,
        }
    }

    const LINES: [(LineKind, &str); 4] = [
        (LineKind::Context, "fn a() {"),
        (LineKind::Removed, "    old(1)"),
        (LineKind::Added, "    new(1)"),
        (LineKind::Added, "    more()"),
    ];

    fn write(layout: DiffLayout) -> Vec<DiffRow> {
        let lines: Vec<LineView> = LINES.iter().map(|(kind, text)| line(*kind, text)).collect();
        let style = DiffStyle {
            layout,
            choices: HunkChoices::Hidden,
            colors: CodeColors::Shown,
        };
        make_context_rows("a.rs", &lines, style)
    }

    #[test]
    fn lines_are_cut_where_colours_and_marks_change() {
        let rows = write(DiffLayout::Unified);
        let pieces = |row: &DiffRow| match row {
            DiffRow::Line(line) => line
                .pieces
                .iter()
                .map(|it| (it.text.clone(), it.class, it.is_changed))
                .collect::<Vec<_>>(),
            DiffRow::Pair { .. } => Vec::new(),
        };
        let piece = |text: &str, class, is_changed| (text.to_owned(), class, is_changed);
        assert_eq!(
            pieces(&rows[0]),
            [piece("fn", "k", false), piece(" a() {", "", false)]
        );
        assert_eq!(
            pieces(&rows[1]),
            [
                piece("    ", "", false),
                piece("old", "", true),
                piece("(", "", false),
                piece("1", "n", false),
                piece(")", "", false)
            ]
        );
        let first: Vec<bool> = rows.iter().map(DiffRow::is_first).collect();
        assert_eq!(first, [false, true, false, false]);
    }

    #[test]
    fn removed_lines_stand_beside_those_that_replace_them() {
        let rows = write(DiffLayout::Split);
        let sides: Vec<(bool, bool)> = rows
            .iter()
            .map(|row| match row {
                DiffRow::Line(_) => (true, true),
                DiffRow::Pair { old, new } => (old.is_some(), new.is_some()),
            })
            .collect();
        assert_eq!(sides, [(true, true), (true, true), (false, true)]);
        assert!(rows[1].is_first());
    }
}
