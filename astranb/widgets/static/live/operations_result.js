// @ts-check
// How the time of ranks divides, and what a run took: counterpart of widgets/views/exposed.py, result.py and explain.py
// (`lost_time`), engine/operations/lost_time.py.

import { ACTIVITIES, LATE } from "../rank_tracks.js";
import { dimensionRow as ofLayers } from "./layers_inspection.js";
import { dimensionRow as ofMessages } from "./messages_traffic.js";
import { float, optional } from "./options.js";
import { COLLECTIVE, COMPUTE, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";
import { sumsOf } from "./operations_ranks.js";
import { latePs, sharesOf, spansOf, sweep, timePs } from "./operations_spans.js";
import { commas, percent, str } from "./text.js";
import { formatBandwidth, formatTime } from "./units.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

const MOST_ROWS = 400;
const LEAST_SHARE = 0.0005;
const OTHERS = 3;
/** @type {Record<number, number>} the loss that each kind of operation is */
const LOSS_OF = { [COMPUTE]: 0, [COLLECTIVE]: 1, [SEND]: 2, [RECV]: 2, [REPLAY]: 4, [MEMORY]: 5 };
const LOSSES = 9;
const PARTS = [["fwd", 0], ["wg", 2], ["ig", 1]];
const KINDS = [["compute", "compute_ps"], ["exposed_comm", "exposed_ps"], ["total_comm", "total_ps"]];

/** The dimensions of the network, with what was sent in them. @param {OperationEngine} engine */
function dimensions(engine) {
  const { about } = engine;
  return about.topology.map((_, dim) => {
    if (engine.live.engine === "layers") {
      const { shape, utilisation, bytes } = ofLayers(/** @type {import("./layers_engine.js").LayerEngine} */ (engine), dim);
      return { path: `dim[${dim}]`, shape, utilisation, bytes };
    }
    const { utilisation, bytes } = ofMessages(engine, dim);
    return { path: `dim[${dim}]`, shape: `${about.topology[dim]} of ${engine.tables.dims.at.nodes(dim)}`, utilisation, bytes };
  });
}

/** By layers, where all ranks are alike: computed, waited for, and collectives' time. @param {OperationEngine} engine */
function layersOf({ live, tables: { slots: { at } } }) {
  const columns = KINDS.flatMap(([what, field]) => PARTS.map(([part, slot]) => ({ name: `${part} ${what}`, read: (/** @type {number} */ layer) => at[field](3 * layer + Number(slot)), what })));
  const layers = live.about.layers.map((/** @type {string} */ name, /** @type {number} */ layer) => ({ name, values: columns.map(({ read }) => read(layer)) }));
  // Of collectives, only of those parts that have any.
  const kept = columns.flatMap(({ what }, k) => (what === "compute" || layers.some((/** @type {any} */ one) => one.values[k]) ? [k] : []));
  const exposed = kept.filter((k) => columns[k].what === "exposed_comm");
  /** @param {{ values: number[] }} one */
  const waited = ({ values }) => exposed.reduce((all, k) => all + values[k], 0);
  const order = layers.sort((/** @type {any} */ a, /** @type {any} */ b) => waited(b) - waited(a)).slice(0, MOST_ROWS);
  const heads = kept.map((k) => {
    const [part, what] = columns[k].name.split(" ");
    return `${part.toUpperCase()} ${what.replace("_", " ")}`;
  });
  const rows = order.map((/** @type {{ name: string, values: number[] }} */ { name, values }) => [`layer[${name}]`, ...kept.map((k) => formatTime(values[k]))]);
  return { what: "layers", heads: ["layer", ...heads], rows, all: live.about.layers.length };
}

/** Times of all ranks by cause, in ps; each row adds up to the time of the run so far. @param {OperationEngine} engine */
function lostTimes(engine) {
  const { about, ranks } = engine;
  const [spans, ready] = [spansOf(engine), engine.ready_ps()];
  const found = Array.from({ length: ranks }, () => Array(LOSSES).fill(0));
  /** @type {{ npu: number[], start_ps: number[], end_ps: number[] }} */
  const parts = { npu: [], start_ps: [], end_ps: [] };
  /** @type {number[]} */
  const which = [];
  /** @param {number} npu @param {number} from @param {number} to @param {number} loss */
  const add = (npu, from, to, loss) => {
    if (from >= to) return;
    parts.npu.push(npu);
    parts.start_ps.push(from);
    parts.end_ps.push(to);
    which.push(loss);
  };
  spans.row.forEach((row, at) => {
    // Until it is ready, an operation waits for other ranks; then it is what its kind says.
    const [npu, start, end] = [spans.npu[at], spans.start_ps[at], spans.end_ps[at]];
    const split = Math.min(Math.max(ready[row], start), end);
    add(npu, start, split, OTHERS);
    add(npu, split, end, LOSS_OF[about.kind[row]]);
  });
  sweep(parts, which, 6, (rank, from, to, underWay) => {
    const cause = underWay.findIndex((count) => count > 0);
    if (cause >= 0) found[rank][cause] += to - from;
  });
  const [late, { end }] = [latePs(engine), sharesOf(engine)];
  const last = end.reduce((a, b) => Math.max(a, b), 0);
  found.forEach((times, rank) => {
    times[LOSSES - 3] = late[rank];
    times[LOSSES - 2] = end[rank] - times.reduce((all, one) => all + one, 0);
    times[LOSSES - 1] = last - end[rank];
  });
  return found;
}

/** What, how much, and the object to select. @param {OperationEngine} engine @returns {[string, string, string][]} */
function factsOf(engine) {
  const { collective, bus_factor } = engine.live.about;
  const time = timePs(engine);
  const { end, compute, exposed_comm } = sharesOf(engine);
  /** @type {[string, string, string][]} */
  const facts = [["time", formatTime(time), ""]];
  if (collective && engine.finished() && time) {
    const algbw = (collective[1] * 1e12) / time;
    facts.push(["algbw", formatBandwidth(algbw), ""]);
    if (bus_factor !== null) facts.push(["busbw", formatBandwidth(algbw * bus_factor), ""]);
  }
  /** @param {number[]} values */
  const largest = (values) => values.reduce((most, value, rank) => (value > values[most] ? rank : most), 0);
  const [slow, most] = [largest(end), largest(exposed_comm)];
  facts.push(["slowest", `rank ${slow}, ${formatTime(end[slow])}`, `rank[${slow}]`]);
  facts.push(["its compute", formatTime(compute[slow]), ""]);
  facts.push(["most exposed communication", `rank ${most}, ${formatTime(exposed_comm[most])}`, `rank[${most}]`]);
  const rows = engine.recording() ? dimensions(engine) : [];
  const busiest = rows.reduce((one, row) => (one && one.utilisation >= row.utilisation ? one : row), rows[0]);
  if (busiest?.bytes && time) {
    const share = Math.trunc(busiest.utilisation * time) / time;
    facts.push(["bandwidth bound", `${percent(share, 0)} of the time, ${busiest.path.replace("[", " ").replace("]", "")} (${busiest.shape})`, busiest.path]);
  }
  return facts;
}

/** @type {Answers<OperationFeed>} */
export const results = {
  /** How the time of each rank divides up to `at_ps`; those that communicate or wait longest first. */
  ranks(feed, options) {
    const engine = feed.engineAt(optional(options, "at_ps", null));
    const shape = dimensions(engine).map(({ path, shape: text, utilisation }) => ({ path, shape: text, utilisation }));
    if (engine.live.engine === "layers") return [{ ...layersOf(engine), dimensions: shape }, []];
    const [sums, parts, computed] = [sumsOf(feed, engine), sharesOf(engine), engine.computed_ps()];
    const late = sums.some((row) => row[LATE]);
    const kept = [...ACTIVITIES.keys()].filter((activity) => late || activity !== LATE);
    const order = [...parts.end.keys()].sort((a, b) => parts.exposed_comm[b] - parts.exposed_comm[a] || a - b).slice(0, MOST_ROWS);
    const rows = order.map((rank) => {
      const times = [parts.end[rank], ...kept.map((activity) => sums[rank][activity]), parts.end[rank] - computed[rank]];
      return [`rank[${rank}]`, ...times.map(formatTime)];
    });
    const heads = ["rank", "time", ...kept.map((activity) => ACTIVITIES[activity]), "exposed, as ASTRA-sim counts"];
    return [{ what: "ranks", heads, rows, all: parts.end.length, dimensions: shape }, []];
  },

  /** What a run took and where its time went. */
  outcome(feed, options) {
    const engine = feed.engineAt(optional(options, "at_ps", null));
    const sums = sumsOf(feed, engine);
    const by = ACTIVITIES.map((_, activity) => sums.reduce((all, row) => all + row[activity], 0));
    const total = Math.max(1, by.reduce((all, one) => all + one, 0));
    const parts = ACTIVITIES.map((name, number) => [name, number, by[number] / total]).filter(([, , share]) => Number(share) > LEAST_SHARE);
    return [{ finished: engine.finished(), facts: factsOf(engine), parts, whose: "ranks" }, []];
  },

  /** Time lost per cause by the rank of an object, by all where it has none. */
  lost_time(feed, options) {
    const at_ps = optional(options, "at_ps", null);
    const engine = feed.engineAt(at_ps === null ? null : float(at_ps));
    const path = str(optional(options, "path", ""));
    const head = path ? engine.inspect(path).path.split("]")[0] : "";
    const rank = head.startsWith("rank[") ? Number(head.slice(5)) : -1;
    const every = lostTimes(engine);
    const times = rank >= 0 ? every.slice(rank, rank + 1) : every;
    const of = rank >= 0 ? `rank ${rank}` : `sum of all ${commas(engine.ranks)} ranks`;
    /** @type {[cause: string, means: string][]} */
    const losses = Object.entries(engine.live.about.losses);
    const rows = losses
      .map(([cause, means], loss) => ({ cause, means, ps: times.reduce((all, row) => all + row[loss], 0) }))
      .sort((a, b) => b.ps - a.ps || (a.cause < b.cause ? 1 : -1))
      .filter(({ ps }) => ps);
    return [{ of, parts: times.length, total_ps: times.flat().reduce((all, one) => all + one, 0), rows }, []];
  },
};
