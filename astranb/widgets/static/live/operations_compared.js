// @ts-check
// What is compared of runs of operations: counterpart of `shown` and `compared` of engine/operations/engine.py.

import { dimensionRow as ofLayers } from "./layers_inspection.js";
import { endsOf } from "./messages_links.js";
import { instancesOf } from "./messages_pairs.js";
import { dimensionRow as ofMessages } from "./messages_traffic.js";
import { byCause } from "./operations_critical_path.js";
import { sharesOf, spansOf, timePs } from "./operations_spans.js";

/** @import { LayerEngine } from "./layers_engine.js" */
/** @import { OperationEngine } from "./operations_types" */
/** @import { Compared, Engine, Shown } from "./types" */
/** @typedef {[key: string | number, value: number]} Row */

const PS = 1000;

/** What reads an engine of operations. @template T @param {(engine: OperationEngine) => T} read @returns {(engine: Engine) => T} */
const of = (read) => (engine) => read(/** @type {OperationEngine} */ (/** @type {object} */ (engine)));

/** How the time of each rank divides. @param {"end" | "compute" | "exposed_comm" | "idle"} part */
const ranks = (part) => of((engine) => /** @type {Row[]} */ (sharesOf(engine)[part].map((time, rank) => [rank, time])));

/** How long each operation took, or has taken. @param {OperationEngine} engine @returns {Row[]} */
function operations(engine) {
  const { about } = engine;
  const { row, start_ps, end_ps } = spansOf(engine);
  return row.map((one, at) => [`${about.path(one)} ${about.label(one)}`, end_ps[at] - start_ps[at]]);
}

/** How long each collective took that is over, from when its first rank began. @param {OperationEngine} engine @returns {Row[]} */
function collectives(engine) {
  const { about } = engine;
  const { start, end } = engine.times_ps();
  const every = engine.live.engine === "layers" ? layerCollectives(engine, start) : messageCollectives(engine, start);
  return every.flatMap((rows, number) => {
    if (rows.some((row) => end[row] < 0)) return [];
    const [first, last] = [Math.min(...rows.map((row) => start[row])), Math.max(...rows.map((row) => end[row]))];
    return [/** @type {Row} */ ([`${number}: ${about.label(Math.min(...rows))}`, last - first])];
  });
}

/** @param {OperationEngine} engine @param {Float64Array} start */
const layerCollectives = ({ about }, start) => [...start.keys()].filter((row) => about.kind[row] === 1 && start[row] >= 0).map((row) => [row]);

/** The operations of each collective, by when these begin. @param {OperationEngine} engine @param {Float64Array} start */
function messageCollectives(engine, start) {
  const { group } = engine.tables.operations.at;
  const { own, replayed } = instancesOf(engine, start);
  /** @param {number[]} rows */
  const groupOf = (rows) => group(Math.min(...rows));
  /** @param {number[]} rows */
  const begin = (rows) => Math.min(...rows.map((row) => start[row]));
  const every = [...own.sort((a, b) => groupOf(a) - groupOf(b)), ...replayed];
  return every.map((rows) => ({ rows, at: begin(rows), group: groupOf(rows) })).sort((a, b) => a.at - b.at || a.group - b.group).map(({ rows }) => rows);
}

/** Something of each dimension. @param {(engine: OperationEngine, dim: number) => number} read */
const dimensions = (read) => of((engine) => engine.about.topology.map((shape, dim) => /** @type {Row} */ ([`dim ${dim} (${shape})`, read(engine, dim)])));

/** How long phases of chunks were in each dimension. @param {"queued_ps" | "begun_ps"} from @param {"begun_ps" | "end_ps"} until */
const phases = (from, until) => of((engine) => {
  const { dim, ...times } = engine.passed();
  const sums = engine.about.topology.map(() => 0);
  dim.forEach((one, at) => void (sums[one] += times[until][at] - times[from][at]));
  return engine.about.topology.map((shape, one) => /** @type {Row} */ ([`dim ${one} (${shape})`, sums[one]]));
});

/** For how long links that carried something were busy. @param {OperationEngine} engine @returns {Row[]} */
function links(engine) {
  const { about, live, tables } = engine;
  if (live.engine === "layers" || !tables.config.at.congestion(0) || !engine.recording()) return [];
  const { at, rows } = tables.used;
  return Array.from({ length: rows }, (_, link) => link).filter(at.messages).map((link) => {
    const [source, target] = endsOf(tables, about.links, link);
    return [`link[${link}] ${source} to ${target}`, at.busy_ns(link) * PS];
  });
}

/** @param {OperationEngine} engine @param {number} dim */
const bytesOf = (engine, dim) => (engine.live.engine === "layers" ? ofLayers(/** @type {LayerEngine} */ (engine), dim) : ofMessages(engine, dim)).bytes;

/** @type {Shown[]} */
const SHOWN = [
  { title: "Ranks: end", field: "end_ps", largest: true, rows: ranks("end") },
  { title: "Ranks: compute", field: "compute_ps", largest: true, rows: ranks("compute") },
  { title: "Ranks: exposed communication", field: "exposed_comm_ps", largest: true, rows: ranks("exposed_comm") },
  { title: "Ranks: idle", field: "idle_ps", largest: true, rows: ranks("idle") },
  { title: "Operations: how long", field: "lasts_ps", largest: true, rows: of(operations) },
  { title: "Collectives: how long", field: "lasts_ps", largest: true, rows: of(collectives) },
  { title: "Phases of chunks: under way", field: "phases_ps", largest: false, rows: phases("begun_ps", "end_ps") },
  { title: "Phases of chunks: queued", field: "queued_ps", largest: false, rows: phases("queued_ps", "begun_ps") },
  { title: "Dimensions: bytes", field: "bytes", largest: false, rows: dimensions(bytesOf) },
  { title: "Links: time busy", field: "busy_ps", largest: true, rows: of(links) },
];

/** @type {Compared} */
export const OPERATIONS = { time: of(timePs), causes: of(byCause), shown: SHOWN };
