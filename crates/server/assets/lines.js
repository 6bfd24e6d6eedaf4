// Lines of the diff. A line is a row, or half of one if both versions stand side by side.

export const LINE = "[data-line]";

export function codeOf(line) {
  return line.matches(".code") ? line : line.querySelector(".code");
}

export function textOf(line) {
  return codeOf(line).textContent;
}

export function rowOf(line) {
  return line.closest("tr");
}

export function commentButtonOf(line) {
  const cell = line.matches(".code") ? line.previousElementSibling : line;
  return cell?.querySelector(".comment-on") ?? null;
}

/// The line that an element is part of or belongs to, such as the button beside it.
export function lineOf(element) {
  const row = element?.closest("tr");
  if (!row) return null;
  if (row.dataset.line) return row;
  const cell = element.closest("td");
  if (cell?.matches(LINE)) return cell;
  const next = cell?.nextElementSibling;
  return next?.matches(LINE) ? next : row.querySelector(LINE);
}

export function hunkOf(element) {
  return element?.closest(".hunk") ?? null;
}

export function fileOf(element) {
  return element?.closest(".file") ?? null;
}

/// The lines of a file on one side, between two numbers.
export function linesBetween(file, side, first, last) {
  return [...file.querySelectorAll(LINE)].filter((line) => {
    const number = Number(line.dataset.line);
    return line.dataset.side === side && number >= first && number <= last;
  });
}

/// How many cells a row of the diff has.
export function countColumns(row) {
  return row.closest("table").querySelectorAll("col").length;
}
