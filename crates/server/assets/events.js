// One event stream for all tabs of this browser: browsers allow six connections to a server. The tab that holds the
// lock reads the stream and passes everything on. If it goes away, the next tab takes over where it was.

import { Problem, stream } from "./session.js";

const LAST_ID = "planwright-last-event";

/// The leader says at least this often that it is alive. Others that hear nothing read everything again by themselves.
const BEAT_INTERVAL = 15000;
const SILENCE_LIMIT = 45000;
const POLL_INTERVAL = 10000;

const canShare = typeof BroadcastChannel === "function" && navigator.locks !== undefined;
const channel = canShare ? new BroadcastChannel("planwright-events") : null;
const listeners = new Set();
/// The leader's connection: `online`, `offline`, `ended`, or nothing in the other tabs.
let leading = null;
let heardAt = Date.now();

function receive(message) {
  heardAt = Date.now();
  // Kept in every tab, so that each can go on where the last one was.
  if (message.id) sessionStorage.setItem(LAST_ID, message.id);
  if (message.kind !== "beat") listeners.forEach((listener) => listener(message));
}

function tell(message) {
  if (["online", "offline", "ended"].includes(message.kind)) leading = message.kind;
  receive(message);
  channel?.postMessage(message);
}

if (channel) {
  channel.onmessage = (message) => {
    if (message.data.kind !== "ask") receive(message.data);
    // A new tab wants to know whether the page is live.
    else if (leading !== null) channel.postMessage({ kind: leading });
  };
}

/// Calls `listener` with `{kind: "plan", data}`, `{kind: "reset"}`, `{kind: "online"}`, `{kind: "offline"}` or
/// `{kind: "ended"}`.
export function follow(listener) {
  listeners.add(listener);
  if (listeners.size > 1) return;
  if (channel) {
    navigator.locks.request("planwright-events", readForever);
    channel.postMessage({ kind: "ask" });
    setInterval(() => { if (leading !== null) channel.postMessage({ kind: "beat" }); }, BEAT_INTERVAL);
    // A leader that hangs keeps the lock. Without its messages, each tab asks for itself.
    setInterval(() => { if (leading === null && Date.now() - heardAt > SILENCE_LIMIT) poll(); }, POLL_INTERVAL);
  } else {
    // Nothing can be shared, and a stream per tab would freeze the seventh.
    poll();
    setInterval(poll, POLL_INTERVAL);
  }
}

function poll() {
  listeners.forEach((listener) => listener({ kind: "reset" }));
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
  const id = fields.id;
  switch (fields.event) {
    case "hello": tell({ kind: "online", id }); break;
    case "reset": tell({ kind: "online", id }); tell({ kind: "reset" }); break;
    case "away": tell({ kind: "offline" }); break;
    case "plan": tell({ kind: "plan", data: JSON.parse(fields.data), id }); break;
  }
}
