// Chooses the page for the address, loads its fragment, and keeps it up to date.

import { bindBoard, handleBoardKey, startBoardTimers, updateBoard } from "./board.js";
import { follow } from "./events.js";
import { bindForms, setOnline, showProblem } from "./forms.js";
import { showPlace } from "./places.js";
import { bindActivity, followAgent, isPaused } from "./activity.js";
import { bindReview, clearReview, handleReviewKey, reviewParameters, setFolded } from "./review.js";
import { ReviewState } from "./review_state.js";
import { endSession, enter, fragment, hasSession, Problem, send } from "./session.js";

const main = document.querySelector("#main");
const connection = document.querySelector("#connection");
let page = null;
/// The review that the page shows, if it shows one.
let shownReview = null;
let shownAt = Date.now();
let isOffline = false;
let refreshTimer = null;
let eventTimer = null;

const RESULTS = /^r\d+(\.\.(r\d+)?)?$/;

/// Where an address leads: the fragment to load and how to bring it to life.
function choosePage(path) {
  const words = path.split("/").filter(Boolean);
  if (words.length === 0) return { kind: "board", fragment: "/fragments/board" };
  if (words[0] === "new") return { kind: "new", fragment: `/fragments/new${location.search}` };
  if (words[0] === "about") return { kind: "about", fragment: "/fragments/about" };
  const tab = ["activity", "why"].includes(words[1]) ? words[1] : "review";
  const fragment = `/fragments/plans/${encodeURIComponent(words[0])}/${tab}`;
  if (tab !== "review") return { kind: tab, plan: words[0], fragment };
  const parameters = reviewParameters(words[0]);
  const asked = new URLSearchParams(location.search);
  const results = RESULTS.test(words[1] ?? "") ? words[1] : asked.get("results");
  if (results) parameters.set("results", results);
  // A range is compared as it is; "whole" is for who wants to see everything as if it were new.
  if (results || asked.has("whole")) parameters.delete("looked");
  return { kind: tab, plan: words[0], fragment: `${fragment}?${parameters}` };
}

async function show(isRefresh = false) {
  const wanted = { ...choosePage(location.pathname), address: location.pathname + location.search };
  page = wanted;
  let html;
  let review;
  try {
    [html, review] = await Promise.all([
      fragment(wanted.fragment),
      wanted.kind === "review" ? ReviewState.load(wanted.plan) : null,
    ]);
  } catch (error) {
    if (page === wanted) showFailure(error, isRefresh);
    return;
  }
  if (page !== wanted) return;
  shownAt = Date.now();
  // The stream, or the tab that reads it, may be older than this page.
  setOffline(false);
  const refresh = () => show(true);
  // Rows stay where they are while somebody looks at them.
  if (isRefresh && wanted.kind === "board" && updateBoard(main, html, refresh)) return;
  const kept = isRefresh ? keepPlace() : null;
  main.innerHTML = html;
  const heading = main.querySelector("h1");
  document.title = heading ? `${heading.textContent.trim()} · Planwright` : "Planwright";
  bindForms(main, onDone, onChanged);
  if (wanted.kind === "board") bindBoard(main, refresh);
  if (wanted.kind === "review" && planId()) bindReview(main, planId(), refresh, review);
  shownReview = review;
  if (wanted.kind === "activity") bindActivity(main, refresh);
  bindHead();
  if (main.querySelector("#new-plan")) bindNew();
  for (const button of main.querySelectorAll("[data-end-session]")) {
    button.addEventListener("click", async () => {
      await send("DELETE", `/v1/sessions/${button.dataset.endSession}`);
      show(true);
    });
  }
  if (kept) restorePlace(kept);
  else if (!isRefresh && !showPlace(main)) window.scrollTo(0, 0);
  if (wanted.kind === "activity") followAgent(main);
}

