// @ts-check
// The operations of a workload each of which had to wait for the one before: counterpart of engine/messages/critical_path.py.

import { countOf, instancesOf, pairsOf } from "./messages_pairs.js";
import { COLLECTIVE, COMPUTE, DELAY, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";

/** @import { OperationEngine, Segment } from "./operations_types" */

const PS = 1000;
const ON_NOTHING = 4;
/** @type {Record<number, string>} */
const OF_KIND = { [COMPUTE]: "compute", [COLLECTIVE]: "collective", [SEND]: "message", [RECV]: "message", [MEMORY]: "memory", [REPLAY]: "broadcast", [DELAY]: "delay" };

/**
 * Follow the time back from the operation that ended last. An operation begins when the last of those it depends on has
 * ended, or else when its place is free. A collective's segment begins when the last rank has begun it, and the path
 * continues on that rank; a receive's begins when the message is sent, and continues on the sender. Of a replay the path
 * goes from message to message; what belongs to one recorded collective is one segment.
 * @param {OperationEngine} engine
 * @returns {Segment[]} in the order of time
 */
export function messageSegments(engine) {
  const { about, tables: { operations: { at } } } = engine;
  const { parts, own } = about;
  const count = countOf(engine);
  const replays = new Set(parts?.owner ?? []);
  let last = -1;
  for (let row = 0; row < count; row++) {
    if (at.end_ns(row) >= 0 && !replays.has(row) && (last < 0 || at.end_ns(row) > at.end_ns(last))) last = row;
  }
  if (last < 0) return [];
  /** @param {number} row */
  const shown = (row) => (parts ? parts.shown(row) : row);
  const { own: collectives, replayed } = instancesOf(engine, engine.times_ps().start);
  const number = new Map([...collectives, ...replayed].flatMap((rows, k) => rows.map((one) => [one, k])));
  const latest = latestOf(engine, collectives);
  const sender = new Map(pairsOf(engine).map(([send, receive]) => [receive, send]));
  const reason = reasons(engine);
  /** @type {Segment[]} */
  const path = [];
  /** @type {number | undefined} */
  let same;
  let [row, until, because] = [last, at.end_ns(last), "the last to end"];
  for (let steps = 0; steps <= count;) {
    const [begun, kind] = [at.start_ns(row), about.kind[shown(row)]];
    let other = latest.get(row) ?? row;
    if (!latest.has(row) && at.kind(row) === RECV && until > begun) other = sender.get(row) ?? row;
    const start = Math.min(at.start_ns(other), until);
    const late = kind === DELAY && start === 0 && !about.waited_for(row).length;
    const mine = number.get(shown(row)) ?? -1 - shown(row); // the collective, or else the recorded operation
    const before = path[path.length - 1];
    if (before && row >= own && mine === same) before.start_ps = start * PS;
    else path.push({ row: shown(row), start_ps: start * PS, end_ps: until * PS, cause: late ? "started late" : OF_KIND[kind], because });
    same = mine;
    const left = row;
    if (other !== row) because = `rank ${at.npu(row)} needs it in ${about.label(shown(row))}`;
    [row, until] = [other, start];
    const following = reason(row, until);
    steps += 1;
    if (following < 0 || steps > count) break;
    if (other === left) {
      const depends = at.npu(following) === at.npu(row) && about.waited_for(row).includes(following);
      because = `${about.label(shown(row))} ${depends ? "depends on it" : "needs its place"}`;
    }
    row = following;
  }
  if (until > 0) path.push({ row, start_ps: 0, end_ps: until * PS, cause: "start", because: "nothing before it" });
  return path.reverse();
}

/** For each operation of a collective the one of them that began last. @param {OperationEngine} engine @param {number[][]} collectives */
function latestOf({ tables: { operations } }, collectives) {
  const { start_ns } = operations.at;
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const rows of collectives) {
    const last = rows.reduce((a, b) => (start_ns(b) > start_ns(a) || (start_ns(b) === start_ns(a) && b > a) ? b : a));
    for (const row of rows) found.set(row, last);
  }
  return found;
}

/** What an operation that began at a time had to wait for; -1: nothing. @param {OperationEngine} engine @returns {(row: number, at_ns: number) => number} */
function reasons({ about, tables: { operations: { at } } }) {
  /** @param {number} row @param {number} when */
  const key = (row, when) => `${at.npu(row)} ${at.place(row)} ${when}`;
  /** @type {Map<string, number>} the operation that left each place at each time */
  const before = new Map();
  for (let row = 0; row < about.own; row++) {
    if (at.end_ns(row) >= 0 && at.place(row) !== ON_NOTHING) before.set(key(row, at.end_ns(row)), row);
  }
  return (row, when) => {
    const parents = Array.from(about.waited_for(row));
    const last = parents.length ? parents.reduce((most, one) => (at.end_ns(one) > at.end_ns(most) ? one : most)) : -1;
    if (last >= 0 && at.end_ns(last) === when) return last;
    const found = before.get(key(row, when)) ?? -1;
    return found >= 0 && found !== row ? found : last;
  };
}
