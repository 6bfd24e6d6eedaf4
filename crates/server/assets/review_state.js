// What a person noted about a plan: viewed files, choices of hunks, draft comments. The server keeps it, so that every
// browser and terminal of the person shows the same.

import { send } from "./session.js";

const EMPTY = { files: [], comments: [] };

export class ReviewState {
  /// `word` names the plan: its id or handle.
  static async load(word) {
    const path = `/v1/plans/${encodeURIComponent(word)}/review`;
    // A plan without changes has no review yet.
    return new ReviewState(path, await send("GET", path).catch(() => EMPTY));
  }

  constructor(path, view) {
    this.path = path;
    this.listeners = new Set();
    this.pending = 0;
    this.queue = Promise.resolve();
    this.show(view);
  }

  show(view) {
    this.view = view;
    this.files = new Map(view.files.map((file) => [nameFile(file.resource, file.path), file]));
    this.hunks = new Map(view.files.flatMap((file) => file.hunks.map((hunk) => [hunk.id, hunk.standing])));
  }

  /// Calls `listener` after every change, and when one begins.
  listen(listener) {
    this.listeners.add(listener);
  }

  /// A change is on its way, so what is shown may be old.
  get isChanging() {
    return this.pending > 0;
  }

  get comments() {
    return this.view.comments;
  }

  /// Whether the content that is shown was marked as viewed.
  isViewed(article) {
    const file = this.files.get(nameFile(article.dataset.resource, realPath(article)));
    return file !== undefined && file.viewed && (file.blob ?? "") === article.dataset.blob;
  }

  /// `unmarked`, `accepted`, `rejected` or `undecided`.
  standingOf(hunk) {
    return this.hunks.get(hunk) ?? "unmarked";
  }

  /// Makes changes, one request after the other. Fails with the problem of the server.
  change(...changes) {
    this.pending += 1;
    this.tell();
    const sending = this.queue.then(() => send("POST", this.path, { changes }));
    this.queue = sending.catch(() => {});
    return sending.then((view) => this.show(view)).finally(() => {
      this.pending -= 1;
      this.tell();
    });
  }

  tell() {
    this.listeners.forEach((listener) => listener());
  }
}

/// A path that is not text is a list of bytes.
function nameFile(resource, path) {
  return JSON.stringify([resource, path]);
}

/// The path of a file as the server knows it. What is shown may differ, where signs are invisible.
export function realPath(article) {
  return article.dataset.real ? JSON.parse(article.dataset.real) : article.dataset.path;
}
