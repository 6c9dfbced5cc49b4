// @ts-check
// Changes in the middle of a run, logged so that going back undoes them: counterpart of engine/edits.py.

import { InputError, near } from "./errors.js";
import { repr, str } from "./text.js";
import { timePs } from "./units.js";

/** @import { Edit } from "./types" */
/** Something that can be changed: as the class of engine/edits.py.
 * @typedef {{ path: string, value: string, unit: string, limits: string, effect: string, meaning: string, choices: string[] }} Parameter */
/** An object of a run.
 * @typedef {{ kind: string, path: string, rows: number[] }} Part */

/** Path of the edit that switches the recording. */
export const RECORD = "record";
/** Path of the edit that changes the routes, so that they avoid what is down. */
export const REROUTE = "reroute";

/** For each kind of object and each name: field, unit of a bare number, limits, meaning.
 * @typedef {Record<string, Record<string, [field: string, unit: string, limits: string, meaning: string]>>} Changeable */
/** What can be changed of objects, and when a change of each field takes effect, `""` for all others: given by Python.
 * @typedef {{ what: Changeable, effects: Record<string, string> }} Changes */

/** The last edit of each parameter, in the order in which they were made. @param {Edit[]} edits */
export const lastOfEach = (edits) => edits.filter((edit, k) => !edits.slice(k + 1).some(({ path }) => path === edit.path));

/** What was changed by hand in either of two runs, and not in the same way: (path, of a, of b). @param {Edit[]} a @param {Edit[]} b */
export function differingEdits(a, b) {
  const edits = [a, b].map((all) => new Map(all.map(({ events, path, value }) => [path, `${value} from event ${events}`])));
  const paths = new Set(edits.flatMap((of) => [...of.keys()]));
  return [...paths].map((path) => [path, ...edits.map((of) => of.get(path) ?? "unchanged")]).filter(([, x, y]) => x !== y);
}

/**
 * Check a change and make an edit of it.
 * @template {Part} P
 * @param {string} path
 * @param {unknown} value
 * @param {{
 *   changes: Changes, resolve: (path: string) => P, read: (field: string, part: P) => number,
 *   hint: string, events: number, at_ps: number,
 * }} how
 * @returns {Edit}
 */
export function checkedEdit(path, value, { changes, resolve, read, hint, events, at_ps }) {
  const [head, name] = parted(path.trim());
  const part = resolve(head || path);
  const known = own(changes.what, part.kind) ?? {};
  const found = own(known, name);
  if (!found) {
    const names = Object.keys(known);
    throw new InputError(`${repr(name)} of ${part.path} cannot be changed`, { where: path, hint: names.length ? near(name, names) : hint });
  }
  const [field] = found;
  const text = typeof value === "boolean" ? yesNo(value) : str(value);
  return { events, path: `${part.path}.${name}`, value: text, kind: part.kind, field, rows: [...part.rows], number: read(field, part), at_ps };
}

/**
 * What can be changed of an object, with its present values.
 * @param {Part} part
 * @param {Changes} changes
 * @param {(field: string) => string} written the present value of a field
 * @returns {Parameter[]}
 */
export function parametersOf(part, { what, effects }, written) {
  return Object.entries(own(what, part.kind) ?? {}).map(([name, [field, unit, limits, meaning]]) => ({
    path: `${part.path}.${name}`, value: written(field), unit, limits, effect: effects[field] ?? effects[""], meaning,
    choices: field === "up" ? ["yes", "no"] : [],
  }));
}

/** An edit of the routes; the value is when what waits goes on, if that is later. @param {number} events @param {unknown} value @param {number} at_ps @returns {Edit} */
export const rerouteEdit = (events, value, at_ps) => ({
  events, path: REROUTE, value: str(value), kind: "routes", field: REROUTE, rows: [0], number: timePs(value, REROUTE), at_ps,
});

/** Whether routes have changed: tables have grown, and a file's state is worked out again. @param {Edit[]} edits */
export const isRerouted = (edits) => edits.some(({ path }) => path === REROUTE);

/** @type {Record<string, number>} */
const WORDS = { yes: 1, true: 1, up: 1, 1: 1, on: 1, no: 0, false: 0, down: 0, 0: 0, off: 0 };

/** Read whether something is up: 1 or 0. @param {unknown} value @param {string} where */
export function yesOrNo(value, where) {
  const found = own(WORDS, str(value).trim().toLowerCase());
  if (found === undefined) throw new InputError(`${repr(value)} is neither yes nor no`, { where, hint: "write up = yes, or no" });
  return found;
}

/** @param {boolean} value */
const yesNo = (value) => (value ? "yes" : "no");

/** What a record holds by a name that anybody may have written. @template T @param {Record<string, T>} record @param {string} name */
export const own = (record, name) => (Object.hasOwn(record, name) ? record[name] : undefined);

/** What is in front of the last point of a text, and what is behind it. @param {string} text @returns {[head: string, name: string]} */
export function parted(text) {
  const at = text.lastIndexOf(".");
  return [text.slice(0, Math.max(0, at)), text.slice(at + 1)];
}
