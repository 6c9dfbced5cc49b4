// @ts-check
// What the engines of messages and of layers share in a page: counterpart of engine/operations/engine.py and run.py.

/** @import { Engine, Table, Tables } from "./types" */

const FOREVER = 2 ** 62;

/**
 * A column of times in picoseconds; -1 stays.
 * @param {Table} table @param {string} field @param {number} scale @param {number} [count]
 */
export function timesOf(table, field, scale, count = table.rows) {
  const read = table.at[field];
  return Float64Array.from({ length: count }, (_, row) => (read(row) >= 0 ? read(row) * scale : -1));
}

/** The rows of recorded phases of chunks in the order of their ends; they are kept in a ring. @param {Tables} tables */
export function recent({ watch, passed }) {
  const count = watch.at.passed(0);
  const first = Math.max(0, count - passed.rows);
  return Array.from({ length: count - first }, (_, at) => (first + at) % passed.rows);
}

/**
 * Write the limits of the next call of the loop.
 * @param {Tables} tables
 * @param {Parameters<Engine["go"]>[0]} given
 * @param {{ steps: string, until: string, scale: number, counts: string[] }} names of the fields, and picoseconds of one of time
 */
export function setLimits({ limits, watch }, { steps, until_ps = null, most = {} }, names) {
  const closely = until_ps !== null || Object.keys(most).length > 0 || watch.at.points(0) > 0;
  limits.put[names.steps](0, steps);
  limits.put.closely(0, Number(closely));
  limits.put[names.until](0, until_ps === null ? FOREVER : Math.floor(until_ps / names.scale));
  for (const name of names.counts) limits.put[name](0, most[name] ?? FOREVER);
  watch.put.hit(0, -1);
}

/** Tables but for some. @param {Tables} tables @param {Iterable<string>} without */
export function allBut(tables, without) {
  const left = new Set(["limits", ...without]);
  return Object.values(tables).filter(({ name }) => !left.has(name));
}
