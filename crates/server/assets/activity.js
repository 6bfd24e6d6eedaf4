// The activity of a plan: follows the agent to its newest words, or holds still while it is paused.

let isFollowing = true;
let paused = false;
/// The page that the choice was made on; another plan starts anew.
let shownPlan = null;

export function isPaused() {
  return paused;
}

export function bindActivity(root, refresh) {
  const plan = root.querySelector("[data-plan-page]")?.dataset.planPage;
  if (plan !== shownPlan) {
    shownPlan = plan;
    isFollowing = true;
    paused = false;
  }
  const [follow, pause] = [root.querySelector("#follow"), root.querySelector("#pause")];
  if (!follow) {
    paused = false;
    return;
  }
  const show = () => {
    follow.setAttribute("aria-pressed", String(isFollowing && !paused));
    pause.setAttribute("aria-pressed", String(paused));
  };
  follow.addEventListener("click", () => {
    isFollowing = !isFollowing || paused;
    paused = false;
    show();
    refresh();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    show();
    if (!paused) refresh();
  });
  show();
}

/// Shows the newest entry, if somebody follows and nobody is typing.
export function followAgent(root) {
  if (!isFollowing || paused || !root.querySelector("#follow")) return;
  if (/^(TEXTAREA|INPUT)$/.test(document.activeElement?.tagName)) return;
  root.querySelector("#transcript .entry:last-of-type")?.scrollIntoView({ block: "nearest" });
}

// Who scrolls up wants to read.
addEventListener("wheel", (event) => {
  if (event.deltaY < 0) isFollowing = false;
}, { passive: true });
