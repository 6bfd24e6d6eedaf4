//! Whether an agent has a login, by its variables and files. Some agents keep it in the system's keychain; their files
//! then still name the account.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use plan::actor::CommandLine;

use super::MissingNeed;
use crate::HostEnv;
use crate::command::{expand_moved, program_variable};

/// Configuration files are small.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// What shows that an agent can reach its model.
struct LoginEvidence {
    /// Programs of the agent.
    programs: &'static [&'static str],
    /// One of them is enough.
    variables: &'static [&'static str],
    /// Files in the home and what they contain; nothing if it is enough that they exist.
    files: &'static [(&'static str, &'static [&'static str])],
    /// The command to log in.
    command: &'static str,
}

/// Agents that work without a login, or whose logins are not known well enough, are not here.
const LOGINS: &[LoginEvidence] = &[
    LoginEvidence {
        programs: &["aider"],
        variables: &[
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENROUTER_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "XAI_API_KEY",
            "AZURE_API_KEY",
            "COHERE_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "LM_STUDIO_API_BASE",
            "OLLAMA_API_BASE",
            "VERTEXAI_PROJECT",
        ],
        files: &[
            ("~/.aider.conf.yml", &["api-key", "model"]),
            ("~/.aider/oauth-keys.env", &[]),
        ],
        command: "aider",
    },
    LoginEvidence {
        programs: &["claude", "claude-agent-acp"],
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_AWS_API_KEY",
            "ANTHROPIC_FOUNDRY_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "CLAUDE_CODE_USE_ANTHROPIC_AWS",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_USE_MANTLE",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        files: &[
            ("~/.claude/.credentials.json", &[]),
            ("~/.claude.json", &["\"oauthAccount\"", "\"primaryApiKey\""]),
            // With CLAUDE_CONFIG_DIR it is in there.
            (
                "~/.claude/.claude.json",
                &["\"oauthAccount\"", "\"primaryApiKey\""],
            ),
            (
                "~/.claude/settings.json",
                &[
                    "apiKeyHelper",
                    "_API_KEY",
                    "_AUTH_TOKEN",
                    "CLAUDE_CODE_USE_",
                ],
            ),
        ],
        command: "claude auth login",
    },
    LoginEvidence {
        programs: &["codex", "codex-acp"],
        variables: &["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
        files: &[
            ("~/.codex/auth.json", &[]),
            ("~/.codex/config.toml", &["model_provider"]),
        ],
        command: "codex login",
    },
    LoginEvidence {
        programs: &["copilot"],
        variables: &[
            "COPILOT_GITHUB_TOKEN",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_PROVIDER_BASE_URL",
        ],
        files: &[
            ("~/.copilot/config.json", &["loggedIn", "logged_in"]),
            ("~/.config/gh/hosts.yml", &[]),
        ],
        command: "copilot login",
    },
    LoginEvidence {
        programs: &["gemini"],
        variables: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        files: &[
            ("~/.gemini/oauth_creds.json", &[]),
            ("~/.gemini/gemini-credentials.json", &[]),
            ("~/.gemini/google_accounts.json", &["\"active\": \""]),
            ("~/.gemini/.env", &["_API_KEY", "GOOGLE_"]),
        ],
        command: "gemini",
    },
    LoginEvidence {
        programs: &["kimi"],
        variables: &["KIMI_API_KEY", "KIMI_MODEL_API_KEY", "MOONSHOT_API_KEY"],
        files: &[
            ("~/.kimi-code/credentials", &[]),
            ("~/.kimi-code/config.toml", &["api_key"]),
        ],
        command: "kimi login",
    },
    LoginEvidence {
        programs: &["qwen"],
        variables: &[
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "DASHSCOPE_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "QWEN_API_KEY",
        ],
        files: &[
            ("~/.qwen/oauth_creds.json", &[]),
            ("~/.qwen/.env", &["_API_KEY"]),
            ("~/.qwen/settings.json", &["apiKey", "_API_KEY"]),
        ],
        command: "qwen",
    },
    LoginEvidence {
        programs: &["vibe", "vibe-acp"],
        variables: &["MISTRAL_API_KEY"],
        files: &[
            ("~/.vibe/.env", &["_API_KEY"]),
            ("~/.vibe/config.toml", &["[[providers]]"]),
        ],
        command: "vibe --setup",
    },
];

pub(super) fn find_missing_login(
    command_line: &CommandLine,
    host_env: &HostEnv,
) -> Option<MissingNeed> {
    let program = Path::new(command_line.command.first()?).file_name()?;
    let is_of_program = |login: &&LoginEvidence| {
        let mut programs = login.programs.iter();
        programs.any(|name| program == OsStr::new(name))
    };
    let login = LOGINS.iter().find(is_of_program)?;
    let has_variable = login.variables.iter().any(|name| {
        let value = program_variable(command_line, host_env, name);
        value.is_some_and(|value| !value.is_empty())
    });
    let has_file = || {
        login.files.iter().any(|(path, contained)| {
            let places = expand_moved(path, command_line, host_env);
            places.iter().any(|place| is_evidence(place, contained))
        })
    };
    (!has_variable && !has_file()).then_some(MissingNeed::Login {
        variables: login.variables,
        command: login.command,
    })
}

fn is_evidence(path: &Path, contained: &[&str]) -> bool {
    if contained.is_empty() {
        return path.exists();
    }
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    read.is_ok() && contained.iter().any(|part| text.contains(part))
}
