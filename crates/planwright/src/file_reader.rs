//! Reads text files written by people and repositories, with a size limit. Refuses devices, pipes and
//! directories: reading them might never end.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use crate::yaml::MAX_FILE_BYTES;

/// Reads a file as UTF-8. Returns at most one byte more than [`MAX_FILE_BYTES`], so that the parser reports the size.
pub fn read_text(path: &Path) -> Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES as u64 + 1;
    std::fs::File::open(path)?
        .take(limit)
        .read_to_end(&mut bytes)?;
    if bytes.len() > MAX_FILE_BYTES {
        // The cut may split a character. Convert lossily, so that the parser reports the size, not the encoding.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::InvalidData, "it is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may be blunt")]

    use super::*;

    #[test]
    fn endless_and_oversized_files_are_not_read_whole() {
        assert!(read_text(Path::new("/dev/zero")).is_err());
        let dir = tempfile::tempdir().unwrap();
        assert!(read_text(dir.path()).is_err());
        let file = dir.path().join("long");
        std::fs::write(&file, "é".repeat(MAX_FILE_BYTES)).unwrap();
        assert!(read_text(&file).unwrap().len() < 2 * MAX_FILE_BYTES);
        std::fs::write(&file, "short").unwrap();
        assert_eq!(read_text(&file).unwrap(), "short");
    }
}
