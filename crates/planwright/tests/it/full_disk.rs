//! git finds no space left for a moment.

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv};

/// The first time that this command is called, it fails.
const GIT_WITHOUT_SPACE: &str = "#!/bin/sh
PATH=${PATH#*:}
case \" $* \" in *' COMMAND '*)
  if [ ! -e \"$0.failed\" ]; then
    : > \"$0.failed\"
    echo 'error: unable to write file: No space left on device' >&2
    exit 128
  fi;;
esac
exec git \"$@\"
";

fn run_without_space_for(command: &str) -> ScriptedAgentEnv {
    let env = ScriptedAgentEnv::with_script(SCRIBE_SCRIPT);
    env.write_tool("git", &GIT_WITHOUT_SPACE.replace("COMMAND", command));
    let tools = env.tool_path("git").parent().unwrap().to_owned();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", tools.display());
    let words = ["run", "--agent", "scribe", "--goal", "Write a line"];
    let run = env.repo.program.run(words).with_variable("PATH", path);
    let said = run.with_directory(env.repo.shop_path()).finish();
    assert_eq!(said.exit_code(), Some(6), "{command}: {said:?}");
    assert!(env.tool_path("git.failed").exists(), "{command}");
    env.run_expecting(0, &["apply", "@", "--yes"]);
    env
}

/// The agent is not paid for the same work again.
#[test]
fn finished_work_is_captured_when_there_is_space() {
    for command in ["add", "commit-tree"] {
        let env = run_without_space_for(command);
        assert_eq!(env.read_starts().len(), 1, "{command}");
    }
}

#[test]
fn a_sandbox_is_made_when_there_is_space() {
    let env = run_without_space_for("read-tree");
    assert_eq!(env.read_starts().len(), 1);
}
