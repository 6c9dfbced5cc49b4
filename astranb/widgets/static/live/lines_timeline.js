// @ts-check
// What a timeline draws: spans where they have room, else how much of each column is which state. Counterpart of
// widgets/views/timeline.py.

import { pack } from "../messages.js";
import { columnEdges, toEven } from "../numpy.js";
import { InputError, near } from "./errors.js";
import { DONE } from "./gpu_numbers.js";
import { phaseTimes } from "./lines_phases.js";
import { TRACK_STATES } from "./lines_tracks.js";
import { int, optional, required, wholes } from "./options.js";
import { repr, str } from "./text.js";
import { formatTime } from "./units.js";

/** @import { LineAnswers, Sim, Tracks } from "./types" */

const MOST_SPANS = 8_000;
const MOST_COLUMNS = 1024;
const MOST_STEPS = 4; // of a chain of waits, and thread blocks of an SM
const KINDS = ["sms", "blocks", "phases"];

/** @type {LineAnswers} */
export const timeline = {
  /** Which tracks there are, by kind. */
  rows({ sim }) {
    const of = (/** @type {string} */ kind) => {
      const { gpu, number, engine } = sim.engine.tracks(kind);
      return { gpu, number, engine };
    };
    return [{ states: TRACK_STATES, gpus: sim.engine.tables.gpus.rows, sms: of("sms"), blocks: of("blocks") }, []];
  },

  /** A window of a timeline: spans, or shares of each column. */
  spans({ sim }, options) {
    const { start, end, edges } = windowOf(options);
    const kind = kindOf(options);
    const columns = edges.length - 1;
    const about = { from: start, to: end, columns, kind, now_ps: sim.now_ps() };
    if (kind === "phases") {
      const found = phasesIn(sim, wholes(optional(options, "folds", [])), start, end);
      return [{ ...about, drawn: "spans", count: found.row.length, folded: 0, present: [] }, pack("spans", found)];
    }
    const tracks = sim.engine.tracks(kind);
    const gpus = sim.engine.tables.gpus.rows;
    const folds = within(optional(options, "folds", []), gpus, "GPU");
    const single = within(optional(options, "tracks", []), tracks.gpu.length, "track");
    const count = tracks.count(single, start, end);
    const folded = tracks.count(Array.from(tracks.gpu.keys()).filter((track) => folds.includes(tracks.gpu[track])), start, end);
    const sizes = new Array(gpus).fill(0);
    for (const gpu of tracks.gpu) sizes[gpu] += 1;
    /** @type {Record<string, Float64Array>} */
    const parts = { fold_shares: shares(tracks.spent(folds, edges, true), edges, folds.map((gpu) => Math.max(1, sizes[gpu]))) };
    const rows = { row: /** @type {number[]} */ ([]), state: /** @type {number[]} */ ([]), start: /** @type {number[]} */ ([]), end: /** @type {number[]} */ ([]) };
    const drawn = count <= MOST_SPANS ? "spans" : "density";
    if (drawn === "density") parts.track_shares = shares(tracks.spent(single, edges), edges, single.map(() => 1));
    else {
      single.forEach((track, row) => {
        for (const [state, from, to] of tracks.spans(track, start, end)) {
          rows.row.push(row);
          rows.state.push(state);
          rows.start.push(from);
          rows.end.push(to);
        }
      });
    }
    const states = TRACK_STATES.length;
    const present = Array.from(TRACK_STATES.keys()).filter((state) => Object.values(parts).some((cells) => hasState(cells, state)));
    const byState = Object.fromEntries(Object.entries(parts).map(([name, cells]) => [name, planes(cells, present, states)]));
    return [{ ...about, drawn, count, folded, present }, pack("spans", { ...byState, ...rows })];
  },

  /** Describe the state of a track, or the phases of a GPU, at a time. */
  moment({ sim }, options) {
    const kind = kindOf(options);
    const time_ps = int(required(options, "time"));
    if (kind === "phases") {
      const { start, end, names } = phaseTimes(sim.engine);
      const gpu = within([required(options, "track")], start.length, "GPU")[0];
      const here = names.map((_, phase) => phase).filter((p) => start[gpu][p] >= 0 && start[gpu][p] <= time_ps && time_ps <= end[gpu][p]);
      return [{ text: here.slice(0, 4).map((p) => `${names[p]} (${interval(start[gpu][p], end[gpu][p])})`).join("; ") }, []];
    }
    const tracks = sim.engine.tracks(kind);
    const track = within([required(options, "track")], tracks.gpu.length, "track")[0];
    const found = spanAt(tracks, track, time_ps);
    if (!found) return [{ text: "" }, []];
    const [state, from, to] = found;
    return [{ text: [TRACK_STATES[state], interval(from, to), ...phasesAt(sim, kind, tracks, track, time_ps)].join(" · ") }, []];
  },

  /** Describe what a track did at a time: what, from when to when, for how long, and what it waited for. */
  span({ sim, session }, options) {
    const kind = kindOf(options);
    const time_ps = int(required(options, "time"));
    if (kind === "phases") {
      const { start, end, names } = phaseTimes(sim.engine);
      const gpu = within([required(options, "track")], start.length, "GPU")[0];
      const phase = within([required(options, "phase")], names.length, "phase")[0];
      if (!(start[gpu][phase] <= time_ps && time_ps <= end[gpu][phase])) return [{ found: false }, []];
      return [spanOf(`gpu[${gpu}]`, `phase ${names[phase]}`, start[gpu][phase], end[gpu][phase], []), []];
    }
    const tracks = sim.engine.tracks(kind);
    const track = within([required(options, "track")], tracks.gpu.length, "track")[0];
    const found = spanAt(tracks, track, time_ps);
    if (!found) return [{ found: false }, []];
    const [state, from, to] = found;
    const gpu = tracks.gpu[track];
    const part = kind === "sms" ? "sm" : "block";
    const path = kind === "sms" && tracks.engine[track] ? `gpu[${gpu}]` : `gpu[${gpu}].${part}.${tracks.number[track]}`;
    const past = session.at(time_ps);
    /** @type {[name: string, text: string][]} */
    const facts = [["phase", phasesAt(sim, kind, tracks, track, time_ps).join("; ")]];
    for (const block of blocksOf(past, kind, tracks, track).slice(0, MOST_STEPS)) facts.push(["operation", past.engine.spot_text(block)]);
    past.engine.why(path).steps.slice(0, MOST_STEPS).forEach(({ text }, k) => facts.push([k ? "waits for" : "is", text]));
    return [spanOf(path, TRACK_STATES[state], from, to, facts, time_ps), []];
  },
};

