// @ts-check
// Integers of 64 bits: exactly, where a number would round (times behind NEVER, of what waits for a link that is down);
// and quickly, for those who read hundreds of thousands of rows.

/** @import { Table } from "./types" */

const HIGH = 2 ** 32;

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

/**
 * Reads a field of integers, none of them negative, as numbers.
 * @param {Table} table
 * @param {string} field
 * @returns {(row: number) => number}
 */
export function quickLongs({ bytes, size, fields }, field) {
  const { buffer, byteOffset, byteLength } = bytes();
  const words = new Uint32Array(buffer, byteOffset, byteLength >>> 2);
  const [each, place] = [size >>> 2, (fields.find(([name]) => name === field)?.[2] ?? 0) >>> 2];
  return (row) => words[row * each + place] + words[row * each + place + 1] * HIGH;
}

/** The bytes of integers, as hashes and files have them. @param {Iterable<number | bigint>} values */
export const longBytes = (values) => new Uint8Array(BigInt64Array.from(values, BigInt).buffer);

/** @param {bigint} a @param {bigint} b */
export const ascending = (a, b) => (a < b ? -1 : Number(a > b));
