// Places in the review: hunks, files and lines, reached by keys, links and the address.

import { commentButtonOf, rowOf } from "./lines.js";

/// How many frames a jump may take to settle.
const MAX_FRAMES = 20;

/// How much of the top the header covers.
const HEADER_HEIGHT = 56;

/// The hunk that `n` or `p` showed last.
let visited = null;

/// Scrolls to an element. Files far away have an estimated height until they come near, so one scroll may miss.
export function reveal(element, block = "start") {
  let frames = 0;
  let last = NaN;
  const scroll = () => {
    element.scrollIntoView({ block });
    const { top } = element.getBoundingClientRect();
    frames += 1;
    if (frames < MAX_FRAMES && (frames < 3 || Math.abs(top - last) > 1)) requestAnimationFrame(scroll);
    last = top;
  };
  scroll();
}

/// The links of the file list name paths, so that an address means the same for a newer result.
export function bindPlaces(root) {
  visited = null;
  for (const link of root.querySelectorAll(".file-list a")) link.setAttribute("href", `#${encodePath(link.title)}`);
  root.querySelector(".file-list")?.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    history.replaceState(null, "", link.getAttribute("href"));
    showPlace(root);
  });
}

function encodePath(path) {
  return encodeURIComponent(path).replaceAll("%2F", "/");
}

/// Shows what the address names: `#src/retry.rs`, `#src/retry.rs:41`, or the id of an element. Returns whether it is there.
export function showPlace(root) {
  const name = readName(location.hash.slice(1));
  if (name === "") return false;
  const files = [...root.querySelectorAll(".file")];
  const find = (path) => files.find((file) => file.dataset.path === path);
  const [, path, number] = name.match(/^(.*):(\d+)$/s) ?? [];
  const file = find(name) ?? (path === undefined ? undefined : find(path));
  const lines = file && number ? [...file.querySelectorAll(`[data-line="${number}"]`)] : [];
  const line = lines.find((one) => one.dataset.side === "new") ?? lines[0];
  const place = line ?? file ?? document.getElementById(name);
  if (!place) return false;
  if (file) unfold(file);
  reveal(line ? rowOf(line) : place, line ? "center" : "start");
  if (line) commentButtonOf(line)?.focus({ preventScroll: true });
  return true;
}

/// Who asks for a file wants to see it.
function unfold(file) {
  file.classList.remove("folded", "viewed");
  file.querySelector(".fold").setAttribute("aria-expanded", "true");
}

function readName(hash) {
  try {
    return decodeURIComponent(hash);
  } catch {
    return hash;
  }
}

/// Goes to the next or previous hunk from the one with the focus, from the one visited last, or from what is on the screen.
export function moveToHunk(root, step) {
  const hunks = [...root.querySelectorAll("tr.changed-first")].filter((line) => line.checkVisibility());
  if (hunks.length === 0) return;
  const at = findPosition(hunks, document.activeElement?.closest("tr")) ?? findPosition(hunks, visited);
  const next = at === null ? chooseOnScreen(hunks, step) : Math.min(Math.max(at + step, 0), hunks.length - 1);
  visited = hunks[next];
  reveal(visited, "center");
  const target = visited.querySelector(".comment-on") ?? visited;
  if (target === visited) visited.tabIndex = -1;
  target.focus({ preventScroll: true });
}

/// The hunk that a row belongs to: the last that does not start after it.
function findPosition(hunks, row) {
  if (!row?.isConnected || !isOnScreen(row)) return null;
  const isAfter = (hunk) => (hunk.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_PRECEDING) !== 0;
  const after = hunks.findIndex(isAfter);
  const at = after < 0 ? hunks.length - 1 : after - 1;
  return at < 0 ? null : at;
}

function isOnScreen(row) {
  const { top, bottom } = row.getBoundingClientRect();
  return bottom > HEADER_HEIGHT && top < window.innerHeight;
}

function chooseOnScreen(hunks, step) {
  const first = hunks.findIndex((hunk) => hunk.getBoundingClientRect().top >= HEADER_HEIGHT);
  if (step > 0) return first < 0 ? hunks.length - 1 : first;
  return Math.max((first < 0 ? hunks.length : first) - 1, 0);
}
