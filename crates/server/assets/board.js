// The board: moves between rows, shows the selected plan at the right, filters, and keeps rows in their place while
// somebody looks at them.

import { bindBulk, handleBulkKey, refreshBulk } from "./bulk.js";
import { bindForms } from "./forms.js";
import { fragment } from "./session.js";

/// How often the board asks what working plans do, and for numbers that were not counted yet.
const WORKING_INTERVAL = 2000;
const COUNTING_DELAY = 700;

let selected = null;
let shownPreview = "";
let isPointerInside = false;
/// A newer board that waits until the person leaves the list.
let waitingBoard = null;
let countingTimer = null;

export function bindBoard(root, refresh) {
  const filter = root.querySelector("#filter");
  // An empty board has nothing to filter or select.
  if (!filter) return;
  waitingBoard = null;
  filter.value = sessionStorage.getItem("planwright-filter") ?? "";
  filter.addEventListener("input", () => {
    sessionStorage.setItem("planwright-filter", filter.value);
    applyFilter(root);
  });
  applyFilter(root);
  const list = root.querySelector("#groups");
  const rowOf = (event) => event.target.closest?.(".row");
  list.addEventListener("focusin", (event) => { if (rowOf(event)) select(root, rowOf(event), refresh); });
  list.addEventListener("mouseover", (event) => {
    const row = rowOf(event);
    if (row) select(root, row, refresh);
    event.target.closest?.(".item")?.classList.remove("changed");
  });
  list.addEventListener("mouseenter", () => { isPointerInside = true; });
  list.addEventListener("mouseleave", () => { isPointerInside = false; applyWaiting(root, refresh); });
  list.addEventListener("focusout", () => setTimeout(() => applyWaiting(root, refresh), 0));
  isPointerInside = list.matches(":hover");
  root.querySelector("#board-news").addEventListener("click", () => applyWaiting(root, refresh, true));
  bindBulk(root, refresh);
  const again = rows(root).find((row) => row.dataset.plan === selected) ?? rows(root)[0];
  shownPreview = "";
  if (again) select(root, again, refresh, true);
  askForNumbers(root, refresh);
}

/// Shows a newer board. Returns whether that was possible without building the page anew.
export function updateBoard(root, html, refresh) {
  const list = root.querySelector("#groups");
  const next = new DOMParser().parseFromString(html, "text/html");
  if (!list || !next.querySelector("#groups")) return false;
  root.querySelector(".board").toggleAttribute("data-counting", next.querySelector("[data-counting]") !== null);
  updateInPlace(list, next);
  waitingBoard = isSameOrder(list, next) ? null : next;
  showNews(root);
  applyWaiting(root, refresh);
  applyFilter(root);
  refreshBulk(root);
  const row = rows(root).find((one) => one.dataset.plan === selected);
  if (row) select(root, row, refresh, true);
  askForNumbers(root, refresh);
  return true;
}

/// Rows that are shown get their new content where they are.
function updateInPlace(list, next) {
  for (const item of list.querySelectorAll(".item")) {
    const newer = next.querySelector(`[data-item="${item.dataset.item}"]`);
    if (!newer) continue;
    if (newer.dataset.version !== item.dataset.version) item.classList.add("changed");
    for (const name of ["version", "handle", "can"]) item.dataset[name] = newer.dataset[name];
    const [row, newRow] = [item.querySelector(".row"), newer.querySelector(".row")];
    // Equal content is left alone, so that a title that is shown stays.
    if (row.innerHTML !== newRow.innerHTML) row.innerHTML = newRow.innerHTML;
    row.setAttribute("href", newRow.getAttribute("href"));
  }
}

function order(root) {
  return [...root.querySelectorAll(".item")]
    .map((item) => `${item.closest(".group").dataset.group} ${item.dataset.item} ${item.classList.contains("nested")}`)
    .join();
}

function isSameOrder(list, next) {
  return order(list) === order(next.querySelector("#groups"));
}

/// Somebody who points at a row, has it focused or selected some expects it to stay where it is.
function isLookedAt(root) {
  const list = root.querySelector("#groups");
  return isPointerInside || list.contains(document.activeElement) || list.querySelector(".pick:checked") !== null;
}

