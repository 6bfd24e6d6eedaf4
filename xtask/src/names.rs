//! `cargo xtask names`: figures on names and comments. They are for looking: a padded name is worse than a
//! short clear one, so nothing fails on them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use crate::source_scan::{SourceFile, read_source_files};

/// Print figures on names and comments.
#[derive(clap::Args)]
pub struct NamesArgs {
    /// Also list the one-word types and functions.
    #[arg(long)]
    list: bool,
}

/// What well-kept Rust projects show (jj, nextest, ripgrep, steno), printed beside our own.
const USUAL_ONE_WORD_TYPES: &str = "6-31 %";
const USUAL_REPEATED_TYPES: &str = "1-7 %";
const USUAL_ONE_WORD_FUNCTIONS: &str = "25-37 %";
const USUAL_COMMENT_LINES: &str = "3-11 %";

/// Prints the figures.
#[expect(clippy::print_stdout, reason = "the figures are this command's output")]
pub fn run(arguments: &NamesArgs) -> anyhow::Result<ExitCode> {
    let figures = NameFigures::count(&read_source_files()?);
    println!("{figures}");
    if arguments.list {
        println!("\none-word types: {}", figures.one_word_types.join(" "));
        println!(
            "\none-word functions: {}",
            figures.one_word_functions.join(" ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Default)]
struct NameFigures {
    types: usize,
    one_word_types: Vec<String>,
    repeated_types: usize,
    functions: usize,
    one_word_functions: Vec<String>,
    doc_lines: usize,
    short_doc_lines: usize,
    comment_lines: usize,
    code_lines: usize,
}

impl NameFigures {
    fn count(files: &[SourceFile]) -> Self {
        let mut figures = Self::default();
        let mut declared: BTreeMap<String, usize> = BTreeMap::new();
        for file in files {
            for declaration in file.type_declarations() {
                figures.types += 1;
                if count_type_words(&declaration.name) == 1 {
                    figures.one_word_types.push(declaration.name.clone());
                }
                *declared.entry(declaration.name).or_default() += 1;
            }
            for declaration in file.function_declarations() {
                figures.functions += 1;
                if !declaration.name.trim_matches('_').contains('_') {
                    figures.one_word_functions.push(declaration.name);
                }
            }
            for line in file.text.lines() {
                figures.count_line(line.trim());
            }
        }
        figures.repeated_types = declared.into_values().filter(|count| *count > 1).sum();
        for list in [&mut figures.one_word_types, &mut figures.one_word_functions] {
            list.sort();
        }
        figures
    }

    fn count_line(&mut self, line: &str) {
        if let Some(text) = line.strip_prefix("///") {
            self.doc_lines += 1;
            if (1..=3).contains(&text.split_whitespace().count()) {
                self.short_doc_lines += 1;
            }
        } else if line.starts_with("//") && !line.starts_with("//!") {
            self.comment_lines += 1;
        }
        if !line.is_empty() && !line.starts_with("//") {
            self.code_lines += 1;
        }
    }
}

impl std::fmt::Display for NameFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = [
            (
                "one-word types",
                self.one_word_types.len(),
                self.types,
                USUAL_ONE_WORD_TYPES,
            ),
            (
                "types defined twice",
                self.repeated_types,
                self.types,
                USUAL_REPEATED_TYPES,
            ),
            (
                "one-word functions",
                self.one_word_functions.len(),
                self.functions,
                USUAL_ONE_WORD_FUNCTIONS,
            ),
            (
                "doc lines of 1 to 3 words",
                self.short_doc_lines,
                self.doc_lines,
                "",
            ),
            (
                "comment lines per code line",
                self.comment_lines,
                self.code_lines,
                USUAL_COMMENT_LINES,
            ),
        ];
        write!(
            f,
            "{:28} {:>6} {:>7} {:>8}   usual",
            "", "count", "of", "share"
        )?;
        for (name, count, total, usual) in rows {
            #[expect(clippy::cast_precision_loss, reason = "line counts are far below 2^52")]
            let share = 100.0 * count as f64 / total.max(1) as f64;
            write!(f, "\n{name:28} {count:6} {total:7} {share:7.1}%   {usual}")?;
        }
        Ok(())
    }
}

/// `PlanState` has two words, `SQLite` counts as one per capital run.
fn count_type_words(name: &str) -> usize {
    let mut words = 0;
    let mut previous_is_capital = false;
    for c in name.chars() {
        let is_capital = c.is_uppercase();
        if is_capital && !previous_is_capital {
            words += 1;
        }
        previous_is_capital = is_capital;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_count_words_repetitions_and_short_docs() {
        let file = |name: &str, text: &str| SourceFile {
            path: name.into(),
            text: text.to_owned(),
        };
        let figures = NameFigures::count(&[
            file(
                "a.rs",
                "/// Which.\nstruct Held;\n// Why.\nfn read() {}\nfn read_rules() {}\n",
            ),
            file(
                "b.rs",
                "/// The state of a plan.\nenum PlanState {}\nstruct Held;\n",
            ),
        ]);
        assert_eq!((figures.types, figures.one_word_types.len()), (3, 2));
        assert_eq!(figures.repeated_types, 2);
        assert_eq!(
            (figures.functions, figures.one_word_functions.as_slice()),
            (2, &["read".to_owned()][..])
        );
        assert_eq!((figures.doc_lines, figures.short_doc_lines), (2, 1));
        assert_eq!((figures.comment_lines, figures.code_lines), (1, 5));
    }

    #[test]
    fn words_of_a_type_start_with_a_capital() {
        assert_eq!(count_type_words("Plan"), 1);
        assert_eq!(count_type_words("PlanState"), 2);
        assert_eq!(count_type_words("HTTPRoute"), 1);
    }
}