/// The head of a plan's page: long texts on demand, and the choice of results.
function bindHead() {
  for (const text of main.querySelectorAll(".clamped")) {
    if (text.scrollHeight <= text.clientHeight + 2) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "show-all";
    button.textContent = "Show all";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const isWhole = text.classList.toggle("whole");
      button.textContent = isWhole ? "Show less" : "Show all";
      button.setAttribute("aria-expanded", String(isWhole));
    });
    text.after(button);
  }
  main.querySelector("#since")?.addEventListener("change", (event) => {
    const { handle, lastResult } = main.querySelector(".plan-head").dataset;
    go(event.target.value === "" ? `/${handle}/review?whole` : `/${handle}/${event.target.value}..r${lastResult}`);
  });
}

function planId() {
  return main.querySelector("[data-plan-page]")?.dataset.planPage;
}

/// What a refresh must not take away: the scroll position, the focus and open details.
function keepPlace() {
  const active = document.activeElement;
  return {
    top: window.scrollY,
    focus: active && main.contains(active) ? active.id || active.dataset?.plan : null,
    details: [...main.querySelectorAll("details[id]")].map((one) => [one.id, one.open]),
    folded: [...main.querySelectorAll(".file[data-fold-chosen]")].map((file) => [file.dataset.mark, file.classList.contains("folded")]),
  };
}

function restorePlace(kept) {
  window.scrollTo(0, kept.top);
  for (const [id, isOpen] of kept.details) {
    const again = document.getElementById(id);
    if (again) again.open = isOpen;
  }
  const folded = new Map(kept.folded);
  for (const file of main.querySelectorAll(".file")) {
    if (!folded.has(file.dataset.mark)) continue;
    setFolded(file, folded.get(file.dataset.mark));
    file.dataset.foldChosen = "";
  }
  if (!kept.focus) return;
  const again = document.getElementById(kept.focus) ?? main.querySelector(`[data-plan="${CSS.escape(kept.focus)}"]`);
  again?.focus({ preventScroll: true });
}

function showFailure(error, isRefresh) {
  const body = error instanceof Problem ? error.body : { title: "The server does not answer.", hints: [] };
  if (body.status === 401) return showSignIn();
  // What is on the screen stays there; the header says how old it is.
  if (isRefresh || !(error instanceof Problem)) {
    setOffline(true);
    // The event stream may be fine, so it will not tell when to try again.
    clearTimeout(refreshTimer);
    refreshTimer = setTimeout(() => show(true), 2000);
    if (main.querySelector("[data-loaded]") || isRefresh) return;
  }
  main.innerHTML = '<div class="page"><div class="card"><h1></h1><div class="hints"></div></div></div>';
  main.querySelector("h1").textContent = body.title;
  for (const hint of body.hints ?? []) {
    const line = document.createElement("p");
    line.className = "mono";
    line.textContent = hint;
    main.querySelector(".hints").append(line);
  }
}

function showSignIn() {
  endSession();
  main.innerHTML = '<div class="page"><div class="card"><h1>Open this page from your terminal</h1><p>This browser has no session. Run this, and the page opens signed in:</p><p><code>planwright open</code></p></div></div>';
}

async function onDone(answer, form) {
  if (form.id === "send-back") clearReview(main, planId(), shownReview);
  if (form.id === "undo") {
    const undo = answer.undo_plan_id ?? answer.plan_id;
    return go(`/${undo.toLowerCase()}`);
  }
  if (form.id === "new-plan") return go(`/${answer.plan_id.toLowerCase()}/activity`);
  await show(true);
}

/// Another decision came first. The person's drafts stay; the page offers the new state.
function onChanged(problem, form) {
  if (problem.status !== 412) return;
  showProblem(form, {
    title: "This plan changed since you looked at it. Nothing was done; what you typed is kept.",
    hints: [],
  });
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Show what changed";
  button.addEventListener("click", () => show(true));
  form.querySelector(".problem").append(button);
}

function bindNew() {
  const action = main.querySelector("#action");
  if (page.kind === "new") main.querySelector("#goal, #new-plan input")?.focus({ preventScroll: true });
  action?.addEventListener("change", () => go(`/new?action=${encodeURIComponent(action.value)}`));
  for (const example of main.querySelectorAll("[data-example]")) {
    example.addEventListener("click", () => {
      const goal = main.querySelector("[name=goal]");
      goal.value = example.dataset.example;
      goal.dispatchEvent(new Event("input"));
      goal.focus();
    });
  }
}

