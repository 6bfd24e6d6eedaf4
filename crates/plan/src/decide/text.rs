//! The check every free text passes before it is stored.

use crate::{Refusal, Text};

/// A text that says something, fits and can be stored everywhere.
pub(super) fn checked(what: &'static str, text: &str) -> Result<Text, Refusal> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.len() > Text::MAX_BYTES {
        "is longer than 256 KiB"
    } else if text.contains('\0') {
        "holds a NUL character"
    } else {
        return Ok(text.into());
    };
    Err(Refusal::BadText { what, why })
}
