// The board: moves between rows, shows the selected plan at the right, filters.

import { fragment } from "./session.js";
import { bindForms } from "./forms.js";

let selected = null;

export function bindBoard(root, refresh) {
  const filter = root.querySelector("#filter");
  // An empty board has nothing to filter or select.
  if (!filter) return;
  filter.value = sessionStorage.getItem("planwright-filter") ?? "";
  filter.addEventListener("input", () => {
    sessionStorage.setItem("planwright-filter", filter.value);
    applyFilter(root);
  });
  applyFilter(root);
  for (const row of rows(root)) {
    row.addEventListener("focus", () => select(root, row, refresh));
    row.addEventListener("mouseenter", () => select(root, row, refresh));
  }
  const again = rows(root).find((row) => row.dataset.plan === selected) ?? rows(root)[0];
  if (again) select(root, again, refresh, true);
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
    if (selected !== row.dataset.plan) return;
    preview.innerHTML = html;
    bindForms(preview, refresh, refresh);
  } catch {
    // The board itself says that the server is away.
  }
}

/// Handles a key; returns whether it was one of the board's.
export function handleBoardKey(root, key) {
  const all = rows(root);
  const at = all.findIndex((row) => row.getAttribute("aria-current") === "true");
  switch (key) {
    case "j": all[Math.min(at + 1, all.length - 1)]?.focus(); return true;
    case "k": all[Math.max(at - 1, 0)]?.focus(); return true;
    case "Enter": all[at]?.click(); return true;
    case "/": root.querySelector("#filter").focus(); return true;
  }
  return false;
}
