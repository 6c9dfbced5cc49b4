// @ts-check
// Which operations of ranks belong together, and when they stop waiting for others: counterpart of
// engine/messages/instances.py and ready_times.py.

import { COLLECTIVE, RECV, SEND } from "./operations_about.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { Tables } from "./types" */

const PS = 1000;

/** How many rows are looked at: the ranks' operations, and of replays each message and computation. @param {OperationEngine} engine */
export const countOf = ({ about, tables }) => (about.parts ? tables.operations.rows : about.own);

/** Rows that have begun and are of a kind, by when they begin. @param {OperationEngine} engine @param {number} kind */
function begunOf(engine, kind) {
  const { at } = engine.tables.operations;
  const found = [];
  for (let row = 0; row < countOf(engine); row++) if (at.kind(row) === kind && at.start_ns(row) >= 0) found.push(row);
  return found.sort((a, b) => at.start_ns(a) - at.start_ns(b) || a - b);
}

/** The ranks of a group; of all, where it is -1. @param {Tables} tables @param {number} group */
export function membersOf({ groups, members, npus }, group) {
  if (group < 0) return Array.from({ length: npus.rows }, (_, rank) => rank);
  return Array.from({ length: groups.at.count(group) }, (_, at) => members.at.value(groups.at.first(group) + at));
}

/**
 * Sends and receives that belong together: each the k-th of its kind.
 * @param {OperationEngine} engine
 * @returns {[send: number, receive: number][]}
 */
export function pairsOf(engine) {
  const { npu, peer, tag, bytes } = engine.tables.operations.at;
  /** @type {Map<string, number[]>} */
  const sent = new Map();
  for (const row of begunOf(engine, SEND)) {
    const key = `${npu(row)} ${peer(row)} ${tag(row)} ${bytes(row)}`;
    const known = sent.get(key);
    if (known) known.push(row);
    else sent.set(key, [row]);
  }
  /** @type {[number, number][]} */
  const found = [];
  /** @type {Map<string, number>} */
  const taken = new Map();
  for (const row of begunOf(engine, RECV)) {
    const key = `${peer(row)} ${npu(row)} ${tag(row)} ${bytes(row)}`;
    const nth = taken.get(key) ?? 0;
    taken.set(key, nth + 1);
    const send = sent.get(key)?.[nth];
    if (send !== undefined) found.push([send, row]);
  }
  return found;
}

/**
 * The operations of each collective that has begun: the k-th that a rank begins in a group is the k-th of that
 * group's other ranks. Of a replay, the recorded ones: those that exchange messages.
 * @param {OperationEngine} engine
 * @param {Float64Array} start
 */
export function instancesOf(engine, start) {
  const { group, npu } = engine.tables.operations.at;
  const { parts, kind } = engine.about;
  /** @type {Map<string, number[]>} */
  const found = new Map();
  /** @type {Map<string, number>} */
  const begun = new Map();
  for (const row of begunOf(engine, COLLECTIVE)) {
    const key = `${group(row)} ${npu(row)}`;
    const nth = begun.get(key) ?? 0;
    begun.set(key, nth + 1);
    const name = `${group(row)} ${nth}`;
    if (!found.has(name)) found.set(name, []);
    if (!parts?.hidden[row]) found.get(name)?.push(row);
  }
  const own = [...found.values()].filter((rows) => rows.length);
  if (!parts) return { own, replayed: [] };
  const pairs = pairsOf(engine).map((pair) => pair.map(parts.shown)).filter((pair) => pair.every((row) => kind[row] === COLLECTIVE));
  const least = joined(pairs, engine.tables.operations.rows);
  /** @type {Map<number, number[]>} */
  const replayed = new Map();
  for (const row of parts.first) {
    if (kind[row] !== COLLECTIVE || start[row] < 0) continue;
    const first = least(row);
    const known = replayed.get(first);
    if (known) known.push(row);
    else replayed.set(first, [row]);
  }
  return { own, replayed: [...replayed.values()] };
}

/** For each of some numbers the least of all that pairs join it with, directly or not. @param {number[][]} pairs @param {number} count */
function joined(pairs, count) {
  const least = Int32Array.from({ length: count }, (_, row) => row);
  /** @param {number} row */
  function find(row) {
    let found = row;
    while (least[found] !== found) {
      least[found] = least[least[found]];
      found = least[found];
    }
    return found;
  }
  for (const [one, other] of pairs) {
    const [a, b] = [find(one), find(other)];
    least[Math.max(a, b)] = Math.min(a, b);
  }
  return find;
}

/** From when on each operation that has begun waits for no other rank, in ps; 0 where it never does. @param {OperationEngine} engine */
export function readyTimes(engine) {
  const { tables } = engine;
  const { operations, clock } = tables;
  const ready = new Float64Array(countOf(engine));
  if (!clock.at.steps(0)) return ready;
  const now = Math.floor(engine.now_ps() / PS) * PS;
  const { start } = engine.times_ps();
  const { own, replayed } = instancesOf(engine, start);
  for (const rows of own) {
    const whole = membersOf(tables, operations.at.group(rows[0])).length;
    const latest = rows.length < whole ? now : Math.max(...rows.map((row) => operations.at.start_ns(row) * PS));
    for (const row of rows) ready[row] = latest;
  }
  for (const rows of replayed) {
    const latest = Math.max(...rows.map((row) => start[row]));
    for (const row of rows) ready[row] = latest;
  }
  for (const row of begunOf(engine, RECV)) ready[row] = now;
  for (const [send, receive] of pairsOf(engine)) ready[receive] = operations.at.start_ns(send) * PS;
  return ready;
}
