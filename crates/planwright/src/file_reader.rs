//! Reading files that people and repositories wrote: never more than a file of its kind can hold, and never
//! anything that is no file, which might not end.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use crate::yaml::MAX_FILE_BYTES;

/// The text of a file. One that is too long is cut right behind its limit, so that whoever parses it says so.
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
        // It is refused for its length, whatever a cut character would make of it.
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
    fn what_does_not_end_is_not_read() {
        assert!(read_text(Path::new("/dev/zero")).is_err());
        let place = tempfile::tempdir().unwrap();
        assert!(read_text(place.path()).is_err());
        let file = place.path().join("long");
        std::fs::write(&file, "é".repeat(MAX_FILE_BYTES)).unwrap();
        assert!(read_text(&file).unwrap().len() < 2 * MAX_FILE_BYTES);
        std::fs::write(&file, "short").unwrap();
        assert_eq!(read_text(&file).unwrap(), "short");
    }
}