/** The span of a track that a time is in. @param {Tracks} tracks @param {number} track @param {number} time_ps */
const spanAt = (tracks, track, time_ps) => tracks.spans(track, time_ps, time_ps + 1).find(([, from, to]) => from <= time_ps && time_ps < to);

/** Paths of the thread blocks of a track that have not ended. @param {Sim} sim @param {string} kind @param {Tracks} tracks @param {number} track */
function blocksOf({ engine: { tables: { blocks, gpus } } }, kind, tracks, track) {
  const gpu = tracks.gpu[track];
  if (kind === "blocks") return [`gpu[${gpu}].block.${tracks.number[track]}`];
  const sm = gpus.at.first_sm(gpu) + tracks.number[track];
  let first = -1;
  const found = [];
  for (let block = 0; block < blocks.rows; block++) {
    if (first < 0 && blocks.at.gpu(block) === gpu) first = block;
    if (blocks.at.sm(block) === sm && blocks.at.state(block) !== DONE) found.push(`gpu[${gpu}].block.${block - first}`);
  }
  return found;
}

/**
 * A span as the inspector shows it: `facts` hold for `time_ps`, for all of it where that is null.
 * @param {string} path
 * @param {string} what
 * @param {number} start_ps
 * @param {number} end_ps
 * @param {[name: string, text: string][]} facts
 * @param {number | null} time_ps
 */
export const spanOf = (path, what, start_ps, end_ps, facts, time_ps = null) => ({
  found: true, path, what, start_ps, end_ps, time_ps, facts: facts.filter(([, text]) => text),
});

