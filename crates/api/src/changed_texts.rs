//! Whole texts of the files that a result changes, for surfaces that compare files themselves.

use lifecycle::{FileVersions, Lifecycle, LifecycleError, ResourceChanges};
use plan::PlanId;
use plan::changeset::TreePath;
use plan::stage::ResultContent;

/// How much is read. Beyond it, files are counted and left out.
#[derive(Debug, Clone, Copy)]
pub struct TextLimits {
    pub files: usize,
    /// Both versions of one file together.
    pub file_bytes: usize,
    /// All files together.
    pub total_bytes: usize,
}

/// A text file that a result changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedText {
    /// Name of the plan's resource.
    pub resource: String,
    pub path: TreePath,
    /// `None` if the file did not exist before.
    pub old: Option<String>,
    /// `None` if it no longer exists.
    pub new: Option<String>,
}

/// The changed files of a result.
#[derive(Debug, Default)]
pub struct ChangedTexts {
    pub texts: Vec<ChangedText>,
    /// Changed files that are not text, or beyond the limits.
    pub omitted: usize,
}

/// Reads the files that a result of a plan changes.
pub fn read_changed_texts(
    lifecycle: &Lifecycle,
    plan_id: PlanId,
    result: &ResultContent,
    limits: TextLimits,
) -> Result<ChangedTexts, LifecycleError> {
    let mut read = ChangedTexts::default();
    let mut bytes_left = limits.total_bytes;
    let sandboxes = lifecycle.sandboxes();
    for changes in sandboxes.view_result_changes(plan_id, None, result)? {
        add_texts_of_resource(&changes, limits, &mut bytes_left, &mut read)?;
    }
    Ok(read)
}

fn add_texts_of_resource(
    changes: &ResourceChanges,
    limits: TextLimits,
    bytes_left: &mut usize,
    read: &mut ChangedTexts,
) -> Result<(), LifecycleError> {
    let listed = changes
        .comparison
        .list_file_changes(&changes.resource, &[])?;
    for file in &listed {
        let is_room = read.texts.len() < limits.files && *bytes_left > 0;
        let versions = match is_room {
            true => changes.comparison.read_versions(file)?,
            false => FileVersions::default(),
        };
        let max_bytes = limits.file_bytes.min(*bytes_left);
        match decode_versions(versions, max_bytes) {
            Some((old, new)) => {
                let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                *bytes_left -= length(&old) + length(&new);
                read.texts.push(ChangedText {
                    resource: changes.resource.clone(),
                    path: file.path.clone(),
                    old,
                    new,
                });
            }
            None => read.omitted += 1,
        }
    }
    Ok(())
}

/// Returns both versions as text; `None` if there is nothing to show, too much of it, or it is not UTF-8.
fn decode_versions(
    versions: FileVersions,
    max_bytes: usize,
) -> Option<(Option<String>, Option<String>)> {
    let length = |version: &Option<Vec<u8>>| version.as_ref().map_or(0, Vec::len);
    let is_empty = versions.old.is_none() && versions.new.is_none();
    if is_empty || length(&versions.old) + length(&versions.new) > max_bytes {
        return None;
    }
    let old = versions.old.map(String::from_utf8).transpose().ok()?;
    let new = versions.new.map(String::from_utf8).transpose().ok()?;
    Some((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_within_the_limit_is_shown() {
        let decode = |old: Option<&[u8]>, new: Option<&[u8]>| {
            let versions = FileVersions {
                old: old.map(<[u8]>::to_vec),
                new: new.map(<[u8]>::to_vec),
            };
            decode_versions(versions, 6)
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            decode(Some(b"one"), Some(b"two")),
            Some((text("one"), text("two")))
        );
        assert_eq!(decode(None, Some(b"new")), Some((None, text("new"))));
        assert_eq!(decode(Some(b"one"), Some(b"four")), None, "too long");
        assert_eq!(decode(Some(b"\xff"), None), None, "not UTF-8");
        assert_eq!(decode(None, None), None, "not a text");
    }
}
