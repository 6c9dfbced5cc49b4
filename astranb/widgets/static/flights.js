// The recorded line flights that the browser has: columns, with an index over time.

const BLOCK = 512; // flights that share one entry of the index over time
const MOST_FLIGHTS = 2 ** 21; // kept in the browser: 50 MB; the oldest half gives way

/** Line flights in the order of their events, with an index over time. */
export class Flights {
  constructor() {
    this.clear();
  }

  clear() {
    this.count = 0;
    this.chunks = []; // {first, total, place, oneIn}: numbers of flights and where they stand
    this.lostUntil = 0; // ps: before, flights have been given up
    this.found = new Uint32Array(4 * BLOCK); // of the last question
    this.resize(2 ** 14);
  }

  resize(capacity) {
    const grown = (Type, old, n) => {
      const next = new Type(n);
      if (old) next.set(old.subarray(0, Math.min(old.length, n)));
      return next;
    };
    this.start = grown(Float64Array, this.count ? this.start : null, capacity);
    this.end = grown(Float64Array, this.count ? this.end : null, capacity);
    this.what = grown(Uint32Array, this.count ? this.what : null, capacity); // link << 4 | kind
    this.wait = grown(Uint32Array, this.count ? this.wait : null, capacity); // ps before the start
    const blocks = Math.ceil(capacity / BLOCK);
    this.first = grown(Float64Array, this.count ? this.first : null, blocks);
    this.last = grown(Float64Array, this.count ? this.last : null, blocks);
  }

  /** Forget everything from a number on: time has gone back. */
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

  append(first, total, oneIn, start, end, what, wait) {
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
    this.chunks.push({ first, total, place: this.count, oneIn });
    this.count += n;
    this.index(Math.floor((this.count - n) / BLOCK) * BLOCK, this.count);
  }

  /** Give up the oldest flights. */
  drop(n) {
    const cut = Math.min(this.count, Math.ceil(n / BLOCK) * BLOCK);
    for (let k = 0; k < cut; k++) this.lostUntil = Math.max(this.lostUntil, this.start[k]);
    for (const column of [this.start, this.end, this.what, this.wait]) column.copyWithin(0, cut, this.count);
    this.count -= cut;
    this.chunks = this.chunks
      .map((c) => {
        if (c.place >= cut) return { ...c, place: c.place - cut };
        return { ...c, first: Math.min(c.total, c.first + (cut - c.place) * c.oneIn), place: 0 };
      })
      .filter((c, k, all) => c.first < c.total || k === all.length - 1);
    this.index(0, this.count);
  }

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

  /** Of how many recorded flights the one at a place stands for all. */
  oneIn(place) {
    let [low, high] = [0, this.chunks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.chunks[middle].place <= place) low = middle;
      else high = middle - 1;
    }
    return this.chunks[low]?.oneIn ?? 1;
  }

  /** Places of the flights that are on their links at a time, or wait for them; good until the next call. */
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

/** A typed array over a received DataView, copied where it is not aligned. */
export function column(Type, view) {
  const aligned = view.byteOffset % Type.BYTES_PER_ELEMENT === 0;
  const bytes = aligned ? view.buffer : view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  return new Type(bytes, aligned ? view.byteOffset : 0, view.byteLength / Type.BYTES_PER_ELEMENT);
}
