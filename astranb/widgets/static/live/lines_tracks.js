// @ts-check
// What every SM, or every thread block, did when; kept up as time goes on: counterpart of engine/cacheline/tracks.py.

import { COMPUTE as COMPUTING, COPY_ENGINE, NOTIFY, SPEND, TILE } from "./gpu_numbers.js";
import { DRAINING, SIGNALLING, WAITING, eachOperationSpan } from "./lines_spans.js";
import { addSpan, addSpent, countOf, eachSpan, flatten, join, noSpans, overlaps, until } from "./stretches.js";

/** @import { Engine, Tracks } from "./types" */

export const TRACK_STATES = [
  "issue", "data: no slot", "compute", "signal", "data", "data: packets", "fence", "semaphore: copy engine", "semaphore",
  "issue or data", "started late",
];
const [ISSUE, NO_SLOT, COMPUTE, SIGNAL, DATA, PACKETS, FENCE, ENGINE, SEMAPHORE, MOVING, LATE] = TRACK_STATES.keys();
const OF_BURSTS = [ISSUE, COMPUTE, SIGNAL, NO_SLOT];
const MOST = 2 ** 24; // changes of state that are kept; of older time less is known

/** @param {Engine} engine @param {string} kind @returns {Tracks} */
export function createTracks(engine, kind) {
  const { blocks, sms, ops, semaphores } = engine.tables;
  const { gpu, number, engineOf, trackOf } = kind === "sms" ? bySm(engine) : byBlock(engine);
  const states = TRACK_STATES.length;
  const byEngine = new Uint8Array(semaphores.rows); // whether copy engines raise it
  for (let op = 0; op < ops.rows; op++) {
    if (ops.at.kind(op) === NOTIFY && blocks.at.engine(ops.at.block(op)) === COPY_ENGINE && ops.at.semaphore(op) >= 0) byEngine[ops.at.semaphore(op)] = 1;
  }
  /** @type {import("./stretches.js").Stretch[]} */
  const stretches = [];
  let known_ps = 0; // worked out up to here
  /** @type {Float64Array | null} */
  let reached = null; // the operation that each thread block was at then
  let bursts = 0; // of the recording, by number
  /** @type {[now_ps: number, bursts: number] | null} */
  let lowest = null; // when it was taken back furthest

  /** The state of a track from a span of a thread block. @param {number} state @param {number} op */
  function stateOf(state, op) {
    if (state === SIGNALLING) return SIGNAL;
    if (state === DRAINING) return FENCE;
    const semaphore = ops.at.semaphore(op);
    if (state === WAITING) return semaphore >= 0 && byEngine[semaphore] ? ENGINE : SEMAPHORE;
    const what = ops.at.kind(op);
    if (what === COMPUTING || what === SPEND || what === TILE) return COMPUTE;
    return ops.at.spins(op) > 0 ? PACKETS : MOVING;
  }

  /** What happened in a stretch of time that lies in the past. @param {number} start_ps @param {number} end_ps @param {boolean} recorded @param {Float64Array | null} since */
  function workOut(start_ps, end_ps, recorded, since) {
    const spans = noSpans();
    const complete = kind === "sms" && recorded && engine.recorder.on() ? withBursts(spans, start_ps) : null;
    eachOperationSpan(engine, start_ps, end_ps, since, (block, op, state, from, to) => {
      const track = kind === "sms" ? trackOf[blocks.at.sm(block)] : block;
      const what = stateOf(state, op);
      if (what !== MOVING || !complete) addSpan(spans, track, what, from, to);
      else {
        // Before what is recorded it stays undivided; after it, what is no burst waits for data.
        addSpan(spans, track, MOVING, from, Math.min(to, complete[track]));
        addSpan(spans, track, DATA, Math.max(from, complete[track]), to);
      }
    });
    for (let track = 0; track < gpu.length; track++) if (engine.late_ps[gpu[track]] > start_ps) addSpan(spans, track, LATE, 0, engine.late_ps[gpu[track]]);
    return flatten(start_ps, end_ps, gpu.length, spans);
  }

  /** Add the bursts since the last time; returns from when on those of each track are complete. @param {import("./stretches.js").Spans} spans @param {number} start_ps */
  function withBursts(spans, start_ps) {
    const now_ps = engine.now_ps();
    const { current } = engine.tables;
    const ring = engine.recorder.bursts_since(bursts);
    const { at } = ring.table;
    const since = new Float64Array(gpu.length).fill(start_ps);
    const lost = ring.first > bursts;
    if (lost) trackOf.forEach((track, sm) => track >= 0 && (since[track] = current.at.start_ps(sm)));
    ring.each((row) => {
      const track = trackOf[at.sm(row)];
      const from = at.start_ps(row);
      addSpan(spans, track, OF_BURSTS[at.state(row)], from, at.end_ps(row));
      if (lost) since[track] = Math.min(since[track], from);
    });
    trackOf.forEach((track, sm) => {
      if (track < 0) return;
      const state = current.at.state(sm);
      if (state >= 0) addSpan(spans, track, OF_BURSTS[state], current.at.start_ps(sm), current.at.end_ps(sm));
      const stalled = sms.at.stalled(sm) === 1;
      const since_ps = sms.at.stalled_since_ps(sm);
      if (stalled) addSpan(spans, track, NO_SLOT, since_ps, now_ps);
      // A slot is free again, and the SM has not issued yet: this is not recorded.
      const unrecorded_ps = sms.at.stalled_ps(sm) - current.at.stalled_ps(sm);
      if (unrecorded_ps > 0) addSpan(spans, track, NO_SLOT, since_ps, since_ps + (stalled ? 0 : unrecorded_ps));
    });
    return since;
  }

  /** @param {number} time_ps */
  function cut(time_ps) {
    while (stretches.length && stretches[stretches.length - 1].start_ps >= time_ps) stretches.pop();
    const last = stretches.length - 1;
    if (last >= 0 && stretches[last].end_ps > time_ps) stretches[last] = until(stretches[last], time_ps);
    known_ps = time_ps;
    reached = null;
  }

  const changes = () => stretches.reduce((count, { time }) => count + time.length, 0);

  /** Work out what has happened since; returns everything, in order. */
  function refresh() {
    const now_ps = engine.now_ps();
    if (lowest) {
      if (lowest[0] < known_ps) cut(lowest[0]);
      bursts = Math.min(bursts, lowest[1]);
      lowest = null;
    }
    if (now_ps <= known_ps) return stretches;
    stretches.push(workOut(known_ps, now_ps, true, reached));
    reached = blocks.column("op");
    bursts = engine.tables.recorder.at.bursts(0);
    known_ps = now_ps;
    // A stretch is joined with the one before unless that is much longer: there are never many.
    for (let last = stretches.length - 1; last > 0 && stretches[last - 1].time.length <= 2 * stretches[last].time.length + 64; last--) {
      stretches.splice(last - 1, 2, join(stretches[last - 1], stretches[last]));
    }
    if (changes() > MOST) stretches[0] = workOut(stretches[0].start_ps, stretches[0].end_ps, false, null);
    return stretches;
  }

  return {
    gpu, number, engine: engineOf,
    rewound() {
      const here = /** @type {[number, number]} */ ([engine.now_ps(), engine.tables.recorder.at.bursts(0)]);
      if (!lowest || here[0] < lowest[0] || (here[0] === lowest[0] && here[1] < lowest[1])) lowest = here;
    },
    spent(rows, edges, fold = false) {
      const columns = edges.length - 1;
      const cells = new Float64Array(rows.length * columns * states);
      const all = refresh();
      const add = (/** @type {number} */ row, /** @type {number} */ track) => {
        for (const one of all) if (overlaps(one, edges[0], edges[columns])) addSpent(one, track, edges, cells, row * columns * states, states);
      };
      if (!fold) rows.forEach((track, row) => add(row, track));
      else {
        /** @type {Map<number, number[]>} */
        const rowsOf = new Map();
        rows.forEach((of, row) => rowsOf.set(of, [...(rowsOf.get(of) ?? []), row]));
        gpu.forEach((of, track) => rowsOf.get(of)?.forEach((row) => add(row, track)));
      }
      return cells;
    },
    spans(track, start_ps, end_ps) {
      /** @type {[state: number, start_ps: number, end_ps: number][]} */
      const found = [];
      for (const one of refresh()) {
        if (!overlaps(one, start_ps, end_ps)) continue;
        eachSpan(one, track, start_ps, end_ps, (state, from, to) => {
          const last = found[found.length - 1];
          if (last && last[0] === state && last[2] === from) last[2] = to; // over the edge of a stretch
          else found.push([state, from, to]);
        });
      }
      return found;
    },
    count(tracks, start_ps, end_ps) {
      let found = 0;
      for (const one of refresh()) if (overlaps(one, start_ps, end_ps)) for (const track of tracks) found += countOf(one, track, start_ps, end_ps);
      return found;
    },
  };
}

