// Drives a plan from the first prompt to its landing with the protocol's TypeScript library.
//
// Arguments: the program, and a repository whose agent adds a line to `notes.txt`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import * as acp from "@agentclientprotocol/sdk";

const [program, repository] = process.argv.slice(2);
const { agent, client } = acp.methods;

// The library checks updates and questions against the protocol's schema, and only prints what is wrong with them.
const complaints = [];
console.error = (...words) => complaints.push(words);

/** Starts the agent, runs a conversation with it, and waits for its end. */
async function converse(chosenOption, conversation) {
  const child = spawn(program, ["acp", "--land"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const seen = { updates: [], questions: [] };
  const app = acp
    .client({ name: "editor-check" })
    .onRequest(client.session.requestPermission, ({ params }) => {
      seen.questions.push(params);
      return { outcome: { outcome: "selected", optionId: chosenOption } };
    })
    .onNotification(client.session.update, ({ params }) => {
      seen.updates.push(params.update);
    });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (connection) => {
    const initialized = await connection.request(agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    assert.equal(initialized.protocolVersion, 1);
    assert.equal(initialized.agentInfo.name, "planwright");
    await conversation(connection, seen);
  });
  child.stdin.end();
  const [code] = await ended;
  assert.equal(code, 0);
}

const prompt = (connection, sessionId, text) =>
  connection.request(agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

const updateKinds = (seen) => new Set(seen.updates.map((update) => update.sessionUpdate));

let sessionId;
await converse("keep", async (connection, seen) => {
  const opened = await connection.request(agent.session.new, { cwd: repository, mcpServers: [] });
  sessionId = opened.sessionId;
  assert.deepEqual(opened.configOptions.map((option) => option.id), ["agent", "profile"]);
  const changed = await connection.request(agent.session.setConfigOption, {
    sessionId,
    configId: "profile",
    value: "supervised",
  });
  assert.equal(changed.configOptions[1].currentValue, "supervised");
  await connection.request(agent.session.setMode, { sessionId, modeId: "review" });
  const answer = await prompt(connection, sessionId, "Write a line");
  assert.equal(answer.stopReason, "end_turn");
  assert.equal(seen.questions.length, 1);
  assert.equal(seen.questions[0].toolCall.content[0].type, "diff");
  for (const kind of ["agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"]) {
    assert(updateKinds(seen).has(kind), kind);
  }
});
const file = `${repository}/notes.txt`;
assert.equal(readFileSync(file, "utf8"), "");

await converse("land", async (connection, seen) => {
  await connection.request(agent.session.load, { sessionId, cwd: repository, mcpServers: [] });
  assert(updateKinds(seen).has("user_message_chunk"));
  const answer = await prompt(connection, sessionId, "Once more");
  assert.equal(answer._meta.planwright.standing, "landed");
  assert.equal(answer._meta.planwright.results, 2);
});
assert.equal(readFileSync(file, "utf8"), "Write a line\nWrite a line\n");
assert.deepEqual(complaints, []);
