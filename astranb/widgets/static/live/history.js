// @ts-check
// Checkpoints: copies of the state that share every page that did not change. Counterpart of sim/history.py.

/** @import { Engine, Table } from "./types" */

/**
 * One moment of a run: of each table its pages; equal pages of different checkpoints are one object.
 * @typedef {{ counts: Record<string, number>, edits: number, pages: Record<string, Uint8Array[]>, new_bytes: number }} Checkpoint
 */

const PAGE = 4096;
const EMPTY = new Uint8Array(PAGE);
const LARGE = 2 ** 28; // a state of so many bytes is not kept as a copy besides its pages
const MOST = 512; // checkpoints: beyond, thinning costs more than it saves

/** The checkpoints of one run, thinned towards the past within a memory budget. */
export class History {
  /** @param {number} budget_bytes most memory for pages */
  constructor(budget_bytes) {
    this.budget_bytes = budget_bytes;
    /** @type {Checkpoint[]} */
    this.checkpoints = [];
    /** @type {{ checkpoint: Checkpoint, tables: Record<string, Uint8Array> } | null} the last one, each table as one array */
    this._latest = null;
  }

  /**
   * Add a checkpoint of the present, unless the last one is of this moment.
   * @param {Engine} engine
   * @param {number} edits
   */
  take(engine, edits) {
    const [counts, last] = [engine.counts(), this.checkpoints.at(-1)];
    if (last && last.counts.events === counts.events && last.edits === edits) return;
    let new_bytes = 0;
    /** @type {Record<string, Uint8Array[]>} */
    const pages = {};
    const tables = engine.kept();
    for (const table of tables) {
      const data = table.bytes();
      const before = last?.pages[table.name] ?? [];
      const kept = pages[table.name] = [...before];
      if (before.length && before.length === Math.ceil(data.length / PAGE)) {
        for (const number of this._changed(table.name, data, before)) {
          kept[number] = data.slice(number * PAGE, (number + 1) * PAGE);
          new_bytes += kept[number].length;
        }
      } else {
        // The first checkpoint, or a table that has grown.
        pages[table.name] = pagesOf(data);
        for (const page of pages[table.name]) if (page !== EMPTY) new_bytes += page.length;
      }
    }
    this.checkpoints.push({ counts, edits, pages, new_bytes });
    this._remember(tables);
    this._thin();
  }

  /**
   * Pages that differ from the last checkpoint, in order.
   * @param {string} name
   * @param {Uint8Array} data
   * @param {Uint8Array[]} kept
   */
  _changed(name, data, kept) {
    const latest = this._latest?.checkpoint === this.checkpoints.at(-1) ? this._latest?.tables[name] : undefined;
    const [now, then] = [wordsOf(data), wordsOf(latest ?? EMPTY)];
    return [...kept.keys()].filter((number) => {
      const [start, end] = [number * PAGE, Math.min(data.length, (number + 1) * PAGE)];
      if (latest) return !equal(now, then, start, start, end - start);
      return !equal(now, wordsOf(kept[number]), start, 0, end - start);
    });
  }

  /** Copy the tables, into the memory of the copy before where they fit. @param {Table[]} tables */
  _remember(tables) {
    if (tables.reduce((sum, { rows, size }) => sum + rows * size, 0) >= LARGE) return;
    const copies = this._latest?.tables ?? {};
    for (const table of tables) {
      const now = table.bytes();
      if (copies[table.name]?.length === now.length) copies[table.name].set(now);
      else copies[table.name] = now.slice();
    }
    this._latest = { checkpoint: this.checkpoints[this.checkpoints.length - 1], tables: copies };
  }

  /** The last checkpoint at which a count was at most a value. @param {string} field @param {number} value */
  before(field, value) {
    return this.checkpoints.findLast(({ counts }) => counts[field] <= value || counts.events === 0) ?? this.checkpoints[0];
  }

  /** The last checkpoint up to an event, with at most so many edits. @param {number} events @param {number} edits */
  before_edit(events, edits) {
    return this.checkpoints.findLast((one) => one.counts.events <= events && one.edits <= edits) ?? this.checkpoints[0];
  }

  /** Drop the checkpoints that have had more than so many edits. @param {number} edits */
  forget_edits(edits) {
    while ((this.checkpoints.at(-1)?.edits ?? 0) > edits) this.checkpoints.pop();
  }

  /**
   * Put a run back to a checkpoint and forget what came after.
   * @param {Engine} engine
   * @param {Checkpoint} checkpoint
   */
  restore(engine, checkpoint) {
    const sizes = Object.entries(checkpoint.pages).map(([name, pages]) => [name, pages.reduce((sum, page) => sum + page.length, 0)]);
    engine.resize(Object.fromEntries(sizes));
    for (const table of engine.kept()) {
      const data = table.bytes();
      checkpoint.pages[table.name]?.forEach((page, number) => data.set(page, number * PAGE));
    }
    this.forget_after(checkpoint.counts.events);
    if (this.checkpoints.at(-1) === checkpoint) this._remember(engine.kept());
  }

  /** Drop the checkpoints after an event. @param {number} events */
  forget_after(events) {
    while ((this.checkpoints.at(-1)?.counts.events ?? 0) > events) this.checkpoints.pop();
  }

  /** A history of its own over the same pages. */
  copy() {
    const other = new History(this.budget_bytes);
    other.checkpoints = [...this.checkpoints];
    return other;
  }

  /** Drop the checkpoints closest to their neighbours for their age, never the first or last. */
  _thin() {
    const points = this.checkpoints;
    let bytes = points.reduce((sum, { new_bytes }) => sum + new_bytes, 0);
    while (points.length > 2 && (points.length > MOST || bytes > this.budget_bytes)) {
      const events = points.map(({ counts }) => counts.events);
      const latest = events[events.length - 1];
      const crowding = events.slice(1, -1).map((at, k) => (events[k + 2] - events[k]) / (latest - at + 1));
      const [dropped] = points.splice(crowding.indexOf(Math.min(...crowding)) + 1, 1);
      bytes -= dropped.new_bytes;
    }
  }
}

/** Copy a table as pages; those of zeros are one object. @param {Uint8Array} data */
function pagesOf(data) {
  const [now, zeros] = [wordsOf(data), wordsOf(EMPTY)];
  return Array.from({ length: Math.ceil(data.length / PAGE) }, (_, number) => {
    const start = number * PAGE;
    const empty = start + PAGE <= data.length && equal(now, zeros, start, 0, PAGE);
    return empty ? EMPTY : data.slice(start, start + PAGE);
  });
}

/** The same memory as words, which are compared four times as fast. @param {Uint8Array} bytes */
const wordsOf = (bytes) => ({ bytes, words: new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2) });

/**
 * Whether so many bytes of two tables are the same.
 * @param {ReturnType<typeof wordsOf>} one
 * @param {ReturnType<typeof wordsOf>} other
 * @param {number} at a place in the first one, a multiple of 4
 * @param {number} from a place in the other one
 * @param {number} length
 */
function equal(one, other, at, from, length) {
  const [a, b, words] = [one.words, other.words, length >> 2];
  const [i, j] = [at >> 2, from >> 2];
  for (let k = 0; k < words; k++) if (a[i + k] !== b[j + k]) return false;
  for (let k = 4 * words; k < length; k++) if (one.bytes[at + k] !== other.bytes[from + k]) return false;
  return true;
}
