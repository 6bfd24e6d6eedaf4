// Which hunks land. What is rejected stays out of the landing and becomes a plan of its own.

import { prepareForm, showProblem, turnOff } from "./forms.js";
import { Problem, send } from "./session.js";

/// How many hunks the shown command names. A command for 1,200 hunks would fill the screen.
const MAX_SHOWN_FLAGS = 3;

export function bindChoices(root, review, plan, state) {
  const form = root.querySelector("#land");
  if (!form) return;
  const button = form.querySelector("button");
  const note = root.querySelector("#land-note");
  const branch = form.querySelector("[name=branch]");
  const command = root.querySelector(".footer .command");
  const whole = { label: button.textContent, command: command.textContent, note: note.textContent };
  // Two files that only make sense together share a hunk.
  const hunks = [...new Set([...review.querySelectorAll(".hunk-choice")].map((box) => box.dataset.hunk))];
  const sort = () => {
    const of = (...words) => hunks.filter((hunk) => words.includes(state.standingOf(hunk)));
    return { kept: of("unmarked", "accepted"), rejected: of("rejected"), undecided: of("undecided") };
  };
  const apply = () => {
    const { kept, rejected, undecided } = sort();
    for (const row of review.querySelectorAll("tr.choice")) {
      const box = row.querySelector(".hunk-choice");
      const standing = state.standingOf(box.dataset.hunk);
      showChoice(row, box, standing === "unmarked" || standing === "accepted", standing === "undecided");
    }
    const left = new Set(rejected);
    for (const hunk of review.querySelectorAll(".hunk")) hunk.classList.toggle("rejected", left.has(hunk.dataset.hunk));
    // A single hunk is landed or not: there is nothing to choose, unless an earlier choice is still open.
    review.classList.toggle("unchoosable", hunks.length === 1 && kept.length === 1);
    const isWhole = kept.length === hunks.length;
    const place = branch?.value.trim() ? `Land on ${branch.value.trim()}` : whole.label;
    const part = `${place.replace("Land", `Land ${kept.length} of ${hunks.length} hunks`)}; the rest becomes a plan`;
    button.textContent = isWhole || undecided.length > 0 ? place : part;
    // What was judged is the whole result.
    note.textContent = isWhole || undecided.length > 0 ? whole.note : "Rules were not checked on this choice yet. They are, before it lands.";
    command.textContent = isWhole || kept.length === 0 ? whole.command : `${whole.command}${showFlags(kept)}`;
    command.hidden = undecided.length > 0;
    showUndecided(root, undecided);
    turnOff(button, kept.length === 0 || undecided.length > 0 || state.isChanging);
  };
  const decide = (box, isAccepted) => {
    const choice = isAccepted ? "accepted" : "rejected";
    state.change({ choose: { hunks: [box.dataset.hunk], choice } }).then(
      () => showProblem(form, null),
      (error) => showProblem(form, error instanceof Problem ? error.body : { title: "The server does not answer. The choice was not kept." }),
    );
  };
  // While a choice is on its way, nothing can land without it.
  state.listen(() => {
    if (state.isChanging) turnOff(button, true);
    else apply();
  });
  branch?.addEventListener("input", apply);
  review.addEventListener("change", (event) => {
    const box = event.target.closest(".hunk-choice");
    if (box) decide(box, box.checked);
  });
  review.addEventListener("click", (event) => {
    const decision = event.target.closest(".accept-hunk, .reject-hunk");
    if (!decision) return;
    const box = decision.closest("tr").querySelector(".hunk-choice");
    decide(box, decision.classList.contains("accept-hunk"));
    box.focus({ preventScroll: true });
  });
  prepareForm(form, async (extra, requestBody) => {
    const { kept } = sort();
    if (kept.length === hunks.length) return;
    const body = { shown: review.dataset.shown, hunks: kept, mode: "take_keep_rest" };
    const key = { ...extra, "Idempotency-Key": `${extra["Idempotency-Key"]}-pick` };
    const picked = await send("POST", `/v1/plans/${plan}/pick`, body, key);
    // The rules of the landing are checked on the picked result.
    form.dataset.version = picked.version;
    extra["If-Match"] = `"${picked.version}"`;
    // The pick made another result, and its answer names it.
    delete requestBody.shown;
  });
  apply();
}

function showChoice(row, box, isKept, isUndecided) {
  box.checked = isKept;
  box.indeterminate = isUndecided;
  row.classList.toggle("undecided", isUndecided);
  row.querySelector(".undecided-note")?.remove();
  if (!isUndecided) return;
  const note = document.createElement("div");
  note.className = "undecided-note";
  const text = document.createElement("span");
  text.textContent = "Not decided: new since you rejected part of this file.";
  note.append(text);
  for (const [name, label] of [["accept-hunk", "Accept"], ["reject-hunk", "Reject"]]) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = name;
    button.textContent = label;
    note.append(button);
  }
  row.querySelector(".hunk-bar").append(note);
}

function showFlags(kept) {
  const flags = kept.slice(0, MAX_SHOWN_FLAGS).map((hunk) => ` --hunk ${hunk.slice(0, 10)}`);
  const more = kept.length - flags.length;
  return flags.join("") + (more > 0 ? ` … and ${more} more` : "");
}

function showUndecided(root, undecided) {
  let note = root.querySelector("#undecided");
  if (undecided.length === 0) {
    note?.remove();
    return;
  }
  if (!note) {
    note = document.createElement("b");
    note.id = "undecided";
    note.setAttribute("role", "status");
    root.querySelector(".footer .grow").prepend(note);
  }
  const count = undecided.length;
  note.textContent = count === 1
    ? "1 hunk is new since you rejected part of its file: decide it"
    : `${count} hunks are new since you rejected part of their files: decide them`;
}
