// Forms that change something. Each sends the version it was shown with, and one key for all its attempts.

import { dropDrafts, keepDrafts } from "./drafts.js";
import { Problem, send } from "./session.js";

let online = true;

/// What has to happen before a form is sent: `prepare(extra, body)` may change the headers and the body.
const preparations = new WeakMap();

export function prepareForm(form, prepare) {
  preparations.set(form, prepare);
}

/// Turns a button that changes something off for a reason of its own.
export function turnOff(button, isOff) {
  button.toggleAttribute("data-off", isOff);
  button.disabled = !online || isOff;
}

/// Turns all buttons that change something on or off.
export function setOnline(value) {
  online = value;
  applyOnline(document);
}

function applyOnline(root) {
  for (const button of root.querySelectorAll("form[data-action] button[type=submit]")) {
    button.disabled = !online || button.hasAttribute("data-off");
  }
}

/// Makes the forms of a fragment work. `done(answer, form)` is called after a change.
export function bindForms(root, done, changed) {
  for (const form of root.querySelectorAll("form[data-action]")) {
    keepDrafts(form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      submit(form, done, changed);
    });
    for (const field of form.querySelectorAll("textarea")) {
      field.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      });
    }
  }
  applyOnline(root);
}

async function submit(form, done, changed) {
  const button = form.querySelector("button[type=submit]");
  if (button.disabled) return;
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  form.dataset.key ||= crypto.randomUUID();
  const extra = { "Idempotency-Key": form.dataset.key };
  if (form.dataset.version) extra["If-Match"] = `"${form.dataset.version}"`;
  try {
    const body = readBody(form);
    await preparations.get(form)?.(extra, body);
    const answer = await send("POST", form.dataset.action, body, extra);
    dropDrafts(form);
    delete form.dataset.key;
    showProblem(form, null);
    await done(answer, form);
  } catch (error) {
    const problem = error instanceof Problem
      ? error.body
      : { title: "The server does not answer. What you typed is kept.", hints: [] };
    // Only an unknown outcome may be repeated under the same key.
    if (error instanceof Problem && problem.kind !== "unknown_outcome") delete form.dataset.key;
    showProblem(form, problem);
    if (problem.status === 412 || problem.status === 409) changed(problem, form);
  } finally {
    button.removeAttribute("aria-busy");
    button.disabled = !online || button.hasAttribute("data-off");
  }
}

/// The body that a form sends: its fields, without the empty ones.
function readBody(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") {
      if (field.checked) body[field.name] = true;
    } else if (field.dataset.list !== undefined) {
      const items = field.value.split(",").map((item) => item.trim()).filter(Boolean);
      if (items.length > 0) body[field.name] = items;
    } else if (field.dataset.argument !== undefined) {
      if (field.value !== "") (body.arguments ??= []).push([field.dataset.argument, field.value]);
    } else if (field.dataset.limit !== undefined) {
      if (field.value !== "") (body.limits ??= {})[field.dataset.limit] = field.dataset.limit === "tokens" ? readCount(field.value) : field.value.trim();
    } else if (field.value !== "") {
      body[field.name] = field.value;
    }
  }
  return body;
}

/// A number such as `500k`. The server refuses what is none.
function readCount(text) {
  const [, digits, unit] = text.trim().match(/^(\d+)\s*([km]?)$/i) ?? [];
  return digits === undefined ? text : Number(digits) * { "": 1, k: 1e3, m: 1e6 }[unit.toLowerCase()];
}

/// Shows a problem inside the form that caused it.
export function showProblem(form, problem) {
  form.querySelector(".problem")?.remove();
  if (problem === null) return;
  const box = document.createElement("div");
  box.className = "problem";
  box.setAttribute("role", "alert");
  for (const text of [problem.title, ...(problem.hints ?? [])]) {
    const line = document.createElement("p");
    line.textContent = text;
    box.append(line);
  }
  form.append(box);
}
