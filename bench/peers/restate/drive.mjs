// A Restate workflow of three durable steps. The driver calls it through the ingress and waits for its result. The server
// has its own directory and runs with its defaults, which sync to disk, except for its ports and for telemetry, which is
// off.

import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import http2 from "node:http2";
import { createRequire } from "node:module";
import net from "node:net";
import { join } from "node:path";
import * as restate from "@restatedev/restate-sdk";
import { StartTimes, parseFlags, runDriver } from "../shared/driver.mjs";

// The SDK needs this function, which Node has from version 22 on.
Promise.withResolvers ??= function withResolvers() {
  let resolve;
  let reject;
  const promise = new this((...functions) => ([resolve, reject] = functions));
  return { promise, resolve, reject };
};

const options = parseFlags();
const startTimes = new StartTimes();

const plan = restate.workflow({
  name: "plan",
  handlers: {
    run: async (ctx) => {
      await ctx.run("strategize", () => {
        startTimes.record(ctx.key);
        return "strategized";
      });
      await ctx.run("execute", () => "executed");
      return ctx.run("apply", () => "applied");
    },
  },
});

const [nodePort, ingressPort, adminPort, servicePort] = await Promise.all([findFreePort(), findFreePort(), findFreePort(), findFreePort()]);
const endpoint = http2.createServer(
  restate.createEndpointHandler({ services: [plan], logger: () => {} }),
);
await new Promise((resolve) => endpoint.listen(servicePort, "127.0.0.1", resolve));
const server = await startServer();

let failed = false;
try {
  await runDriver(options, runWorkflow, startTimes);
} catch (error) {
  console.error(error);
  failed = true;
} finally {
  await stopServer();
}
process.exit(failed ? 1 : 0);

/** Calls the workflow and waits for its result. Restate keeps results for a day, so no id may be used twice. */
async function runWorkflow(workflowId) {
  const response = await fetch(`http://127.0.0.1:${ingressPort}/plan/${workflowId}/run`, { method: "POST" });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  await response.text();
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
      RESTATE_BIND_PORT: String(nodePort),
      RESTATE_INGRESS__BIND_PORT: String(ingressPort),
      RESTATE_ADMIN__BIND_PORT: String(adminPort),
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
    if (child.exitCode !== null) throw new Error(`the server exited with code ${child.exitCode}`);
    if (Date.now() > deadline) throw new Error("the server was not ready within a minute");
    if (await registerService().catch(() => false)) return child;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function registerService() {
  const response = await fetch(`http://127.0.0.1:${adminPort}/deployments`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ uri: `http://127.0.0.1:${servicePort}` }),
  });
  return response.ok;
}

function stopServer() {
  const closed = new Promise((resolve) => server.on("close", resolve));
  server.kill("SIGTERM");
  setTimeout(() => server.kill("SIGKILL"), 10_000).unref();
  return closed;
}

function findFreePort() {
  return new Promise((resolve) => {
    const probe = net.createServer();
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
