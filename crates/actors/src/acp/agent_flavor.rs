//! What differs between known agents. They name themselves in `agentInfo`.

/// How an agent reports the tokens of a turn. No agent says which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenCounting {
    /// The result of a prompt has the tokens of this turn.
    PerTurn,
    /// The result of a prompt has the tokens of the session so far.
    PerSession,
    /// The result of a prompt has the tokens of the last request of the turn, so it is a lower bound.
    LastRequest,
    /// Each message has the tokens of one request.
    PerRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AgentFlavor {
    pub(super) token_counting: TokenCounting,
    /// The first title of a tool call is the name of the tool.
    pub(super) titles_name_tools: bool,
    /// The id of a tool call begins with the name of the tool.
    pub(super) call_ids_name_tools: bool,
    /// The errors of its model are messages, and the turn ends as if it were done.
    pub(super) reports_errors_in_messages: bool,
}

impl Default for AgentFlavor {
    fn default() -> Self {
        Self {
            token_counting: TokenCounting::PerTurn,
            titles_name_tools: false,
            call_ids_name_tools: false,
            reports_errors_in_messages: false,
        }
    }
}

impl AgentFlavor {
    /// `name` as in `agentInfo`.
    pub(super) fn from_agent_name(name: &str) -> Self {
        let by_counting = |token_counting| Self {
            token_counting,
            ..Self::default()
        };
        match name {
            // It counts all turns of its process, of which a run has one.
            "Copilot" => Self {
                reports_errors_in_messages: true,
                ..Self::default()
            },
            "@mistralai/mistral-vibe" => by_counting(TokenCounting::PerSession),
            "qwen-code" => by_counting(TokenCounting::PerRequest),
            "OpenCode" => Self {
                titles_name_tools: true,
                ..by_counting(TokenCounting::LastRequest)
            },
            "Kimi Code CLI" => Self {
                titles_name_tools: true,
                ..Self::default()
            },
            "gemini-cli" => Self {
                call_ids_name_tools: true,
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}
