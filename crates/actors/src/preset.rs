//! Built-in definitions of well-known agents: how each is run without a terminal.
//!
//! An agent works in a private copy whose result is reviewed before it lands, so each is run in the
//! mode that does not ask. If the agent reads its prompt from standard input, it gets it there: the
//! prompt can then have any length and does not show in process listings.
//!
//! Models, budgets and the like are deliberately absent. They are the agent's own configuration. To
//! change a preset, copy it (`actor show NAME`) and edit the copy.

use std::sync::LazyLock;

use plan::actor::{
    AcpCommand, ActorIsolation, ActorKind, ActorOutputFormat, ActorStdin, CommandLine,
    McpConfigFormat,
};
use plan::guard::ToolGuards;
use plan::permission::ToolPolicy;
use plan::{ActorDefinition, QualifiedName};

pub fn all_presets() -> &'static [ActorDefinition] {
    static DEFINITIONS: LazyLock<Vec<ActorDefinition>> = LazyLock::new(|| {
        let by_stream = PRESET_SPECS.iter().map(PresetSpec::to_definition);
        let by_protocol = ACP_PRESET_SPECS.iter().map(AcpPresetSpec::to_definition);
        let mut all: Vec<ActorDefinition> = by_stream.chain(by_protocol).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    });
    &DEFINITIONS
}

/// Finds a preset by its name without a namespace.
pub fn find_preset(name: &str) -> Option<ActorDefinition> {
    all_presets()
        .iter()
        .find(|definition| definition.name.to_string() == name)
        .cloned()
}

/// The version of a preset's program that was run with a preset like this, confined, through every
/// step of a plan. `None` if none was.
pub fn find_tested_version(name: &str) -> Option<&'static str> {
    if let Some(preset) = ACP_PRESET_SPECS.iter().find(|preset| preset.name == name) {
        return Some(preset.tested_version);
    }
    let preset = PRESET_SPECS.iter().find(|preset| preset.name == name)?;
    preset.tested_version
}

/// Is this another way to run an agent that has a preset of its own? It is used only if it is named.
pub fn is_preset_variant(name: &QualifiedName) -> bool {
    let name = name.to_string();
    ACP_PRESET_SPECS.iter().any(|preset| preset.name == name)
}

/// The other way to run the agent of a preset: by the Agent Client Protocol.
pub fn find_acp_variant(name: &str) -> Option<ActorDefinition> {
    let variant = ACP_PRESET_SPECS.iter().find(|preset| preset.like == name)?;
    find_preset(variant.name)
}

/// Does this definition make a strategy as a preset does, such as a copy under another name?
pub fn has_preset_strategy(definition: &ActorDefinition) -> bool {
    let strategize = |definition: &ActorDefinition| match &definition.kind {
        ActorKind::Command(line) => line.strategize.clone(),
        ActorKind::Acp(_) | ActorKind::Human { .. } => None,
    };
    let words = strategize(definition);
    words.is_some()
        && all_presets()
            .iter()
            .any(|preset| strategize(preset) == words)
}

/// A preset as a table of constants.
struct PresetSpec {
    name: &'static str,
    description: &'static str,
    /// A version that is known to work.
    tested_version: Option<&'static str>,
    command: &'static [&'static str],
    strategize: &'static [&'static str],
    resume: &'static [&'static str],
    stdin: ActorStdin,
    output: ActorOutputFormat,
    env: &'static [&'static str],
    set_env: &'static [(&'static str, &'static str)],
    writable: &'static [&'static str],
    readable: &'static [&'static str],
    mcp: Option<McpConfigFormat>,
}

impl PresetSpec {
    fn to_definition(&self) -> ActorDefinition {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let non_empty_words = |list: &[&str]| (!list.is_empty()).then(|| words(list));
        let set_env = self.set_env.iter();
        ActorDefinition {
            name: self.name.parse().expect("BUG: a preset has no name"),
            description: Some(self.description.to_owned()),
            kind: ActorKind::Command(Box::new(CommandLine {
                command: words(self.command),
                strategize: non_empty_words(self.strategize),
                resume: non_empty_words(self.resume),
                stdin: self.stdin,
                output: self.output,
                env: words(self.env),
                set_env: set_env
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                writable: words(self.writable),
                readable: words(self.readable),
                timeout: None,
                isolation: ActorIsolation::WherePossible,
                mcp: self.mcp,
                guards: ToolGuards::default(),
            })),
        }
    }
}

