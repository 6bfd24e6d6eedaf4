// What a person typed and did not send yet. It survives reloads, server restarts and newer results.

const PREFIX = "planwright-draft:";

export function readDraft(name, otherwise) {
  const text = localStorage.getItem(PREFIX + name);
  return text === null ? otherwise : JSON.parse(text);
}

export function writeDraft(name, value) {
  const isEmpty = value === "" || (Array.isArray(value) && value.length === 0);
  if (isEmpty) localStorage.removeItem(PREFIX + name);
  else localStorage.setItem(PREFIX + name, JSON.stringify(value));
}

/// Fills the fields of a form from its draft and keeps the draft up to date.
export function keepDrafts(form) {
  for (const field of form.querySelectorAll("[data-draft]")) {
    const name = field.dataset.draft;
    const kept = readDraft(name, null);
    if (kept !== null) field.value = kept;
    field.addEventListener("input", () => writeDraft(name, field.value));
  }
}

export function dropDrafts(form) {
  for (const field of form.querySelectorAll("[data-draft]")) writeDraft(field.dataset.draft, "");
}
