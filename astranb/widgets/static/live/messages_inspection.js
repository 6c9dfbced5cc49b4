// @ts-check
// What is shown of the objects of a workload's run: counterpart of engine/messages/inspection.py and readers.py.

import { toEven } from "../numpy.js";
import { DOWN } from "./dimension_links.js";
import { valueOf } from "./messages_edits.js";
import { dimensionOf, endsOf, waitingFor } from "./messages_links.js";
import { FIELDS } from "./messages_paths.js";
import { dimensionRow } from "./messages_traffic.js";
import { inUse } from "./messages_tables.js";
import { written } from "./operations_changes.js";
import { ALGORITHMS, COLLECTIVE, COMPUTE, DELAY, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";
import { MOST, listed, neighbours, operationLines, rankLines, when } from "./operations_inspection.js";
import { sumOf } from "./rows.js";
import { commas, percent } from "./text.js";
import { formatBandwidth, formatBytes, formatTime } from "./units.js";

/** @import { OperationEngine, Place, Shown } from "./operations_types" */
/** @import { Tables } from "./types" */

const NATIVE_TAGS = 500_000_000;
const PLACES = ["CPU", "GPU", "network", "network, in the background", "nothing"];

/** The rows of messages that are sent and have not arrived. @param {Tables} tables */
export const inFlight = (tables) => inUse(tables, "messages").filter((row) => tables.messages.at.sent(row) === 1 && tables.messages.at.dst(row) >= 0);

/** The rows of messages under way that a rank sends or gets. @param {Tables} tables @param {number} npu */
const messagesOf = (tables, npu) => inFlight(tables).filter((row) => tables.messages.at.src(row) === npu || tables.messages.at.dst(row) === npu);

/** The rows of chunks that run or wait in a queue. @param {Tables} tables @param {Place} place */
const chunksIn = (tables, { rows }) => inUse(tables, "streams").filter((row) => rows.includes(tables.streams.at.queue(row)));

/** A chunk in words. @param {OperationEngine} engine @param {number} row */
function chunkText({ tables: { streams: { at }, config } }, row) {
  const dim = Math.floor(at.queue(row) / config.at.queues(0)) % config.at.dims(0);
  const phase = `phase ${at.phase(row)} of ${at.phases(row)}`;
  return `chunk ${at.tag(row) % NATIVE_TAGS}: ${phase}, ${ALGORITHMS[at.algorithm(row)]} in dim ${dim}, ${at.running(row) ? "runs" : "waits"}`;
}

/** @type {(engine: OperationEngine, place: Place) => Shown} */
function rank(engine, { npu, path }) {
  const { about, tables } = engine;
  const { messages: { at }, config } = tables;
  const [rows, flying, times] = [about.rows_of(npu), messagesOf(tables, npu), engine.times_ps()];
  const near = rows.filter((row) => [1, 2].includes(engine.state(row, times))).slice(0, MOST);
  const dims = Array.from({ length: config.at.dims(0) }, (_, dim) => ({ path: `${path}.dim[${dim}]`, text: `dim ${dim}` }));
  return {
    state: [
      ...rankLines(engine, rows),
      ["computed", formatTime(engine.computed_ps()[npu])],
      ["done at", when(engine.ends_ps()[npu])],
      ["speed", written("speed", valueOf("rank", "speed", npu, tables, engine.edits))],
    ],
    in_flight: flying.slice(0, MOST).map((row) => `${formatBytes(at.bytes(row))} from rank ${at.src(row)} to rank ${at.dst(row)}`),
    in_flight_count: flying.length,
    children: [...listed(engine, near), ...dims],
  };
}

/** @type {(engine: OperationEngine, place: Place) => Shown} */
function operation(engine, { path, operation: row }) {
  const { about, tables } = engine;
  const { operations: { at }, streams } = tables;
  const [label, kind, own] = [about.label_of(row), about.kind[row], at.owner(row) < 0];
  const state = operationLines(engine, row);
  /** @type {Shown["state"]} */
  const facts = [["algorithm", label.algorithm], ["job", label.job]];
  state.splice(1, 0, ...facts.filter(([, text]) => text));
  if (own) state.splice(4, 0, ["on", PLACES[at.place(row)]]);
  if (at.end_ns(row) < 0 && [COMPUTE, MEMORY, REPLAY, DELAY].includes(kind)) state.push(["takes", formatTime(at.duration_ns(row) * 1000)]);
  const size = own ? at.bytes(row) : about.size[row];
  if (size) state.push([own ? "bytes" : "sends", formatBytes(size)]);
  if (at.kind(row) === COLLECTIVE && at.streams(row)) state.push(["chunks", `${at.streams_done(row)} of ${at.streams(row)} done`]);
  if (kind === SEND || kind === RECV) state.push(["with", `rank ${at.peer(row)}, tag ${at.tag(row)}`]);
  const [waits, children] = neighbours(engine, row);
  const chunks = inUse(tables, "streams").filter((one) => streams.at.operation(one) === row);
  return {
    title: `${path}: ${about.label(row)}`,
    state: [...state, ...waits],
    in_flight: chunks.slice(0, MOST).map((one) => chunkText(engine, one)),
    in_flight_count: chunks.length,
    children,
  };
}

/** @type {(engine: OperationEngine, place: Place) => Shown} */
function queue(engine, place) {
  const { tables } = engine;
  const { queues, config, traffic, dims } = tables;
  const chunks = chunksIn(tables, place);
  const running = place.rows.reduce((all, row) => all + queues.at.running(row), 0);
  /** @type {Shown["state"]} */
  const state = [["chunks", `${running} run, ${chunks.length - running} wait`], ["at once", String(config.at.concurrent(0))]];
  if (engine.recording()) {
    const row = place.npu * dims.rows + place.dim;
    state.push(["sent", `${formatBytes(traffic.at.bytes(row))} in ${commas(traffic.at.messages(row))} messages`]);
  }
  return { state, in_flight: chunks.slice(0, MOST).map((row) => chunkText(engine, row)) };
}

/** @type {(engine: OperationEngine, place: Place) => Shown} */
function dimension(engine, { dim }) {
  const { about, tables: { dims: { at } } } = engine;
  /** @type {Shown["state"]} */
  const state = [
    ["shape", `${about.topology[dim]} of ${at.nodes(dim)}`],
    ["bandwidth", `${formatBandwidth(at.rate_Bpns(dim) * 1e9)} of a link`],
    ["latency", `${formatTime(toEven(at.latency_ns(dim) * 1000))} of a link`],
  ];
  if (engine.recording()) {
    const used = dimensionRow(engine, dim);
    state.push(["sent", `${formatBytes(used.bytes)} in ${commas(used.messages)} messages`]);
    state.push(["utilisation", `${percent(used.utilisation, 1)} of its links' bandwidth so far`]);
  }
  return { state };
}

/** @type {(engine: OperationEngine, place: Place) => Shown} */
function link(engine, { path, rows: [row] }) {
  const { about, tables } = engine;
  const { links, wires: { at }, used } = tables;
  const [source, target] = endsOf(tables, about.links, row);
  const [busy, dim] = [links.at.busy(row), dimensionOf(tables, row)];
  /** @type {Shown["state"]} */
  const state = [
    ["from", source], ["to", target], ["dimension", dim >= 0 ? `${dim} (${about.topology[dim]})` : "none: of an infrastructure"],
    ["bandwidth", formatBandwidth(at.rate_Bpns(row) * 1e9)],
    ["latency", formatTime(toEven(at.latency_ns(row) * 1000))],
    ["sends", busy & 1 ? "yes" : busy ? "no; it is down" : "no"],
    ["waiting", `${commas(waitingFor(tables, row))} messages`],
  ];
  if (busy & 1 && busy & DOWN) state.push(["down", "yes: messages wait"]);
  if (engine.recording()) {
    const share = Math.min(1, used.at.busy_ns(row) / Math.max(1, Math.floor(engine.now_ps() / 1000)));
    state.push(["carried", `${formatBytes(used.at.bytes(row))} in ${commas(used.at.messages(row))} messages`]);
    state.push(["busy", `${percent(share, 1)} of the time so far`]); // the message on the wire counts from its begin on
  }
  return { title: `${path}: ${source} to ${target}`, state };
}

/** What describes an object, by its kind. */
export const INSPECTORS = { rank, op: operation, queue, dim: dimension, link };

/** What was reported last, in words. @param {OperationEngine} engine */
export function happened({ about, tables: { watch: { at } } }) {
  const [npu, other, row] = [at.npu(0), at.other(0), at.operation(0)];
  const what = row >= 0 ? about.text(row) : "";
  return [
    `rank ${npu} begins ${what}`,
    `rank ${npu} ends ${what}`,
    `rank ${npu} sends to rank ${other}`,
    `rank ${npu} is sent a message by rank ${other}`,
    `rank ${npu} begins a phase of ${what}`,
    `rank ${npu} ends a phase of ${what}`,
  ][at.what(0)];
}

/** @type {Record<string, string>} */
const TABLES = { rank: "npus", op: "operations", queue: "queues" };

/** The words that a run knows only where it records. @type {Record<string, string[]>} */
export const RECORDED_WORDS = Object.fromEntries(["queue", "dim", "link"].map((kind) => [kind, ["messages", "bytes", "busy_ns"]]));

/**
 * What can be watched of an object: the words, and their readers.
 * @param {Place} place
 * @returns {Record<string, (engine: OperationEngine) => number>}
 */
export function readersOf(place) {
  const { kind, rows, npu, dim } = place;
  /** @type {Record<string, (engine: OperationEngine) => number>} */
  const conditions = Object.fromEntries(
    Object.entries(FIELDS[kind] ?? {}).map(([word, field]) => [word, ({ tables }) => sumOf(tables[TABLES[kind]], field, rows)]),
  );
  /** @param {string} field @returns {(engine: OperationEngine) => number} */
  const sent = (field) => ({ tables: { traffic, dims } }) => {
    if (npu >= 0) return traffic.at[field](npu * dims.rows + dim);
    return sumOf(traffic, field, Array.from({ length: Math.ceil((traffic.rows - dim) / dims.rows) }, (_, at) => dim + at * dims.rows));
  };
  if (kind === "rank") return { ...conditions, in_flight: ({ tables }) => messagesOf(tables, npu).length };
  if (kind === "op") return conditions;
  if (kind === "queue") {
    return {
      ...conditions, waiting: ({ tables }) => chunksIn(tables, place).length - sumOf(tables.queues, "running", rows),
      messages: sent("messages"), bytes: sent("bytes"),
    };
  }
  if (kind === "dim") return { messages: sent("messages"), bytes: sent("bytes") };
  return {
    waiting: ({ tables }) => waitingFor(tables, rows[0]), sending: ({ tables }) => tables.links.at.busy(rows[0]) & 1,
    ...Object.fromEntries(["messages", "bytes", "busy_ns"].map((field) => [field, (/** @type {OperationEngine} */ { tables }) => sumOf(tables.used, field, rows)])),
  };
}
