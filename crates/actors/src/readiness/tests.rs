use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::find_preset;

/// A host with programs in a directory of PATH, and a home.
struct SampleHost {
    _directory: tempfile::TempDir,
    root: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl SampleHost {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let path = format!("{0}/bin:{0}/node/bin", root.display());
        let mut host = Self {
            _directory: directory,
            root,
            variables: Vec::new(),
        };
        host.set("PATH", &path);
        // Tests may run as root.
        host.set("IS_SANDBOX", "1");
        fs::create_dir_all(host.root.join("bin")).unwrap();
        host
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    fn unset(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Installs a Node.js package with one program.
    fn install_package(&self, program: &str, manifest: &str, script: &str) {
        let package = format!("lib/node_modules/{program}");
        self.write(&format!("{package}/package.json"), manifest);
        let script = self.write(&format!("{package}/cli.js"), script);
        symlink(script, self.root.join("bin").join(program)).unwrap();
    }

    fn check(&self, name: &str) -> AgentReadiness {
        let host_env = HostEnv {
            environment: self.variables.clone(),
            home: Some(self.root.join("home")),
            out_of_reach: Vec::new(),
            tool_relay: Vec::new(),
        };
        check_readiness(&find_preset(name).unwrap(), &host_env)
    }
}

fn is_login(need: &MissingNeed) -> bool {
    matches!(need, MissingNeed::Login { .. })
}

#[test]
fn an_installed_agent_is_described() {
    let mut host = SampleHost::new();
    host.install_package("claude", r#"{"version": "2.1.0"}"#, "\u{7f}ELF");
    host.set("ANTHROPIC_API_KEY", "key");
    let found = host.check("claude");
    assert_eq!(found.protocol, RunProtocol::Stream);
    assert_eq!(
        found.program.as_deref(),
        Some(host.root.join("bin/claude").as_path())
    );
    assert_eq!(found.version.as_deref(), Some("2.1.0"));
    assert!(found.is_outdated());
    assert_eq!(found.missing, []);
    assert_eq!(host.check("claude-acp").protocol, RunProtocol::Acp);
    assert_eq!(host.check("aider").protocol, RunProtocol::Text);
}

#[test]
fn nothing_is_missing_for_an_agent_that_is_not_installed() {
    let found = SampleHost::new().check("claude");
    assert_eq!((found.program, found.missing), (None, Vec::new()));
}

#[test]
fn a_login_is_a_variable_that_the_agent_gets_or_a_file() {
    let mut host = SampleHost::new();
    for program in ["claude", "claude-agent-acp", "codex", "opencode"] {
        host.write(&format!("bin/{program}"), "");
    }
    let misses = |host: &SampleHost, name: &str| host.check(name).missing.iter().any(is_login);
    assert!(misses(&host, "claude") && misses(&host, "claude-acp") && misses(&host, "codex"));
    // It works without one.
    assert!(!misses(&host, "opencode"));

    host.set("CLAUDE_CODE_USE_BEDROCK", "1");
    assert!(!misses(&host, "claude") && !misses(&host, "claude-acp"));
    host.unset("CLAUDE_CODE_USE_BEDROCK");
    host.set("ANTHROPIC_API_KEY", "");
    assert!(misses(&host, "claude"));
    host.write("home/.claude.json", r#"{"projects": {}}"#);
    assert!(misses(&host, "claude"));
    host.write("home/.claude.json", r#"{"oauthAccount": {}}"#);
    assert!(!misses(&host, "claude"));

    // The directory can be elsewhere.
    host.write("moved/auth.json", "{}");
    assert!(misses(&host, "codex"));
    host.set("CODEX_HOME", host.root.join("moved").to_str().unwrap());
    assert!(!misses(&host, "codex"));
}

#[test]
fn a_node_that_is_too_old_is_missing() {
    let host = SampleHost::new();
    let script = "#!/usr/bin/env node\n";
    host.install_package(
        "qwen",
        r#"{"version": "0.24.4", "engines": {"node": ">=22.1.0"}}"#,
        script,
    );
    let node_need = |host: &SampleHost| {
        let missing = host.check("qwen").missing.into_iter();
        missing.filter(|need| !is_login(need)).collect::<Vec<_>>()
    };
    let need = |found: Option<&str>| {
        vec![MissingNeed::Node {
            lowest: "22.1.0".to_owned(),
            found: found.map(str::to_owned),
        }]
    };
    assert_eq!(node_need(&host), need(None));
    let install_node = |version: &str| {
        let _ = fs::remove_dir_all(host.root.join("node"));
        let node = host.write(&format!("versions/v{version}/bin/node"), "");
        fs::create_dir_all(host.root.join("node/bin")).unwrap();
        symlink(node, host.root.join("node/bin/node")).unwrap();
    };
    install_node("20.19.0");
    assert_eq!(node_need(&host), need(Some("20.19.0")));
    install_node("22.1.0");
    assert_eq!(node_need(&host), []);
    // Its version is not known.
    fs::remove_file(host.root.join("node/bin/node")).unwrap();
    host.write("node/bin/node", "");
    assert_eq!(node_need(&host), []);
}

#[test]
fn claude_code_needs_a_variable_as_root() {
    let mut host = SampleHost::new();
    host.write("bin/claude", "");
    let needs_variable = |host: &SampleHost| {
        let missing = host.check("claude").missing;
        missing
            .iter()
            .any(|need| matches!(need, MissingNeed::Variable { .. }))
    };
    assert!(!needs_variable(&host));
    host.unset("IS_SANDBOX");
    assert_eq!(needs_variable(&host), rustix::process::geteuid().is_root());
}
