// @ts-check
// What is shown of the objects of a layer table's run: counterpart of engine/layers/inspection.py and result_tables.py.

import { bandwidthOf, networkAfter } from "./layers_network.js";
import { PARTS } from "./layers_paths.js";
import { ALGORITHMS, STATES } from "./operations_about.js";
import { MOST, listed, neighbours, operationLines, rankLines, when } from "./operations_inspection.js";
import { timePs } from "./operations_spans.js";
import { commas, percent } from "./text.js";
import { formatBytes, formatTime } from "./units.js";

/** @import { LayerEngine } from "./layers_engine.js" */
/** @import { Place, Shown } from "./operations_types" */
/** @import { Why } from "./types" */

/** What was sent in a dimension as the system layer sees dimensions. @param {LayerEngine} engine @param {number} dim */
export function dimensionRow(engine, dim) {
  const { tables: { clock, phases, queues }, program, live } = engine;
  const { units, physical, scale } = live.about.dims[dim];
  const bandwidth_Bps = bandwidthOf(networkAfter(live, engine.edits), physical);
  const each = clock.at.queues(0);
  let sent = 0;
  for (let row = 0; row < phases.rows; row++) {
    if (Math.floor(phases.at.queue(row) / each) === dim) sent += program.sent[row] * phases.at.over(row);
  }
  const mine = Array.from({ length: each }, (_, at) => dim * each + at);
  const busy = mine.map((row) => queues.at.busy_ps(row) + (queues.at.inside(row) > 0 ? engine.now_ps() - queues.at.since_ps(row) : 0));
  const could = (scale * bandwidth_Bps * timePs(engine)) / 1e12;
  return {
    dimension: dim,
    shape: `${engine.about.topology[dim]} of ${units}`,
    bandwidth_Bps,
    chunks: mine.reduce((all, row) => all + queues.at.chunks(row), 0),
    bytes: sent * engine.stands_for,
    busy_ps: Math.max(0, ...busy),
    utilisation: could ? sent / could : 0,
  };
}

/** Chunks under way: of a collective, or in a dimension. @param {LayerEngine} engine @param {(stream: number) => boolean} which */
function chunks({ tables, about, program }, which) {
  const { queues, streams: { at }, collectives, chunks: each, phases, clock } = tables;
  const rows = [];
  for (let queue = 0; queue < queues.rows; queue++) {
    for (let row = queues.at.head(queue); row >= 0; row = at.next(row)) if (which(row)) rows.push(row);
  }
  const texts = rows.slice(0, MOST).map((row) => {
    const [one, chunk, planned] = [at.collective(row), at.chunk(row), at.phase(row)];
    const phase = `phase ${planned - each.at.first_phase(chunk) + 1} of ${each.at.phases(chunk)}`;
    const dim = Math.floor(phases.at.queue(planned) / clock.at.queues(0));
    const label = about.label(program.of[collectives.at.operation(one)]);
    const runs = at.running(row) ? "runs" : "waits";
    return `${label}, chunk ${chunk - collectives.at.first_chunk(one)}: ${phase}, ${ALGORITHMS[program.algorithm[planned]]} in dim ${dim}, ${runs}`;
  });
  return { in_flight: texts, in_flight_count: rows.length };
}

/** @param {LayerEngine} engine @param {Place} place @returns {Shown} */
function rank(engine, place) {
  const { about, live, tables: { clock, pass_ends } } = engine;
  const rows = Array.from({ length: about.own }, (_, row) => row);
  const times = engine.times_ps();
  const near = rows.filter((row) => [1, 2].includes(engine.state(row, times))).slice(0, MOST);
  const layers = live.about.layers.slice(0, MOST).map((/** @type {string} */ name) => ({ path: `layer[${name}]`, text: `layer ${name}` }));
  const dims = about.topology.map((_, dim) => ({ path: `dim[${dim}]`, text: `dim ${dim}` }));
  return {
    state: [
      ["stands for", `all ${commas(engine.stands_for)} ranks, which do the same at the same time`],
      ...rankLines(engine, rows),
      ["waits", clock.at.waiting(0) ? "yes, for a collective" : "no"],
      ["computed", formatTime(engine.computed_ps()[0])],
      ["passes", `${clock.at.passes(0)} of ${pass_ends.rows} over`],
      ["done at", when(engine.ends_ps()[0])],
      ["speed", engine.parameters(place.path)[0].value],
    ],
    children: [...listed(engine, near), ...layers, ...dims],
    ...chunks(engine, () => true),
  };
}

