//! `planwright mcp` over pipes: agents start, watch and revise plans, and decide nothing.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::daily::{SCRIBE_SCRIPT, ScriptedAgentEnv, describe_state, wait_for};
use crate::mcp_clients::{GATED_SCRIPT, McpTestClient, open_gate, stateless, task_capabilities};
use crate::server::RunningTestServer;

fn new_env() -> ScriptedAgentEnv {
    ScriptedAgentEnv::with_script(SCRIBE_SCRIPT)
}

#[test]
fn both_generations_of_the_protocol_are_spoken() {
    let env = new_env();
    let mut client = McpTestClient::start_with(&env, &[]);
    // A client that speaks both asks this first.
    let found = client.ok("server/discover", stateless(json!({}), json!({})));
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["resultType"], "complete");
    assert!(found["ttlMs"].is_u64() && found["cacheScope"] == "public");
    let tasks = &found["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"];
    assert!(tasks.is_object(), "{found}");
    let listed = client.ok("tools/list", stateless(json!({}), json!({})));
    assert_eq!(listed["resultType"], "complete");
    // Without the metadata, a handshake must come first.
    assert_eq!(client.error("tools/list", json!({})), -32602);
    assert_eq!(client.error("server/discover", json!({})), -32602);
    client.ok("ping", json!({}));
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("3000-01-01", "2025-11-25"),
    ] {
        let hello = client.ok("initialize", json!({ "protocolVersion": asked }));
        assert_eq!(hello["protocolVersion"], answered);
        assert_eq!(hello["capabilities"]["resources"]["subscribe"], true);
    }
    client.notify("notifications/initialized", json!({}));
    let before = client.ok("tools/list", json!({}));
    assert_eq!(before["tools"], listed["tools"]);
    assert!(before["resultType"].is_null() && before["ttlMs"].is_null());
    // Methods of one generation are unknown to the other.
    for method in ["ping", "initialize"] {
        let params = stateless(json!({}), json!({ "protocolVersion": "2025-11-25" }));
        assert_eq!(client.error(method, params), -32601, "{method}");
    }
    let uri = json!({ "uri": "planwright://plans/x" });
    let subscribe = stateless(json!({}), uri);
    assert_eq!(client.error("resources/subscribe", subscribe), -32601);
    assert_eq!(client.error("tasks/get", json!({ "taskId": "x" })), -32601);
    let mut old = stateless(json!({}), json!({}));
    old["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1900-01-01");
    let refused = client.ask("tools/list", old);
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert!(client.close().is_empty());
}

#[test]
fn tools_are_few_and_say_what_they_do() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    insta::assert_json_snapshot!(client.ok("tools/list", json!({})));
}

