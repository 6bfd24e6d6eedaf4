//! The agents that are checked, and where each is installed from. The versions here are those that the documentation
//! names.

use super::model_access::ModelAccess;

/// Newer agents need Node.js 22. With an older one, npm installs older agents without a word.
pub const NODE_VERSION: &str = "24.21.0";

/// The only one that all Python agents support.
pub const PYTHON_VERSION: &str = "3.12";

/// A package with one or more agents.
pub struct AgentPackage {
    /// The directory that it is installed in.
    pub name: &'static str,
    pub registry: PackageRegistry,
    pub package: &'static str,
    pub version: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PackageRegistry {
    Npm,
    PyPi,
}

/// A preset that is run with the real agent.
pub struct CheckedAgent {
    /// The name of the preset.
    pub name: &'static str,
    /// The name of its package.
    pub package: &'static str,
    /// How it is pointed at the model server.
    pub access: ModelAccess,
}

impl CheckedAgent {
    pub fn package(&self) -> &'static AgentPackage {
        let mut packages = PACKAGES.iter();
        let found = packages.find(|package| package.name == self.package);
        found.expect("BUG: a checked agent has no package")
    }

    pub fn speaks_acp(&self) -> bool {
        self.name.ends_with("-acp")
    }
}

pub static PACKAGES: &[AgentPackage] = &[
    pypi("aider", "aider-chat", "0.86.2"),
    npm("claude", "@anthropic-ai/claude-code", "2.1.327"),
    npm(
        "claude-agent-acp",
        "@agentclientprotocol/claude-agent-acp",
        "0.100.0",
    ),
    npm("codex", "@openai/codex", "0.169.0"),
    npm("codex-acp", "@agentclientprotocol/codex-acp", "2.6.0"),
    npm("copilot", "@github/copilot", "1.0.102"),
    npm("gemini", "@google/gemini-cli", "0.61.0"),
    npm("kimi", "@moonshot-ai/kimi-code", "2.1.0"),
    npm("opencode", "opencode-ai", "1.18.33"),
    npm("qwen", "@qwen-code/qwen-code", "0.24.4"),
    pypi("vibe", "mistral-vibe", "3.0.2"),
];

pub static CHECKED_AGENTS: &[CheckedAgent] = &[
    agent("aider", "aider", ModelAccess::Aider),
    agent("claude", "claude", ModelAccess::Claude),
    agent("claude-acp", "claude-agent-acp", ModelAccess::Claude),
    agent("codex", "codex", ModelAccess::Codex),
    agent("codex-acp", "codex-acp", ModelAccess::Codex),
    agent("copilot", "copilot", ModelAccess::Copilot),
    agent("copilot-acp", "copilot", ModelAccess::Copilot),
    agent("gemini", "gemini", ModelAccess::Gemini),
    agent("gemini-acp", "gemini", ModelAccess::Gemini),
    agent("kimi", "kimi", ModelAccess::Kimi),
    agent("kimi-acp", "kimi", ModelAccess::Kimi),
    agent("opencode", "opencode", ModelAccess::Opencode),
    agent("opencode-acp", "opencode", ModelAccess::Opencode),
    agent("qwen", "qwen", ModelAccess::Qwen),
    agent("vibe", "vibe", ModelAccess::Vibe),
    agent("vibe-acp", "vibe", ModelAccess::Vibe),
];

const fn npm(name: &'static str, package: &'static str, version: &'static str) -> AgentPackage {
    AgentPackage {
        name,
        registry: PackageRegistry::Npm,
        package,
        version,
    }
}

const fn pypi(name: &'static str, package: &'static str, version: &'static str) -> AgentPackage {
    AgentPackage {
        name,
        registry: PackageRegistry::PyPi,
        package,
        version,
    }
}

const fn agent(name: &'static str, package: &'static str, access: ModelAccess) -> CheckedAgent {
    CheckedAgent {
        name,
        package,
        access,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checked_agent_has_a_package() {
        for agent in CHECKED_AGENTS {
            assert!(!agent.package().version.is_empty(), "{}", agent.name);
        }
    }
}
