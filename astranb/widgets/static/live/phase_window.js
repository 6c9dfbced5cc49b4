// @ts-check
// `directN`, where each NPU keeps N messages in flight: counterpart of `_windowed_ps` of engine/layers/phase_times.py.

import { InputError } from "./errors.js";

const MOST_MESSAGES = 2_000_000;
/** @typedef {[time: number, count: number, kind: number, node: number, peer: number]} Event */

/** Events in the order of time, and at one time in the order in which they were scheduled. */
class Heap {
  constructor() {
    /** @type {Event[]} */
    this.events = [];
    this.count = 0;
  }

  /** @param {number} time @param {number} kind @param {number} node @param {number} peer */
  push(time, kind, node, peer) {
    this.count += 1;
    const { events } = this;
    /** @type {Event} */
    const event = [time, this.count, kind, node, peer];
    let hole = events.push(event) - 1;
    for (let parent = (hole - 1) >> 1; hole > 0 && isBefore(event, events[parent]); parent = (hole - 1) >> 1) {
      events[hole] = events[parent];
      hole = parent;
    }
    events[hole] = event;
  }

  /** The first event; there is one. @returns {Event} */
  pop() {
    const { events } = this;
    const [first, last] = [events[0], /** @type {Event} */ (events.pop())];
    if (!events.length) return first;
    let hole = 0;
    for (let child = 1; child < events.length; child = 2 * hole + 1) {
      if (child + 1 < events.length && isBefore(events[child + 1], events[child])) child += 1;
      if (!isBefore(events[child], last)) break;
      events[hole] = events[child];
      hole = child;
    }
    events[hole] = last;
    return first;
  }
}

/** @param {Event} a @param {Event} b */
const isBefore = ([time, count], [other, later]) => time < other || (time === other && count < later);

/**
 * The duration of such a collective.
 * @param {Float64Array[]} every picoseconds of a message to each NPU (row) from the one k + 1 places behind (number k)
 * @param {number} window messages in flight, fewer than there are peers
 * @param {number} endpoint_ps of an endpoint for a message
 * @param {number} reduce_ps more if it is reduced
 * @param {number} rounds 2 for an all-reduce: the second begins when all messages of the first have arrived
 * @param {boolean} reduces messages are reduced
 */
export function windowedPs(every, window, endpoint_ps, reduce_ps, rounds, reduces) {
  const peers = every[0].length;
  const alike = every.every((row) => row.every((one, k) => one === every[0][k]));
  const delay = alike ? every.slice(0, 1) : every; // all NPUs are alike: one may send to itself
  const [nodes, total] = [delay.length, rounds * peers];
  if (nodes * total > MOST_MESSAGES) {
    const what = `${nodes * total} messages of a direct collective with a window`;
    throw new InputError(what, { hint: "use direct without a window, or ring" });
  }
  const each = delay.map(() => ({ inserted: 0, sent: 0, free: 0, received: 0, plain: 0, reduced: 0, toggle: 0 }));
  // For each NPU and source: how many messages have arrived that are not yet expected, and how many are expected.
  const [early, expected] = [new Int32Array(nodes * peers), new Int32Array(nodes * peers)];
  const heap = new Heap();
  let end = 0;
  /** @param {number} now @param {number} node */
  function insert(now, node) {
    const one = each[node];
    if (one.plain === 0 && one.reduced === 0) {
      one.plain = one.reduced = window;
      one.toggle = 1 - one.toggle;
    }
    let cost = 0;
    if (one.plain > 0) one.plain -= 1;
    else {
      one.reduced -= 1;
      if (reduces && (rounds === 1 || one.toggle === 1)) cost = reduce_ps;
    }
    one.inserted += 1;
    heap.push(now + endpoint_ps + cost, 0, node, 0);
  }
  /** @param {number} now @param {number} node */
  function send(now, node) {
    const one = each[node];
    if (one.inserted === one.sent || one.sent === total || one.free === 0) return;
    const step = one.sent % peers;
    one.sent += 1;
    one.free -= 1;
    const target = (node + step + 1) % nodes;
    heap.push(now + delay[target][step], 1, target, step);
    if (early[node * peers + step]) {
      early[node * peers + step] -= 1;
      heap.push(now, 2, node, step);
    } else expected[node * peers + step] += 1;
  }
  for (let node = 0; node < nodes; node++) for (let k = 0; k < window; k++) insert(0, node);
  while (heap.events.length) {
    const [now, , kind, node, peer] = heap.pop();
    const one = each[node];
    if (kind === 1 && !expected[node * peers + peer]) early[node * peers + peer] += 1;
    else if (kind) {
      if (kind === 1) expected[node * peers + peer] -= 1;
      one.received += 1;
      insert(now, node);
    } else {
      one.free += 1;
      const sends = rounds === 2 && total - one.sent <= peers ? (one.received < peers ? 0 : window) : 1;
      for (let k = 0; k < sends; k++) send(now, node);
      if (one.sent === total && one.free === window) end = now;
    }
  }
  return end;
}
