//! Reads lines of bounded length. A line that is too long is skipped to its end and reported, not kept.

use std::io::BufRead;

/// The longest accepted message. Goals and feedback have at most 256 KiB each.
pub const MAX_LINE_BYTES: usize = 4 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum InputLine {
    /// Without its line end.
    Whole(Vec<u8>),
    TooLong,
}

/// Reads the next line; `None` at the end of the input. A last line without a line end counts.
pub fn read_bounded_line(
    reader: &mut impl BufRead,
    max_bytes: usize,
) -> std::io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    let mut has_bytes = false;
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(has_bytes.then(|| finish_line(line, is_too_long)));
        }
        has_bytes = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > max_bytes {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            return Ok(Some(finish_line(line, is_too_long)));
        }
    }
}

fn finish_line(mut line: Vec<u8>, is_too_long: bool) -> InputLine {
    if is_too_long {
        return InputLine::TooLong;
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    InputLine::Whole(line)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn long_lines_are_skipped_and_the_next_one_is_read() {
        let text = b"short\r\nfar too long\n\nnext\nfar too long";
        // A small buffer, so that lines arrive in parts.
        let mut reader = BufReader::with_capacity(3, &text[..]);
        let mut read = || read_bounded_line(&mut reader, 6).unwrap();
        let whole = |text: &str| Some(InputLine::Whole(text.as_bytes().to_vec()));
        assert_eq!(read(), whole("short"));
        assert_eq!(read(), Some(InputLine::TooLong));
        assert_eq!(read(), whole(""));
        assert_eq!(read(), whole("next"));
        assert_eq!(read(), Some(InputLine::TooLong));
        assert_eq!(read(), None);
    }
}
