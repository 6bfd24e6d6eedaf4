// Chooses the page for the address, loads its fragment, and keeps it up to date.

import { bindBoard, handleBoardKey, startBoardTimers, updateBoard } from "./board.js";
import { follow } from "./events.js";
import { bindForms, setOnline, showProblem } from "./forms.js";
import { showPlace } from "./places.js";
import { bindReview, clearReview, handleReviewKey } from "./review.js";
import { endSession, enter, fragment, hasSession, Problem, send } from "./session.js";

const main = document.querySelector("#main");
const connection = document.querySelector("#connection");
let page = null;
let shownAt = Date.now();
let isOffline = false;
let refreshTimer = null;
let eventTimer = null;

/// Where an address leads: the fragment to load and how to bring it to life.
function choosePage(path) {
  const words = path.split("/").filter(Boolean);
  if (words.length === 0) return { kind: "board", fragment: "/fragments/board" };
  if (words[0] === "new") return { kind: "new", fragment: `/fragments/new${location.search}` };
  if (words[0] === "about") return { kind: "about", fragment: "/fragments/about" };
  const tab = ["review", "activity", "why"].includes(words[1]) ? words[1] : "review";
  const search = /^r\d+$/.test(words[1]) ? `?results=${words[1]}` : location.search;
  return { kind: tab, plan: words[0], fragment: `/fragments/plans/${encodeURIComponent(words[0])}/${tab}${tab === "review" ? search : ""}` };
}

async function show(isRefresh = false) {
  const wanted = { ...choosePage(location.pathname), address: location.pathname + location.search };
  page = wanted;
  let html;
  try {
    html = await fragment(wanted.fragment);
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
  if (wanted.kind === "review") bindReview(main, planId());
  if (main.querySelector("#new-plan")) bindNew();
  for (const button of main.querySelectorAll("[data-end-session]")) {
    button.addEventListener("click", async () => {
      await send("DELETE", `/v1/sessions/${button.dataset.endSession}`);
      show(true);
    });
  }
  if (kept) restorePlace(kept);
  else if (!isRefresh && !showPlace(main)) window.scrollTo(0, 0);
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
    open: [...main.querySelectorAll("details[open][id]")].map((one) => one.id),
  };
}

function restorePlace(kept) {
  window.scrollTo(0, kept.top);
  for (const id of kept.open) document.getElementById(id)?.setAttribute("open", "");
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
  if (form.id === "send-back") clearReview(planId());
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
  if (!isOffline && page?.kind === "activity" && main.querySelector("[data-live]")) show(true);
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
