// @ts-check
// What a recorded page of a workload answers in the kernel's place: its columns hold every operation and
// every phase of a chunk (workload/_recording.py), so that ranks and operations are known at any moment.

import { formatTime } from "./format.js";
import { DONE, READY, RUNNING, WAITING, graphAnswer, reversed } from "./graph_layout.js";
import { heldAfter, memoryAnswer, memoryUnknown } from "./memory_chart.js";
import { unpack } from "./messages.js";
import { columnEdges } from "./numpy.js";
import { LATE, tracksAnswer } from "./rank_tracks.js";

/** @import { Columns, Options, Recording, RecordedWorkload, Replayed, Sent, Window } from "./types" */


/**
 * @param {Recording} recording
 * @param {RecordedWorkload} workload
 * @param {(numbers: number[]) => DataView[]} buffersOf
 * @returns {Replayed}
 */
export function createReplayed(recording, workload, buffersOf) {
  const operations = unpack("recorded_operations", buffersOf(workload.operations));
  const { rank: npu, number, label, text, kind, start, end, ready } = operations;
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
   * The timeline of some ranks, as views/ranks.py answers.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function tracks(options, now) {
    const { kind: which, from, to, columns, ranks: asked } = /** @type {Window & { kind: string, ranks: number[] }} */ (/** @type {object} */ (options));
    const of = spans[which];
    const shown = asked.flatMap((rank, at) =>
      of.byRank[rank].filter((k) => of.start[k] <= now && of.start[k] < to && Math.min(of.end[k], now) > from).map((k) => ({
        row: k, place: at * of.tracks + of.track[k], slot: of.slot[k], slots: of.slots[k],
        start: of.start[k], end: Math.min(of.end[k], now), ready: Math.min(of.ready[k], now), waits: of.waits[k],
      })),
    );
    const idle = [...did.rank.keys()].filter(
      (k) => which === "operations" && did.state[k] >= LATE && asked.includes(did.rank[k]) && did.start[k] < Math.min(now, to) && did.end[k] > from,
    ).map((k) => ({ at: asked.indexOf(did.rank[k]), state: did.state[k], start: did.start[k], end: Math.min(did.end[k], now) }));
    const about = { kind: which, ranks: asked, tracks: of.tracks, now_ps: now, edges: columnEdges(from, to, columns) };
    return tracksAnswer(about, shown, idle, { number: (k) => of.number[k], label: (k) => labels[of.label[k]] });
  }

  const { axes, fullest, absent, buffers } = workload.footprint;
  const memory = unpack("recorded_footprint", buffersOf(buffers));
  /** What a rank has held up to a time. @param {number} rank @param {number} now */
  function heldBy(rank, now) {
    const table = memory.table[rank];
    const parts = axes[table].parts.length;
    /** @type {(column: Float64Array, row: number) => number[]} */
    const take = (column, at) => [...column.subarray(at * parts, (at + 1) * parts)];
    const changes = [];
    for (let k = memory.first[table]; k < memory.first[table + 1]; k++) {
      const by = own[rank][memory.operation[k]];
      const at = memory.at_end[k] ? end[by] : start[by];
      if (at <= now) changes.push({ time: at, bytes: take(memory.change, k) });
    }
    return heldAfter(take(memory.held, table), changes);
  }
  /**
   * What a rank holds in memory, as views/footprint.py answers.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function footprint(options, now) {
    const { from, to, columns, rank: asked, at_ps: moment } = /** @type {Window & { rank: number | null, at_ps: number | null }} */ (/** @type {object} */ (options));
    const edges = columnEdges(from, to, columns);
    if (absent) return memoryUnknown(absent, now, edges);
    const rank = asked === null || asked >= ranks ? fullest : asked; // the page may hold the first ranks only
    return memoryAnswer(axes[memory.table[rank]], rank, heldBy(rank, now), { at_ps: moment ?? now, now_ps: now, edges });
  }

  const children = reversed(first, parent);
  /** @type {(of: { first: ArrayLike<number>, lists: Uint32Array | Int32Array }, k: number) => number[]} */
  const listed = (of, k) => [...of.lists.subarray(of.first[k], of.first[k + 1])];
  /** @param {number} k @param {number} state */
  function when(k, state) {
    if (state === DONE) return `${formatTime(start[k], 3)} to ${formatTime(end[k], 3)}`;
    return state === RUNNING ? `since ${formatTime(start[k], 3)}` : "";
  }
  /**
   * The graph of a rank's operations, as views/graph.py answers.
   * @param {Options} options
   * @param {number} now
   * @returns {Sent}
   */
  function graph(options, now) {
    const { rank, at_ps: moment } = /** @type {{ rank: number, at_ps: number | null }} */ (/** @type {object} */ (options));
    const at = moment ?? now;
    const graphed = {
      rows: own[rank], parents: (/** @type {number} */ k) => listed({ first, lists: parent }, k), children: (/** @type {number} */ k) => listed(children, k),
      state: (/** @type {number} */ k) => (end[k] <= at ? DONE : start[k] <= at ? RUNNING : ready[k] <= at ? READY : WAITING),
      end: (/** @type {number} */ k) => end[k],
      node: (/** @type {number} */ k, /** @type {number} */ state) => ({
        path: `rank[${npu[k]}].op[${number[k]}]`, label: labels[label[k]], what: texts[text[k]], kind: kinds[kind[k]], when: when(k, state),
      }),
    };
    return graphAnswer(rank, graphed, states);
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
