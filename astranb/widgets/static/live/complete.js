// @ts-check
// Completion of object paths, what a person may mean with the beginning of one or a part of it: counterpart of
// engine/completion.py.

/** @import { Engine } from "./types" */

const MOST_OF_ONE = 4; // parts of one kind that each object contributes, where only the kind is given

/** A path without capitals, spaces and brackets. @param {string} text */
const folded = (text) => text.replace(/[[\] \t]/g, "").toLowerCase();

/** @template T @param {Iterable<T>} values @param {number} most @returns {Generator<T>} */
function* first(values, most) {
  let count = 0;
  if (count < most) {
    for (const value of values) {
      yield value;
      count += 1;
      if (count >= most) return;
    }
  }
}

/**
 * Paths of objects that a text may stand for: the most likely first, each once.
 * @param {string} text
 * @param {Engine} engine
 * @param {number} most
 * @returns {string[]}
 */
export function complete(text, engine, most) {
  const found = new Set();
  for (const path of candidates(folded(text), engine)) {
    found.add(path);
    if (found.size >= most) break;
  }
  return [...found];
}

/** @param {string} wanted @param {Engine} engine @returns {Generator<string>} */
function* candidates(wanted, engine) {
  const objects = engine.objects();
  const keys = objects.map(folded);
  const exact = objects.filter((_, k) => keys[k] === wanted);
  yield* exact;
  for (const path of exact) for (const names of Object.values(engine.parts(path))) yield* first(names, MOST_OF_ONE);
  for (const [k, path] of objects.entries()) {
    if (wanted === keys[k] || !wanted.startsWith(keys[k]) || !".#".includes(wanted[keys[k].length])) continue;
    const few = wanted === `${keys[k]}.`;
    for (const names of Object.values(engine.parts(path))) {
      for (const name of few ? first(names, MOST_OF_ONE) : names) if (folded(name).startsWith(wanted)) yield name;
    }
  }
  yield* objects.filter((_, k) => keys[k].startsWith(wanted));
  yield* objects.filter((_, k) => keys[k].includes(wanted));
  const meant = new Set(engine.part_kinds.filter((kind) => kind.startsWith(wanted) || wanted.startsWith(`${kind}.`)));
  if (!meant.size) return;
  for (const [k, path] of objects.entries()) {
    for (const [kind, names] of Object.entries(engine.parts(path))) {
      if (meant.has(kind)) yield* first(tails(names, keys[k].length, wanted), MOST_OF_ONE);
    }
  }
}

/** Names of which what is behind an object's own begins with a text. @param {Iterable<string>} names @param {number} length @param {string} wanted */
function* tails(names, length, wanted) {
  for (const name of names) if (folded(name).slice(length).replace(/^[.#]+/, "").startsWith(wanted)) yield name;
}
