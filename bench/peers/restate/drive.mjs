// A life is a workflow of three durable steps, called through the ingress and waited for. The server
// has a disk of its own and its defaults, which wait for the disk; only its ports are others, and it
// tells nobody that it was started.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import http2 from "node:http2";
import { createRequire } from "node:module";
import net from "node:net";
import { join } from "node:path";
import * as restate from "@restatedev/restate-sdk";
import { Starts, drive, flags } from "../shared/life.mjs";

// The SDK expects this of its runtime, which has it from Node 22 on.
Promise.withResolvers ??= function withResolvers() {
  let resolve;
  let reject;
  const promise = new this((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
};

const options = flags();
const starts = new Starts();

const plan = restate.workflow({
  name: "plan",
  handlers: {
    run: async (ctx) => {
      await ctx.run("strategize", () => {
        starts.begin(ctx.key);
        return "strategized";
      });
      await ctx.run("execute", () => "executed");
      return ctx.run("apply", () => "applied");
    },
  },
});

const [node, ingress, admin, service] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
const endpoint = http2.createServer(
  restate.createEndpointHandler({ services: [plan], logger: () => {} }),
);
await new Promise((done) => endpoint.listen(service, "127.0.0.1", done));
const server = await startServer();

let failed = false;
try {
  await drive(options, live, starts);
} catch (error) {
  console.error(error);
  failed = true;
} finally {
  await stopServer();
}
process.exit(failed ? 1 : 0);

/** Calls the workflow and waits for its result. It keeps both for a day, so no life is named twice. */
async function live(life) {
  const answer = await fetch(`http://127.0.0.1:${ingress}/plan/${life}/run`, { method: "POST" });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  await answer.text();
}

async function startServer() {
  const program = createRequire(import.meta.url).resolve(
    `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
  );
  const child = spawn(program, ["--no-logo", "--base-dir", join(options.directory, "data")], {
    cwd: options.directory,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      RESTATE_LISTEN_MODE: "tcp",
      RESTATE_BIND_IP: "127.0.0.1",
      RESTATE_BIND_PORT: String(node),
      RESTATE_INGRESS__BIND_PORT: String(ingress),
      RESTATE_ADMIN__BIND_PORT: String(admin),
      RESTATE_DISABLE_TELEMETRY: "true",
      DO_NOT_TRACK: "1",
    },
  });
  process.on("exit", () => child.kill("SIGKILL"));
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
  const log = createWriteStream(join(options.directory, "server.log"));
  child.stdout.pipe(log);
  child.stderr.pipe(log);
  const deadline = Date.now() + 60_000;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
    if (Date.now() > deadline) throw new Error("the server was not ready after a minute");
    if (await register().catch(() => false)) return child;
    await new Promise((done) => setTimeout(done, 100));
  }
}

async function register() {
  const answer = await fetch(`http://127.0.0.1:${admin}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${service}` }),
  });
  return answer.ok;
}

function stopServer() {
  const ended = new Promise((done) => server.on("close", done));
  server.kill("SIGTERM");
  setTimeout(() => server.kill("SIGKILL"), 10_000).unref();
  return ended;
}

function freePort() {
  return new Promise((done) => {
    const probe = net.createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });
}
