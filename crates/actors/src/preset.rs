//! Built-in definitions of well-known agents: how each is run without a terminal.
//!
//! An agent works in a private copy whose result is reviewed before it lands, so each is run in the
//! mode that does not ask. If the agent reads its prompt from standard input, it gets it there: the
//! prompt can then have any length and does not show in process listings.
//!
//! Models, budgets and the like are deliberately absent. They are the agent's own configuration. To
//! change a preset, copy it (`actor show NAME`) and edit the copy.

use std::sync::LazyLock;

use plan::ActorDefinition;
use plan::actor::{ActorIsolation, ActorKind, ActorOutputFormat, ActorStdin, CommandLine};
use plan::guard::ToolGuards;

pub fn all_presets() -> &'static [ActorDefinition] {
    static DEFINITIONS: LazyLock<Vec<ActorDefinition>> =
        LazyLock::new(|| PRESET_SPECS.iter().map(PresetSpec::to_definition).collect());
    &DEFINITIONS
}

/// Finds a preset by its name without a namespace.
pub fn find_preset(name: &str) -> Option<ActorDefinition> {
    all_presets()
        .iter()
        .find(|definition| definition.name.to_string() == name)
        .cloned()
}

/// A preset as a table of constants.
struct PresetSpec {
    name: &'static str,
    description: &'static str,
    command: &'static [&'static str],
    strategize: &'static [&'static str],
    resume: &'static [&'static str],
    stdin: ActorStdin,
    output: ActorOutputFormat,
    env: &'static [&'static str],
    set_env: &'static [(&'static str, &'static str)],
    writable: &'static [&'static str],
    readable: &'static [&'static str],
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
                guards: ToolGuards::default(),
            })),
        }
    }
}

static PRESET_SPECS: &[PresetSpec] = &[
    PresetSpec {
        name: "aider",
        description: "Aider",
        command: &[
            "aider",
            "--yes-always",
            "--no-auto-commits",
            "--no-check-update",
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
            "--no-check-update",
            "--no-pretty",
            "--no-stream",
            "--message",
            "{prompt}",
        ],
        resume: &[],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::Text,
        env: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_API_BASE",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "DEEPSEEK_API_KEY",
        ],
        set_env: &[],
        writable: &["~/.aider/"],
        readable: &["~/.aider.conf.yml", "~/.aider.model.settings.yml"],
    },
    PresetSpec {
        name: "amp",
        description: "Amp, by Sourcegraph",
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
    },
    // As root it starts only if IS_SANDBOX is set. The user must set that, not a preset: before a
    // run, it is not known to be confined.
    //
    // In plan mode it would wait for a person to approve the plan. Without that tool it answers.
    PresetSpec {
        name: "claude",
        description: "Claude Code, by Anthropic",
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
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "IS_SANDBOX",
        ],
        set_env: &[],
        writable: &[
            "~/.claude/",
            "~/.claude.json",
            "~/.cache/claude/",
            "~/.local/state/claude/",
        ],
        readable: &["~/.local/share/claude"],
    },
    // Its own sandbox mounts file systems, which a confined program cannot do: every command it
    // runs would fail, even in read-only mode. So it has no separate command for strategize.
    PresetSpec {
        name: "codex",
        description: "Codex, by OpenAI",
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
        env: &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"],
        set_env: &[],
        writable: &["~/.codex/"],
        readable: &[],
    },
    PresetSpec {
        name: "copilot",
        description: "GitHub Copilot CLI",
        command: &[
            "copilot",
            "--allow-all-tools",
            "--no-ask-user",
            "-s",
            "-p",
            "{prompt}",
        ],
        strategize: &[],
        resume: &[],
        stdin: ActorStdin::None,
        output: ActorOutputFormat::Text,
        env: &["COPILOT_GITHUB_TOKEN"],
        set_env: &[],
        writable: &["~/.copilot/"],
        readable: &[],
    },
    // It asks nothing in this mode, and keeps its data in a `.crush` directory that git ignores.
    PresetSpec {
        name: "crush",
        description: "Crush, by Charm",
        command: &["crush", "run", "--quiet"],
        strategize: &[],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::Text,
        env: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        set_env: &[],
        writable: &["~/.config/crush/", "~/.local/share/crush/"],
        readable: &[],
    },
    // Its stream has Claude Code's format.
    PresetSpec {
        name: "cursor-agent",
        description: "Cursor's agent",
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
    },
    // Without a person, it leaves plan mode by itself and does the work. So it has no separate
    // command for strategize.
    PresetSpec {
        name: "gemini",
        description: "Gemini CLI, by Google",
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
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        // In a directory that is not trusted, it would ask.
        set_env: &[("GEMINI_CLI_TRUST_WORKSPACE", "true")],
        writable: &["~/.gemini/"],
        readable: &[],
    },
    PresetSpec {
        name: "goose",
        description: "Goose, by Block",
        command: &["goose", "run", "--no-session", "--instructions", "-"],
        strategize: &[],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::Text,
        env: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GOOGLE_API_KEY",
            "OPENROUTER_API_KEY",
            "GOOSE_PROVIDER",
            "GOOSE_MODEL",
        ],
        set_env: &[("GOOSE_MODE", "auto")],
        writable: &[
            "~/.config/goose/",
            "~/.local/share/goose/",
            "~/.local/state/goose/",
        ],
        readable: &[],
    },
    // In this mode it rejects what it would otherwise ask about, which is little. A session always
    // works in the directory where it started, so sessions are not resumed.
    PresetSpec {
        name: "opencode",
        description: "OpenCode",
        command: &["opencode", "run", "--format", "json"],
        strategize: &["opencode", "run", "--format", "json", "--agent", "plan"],
        resume: &[],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::OpencodeJson,
        env: &[
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        set_env: &[],
        writable: &[
            "~/.config/opencode/",
            "~/.local/share/opencode/",
            "~/.local/state/opencode/",
            "~/.cache/opencode/",
        ],
        readable: &["~/.opencode"],
    },
    // Its stream has Claude Code's format.
    PresetSpec {
        name: "qwen",
        description: "Qwen Code, by Alibaba",
        command: &[
            "qwen",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "yolo",
        ],
        strategize: &[
            "qwen",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "plan",
        ],
        resume: &[
            "qwen",
            "--resume",
            "{session}",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "yolo",
        ],
        stdin: ActorStdin::Prompt,
        output: ActorOutputFormat::ClaudeJson,
        env: &[
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "OPENAI_MODEL",
            "DASHSCOPE_API_KEY",
        ],
        set_env: &[],
        writable: &["~/.qwen/"],
        readable: &[],
    },
];
