//! Turns the content blocks of a prompt into the text that an agent gets.
//!
//! Files of the repository are named by their paths in it, because the agent works in a private copy. What the editor
//! embeds, such as a selection, follows the person's words.

use std::path::Path;

use serde_json::Value;

use super::connection::RequestFailure;

/// The most of one embedded file, and of all of them. The agent can read the files themselves.
const MAX_FILE_BYTES: usize = 32 * 1024;
const MAX_CONTEXT_BYTES: usize = 96 * 1024;

const CONTEXT_HEADING: &str = "Context from the editor:";

/// Returns the text of a prompt.
pub fn read_prompt(prompt: &Value, repository: &Path) -> Result<String, RequestFailure> {
    let Some(blocks) = prompt.as_array() else {
        return Err(RequestFailure::invalid_params("The prompt is missing."));
    };
    let mut text = String::new();
    let mut context = String::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => text.push_str(&shorten_file_links(
                block["text"].as_str().unwrap_or_default(),
                repository,
            )),
            Some("resource_link") => {
                let uri = block["uri"].as_str().unwrap_or_default();
                push_word(&mut text, &describe_uri(uri, repository));
            }
            Some("resource") => {
                let resource = &block["resource"];
                let name = describe_uri(resource["uri"].as_str().unwrap_or_default(), repository);
                push_word(&mut text, &name);
                if let Some(content) = resource["text"].as_str() {
                    push_context(&mut context, &name, content);
                }
            }
            kind => {
                return Err(RequestFailure::invalid_params(format!(
                    "A prompt consists of text and files, not of `{}`.",
                    kind.unwrap_or_default()
                )));
            }
        }
    }
    let text = text.trim();
    if text.is_empty() {
        return Err(RequestFailure::invalid_params("The prompt is empty."));
    }
    Ok(match context.is_empty() {
        true => text.to_owned(),
        false => format!("{text}\n\n{CONTEXT_HEADING}\n{context}"),
    })
}

/// Adds a name, apart from the word before it.
fn push_word(text: &mut String, word: &str) {
    if text.ends_with(|last: char| !last.is_whitespace() && !"([{\"'`@".contains(last)) {
        text.push(' ');
    }
    text.push_str(word);
}

fn push_context(context: &mut String, name: &str, content: &str) {
    let max_bytes = MAX_FILE_BYTES.min(MAX_CONTEXT_BYTES.saturating_sub(context.len()));
    let shown = &content[..content.floor_char_boundary(max_bytes)];
    let cut = match shown.len() < content.len() {
        true => " (cut)",
        false => "",
    };
    let fence = longer_fence(shown);
    context.push_str(&format!("\n{name}{cut}:\n{fence}\n{shown}\n{fence}\n"));
}

/// A fence that does not occur in the text.
fn longer_fence(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    fence
}

/// The path of a file in the repository, with its lines if the link names them; any other path or address as it is.
fn describe_uri(uri: &str, repository: &Path) -> String {
    let Some(rest) = uri.strip_prefix("file://") else {
        return uri.to_owned();
    };
    let (path, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let path = percent_decode(path);
    let path = Path::new(&path);
    let path = path.strip_prefix(repository).unwrap_or(path);
    match fragment {
        "" => path.display().to_string(),
        fragment => format!("{}#{fragment}", path.display()),
    }
}

/// Replaces links to files of the repository within a text, as editors write them for mentions.
fn shorten_file_links(text: &str, repository: &Path) -> String {
    text.replace(&format!("file://{}/", repository.display()), "")
}

/// Decodes `%20` and the like. Returns the text unchanged if that is not valid.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(prompt: &Value) -> Result<String, RequestFailure> {
        read_prompt(prompt, Path::new("/home/ada/shop"))
    }

    #[test]
    fn files_are_named_by_their_path_in_the_repository() {
        let prompt = json!([
            { "type": "text", "text": "Tidy" },
            { "type": "resource_link", "name": "a.txt", "uri": "file:///home/ada/shop/src/a%20b.txt#L3" },
            { "type": "text", "text": " and [b](file:///home/ada/shop/src/b.txt), not " },
            { "type": "resource_link", "name": "c", "uri": "file:///etc/c.txt" },
            { "type": "resource_link", "name": "d", "uri": "https://d.example/d" },
        ]);
        assert_eq!(
            read(&prompt).unwrap(),
            "Tidy src/a b.txt#L3 and [b](src/b.txt), not /etc/c.txt https://d.example/d"
        );
    }

    #[test]
    fn embedded_text_follows_the_words_and_is_bounded() {
        let embedded = |text: &str| {
            let resource = json!({ "uri": "file:///home/ada/shop/src/a.txt", "text": text });
            json!({ "type": "resource", "resource": resource })
        };
        let words = json!({ "type": "text", "text": "Look at" });
        assert_eq!(
            read(&json!([words, embedded("one\n```\n")])).unwrap(),
            "Look at src/a.txt\n\nContext from the editor:\n\nsrc/a.txt:\n````\none\n```\n\n````\n"
        );
        let long = "x".repeat(MAX_FILE_BYTES * 2);
        let several = vec![embedded(&long); 9];
        let read = read(&json!(several)).unwrap();
        assert!(read.len() < MAX_CONTEXT_BYTES + 2000, "{}", read.len());
        assert!(read.contains("src/a.txt (cut):"));
    }

    #[test]
    fn what_an_agent_cannot_get_is_refused() {
        for prompt in [
            json!(null),
            json!([]),
            json!([{ "type": "text", "text": " \n" }]),
            json!([{ "type": "image", "data": "", "mimeType": "image/png" }]),
        ] {
            assert!(read(&prompt).is_err(), "{prompt}");
        }
    }

    #[test]
    fn percent_signs_that_encode_nothing_stay() {
        assert_eq!(percent_decode("a%2Fb%zz%"), "a/b%zz%");
        assert_eq!(percent_decode("%FF"), "%FF");
    }
}
