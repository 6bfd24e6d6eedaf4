// The session's secret, and every request to the server. The secret stays in this origin's storage.

const SECRET = "planwright-session";

export class Problem extends Error {
  constructor(body) {
    super(body.title ?? "The request failed.");
    this.body = body;
  }
}

export function hasSession() {
  return localStorage.getItem(SECRET) !== null;
}

export function endSession() {
  localStorage.removeItem(SECRET);
}

/// Exchanges the one-time code in the fragment of the address.
export async function enter(hash) {
  const values = new URLSearchParams(hash.slice(1));
  const code = values.get("code");
  const to = values.get("to") ?? "/";
  history.replaceState(null, "", "/enter");
  if (!code) throw new Problem({ title: "This address has no code.", hints: ["planwright open"] });
  const started = await send("POST", "/v1/sessions", { code });
  localStorage.setItem(SECRET, started.secret);
  return /^\/[a-z0-9/]*$/i.test(to) ? to : "/";
}

function headers() {
  const secret = localStorage.getItem(SECRET);
  return secret === null ? {} : { "Planwright-Session": secret };
}

/// Sends JSON and returns the answer's JSON.
export async function send(method, path, body, extra = {}) {
  const options = { method, headers: { ...headers(), ...extra }, cache: "no-store" };
  if (method !== "GET") {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body ?? {});
  }
  const answer = await fetch(path, options);
  if (!answer.ok) throw await toProblem(answer);
  return answer.status === 204 ? null : answer.json();
}

/// Reads a fragment of HTML that the server rendered.
export async function fragment(path) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store" });
  if (!answer.ok) throw await toProblem(answer);
  return answer.text();
}

/// Opens an event stream.
export async function stream(path, lastId, signal) {
  const more = lastId === null ? {} : { "Last-Event-ID": lastId };
  const answer = await fetch(path, { headers: { ...headers(), ...more }, cache: "no-store", signal });
  if (!answer.ok) throw await toProblem(answer);
  return answer.body.pipeThrough(new TextDecoderStream()).getReader();
}

async function toProblem(answer) {
  const body = await answer.json().catch(() => ({ title: `The server answered ${answer.status}.` }));
  return new Problem({ status: answer.status, hints: [], ...body });
}
