// @ts-check
// Tables of a run of messages whose rows come and go: counterpart of engine/messages/tables.py.

import { longBytes } from "./longs.js";
import { resize } from "./tables.js";
import { bucketOf } from "./timesteps.js";

/** @import { Machine, Table, Tables } from "./types" */

/** The next power of two. @param {number} count */
function power(count) {
  let found = 1;
  while (found < count) found *= 2;
  return found;
}

/**
 * Make a table longer; returns its first unused row, the new rows first.
 * @param {Machine} machine @param {string} name @param {number} rows @param {number} free
 */
function longer({ room, tables }, name, rows, free) {
  const table = tables[name];
  const old = table.rows;
  resize(room, table, rows);
  for (let row = old; row < rows - 1; row++) table.put.next(row, row + 1);
  table.put.next(rows - 1, free);
  return old;
}

/** Put the pending timesteps into the buckets again, whose number has changed. @param {Tables} tables */
function refill({ queue, timesteps }) {
  for (let row = 0; row < timesteps.rows; row++) timesteps.put.bucket(row, -1);
  for (const row of openRows({ queue, timesteps })) {
    const bucket = bucketOf(timesteps.at.time(row), timesteps.rows);
    timesteps.put.next(row, timesteps.at.bucket(bucket));
    timesteps.put.bucket(bucket, row);
  }
}

/** The rows of the timesteps to come, in the order of the heap, and behind them the one under way. @param {Pick<Tables, "queue" | "timesteps">} tables */
function openRows({ queue, timesteps }) {
  const rows = Array.from({ length: queue.at.heaped(0) }, (_, at) => timesteps.at.heap(at));
  return queue.at.open(0) >= 0 ? [...rows, queue.at.open(0)] : rows;
}

/**
 * Enlarge the tables that are full.
 * @param {Machine} machine
 * @param {number} margin the least number of unused rows that each table must have
 * @param {number} streams and that of streams
 */
export function enlarge(machine, margin, streams) {
  const { room, tables } = machine;
  const { clock, queue, config } = tables;
  const along = ["moving", "meeting"].filter((name) => tables[name].rows === tables.messages.rows);
  for (const [name, least] of /** @type {const} */ ([["timers", margin], ["messages", margin], ["streams", streams]])) {
    const [left, free] = [`${name}_left`, `free_${name.slice(0, -1)}`];
    if (clock.at[left](0) >= least) continue;
    const old = tables[name].rows;
    const count = 2 * old + least;
    clock.put[free](0, longer(machine, name, count, clock.at[free](0)));
    clock.put[left](0, clock.at[left](0) + count - old);
    if (name === "streams") resize(room, tables.phases, count * config.at.max_phases(0));
    if (name === "messages") along.forEach((other) => resize(room, tables[other], count));
  }
  if (queue.at.events_left(0) < 2 * margin) {
    const old = tables.pending.rows;
    const count = power(2 * old + 2 * margin);
    queue.put.free_event(0, longer(machine, "pending", count, queue.at.free_event(0)));
    queue.put.events_left(0, queue.at.events_left(0) + count - old);
    queue.put.free_timestep(0, longer(machine, "timesteps", count, queue.at.free_timestep(0)));
    refill(tables);
  }
}

/** The rows of the timers, messages or streams that are in no list of unused rows. @param {Tables} tables @param {"timers" | "messages" | "streams"} name */
export function inUse({ clock, ...tables }, name) {
  const { rows, at } = tables[name];
  const unused = new Uint8Array(rows);
  let free = clock.at[`free_${name.slice(0, -1)}`](0);
  for (let left = clock.at[`${name}_left`](0); left > 0; left--) {
    unused[free] = 1;
    free = at.next(free);
  }
  /** @type {number[]} */
  const found = [];
  unused.forEach((one, row) => {
    if (!one) found.push(row);
  });
  return found;
}

