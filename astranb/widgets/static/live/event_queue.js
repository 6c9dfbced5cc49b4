// @ts-check
// The events to come, looked at and replaced between two slices of a run: counterpart of core/queue.py.

import { ascending, longs } from "./longs.js";

/** @import { Table, Tables } from "./types" */
/** @typedef {{ time_ps: bigint, kind: number, arg: number }} WaitingEvent */

const ARG_BITS = 22;
const WHAT = 2 ** 26; // kind and argument
const SLOT_BITS = 6n;
const IN_SLOT = 63n;

/** Arguments of events are smaller than this. */
export const ARGUMENTS = 2 ** ARG_BITS;

/**
 * The events to come in the order in which they will be handled.
 * @param {Tables} tables
 * @returns {WaitingEvent[]}
 */
export function eventsOf({ clock, near, later, slots, far }) {
  /** @param {bigint} time_ps @param {number} what @returns {WaitingEvent} */
  const event = (time_ps, what) => ({ time_ps, kind: Math.floor(what / ARGUMENTS), arg: what % ARGUMENTS });
  /** @param {Table} heap @param {number} count */
  const inOrder = (heap, count) => {
    const [times, orders] = [longs(heap, "time_ps"), longs(heap, "order")];
    const rows = Array.from({ length: count }, (_, row) => ({ time_ps: times.get(row), order: orders.get(row) }));
    rows.sort((a, b) => ascending(a.time_ps, b.time_ps) || ascending(a.order, b.order));
    return rows.map(({ time_ps, order }) => event(time_ps, Number(BigInt.asUintN(26, order))));
  };
  const open = longs(clock, "slot").get(0);
  const waiting = [];
  for (let place = 0; place < slots.rows; place++) {
    let entry = slots.at.value(place);
    if (entry < 0) continue;
    const start = (open + ((BigInt(place) - open) & BigInt(slots.rows - 1))) << SLOT_BITS;
    const list = [];
    for (; entry >= 0; entry = later.at.next(entry)) {
      const packed = later.at.event(entry);
      list.push(event(start + BigInt(packed % 64), Math.floor(packed / 64)));
    }
    waiting.push(...list.reverse()); // lists begin with the newest event
  }
  const found = [...inOrder(near, clock.at.near(0)), ...waiting, ...inOrder(far, clock.at.far(0))];
  return found.sort((a, b) => ascending(a.time_ps, b.time_ps));
}

/**
 * Put other events in place of those of a queue; those of one time are handled in the order given.
 * @param {Tables} tables
 * @param {WaitingEvent[]} events
 */
export function refill(tables, events) {
  const { clock, near, later, slots, far } = tables;
  for (let row = 0; row < later.rows; row++) later.put.next(row, row + 1);
  for (let row = 0; row < slots.rows; row++) slots.put.value(row, -1);
  clock.put.near(0, 0);
  clock.put.free_entry(0, 0);
  const rows = [...events].sort((a, b) => ascending(a.time_ps, b.time_ps));
  for (const size of ["queued", "seq", "far"]) clock.put[size](0, rows.length);
  if (!rows.length) return;
  const first = rows[0].time_ps >> SLOT_BITS;
  /** @param {Table} heap @param {WaitingEvent[]} those @param {number} sequence of the first of them */
  const put = (heap, those, sequence) => {
    const times = longs(heap, "time_ps");
    those.forEach(({ time_ps, kind, arg }, place) => {
      times.put(place, time_ps);
      heap.put.order(place, (sequence + place) * WHAT + kind * ARGUMENTS + arg);
    });
  };
  // The slot of the first event is open; a list in order is a heap.
  const opened = rows.filter(({ time_ps }) => time_ps >> SLOT_BITS === first);
  put(near, opened, -opened.length);
  // The events of one rotation are in the lists of their slots, each of which begins with the newest.
  const turn = rows.filter(({ time_ps }) => (time_ps >> SLOT_BITS) - first < slots.rows);
  turn.slice(opened.length).forEach(({ time_ps, kind, arg }, entry) => {
    const place = Number((time_ps >> SLOT_BITS) & BigInt(slots.rows - 1));
    later.put.event(entry, (kind * ARGUMENTS + arg) * 64 + Number(time_ps & IN_SLOT));
    later.put.next(entry, slots.at.value(place));
    slots.put.value(place, entry);
  });
  put(far, rows.slice(turn.length), turn.length);
  clock.put.near(0, opened.length);
  clock.put.far(0, rows.length - turn.length);
  longs(clock, "slot").put(0, first);
  clock.put.free_entry(0, turn.length - opened.length);
}

/**
 * Queue an event behind those of its time, not before now.
 * @param {Tables} tables
 * @param {number} time_ps
 * @param {number} kind
 * @param {number} arg
 */
export function schedule({ clock, near, later, slots, far }, time_ps, kind, arg) {
  const what = kind * ARGUMENTS + arg;
  clock.put.queued(0, clock.at.queued(0) + 1);
  const ahead = (BigInt(time_ps) >> SLOT_BITS) - longs(clock, "slot").get(0);
  if (ahead > 0n && ahead < slots.rows) {
    const [place, entry] = [Number((BigInt(time_ps) >> SLOT_BITS) & BigInt(slots.rows - 1)), clock.at.free_entry(0)];
    clock.put.free_entry(0, later.at.next(entry));
    later.put.event(entry, what * 64 + (time_ps % 64));
    later.put.next(entry, slots.at.value(place));
    slots.put.value(place, entry);
    return;
  }
  const order = (BigInt(clock.at.seq(0)) << 26n) | BigInt(what);
  clock.put.seq(0, clock.at.seq(0) + 1);
  if (ahead <= 0n) clock.put.near(0, push(near, clock.at.near(0), BigInt(time_ps), order));
  else clock.put.far(0, push(far, clock.at.far(0), BigInt(time_ps), order));
}

/** Add an event to a heap; its new size. @param {Table} heap @param {number} size @param {bigint} time_ps @param {bigint} order */
function push(heap, size, time_ps, order) {
  const [times, orders] = [longs(heap, "time_ps"), longs(heap, "order")];
  let hole = size;
  while (hole > 0) {
    const parent = (hole - 1) >> 2;
    const [when, which] = [times.get(parent), orders.get(parent)];
    if (when < time_ps || (when === time_ps && which < order)) break;
    times.put(hole, when);
    orders.put(hole, which);
    hole = parent;
  }
  times.put(hole, time_ps);
  orders.put(hole, order);
  return size + 1;
}
