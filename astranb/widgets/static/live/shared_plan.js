// @ts-check
// A plan that travels with the state of its run, in a link or a file.

import { InputError } from "./errors.js";

/** @import { SharedPlan } from "./types" */

const MOST_NAME = 1000;
const STRING_OR_SPACE = /"(?:[^"\\]|\\.)*"|\s+/g;

/** The file of a plan in one line: space between its strings is left out. @param {SharedPlan} plan */
export const lineOf = ({ file }) => new TextDecoder().decode(file).replace(STRING_OR_SPACE, (found) => (found[0] === '"' ? found : ""));

/**
 * A plan of which somebody else says that it is one, with the text of its file; null: none.
 * @param {any} given
 * @param {unknown} text
 * @returns {SharedPlan | null}
 */
export function checkedPlan(given, text) {
  if (given === undefined) return null;
  const { name, size } = given ?? {};
  const right = typeof name === "string" && name.length < MOST_NAME && Number.isSafeInteger(size) && size > 0 && typeof text === "string";
  if (!right) throw new InputError("this is no plan of a run");
  return { name, size, file: new TextEncoder().encode(text) };
}

/** Whether two runs are of the same plan; of none: whether neither is of one. @param {SharedPlan | null} [a] @param {SharedPlan | null} [b] */
export function isSamePlan(a, b) {
  if (!a || !b) return !a && !b;
  return a.size === b.size && a.name === b.name && lineOf(a) === lineOf(b);
}