function applyWaiting(root, refresh, now = false) {
  const list = root.querySelector("#groups");
  if (!list || !waitingBoard || (!now && isLookedAt(root))) return;
  const known = new Map([...list.querySelectorAll(".item")].map((item) => [item.dataset.item, item]));
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  for (const group of waitingBoard.querySelectorAll(".group")) {
    const shown = list.querySelector(`[data-group="${group.dataset.group}"]`);
    const items = [...group.querySelectorAll(".item")].map((item) => {
      const kept = known.get(item.dataset.item);
      if (!kept) {
        item.classList.add("arrived");
        return item;
      }
      kept.classList.toggle("nested", item.classList.contains("nested"));
      kept.classList.remove("changed");
      return kept;
    });
    shown.querySelector("ul").replaceChildren(...items);
    shown.querySelector(".count").textContent = String(items.length);
  }
  waitingBoard = null;
  showNews(root);
  applyFilter(root);
  refreshBulk(root);
  focused?.focus({ preventScroll: true });
  const row = rows(root).find((one) => one.dataset.plan === selected) ?? rows(root)[0];
  if (row) select(root, row, refresh, true);
}

/// Says that rows would move. The button has its place reserved.
function showNews(root) {
  const button = root.querySelector("#board-news");
  button.hidden = waitingBoard === null;
  if (!waitingBoard) return;
  const shown = new Set([...root.querySelectorAll("#groups .item")].map((item) => item.dataset.item));
  const added = [...waitingBoard.querySelectorAll(".item")].filter((item) => !shown.has(item.dataset.item)).length;
  const text = added === 0 ? "Plans moved" : added === 1 ? "1 new plan" : `${added} new plans`;
  button.textContent = `${text}: show`;
}

function askForNumbers(root, refresh) {
  clearTimeout(countingTimer);
  if (root.querySelector("[data-counting]")) countingTimer = setTimeout(refresh, COUNTING_DELAY);
}

/// Asks what working plans do. Nothing announces it, so the page asks while it is visible.
export async function updateWorking(root) {
  if (document.hidden || !root.querySelector("#groups [data-elapsed]")) return;
  const html = await fragment("/fragments/board/working");
  const next = new DOMParser().parseFromString(html, "text/html");
  for (const one of next.querySelectorAll("[data-working]")) {
    const row = root.querySelector(`[data-item="${one.dataset.working}"] .row`);
    const age = row?.querySelector("[data-elapsed]");
    if (!age) continue;
    age.dataset.elapsed = one.dataset.elapsed;
    const note = row.querySelector(".note");
    if (note.textContent !== one.textContent) note.textContent = note.title = one.textContent;
  }
}

export function startBoardTimers(root, isOnBoard) {
  setInterval(() => { if (isOnBoard()) updateWorking(root).catch(() => {}); }, WORKING_INTERVAL);
  setInterval(() => {
    if (!isOnBoard()) return;
    for (const age of root.querySelectorAll("#groups [data-elapsed]")) {
      const seconds = Number(age.dataset.elapsed) + 1;
      age.dataset.elapsed = String(seconds);
      age.textContent = formatElapsed(seconds);
    }
  }, 1000);
}

function formatElapsed(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

function rows(root) {
  return [...root.querySelectorAll(".row")].filter((row) => row.offsetParent !== null);
}

function applyFilter(root) {
  const words = root.querySelector("#filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of root.querySelectorAll(".row")) {
    const text = row.textContent.toLowerCase();
    row.parentElement.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of root.querySelectorAll(".group")) {
    group.hidden = [...group.querySelectorAll("li")].every((item) => item.hidden);
  }
}

async function select(root, row, refresh, force = false) {
  if (selected === row.dataset.plan && !force) return;
  selected = row.dataset.plan;
  for (const other of root.querySelectorAll(".row")) {
    other.setAttribute("aria-current", String(other === row));
  }
  const preview = root.querySelector(".preview");
  if (getComputedStyle(preview).display === "none") return;
  try {
    const html = await fragment(`/fragments/plans/${row.dataset.plan}/preview`);
    // The same preview again would take the focus away.
    if (selected !== row.dataset.plan || html === shownPreview) return;
    shownPreview = html;
    preview.innerHTML = html;
    bindForms(preview, refresh, refresh);
  } catch {
    // The board itself says that the server is away.
  }
}

/// Handles a key; returns whether it was one of the board's.
export function handleBoardKey(root, key) {
  if (!root.querySelector("#groups")) return false;
  const all = rows(root);
  const at = all.findIndex((row) => row.getAttribute("aria-current") === "true");
  switch (key) {
    case "j": all[Math.min(at + 1, all.length - 1)]?.focus(); return true;
    case "k": all[Math.max(at - 1, 0)]?.focus(); return true;
    case "Enter": all[at]?.click(); return true;
    case "/": root.querySelector("#filter").focus(); return true;
  }
  return handleBulkKey(root, all[at], key);
}
