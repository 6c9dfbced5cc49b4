// @ts-check
// Search, objects and times by what a person types: counterpart of widgets/views/search.py.

import { InputError } from "./errors.js";
import { optional } from "./options.js";
import { str, words } from "./text.js";
import { formatTime, timePs } from "./units.js";

/** @import { Answer, Engine, Feed } from "./types" */
/** @typedef {[name: string, path: string, time_ps: number]} Found what it is, the object to select, the time to go to (-1: none) */
/**
 * @typedef {object} Named what an engine gives to be found
 * @property {(rank: number) => [name: string, path: string]} ranked a rank
 * @property {() => Iterable<[name: string, path: string]>} names all objects, in their order
 * @property {(words: string[]) => Iterable<Found>} [more] what else there is that has all of some words
 */

const MOST = 50;
const NUMBERED = /^(?:gpu|rank)?\s*\[?(\d+)\]?$/;

/**
 * The answer that finds what `text` names: at most fifty, the best first.
 * @param {(engine: Engine) => Named} namedOf
 * @param {(engine: Engine) => number} ranksOf
 * @returns {Answer}
 */
export const createSearch = (namedOf, ranksOf) => (/** @type {Feed} */ { sim: { engine } }, options) => {
  const text = words(str(optional(options, "text", ""))).join(" ").toLowerCase();
  /** @type {Found[]} */
  const found = [];
  if (text) {
    for (const one of find(engine, namedOf(engine), ranksOf(engine), text)) {
      found.push(one);
      if (found.length > MOST) break;
    }
  }
  return [{ found: found.slice(0, MOST), more: found.length > MOST }, []];
};

/** Times, the object of that path, objects by number, then by a part of their names. @param {Engine} engine @param {Named} named @param {number} ranks @param {string} text @returns {Generator<Found>} */
function* find(engine, { ranked, names, more = () => [] }, ranks, text) {
  const at_ps = /\d\s*[a-zµ]/.test(text) ? tried(() => timePs(text, "search")) : null;
  if (at_ps !== null) yield [`time ${formatTime(at_ps)}`, "", at_ps];
  const wanted = text.split(" ");
  const seen = new Set();
  for (const [name, path] of [...exact(engine, ranked, ranks, text), ...named(names(), wanted)]) {
    if (!seen.has(path)) yield [name, path, -1];
    seen.add(path);
  }
  yield* more(wanted);
}

/** @param {Iterable<[name: string, path: string]>} names @param {string[]} wanted words @returns {Generator<[name: string, path: string]>} */
function* named(names, wanted) {
  for (const one of names) if (wanted.every((word) => one[0].toLowerCase().includes(word))) yield one;
}

/** @param {Engine} engine @param {Named["ranked"]} ranked @param {number} ranks @param {string} text @returns {Generator<[name: string, path: string]>} */
function* exact(engine, ranked, ranks, text) {
  const number = NUMBERED.exec(text);
  if (number && Number(number[1]) < ranks) yield ranked(Number(number[1]));
  const found = /[[.>]/.test(text) ? tried(() => engine.inspect(text)) : null;
  if (found) yield [found.title, found.path];
}

/** What a function returns; null where what it is given cannot be used. @template T @param {() => T} call @returns {T | null} */
function tried(call) {
  try {
    return call();
  } catch (error) {
    if (error instanceof InputError) return null;
    throw error;
  }
}