/// A preset that speaks the Agent Client Protocol. It gets what another preset of the same agent gets.
///
/// Qwen Code has none: in this mode it runs each command in a pseudo-terminal, which a confined program
/// cannot open, and no variable or argument turns that off.
struct AcpPresetSpec {
    name: &'static str,
    description: &'static str,
    /// A version that is known to work.
    tested_version: &'static str,
    /// The preset of the same agent.
    like: &'static str,
    command: &'static [&'static str],
    /// In which the agent asks before it acts, if it has one.
    mode: Option<&'static str>,
    /// In addition to those of the other preset.
    set_env: &'static [(&'static str, &'static str)],
}

impl AcpPresetSpec {
    fn to_definition(&self) -> ActorDefinition {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let like = PRESET_SPECS.iter().find(|preset| preset.name == self.like);
        let like = like.expect("BUG: a preset is like one that does not exist");
        let set_env = like.set_env.iter().chain(self.set_env);
        ActorDefinition {
            name: self.name.parse().expect("BUG: a preset has no name"),
            description: Some(self.description.to_owned()),
            kind: ActorKind::Acp(Box::new(AcpCommand {
                command: words(self.command),
                mode: self.mode.map(str::to_owned),
                model: None,
                env: words(like.env),
                set_env: set_env
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                writable: words(like.writable),
                readable: words(like.readable),
                timeout: None,
                isolation: ActorIsolation::WherePossible,
                tools: ToolPolicy::default(),
            })),
        }
    }
}

static ACP_PRESET_SPECS: &[AcpPresetSpec] = &[
    AcpPresetSpec {
        name: "claude-acp",
        description: "Claude Code, by the Agent Client Protocol",
        tested_version: "0.100.0",
        like: "claude",
        command: &["claude-agent-acp"],
        mode: Some("default"),
        set_env: &[],
    },
    AcpPresetSpec {
        name: "codex-acp",
        description: "Codex, by the Agent Client Protocol",
        tested_version: "2.6.0",
        like: "codex",
        command: &["codex-acp"],
        // It does not ask in this mode. In the others it uses its own sandbox, which a confined program
        // cannot make, so every command would fail.
        mode: Some("agent-full-access"),
        set_env: &[],
    },
    AcpPresetSpec {
        name: "copilot-acp",
        description: "GitHub Copilot CLI, by the Agent Client Protocol",
        tested_version: "1.0.102",
        like: "copilot",
        command: &["copilot", "--acp"],
        mode: None,
        set_env: &[],
    },
    AcpPresetSpec {
        name: "gemini-acp",
        description: "Gemini CLI, by the Agent Client Protocol",
        tested_version: "0.61.0",
        like: "gemini",
        command: &["gemini", "--acp"],
        mode: Some("default"),
        // Otherwise it runs each command in a pseudo-terminal, which a confined program cannot open.
        set_env: &[("GEMINI_PTY_INFO", "child_process")],
    },
    AcpPresetSpec {
        name: "kimi-acp",
        description: "Kimi Code, by the Agent Client Protocol",
        tested_version: "2.1.0",
        like: "kimi",
        command: &["kimi", "acp"],
        mode: Some("default"),
        set_env: &[],
    },
    AcpPresetSpec {
        name: "opencode-acp",
        description: "OpenCode, by the Agent Client Protocol",
        tested_version: "1.18.33",
        like: "opencode",
        // It says why it retries only in its log.
        command: &["opencode", "acp", "--print-logs", "--log-level", "ERROR"],
        mode: None,
        set_env: &[],
    },
    AcpPresetSpec {
        name: "vibe-acp",
        description: "Mistral Vibe, by the Agent Client Protocol",
        tested_version: "3.0.2",
        like: "vibe",
        command: &["vibe-acp"],
        mode: Some("ask"),
        set_env: &[],
    },
];

