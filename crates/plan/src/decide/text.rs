//! The check every free text passes before it is stored.

use crate::{ErasableText, Refusal};

/// A text that says something, fits and can be stored everywhere.
pub(super) fn require_text(what: &'static str, text: &str) -> Result<ErasableText, Refusal> {
    if text.trim().is_empty() {
        let why = "is empty";
        return Err(Refusal::BadText { what, why });
    }
    require_storable(what, text)
}

/// A text that fits and can be stored everywhere; it may be empty.
pub(super) fn require_storable(what: &'static str, text: &str) -> Result<ErasableText, Refusal> {
    let why = if text.len() > ErasableText::MAX_BYTES {
        "is longer than 256 KiB"
    } else if text.contains('\0') {
        "holds a NUL character"
    } else {
        return Ok(text.into());
    };
    Err(Refusal::BadText { what, why })
}