/** Some rows of a table, one behind the other. @param {Table} table @param {number[]} rows @param {number} [width] rows that are together */
function picked(table, rows, width = 1) {
  const [bytes, size] = [table.bytes(), table.size * width];
  const found = new Uint8Array(rows.length * size);
  rows.forEach((row, at) => found.set(bytes.subarray(row * size, (row + 1) * size), at * size));
  return found;
}

/** The pending events, each with its time, in the order in which they will be handled. @param {Tables} tables */
export function eventsOf({ queue, timesteps, pending }) {
  /** @type {number[]} */
  const found = [];
  const rows = openRows({ queue, timesteps });
  for (const row of rows.sort((a, b) => timesteps.at.time(a) - timesteps.at.time(b))) {
    for (let event = timesteps.at.head(row); event >= 0; event = pending.at.next(event)) {
      found.push(timesteps.at.time(row), pending.at.what(event));
    }
  }
  return found;
}

/** A copy of a table with other values in some fields. @param {Table} table @param {(put: (field: string, row: number, value: number) => void) => void} change */
function changed(table, change) {
  const bytes = table.bytes().slice();
  const view = new DataView(bytes.buffer);
  const offset = Object.fromEntries(table.fields.map(([field, , at]) => [field, at]));
  change((field, row, value) => view.setBigInt64(row * table.size + offset[field], BigInt(value), true));
  return bytes;
}

/** The tables that are not part of the simulated state. */
export const RECORDED = ["watch", "points", "passed", "traffic", "used", "moving", "flights", "drawn", "fold", "meeting", "last_use"];
const LEFT_OUT = new Set([...RECORDED, "limits", "timesteps", "pending", "tails"]);

/**
 * Everything simulated: without what is recorded, unused rows, capacities and scratch values.
 * @param {Tables} tables
 * @returns {[name: string, rows: number, bytes: Uint8Array][]}
 */
export function simulated(tables) {
  const { clock, places, ready, grants, schedule, queue, config } = tables;
  const scratch = clock.at.cursor(0) < 0 ? ["timer_npu", "head"] : [];
  /** @type {Map<string, [rows: number, bytes: Uint8Array]>} */
  const state = new Map();
  for (const { name, rows, bytes } of Object.values(tables)) {
    if (!LEFT_OUT.has(name)) state.set(name, [rows, bytes()]);
  }
  /** @type {number[]} */
  let streams = [];
  for (const name of /** @type {const} */ (["timers", "messages", "streams"])) {
    const used = inUse(tables, name);
    if (name === "streams") streams = used;
    state.set(name, [used.length, picked(tables[name], used)]);
    state.set(`${name} in use`, [used.length, longBytes(used)]);
    scratch.push(`free_${name.slice(0, -1)}`, `${name}_left`);
  }
  const width = config.at.max_phases(0);
  state.set("phases", [streams.length * width, picked(tables.phases, streams, width)]);
  state.set("clock", [1, changed(clock, (put) => scratch.forEach((name) => put(name, 0, 0)))]);
  state.set("queue", [2, longBytes([queue.at.now(0), queue.at.turns(0)])]);
  const events = eventsOf(tables);
  state.set("events", [events.length / 2, longBytes(events)]);
  /** @type {number[]} of a heap of ready operations only its first rows are in use */
  const heaps = [];
  for (let row = 0; row < places.rows; row++) {
    for (let at = 0; at < places.at.ready(row); at++) heaps.push(places.at.first(row) + at);
  }
  state.set("ready", [heaps.length, picked(ready, heaps)]);
  state.set("grants", [grants.rows, changed(grants, (put) => {
    for (let row = 0; row < grants.rows; row++) {
      if (grants.at.first(row) === grants.at.last(row)) ["head", "tail"].forEach((name) => put(name, row, 0));
    }
  })]);
  const columns = ["nodes", "rate", "links"].flatMap((name) => [...schedule.column(name)]);
  state.set("schedule", [3, new Uint8Array(Float64Array.from(columns).buffer)]);
  return [...state].map(([name, [rows, bytes]]) => [name, rows, bytes]);
}
