// @ts-check
// The recorded line flights that the browser has: columns, with an index over time.

import { COLUMNS, TYPES } from "./messages.js";

const BLOCK = 512; // flights that share one entry of the index over time
const LEAST_FLIGHTS = 2 ** 14; // that there is room for
const MOST_FLIGHTS = 2 ** 21; // kept in the browser: 50 MB; the oldest half gives way

const CARGO = /** @type {const} */ (["source", "target", "number", "chunk", "phase", "step", "bytes"]);

/** Line flights in the order of their events, with an index over time. */
export class Flights {
  count = 0;
  /** @type {{ first: number, total: number, place: number, oneIn: number }[]} numbers of flights and where they stand */
  chunks = [];
  lostUntil = 0; // ps: before, flights have been given up
  found = new Uint32Array(4 * BLOCK); // of the last question
  start = new Float64Array(0);
  end = new Float64Array(0);
  what = new Uint32Array(0); // link << 4 | kind
  wait = new Uint32Array(0); // ps before the start
  /** @type {import("./types").Cargo | null} of messages of a workload: what they are; null for lines */
  about = null;
  first = new Float64Array(0); // of each block the earliest time
  last = new Float64Array(0); // and the latest

  constructor() {
    this.resize(LEAST_FLIGHTS);
  }

  clear() {
    this.count = 0;
    this.chunks = [];
    this.lostUntil = 0;
    this.about = null;
    this.resize(LEAST_FLIGHTS);
  }

  /** Make room for so many. @param {number} capacity */
  resize(capacity) {
    const blocks = Math.ceil(capacity / BLOCK);
    this.start = copied(new Float64Array(capacity), this.start);
    this.end = copied(new Float64Array(capacity), this.end);
    this.what = copied(new Uint32Array(capacity), this.what);
    this.wait = copied(new Uint32Array(capacity), this.wait);
    if (this.about) this.about = roomFor(capacity, this.about);
    this.first = copied(new Float64Array(blocks), this.first);
    this.last = copied(new Float64Array(blocks), this.last);
  }

  /** Forget everything from a number on: time has gone back. @param {number} number */
  truncate(number) {
    let chunk = this.chunks.at(-1);
    while (chunk && chunk.first >= number) {
      this.count = chunk.place;
      this.chunks.pop();
      chunk = this.chunks.at(-1);
    }
    if (chunk && chunk.total > number) {
      this.count = chunk.place + Math.ceil((number - chunk.first) / chunk.oneIn);
      chunk.total = number;
    }
    const from = Math.floor(this.count / BLOCK) * BLOCK;
    if (this.count > from) this.index(from, this.count);
  }

  /**
   * Take the flights of a message, in the place of those from its first number on.
   * @param {Pick<import("./types").State, "first" | "total" | "one_in">} message
   * @param {import("./types").Columns<"state">} columns
   */
  append({ first, total, one_in: oneIn }, { start, end, what, wait, ...cargo }) {
    this.truncate(first);
    const n = start.length;
    if (n === 0) return;
    if (this.count + n > MOST_FLIGHTS) this.drop(Math.min(this.count, Math.max(MOST_FLIGHTS / 2, n)));
    let capacity = this.start.length;
    while (capacity < this.count + n) capacity *= 2;
    if (capacity > this.start.length) this.resize(capacity);
    this.start.set(start, this.count);
    this.end.set(end, this.count);
    this.what.set(what, this.count);
    this.wait.set(wait, this.count);
    if (cargo.source.length) this.about ??= roomFor(capacity);
    if (this.about) for (const name of CARGO) this.about[name].set(cargo[name], this.count);
    this.chunks.push({ first, total, place: this.count, oneIn });
    this.count += n;
    this.index(Math.floor((this.count - n) / BLOCK) * BLOCK, this.count);
  }

  /** Give up the oldest flights. @param {number} n */
  drop(n) {
    const cut = Math.min(this.count, Math.ceil(n / BLOCK) * BLOCK);
    for (let k = 0; k < cut; k++) this.lostUntil = Math.max(this.lostUntil, this.start[k]);
    const cargo = this.about ? CARGO.map((name) => /** @type {import("./types").Cargo} */ (this.about)[name]) : [];
    for (const column of [this.start, this.end, this.what, this.wait, ...cargo]) column.copyWithin(0, cut, this.count);
    this.count -= cut;
    this.chunks = this.chunks
      .map((c) => {
        if (c.place >= cut) return { ...c, place: c.place - cut };
        return { ...c, first: Math.min(c.total, c.first + (cut - c.place) * c.oneIn), place: 0 };
      })
      .filter((c, k, all) => c.first < c.total || k === all.length - 1);
    this.index(0, this.count);
  }

  /** Index the blocks of some flights by their times. @param {number} from @param {number} to */
  index(from, to) {
    for (let block = from; block < to; block += BLOCK) {
      let first = Infinity;
      let last = -Infinity;
      for (let k = block; k < Math.min(to, block + BLOCK); k++) {
        first = Math.min(first, this.start[k] - this.wait[k]);
        if (this.end[k] > last) last = this.end[k];
      }
      this.first[block / BLOCK] = first;
      this.last[block / BLOCK] = last;
    }
  }

  /** How many recorded flights the one at a place stands for. @param {number} place */
  oneIn(place) {
    let [low, high] = [0, this.chunks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.chunks[middle].place <= place) low = middle;
      else high = middle - 1;
    }
    return this.chunks[low]?.oneIn ?? 1;
  }

  /** Places of the flights that are on their links at a time, or wait for them; valid until the next call. @param {number} time */
  at(time) {
    const { start, end, wait, count, first, last } = this;
    let found = this.found;
    let total = 0;
    for (let block = 0; block * BLOCK < count; block++) {
      if (first[block] > time || last[block] < time) continue;
      const stop = Math.min(count, (block + 1) * BLOCK);
      if (total + BLOCK > found.length) {
        found = new Uint32Array(2 * found.length);
        found.set(this.found);
        this.found = found;
      }
      for (let k = block * BLOCK; k < stop; k++) if (time <= end[k] && start[k] - wait[k] <= time) found[total++] = k;
    }
    return found.subarray(0, total);
  }
}

/**
 * Columns about messages for so many, with those of older ones.
 * @param {number} capacity
 * @param {import("./types").Cargo} [old]
 * @returns {import("./types").Cargo}
 */
function roomFor(capacity, old) {
  const columns = CARGO.map((name) => {
    const Type = TYPES[COLUMNS.state[name]];
    const column = new Type(capacity);
    if (old) column.set(old[name].subarray(0, Math.min(capacity, old[name].length)));
    return [name, column];
  });
  return Object.fromEntries(columns);
}

/**
 * An array with as much of an older one as has room.
 * @template {Float64Array | Uint32Array} T
 * @param {T} next
 * @param {T} old
 */
function copied(next, old) {
  next.set(old.subarray(0, Math.min(old.length, next.length)));
  return next;
}
