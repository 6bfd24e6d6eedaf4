// Comments on lines: written beside the lines that they are about, kept by the server, and sent together.

import { readDraft, writeDraft } from "./drafts.js";
import { prepareForm, showProblem } from "./forms.js";
import { commentButtonOf, countColumns, fileOf, LINE, lineOf, linesBetween, rowOf, textOf } from "./lines.js";
import { reveal } from "./places.js";
import { realPath } from "./review_state.js";
import { Problem } from "./session.js";

/// Shows a plan's comments and lets a person write them. What is being written is kept in this browser until the
/// person keeps it.
export function bindComments(review, plan, state) {
  const draftName = `${plan}:editing`;
  const form = review.querySelector("#send-back");
  const readEditing = () => readDraft(draftName, null);
  const writeEditing = (comment) => {
    const { shownAt, isEditing, ...kept } = comment ?? {};
    writeDraft(draftName, comment ? kept : "");
  };
  const all = () => listComments(state, readEditing()).map((comment) => ({ ...comment, shownAt: findLine(review, comment) }));
  if (form) {
    // The field holds what was typed and nothing else; comments are sent beside it, and deleted in the same commit.
    prepareForm(form, async (_extra, body) => {
      const editing = readEditing();
      if (editing && editing.text.trim() !== "") await state.change(toChange(editing));
      writeEditing(null);
      if (state.comments.length > 0) body.comments = state.comments.map((comment) => comment.id);
    });
    form.querySelector("#feedback").addEventListener("input", () => showCounts(form, all()));
  }
  const render = (isFocusWanted = false) => {
    for (const row of review.querySelectorAll("tr.mine, tr.sent")) row.remove();
    for (const line of review.querySelectorAll(".commented")) line.classList.remove("commented");
    for (const comment of readDraft(`${plan}:sent`, [])) {
      const line = findAnswer(review, comment);
      if (line) rowOf(line).after(makeSentRow(line, comment));
    }
    const comments = all();
    for (const comment of comments) {
      if (!comment.shownAt) continue;
      markLines(comment.shownAt, comment);
      rowOf(comment.shownAt).after(comment.isEditing ? makeEditor(comment) : makeDraftRow(comment));
    }
    showList(review, comments);
    if (form) showCounts(form, comments);
    if (isFocusWanted) review.querySelector("tr.mine textarea")?.focus({ preventScroll: true });
  };
  const edit = (comment) => {
    writeEditing(comment);
    render(true);
  };
  const change = async (next, ...changes) => {
    try {
      await state.change(...changes);
      next?.();
      render();
    } catch (error) {
      const problem = error instanceof Problem ? error.body : { title: "The server does not answer. What you typed is kept." };
      const card = review.querySelector("tr.mine .comment:has(textarea)") ?? form;
      if (card) showProblem(card, problem);
    }
  };
  const keep = (comment) => {
    if (comment.text.trim() === "") return drop(comment);
    return change(() => writeEditing(null), toChange(comment));
  };
  const drop = (comment) => {
    if (readEditing()?.id === comment.id) writeEditing(null);
    if (comment.id) return change(null, { drop: { comments: [comment.id] } });
    render();
    return Promise.resolve();
  };
  const makeDraftRow = (comment) => {
    const [row, card] = makeRow(comment.shownAt, "mine");
    const about = document.createElement("div");
    about.className = "about";
    about.textContent = `you, on ${nameLines(comment)}`;
    const text = document.createElement("p");
    text.textContent = comment.text;
    text.dir = "auto";
    card.append(about, text, makeButtons([["Edit", () => edit(comment)], ["Discard", () => drop(comment)]]));
    return row;
  };
  const makeEditor = (comment) => {
    const [row, card] = makeRow(comment.shownAt, "mine");
    const field = document.createElement("textarea");
    field.value = comment.text;
    field.dir = "auto";
    field.setAttribute("aria-label", `Comment on ${nameLines(comment)} of ${comment.path}`);
    field.addEventListener("input", () => {
      comment.text = field.value;
      writeEditing(comment);
      if (form) showCounts(form, all());
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" && !(event.key === "Enter" && (event.ctrlKey || event.metaKey))) return;
      event.preventDefault();
      event.stopPropagation();
      keep(comment);
      commentButtonOf(comment.shownAt)?.focus({ preventScroll: true });
    });
    card.append(describeLines(comment, edit), field);
    card.append(makeButtons([["Keep", () => keep(comment)], ["Discard", () => drop(comment)]]));
    return row;
  };
  const begin = (lines) => edit(makeComment(review, lines));
  review.addEventListener("click", (event) => {
    const button = event.target.closest(".comment-on");
    if (!button) return;
    const line = lineOf(button);
    const editing = readEditing();
    if (event.shiftKey && editing && !editing.id && isInSameFile(editing, line)) {
      const number = Number(line.dataset.line);
      const [first, last] = [Math.min(editing.first, number), Math.max(editing.line, number)];
      edit({ ...editing, first, line: last, quote: quoteShown(review, fileOf(line), editing.side, first, last) });
      return;
    }
    // What was typed about other lines is not lost.
    if (editing && editing.text.trim() !== "") keep(editing).then(() => begin([line]));
    else begin([line]);
  });
  review.addEventListener("comment-lines", (event) => begin(event.detail));
  review.querySelector("#comments")?.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-comment]");
    if (!link) return;
    event.preventDefault();
    event.stopPropagation();
    const line = all()[Number(link.dataset.comment)]?.shownAt;
    if (line) reveal(line, "center");
  });
  render();
}

