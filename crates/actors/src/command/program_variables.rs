//! Which variables of the worker a program gets: common ones, those that its definition names, and
//! those that come with one of these. Also finds the variables that a failed agent may have missed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use plan::actor::CommandLine;

use crate::HostEnv;

/// Passed on to every program: identity, locale, directories, certificates and tool locations.
const COMMON_VARIABLES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "MISE_CONFIG_DIR",
    "MISE_DATA_DIR",
    "MISE_STATE_DIR",
];

/// Also passed on, in upper or lower case. Their values may contain a password.
const PROXY_VARIABLES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Common variables that name a file or directory to read.
const COMMON_PATH_VARIABLES: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NVM_BIN",
    "ASDF_DIR",
    "GOROOT",
    "JAVA_HOME",
];

/// Variables that move a directory: the variable, the directory in the home without it, and the
/// directory below the variable's value.
const MOVED_DIRECTORIES: &[(&str, &str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config", ""),
    ("XDG_CACHE_HOME", ".cache", ""),
    ("XDG_DATA_HOME", ".local/share", ""),
    ("XDG_STATE_HOME", ".local/state", ""),
    ("ASDF_DATA_DIR", ".asdf", ""),
    ("BUN_INSTALL", ".bun", ""),
    ("CARGO_HOME", ".cargo", ""),
    ("DENO_DIR", ".cache/deno", ""),
    ("GOPATH", "go", ""),
    ("MISE_CONFIG_DIR", ".config/mise", ""),
    ("MISE_DATA_DIR", ".local/share/mise", ""),
    ("MISE_STATE_DIR", ".local/state/mise", ""),
    ("NVM_DIR", ".nvm", ""),
    ("PNPM_HOME", ".local/share/pnpm", ""),
    ("PYENV_ROOT", ".pyenv", ""),
    ("RUSTUP_HOME", ".rustup", ""),
    ("VOLTA_HOME", ".volta", ""),
    ("CLAUDE_CONFIG_DIR", ".claude", ""),
    ("CODEX_HOME", ".codex", ""),
    ("COPILOT_HOME", ".copilot", ""),
    ("GEMINI_CLI_HOME", ".gemini", ".gemini"),
    ("KIMI_CODE_HOME", ".kimi-code", ""),
    ("QWEN_HOME", ".qwen", ""),
    ("VIBE_HOME", ".vibe", ""),
];

/// A cloud provider's login. An agent gets it only if a switch says that it uses this provider.
struct ProviderLogin {
    /// Variables that choose the provider.
    switches: &'static [&'static str],
    variables: &'static [&'static str],
    /// Readable then.
    paths: &'static [&'static str],
}

const PROVIDER_LOGINS: &[ProviderLogin] = &[
    ProviderLogin {
        switches: &[
            "CLAUDE_CODE_USE_ANTHROPIC_AWS",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_MANTLE",
            "AWS_BEARER_TOKEN_BEDROCK",
        ],
        variables: &[
            "AWS_ACCESS_KEY_ID",
            "AWS_CONFIG_FILE",
            "AWS_DEFAULT_REGION",
            "AWS_PROFILE",
            "AWS_REGION",
            "AWS_ROLE_ARN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_SHARED_CREDENTIALS_FILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        ],
        paths: &["~/.aws"],
    },
    ProviderLogin {
        switches: &[
            "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
            "CLAUDE_CODE_USE_VERTEX",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        variables: &[
            "CLOUD_ML_REGION",
            "GCLOUD_PROJECT",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_ACCESS_TOKEN",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_QUOTA_PROJECT",
        ],
        paths: &["~/.config/gcloud/application_default_credentials.json"],
    },
    ProviderLogin {
        switches: &["CLAUDE_CODE_USE_FOUNDRY"],
        variables: &[
            "AZURE_CLIENT_CERTIFICATE_PATH",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_TENANT_ID",
        ],
        paths: &[],
    },
];

/// Variables that begin like this are for many programs. An agent misses them only if it was set up to use that cloud.
const CLOUD_PREFIXES: &[&str] = &["AWS_", "AZURE_"];

/// Variables that agents set for the programs they start. An agent that is started by another one
/// does not miss them.
const SET_BY_AGENTS: &[&str] = &[
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_THREAD_ID",
    "COPILOT_AGENT_SESSION_ID",
    "GEMINI_CLI",
    "GEMINI_CLI_NO_RELAUNCH",
    "QWEN_CODE",
    "QWEN_CODE_CLI",
    "QWEN_CODE_NO_RELAUNCH",
    "QWEN_CODE_SESSION_ID",
];

/// How a variable reaches a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedVariable {
    Common,
    /// May contain a password.
    Proxy,
    /// Named by the definition, or part of a login that belongs to one of these.
    Named,
}

/// How the worker's variable `name` reaches the program. `None` if it is not passed on.
pub(super) fn classify_variable(
    command_line: &CommandLine,
    host_env: &HostEnv,
    name: &str,
) -> Option<PassedVariable> {
    if name.starts_with("PLANWRIGHT_") {
        None
    } else if PROXY_VARIABLES.contains(&name.to_ascii_uppercase().as_str()) {
        Some(PassedVariable::Proxy)
    } else if command_line.env.iter().any(|named| named == name)
        || chosen_logins(command_line, host_env).any(|login| login.variables.contains(&name))
    {
        Some(PassedVariable::Named)
    } else if COMMON_VARIABLES.contains(&name) || name.starts_with("LC_") {
        Some(PassedVariable::Common)
    } else {
        None
    }
}

/// The logins of the providers that the agent was set up to use.
fn chosen_logins(
    command_line: &CommandLine,
    host_env: &HostEnv,
) -> impl Iterator<Item = &'static ProviderLogin> {
    PROVIDER_LOGINS.iter().filter(|login| {
        login.switches.iter().any(|switch| {
            let set_here = command_line.set_env.get(*switch).map(OsStr::new);
            let is_named = command_line.env.iter().any(|named| named == switch);
            let passed = host_env.variable(switch).filter(|_| is_named);
            set_here.or(passed).is_some_and(is_switched_on)
        })
    })
}

