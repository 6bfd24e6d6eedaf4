// Several plans at once: select rows, retry or cancel them after one question, and say what came of each.

import { Problem, send } from "./session.js";

/// The plans that are selected. A selection survives updates of the board.
const picked = new Set();

/// One key per plan and verb until its outcome is known, so that nothing is done twice.
const keys = new Map();

export function bindBulk(root, refresh) {
  for (const box of root.querySelectorAll(".pick")) box.checked = picked.has(itemOf(box).dataset.item);
  root.querySelector("#groups").addEventListener("change", (event) => {
    if (!event.target.matches(".pick")) return;
    setPicked(root, itemOf(event.target), event.target.checked);
  });
  root.querySelector("#bulk-clear").addEventListener("click", () => clear(root));
  for (const button of root.querySelectorAll("#bulk [data-verb]")) {
    button.addEventListener("click", () => confirm(root, button, refresh));
  }
  refreshBulk(root);
}

function itemOf(box) {
  return box.closest(".item");
}

function setPicked(root, item, value) {
  if (value) picked.add(item.dataset.item);
  else picked.delete(item.dataset.item);
  item.querySelector(".pick").checked = value;
  root.querySelector("#bulk-report").replaceChildren();
  refreshBulk(root);
}

function clear(root) {
  picked.clear();
  for (const box of root.querySelectorAll(".pick")) box.checked = false;
  root.querySelector("#bulk-report").replaceChildren();
  refreshBulk(root);
}

function pickedItems(root) {
  return [...root.querySelectorAll(".item")].filter((item) => picked.has(item.dataset.item));
}

function allowing(items, verb) {
  return items.filter((item) => item.dataset.can.split(" ").includes(verb));
}

/// Brings the bar in line with the selection and with what the plans allow now.
export function refreshBulk(root) {
  const bar = root.querySelector("#bulk");
  if (!bar) return;
  const items = pickedItems(root);
  const report = root.querySelector("#bulk-report");
  bar.hidden = items.length === 0 && report.childElementCount === 0;
  root.querySelector("#bulk-count").textContent = items.length === 1 ? "1 plan selected" : `${items.length} plans selected`;
  for (const button of bar.querySelectorAll("[data-verb]")) {
    const count = allowing(items, button.dataset.verb).length;
    button.disabled = count === 0;
    button.textContent = button.dataset.verb === "retry" ? `Retry ${count}` : `Cancel ${count}`;
  }
}

function confirm(root, button, refresh) {
  const verb = button.dataset.verb;
  const items = allowing(pickedItems(root), verb);
  const dialog = root.querySelector("#bulk-confirm");
  const word = verb === "retry" ? "Retry" : "Cancel";
  dialog.querySelector("#bulk-question").textContent = items.length === 1 ? `${word} this plan?` : `${word} these ${items.length} plans?`;
  dialog.querySelector("#bulk-plans").replaceChildren(...items.map((item) => line(item, goalOf(item))));
  dialog.querySelector("#bulk-yes").textContent = `${word} ${items.length}`;
  // What is confirmed is what was shown: later versions are refused by the server.
  const shown = items.map((item) => ({ item, version: item.dataset.version }));
  dialog.onclose = () => {
    if (dialog.returnValue === "yes") changeAll(root, verb, shown, refresh);
    else button.focus();
  };
  dialog.returnValue = "";
  dialog.showModal();
}

async function changeAll(root, verb, shown, refresh) {
  const buttons = [...root.querySelectorAll("#bulk button")];
  for (const button of buttons) button.disabled = true;
  const report = root.querySelector("#bulk-report");
  report.replaceChildren();
  for (const { item, version } of shown) {
    const [text, isDone] = await changeOne(verb, item.dataset.item, version);
    const entry = line(item, text);
    entry.classList.add(isDone ? "good-text" : "bad-text");
    report.append(entry);
    if (isDone) {
      picked.delete(item.dataset.item);
      item.querySelector(".pick").checked = false;
    }
  }
  root.querySelector("#bulk-clear").disabled = false;
  refreshBulk(root);
  refresh();
}

/// Changes one plan through its own route. Returns what came of it, and whether it is done.
async function changeOne(verb, plan, version) {
  const name = `${verb} ${plan} ${version}`;
  if (!keys.has(name)) keys.set(name, crypto.randomUUID());
  const extra = { "If-Match": `"${version}"`, "Idempotency-Key": keys.get(name) };
  try {
    const answer = await send("POST", `/v1/plans/${plan}/${verb}`, {}, extra);
    keys.delete(name);
    return [answer.standing, true];
  } catch (error) {
    if (!(error instanceof Problem)) return ["the server does not answer; try again", false];
    if (error.body.kind !== "unknown_outcome") keys.delete(name);
    if (error.body.status === 412) return ["changed since you saw it; nothing was done", false];
    return [error.body.title, false];
  }
}

function goalOf(item) {
  return item.querySelector(".goal").textContent;
}

function line(item, text) {
  const entry = document.createElement("li");
  const handle = document.createElement("code");
  handle.textContent = item.dataset.handle;
  entry.append(handle, ` ${text}`);
  return entry;
}

/// Handles a key; returns whether it was one of these.
export function handleBulkKey(root, row, key) {
  if (key === " " && row) {
    const item = row.closest(".item");
    setPicked(root, item, !picked.has(item.dataset.item));
    return true;
  }
  if (key === "Escape" && picked.size > 0) {
    clear(root);
    return true;
  }
  return false;
}
