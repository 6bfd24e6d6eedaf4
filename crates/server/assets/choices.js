// Which hunks land. What is rejected stays out of the landing and becomes a plan of its own.

import { readDraft, writeDraft } from "./drafts.js";
import { prepareForm, turnOff } from "./forms.js";
import { send } from "./session.js";

/// How many hunks the shown command names. A command for 1,200 hunks would fill the screen.
const MAX_SHOWN_FLAGS = 3;

/// How many hunks are remembered as seen.
const MAX_SEEN_HUNKS = 5000;

/// Enough of a hunk's id to recognize it.
const shorten = (hunk) => hunk.slice(0, 16);

export function bindChoices(root, review, plan) {
  const form = root.querySelector("#land");
  if (!form) return;
  const choices = new HunkChoices(review, plan);
  const button = form.querySelector("button");
  const command = root.querySelector(".footer .command");
  const whole = { label: button.textContent, command: command.textContent };
  const apply = () => {
    const { kept, rejected, undecided } = choices.sort();
    for (const row of review.querySelectorAll("tr.choice")) {
      const box = row.querySelector(".hunk-choice");
      showChoice(row, box, kept.includes(box.dataset.hunk), undecided.includes(box.dataset.hunk));
    }
    for (const line of review.querySelectorAll("tr[data-hunk]")) {
      line.classList.toggle("rejected", rejected.includes(line.dataset.hunk));
    }
    // A single hunk is landed or not: there is nothing to choose, unless an earlier choice is still open.
    review.classList.toggle("unchoosable", choices.hunks.length === 1 && kept.length === 1);
    const isWhole = kept.length === choices.hunks.length;
    const part = `${whole.label.replace("Land", `Land ${kept.length} of ${choices.hunks.length} hunks`)}; the rest becomes a plan`;
    button.textContent = isWhole || undecided.length > 0 ? whole.label : part;
    const isOff = kept.length === 0 || undecided.length > 0;
    turnOff(button, isOff);
    command.textContent = isWhole || kept.length === 0 ? whole.command : `${whole.command}${showFlags(kept)}`;
    command.hidden = undecided.length > 0;
    showUndecided(root, undecided);
  };
  review.addEventListener("change", (event) => {
    const box = event.target.closest(".hunk-choice");
    if (!box) return;
    choices.decide(box, box.checked);
    apply();
  });
  review.addEventListener("click", (event) => {
    const decision = event.target.closest(".accept-hunk, .reject-hunk");
    if (!decision) return;
    const box = decision.closest("tr").querySelector(".hunk-choice");
    choices.decide(box, decision.classList.contains("accept-hunk"));
    apply();
    box.focus({ preventScroll: true });
  });
  prepareForm(form, async (extra) => {
    const { kept } = choices.sort();
    if (kept.length === choices.hunks.length) return;
    const body = { shown: review.dataset.shown, hunks: kept, mode: "take_keep_rest" };
    const key = { ...extra, "Idempotency-Key": `${extra["Idempotency-Key"]}-pick` };
    const picked = await send("POST", `/v1/plans/${plan}/pick`, body, key);
    // The rules of the landing are checked on the picked result.
    form.dataset.version = picked.version;
    extra["If-Match"] = `"${picked.version}"`;
  });
  apply();
}

/// A person's choices for a plan. They are kept until the plan's drafts are dropped, and outlive the result they were
/// made on: the id of a hunk stays the same while its lines do.
class HunkChoices {
  constructor(review, plan) {
    this.name = `${plan}:choices`;
    this.files = new Map();
    for (const box of review.querySelectorAll(".hunk-choice")) {
      const file = box.closest(".file");
      const paths = [file.dataset.path, file.dataset.from].filter(Boolean);
      // Two files that only make sense together share a hunk.
      this.files.set(box.dataset.hunk, [...(this.files.get(box.dataset.hunk) ?? []), ...paths]);
    }
    this.hunks = [...this.files.keys()];
    this.carryOver();
  }

  read() {
    return { rejected: {}, undecided: {}, seen: [], ...readDraft(this.name, {}) };
  }

  write(stored) {
    const isEmpty = Object.keys(stored.rejected).length + Object.keys(stored.undecided).length === 0;
    const seen = [...new Set([...this.hunks.map(shorten), ...stored.seen])].slice(0, MAX_SEEN_HUNKS);
    writeDraft(this.name, isEmpty ? "" : { ...stored, seen });
  }

  /// A rejected hunk that a newer result replaced says nothing about what replaced it, and neither does silence:
  /// new hunks of its file are undecided.
  carryOver() {
    const stored = this.read();
    const isGone = (hunk) => !this.files.has(hunk);
    const lost = new Set();
    for (const [hunk, choice] of [...Object.entries(stored.rejected), ...Object.entries(stored.undecided)]) {
      if (isGone(hunk) && !choice.lost) {
        choice.paths.forEach((path) => lost.add(path));
        choice.lost = true;
      }
    }
    const seen = new Set(stored.seen);
    for (const [hunk, paths] of this.files) {
      const isNew = !seen.has(shorten(hunk)) && !(hunk in stored.rejected);
      if (isNew && paths.some((path) => lost.has(path))) stored.undecided[hunk] = { paths };
    }
    for (const hunk of Object.keys(stored.undecided)) {
      if (isGone(hunk)) delete stored.undecided[hunk];
    }
    this.write(stored);
  }

  decide(box, isAccepted) {
    const hunk = box.dataset.hunk;
    const stored = this.read();
    delete stored.undecided[hunk];
    if (isAccepted) delete stored.rejected[hunk];
    else stored.rejected[hunk] = { paths: this.files.get(hunk) };
    this.write(stored);
  }

  sort() {
    const { rejected, undecided } = this.read();
    return {
      kept: this.hunks.filter((hunk) => !(hunk in rejected) && !(hunk in undecided)),
      rejected: this.hunks.filter((hunk) => hunk in rejected),
      undecided: this.hunks.filter((hunk) => hunk in undecided),
    };
  }
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
  row.cells[0].append(note);
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
