// @ts-check
// What a recorded page of a workload answers in the kernel's place: its columns hold every operation and
// every phase of a chunk (workload/_recording.py), so that ranks and operations are known at any moment.

import { formatTime } from "./format.js";
import { pack, unpack } from "./messages.js";

/** @import { Columns, Options, Pair, Recording, RecordedWorkload, Replayed, Sent, Window } from "./types" */

const MOST_SPANS = 6000;
const MOST_NODES = 160;
const LABEL = 40;
const [WAITING, READY, RUNNING, DONE] = [0, 1, 2, 3]; // in the order of `states`
const [LATE, BUBBLE] = [4, 5]; // in the order of ACTIVITIES (engine/operations/activity.py)

/**
 * @param {Recording} recording
 * @param {RecordedWorkload} workload
 * @param {(numbers: number[]) => DataView[]} buffersOf
 * @returns {Replayed}
 */
export function createReplayed(recording, workload, buffersOf) {
  const operations = unpack("recorded_operations", buffersOf(workload.operations));
  const { rank: npu, number, label, text, kind, start, end, ready, x, y } = operations;
  const { first, parent } = unpack("recorded_parents", buffersOf(workload.edges));
  const { ends, operation: row, time, event } = unpack("recorded_steps", buffersOf(recording.moments));
  const { labels, texts, kinds, states, ranks } = workload;
  /** @type {Record<string, number>} */
  const tracksOf = { operations: workload.tracks, chunks: workload.dims };
  /** @type {Record<string, Columns<"recorded_spans"> & { tracks: number, byRank: number[][] }>} */
  const spans = {};
  for (const [name, numbers] of Object.entries(workload.spans)) {
    const found = unpack("recorded_spans", buffersOf(numbers));
    spans[name] = { ...found, tracks: tracksOf[name], byRank: byRank(found.rank) };
  }
  const own = byRank(npu); // the operations of each rank
  const did = unpack("doing", buffersOf(workload.doing.buffers));
  /** @returns {Sent} what each rank does when; up to now it is what it will be at the end */
  const doing = () => [workload.doing.message, buffersOf(workload.doing.buffers)];

  /** @param {Uint32Array} column */
  function byRank(column) {
    /** @type {number[][]} */
    const found = Array.from({ length: ranks }, () => []);
    column.forEach((rank, k) => found[rank].push(k));
    return found;
  }

  /**
   * The timeline of some ranks, as workload/_tracks.py answers.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function tracks(options, now) {
    const { kind: which, from, to, columns, ranks: asked } = /** @type {Window & { kind: string, ranks: number[] }} */ (/** @type {object} */ (options));
    const of = spans[which];
    /** @type {Pair[]} place and number of each span */
    const found = [];
    asked.forEach((rank, at) => {
      for (const k of of.byRank[rank]) {
        if (of.start[k] <= now && of.start[k] < to && Math.min(of.end[k], now) > from) found.push([at * of.tracks + of.track[k], k]);
      }
    });
    const about = { from, to, columns, kind: which, ranks: asked, tracks: of.tracks, count: found.length, now_ps: now };
    /** @type {Pair[]} place of the rank among those asked for, and number of a stretch */
    const idle = [];
    if (which === "operations") {
      did.rank.forEach((rank, k) => {
        const at = asked.indexOf(rank);
        if (did.state[k] >= LATE && at >= 0 && did.start[k] < Math.min(now, to) && did.end[k] > from) idle.push([at, k]);
      });
    }
    if (found.length > MOST_SPANS) return [{ ...about, drawn: "density" }, pack("tracks", { shares: shares(of, found, about, idle) })];
    /** @param {Uint8Array | Uint32Array | Float64Array} column */
    const pick = (column) => found.map(([, k]) => column[k]);
    const arrays = {
      place: found.map(([place]) => place), slot: pick(of.slot), slots: pick(of.slots), number: pick(of.number), label: pick(of.label),
      start: pick(of.start), end: pick(of.end).map((until) => Math.min(until, now)), ready: pick(of.ready).map((until) => Math.min(until, now)), waits: pick(of.waits),
      idle_at: idle.map(([at]) => at), idle_state: idle.map(([, k]) => did.state[k]),
      idle_start: idle.map(([, k]) => did.start[k]), idle_end: idle.map(([, k]) => Math.min(did.end[k], now)),
    };
    return [{ ...about, drawn: "spans", labels }, pack("tracks", arrays)];
  }
  /**
   * Which part of each column each track is busy, 255 being all.
   * @param {Columns<"recorded_spans">} of
   * @param {Pair[]} found
   * @param {Window & { kind: string, ranks: number[], tracks: number, now_ps: number }} about
   * @param {Pair[]} idle when ranks had not started, or had a bubble
   */
  function shares(of, found, { from, to, columns, ranks: asked, tracks: count, kind: which, now_ps: now }, idle) {
    const rows = which === "operations" ? count + 3 : count;
    const busy = new Float64Array(asked.length * rows * columns);
    const wide = (to - from) / columns;
    /** @param {number} at @param {number} since @param {number} until */
    const add = (at, since, until) => {
      const [a, b] = [(Math.max(since, from) - from) / wide, (Math.min(until, now, to) - from) / wide];
      for (let c = Math.floor(a); c < b && c < columns; c++) busy[at * columns + c] += Math.min(b, c + 1) - Math.max(a, c);
    };
    for (const [place, k] of found) {
      const rank = Math.floor(place / count);
      const begun = of.waits[k] === BUBBLE ? of.ready[k] : of.start[k]; // what waits for a message is no communication
      add(rank * rows + (place % count), begun, of.end[k]);
      if (rows > count) add(rank * rows + count, begun, of.ready[k]);
    }
    for (const [rank, k] of idle) add(rank * rows + count + 1 + did.state[k] - LATE, did.start[k], did.end[k]);
    return Uint8Array.from(busy, (share) => Math.min(255, Math.round(255 * share)));
  }

  const { axes, fullest, absent, buffers } = workload.footprint;
  const memory = unpack("recorded_footprint", buffersOf(buffers));
  /**
   * What a rank has held up to a time: from which moments on, and the bytes by parts; changes at one time are one.
   * @param {number} rank
   * @param {number} now
   */
  function heldBy(rank, now) {
    const table = memory.table[rank];
    const parts = axes[table].parts.length;
    /** @type {(column: Float64Array, row: number) => number[]} */
    const take = (column, at) => [...column.subarray(at * parts, (at + 1) * parts)];
    /** @type {Pair[]} when, and the number of the change */
    const changes = [];
    for (let k = memory.first[table]; k < memory.first[table + 1]; k++) {
      const by = own[rank][memory.operation[k]];
      const at = memory.at_end[k] ? end[by] : start[by];
      if (at <= now) changes.push([at, k]);
    }
    const held = [{ time: 0, bytes: take(memory.held, table) }];
    for (const [at, k] of changes.sort((a, b) => a[0] - b[0])) {
      const last = held[held.length - 1];
      const change = take(memory.change, k);
      const bytes = last.bytes.map((one, part) => one + change[part]);
      if (last.time === at) last.bytes = bytes;
      else held.push({ time: at, bytes });
    }
    return held;
  }
  /**
   * What a rank holds in memory, as views/footprint.py answers; every change is drawn.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function footprint(options, now) {
    const { from, to, columns, rank: asked, at_ps: moment } = /** @type {Window & { rank: number | null, at_ps: number | null }} */ (/** @type {object} */ (options));
    const about = { from, to, columns, now_ps: now, exact: true, absent };
    if (absent) return [{ ...about, chart: null }, pack("footprint", {})];
    const rank = asked === null || asked >= ranks ? fullest : asked; // the page may hold the first ranks only
    const held = heldBy(rank, now);
    /** @type {(at: number) => number} the last change up to a time */
    const until = (at) => Math.max(0, held.findLastIndex(({ time: since }) => since <= at));
    /** @type {(bytes: number[]) => number} */
    const sum = (bytes) => bytes.reduce((all, one) => all + one, 0);
    const peak = held.reduce((most, one) => (sum(one.bytes) > sum(most.bytes) ? one : most));
    const chart = { ...axes[memory.table[rank]], rank, at: held[until(moment ?? now)].bytes, peak_ps: peak.time, peak: peak.bytes };
    const shown = held.slice(until(from)).filter(({ time: since }, k) => !k || since < to);
    const bytes = chart.parts.flatMap((_, part) => shown.map((one) => one.bytes[part]));
    return [{ ...about, chart }, pack("footprint", { time: shown.map((one) => one.time), held: bytes })];
  }

  /** @param {number} k @param {number} at */
  const stateAt = (k, at) => (end[k] <= at ? DONE : start[k] <= at ? RUNNING : ready[k] <= at ? READY : WAITING);
  /** @param {number} k @param {number} state */
  function when(k, state) {
    if (state === DONE) return `${formatTime(start[k], 3)} to ${formatTime(end[k], 3)}`;
    return state === RUNNING ? `since ${formatTime(start[k], 3)}` : "";
  }
  /** @type {number[][]} the operations of a rank by when they begin */
  const ordered = [];
  /** The operations of a rank around a time. @param {number} rank @param {number} at */
  function around(rank, at) {
    const mine = own[rank];
    if (mine.length <= MOST_NODES) return mine;
    ordered[rank] ??= [...mine].sort((a, b) => start[a] - start[b] || a - b);
    const now = ordered[rank].findIndex((k) => start[k] > at);
    const from = Math.min(Math.max(0, (now < 0 ? mine.length : now) - MOST_NODES / 2), mine.length - MOST_NODES);
    return ordered[rank].slice(from, from + MOST_NODES).sort((a, b) => a - b);
  }
  /** Places without gaps: what is left out takes no room. @param {number[]} values */
  function pressed(values) {
    const known = new Map([...new Set(values)].sort((a, b) => a - b).map((value, at) => [value, at]));
    return values.map((value) => known.get(value) ?? 0);
  }
  /**
   * The graph of a rank's operations, as workload/_graph.py answers.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function graph(options, now) {
    const { rank, at_ps: moment } = /** @type {{ rank: number, at_ps: number | null }} */ (/** @type {object} */ (options));
    const at = moment ?? now;
    const mine = around(rank, at);
    const places = new Map(mine.map((k, n) => [k, n]));
    const [xs, ys] = [pressed(mine.map((k) => x[k])), pressed(mine.map((k) => y[k]))];
    const nodes = mine.map((k, n) => {
      const state = stateAt(k, at);
      return {
        path: `rank[${npu[k]}].op[${number[k]}]`, label: labels[label[k]].slice(0, LABEL), what: texts[text[k]], kind: kinds[kind[k]],
        state: states[state], when: when(k, state), x: xs[n], y: ys[n],
      };
    });
    const lines = mine.flatMap((k, n) => [...parent.subarray(first[k], first[k + 1])].filter((p) => places.has(p)).map((p) => [places.get(p), n]));
    const counts = Object.fromEntries(states.map((state) => [state, 0]));
    for (const k of own[rank]) counts[states[stateAt(k, at)]] += 1;
    return [{ rank, nodes, edges: lines, counts, hidden: own[rank].length - mine.length }, []];
  }

  /** The moment of the n-th end of an operation from here, or the last one. @param {number} n @param {number} done */
  function operation(n, done) {
    let left = n;
    for (let k = done; k < ends.length; k++) {
      left -= ends[k];
      if (left === 0) return k + 1;
    }
    return ends.length;
  }
  return {
    answers: { tracks, graph, doing, footprint },
    operation,
    moments: { time, event },
    narration: (k) => `rank ${npu[row[k]]} ${ends[k] ? "ends" : "begins"} ${texts[text[row[k]]]}`,
    changed: (k) => `rank[${npu[row[k]]}]`,
  };
}
