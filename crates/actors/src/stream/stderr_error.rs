//! Errors that agents write only to their standard error, such as why they retry. Everything else there is
//! unrelated: warnings about a terminal, missing tools, the mode.

use plan::actor::ActorOutputFormat;

/// The error that a line of standard error reports. Plain programs may write anything there.
pub(crate) fn find_error_in_line(output: ActorOutputFormat, line: &str) -> Option<String> {
    let line = line.trim_end();
    match output {
        ActorOutputFormat::Text => None,
        ActorOutputFormat::OpencodeJson if line.starts_with("timestamp=") => {
            find_opencode_error(line)
        }
        ActorOutputFormat::OpencodeJson
        | ActorOutputFormat::AiderText
        | ActorOutputFormat::ClaudeJson
        | ActorOutputFormat::CodexJson
        | ActorOutputFormat::CopilotJson
        | ActorOutputFormat::GeminiJson
        | ActorOutputFormat::KimiJson
        | ActorOutputFormat::VibeJson => {
            let lowercase = line.to_lowercase();
            let is_error = ["error:", "api error", "fatal:"]
                .iter()
                .any(|word| lowercase.starts_with(word));
            let is_retry = line.starts_with("Attempt ") && line.contains(" failed");
            (is_error || is_retry).then(|| line.to_owned())
        }
    }
}

/// `… message="stream error" … error.error="AI_RetryError: Failed after 3 attempts."` Other errors in its log
/// are about things that it can do without.
fn find_opencode_error(line: &str) -> Option<String> {
    if !line.contains("message=\"stream error\"") {
        return None;
    }
    let (_, error) = line.split_once("error.error=\"")?;
    Some(error.trim_end_matches('"').replace("\\\"", "\""))
}