#[test]
fn plan_is_started_revised_and_landed_by_a_person() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    let plan = client.start_plan("Write a line");
    let status = client.wait_for_plan(&plan);
    assert_eq!(status["plan"]["standing"], "needs review");
    assert_eq!(status["waiting_for"], "person");
    assert_eq!(status["results"][0]["number"], 1);
    let tools = status["your_next_steps"].as_array().unwrap().iter();
    let tools: Vec<&str> = tools.map(|step| step["tool"].as_str().unwrap()).collect();
    assert_eq!(
        tools,
        [
            "plan_diff",
            "plan_revise",
            "plan_cancel",
            "plan_request_landing"
        ]
    );
    let diff = client.tool("plan_diff", json!({ "plan": plan }));
    assert!(diff["text"].as_str().unwrap().contains("+Write a line"));
    assert_eq!(diff["files"][0]["path"], "src/a.txt");
    let revised = client.tool("plan_revise", json!({ "plan": plan, "feedback": "Again" }));
    assert_eq!(revised["waiting_for"], "engine");
    let status = client.wait_for_plan(&plan);
    assert_eq!(status["results"].as_array().unwrap().len(), 2);
    let since = json!({ "plan": plan, "results": "r1..r2", "format": "stat" });
    let since = client.tool("plan_diff", since);
    assert!(
        since["text"].as_str().unwrap().contains("1 insertion"),
        "{since}"
    );
    let other = client.start_plan("Write another");
    client.wait_for_plan(&other);
    let ended = client.tool(
        "plan_cancel",
        json!({ "plan": other, "reason": "Not needed" }),
    );
    assert_eq!(ended["plan"]["standing"], "cancelled");
    let listed = client.tool("plan_list", json!({}));
    assert_eq!(listed["plans"].as_array().unwrap().len(), 2);
    let page = client.tool("plan_list", json!({ "limit": 1 }));
    let rest = client.tool("plan_list", json!({ "after": page["next"] }));
    assert_eq!(rest["plans"][0]["plan_id"], plan.as_str());
    let why = client.tool("plan_why", json!({ "plan": plan }));
    assert!(
        why["reasons"][0]
            .as_str()
            .unwrap()
            .contains("Waiting for you")
    );
    let landing = client.tool("plan_request_landing", json!({ "plan": plan }));
    let handle = status["plan"]["handle"].as_str().unwrap();
    let command = landing["command"].as_str().unwrap();
    assert!(command.ends_with(&format!("open {handle}")), "{command}");
    assert_eq!(landing["page"], Value::Null);
    let server = RunningTestServer::start(&env, &[]);
    let landing = client.tool("plan_request_landing", json!({ "plan": plan }));
    let expected = format!("http://{}/{handle}", server.address);
    assert_eq!(landing["page"], expected.as_str());
    assert!(!env.repo.read_file("src/a.txt").contains("Write a line"));
    env.run_expecting(0, &["apply", &plan, "--yes"]);
    let status = client.tool("plan_status", json!({ "plan": plan }));
    assert_eq!(status["waiting_for"], "nobody");
    assert_eq!(status["plan"]["standing"], "landed");
}

#[test]
fn agents_decide_nothing_and_change_only_their_own_plans() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    for tool in [
        "plan_apply",
        "plan_approve",
        "plan_answer",
        "plan_undo",
        "plan_waive",
    ] {
        let call = json!({ "name": tool, "arguments": { "plan": "x" } });
        assert_eq!(client.error("tools/call", call), -32602, "{tool}");
    }
    let auto = json!({ "goal": "Land it", "agent": "scribe", "profile": "auto" });
    let (kind, text) = client.tool_error("plan_start", auto);
    assert_eq!(kind, "not_authorized");
    assert!(
        text.contains("profile auto") && text.contains("review"),
        "{text}"
    );
    assert_eq!(env.run_expecting(0, &["list"])["plans"], json!([]));
    // A default that lands by itself does not hold for agents.
    env.run_expecting(0, &["config", "set", "profile", "auto"]);
    let own = client.start_plan("Write a line");
    assert_eq!(client.wait_for_plan(&own)["profile"], "review");
    env.run_expecting(0, &["config", "unset", "profile"]);
    let (persons, before) = env.start_plan(6);
    let revise = json!({ "plan": persons, "feedback": "No" });
    for (tool, arguments) in [
        ("plan_revise", revise),
        ("plan_cancel", json!({ "plan": persons })),
    ] {
        let (kind, text) = client.tool_error(tool, arguments);
        assert_eq!(kind, "not_authorized", "{tool}");
        assert!(text.contains("did not start this plan"), "{text}");
    }
    let status = client.tool("plan_status", json!({ "plan": persons }));
    assert_eq!(status["started_by_you"], false);
    assert_eq!(status["plan"]["version"], before["version"]);
    // Another name is another agent; so is the agent inside a run.
    let named = env.repo.program.run(["mcp", "--name", "codex"]);
    let in_run = env.repo.program.run(["mcp"]);
    let in_run = in_run.with_variable("PLANWRIGHT_RUN_KEY", "k");
    for other in [named, in_run] {
        let other = other.with_directory(env.repo.shop_path());
        let mut other = McpTestClient::start_run(&other);
        other.ok("initialize", json!({ "protocolVersion": "2025-11-25" }));
        let (kind, _) = other.tool_error("plan_cancel", json!({ "plan": own }));
        assert_eq!(kind, "not_authorized");
    }
    let log = env.run_as_person(&["log", &own]).stdout;
    assert!(log.contains("agent mcp for "), "{log}");
}

