// @ts-check
// Integers of 64 bits exactly, where a number would round: times behind NEVER, of what waits for a link that is down.

/** @import { Table } from "./types" */

/**
 * A field as exact integers.
 * @param {Table} table
 * @param {string} field
 * @returns {{ get: (row: number) => bigint, put: (row: number, value: bigint) => void }}
 */
export function longs({ bytes, size, fields }, field) {
  const { buffer, byteOffset, byteLength } = bytes();
  const view = new DataView(buffer, byteOffset, byteLength);
  const offset = fields.find(([name]) => name === field)?.[2] ?? 0;
  return {
    get: (row) => view.getBigInt64(row * size + offset, true),
    put: (row, value) => view.setBigInt64(row * size + offset, value, true),
  };
}

/** @param {bigint} a @param {bigint} b */
export const ascending = (a, b) => (a < b ? -1 : Number(a > b));
