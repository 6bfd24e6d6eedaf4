//! The environment of a program: what every program needs, what its definition names, and what it is told
//! by Planwright. Nothing else of the worker's is passed on.

use std::ffi::OsString;

use plan::actor::CommandLine;

use super::desk::Desk;
use crate::secrets::Secrets;
use crate::{Ambient, Assignment};

/// Passed on to every program: who and where it is, how it speaks, and how it gets out into the network.
const ALWAYS: &[&str] = &[
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
];

/// Passed on as well, in either case; their values may hold a password.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Where temporary files go. `/tmp` is out of a confined program's reach, and Claude Code, which could run
/// no command then, heeds only a name of its own.
const TEMPORARY: &[&str] = &["TMPDIR", "TMP", "TEMP", "CLAUDE_CODE_TMPDIR"];

/// Longest value of a variable that tells of the assignment. A longer one is only in the file.
const LONGEST_VALUE: usize = 64 * 1024;

/// The environment of a run, and what of it must not be told.
pub(super) struct Environment {
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) secrets: Secrets,
}

impl Environment {
    pub(super) fn of(
        line: &CommandLine,
        ambient: &Ambient,
        assignment: &Assignment,
        desk: &Desk,
    ) -> Self {
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value));
        };
        let mut secrets = Vec::new();
        set("PATH", ambient.path().to_owned());
        for (name, value) in &ambient.environment {
            let Some(name) = name
                .to_str()
                .filter(|name| !name.starts_with("PLANWRIGHT_"))
            else {
                continue;
            };
            let is_proxy = PROXIES.contains(&name.to_ascii_uppercase().as_str());
            let is_named = line.env.iter().any(|named| named == name);
            if is_proxy || is_named || ALWAYS.contains(&name) || name.starts_with("LC_") {
                set(name, value.clone());
            }
            if let Some(value) = value.to_str()
                && (is_named || is_proxy)
                && is_secret(name, value)
            {
                secrets.push((name, value));
            }
        }
        if let Some(home) = &ambient.home {
            set("HOME", home.into());
        }
        for name in TEMPORARY {
            set(name, (&desk.tmp).into());
        }
        for (name, value) in &line.set_env {
            set(name, value.into());
        }
        set("PLANWRIGHT_ASSIGNMENT", (&desk.assignment).into());
        set("PLANWRIGHT_REPORT", (&desk.report).into());
        for (name, value) in told(assignment) {
            if value.len() <= LONGEST_VALUE {
                set(&format!("PLANWRIGHT_{name}"), value.into());
            }
        }
        Self {
            secrets: Secrets::of(secrets.into_iter()),
            variables,
        }
    }
}

/// The assignment as far as it is a list of values.
fn told(assignment: &Assignment) -> Vec<(String, String)> {
    let mut told = vec![
        ("PLAN".to_owned(), assignment.plan.to_string()),
        ("PHASE".to_owned(), assignment.phase.to_string()),
        ("ATTEMPT".to_owned(), assignment.attempt.to_string()),
        ("RUN_KEY".to_owned(), assignment.run_key.clone()),
        ("GOAL".to_owned(), assignment.goal.clone()),
    ];
    for (name, value) in &assignment.arguments {
        let name: String = name
            .chars()
            .map(|char| match char {
                char if char.is_ascii_alphanumeric() => char.to_ascii_uppercase(),
                _ => '_',
            })
            .collect();
        let value = match value.to_json() {
            serde_json::Value::String(text) => text,
            value => value.to_string(),
        };
        told.push((format!("ARG_{name}"), value));
    }
    told
}

/// Names of models, places and the like are passed on as keys are, but they are no secret, and hidden they
/// would leave holes in what an agent says. An address is one if somebody's name or key is in it.
fn is_secret(name: &str, value: &str) -> bool {
    const PLAIN: [&str; 5] = ["MODEL", "PROVIDER", "REGION", "LOCATION", "PROJECT"];
    const ADDRESS: [&str; 5] = ["URL", "BASE", "HOST", "ENDPOINT", "PROXY"];
    let name = name.to_ascii_uppercase();
    let ends_in = |endings: [&str; 5]| endings.iter().any(|ending| name.ends_with(ending));
    if ends_in(ADDRESS) {
        return value.contains(['@', '?']);
    }
    !ends_in(PLAIN)
}
