//! Agents in the environments that people have: cloud providers, moved directories, and programs
//! installed below the home.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use plan::Phase;
use plan::actor::ActorIsolation;
use planwright_actors::{ReportOutcome, find_preset};

use crate::actor_test_env::{ActorTestEnv, agent_definition, expect_failure};
use crate::sample_assignments::sample_assignment;
use crate::script::write_program;

/// Ends as Claude Code does if it finds no login.
const NOT_LOGGED_IN_SCRIPT: &str = r#"
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo '{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login","session_id":"s-1"}'
exit 1
"#;

#[test]
fn login_of_a_cloud_provider_reaches_an_agent_that_uses_it() {
    let mut test_env = ActorTestEnv::new();
    fs::create_dir_all(test_env.home.join(".aws")).unwrap();
    fs::write(test_env.home.join(".aws/credentials"), "[work]").unwrap();
    let login = r#"if [ "$AWS_PROFILE" = work ] && cat ~/.aws/credentials > /dev/null 2>&1; then exit 0; fi"#;
    test_env.install_program("claude", &format!("{login}\n{NOT_LOGGED_IN_SCRIPT}"));
    let claude = find_preset("claude").unwrap();
    test_env
        .environment
        .insert("AWS_PROFILE".into(), "work".into());
    // Without its switch, the login is not the agent's business.
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    let message = expect_failure(&report).1;
    assert!(message.contains("Not logged in"), "{message}");
    test_env
        .environment
        .insert("CLAUDE_CODE_USE_BEDROCK".into(), "1".into());
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
}

#[test]
fn failure_names_the_variables_that_were_not_passed_on() {
    let mut test_env = ActorTestEnv::new();
    test_env.install_program("claude", NOT_LOGGED_IN_SCRIPT);
    for name in ["ANTHROPIC_LOG", "CLAUDE_CODE_SSE_PORT", "OPENAI_API_KEY"] {
        test_env.environment.insert(name.into(), "value".into());
    }
    let claude = find_preset("claude").unwrap();
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    assert_eq!(
        expect_failure(&report).1,
        "claude failed: Not logged in · Please run /login\n\
         Set in your environment, but not passed on to claude: ANTHROPIC_LOG. To pass one on, add \
         it to `env`: planwright agent show claude > agent.yaml, then planwright agent add \
         agent.yaml"
    );
}

#[test]
fn refusal_to_run_as_root_names_the_variable_that_allows_it() {
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "claude",
        "echo '--dangerously-skip-permissions cannot be used with root/sudo privileges for \
         security reasons' >&2; exit 1",
    );
    let claude = find_preset("claude").unwrap();
    let report = test_env.run_actor(&claude, sample_assignment(Phase::Execute));
    let message = expect_failure(&report).1;
    assert!(
        message.ends_with(
            "\nClaude Code runs as root only if IS_SANDBOX=1 is set in your environment."
        ),
        "{message}"
    );
}

/// Qwen Code opens a pseudo-terminal for each command unless its prompt is an argument.
#[test]
fn qwen_is_started_so_that_it_needs_no_terminal() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    let test_env = ActorTestEnv::new();
    test_env.install_program(
        "qwen",
        r#"
        case "$*" in
        *" --approval-mode yolo "?*) ;;
        *) exec 3<> /dev/ptmx || { echo 'forkpty(3) failed.' >&2; exit 1; } ;;
        esac
        echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'
        "#,
    );
    let qwen = find_preset("qwen").unwrap();
    let report = test_env.run_actor(&qwen, sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
}

#[test]
fn directories_follow_the_variables_that_move_them() {
    let mut test_env = ActorTestEnv::new();
    let moved = test_env.home.parent().unwrap().join("moved");
    for (variable, directory) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
        ("CODEX_HOME", "codex"),
    ] {
        let path = moved.join(directory).to_string_lossy().into_owned();
        test_env.environment.insert(variable.into(), path);
    }
    test_env.install_program(
        "goose",
        "for directory in \"$XDG_CONFIG_HOME\" \"$XDG_DATA_HOME\" \"$XDG_STATE_HOME\"; do\n\
         echo 1 > \"$directory/goose/new\" || exit 1; done",
    );
    test_env.install_program("codex", "echo 1 > \"$CODEX_HOME/new\"");
    for (name, file) in [("goose", "config/goose/new"), ("codex", "codex/new")] {
        let preset = find_preset(name).unwrap();
        let report = test_env.run_actor(&preset, sample_assignment(Phase::Execute));
        assert_eq!(report.outcome, ReportOutcome::Done, "{name}");
        assert!(moved.join(file).exists(), "{name}");
    }
}

/// A file that a variable of the agent names is readable, such as a configuration elsewhere.
#[test]
fn file_named_by_a_variable_is_readable() {
    let mut test_env = ActorTestEnv::new();
    let config = test_env.home.join("work/opencode.json");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "{}").unwrap();
    test_env.environment.insert(
        "OPENCODE_CONFIG".into(),
        config.to_string_lossy().into_owned(),
    );
    test_env.install_program("opencode", "cat \"$OPENCODE_CONFIG\"");
    let opencode = find_preset("opencode").unwrap();
    let report = test_env.run_actor(&opencode, sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
}

/// `~/agent-env` is a virtual environment of a Python in `~/python`.
#[test]
fn confined_program_starts_from_an_environment_below_the_home() {
    if !sandbox::detect_isolation().confines_files() {
        return;
    }
    let mut test_env = ActorTestEnv::new();
    let (python, environment) = (
        test_env.home.join("python"),
        test_env.home.join("agent-env"),
    );
    for directory in ["python/bin", "python/lib", "agent-env/bin", "agent-env/lib"] {
        fs::create_dir_all(test_env.home.join(directory)).unwrap();
    }
    // A shell plays Python; what it loads is a module of the one and of the other.
    fs::copy("/bin/sh", python.join("bin/python3")).unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(python.join("bin/python3"), executable).unwrap();
    fs::write(python.join("lib/os"), "loaded=os\n").unwrap();
    fs::write(environment.join("lib/agent"), "loaded=\"$loaded agent\"\n").unwrap();
    fs::write(test_env.home.join("private"), "secret").unwrap();
    let config = format!("home = {}\n", python.join("bin").display());
    fs::write(environment.join("pyvenv.cfg"), config).unwrap();
    symlink(python.join("bin/python3"), environment.join("bin/python")).unwrap();
    let script = format!(
        "#!{}\n. {}\n. {}\necho \"$loaded\"\ncat ~/private && exit 1\nexit 0\n",
        environment.join("bin/python").display(),
        python.join("lib/os").display(),
        environment.join("lib/agent").display(),
    );
    write_program(&environment.join("bin/agent"), &script);
    let path = format!("{}:/usr/bin:/bin", environment.join("bin").display());
    test_env.environment.insert("PATH".into(), path);
    let definition = agent_definition(|line| line.isolation = ActorIsolation::Required);
    let report = test_env.run_actor(&definition, sample_assignment(Phase::Execute));
    assert_eq!(report.outcome, ReportOutcome::Done);
    assert_eq!(report.summary.as_deref(), Some("os agent"));
}
