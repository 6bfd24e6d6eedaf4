//! `planwright agent test`: tries an agent and leaves nothing behind.

use serde_json::Value;

use crate::daily::ScriptedAgentEnv;

/// Does what the test asks for, in one conversation, as an agent with a stream does.
const OBEDIENT_AGENT: &str = "#!/bin/sh
cat > /dev/null
[ -e hello.txt ] && line=world || line=hello
echo $line >> hello.txt
echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"talk-1\"}'
echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\",\"session_id\":\"talk-1\",\"total_cost_usd\":0.02,\"usage\":{\"input_tokens\":900,\"output_tokens\":100}}'
";

fn check_agent(script: &str, extra: &str, exit_code: i32) -> Value {
    let env = ScriptedAgentEnv::with_script(script);
    env.define_actor("scribe", extra);
    let found = env.run_expecting(exit_code, &["agent", "test", "scribe"]);
    let home = env.repo.program.home();
    assert!(!home.join("agent-test").exists());
    let plans = env.repo.run_ok(&["list", "--all"])["plans"].clone();
    assert_eq!(plans.as_array().map(Vec::len), Some(0), "{plans}");
    found
}

#[test]
fn an_agent_that_works_passes_its_test() {
    let extra =
        "stdin: prompt\noutput: claude-json\nresume: {command: [sh, -c, 'exec \"$0\"', SELF]}\n";
    let env = ScriptedAgentEnv::with_script(OBEDIENT_AGENT);
    let extra = extra.replace("SELF", env.tool_path("scribe").to_str().unwrap());
    env.define_actor("scribe", &extra);
    let found = env.run_expecting(0, &["agent", "test", "scribe"]);
    for check in ["started", "edited", "revised", "resumed"] {
        assert_eq!(found[check], true, "{check}: {found}");
    }
    assert_eq!(found["tokens"], 2000, "{found}");
    assert_eq!(found["cost_micros"], 40_000, "{found}");
    let said = env.run_as_person(&["agent", "test", "scribe"]);
    assert!(
        said.stdout.contains("it continued its conversation"),
        "{said:?}"
    );
    assert!(said.stdout.contains("$0.04"), "{said:?}");
}

#[test]
fn an_agent_that_does_something_else_fails_its_test() {
    let found = check_agent("#!/bin/sh\necho x > other.txt\n", "", 1);
    assert_eq!(found["started"], true, "{found}");
    assert_eq!(found["edited"], false, "{found}");
    assert_eq!(found["revised"], false, "{found}");
}

#[test]
fn the_test_of_an_agent_says_why_it_did_not_start() {
    let found = check_agent("#!/bin/sh\necho 'please log in' >&2\nexit 3\n", "", 1);
    assert_eq!(found["started"], false, "{found}");
    let problem = found["problem"].as_str().unwrap();
    assert!(problem.contains("please log in"), "{problem}");
}
