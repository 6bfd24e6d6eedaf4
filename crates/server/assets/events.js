// One event stream for all tabs of this browser: browsers allow six connections to a server. The tab that holds the
// lock reads the stream and passes everything on.

import { Problem, stream } from "./session.js";

const LAST_ID = "planwright-last-event";
const channel = new BroadcastChannel("planwright-events");
const listeners = new Set();

channel.onmessage = (message) => listeners.forEach((listener) => listener(message.data));

function tell(message) {
  listeners.forEach((listener) => listener(message));
  channel.postMessage(message);
}

/// Calls `listener` with `{kind: "plan", data}`, `{kind: "reset"}`, `{kind: "online"}` or `{kind: "offline"}`.
export function follow(listener) {
  listeners.add(listener);
  if (listeners.size > 1) return;
  navigator.locks.request("planwright-events", readForever);
}

async function readForever() {
  let delay = 500;
  for (;;) {
    try {
      await readStream(() => { delay = 500; });
      tell({ kind: "offline" });
    } catch (error) {
      if (error instanceof Problem && error.body.status === 401) {
        tell({ kind: "ended" });
        return;
      }
      tell({ kind: "offline" });
    }
    await new Promise((resolve) => setTimeout(resolve, delay));
    delay = Math.min(delay * 2, 5000);
  }
}

async function readStream(connected) {
  const abort = new AbortController();
  // The server sends something every 15 seconds. Silence means that the connection is dead.
  let watchdog;
  const stillAlive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => abort.abort(), 40000);
  };
  stillAlive();
  try {
    const reader = await stream("/v1/events", sessionStorage.getItem(LAST_ID), abort.signal);
    connected();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      stillAlive();
      text += value;
      const frames = text.split("\n\n");
      text = frames.pop();
      frames.forEach(handleFrame);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

function handleFrame(frame) {
  const fields = {};
  for (const line of frame.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.id) sessionStorage.setItem(LAST_ID, fields.id);
  switch (fields.event) {
    case "hello": tell({ kind: "online" }); break;
    case "reset": tell({ kind: "online" }); tell({ kind: "reset" }); break;
    case "away": tell({ kind: "offline" }); break;
    case "plan": tell({ kind: "plan", data: JSON.parse(fields.data) }); break;
  }
}
