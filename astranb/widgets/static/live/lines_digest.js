// @ts-check
// The hash of a run by cache lines: counterpart of `state_hash` in engine/cacheline/machine.py.

import { digest, whole } from "./digest.js";
import { ARGUMENTS, eventsOf } from "./event_queue.js";
import { longBytes } from "./longs.js";
import { underWay } from "./rows.js";

/** @import { Table, Tables } from "./types" */
/** @typedef {[name: string, rows: number, bytes: Uint8Array]} Hashed */

const IN_QUEUE = new Set(["later", "slots", "far", "details"]);

/**
 * Hash the live state. Free places and spare capacity are no part of it: the events to come are taken in their order,
 * and of the requests only those under way.
 * @param {Tables} tables
 * @param {Table[]} simulated in their order
 */
export const stateHash = (tables, simulated) => digest(live(tables, simulated));

/** @param {Tables} tables @param {Table[]} simulated @returns {Iterable<Hashed>} */
function* live(tables, simulated) {
  for (const table of simulated) {
    if (table.name === "near") yield waitingEvents(tables);
    else if (table.name === "requests") yield* requestsUnderWay(tables);
    else if (!IN_QUEUE.has(table.name)) yield whole(table);
  }
}

/** @param {Tables} tables @returns {Hashed} */
function waitingEvents(tables) {
  const events = eventsOf(tables);
  return ["event_queue", events.length, longBytes(events.flatMap(({ time_ps, kind, arg }) => [time_ps, kind * ARGUMENTS + arg]))];
}

/** @param {Tables} tables @returns {Iterable<Hashed>} */
function* requestsUnderWay(tables) {
  const { clock, requests, details } = tables;
  const rows = underWay(tables);
  yield ["under_way", rows.length, longBytes(rows)];
  yield ["requests", rows.length, rowsOf(requests, rows)];
  if (clock.at.detailed(0)) yield ["details", rows.length, rowsOf(details, rows)];
}

/** Some rows of a table. @param {Table} table @param {number[]} rows */
function rowsOf({ bytes, size }, rows) {
  const [all, found] = [bytes(), new Uint8Array(rows.length * size)];
  rows.forEach((row, k) => found.set(all.subarray(row * size, (row + 1) * size), k * size));
  return found;
}