/** A track for each SM and copy engine that has thread blocks, or may be given those that have no place yet. @param {Engine} engine */
function bySm({ tables: { blocks, sms, gpus } }) {
  const used = new Uint8Array(sms.rows);
  const waits = new Set();
  const kindOf = (/** @type {import("./types").Table} */ { at }, /** @type {number} */ row) => `${at.gpu(row)} ${at.engine(row)}`;
  for (let block = 0; block < blocks.rows; block++) {
    if (blocks.at.sm(block) >= 0) used[blocks.at.sm(block)] = 1;
    else waits.add(kindOf(blocks, block));
  }
  for (let sm = 0; sm < sms.rows && waits.size; sm++) if (waits.has(kindOf(sms, sm))) used[sm] = 1;
  const trackOf = new Int32Array(sms.rows).fill(-1);
  const rows = Array.from(used.keys()).filter((sm) => used[sm]);
  rows.forEach((sm, track) => (trackOf[sm] = track));
  const gpu = rows.map((sm) => sms.at.gpu(sm));
  return { gpu, number: rows.map((sm, track) => sm - gpus.at.first_sm(gpu[track])), engineOf: rows.map((sm) => sms.at.engine(sm)), trackOf };
}

/** A track for each thread block. @param {Engine} engine */
function byBlock({ tables: { blocks } }) {
  const rows = Array.from({ length: blocks.rows }, (_, block) => block);
  const gpu = rows.map((block) => blocks.at.gpu(block));
  /** @type {Map<number, number>} */
  const first = new Map();
  gpu.forEach((of, block) => first.has(of) || first.set(of, block));
  return { gpu, number: rows.map((block) => block - Number(first.get(gpu[block]))), engineOf: rows.map((block) => blocks.at.engine(block)), trackOf: Int32Array.from(rows) };
}
