// Shared by the JavaScript drivers: flags, the closed loop of callers, and the line that is printed. Same as driver.py.

import { parseArgs } from "node:util";

export function parseFlags() {
  const text = { type: "string" };
  const { values } = parseArgs({
    options: {
      seconds: text,
      concurrency: text,
      warmup: text,
      idle: text,
      postgres: text,
      directory: text,
    },
  });
  return {
    seconds: Number(values.seconds ?? 1),
    concurrency: Number(values.concurrency ?? 1),
    warmup: Number(values.warmup ?? 0),
    idle: Number(values.idle ?? 0),
    postgres: values.postgres,
    directory: values.directory,
  };
}

/** When the first step of each workflow started. */
export class StartTimes {
  times = new Map();
  record(workflowId) {
    this.times.set(workflowId, performance.now());
  }
}

/** Calls `runWorkflow(id)` from `--concurrency` callers, and prints the results. */
export async function runDriver(options, runWorkflow, startTimes) {
  const isWarmup = (number) => number < options.warmup;
  await runCallers(options.concurrency, isWarmup, (number) => runWorkflow(`warm-${number}`));
  if (options.idle > 0) {
    const waits = [];
    for (let number = 0; number < options.idle; number += 1) {
      await waitUntilIdle();
      const workflowId = `idle-${number}`;
      const requested = performance.now();
      await runWorkflow(workflowId);
      waits.push(startTimes.times.get(workflowId) - requested);
    }
    printLine({ idle_ms: waits });
    return;
  }
  const latencies = [];
  const start = performance.now();
  const hasTimeLeft = () => performance.now() - start < options.seconds * 1000;
  await runCallers(options.concurrency, hasTimeLeft, async (number) => {
    const requested = performance.now();
    await runWorkflow(`run-${number}`);
    latencies.push(performance.now() - requested);
  });
  const seconds = (performance.now() - start) / 1000;
  printLine({ workflows: latencies.length, seconds, latencies_ms: latencies });
}

/** Runs `work(number)` from several callers until `shouldStart` refuses the next number. */
async function runCallers(callers, shouldStart, work) {
  let next = 0;
  const runCaller = async () => {
    while (shouldStart(next)) {
      const number = next;
      next += 1;
      await work(number);
    }
  };
  await Promise.all(Array.from({ length: callers }, runCaller));
}

/** Waits until a system that polls is idle. The wait is random, so that it never falls into step with the poll interval. */
function waitUntilIdle() {
  return new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
}

function printLine(line) {
  console.log(JSON.stringify(line));
}
