// Three jobs, each adding the next. Uses the batching that graphile-worker's performance page advises for many jobs: a
// local queue one larger than the concurrency, and completions in batches.
//
// graphile-worker keeps no history: it deletes completed jobs. A workflow counts as complete when its last job has run.
// graphile-worker commits that a moment later.

import { Logger, run } from "graphile-worker";
import { StartTimes, parseFlags, runDriver } from "../shared/driver.mjs";

const options = parseFlags();
const startTimes = new StartTimes();
const completions = new Map();

const addNextJob = (next) => async ({ workflowId }, helpers) => {
  if (next === "execute") startTimes.record(workflowId);
  await helpers.addJob(next, { workflowId });
};

const batching = options.concurrency > 1
  ? { localQueue: { size: options.concurrency + 1 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
  : {};

const runner = await run({
  noHandleSignals: true,
  taskList: { strategize: addNextJob("execute"), execute: addNextJob("apply"), apply: async () => {} },
  preset: {
    worker: {
      connectionString: options.postgres,
      concurrentJobs: options.concurrency,
      maxPoolSize: options.concurrency + 1,
      logger: new Logger(() => () => {}),
      ...batching,
    },
  },
});
runner.events.on("job:complete", ({ job, error }) => {
  if (error) {
    console.error(error);
    process.exit(1);
  }
  if (job.task_identifier !== "apply") return;
  completions.get(job.payload.workflowId)();
  completions.delete(job.payload.workflowId);
});

async function runWorkflow(workflowId) {
  const completion = new Promise((resolve) => completions.set(workflowId, resolve));
  await runner.addJob("strategize", { workflowId });
  await completion;
}

await runDriver(options, runWorkflow, startTimes);
await runner.stop();
