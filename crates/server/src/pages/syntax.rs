//! Colours code: comments, strings, numbers and keywords of common languages.
//!
//! A reader of one line at a time, so that it works on the parts of files that a diff shows. It knows nothing about
//! grammar: where a comment or string began outside of the shown lines, it is wrong until the end of the line.

use std::ops::Range;

/// What a part of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Comment,
    Text,
    Number,
    Keyword,
}

/// A coloured part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub range: Range<usize>,
    pub kind: TokenKind,
}

/// A comment or string that may go on in the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    start: &'static str,
    end: &'static str,
    kind: TokenKind,
}

#[derive(Debug, Clone, Copy)]
struct Language {
    line_comments: &'static [&'static str],
    blocks: &'static [Block],
    quotes: &'static str,
    has_lifetimes: bool,
    keywords: &'static [&'static str],
}

/// Colours the lines of one version of a file, from top to bottom.
pub struct LineColorer {
    language: Option<&'static Language>,
    /// What the line before did not end.
    open: Option<Block>,
}

/// Longer lines are not code that people read.
const MAX_COLORED_BYTES: usize = 1000;

impl LineColorer {
    pub fn for_path(path: &str) -> Self {
        Self {
            language: find_language(path),
            open: None,
        }
    }

    /// Lines are missing before the next one.
    pub fn skip_lines(&mut self) {
        self.open = None;
    }

    /// The coloured parts of the next line, in order.
    pub fn color_line(&mut self, line: &str) -> Vec<Token> {
        let Some(language) = self.language.filter(|_| line.len() <= MAX_COLORED_BYTES) else {
            return Vec::new();
        };
        let mut tokens = Vec::new();
        let mut at = 0;
        if let Some(block) = self.open {
            at = self.read_block(line, 0, 0, block, &mut tokens);
        }
        while at < line.len() {
            at = self.read_token(language, line, at, &mut tokens);
        }
        tokens
    }

    /// Reads what begins at `at`, and returns where it ends.
    fn read_token(
        &mut self,
        language: &Language,
        line: &str,
        at: usize,
        tokens: &mut Vec<Token>,
    ) -> usize {
        let rest = &line[at..];
        let blocks = language.blocks.iter();
        if let Some(block) = blocks.copied().find(|it| rest.starts_with(it.start)) {
            return self.read_block(line, at, at + block.start.len(), block, tokens);
        }
        let mut comments = language.line_comments.iter();
        if comments.any(|start| rest.starts_with(start)) {
            tokens.push(Token {
                range: at..line.len(),
                kind: TokenKind::Comment,
            });
            return line.len();
        }
        let first = rest.chars().next().unwrap_or_default();
        if language.quotes.contains(first)
            && !(language.has_lifetimes && first == '\'' && is_lifetime(rest))
            && let Some(length) = quoted_length(rest, first)
        {
            tokens.push(Token {
                range: at..at + length,
                kind: TokenKind::Text,
            });
            return at + length;
        }
        if !is_word(first) {
            return at + first.len_utf8();
        }
        let word = rest.split(|letter| !is_word(letter)).next().unwrap_or(rest);
        let end = at + word.len();
        let kind = if first.is_ascii_digit() {
            Some(TokenKind::Number)
        } else if language.keywords.contains(&word) {
            Some(TokenKind::Keyword)
        } else {
            None
        };
        tokens.extend(kind.map(|kind| Token {
            range: at..end,
            kind,
        }));
        end
    }

    /// Reads to the end of a block whose content begins at `inside`. Remembers it if it does not end in this line.
    fn read_block(
        &mut self,
        line: &str,
        start: usize,
        inside: usize,
        block: Block,
        tokens: &mut Vec<Token>,
    ) -> usize {
        let found = line[inside..].find(block.end);
        let end = found.map_or(line.len(), |found| inside + found + block.end.len());
        self.open = if found.is_some() { None } else { Some(block) };
        if end > start {
            tokens.push(Token {
                range: start..end,
                kind: block.kind,
            });
        }
        end
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// How long a quoted text is; `None` if it does not end in this line.
fn quoted_length(rest: &str, quote: char) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return Some(at + quote.len_utf8());
        }
    }
    None
}