/// The change of the review that keeps a comment.
function toChange({ id, resource, path, side, first, line, quote, text }) {
  if (id) return { rewrite: { comment: id, text } };
  const comment = { resource, path, side, first_line: first, last_line: line, text };
  return { comment: quote === undefined ? comment : { ...comment, quote } };
}

/// The comments that the server keeps, and the one that is being written.
function listComments(state, editing) {
  const kept = state.comments.map((comment) => {
    const length = comment.last_line - comment.first_line;
    const first = comment.found_at ?? comment.first_line;
    return {
      id: comment.id,
      resource: comment.resource,
      path: comment.path,
      side: comment.side,
      first,
      line: first + length,
      quote: comment.quote,
      text: comment.text,
      isLost: comment.place === "lines_gone" || comment.place === "file_gone",
    };
  });
  if (!editing) return kept;
  const at = kept.findIndex((comment) => comment.id === editing.id);
  const written = { ...editing, isEditing: true };
  return at < 0 ? [...kept, written] : kept.with(at, { ...kept[at], ...written });
}

function makeComment(review, lines) {
  const file = fileOf(lines[0]);
  const { side } = lines.at(-1).dataset;
  const numbers = lines.filter((line) => line.dataset.side === side).map((line) => Number(line.dataset.line));
  const [first, line] = [Math.min(...numbers), Math.max(...numbers)];
  const quote = quoteShown(review, file, side, first, line);
  return { resource: file.dataset.resource, path: realPath(file), side, first, line, quote, text: "" };
}

/// The lines as they are shown. For the current result, the server quotes them as they are.
function quoteShown(review, file, side, first, last) {
  if (!review.dataset.results) return undefined;
  return linesBetween(file, side, first, last).map(textOf).join("\n");
}

function isInSameFile(comment, line) {
  const file = fileOf(line);
  return comment.resource === file.dataset.resource && comment.side === line.dataset.side
    && JSON.stringify(comment.path) === JSON.stringify(realPath(file));
}

/// The lines of a text that somebody selected.
export function findSelectedLines(root) {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed || selection.rangeCount === 0) return [];
  const range = selection.getRangeAt(0);
  const lines = [...root.querySelectorAll(LINE)].filter((line) => range.intersectsNode(line) && commentButtonOf(line));
  return lines.filter((line) => fileOf(line) === fileOf(lines[0]));
}

function makeRow(line, className) {
  const row = document.createElement("tr");
  row.className = className;
  const cell = row.insertCell();
  cell.colSpan = countColumns(rowOf(line));
  const card = document.createElement("div");
  card.className = "comment";
  cell.append(card);
  return [row, card];
}

