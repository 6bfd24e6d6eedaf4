//! Checks free text before it is stored.

use crate::{ErasableText, Refusal};

/// Accepts a text that is not blank, fits and can be stored in every store.
pub(super) fn require_text(what: &'static str, text: &str) -> Result<ErasableText, Refusal> {
    if text.trim().is_empty() {
        let why = "is empty";
        return Err(Refusal::BadText { what, why });
    }
    require_storable(what, text)
}

/// Accepts a text that fits and can be stored in every store. It may be empty.
pub(super) fn require_storable(what: &'static str, text: &str) -> Result<ErasableText, Refusal> {
    let why = if text.len() > ErasableText::MAX_BYTES {
        "is longer than 256 KiB"
    } else if text.contains('\0') {
        "contains a NUL character"
    } else {
        return Ok(text.into());
    };
    Err(Refusal::BadText { what, why })
}