function go(path) {
  history.pushState(null, "", path);
  return show();
}

function setOffline(value) {
  isOffline = value;
  setOnline(!value);
  describeConnection();
}

function describeConnection() {
  connection.classList.toggle("offline", isOffline);
  const age = Math.round((Date.now() - shownAt) / 1000);
  connection.textContent = isOffline ? `offline, ${age} s old` : "live";
}

function onMessage(message) {
  switch (message.kind) {
    case "online":
      if (isOffline) show(true);
      setOffline(false);
      break;
    case "offline": setOffline(true); break;
    case "ended": showSignIn(); break;
    case "reset": show(true); break;
    case "plan": onEvent(message.data); break;
  }
}

function onEvent(event) {
  const isBoard = page?.kind === "board";
  const isThisPlan = planId() === event.plan_id;
  if (!isBoard && !isThisPlan) return;
  if (page.kind === "activity" && isPaused()) return;
  const typing = main.contains(document.activeElement) && /^(TEXTAREA|INPUT)$/.test(document.activeElement.tagName)
    && document.activeElement.id !== "filter" && document.activeElement.type !== "checkbox";
  const isReviewing = page?.kind === "review" && main.querySelector(".file") !== null;
  // What somebody typed about the plan that they see is not taken away by a newer one.
  const hasDraft = main.querySelector("tr.mine") !== null
    || [...main.querySelectorAll("textarea[data-draft]")].some((field) => field.value.trim() !== "");
  if (isThisPlan && (typing || hasDraft || (isReviewing && event.type === "execute_completed"))) {
    document.querySelector("#news").hidden = false;
    return;
  }
  // Soon, but in a burst of events not more than twice per second.
  if (eventTimer !== null) return;
  eventTimer = setTimeout(() => {
    eventTimer = null;
    show(true);
  }, Math.max(60, 500 - (Date.now() - shownAt)));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  if (link.hasAttribute("download") || link.getAttribute("href").startsWith("/openapi")) return;
  event.preventDefault();
  if (event.target.closest("#news")) { show(true); return; }
  go(link.getAttribute("href"));
});

/// Closes a menu on a click or focus elsewhere.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(except)) menu.open = false;
  }
}

document.addEventListener("pointerdown", (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeMenus(null);
});

document.addEventListener("keydown", (event) => {
  const isTyping = /^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "Escape" && isTyping) { event.target.blur(); return; }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  if (event.key === " " && event.target.closest("button, summary, input")) return;
  if (event.key === "?") { document.querySelector("#help").showModal(); return; }
  if (event.key === "+") { go("/new"); return; }
  if (event.key === "b" && page?.kind !== "board") { go("/"); return; }
  const handled = page?.kind === "board" ? handleBoardKey(main, event.key) : handleReviewKey(main, event.key);
  if (handled) event.preventDefault();
});

document.querySelector("#keys").addEventListener("click", () => document.querySelector("#help").showModal());

document.querySelector("#theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  const theme = isDark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("planwright-theme", theme);
});

addEventListener("popstate", () => {
  // Only the place within the page changed.
  if (page?.address === location.pathname + location.search) showPlace(main);
  else show();
});
setInterval(() => { if (isOffline) describeConnection(); }, 1000);
setInterval(() => { if (!isOffline && page?.kind === "board") show(true); }, 30000);
startBoardTimers(main, () => !isOffline && page?.kind === "board");
setInterval(() => {
  if (!isOffline && page?.kind === "activity" && !isPaused() && main.querySelector("[data-live]")) show(true);
}, 2000);

async function start() {
  if (location.pathname === "/enter") {
    try {
      history.replaceState(null, "", await enter(location.hash));
    } catch (error) {
      showFailure(error, false);
      return;
    }
  }
  if (!hasSession()) { showSignIn(); return; }
  await show();
  follow(onMessage);
}

start();
