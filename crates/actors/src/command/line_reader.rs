//! Reads a program's output line by line, in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

/// How many bytes of a line are kept.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

pub(crate) struct LineReader<R> {
    reader: BufReader<R>,
    /// How many more bytes to remove from a line that was cut, so that no secret is cut in two.
    margin: usize,
    was_cut: bool,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(reader: R, margin: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            margin,
            was_cut: false,
        }
    }

    /// The next line without its line break; `None` at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut omitted_bytes = 0;
        let mut has_read_any = false;
        loop {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() {
                break;
            }
            has_read_any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let content = &piece[..end.unwrap_or(piece.len())];
            let kept = content.len().min(MAX_LINE_BYTES - line.len());
            line.extend_from_slice(&content[..kept]);
            omitted_bytes += content.len() - kept;
            let used = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !has_read_any {
            return Ok(None);
        }
        self.was_cut = omitted_bytes > 0;
        if omitted_bytes > 0 {
            line.truncate(MAX_LINE_BYTES - self.margin.min(MAX_LINE_BYTES));
        }
        // Stored texts must not contain NUL.
        let mut text = String::from_utf8_lossy(&line).replace('\0', "\u{fffd}");
        if omitted_bytes > 0 {
            text += &format!(" [… {} bytes left out …]", omitted_bytes + self.margin);
        }
        Ok(Some(text))
    }

    /// Was a part of the last line left out?
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Nothing more can be read right now without blocking.
    pub(crate) fn is_buffer_empty(&self) -> bool {
        self.reader.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut() {
        let mut long = vec![b'x'; MAX_LINE_BYTES + 10];
        long.extend(b"\nnext\0\n\nlast \xff");
        let mut lines = LineReader::new(long.as_slice(), 6);
        let first = lines.next_line().unwrap().unwrap();
        assert!(first.ends_with("x [… 16 bytes left out …]"));
        assert!(first.len() < MAX_LINE_BYTES + 40);
        assert_eq!(lines.next_line().unwrap().as_deref(), Some("next\u{fffd}"));
        assert_eq!(lines.next_line().unwrap().as_deref(), Some(""));
        assert_eq!(lines.next_line().unwrap().as_deref(), Some("last \u{fffd}"));
        assert_eq!(lines.next_line().unwrap(), None);
    }
}