fn is_switched_on(value: &OsStr) -> bool {
    !["", "0", "false", "no", "off"].contains(&value.to_string_lossy().to_lowercase().as_str())
}

/// What a confined program must be able to read because of its variables: files that they name, and
/// the logins of providers that they choose.
pub(super) fn paths_named_by_variables(
    command_line: &CommandLine,
    host_env: &HostEnv,
) -> Vec<PathBuf> {
    let named = host_env.environment.iter().filter(|(name, _)| {
        name.to_str().is_some_and(
            |name| match classify_variable(command_line, host_env, name) {
                Some(PassedVariable::Named) => true,
                Some(PassedVariable::Common) => COMMON_PATH_VARIABLES.contains(&name),
                Some(PassedVariable::Proxy) | None => false,
            },
        )
    });
    let mut paths: Vec<PathBuf> = named.map(|(_, value)| PathBuf::from(value)).collect();
    paths.retain(|path| path.is_absolute());
    for login in chosen_logins(command_line, host_env) {
        for path in login.paths {
            paths.extend(expand_moved(path, command_line, host_env));
        }
    }
    paths
}

/// Expands `~/` in a path of a definition. If a variable of the program moves a directory that the
/// path is in, such as `XDG_CONFIG_HOME` does with `~/.config`, the path there is meant too.
pub(crate) fn expand_moved(
    path: &str,
    command_line: &CommandLine,
    host_env: &HostEnv,
) -> Vec<PathBuf> {
    let Some(expanded) = host_env.expand(path) else {
        return Vec::new();
    };
    let mut paths = vec![expanded];
    if let Some(below_home) = path.strip_prefix("~/") {
        for (variable, directory, below_value) in MOVED_DIRECTORIES {
            let Ok(rest) = Path::new(below_home).strip_prefix(directory) else {
                continue;
            };
            let value = program_variable(command_line, host_env, variable).map(PathBuf::from);
            if let Some(value) = value.filter(|value| value.is_absolute()) {
                let mut moved = value.join(below_value);
                moved.extend(rest);
                // Still a directory to be created.
                moved.extend(path.ends_with('/').then_some(""));
                paths.push(moved);
            }
        }
    }
    paths
}

/// The value that the program sees.
pub(crate) fn program_variable(
    command_line: &CommandLine,
    host_env: &HostEnv,
    name: &str,
) -> Option<OsString> {
    if let Some(value) = command_line.set_env.get(name) {
        return Some(value.into());
    }
    classify_variable(command_line, host_env, name)?;
    host_env.variable(name).map(OsStr::to_owned)
}