/// Whether a single quote begins a lifetime, such as `'a`, and not a character.
fn is_lifetime(rest: &str) -> bool {
    let mut letters = rest.chars().skip(1);
    letters.next().is_some_and(is_word) && letters.next() != Some('\'')
}

const C_COMMENT: Block = Block {
    start: "/*",
    end: "*/",
    kind: TokenKind::Comment,
};
const MARKUP_COMMENT: Block = Block {
    start: "<!--",
    end: "-->",
    kind: TokenKind::Comment,
};
const TEMPLATE_TEXT: Block = Block {
    start: "`",
    end: "`",
    kind: TokenKind::Text,
};
const LONG_TEXT: Block = Block {
    start: "\"\"\"",
    end: "\"\"\"",
    kind: TokenKind::Text,
};

const RUST: Language = Language {
    line_comments: &["//"],
    blocks: &[C_COMMENT],
    quotes: "\"'",
    has_lifetimes: true,
    keywords: &[
        "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum",
        "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move",
        "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super", "trait",
        "true", "type", "unsafe", "use", "where", "while",
    ],
};
/// Languages with the syntax of C: one list of keywords is enough to read by.
const C_LIKE: Language = Language {
    line_comments: &["//"],
    blocks: &[C_COMMENT],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &[
        "abstract",
        "auto",
        "bool",
        "boolean",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "continue",
        "default",
        "defer",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "extends",
        "extern",
        "false",
        "final",
        "finally",
        "float",
        "for",
        "foreach",
        "func",
        "fun",
        "go",
        "guard",
        "if",
        "implements",
        "import",
        "in",
        "include",
        "int",
        "interface",
        "internal",
        "let",
        "long",
        "namespace",
        "new",
        "nil",
        "null",
        "nullptr",
        "override",
        "package",
        "private",
        "protected",
        "public",
        "range",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "string",
        "struct",
        "super",
        "switch",
        "template",
        "this",
        "throw",
        "throws",
        "true",
        "try",
        "type",
        "typedef",
        "union",
        "unsigned",
        "using",
        "val",
        "var",
        "virtual",
        "void",
        "when",
        "while",
    ],
};
const SCRIPT: Language = Language {
    line_comments: &["//"],
    blocks: &[C_COMMENT, TEMPLATE_TEXT],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &[
        "as",
        "async",
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "false",
        "finally",
        "for",
        "from",
        "function",
        "if",
        "implements",
        "import",
        "in",
        "instanceof",
        "interface",
        "let",
        "new",
        "null",
        "of",
        "private",
        "public",
        "readonly",
        "return",
        "static",
        "super",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "type",
        "typeof",
        "undefined",
        "var",
        "void",
        "while",
        "yield",
    ],
};
const PYTHON: Language = Language {
    line_comments: &["#"],
    blocks: &[LONG_TEXT],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &[
        "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "False", "finally", "for", "from", "global", "if", "import",
        "in", "is", "lambda", "None", "nonlocal", "not", "or", "pass", "raise", "return", "True",
        "try", "while", "with", "yield",
    ],
};
const SHELL: Language = Language {
    line_comments: &["#"],
    blocks: &[],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &[
        "begin", "break", "case", "class", "def", "do", "done", "elif", "else", "elsif", "end",
        "esac", "exit", "export", "fi", "for", "function", "if", "in", "local", "module", "nil",
        "return", "self", "set", "then", "unless", "until", "while",
    ],
};
const DATA: Language = Language {
    line_comments: &["#"],
    blocks: &[],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &["false", "no", "null", "true", "yes"],
};
const JSON: Language = Language {
    line_comments: &[],
    blocks: &[],
    quotes: "\"",
    has_lifetimes: false,
    keywords: &["false", "null", "true"],
};
const SQL: Language = Language {
    line_comments: &["--"],
    blocks: &[C_COMMENT],
    quotes: "'\"",
    has_lifetimes: false,
    keywords: &[
        "ALTER",
        "AND",
        "AS",
        "BY",
        "CREATE",
        "DELETE",
        "DROP",
        "FROM",
        "GROUP",
        "IN",
        "INDEX",
        "INSERT",
        "INTO",
        "IS",
        "JOIN",
        "KEY",
        "LEFT",
        "LIMIT",
        "NOT",
        "NULL",
        "ON",
        "OR",
        "ORDER",
        "PRIMARY",
        "REFERENCES",
        "RETURNING",
        "SELECT",
        "SET",
        "TABLE",
        "UNIQUE",
        "UPDATE",
        "VALUES",
        "WHERE",
        "WITH",
    ],
};
const MARKUP: Language = Language {
    line_comments: &[],
    blocks: &[MARKUP_COMMENT],
    quotes: "\"",
    has_lifetimes: false,
    keywords: &[],
};
const STYLE: Language = Language {
    line_comments: &[],
    blocks: &[C_COMMENT],
    quotes: "\"'",
    has_lifetimes: false,
    keywords: &[],
};

