//! Builds the environment of a program: common variables, those that its definition names, and
//! Planwright's own. No other variable of the worker is passed on.

use std::ffi::OsString;

use plan::actor::CommandLine;

use super::program_variables::{PassedVariable, classify_variable};
use super::run_dir::RunDir;
use crate::secrets::SecretValues;
use crate::{Assignment, HostEnv};

/// Variables for temporary files. A confined program cannot access `/tmp`. Claude Code reads only
/// its own variable, and without it could not run any command.
const TEMP_DIR_VARIABLES: &[&str] = &["TMPDIR", "TMP", "TEMP", "CLAUDE_CODE_TMPDIR"];

/// The longest value of a variable about the assignment. Longer values are only in the assignment
/// file.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The environment of a run, and the secrets in it.
pub(crate) struct RunEnvironment {
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) secrets: SecretValues,
}

impl RunEnvironment {
    pub(crate) fn build(
        command_line: &CommandLine,
        host_env: &HostEnv,
        assignment: &Assignment,
        run_dir: &RunDir,
    ) -> Self {
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value));
        };
        let mut secrets = Vec::new();
        set("PATH", host_env.path().to_owned());
        for (name, value) in &host_env.environment {
            let Some((name, passed)) = name.to_str().and_then(|name| {
                let passed = classify_variable(command_line, host_env, name)?;
                Some((name, passed))
            }) else {
                continue;
            };
            set(name, value.clone());
            let may_be_secret = match passed {
                PassedVariable::Common => false,
                PassedVariable::Proxy | PassedVariable::Named => true,
            };
            if let Some(value) = value.to_str().filter(|_| may_be_secret)
                && is_secret(name, value)
            {
                secrets.push((name, value));
            }
        }
        if let Some(home) = &host_env.home {
            set("HOME", home.into());
        }
        for name in TEMP_DIR_VARIABLES {
            set(name, (&run_dir.tmp_dir).into());
        }
        for (name, value) in &command_line.set_env {
            set(name, value.into());
        }
        set("PLANWRIGHT_ASSIGNMENT", (&run_dir.assignment_file).into());
        set("PLANWRIGHT_REPORT", (&run_dir.report_file).into());
        for (name, value) in assignment_variables(assignment) {
            if value.len() <= MAX_VALUE_BYTES {
                set(&format!("PLANWRIGHT_{name}"), value.into());
            }
        }
        Self {
            secrets: SecretValues::from_variables(secrets.into_iter()),
            variables,
        }
    }
}

/// The parts of the assignment that fit into variables.
fn assignment_variables(assignment: &Assignment) -> Vec<(String, String)> {
    let mut variables = vec![
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
        variables.push((format!("ARG_{name}"), value));
    }
    variables
}

/// Names of models, regions, files and the like are passed on like keys, but are not secret; hiding
/// them would leave gaps in the output. An address is secret if it contains a user name or a query.
fn is_secret(name: &str, value: &str) -> bool {
    const PUBLIC_SUFFIXES: &[&str] = &[
        "MODEL",
        "MODEL_ID",
        "PROVIDER",
        "PROVIDER_TYPE",
        "REGION",
        "LOCATION",
        "PROJECT",
        "PROJECT_ID",
        "PROFILE",
        "WIRE_API",
        "_DIR",
        "_HOME",
        "_FILE",
        "_PATH",
        "_CONFIG",
        "APPLICATION_CREDENTIALS",
    ];
    const ADDRESS_SUFFIXES: &[&str] = &["URL", "BASE", "HOST", "ENDPOINT", "PROXY"];
    let name = name.to_ascii_uppercase();
    let ends_in = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if ends_in(ADDRESS_SUFFIXES) {
        return value.contains(['@', '?']);
    }
    !ends_in(PUBLIC_SUFFIXES)
}