/// Follows the prompt, which Qwen Code reads from its standard input.
const QWEN_QUERY: &str = "This is your task.";

static PRESET_SPECS: &[PresetSpec] = &[
    PresetSpec {
        name: "aider",
        description: "Aider",
        tested_version: Some("0.86.2"),
        command: &[
            "aider",
            "--yes-always",
            "--no-auto-commits",
            "--no-analytics",
            "--no-check-update",
            "--no-detect-urls",
            "--no-gitignore",
            "--no-show-release-notes",
            "--no-pretty",
            "--no-stream",
            "--message",
            "{prompt}",
        ],
        strategize: &[
            "aider",
            "--chat-mode",
            "ask",
            "--yes-always",
            "--no-auto-commits",
            "--no-analytics",
            "--no-check-update",
            "--no-detect-urls",
            "--no-gitignore",
            "--no-show-release-notes",
            "--no-pretty",
            "--no-stream",
            "--message",
            "{prompt}",
        ],
        resume: &[],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::AiderText,
        env: &[
            "ANTHROPIC_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "XAI_API_KEY",
            "AIDER_EDITOR_MODEL",
            "AIDER_MODEL",
            "AIDER_WEAK_MODEL",
            "ANTHROPIC_BASE_URL",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AZURE_API_BASE",
            "AZURE_API_KEY",
            "AZURE_API_VERSION",
            "COHERE_API_KEY",
            "LM_STUDIO_API_BASE",
            "LM_STUDIO_API_KEY",
            "OLLAMA_API_BASE",
            "OPENAI_API_BASE",
            "OPENAI_API_TYPE",
            "OPENAI_API_VERSION",
            "OPENAI_ORGANIZATION",
            "VERTEXAI_LOCATION",
            "VERTEXAI_PROJECT",
        ],
        set_env: &[],
        writable: &["~/.aider/"],
        readable: &["~/.aider.conf.yml", "~/.aider.model.settings.yml"],
        mcp: None,
    },
    PresetSpec {
        name: "amp",
        description: "Amp, by Sourcegraph",
        tested_version: None,
        command: &[
            "amp",
            "--dangerously-allow-all",
            "--stream-json",
            "--execute",
        ],
        strategize: &[],
        resume: &[
            "amp",
            "threads",
            "continue",
            "{session}",
            "--dangerously-allow-all",
            "--stream-json",
            "--execute",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::ClaudeJson,
        env: &["AMP_API_KEY", "AMP_URL"],
        set_env: &[],
        writable: &[
            "~/.amp/",
            "~/.config/amp/",
            "~/.local/share/amp/",
            "~/.cache/amp/",
        ],
        readable: &[],
        mcp: None,
    },
    // As root it starts only if IS_SANDBOX is set. The user must set that, not a preset: before a
    // run, it is not known to be confined.
    //
    // In plan mode it would wait for a person to approve the plan. Without that tool it answers.
    PresetSpec {
        name: "claude",
        description: "Claude Code, by Anthropic",
        tested_version: Some("2.1.327"),
        command: &[
            "claude",
            "--print",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "bypassPermissions",
        ],
        strategize: &[
            "claude",
            "--print",
            "--output-format",
            "stream-json",
            "--disallowedTools",
            "ExitPlanMode",
            "--verbose",
            "--permission-mode",
            "plan",
        ],
        resume: &[
            "claude",
            "--print",
            "--resume",
            "{session}",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "bypassPermissions",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::ClaudeJson,
        env: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_AWS_API_KEY",
            "ANTHROPIC_AWS_BASE_URL",
            "ANTHROPIC_AWS_WORKSPACE_ID",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_BEDROCK_BASE_URL",
            "ANTHROPIC_BETAS",
            "ANTHROPIC_CUSTOM_HEADERS",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL",
            "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "ANTHROPIC_DEFAULT_SONNET_MODEL",
            "ANTHROPIC_FOUNDRY_API_KEY",
            "ANTHROPIC_FOUNDRY_AUTH_TOKEN",
            "ANTHROPIC_FOUNDRY_BASE_URL",
            "ANTHROPIC_FOUNDRY_RESOURCE",
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
            "ANTHROPIC_VERTEX_BASE_URL",
            "ANTHROPIC_VERTEX_PROJECT_ID",
            "AWS_BEARER_TOKEN_BEDROCK",
            "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
            "CLAUDE_CODE_CLIENT_CERT",
            "CLAUDE_CODE_CLIENT_KEY",
            "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_EFFORT_LEVEL",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
            "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
            "CLAUDE_CODE_SKIP_VERTEX_AUTH",
            "CLAUDE_CODE_SUBAGENT_MODEL",
            "CLAUDE_CODE_USE_ANTHROPIC_AWS",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_FOUNDRY",
            "CLAUDE_CODE_USE_MANTLE",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CONFIG_DIR",
            "DISABLE_TELEMETRY",
            "IS_SANDBOX",
            "MAX_THINKING_TOKENS",
        ],
        set_env: &[],
        writable: &[
            "~/.claude/",
            "~/.claude.json",
            "~/.cache/claude/",
            "~/.local/state/claude/",
        ],
        readable: &["~/.local/share/claude"],
        mcp: Some(McpConfigFormat::Claude),
    },
    // Its own sandbox mounts file systems, which a confined program cannot do: every command it
    // runs would fail, even in read-only mode. So it has no separate command for strategize.
    PresetSpec {
        name: "codex",
        description: "Codex, by OpenAI",
        tested_version: Some("0.169.0"),
        command: &[
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "-",
        ],
        strategize: &[],
        resume: &[
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "resume",
            "{session}",
            "-",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::CodexJson,
        env: &[
            "AZURE_OPENAI_API_KEY",
            "CODEX_ACCESS_TOKEN",
            "CODEX_API_KEY",
            "CODEX_CA_CERTIFICATE",
            "CODEX_HOME",
            "CODEX_SQLITE_HOME",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_ORGANIZATION",
            "OPENAI_PROJECT",
        ],
        set_env: &[],
        writable: &["~/.codex/"],
        readable: &[],
        mcp: Some(McpConfigFormat::Codex),
    },
    PresetSpec {
        name: "copilot",
        description: "GitHub Copilot CLI",
        tested_version: Some("1.0.102"),
        command: &[
            "copilot",
            "--allow-all-tools",
            "--no-ask-user",
            "--output-format",
            "json",
            "-p",
            "{prompt}",
        ],
        strategize: &[],
        resume: &[
            "copilot",
            "--allow-all-tools",
            "--no-ask-user",
            "--output-format",
            "json",
            "--resume",
            "{session}",
            "-p",
            "{prompt}",
        ],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::CopilotJson,
        env: &[
            "COPILOT_CUSTOM_INSTRUCTIONS_DIRS",
            "COPILOT_GH_HOST",
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_HOME",
            "COPILOT_MODEL",
            "COPILOT_OFFLINE",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_API_KEY_COMMAND",
            "COPILOT_PROVIDER_AZURE_API_VERSION",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_PROVIDER_BEARER_TOKEN",
            "COPILOT_PROVIDER_HEADERS",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
            "COPILOT_PROVIDER_MODEL_ID",
            "COPILOT_PROVIDER_TRANSPORT",
            "COPILOT_PROVIDER_TYPE",
            "COPILOT_PROVIDER_WIRE_API",
            "COPILOT_PROVIDER_WIRE_MODEL",
            "GH_HOST",
            "GH_TOKEN",
            "GITHUB_TOKEN",
        ],
        set_env: &[],
        writable: &["~/.copilot/", "~/.cache/copilot/"],
        readable: &[],
        mcp: None,
    },
    // It asks nothing in this mode, and keeps its data in a `.crush` directory that git ignores.
    PresetSpec {
        name: "crush",
        description: "Crush, by Charm",
        tested_version: None,
        command: &["crush", "run", "--quiet"],
        strategize: &[],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::Text,
        env: &[
            "ANTHROPIC_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "XAI_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AZURE_OPENAI_API_ENDPOINT",
            "AZURE_OPENAI_API_KEY",
            "AZURE_OPENAI_API_VERSION",
            "CEREBRAS_API_KEY",
            "HF_TOKEN",
            "VERTEXAI_LOCATION",
            "VERTEXAI_PROJECT",
            "ZAI_API_KEY",
        ],
        set_env: &[],
        writable: &["~/.config/crush/", "~/.local/share/crush/"],
        readable: &[],
        mcp: None,
    },
    // Its stream has Claude Code's format.
    PresetSpec {
        name: "cursor-agent",
        description: "Cursor's agent",
        tested_version: None,
        command: &[
            "cursor-agent",
            "--print",
            "--output-format",
            "stream-json",
            "--force",
            "--trust",
            "{prompt}",
        ],
        strategize: &[
            "cursor-agent",
            "--print",
            "--output-format",
            "stream-json",
            "--mode",
            "plan",
            "--trust",
            "{prompt}",
        ],
        resume: &[
            "cursor-agent",
            "--print",
            "--output-format",
            "stream-json",
            "--force",
            "--trust",
            "--resume",
            "{session}",
            "{prompt}",
        ],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::ClaudeJson,
        env: &["CURSOR_API_KEY"],
        set_env: &[],
        writable: &["~/.cursor/", "~/.config/cursor/"],
        readable: &["~/.local/share/cursor-agent"],
        mcp: None,
    },
    // Without a person, it leaves plan mode by itself and does the work. So it has no separate
    // command for strategize. It takes servers of the Model Context Protocol only from files that
    // outlive a run, or in directories of root.
    PresetSpec {
        name: "gemini",
        description: "Gemini CLI, by Google",
        tested_version: Some("0.61.0"),
        command: &[
            "gemini",
            "--approval-mode",
            "yolo",
            "--output-format",
            "stream-json",
        ],
        strategize: &[],
        resume: &[
            "gemini",
            "--approval-mode",
            "yolo",
            "--output-format",
            "stream-json",
            "--resume",
            "{session}",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::GeminiJson,
        env: &[
            "GEMINI_API_KEY",
            "GEMINI_API_KEY_AUTH_MECHANISM",
            "GEMINI_CLI_CUSTOM_HEADERS",
            "GEMINI_CLI_HOME",
            "GEMINI_CLI_USE_COMPUTE_ADC",
            "GEMINI_MODEL",
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_PROJECT_ID",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_API_VERSION",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_VERTEX_BASE_URL",
        ],
        // In a directory that is not trusted, it would ask.
        set_env: &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
        writable: &["~/.gemini/"],
        readable: &[],
        mcp: None,
    },
    PresetSpec {
        name: "goose",
        description: "Goose, by Block",
        tested_version: None,
        command: &["goose", "run", "--no-session", "--instructions", "-"],
        strategize: &[],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::Text,
        env: &[
            "ANTHROPIC_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "XAI_API_KEY",
            "DATABRICKS_HOST",
            "DATABRICKS_TOKEN",
            "GOOGLE_API_KEY",
            "GOOSE_MODEL",
            "GOOSE_PROVIDER",
            "OLLAMA_HOST",
            "OPENAI_BASE_PATH",
            "OPENAI_HOST",
        ],
        set_env: &[("GOOSE_MODE", "auto")],
        writable: &[
            "~/.config/goose/",
            "~/.local/share/goose/",
            "~/.local/state/goose/",
        ],
        readable: &[],
        mcp: None,
    },
    // With `--prompt` it never asks. Its read-only mode ends with a question.
    PresetSpec {
        name: "kimi",
        description: "Kimi Code, by Moonshot AI",
        tested_version: Some("2.1.0"),
        command: &["kimi", "--output-format", "stream-json", "-p", "{prompt}"],
        strategize: &[],
        resume: &[
            "kimi",
            "--session",
            "{session}",
            "--output-format",
            "stream-json",
            "-p",
            "{prompt}",
        ],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::KimiJson,
        env: &[
            "KIMI_API_KEY",
            "KIMI_CODE_BASE_URL",
            "KIMI_CODE_HOME",
            "KIMI_MODEL_API_KEY",
            "KIMI_MODEL_MAX_CONTEXT_SIZE",
            "KIMI_MODEL_MAX_OUTPUT_SIZE",
            "KIMI_MODEL_NAME",
            "KIMI_MODEL_PROVIDER_TYPE",
            "MOONSHOT_API_KEY",
        ],
        set_env: &[("KIMI_CODE_NO_AUTO_UPDATE", "1")],
        writable: &["~/.kimi-code/"],
        readable: &[],
        mcp: None,
    },
    // In this mode it rejects what it would otherwise ask about, which is little. A session always
    // works in the directory where it started, so sessions are not resumed.
    PresetSpec {
        name: "opencode",
        description: "OpenCode",
        tested_version: Some("1.18.33"),
        command: &[
            "opencode",
            "run",
            "--format",
            "json",
            "--print-logs",
            "--log-level",
            "ERROR",
        ],
        strategize: &[
            "opencode",
            "run",
            "--format",
            "json",
            "--print-logs",
            "--log-level",
            "ERROR",
            "--agent",
            "plan",
        ],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::OpencodeJson,
        env: &[
            "ANTHROPIC_API_KEY",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "XAI_API_KEY",
            "ANTHROPIC_BASE_URL",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AZURE_API_KEY",
            "AZURE_RESOURCE_NAME",
            "CEREBRAS_API_KEY",
            "DASHSCOPE_API_KEY",
            "FIREWORKS_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "HF_TOKEN",
            "MOONSHOT_API_KEY",
            "OPENCODE_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_CONTENT",
            "OPENCODE_CONFIG_DIR",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_MODELS_PATH",
            "OPENCODE_MODELS_URL",
            "TOGETHER_API_KEY",
            "ZAI_API_KEY",
        ],
        set_env: &[],
        writable: &[
            "~/.config/opencode/",
            "~/.local/share/opencode/",
            "~/.local/state/opencode/",
            "~/.cache/opencode/",
        ],
        readable: &["~/.opencode"],
        mcp: None,
    },
    // Its stream has Claude Code's format. Without an argument that is a prompt, it runs each shell
    // command in a pseudo-terminal, which a confined program cannot open.
    PresetSpec {
        name: "qwen",
        description: "Qwen Code, by Alibaba",
        tested_version: Some("0.24.4"),
        command: &[
            "qwen",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "yolo",
            QWEN_QUERY,
        ],
        strategize: &[
            "qwen",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "plan",
            QWEN_QUERY,
        ],
        resume: &[
            "qwen",
            "--resume",
            "{session}",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "yolo",
            QWEN_QUERY,
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::ClaudeJson,
        env: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "DASHSCOPE_API_KEY",
            "DASHSCOPE_PROXY_BASE_URL",
            "GEMINI_API_KEY",
            "GEMINI_MODEL",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_MODEL",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "QWEN_API_KEY",
            "QWEN_BASE_URL",
            "QWEN_CODE_MAX_OUTPUT_TOKENS",
            "QWEN_DEFAULT_AUTH_TYPE",
            "QWEN_HOME",
            "QWEN_MODEL",
            "QWEN_OAUTH",
        ],
        set_env: &[],
        writable: &["~/.qwen/"],
        readable: &[],
        mcp: None,
    },
    PresetSpec {
        name: "vibe",
        description: "Mistral Vibe",
        tested_version: Some("3.0.2"),
        command: &[
            "vibe",
            "--output",
            "streaming",
            "--auto-approve",
            "--trust",
            "-p",
        ],
        strategize: &[],
        resume: &[
            "vibe",
            "--resume",
            "{session}",
            "--output",
            "streaming",
            "--auto-approve",
            "--trust",
            "-p",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::VibeJson,
        env: &["MISTRAL_API_KEY", "VIBE_ACTIVE_MODEL", "VIBE_HOME"],
        set_env: &[],
        writable: &["~/.vibe/"],
        readable: &[],
        mcp: None,
    },
];