/** Names of the phases that the thread blocks of a track are in at a time. @param {Sim} sim @param {string} kind @param {Tracks} tracks @param {number} track @param {number} time_ps */
function phasesAt({ engine }, kind, tracks, track, time_ps) {
  const { blocks, ops, gpus } = engine.tables;
  const { phases } = engine.live.about.scene;
  const sm = gpus.at.first_sm(tracks.gpu[track]) + tracks.number[track];
  /** @type {Set<string>} */
  const found = new Set();
  for (let block = kind === "blocks" ? track : 0; block < (kind === "blocks" ? track + 1 : blocks.rows); block++) {
    if (kind !== "blocks" && blocks.at.sm(block) !== sm) continue;
    let at = -1; // the first that has begun and is not over, else the last that has begun
    for (let op = blocks.at.first_op(block); op < blocks.at.last_op(block); op++) {
      const [started, issued] = [ops.at.started_ps(op), ops.at.issued_ps(op)];
      if (started < 0 || started > time_ps) continue;
      at = op;
      if (issued < 0 || issued > time_ps) break;
    }
    if (at >= 0) found.add(phases[ops.at.phase(at)]);
  }
  return [...found];
}

/** The window that a question is about, and the moments between its columns. @param {Record<string, unknown>} options */
export function windowOf(options) {
  const [start, end] = [Math.max(0, int(required(options, "from"))), int(required(options, "to"))];
  if (end <= start) throw new InputError(`a window from ${start} to ${end} ps`, { where: "timeline" });
  const columns = Math.max(1, Math.min(MOST_COLUMNS, int(required(options, "columns")), end - start));
  return { start, end, edges: columnEdges(start, end, columns) };
}

/** @param {Record<string, unknown>} options */
function kindOf(options) {
  const kind = str(optional(options, "kind", "sms"));
  if (!KINDS.includes(kind)) throw new InputError(`unknown kind of rows ${repr(kind)}`, { where: "timeline", hint: near(kind, KINDS) });
  return kind;
}

/** Numbers below a count. @param {unknown} numbers @param {number} count @param {string} what */
function within(numbers, count, what) {
  const found = wholes(numbers);
  if (!found.every((one) => one >= 0 && one < count)) {
    throw new InputError(`no ${what} ${found.reduce((a, b) => Math.max(a, b))}`, { where: "timeline", hint: `0 to ${count - 1}` });
  }
  return found;
}

/**
 * Which part of each column of each row is which state, 255 being all.
 * @param {Float64Array} spent by row, column and state
 * @param {Float64Array} edges
 * @param {number[]} sizes tracks of each row
 */
function shares(spent, edges, sizes) {
  const [columns, states] = [edges.length - 1, TRACK_STATES.length];
  for (let cell = 0; cell < spent.length; cell++) {
    if (!spent[cell]) continue;
    const at = Math.floor(cell / states);
    const column = at % columns;
    spent[cell] = toEven(255 * (spent[cell] / ((edges[column + 1] - edges[column]) * sizes[Math.floor(at / columns)])));
  }
  return spent;
}

/** @param {Float64Array} cells @param {number} state */
function hasState(cells, state) {
  for (let cell = state; cell < cells.length; cell += TRACK_STATES.length) if (cells[cell]) return true;
  return false;
}

/** Cells by state, row and column. @param {Float64Array} cells @param {number[]} present @param {number} states */
function planes(cells, present, states) {
  const plane = cells.length / states;
  const found = new Uint8Array(present.length * plane);
  present.forEach((state, k) => {
    for (let at = 0; at < plane; at++) found[k * plane + at] = cells[at * states + state];
  });
  return found;
}

/** @param {Sim} sim @param {number[]} gpus @param {number} start_ps @param {number} end_ps */
function phasesIn({ engine }, gpus, start_ps, end_ps) {
  const { start, end, names } = phaseTimes(engine);
  const found = { row: /** @type {number[]} */ ([]), state: /** @type {number[]} */ ([]), start: /** @type {number[]} */ ([]), end: /** @type {number[]} */ ([]) };
  gpus.forEach((given, row) => {
    const gpu = given < 0 ? given + start.length : given;
    if (!start[gpu]) throw new RangeError(`index ${given} is out of bounds for axis 0 with size ${start.length}`);
    names.forEach((_, phase) => {
      const [from, to] = [start[gpu][phase], end[gpu][phase]];
      if (!(from >= 0 && from < end_ps && to > start_ps)) return;
      found.row.push(row);
      found.state.push(phase);
      found.start.push(from);
      found.end.push(to);
    });
  });
  return found;
}

/** @param {number} start_ps @param {number} end_ps */
const interval = (start_ps, end_ps) => `${formatTime(start_ps)} to ${formatTime(end_ps)} (${formatTime(end_ps - start_ps)})`;
