// @ts-check
// Rows of a table that hold something, and sums over rows.

/** @import { Table, Tables } from "./types" */

/** The rows for which something holds. @param {Table} table @param {(row: number) => boolean} holds */
export function rowsWhere({ rows }, holds) {
  const found = [];
  for (let row = 0; row < rows; row += 1) if (holds(row)) found.push(row);
  return found;
}

/** The requests under way, in the order of their numbers. @param {Tables} tables @returns {number[]} */
export function underWay({ requests }) {
  const bytes = requests.bytes(); // there are tens of thousands of rows, most of them free
  const place = requests.fields.find(([name]) => name === "live")?.[2] ?? 0;
  const found = [];
  for (let row = 0; row < requests.rows; row += 1) if (bytes[row * requests.size + place] === 1) found.push(row);
  return found;
}

/** The sum of a field over some rows. @param {Table} table @param {string} field @param {Iterable<number>} rows */
export function sumOf({ at }, field, rows) {
  let total = 0;
  for (const row of rows) total += at[field](row);
  return total;
}

/** The largest value of a field over some rows, at least one. @param {Table} table @param {string} field @param {number[]} rows */
export const mostOf = ({ at }, field, rows) => rows.reduce((most, row) => Math.max(most, at[field](row)), -Infinity);

/** So many rows from one on. @param {number} first @param {number} count */
export const range = (first, count) => Array.from({ length: count }, (_, k) => first + k);