fn find_language(path: &str) -> Option<&'static Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if matches!(
        name,
        "Makefile" | "Dockerfile" | "Gemfile" | ".gitignore" | ".env"
    ) {
        return Some(&SHELL);
    }
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "rs" => &RUST,
        "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "java" | "kt" | "go" | "swift" | "scala"
        | "php" | "dart" | "proto" | "zig" => &C_LIKE,
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "tsx" => &SCRIPT,
        "py" | "pyi" => &PYTHON,
        "sh" | "bash" | "zsh" | "rb" | "mk" | "pl" => &SHELL,
        "toml" | "yaml" | "yml" | "ini" | "cfg" | "conf" => &DATA,
        "json" | "jsonl" => &JSON,
        "sql" => &SQL,
        "html" | "xml" | "svg" | "vue" => &MARKUP,
        "css" | "scss" => &STYLE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The coloured parts of lines, each with the first letter of its kind.
    #[track_caller]
    fn check(path: &str, lines: &[&str], expected: &[&str]) {
        let mut colorer = LineColorer::for_path(path);
        let mut found = Vec::new();
        for line in lines {
            for token in colorer.color_line(line) {
                let kind = match token.kind {
                    TokenKind::Comment => "c",
                    TokenKind::Text => "t",
                    TokenKind::Number => "n",
                    TokenKind::Keyword => "k",
                };
                found.push(format!("{kind}:{}", &line[token.range]));
            }
        }
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn comments_strings_numbers_and_keywords_are_found() {
        check(
            "src/a.rs",
            &["let x = \"a // \\\" b\"; // done 1"],
            &["k:let", "t:\"a // \\\" b\"", "c:// done 1"],
        );
        check(
            "a.py",
            &["return 0x1f # no"],
            &["k:return", "n:0x1f", "c:# no"],
        );
        check(
            "a.json",
            &["{\"a\": true, \"b\": 12}"],
            &["t:\"a\"", "k:true", "t:\"b\"", "n:12"],
        );
        check("a.unknown", &["let x = 1;"], &[]);
        check("Makefile", &["all: # x"], &["c:# x"]);
    }

    #[test]
    fn blocks_go_on_in_the_next_line() {
        check(
            "a.c",
            &["a /* b", "c */ int"],
            &["c:/* b", "c:c */", "k:int"],
        );
        check(
            "a.ts",
            &["x = `one", "two` + 1"],
            &["t:`one", "t:two`", "n:1"],
        );
        let mut colorer = LineColorer::for_path("a.c");
        colorer.color_line("/* never ends");
        colorer.skip_lines();
        assert_eq!(colorer.color_line("x"), []);
    }

    #[test]
    fn lifetimes_are_not_strings() {
        check(
            "a.rs",
            &["fn a<'a>(x: &'a str) -> char { 'x' }"],
            &["k:fn", "t:'x'"],
        );
        check("a.rs", &["let c = '\\n';"], &["k:let", "t:'\\n'"]);
        check("a.rs", &["&'static str, 'it"], &["k:static"]);
    }

    #[test]
    fn text_that_is_not_code_is_left_alone() {
        let long = "x".repeat(10_000);
        check("a.rs", &[&long, "\u{1f600} שלום"], &[]);
    }
}
