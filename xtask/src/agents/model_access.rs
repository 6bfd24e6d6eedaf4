//! How each agent is pointed at the model server: variables of its environment, and files in its home.
//!
//! The key is never checked. It is there because agents do not start without one.

use super::catalog::CheckedAgent;

const KEY: &str = "sk-fake-0123456789";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelAccess {
    Aider,
    Claude,
    Codex,
    Copilot,
    Gemini,
    Kimi,
    Opencode,
    Qwen,
    Vibe,
}

/// What an agent gets besides the rest of its environment.
#[derive(Default)]
pub struct AccessSetup {
    pub variables: Vec<(&'static str, String)>,
    /// A path below the home, and its text.
    pub file: Option<(&'static str, String)>,
}

impl CheckedAgent {
    /// `base` is the address of the model server, with a fault as its path.
    pub fn model_setup(&self, base: &str) -> AccessSetup {
        match self.access {
            ModelAccess::Aider => AccessSetup::with_variables(&[
                ("OPENAI_API_KEY", KEY),
                ("OPENAI_API_BASE", &format!("{base}/v1")),
                // With a model that it does not know, it wants whole files.
                ("AIDER_MODEL", "openai/gpt-4o"),
            ]),
            ModelAccess::Claude => AccessSetup::with_variables(&[
                ("ANTHROPIC_API_KEY", KEY),
                ("ANTHROPIC_BASE_URL", base),
                // It does not start as root without it.
                ("IS_SANDBOX", "1"),
            ]),
            ModelAccess::Codex => AccessSetup::with_variables(&[("OPENAI_API_KEY", KEY)])
                .and_file(".codex/config.toml", codex_config(base)),
            ModelAccess::Copilot => AccessSetup::with_variables(&[
                ("COPILOT_PROVIDER_BASE_URL", &format!("{base}/v1")),
                ("COPILOT_PROVIDER_API_KEY", KEY),
                ("COPILOT_MODEL", "fake"),
                ("COPILOT_OFFLINE", "true"),
            ]),
            ModelAccess::Gemini => AccessSetup::with_variables(&[
                ("GEMINI_API_KEY", KEY),
                ("GOOGLE_GEMINI_BASE_URL", base),
            ])
            .and_file(
                ".gemini/settings.json",
                r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}}"#.to_owned(),
            ),
            ModelAccess::Kimi => {
                AccessSetup::default().and_file(".kimi-code/config.toml", kimi_config(base))
            }
            ModelAccess::Opencode => AccessSetup::with_variables(&[("ANTHROPIC_API_KEY", KEY)])
                .and_file(".config/opencode/opencode.json", opencode_config(base)),
            ModelAccess::Qwen => AccessSetup::with_variables(&[
                ("OPENAI_API_KEY", KEY),
                ("OPENAI_BASE_URL", &format!("{base}/v1")),
                ("OPENAI_MODEL", "fake"),
            ]),
            ModelAccess::Vibe => AccessSetup::with_variables(&[("MISTRAL_API_KEY", KEY)])
                .and_file(".vibe/config.toml", vibe_config(base)),
        }
    }
}

impl AccessSetup {
    fn with_variables(variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter();
        Self {
            variables: variables
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            file: None,
        }
    }

    fn and_file(mut self, path: &'static str, text: String) -> Self {
        self.file = Some((path, text));
        self
    }
}

fn codex_config(base: &str) -> String {
    format!(
        r#"model = "gpt-6.1-sol"
model_provider = "fake"

[model_providers.fake]
name = "Fake"
base_url = "{base}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"#
    )
}

fn kimi_config(base: &str) -> String {
    format!(
        r#"default_model = "fake"

[providers.fake]
type = "openai"
base_url = "{base}/v1"
api_key = "{KEY}"

[models.fake]
provider = "fake"
model = "fake"
max_context_size = 100000
"#
    )
}

fn opencode_config(base: &str) -> String {
    format!(
        r#"{{"model": "anthropic/claude-sonnet-4-5", "autoupdate": false,
"provider": {{"anthropic": {{"options": {{"baseURL": "{base}/v1"}}}}}}}}
"#
    )
}

fn vibe_config(base: &str) -> String {
    format!(
        r#"active_model = "fake"

[[providers]]
name = "fake"
api_base = "{base}/v1"
api_key_env_var = "MISTRAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "fake"
provider = "fake"
alias = "fake"
"#
    )
}