/** @param {LayerEngine} engine @param {Place} place @returns {Shown} */
function operation(engine, { path, operation: row }) {
  const { about, live, program, tables: { operations, collectives, streams } } = engine;
  const { start, end } = engine.times_ps();
  const [number, part, at] = [Math.floor(program.slot[row] / 3), program.slot[row] % 3, program.at[row]];
  const state = operationLines(engine, row);
  state.splice(1, 0, ["layer", `${live.about.layers[number]}, ${PARTS[part]}`]);
  let inside = {};
  if (about.kind[row] === 0) {
    if (end[row] < 0) state.push(["takes", formatTime(operations.at.time_ps(at))]);
  } else {
    const one = operations.at.slot(at);
    state.push(["bytes", formatBytes(about.size[row])]);
    state.push(["chunks", `${collectives.at.over(one)} of ${collectives.at.chunks(one)} done`]);
    state.push(["update", formatTime(collectives.at.update_ps(one))]);
    if (start[row] >= 0 && end[row] < 0) inside = chunks(engine, (stream) => streams.at.collective(stream) === one);
  }
  const [waits, children] = neighbours(engine, row);
  return { title: `${path}: ${about.label(row)}`, state: [...state, ...waits], children, ...inside };
}

/** @param {LayerEngine} engine @param {Place} place @returns {Shown} */
function layer(engine, place) {
  const { program, live, tables: { slots: { at } } } = engine;
  /** @type {Shown["state"]} */
  const state = [["speed", engine.parameters(place.path)[0].value]];
  for (const slot of place.rows) {
    const word = PARTS[slot % 3];
    const [compute_ns, collective, size] = live.about.layer_parts[slot];
    const comm = collective === "NONE" ? "" : `, ${collective} of ${formatBytes(size)}`;
    const total = comm ? `, ${formatTime(at.total_ps(slot))} of collectives` : "";
    state.push([word, `${formatTime(compute_ns * 1000)}${comm}`]);
    state.push([`${word} so far`, `${formatTime(at.compute_ps(slot))} computed, ${formatTime(at.exposed_ps(slot))} exposed${total}`]);
  }
  const mine = [...program.slot.keys()].filter((row) => place.rows.includes(program.slot[row])).slice(0, MOST);
  return { state, children: listed(engine, mine) };
}

/** @param {LayerEngine} engine @param {Place} place @returns {Shown} */
function dimension(engine, { dim, path }) {
  const { tables: { clock, queues, phases, streams } } = engine;
  const each = clock.at.queues(0);
  const mine = Array.from({ length: each }, (_, at) => dim * each + at);
  const used = dimensionRow(engine, dim);
  const [bandwidth, latency] = engine.parameters(path).map(({ value }) => value);
  const [inside, running] = [queues.at.inside, queues.at.running].map((read) => mine.reduce((all, row) => all + read(row), 0));
  return {
    state: [
      ["shape", used.shape],
      ["bandwidth", `${bandwidth} of a link`],
      ["latency", `${latency} of a link`],
      ["chunks", `${running} run, ${inside - running} wait, ${used.chunks} have been through`],
      ["at once", String(clock.at.concurrent(0) * each)],
      ["sent", `${formatBytes(used.bytes)} by all ranks`],
      ["utilisation", `${percent(used.utilisation, 1)} of the bandwidth so far`],
    ],
    ...chunks(engine, (stream) => mine.includes(phases.at.queue(streams.at.phase(stream)))),
  };
}

/** What the loop computes, else what it waits for. @param {LayerEngine} engine @param {string} path @returns {Why} */
export function explainWait(engine, path) {
  const { about } = engine;
  const place = path ? engine.place(path) : null;
  const times = engine.times_ps();
  const { start, end } = times;
  const running = [...start.keys()].filter((row) => start[row] >= 0 && end[row] < 0);
  const computing = running.filter((row) => about.kind[row] === 0);
  const asked = place?.operation ?? -1;
  /** @type {Why["steps"]} */
  const steps = (asked >= 0 ? [asked] : computing.length ? computing : running).map((row) => {
    const [over, count] = engine.progress(row);
    const part = count ? `; ${over} of ${count} chunks are done` : "";
    return { text: `${about.text(row)} is ${STATES[engine.state(row, times)]}${part}`, path: about.path(row), since_ps: start[row] >= 0 ? start[row] : -1 };
  });
  if (asked >= 0 && start[asked] < 0) {
    for (const row of about.parents_of(asked)) if (end[row] < 0) steps.push({ text: `it waits for ${about.label(row)}`, path: about.path(row), since_ps: -1 });
  }
  if (!steps.length) steps.push({ text: engine.next_ps() < 0 ? "the loop has ended" : "nothing is under way", path: "rank[0]", since_ps: -1 });
  return { path: place?.path ?? "rank[0]", now_ps: engine.now_ps(), circle: false, steps };
}

/** What describes an object, by its kind. @type {Record<string, (engine: any, place: Place) => Shown>} */
export const INSPECTORS = { rank, op: operation, layer, dim: dimension };

/** What was reported last, in words. @param {LayerEngine} engine */
export function happened({ about, program, tables: { watch: { at }, clock } }) {
  const what = about.text(program.of[at.operation(0)]);
  const dim = Math.floor(at.queue(0) / clock.at.queues(0));
  /** @type {Record<number, string>} */
  const words = {
    0: `all ranks begin ${what}`, 1: `all ranks end ${what}`,
    4: `a phase of ${what} begins in dim ${dim}`, 5: `a phase of ${what} ends in dim ${dim}`,
  };
  return words[at.what(0)];
}