/// Variables of the worker that the agent did not get although they look like its own: they begin
/// like those that its definition names, or hold a key and the definition names keys of several
/// providers.
pub(super) fn find_withheld_variables(
    command_line: &CommandLine,
    host_env: &HostEnv,
) -> Vec<String> {
    let prefixes: BTreeSet<&str> = command_line
        .env
        .iter()
        .filter_map(|name| name.split_inclusive('_').next())
        .filter(|prefix| prefix.len() > 3 && prefix.ends_with('_'))
        .filter(|prefix| {
            let is_cloud = CLOUD_PREFIXES.contains(prefix);
            let mut chosen = chosen_logins(command_line, host_env)
                .flat_map(|login| login.variables)
                .filter(|name| name.starts_with(prefix));
            !is_cloud || chosen.next().is_some()
        })
        .collect();
    let is_key = |name: &str| name.ends_with("_API_KEY");
    let takes_any_key = command_line.env.iter().filter(|name| is_key(name)).count() > 3;
    let mut withheld: Vec<String> = host_env
        .environment
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .filter_map(|(name, _)| name.to_str())
        .filter(|name| {
            let is_related = prefixes.iter().any(|prefix| name.starts_with(prefix));
            (is_related || takes_any_key && is_key(name))
                && !SET_BY_AGENTS.contains(name)
                && !command_line.set_env.contains_key(*name)
                && classify_variable(command_line, host_env, name).is_none()
        })
        .map(str::to_owned)
        .collect();
    withheld.sort();
    withheld
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_env(variables: &[(&str, &str)]) -> HostEnv {
        HostEnv {
            environment: variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .collect(),
            home: Some("/home/ada".into()),
            out_of_reach: Vec::new(),
            tool_relay: Vec::new(),
        }
    }

    fn command_line(env: &[&str]) -> CommandLine {
        CommandLine {
            env: env.iter().map(|name| (*name).to_owned()).collect(),
            ..CommandLine::default()
        }
    }

    #[test]
    fn cloud_login_is_passed_on_only_with_its_switch() {
        let line = command_line(&["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"]);
        let login = ("AWS_SECRET_ACCESS_KEY", "secret");
        for (switch, expected) in [
            (None, None),
            (Some("0"), None),
            (Some("1"), Some(PassedVariable::Named)),
        ] {
            let mut variables = vec![login];
            variables.extend(switch.map(|value| ("CLAUDE_CODE_USE_BEDROCK", value)));
            let host_env = host_env(&variables);
            assert_eq!(
                classify_variable(&line, &host_env, login.0),
                expected,
                "{switch:?}"
            );
            let paths = paths_named_by_variables(&line, &host_env);
            assert_eq!(
                paths.contains(&"/home/ada/.aws".into()),
                expected.is_some(),
                "{paths:?}"
            );
        }
        // A switch that the definition does not name is not the agent's.
        let host_env = host_env(&[login, ("CLAUDE_CODE_USE_BEDROCK", "1")]);
        assert_eq!(
            classify_variable(&command_line(&["OPENAI_API_KEY"]), &host_env, login.0),
            None
        );
    }

    #[test]
    fn paths_follow_the_variables_that_move_them() {
        let host_env = host_env(&[
            ("XDG_CONFIG_HOME", "/data/config"),
            ("XDG_CACHE_HOME", "relative"),
            ("CODEX_HOME", "/data/codex/"),
            ("GEMINI_CLI_HOME", "/data"),
        ]);
        let line = command_line(&["CODEX_HOME", "GEMINI_CLI_HOME"]);
        let check = |path: &str, line: &CommandLine, expected: &[&str]| {
            // As text: a slash at the end counts.
            let expanded = expand_moved(path, line, &host_env).into_iter();
            let expanded: Vec<_> = expanded.map(PathBuf::into_os_string).collect();
            assert_eq!(expanded, expected, "{path}");
        };
        check(
            "~/.config/goose/",
            &line,
            &["/home/ada/.config/goose/", "/data/config/goose/"],
        );
        check("~/.cache/copilot/", &line, &["/home/ada/.cache/copilot/"]);
        check("~/.codex/", &line, &["/home/ada/.codex/", "/data/codex/"]);
        check(
            "~/.gemini/",
            &line,
            &["/home/ada/.gemini/", "/data/.gemini/"],
        );
        // An agent that does not get the variable does not follow it.
        check("~/.codex/", &command_line(&[]), &["/home/ada/.codex/"]);
        check("/opt/agent", &line, &["/opt/agent"]);
    }

    #[test]
    fn withheld_variables_are_those_of_the_same_family() {
        let host_env = host_env(&[
            ("ANTHROPIC_API_KEY", "key"),
            ("ANTHROPIC_FANCY_OPTION", "1"),
            ("ANTHROPIC_EMPTY", ""),
            ("CLAUDE_CODE_SSE_PORT", "1"),
            ("OPENAI_API_KEY", "key"),
            ("EDITOR", "vi"),
        ]);
        let line = command_line(&["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "IS_SANDBOX"]);
        assert_eq!(
            find_withheld_variables(&line, &host_env),
            ["ANTHROPIC_FANCY_OPTION"]
        );
        let of_several_providers = command_line(&[
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "XAI_API_KEY",
        ]);
        assert_eq!(
            find_withheld_variables(&of_several_providers, &host_env),
            ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
        );
    }
}
