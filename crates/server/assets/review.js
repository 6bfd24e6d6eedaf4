// The review: viewed files, which hunks land, comments on lines, and what is sent back.

import { bindChoices } from "./choices.js";
import { readDraft, writeDraft } from "./drafts.js";
import { prepareForm } from "./forms.js";
import { bindPlaces, moveToHunk, reveal } from "./places.js";

export function bindReview(root, plan) {
  const review = root.querySelector(".review");
  if (!review) return;
  bindPlaces(review);
  bindViewed(review, plan);
  bindComments(review, plan);
  if (review.dataset.shown) bindChoices(root, review, plan);
}

function bindViewed(review, plan) {
  const name = `${plan}:viewed`;
  const apply = () => {
    const viewed = readDraft(name, []);
    let count = 0;
    for (const file of review.querySelectorAll(".file")) {
      // A mark belongs to the content, so a changed file is no longer viewed.
      const isViewed = viewed.includes(file.dataset.mark);
      file.classList.toggle("viewed", isViewed);
      file.querySelector(".viewed-mark").checked = isViewed;
      review.querySelector(`.file-list a[data-file="${file.id}"]`)?.classList.toggle("viewed", isViewed);
      count += Number(isViewed);
    }
    const total = review.querySelectorAll(".file").length;
    review.querySelector("#viewed-count").textContent = `${count} of ${total} viewed`;
  };
  for (const file of review.querySelectorAll(".file")) {
    file.querySelector(".viewed-mark").addEventListener("change", (event) => {
      const others = readDraft(name, []).filter((mark) => mark !== file.dataset.mark);
      writeDraft(name, event.target.checked ? [...others, file.dataset.mark] : others);
      apply();
    });
  }
  apply();
}

function bindComments(review, plan) {
  const name = `${plan}:comments`;
  const form = review.querySelector("#send-back");
  if (form) {
    // The field holds what was typed and nothing else; comments join it when it is sent.
    prepareForm(form, async (_extra, body) => {
      body.text = composeText(readDraft(name, []), body.text ?? "");
    });
  }
  const render = (editing = null) => {
    for (const row of review.querySelectorAll("tr.mine")) row.remove();
    const comments = readDraft(name, []);
    const lost = [];
    comments.forEach((comment, number) => {
      const line = findLine(review, comment);
      if (line) line.after(commentRow(comment, number, editing === number));
      else lost.push(comment);
    });
    showList(review, comments, lost);
    if (form) {
      const count = comments.length;
      form.querySelector("[name=text]").required = composeText(comments, "") === "";
      form.querySelector("button[type=submit]").textContent = count === 0 ? "Send back…" : `Send back ${count}`;
    }
    if (editing !== null) review.querySelector("tr.mine textarea")?.focus();
  };
  const commentRow = (comment, number, isEditing) => {
    const row = document.createElement("tr");
    row.className = "mine";
    const cell = row.insertCell();
    cell.colSpan = 4;
    const card = document.createElement("div");
    card.className = "comment";
    cell.append(card);
    const save = (text) => {
      const all = readDraft(name, []);
      if (text.trim() === "") all.splice(number, 1);
      else all[number].text = text;
      writeDraft(name, all);
      render();
    };
    if (isEditing) {
      const field = document.createElement("textarea");
      field.value = comment.text;
      field.setAttribute("aria-label", `Comment on ${comment.path} line ${comment.line}`);
      field.addEventListener("input", () => {
        const all = readDraft(name, []);
        all[number].text = field.value;
        writeDraft(name, all);
        if (form) form.querySelector("[name=text]").required = composeText(all, "") === "";
      });
      field.addEventListener("keydown", (event) => {
        if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) {
          event.preventDefault();
          event.stopPropagation();
          save(field.value);
        }
      });
      card.append(field, buttons([["Keep", () => save(field.value)], ["Discard", () => save("")]]));
    } else {
      const text = document.createElement("p");
      text.textContent = comment.text;
      card.append(text, buttons([["Edit", () => render(number)], ["Discard", () => save("")]]));
    }
    return row;
  };
  review.addEventListener("click", (event) => {
    const button = event.target.closest(".comment-on");
    if (!button) return;
    const row = button.closest("tr");
    const all = readDraft(name, []).filter((one) => one.text.trim() !== "");
    all.push({
      path: row.closest(".file").dataset.path,
      side: row.dataset.side,
      line: Number(row.dataset.line),
      quote: row.querySelector(".code").textContent,
      text: "",
    });
    writeDraft(name, all);
    render(all.length - 1);
  });
  render();
}

function buttons(pairs) {
  const box = document.createElement("div");
  box.className = "actions";
  for (const [label, act] of pairs) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", act);
    box.append(button);
  }
  return box;
}

/// The line a comment belongs to: the same line if its text is the same, otherwise another line with the text.
function findLine(review, comment) {
  const file = [...review.querySelectorAll(".file")].find((one) => one.dataset.path === comment.path);
  if (!file) return null;
  const lines = [...file.querySelectorAll("tr[data-line]")].filter(
    (line) => line.querySelector(".code").textContent === comment.quote,
  );
  return lines.find((line) => Number(line.dataset.line) === comment.line && line.dataset.side === comment.side)
    ?? lines[0] ?? null;
}

function showList(review, comments, lost) {
  const list = review.querySelector("#comments");
  if (!list) return;
  list.replaceChildren(...comments.map((comment) => {
    const item = document.createElement("li");
    const note = lost.includes(comment) ? " (its line is gone)" : "";
    item.textContent = `${comment.path}:${comment.line}${note} ${comment.text}`;
    return item;
  }));
  review.querySelector("#comment-count").textContent = String(comments.length);
}

/// One feedback for the agent: the person's text, then every comment with the line it quotes.
function composeText(comments, text) {
  const parts = comments
    .filter((comment) => comment.text.trim() !== "")
    .map((comment) => `${comment.path}:${comment.line}\n> ${comment.quote}\n${comment.text}`);
  return [text, ...parts].filter((part) => part.trim() !== "").join("\n\n");
}

export function clearReview(plan) {
  writeDraft(`${plan}:comments`, []);
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
    case "c": moveToLine(root); return true;
    case "x": toggleHunk(root); return true;
    case "n": moveToHunk(root, 1); return true;
    case "p": moveToHunk(root, -1); return true;
    case "l": document.querySelector("#land button")?.focus(); return true;
    case "z": document.querySelector("#undo button")?.focus(); return true;
  }
  return false;
}

function toggleHunk(root) {
  const line = document.activeElement?.closest("tr[data-hunk]") ?? root.querySelector("tr.changed-first");
  if (!line) return;
  const boxes = [...root.querySelectorAll(".hunk-choice")];
  const box = boxes.find((one) => one.dataset.hunk === line.dataset.hunk && one.checkVisibility());
  (box?.closest("tr").querySelector(".reject-hunk") ?? box)?.click();
}

function moveToLine(root) {
  const focused = document.activeElement?.closest("tr[data-line]");
  const line = focused ?? root.querySelector("tr.changed-first");
  line?.querySelector(".comment-on")?.click();
}
