//! Text tables: each column is as wide as its widest cell; the last one is not padded, and wraps on a terminal.

use std::fmt;

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::ui::{DIM, stdout_width, wrap_hanging};

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

    fn column_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (widths, terminal_width) = (self.column_widths(), stdout_width());
        let header: Vec<(String, Style)> =
            self.header.iter().map(|cell| (cell.clone(), DIM)).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            // Drop trailing empty cells, so that lines do not end with spaces.
            let filled = row.iter().rposition(|(cell, _)| !cell.is_empty());
            let row = &row[..filled.map_or(0, |last| last + 1)];
            for (index, ((cell, style), width)) in row.iter().zip(&widths).enumerate() {
                if index + 1 == row.len() {
                    let start: usize = widths[..index].iter().map(|width| width + 2).sum();
                    let cell = match terminal_width {
                        Some(width) => &wrap_hanging(cell, start, start, width),
                        None => cell,
                    };
                    write!(f, "{style}{cell}{style:#}")?;
                } else {
                    write!(
                        f,
                        "{style}{cell}{style:#}{:1$}",
                        "",
                        width - cell.width() + 2
                    )?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
