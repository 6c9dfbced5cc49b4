// @ts-check
// Hashes of tables: counterpart of core/state.py's `digest`. BLAKE2b with 128 bits (RFC 7693).

/** @import { Steps } from "./steps.js" */
/** @import { Table } from "./types" */

const OUT = 16; // bytes of a hash
const BLOCK = 128;
const ROUNDS = 12;
const HIGH = 2 ** 32;
const STEP = 2 ** 16; // bytes hashed in a step
// The first 64 bits of the fractions of the square roots of the first eight primes, the low half of each first.
const START = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
const ORDER = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
// Which words are mixed: four columns, then four diagonals; each place is that of the low half.
const MIXED = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const PLAN = Int32Array.from(
  Array.from({ length: ROUNDS }, (_, round) =>
    MIXED.flatMap((words, k) => [...words, ORDER[round % 10][2 * k], ORDER[round % 10][2 * k + 1]]).map((word) => 2 * word),
  ).flat(),
);

/** BLAKE2b of parts that come one after another. */
export class Blake2b {
  constructor() {
    this._hash = START.slice();
    this._hash[0] ^= 0x01010000 ^ OUT;
    this._block = new Uint8Array(BLOCK);
    this._used = 0;
    this._bytes = 0;
    this._v = new Uint32Array(32);
    this._m = new Uint32Array(32);
  }

  /** Take more. @param {Uint8Array} data */
  update(data) {
    let at = 0;
    while (at < data.length) {
      if (this._used === BLOCK) this._compress(this._block, 0, false); // there is more: it is not the last one
      if (!this._used) {
        const whole = at + BLOCK * Math.floor((data.length - at - 1) / BLOCK); // the last block waits for the end
        for (; at < whole; at += BLOCK) {
          this._used = BLOCK;
          this._compress(data, at, false);
        }
      }
      const part = data.subarray(at, at + BLOCK - this._used);
      this._block.set(part, this._used);
      this._used += part.length;
      at += part.length;
    }
    return this;
  }

  /** The hash in hex digits; nothing can be added then. */
  hex() {
    this._block.fill(0, this._used);
    this._compress(this._block, 0, true);
    return [...new Uint8Array(this._hash.buffer, 0, OUT)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** Mix a block in. @param {Uint8Array} data @param {number} at @param {boolean} last */
  _compress(data, at, last) {
    const { _hash: h, _v: v, _m: m } = this;
    this._bytes += this._used;
    this._used = 0;
    const view = new DataView(data.buffer, data.byteOffset + at, BLOCK);
    for (let k = 0; k < 32; k++) m[k] = view.getUint32(4 * k, true);
    v.set(h);
    v.set(START, 16);
    v[24] ^= this._bytes;
    v[25] ^= this._bytes / HIGH;
    if (last) {
      v[28] = ~v[28];
      v[29] = ~v[29];
    }
    for (let k = 0; k < PLAN.length; k += 6) {
      const [a, b, c, d] = [PLAN[k], PLAN[k + 1], PLAN[k + 2], PLAN[k + 3]];
      mix(v, a, b, c, d, m[PLAN[k + 4]], m[PLAN[k + 4] + 1], m[PLAN[k + 5]], m[PLAN[k + 5] + 1]);
    }
    for (let k = 0; k < 16; k++) h[k] ^= v[k] ^ v[k + 16];
  }
}

/**
 * BLAKE2b's mixing of four words with two of the message, each as a low and a high half.
 * @param {Uint32Array} v
 * @param {number} a @param {number} b @param {number} c @param {number} d
 * @param {number} x0 @param {number} x1 @param {number} y0 @param {number} y1
 */
function mix(v, a, b, c, d, x0, x1, y0, y1) {
  let b0 = v[b];
  let b1 = v[b + 1];
  let low = v[a] + b0 + x0;
  let a1 = (v[a + 1] + b1 + x1 + Math.floor(low / HIGH)) >>> 0;
  let a0 = low >>> 0;
  let d1 = (v[d] ^ a0) >>> 0; // the halves change places: by 32 bits to the right
  let d0 = (v[d + 1] ^ a1) >>> 0;
  low = v[c] + d0;
  let c1 = (v[c + 1] + d1 + Math.floor(low / HIGH)) >>> 0;
  let c0 = low >>> 0;
  let x = b0 ^ c0;
  let y = b1 ^ c1;
  b0 = ((x >>> 24) | (y << 8)) >>> 0;
  b1 = ((y >>> 24) | (x << 8)) >>> 0;
  low = a0 + b0 + y0;
  a1 = (a1 + b1 + y1 + Math.floor(low / HIGH)) >>> 0;
  a0 = low >>> 0;
  x = d0 ^ a0;
  y = d1 ^ a1;
  d0 = ((x >>> 16) | (y << 16)) >>> 0;
  d1 = ((y >>> 16) | (x << 16)) >>> 0;
  low = c0 + d0;
  c1 = (c1 + d1 + Math.floor(low / HIGH)) >>> 0;
  c0 = low >>> 0;
  x = b0 ^ c0;
  y = b1 ^ c1;
  v[b] = (x << 1) | (y >>> 31); // by 63 bits
  v[b + 1] = (y << 1) | (x >>> 31);
  v[a] = a0;
  v[a + 1] = a1;
  v[c] = c0;
  v[c + 1] = c1;
  v[d] = d0;
  v[d + 1] = d1;
}

/**
 * Hash named parts in their order: 32 hex digits.
 * @param {[name: string, bytes: Uint8Array][]} parts
 * @returns {Steps<string | null>} null: it was stopped
 */
export function* hashOf(parts) {
  const state = new Blake2b();
  const all = parts.reduce((sum, [, { length }]) => sum + length, 1);
  let done = 0;
  for (const [name, bytes] of parts) {
    state.update(new TextEncoder().encode(name));
    for (let at = 0; at < bytes.length; at += STEP) {
      const part = bytes.subarray(at, at + STEP);
      state.update(part);
      done += part.length;
      if (yield done / all) return null;
    }
  }
  return state.hex();
}

/**
 * Hash named tables in their order. Names and lengths count, so that two tables cannot pass for one.
 * @param {Iterable<[name: string, rows: number, bytes: Uint8Array]>} tables
 */
export const digest = (tables) => hashOf(Array.from(tables, ([name, rows, bytes]) => [`${name}:${rows}:`, bytes]));

/** A table as `digest` takes it. @param {Table} table @returns {[name: string, rows: number, bytes: Uint8Array]} */
export const whole = (table) => [table.name, table.rows, table.bytes()];