#[test]
fn only_the_plans_of_the_client_are_run() {
    let env = new_env();
    let waiting = env.run_expecting(0, &["run", "--detach", "--agent", "scribe", "Wait for me"]);
    let waiting = waiting["plan_id"].as_str().unwrap();
    let mut client = McpTestClient::start(&env);
    for goal in ["Write a line", "Write more"] {
        let plan = client.start_plan(goal);
        client.wait_for_plan(&plan);
    }
    let status = client.tool("plan_status", json!({ "plan": waiting }));
    assert_eq!(status["plan"]["standing"], "waiting");
}

#[test]
fn repository_of_a_plan_is_named_or_the_current_one() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    let mut start = |more: Value| {
        let mut arguments = json!({ "goal": "Write a line", "agent": "scribe" });
        for (name, value) in more.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        client.tool_error("plan_start", arguments)
    };
    let (_, text) = start(json!({ "repository": "shop" }));
    assert!(text.contains("must be an absolute path"), "{text}");
    let outside = env.repo.program.home().to_str().unwrap();
    let (_, text) = start(json!({ "repository": outside }));
    assert!(text.contains("no_repository"), "{text}");
    let unknown = env.repo.create_repository("other");
    let (kind, text) = start(json!({ "repository": unknown }));
    assert_eq!(kind, "repository_not_registered");
    assert!(text.contains("project create"), "{text}");
    // Git does not run in a repository that an agent made below a registered one.
    let nested = env.repo.shop_path().join("src/nested");
    std::fs::create_dir_all(nested.join(".git")).unwrap();
    let (kind, _) = start(json!({ "repository": nested }));
    assert_eq!(kind, "repository_not_registered");
    env.repo.run_git(&["checkout", "-q", "-b", "other"]);
    let (kind, text) = start(json!({}));
    assert_eq!(kind, "repository_not_registered");
    assert!(text.contains("on branch other"), "{text}");
    env.repo.run_git(&["checkout", "-q", "main"]);
    let (_, text) = start(json!({ "project": "shop", "no_repository": true }));
    assert!(text.contains("only one of"), "{text}");
    let shop = env.repo.shop_path();
    for place in [
        json!({ "repository": shop }),
        json!({ "project": "shop" }),
        json!({}),
    ] {
        let mut arguments = json!({ "goal": "Write", "agent": "scribe", "idempotency_key": "k" });
        for (name, value) in place.as_object().unwrap() {
            arguments[name] = value.clone();
        }
        let started = client.tool("plan_start", arguments);
        assert_eq!(started["resources"][0]["project"], "shop", "{place}");
    }
    // The same key, so all three are one plan.
    assert_eq!(
        client.tool("plan_list", json!({}))["plans"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let alone = json!({ "goal": "Think", "agent": "scribe", "no_repository": true });
    assert_eq!(client.tool("plan_start", alone)["resources"], json!([]));
}

#[test]
fn long_work_is_a_task_that_every_process_knows() {
    let env = ScriptedAgentEnv::with_script(GATED_SCRIPT);
    let server = RunningTestServer::start(&env, &[]);
    let mut client = McpTestClient::start_with(&env, &[]);
    let mut elsewhere = McpTestClient::start_with(&env, &[]);
    let start =
        json!({ "name": "plan_start", "arguments": { "goal": "Write", "agent": "scribe" } });
    let with_tasks = |params: Value| stateless(task_capabilities(), params);
    // Without the capability, the answer is that of the tool.
    let plain = client.ok("tools/call", stateless(json!({}), start.clone()));
    assert_eq!(plain["resultType"], "complete");
    let plain = plain["structuredContent"]["plan"]["plan_id"].clone();
    let task = client.ok("tools/call", with_tasks(start));
    assert_eq!(task["resultType"], "task");
    let id = task["taskId"].clone();
    let name = json!({ "taskId": id });
    let mut get =
        |capabilities: Value| elsewhere.ask("tasks/get", stateless(capabilities, name.clone()));
    assert_eq!(get(json!({}))["error"]["code"], -32021);
    assert_eq!(get(task_capabilities())["result"]["status"], "working");
    open_gate(&env);
    let handle = id.as_str().unwrap();
    client.ok("initialize", json!({ "protocolVersion": "2025-11-25" }));
    client.wait_for_plan(handle);
    let waiting = get(task_capabilities());
    let waiting = &waiting["result"];
    assert_eq!(waiting["status"], "input_required");
    let requests = waiting["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    let link = request["params"]["url"].as_str().unwrap();
    assert!(
        link.starts_with(&format!("http://{}/", server.address)),
        "{link}"
    );
    // Whatever a client answers, a person decides.
    let accepted = json!({ "taskId": id, "inputResponses": { key: { "action": "accept" } } });
    client.ok("tasks/update", with_tasks(accepted));
    assert_eq!(
        get(task_capabilities())["result"]["status"],
        "input_required"
    );
    env.run_expecting(0, &["apply", handle, "--yes"]);
    let done = get(task_capabilities());
    assert_eq!(done["result"]["status"], "completed");
    let result = &done["result"]["result"]["structuredContent"];
    assert_eq!(result["plan"]["standing"], "landed");
    client.ok("tasks/cancel", with_tasks(json!({ "taskId": plain })));
    let cancelled = client.ok("tasks/get", with_tasks(json!({ "taskId": plain })));
    assert_eq!(cancelled["status"], "cancelled");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let unknown = with_tasks(json!({ "taskId": "nobody" }));
        assert_eq!(client.error(method, unknown), -32602, "{method}");
    }
}

/// A failed plan can be repaired by a person, so its task has not failed.
#[test]
fn failed_plan_is_not_a_failed_task() {
    let env = ScriptedAgentEnv::with_script("#!/bin/sh\necho broken >&2\nexit 3\n");
    let mut client = McpTestClient::start(&env);
    let plan = client.start_plan("Write a line");
    let status = client.wait_for_plan(&plan);
    assert_eq!(status["plan"]["standing"], "failed");
    assert!(status["error"]["message"].is_string(), "{status}");
    let params = stateless(task_capabilities(), json!({ "taskId": plan }));
    assert_eq!(client.ok("tasks/get", params)["status"], "input_required");
}

#[test]
fn resources_are_read_and_changes_are_notified() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    let plan = client.start_plan("Write a line");
    client.wait_for_plan(&plan);
    let listed = client.ok("resources/list", json!({}));
    let uri = listed["resources"][0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(uri, format!("planwright://plans/{plan}"));
    let templates = client.ok("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 3);
    let mut read = |uri: &str| {
        let read = client.ok("resources/read", json!({ "uri": uri }));
        read["contents"][0]["text"].as_str().unwrap().to_owned()
    };
    let view: Value = serde_json::from_str(&read(&uri)).unwrap();
    assert_eq!(describe_state(&view), "execute/complete");
    assert!(read(&format!("{uri}/diff")).contains("+Write a line"));
    assert!(read(&format!("{uri}/log")).contains("created the plan"));
    let unknown = json!({ "uri": "planwright://plans/ZZZZ" });
    assert_eq!(client.error("resources/read", unknown.clone()), -32002);
    let unknown = stateless(json!({}), unknown);
    assert_eq!(client.error("resources/read", unknown), -32602);
    let other = json!({ "uri": "file:///etc/passwd" });
    assert_eq!(client.error("resources/read", other), -32002);

    // One subscription of each generation. The acknowledgement comes first.
    client.ok(
        "resources/subscribe",
        json!({ "uri": format!("{uri}/log") }),
    );
    let filter = json!({
        "resourceSubscriptions": [uri, "planwright://plans/ZZZZ"],
        "taskIds": [plan],
        "toolsListChanged": true,
    });
    let listen = stateless(task_capabilities(), json!({ "notifications": filter }));
    let id = client.request("subscriptions/listen", listen.clone());
    let first = client.next_notice();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let accepted = json!({ "resourceSubscriptions": [uri], "taskIds": [plan] });
    assert_eq!(first["params"]["notifications"], accepted);
    let cancelled_id = client.request("subscriptions/listen", listen);
    client.next_notice();
    client.notify(
        "notifications/cancelled",
        json!({ "requestId": cancelled_id }),
    );
    client.ok("ping", json!({}));
    env.run_expecting(0, &["cancel", &plan]);
    let told: Vec<Value> = (0..3).map(|_| client.next_notice()).collect();
    assert_eq!(told[0]["params"], json!({ "uri": format!("{uri}/log") }));
    assert_eq!(told[1]["method"], "notifications/resources/updated");
    assert_eq!(told[1]["params"]["uri"], uri.as_str());
    assert_eq!(told[2]["method"], "notifications/tasks");
    assert_eq!(told[2]["params"]["status"], "cancelled");
    for notice in &told[1..] {
        let meta = &notice["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], id);
    }
    // The end closes the one that is still open, and says nothing of the other.
    let rest = client.close();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["id"], id);
    assert_eq!(rest[0]["result"]["resultType"], "complete");
}

#[test]
fn prompts_are_the_actions() {
    let env = new_env();
    let action = "name: polish\ndescription: Polish an area\nactor: scribe\narguments:\n  - {name: area, type: string, required: true}\n";
    let file = env.repo.write_file_beside("polish.yaml", action);
    env.run_expecting(0, &["action", "create", "--config", &file]);
    let mut client = McpTestClient::start(&env);
    let listed = client.ok("prompts/list", json!({}));
    let names: Vec<&str> = listed["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["polish", "tidy"]);
    assert_eq!(listed["prompts"][0]["arguments"][0]["name"], "area");
    assert_eq!(listed["prompts"][0]["arguments"][0]["required"], true);
    let get = json!({ "name": "polish", "arguments": { "area": "src" } });
    let prompt = client.ok("prompts/get", get);
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(
        text.contains("plan_start") && text.contains("\"area\":\"src\""),
        "{text}"
    );
    assert_eq!(
        client.error("prompts/get", json!({ "name": "polish" })),
        -32602
    );
    assert_eq!(
        client.error("prompts/get", json!({ "name": "nothing" })),
        -32602
    );
    let arguments = json!({ "action": "polish", "arguments": { "area": "src" } });
    let plan = client.tool("plan_start", arguments);
    let plan = plan["plan"]["plan_id"].as_str().unwrap();
    assert_eq!(client.wait_for_plan(plan)["plan"]["action"], "polish");
}

/// A repository's file may be an agent's, so a person accepts its actions.
#[test]
fn actions_of_a_repository_are_accepted_by_a_person() {
    let env = new_env();
    let actions = "actions:\n  - name: polish\n    description: Polish it\n    actor: scribe\n";
    env.repo.write_file("planwright.yaml", actions);
    env.repo.commit_all("with an action");
    let mut client = McpTestClient::start(&env);
    let start = json!({ "action": "polish" });
    let (kind, text) = client.tool_error("plan_start", start.clone());
    assert_eq!(kind, "not_authorized");
    assert!(text.contains("only a person can accept it"), "{text}");
    env.run_expecting(0, &["use", "polish"]);
    let started = client.tool("plan_start", start);
    let action = started["plan"]["action"].as_str().unwrap();
    assert!(action.contains("polish"), "{action}");
}

#[test]
fn malformed_messages_are_answered_and_change_nothing() {
    let env = new_env();
    let mut client = McpTestClient::start(&env);
    let mut refuse = |line: &str, code: i64| {
        client.lines.send_line(line);
        let answer = client.read();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        answer
    };
    let answer = refuse("{ not json", -32700);
    assert!(answer.get("id").is_none(), "{answer}");
    refuse("[]", -32600);
    refuse("3", -32600);
    refuse("\u{0}\u{1b}[2J", -32700);
    refuse(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600);
    refuse(&"x".repeat(5 << 20), -32600);
    let long = "y".repeat(1 << 20);
    refuse(
        &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{long}"}}"#),
        -32601,
    );
    refuse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602);
    refuse(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan_list","arguments":[]}}"#,
        -32602,
    );
    // Answers, empty lines and unknown notifications are ignored.
    client
        .lines
        .send_line(r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    client.lines.send_line("");
    client.notify("notifications/whatever", json!({}));
    client.notify("notifications/cancelled", json!({ "requestId": [1] }));
    assert_eq!(client.error("nothing/there", json!({})), -32601);
    for (tool, arguments) in [
        ("plan_status", json!({ "plan": 3 })),
        ("plan_status", json!({})),
        ("plan_status", json!({ "plan": "x", "more": 1 })),
        ("plan_list", json!({ "limit": -1 })),
        ("plan_start", json!({ "goal": ["x"] })),
        ("plan_diff", json!({ "plan": "x", "format": "html" })),
    ] {
        let (kind, text) = client.tool_error(tool, arguments);
        assert_eq!(kind, "bad_arguments", "{text}");
    }
    let (_, text) = client.tool_error("plan_status", json!({ "plan": "@" }));
    assert!(text.contains("is not the id or handle"), "{text}");
    assert_eq!(
        client.tool("plan_list", json!({ "all": true }))["plans"],
        json!([])
    );
}

#[test]
fn long_diffs_come_in_pages() {
    let env = ScriptedAgentEnv::with_script(
        "#!/bin/sh\ni=0\nwhile [ $i -lt 4000 ]; do echo \"line $i of a long file\"; i=$((i+1)); done > src/long.txt\n",
    );
    let mut client = McpTestClient::start(&env);
    let plan = client.start_plan("Write much");
    client.wait_for_plan(&plan);
    let mut from = json!(1);
    let mut lines = 0;
    let mut pages = 0;
    while !from.is_null() {
        let page = client.tool("plan_diff", json!({ "plan": plan, "from_line": from }));
        let text = page["text"].as_str().unwrap();
        assert!(text.len() <= 40_000);
        lines += text
            .lines()
            .filter(|line| line.starts_with("+line "))
            .count();
        from = page["next_line"].clone();
        pages += 1;
    }
    assert_eq!(lines, 4000);
    assert!(pages > 2, "{pages}");
}

#[test]
fn cancelled_wait_is_not_answered() {
    let env = ScriptedAgentEnv::with_script(GATED_SCRIPT);
    let mut client = McpTestClient::start(&env);
    let plan = client.start_plan("Write a line");
    let wait = json!({ "name": "plan_status", "arguments": { "plan": plan, "wait_seconds": 50 } });
    let cancelled = client.request("tools/call", wait.clone());
    let open = client.request("tools/call", wait);
    client.notify("notifications/cancelled", json!({ "requestId": cancelled }));
    // The end of the input ends the other wait, which is answered.
    let rest = client.close();
    let ids: Vec<&Value> = rest.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(open)]);
    assert_eq!(
        rest[0]["result"]["structuredContent"]["waiting_for"],
        "engine"
    );
}

/// The process that works for the agent, once it has started.
fn wait_for_agent(env: &ScriptedAgentEnv) -> Pid {
    wait_for("the agent starts", || !env.read_starts().is_empty());
    let started = env.read_starts().remove(0);
    let id = started.rsplit(' ').next().unwrap().parse().unwrap();
    Pid::from_raw(id).unwrap()
}

#[test]
fn running_plan_is_given_back_at_the_end_and_continued_by_the_next_client() {
    let env = ScriptedAgentEnv::with_script(GATED_SCRIPT);
    let mut plan = String::new();
    for signal in [None, Some(Signal::TERM)] {
        let mut client = McpTestClient::start(&env);
        match signal {
            None => plan = client.start_plan("Write a line"),
            // The next client continues the plan of the one before.
            Some(_) => drop(client.tool("plan_status", json!({ "plan": plan }))),
        }
        let agent = wait_for_agent(&env);
        std::fs::remove_file(env.tool_path("starts")).unwrap();
        match signal {
            None => client.lines.close_input(),
            Some(signal) => {
                let id = i32::try_from(client.lines.process_id()).unwrap();
                kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
            }
        }
        assert!(client.collect_until_end().is_empty());
        assert!(test_kill_process(agent).is_err(), "the agent has ended");
        let status = env.run_expecting(0, &["status", &plan]);
        assert_eq!(describe_state(&status), "execute/queued", "{signal:?}");
        assert_eq!(status["lease"], Value::Null);
    }
    open_gate(&env);
    let mut client = McpTestClient::start(&env);
    let status = client.wait_for_plan(&plan);
    assert_eq!(status["plan"]["standing"], "needs review");
}
