// @ts-check
// What ranks did when: counterpart of engine/operations/spans.py and activity.py.

import { ACTIVITIES, BUBBLE, LATE } from "../rank_tracks.js";
import { COLLECTIVE, DELAY, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";

/** @import { OperationEngine, Spans } from "./operations_types" */

const [COMPUTE, COMMUNICATION, WAITING, MEMORY_ACCESS] = ACTIVITIES.keys();
const COMMUNICATING = new Set([COLLECTIVE, SEND, RECV, REPLAY]);
const OF_TRACK = [COMPUTE, COMMUNICATION, MEMORY_ACCESS];

/** The number of a kind's track. @param {number} kind */
const trackOf = (kind) => (COMMUNICATING.has(kind) ? 1 : kind === MEMORY ? 2 : 0);

/**
 * The operations that have begun, but for delays and those of custom collectives; of a replay the recorded ones.
 * @param {OperationEngine} engine
 * @returns {Spans}
 */
export function spansOf(engine) {
  const { about: { npu, kind, parts } } = engine;
  const { start, end } = engine.times_ps();
  const now = engine.now_ps();
  /** @type {Spans} */
  const found = { row: [], npu: [], track: [], start_ps: [], end_ps: [] };
  start.forEach((begun, row) => {
    if (begun < 0 || kind[row] === DELAY || parts?.hidden[row]) return;
    found.row.push(row);
    found.npu.push(npu[row]);
    found.track.push(trackOf(kind[row]));
    found.start_ps.push(begun);
    found.end_ps.push(end[row] >= 0 ? end[row] : now);
  });
  return found;
}

/** Some of the rows of columns. @template {Record<string, number[]>} T @param {T} columns @param {(at: number) => boolean} kept @returns {T} */
export function some(columns, kept) {
  return /** @type {T} */ (Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column.filter((_, at) => kept(at))])));
}

/** How much of the time of each rank has passed before its first operation, because it started late. @param {OperationEngine} engine */
export function latePs(engine) {
  const { about: { start: first, kind }, ranks } = engine;
  const { start, end } = engine.times_ps();
  const now = engine.now_ps();
  return Array.from({ length: ranks }, (_, rank) => {
    const row = first[rank];
    if (!(first[rank + 1] > row) || kind[row] !== DELAY || start[row] !== 0) return 0;
    return end[row] >= 0 ? end[row] : now;
  });
}

/** When each rank was done; now, before that. @param {OperationEngine} engine */
function untilOf(engine) {
  const now = engine.now_ps();
  return engine.ends_ps().map((done) => (done >= 0 ? done : now));
}

/**
 * Go over the stretches of time between which spans begin and end, one rank after another.
 * @param {{ npu: number[], start_ps: number[], end_ps: number[] }} spans
 * @param {number[]} kind of each span
 * @param {number} kinds how many there are
 * @param {(rank: number, start: number, end: number, underWay: Int32Array) => void} visit with how many spans of each kind are under way
 */
export function sweep({ npu, start_ps, end_ps }, kind, kinds, visit) {
  /** @type {Map<number, number[]>} */
  const ranks = new Map();
  npu.forEach((rank, at) => {
    const known = ranks.get(rank);
    if (known) known.push(at);
    else ranks.set(rank, [at]);
  });
  for (const [rank, mine] of [...ranks].sort((a, b) => a[0] - b[0])) {
    const begins = [...mine].sort((a, b) => start_ps[a] - start_ps[b]);
    const ends = [...mine].sort((a, b) => end_ps[a] - end_ps[b]);
    const underWay = new Int32Array(kinds);
    let [opened, closed, last] = [0, 0, 0];
    while (closed < ends.length) {
      const begin = opened < begins.length ? start_ps[begins[opened]] : Infinity;
      const end = end_ps[ends[closed]];
      const at = Math.min(begin, end);
      if (at > last && opened > closed) visit(rank, last, at, underWay);
      last = at;
      if (begin <= end) underWay[kind[begins[opened++]]] += 1;
      else underWay[kind[ends[closed++]]] -= 1;
    }
  }
}

/**
 * How long each rank computed, communicated, and did so with nothing else to do, in ps.
 * @param {OperationEngine} engine
 */
export function sharesOf(engine) {
  const end = untilOf(engine);
  const none = () => end.map(() => 0);
  const parts = { compute: none(), communication: none(), exposed_comm: none(), memory: none(), end, idle: none() };
  const spans = spansOf(engine);
  sweep(spans, spans.track, 3, (rank, from, to, [computing, communicating, memory]) => {
    const length = to - from;
    if (computing) parts.compute[rank] += length;
    if (communicating) parts.communication[rank] += length;
    if (communicating && !computing) parts.exposed_comm[rank] += length;
    if (memory && !computing && !communicating) parts.memory[rank] += length;
  });
  parts.idle = end.map((until, rank) => until - parts.compute[rank] - parts.exposed_comm[rank] - parts.memory[rank]);
  return parts;
}

/** When the last rank was done; up to now while it runs. @param {OperationEngine} engine */
export const timePs = (engine) => Math.max(0, ...untilOf(engine));

/**
 * Until when each span waits for another rank, and what this is, in ACTIVITIES.
 * @param {OperationEngine} engine @param {Spans} spans @param {Float64Array} ready
 */
export function waitsOf({ about: { kind } }, { row, start_ps, end_ps }, ready) {
  return {
    ready: row.map((one, at) => (COMMUNICATING.has(kind[one]) ? Math.min(Math.max(ready[one], start_ps[at]), end_ps[at]) : start_ps[at])),
    waits: row.map((one) => (kind[one] === RECV ? BUBBLE : WAITING)),
  };
}

/**
 * What some ranks have done: stretches in the order of rank and time, without gaps from 0 to the end of each.
 * @param {OperationEngine} engine @param {Spans} all @param {Float64Array} readyPs @param {number[] | null} ranks null: all
 */
export function activityOf(engine, all, readyPs, ranks) {
  const until = untilOf(engine);
  const chosen = ranks === null ? null : new Set(ranks);
  const every = chosen ? [...chosen].sort((a, b) => a - b) : until.map((_, rank) => rank);
  const spans = chosen ? some({ ...all }, (at) => chosen.has(all.npu[at])) : all;
  const { ready, waits } = waitsOf(engine, spans, readyPs);
  const late = latePs(engine);
  const nothing = every.map(() => 0);
  const given = {
    npu: [...spans.npu, ...spans.npu, ...every, ...every],
    start_ps: [...ready, ...spans.start_ps, ...nothing, ...nothing],
    end_ps: [...spans.end_ps, ...ready, ...every.map((rank) => until[rank]), ...every.map((rank) => late[rank])],
  };
  const what = [...spans.track.map((track) => OF_TRACK[track]), ...waits, ...every.map(() => BUBBLE), ...every.map(() => LATE)];
  /** @type {Record<"rank" | "state" | "start_ps" | "end_ps", number[]>} */
  const found = { rank: [], state: [], start_ps: [], end_ps: [] };
  sweep(given, what, ACTIVITIES.length, (rank, from, to, underWay) => {
    const state = underWay.findIndex((count) => count > 0);
    const last = found.rank.length - 1;
    if (state < 0) return;
    if (last >= 0 && found.rank[last] === rank && found.state[last] === state) found.end_ps[last] = to;
    else {
      found.rank.push(rank);
      found.state.push(state);
      found.start_ps.push(from);
      found.end_ps.push(to);
    }
  });
  return found;
}
