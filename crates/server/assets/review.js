// The review: viewed files, which hunks land, comments, more context, and what is new since the reader looked.

import { bindChoices } from "./choices.js";
import { bindComments, findSelectedLines, rememberSent } from "./comments.js";
import { readDraft, writeDraft } from "./drafts.js";
import { commentButtonOf, fileOf, LINE, lineOf } from "./lines.js";
import { bindPlaces, moveToHunk, reveal } from "./places.js";
import { realPath } from "./review_state.js";
import { fragment } from "./session.js";

/// How many unchanged lines are shown at once.
const CONTEXT_STEP = 20;
const NARROW = "(max-width: 1080px)";
const LAYOUT = "planwright-layout";

export function bindReview(root, plan, reload, state) {
  const review = root.querySelector(".review");
  if (!review) return;
  bindPlaces(review);
  bindFileList(review);
  bindViewed(review, state);
  bindComments(review, plan, state);
  bindContext(review);
  bindFooter(root);
  rememberLook(root, plan);
  review.querySelector("#layout")?.addEventListener("click", () => switchLayout(reload));
  root.querySelector("#seen-news")?.addEventListener("click", () => {
    setLooked(root, plan);
    reload();
  });
  if (review.dataset.shown) bindChoices(root, review, plan, state);
}

/// What the address of a review's fragment needs besides the results.
export function reviewParameters(word) {
  const parameters = new URLSearchParams();
  const looked = readDraft(`${word.toLowerCase()}:looked`, 0);
  if (looked > 0) parameters.set("looked", String(looked));
  if (localStorage.getItem(LAYOUT) === "split" && !matchMedia(NARROW).matches) parameters.set("layout", "split");
  return parameters;
}

function switchLayout(reload) {
  if (localStorage.getItem(LAYOUT) === "split") localStorage.removeItem(LAYOUT);
  else localStorage.setItem(LAYOUT, "split");
  reload();
}

/// The first result that a person sees counts as looked at. Later results are new until they press "Got it".
function rememberLook(root, plan) {
  if (readDraft(`${plan.toLowerCase()}:looked`, 0) === 0) setLooked(root, plan);
}

/// The address of a plan may name it by its handle or its id.
function setLooked(root, plan) {
  const { handle, lastResult } = root.querySelector(".plan-head").dataset;
  for (const word of [plan, handle]) writeDraft(`${word.toLowerCase()}:looked`, Number(lastResult) || "");
}

function bindFileList(review) {
  // On a narrow screen the diff comes first, the list of files on demand.
  if (matchMedia(NARROW).matches) review.querySelector("#file-box").open = false;
  for (const button of review.querySelectorAll(".fold")) {
    button.addEventListener("click", () => {
      const file = fileOf(button);
      const isFolded = file.classList.contains("folded") || file.classList.contains("viewed");
      setFolded(file, !isFolded);
      file.dataset.foldChosen = "";
    });
  }
  review.querySelector("#file-filter")?.addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const link of review.querySelectorAll(".file-list a")) {
      const path = link.title.toLowerCase();
      link.hidden = !words.every((word) => path.includes(word));
    }
    for (const name of review.querySelectorAll(".directory")) name.hidden = words.length > 0;
    if (words.length > 0) for (const group of review.querySelectorAll(".file-group")) group.open = true;
  });
}

export function setFolded(file, isFolded) {
  file.classList.toggle("folded", isFolded);
  if (!isFolded) file.classList.remove("viewed");
  file.querySelector(".fold").setAttribute("aria-expanded", String(!isFolded));
}

function bindViewed(review, state) {
  const files = [...review.querySelectorAll(".file")];
  const links = new Map([...review.querySelectorAll(".file-list a")].map((link) => [link.dataset.file, link]));
  const apply = () => {
    let count = 0;
    for (const file of files) {
      // A mark belongs to the content, so a changed file is no longer viewed.
      const isViewed = state.isViewed(file);
      file.classList.toggle("viewed", isViewed);
      file.querySelector(".viewed-mark").checked = isViewed;
      links.get(file.id)?.classList.toggle("viewed", isViewed);
      count += Number(isViewed);
    }
    review.querySelector("#viewed-count").textContent = `${count} of ${files.length} viewed`;
  };
  review.addEventListener("change", (event) => {
    if (!event.target.matches(".viewed-mark")) return;
    const file = fileOf(event.target);
    const mark = { resource: file.dataset.resource, path: realPath(file), viewed: event.target.checked };
    if (file.dataset.blob) mark.blob = file.dataset.blob;
    state.change({ view: mark }).then(apply, apply);
  });
  apply();
}

