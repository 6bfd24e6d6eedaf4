// A life is three jobs, each adding the next. With the batching that its page on performance
// advises where jobs are many: a local queue one larger than the concurrency, completions in batches.
//
// It keeps no history: a job that is done is deleted. A life counts as over when its last job has
// run; that it did is committed a moment later.

import { Logger, run } from "graphile-worker";
import { Starts, drive, flags } from "../shared/life.mjs";

const options = flags();
const starts = new Starts();
const waiting = new Map();

const then = (next) => async ({ life }, helpers) => {
  if (next === "execute") starts.begin(life);
  await helpers.addJob(next, { life });
};

const batching = options.concurrency > 1
  ? { localQueue: { size: options.concurrency + 1 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
  : {};

const runner = await run({
  noHandleSignals: true,
  taskList: { strategize: then("execute"), execute: then("apply"), apply: async () => {} },
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
  waiting.get(job.payload.life)();
  waiting.delete(job.payload.life);
});

async function live(life) {
  const over = new Promise((done) => waiting.set(life, done));
  await runner.addJob("strategize", { life });
  await over;
}

await drive(options, live, starts);
await runner.stop();
