// @ts-check
// Errors with what is wrong, where, and how to fix it: counterpart of core/errors.py.

import { repr, words } from "./text.js";

const MOST_CHARACTERS = 4000;
const LONGEST_NAME = 200;
const MOST_COMPARED = 5000;
const CUTOFF = 0.6;
const POPULAR_FROM = 200; // from so many characters on, frequent ones are no beginning of a match

/** Something that a person gave cannot be used: one line with what, where and hint. */
export class InputError extends Error {
  /** @param {string} what @param {{ where?: string, hint?: string }} [more] */
  constructor(what, { where = "", hint = "" } = {}) {
    const line = words((where ? `${where}: ${what}` : what) + (hint ? `; ${hint}` : "")).join(" ");
    super(shortened(line));
    this.what = what;
    this.where = where;
    this.hint = hint;
  }

  /** @override */
  toString() {
    return this.message;
  }
}

/** The simulated system waits for itself; the text names the cycle of waits. */
export class Deadlock extends Error {}

/** A collective ended with wrong contents; the text names rank and chunk. */
export class WrongResult extends Error {}

/** @param {string} line */
function shortened(line) {
  const characters = line.length > MOST_CHARACTERS ? Array.from(line) : [];
  if (characters.length <= MOST_CHARACTERS) return line;
  return `${characters.slice(0, MOST_CHARACTERS / 2).join("")} … ${characters.slice(-MOST_CHARACTERS / 2).join("")}`;
}

/**
 * Suggest the known names nearest to an unknown one, or list what is known.
 * @param {string} name
 * @param {Iterable<string>} known
 * @param {number} [most]
 */
export function near(name, known, most = 3) {
  const names = [...new Set(known)].sort();
  const word = Array.from(name);
  const short = word.length > LONGEST_NAME ? [] : names.filter((one) => one.length <= LONGEST_NAME).slice(0, MOST_COMPARED);
  const close = closeMatches(word, short, most);
  if (close.length) return `did you mean ${close.map(repr).join(" or ")}?`;
  return `known: ${names.slice(0, 12).join(", ")}${names.length > 12 ? ", …" : ""}`;
}

/** As difflib.get_close_matches: the best first. @param {string[]} word @param {string[]} possible @param {number} most */
function closeMatches(word, possible, most) {
  const places = placesOf(word);
  /** @type {[score: number, name: string][]} */
  const found = [];
  for (const name of possible) {
    const other = Array.from(name);
    const whole = other.length + word.length;
    if (whole && (2 * Math.min(other.length, word.length)) / whole < CUTOFF) continue;
    const score = whole ? (2 * matching(other, word, places, 0, other.length, 0, word.length)) / whole : 1;
    if (score >= CUTOFF) found.push([score, name]);
  }
  found.sort(([a, x], [b, y]) => b - a || (x < y ? 1 : -1));
  return found.slice(0, most).map(([, name]) => name);
}

/** Where each character is. @param {string[]} word */
function placesOf(word) {
  /** @type {Map<string, number[]>} */
  const places = new Map();
  word.forEach((one, k) => places.set(one, [...(places.get(one) ?? []), k]));
  if (word.length < POPULAR_FROM) return places;
  return new Map([...places].filter(([, at]) => at.length <= Math.floor(word.length / 100) + 1));
}

/**
 * Characters in matching blocks: the longest first, then those on its left and right.
 * @param {string[]} a
 * @param {string[]} b
 * @param {Map<string, number[]>} places of the characters of b
 * @param {number} a0 @param {number} a1 @param {number} b0 @param {number} b1
 * @returns {number}
 */
function matching(a, b, places, a0, a1, b0, b1) {
  let [i, j, size] = [a0, b0, 0];
  /** @type {Map<number, number>} lengths of the matches that end at a place of b */
  let ending = new Map();
  for (let k = a0; k < a1; k += 1) {
    const next = new Map();
    for (const place of places.get(a[k]) ?? []) {
      if (place < b0) continue;
      if (place >= b1) break;
      const length = (ending.get(place - 1) ?? 0) + 1;
      next.set(place, length);
      if (length > size) [i, j, size] = [k - length + 1, place - length + 1, length];
    }
    ending = next;
  }
  while (i > a0 && j > b0 && a[i - 1] === b[j - 1]) [i, j, size] = [i - 1, j - 1, size + 1];
  while (i + size < a1 && j + size < b1 && a[i + size] === b[j + size]) size += 1;
  if (!size) return 0;
  return size + matching(a, b, places, a0, i, b0, j) + matching(a, b, places, i + size, a1, j + size, b1);
}