function makeSentRow(line, comment) {
  const [row, card] = makeRow(line, "sent");
  card.classList.add("sent");
  const about = document.createElement("p");
  about.className = "about";
  about.textContent = `You said about ${nameLines(comment)} of r${comment.result}:`;
  const text = document.createElement("p");
  text.textContent = comment.text;
  text.dir = "auto";
  card.append(about, text);
  return row;
}

function nameLines(comment) {
  const side = comment.side === "old" ? "old " : "";
  return comment.first === comment.line ? `${side}line ${comment.line}` : `${side}lines ${comment.first} to ${comment.line}`;
}

/// Says which lines a comment is about. The first line of a new one can be changed.
function describeLines(comment, edit) {
  const about = document.createElement("div");
  about.className = "about";
  if (comment.id) {
    about.textContent = `you, on ${nameLines(comment)}`;
    return about;
  }
  const field = document.createElement("input");
  field.type = "number";
  field.min = "1";
  field.max = String(comment.line);
  field.value = String(comment.first);
  field.setAttribute("aria-label", "First line of the comment");
  field.addEventListener("change", () => {
    if (field.checkValidity() && field.value !== "") edit({ ...comment, first: Number(field.value) });
  });
  about.append(comment.side === "old" ? "Old lines " : "Lines ", field, ` to ${comment.line}`);
  return about;
}

function markLines(line, comment) {
  for (const one of linesBetween(fileOf(line), comment.side, comment.first, comment.line)) one.classList.add("commented");
}

function makeButtons(pairs) {
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

function findFile(review, comment) {
  const path = JSON.stringify(comment.path);
  return [...review.querySelectorAll(".file")].find((file) => file.dataset.resource === comment.resource && JSON.stringify(realPath(file)) === path);
}

/// The last shown line that a comment is about.
function findLine(review, comment) {
  const file = comment.isLost ? null : findFile(review, comment);
  return file ? linesBetween(file, comment.side, comment.first, comment.line).at(-1) ?? null : null;
}

/// Where the answer to a comment that was sent is to be looked for: the line next to where it was.
function findAnswer(review, comment) {
  const file = findFile(review, comment);
  if (!file) return null;
  const lines = [...file.querySelectorAll(LINE)].filter((line) => line.dataset.side === comment.side);
  const distance = (line) => Math.abs(Number(line.dataset.line) - comment.line);
  return lines.reduce((best, line) => (best === null || distance(line) < distance(best) ? line : best), null);
}

function placeOf(comment) {
  const lines = comment.first === comment.line ? `${comment.line}` : `${comment.first}-${comment.line}`;
  return `${comment.path}:${lines}`;
}

function showList(review, comments) {
  const list = review.querySelector("#comments");
  if (!list) return;
  list.replaceChildren(...comments.map((comment, number) => {
    const item = document.createElement("li");
    if (comment.shownAt) {
      const link = document.createElement("a");
      link.href = "#";
      link.dataset.comment = String(number);
      link.textContent = placeOf(comment);
      item.append(link);
    } else {
      item.append(`${placeOf(comment)} ${comment.isLost ? "(its lines are gone)" : "(not shown here)"}`);
    }
    const text = document.createElement("span");
    text.className = "text";
    text.textContent = ` ${comment.text}`;
    item.append(text);
    return item;
  }));
  review.querySelector("#comment-count").textContent = String(comments.length);
  review.querySelector("#comment-hint").hidden = comments.length > 0;
}

function showCounts(form, comments) {
  const count = comments.length;
  form.querySelector("[name=text]").required = comments.every((comment) => comment.text.trim() === "");
  form.querySelector("button[type=submit]").textContent = count === 0 ? "Send back…" : `Send back ${count}`;
  const shortcut = document.querySelector("#go-send-back");
  if (shortcut) shortcut.textContent = count === 0 ? "Send back" : `Send back ${count}`;
}

/// Remembers what was sent, to show it beside the changes that answer it.
export function rememberSent(plan, result, state) {
  const sent = listComments(state, null).map(({ resource, path, side, first, line, text }) => ({ resource, path, side, first, line, text, result }));
  writeDraft(`${plan}:sent`, sent);
}
