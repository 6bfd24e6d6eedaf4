//! Text tables: each column is as wide as its widest cell; the last one is not padded, and wraps on a terminal.

use std::fmt;

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::ui::{DIM, stdout_width, wrap_hanging, wrap_rows};

/// A narrower last column goes below its row.
const MIN_COLUMN_WIDTH: usize = 20;

const FOLD_INDENT: &str = "    ";

/// Rows of styled cells under a header.
#[derive(Default)]
pub struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<(String, Style)>>,
}

impl TextTable {
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        Self {
            header: header.map(str::to_owned).to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn add_row(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Drops columns in which no row has anything.
    fn drop_empty_columns(&self) -> Self {
        let is_used = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            self.rows.is_empty() || cells.any(|(cell, _)| !cell.is_empty())
        };
        let used: Vec<usize> = (0..self.header.len()).filter(|one| is_used(*one)).collect();
        let keep_cells = |row: &Vec<(String, Style)>| {
            let cells = used.iter().filter_map(|column| row.get(*column).cloned());
            cells.collect()
        };
        Self {
            header: used.iter().map(|one| self.header[*one].clone()).collect(),
            rows: self.rows.iter().map(keep_cells).collect(),
        }
    }

    fn column_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    /// Writes the table for a terminal of this width, or without limit.
    fn render(&self, terminal_width: Option<usize>) -> String {
        let widths = self.column_widths();
        let columns_before: usize = match widths.split_last() {
            Some((_, before)) => before.iter().map(|width| width + 2).sum(),
            None => 0,
        };
        // A last column without room goes below its row.
        let is_folded = terminal_width.is_some_and(|terminal| {
            let last = widths.last().copied().unwrap_or_default();
            columns_before + last > terminal && columns_before + MIN_COLUMN_WIDTH > terminal
        });
        let header: Vec<(String, Style)> =
            self.header.iter().map(|cell| (cell.clone(), DIM)).collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            let mut line = String::new();
            let row = row.iter().map(|(cell, style)| match cell.is_empty() {
                // Without escape sequences, so that no spaces are left at the end of a line.
                true => (cell, Style::new()),
                false => (cell, *style),
            });
            for (index, ((cell, style), width)) in row.zip(&widths).enumerate() {
                if index + 1 < widths.len() {
                    let padding = " ".repeat(width - cell.width() + 2);
                    line.push_str(&format!("{style}{cell}{style:#}{padding}"));
                } else if is_folded {
                    line.truncate(line.trim_end().len());
                    if !cell.is_empty() {
                        line.push_str(&format!("\n{FOLD_INDENT}{style}{cell}{style:#}"));
                    }
                } else {
                    line.push_str(&format!("{style}{cell}{style:#}"));
                }
            }
            let line = line.trim_end();
            let line = match terminal_width {
                Some(width) if is_folded => wrap_rows(line, width),
                Some(width) => wrap_hanging(line, 0, columns_before, width),
                None => line.to_owned(),
            };
            text.push_str(&format!("{line}\n"));
        }
        text
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.drop_empty_columns().render(stdout_width()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_table() -> TextTable {
        let mut table = TextTable::new(["PLAN", "STATE", "", "GOAL"]);
        let cell = |text: &str| (text.to_owned(), Style::new());
        let goal = cell("Fix the flaky retry test");
        table.add_row([cell("k3f9"), cell("needs review"), cell(""), goal]);
        table.add_row([cell("w7m2"), cell("landed"), cell(""), cell("Tidy")]);
        table
    }

    /// Also without the colours of the header.
    fn render(width: Option<usize>) -> String {
        let text = sample_table().drop_empty_columns().render(width);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let wide = "PLAN  STATE         GOAL
k3f9  needs review  Fix the flaky retry test
w7m2  landed        Tidy
";
        assert_eq!(render(None), wide);
        assert_eq!(render(Some(80)), wide);
        let wrapped = "PLAN  STATE         GOAL
k3f9  needs review  Fix the flaky retry
                    test
w7m2  landed        Tidy
";
        assert_eq!(render(Some(40)), wrapped);
        let folded = "PLAN  STATE
    GOAL
k3f9  needs review
    Fix the flaky retry test
w7m2  landed
    Tidy
";
        assert_eq!(render(Some(36)), folded);
    }
}
