// What every JavaScript driver shares: its flags, the closed loop of callers, and the one line it
// prints. The same as life.py.

import { parseArgs } from "node:util";

export function flags() {
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

/** When the first step of each life began. */
export class Starts {
  at = new Map();
  begin(life) {
    this.at.set(life, performance.now());
  }
}

/** Runs `live(id)` from as many callers as there shall be. */
export async function drive(options, live, starts) {
  const warming = (number) => number < options.warmup;
  await crowd(options.concurrency, warming, (number) => live(`warm-${number}`));
  if (options.idle > 0) {
    const waits = [];
    for (let number = 0; number < options.idle; number += 1) {
      await pause();
      const life = `idle-${number}`;
      const begun = performance.now();
      await live(life);
      waits.push(starts.at.get(life) - begun);
    }
    print({ idle_ms: waits });
    return;
  }
  const latencies = [];
  const begun = performance.now();
  const measuring = () => performance.now() - begun < options.seconds * 1000;
  await crowd(options.concurrency, measuring, async (number) => {
    const before = performance.now();
    await live(`life-${number}`);
    latencies.push(performance.now() - before);
  });
  const seconds = (performance.now() - begun) / 1000;
  print({ lives: latencies.length, seconds, latencies_ms: latencies });
}

/** So many callers take numbers as long as there are any. */
async function crowd(callers, goesOn, work) {
  let next = 0;
  const caller = async () => {
    while (goesOn(next)) {
      const number = next;
      next += 1;
      await work(number);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** Long enough that a peer which polls has gone to sleep, and never in step with it. */
function pause() {
  return new Promise((done) => setTimeout(done, 50 + Math.random() * 100));
}

function print(line) {
  console.log(JSON.stringify(line));
}