/// Shows unchanged lines above a hunk, or below the last one.
function bindContext(review) {
  review.addEventListener("click", async (event) => {
    const button = event.target.closest(".show-context");
    if (!button || button.disabled) return;
    const { old, new: next, count: hidden } = button.dataset;
    const isTail = hidden === "0";
    const count = isTail ? CONTEXT_STEP : Math.min(Number(hidden), CONTEXT_STEP);
    // Above a hunk, the lines next to it are the ones that explain it.
    const skipped = isTail ? 0 : Number(hidden) - count;
    const parameters = new URLSearchParams({
      blob: fileOf(button).dataset.blob, old: Number(old) + skipped, new: Number(next) + skipped, count,
    });
    if (review.classList.contains("split")) parameters.set("layout", "split");
    if (review.dataset.results) parameters.set("results", review.dataset.results);
    button.disabled = true;
    const handle = document.querySelector(".plan-head").dataset.handle;
    const html = await fragment(`/fragments/plans/${handle}/context?${parameters}`).catch(() => null);
    button.disabled = false;
    if (html === null || !button.isConnected) return;
    const template = document.createElement("template");
    template.innerHTML = html;
    const rows = template.content.querySelectorAll("tr");
    const header = button.closest("tr");
    if (isTail) {
      header.before(...rows);
      button.dataset.old = String(Number(old) + rows.length);
      button.dataset.new = String(Number(next) + rows.length);
      if (rows.length < count) header.remove();
      return;
    }
    header.after(...rows);
    button.dataset.count = String(skipped);
    if (skipped === 0) button.remove();
    else button.querySelector("span").textContent = `${skipped} lines`;
  });
}

/// What the button that lands says, and the way to the feedback from anywhere.
function bindFooter(root) {
  root.querySelector("#go-send-back")?.addEventListener("click", () => {
    const form = document.querySelector("#send-back");
    const field = form.querySelector("#feedback");
    const isReady = field.value.trim() !== "" || !field.required;
    if (isReady) form.requestSubmit();
    else field.focus();
  });
}

/// Called when a plan was sent back.
export function clearReview(root, plan, state) {
  const { lastResult } = root.querySelector(".plan-head").dataset;
  setLooked(root, plan);
  rememberSent(plan, Number(lastResult), state);
}

/// Handles a key; returns whether it was one of the review's.
export function handleReviewKey(root, key) {
  const files = [...root.querySelectorAll(".file")];
  const at = files.findIndex((file) => file.getBoundingClientRect().bottom > 120);
  const show = (file) => {
    if (file) reveal(file);
    file?.querySelector("header input")?.focus({ preventScroll: true });
  };
  switch (key) {
    case "]": show(files[at + 1]); return true;
    case "[": show(files[Math.max(at - 1, 0)]); return true;
    case "v": files[at]?.querySelector(".viewed-mark")?.click(); return true;
    case "c": commentOnLines(root); return true;
    case "x": toggleHunk(root); return true;
    case "n": moveToHunk(root, 1); return true;
    case "p": moveToHunk(root, -1); return true;
    case "s": root.querySelector("#layout")?.click(); return true;
    case "l": document.querySelector("#land > button")?.focus(); return true;
    case "z": document.querySelector("#undo button")?.focus(); return true;
  }
  return false;
}

function toggleHunk(root) {
  const hunk = document.activeElement?.closest(".hunk") ?? root.querySelector("tr.changed-first")?.closest(".hunk");
  if (!hunk) return;
  const boxes = [...root.querySelectorAll(".hunk-choice")];
  const box = boxes.find((one) => one.dataset.hunk === hunk.dataset.hunk && one.checkVisibility());
  (box?.closest("tr").querySelector(".reject-hunk") ?? box)?.click();
}

function commentOnLines(root) {
  const selected = findSelectedLines(root);
  if (selected.length > 1) {
    selected[0].dispatchEvent(new CustomEvent("comment-lines", { bubbles: true, detail: selected }));
    return;
  }
  const focused = lineOf(document.activeElement);
  const first = root.querySelector("tr.changed-first");
  const line = focused ?? (first?.matches(LINE) ? first : first?.querySelector(LINE));
  if (line) commentButtonOf(line)?.click();
}
