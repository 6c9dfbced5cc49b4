// @ts-check
// The inspector, objects in words: counterpart of `inspect` of engine/cacheline/inspection.py and of engine/cacheline/groups.py.

import { fabricOf, partition } from "./fabric.js";
import {
  BLOCK_STATES, CLASSES, DONE, MOVING, NIC, NOTIFY, PENDING, POLL, SIGNAL, TILE, WAIT, WAITING,
} from "./gpu_numbers.js";
import { lanesOf } from "./lines_edits.js";
import { linkRows } from "./lines_ethernet.js";
import { isDown, queuedPs, waitingAt, waitingIn } from "./lines_faults.js";
import { requestText } from "./lines_narrating.js";
import { TABLES, blockName, blockNumber, blockPath, resolve, rowsOf, smNumber } from "./lines_paths.js";
import { busyUntil } from "./lines_recorder.js";
import { recentEvents } from "./lines_recent.js";
import { describeLine, onLinks, utilisation } from "./lines_under_way.js";
import { mostOf, range, rowsWhere, sumOf, underWay } from "./rows.js";
import { commas, generalCommas, percent, str } from "./text.js";
import { formatBandwidth, formatBytes, formatTime } from "./units.js";

/** @import { Engine, MachinePart } from "./types" */
/** @typedef {{ path: string, text: string }} Child */
/**
 * @typedef {object} Found state, requests under way and parts of an object
 * @property {[label: string, text: unknown][]} state
 * @property {number[]} requests
 * @property {Child[]} children
 * @property {string[]} [route] of a line: its links
 */

const MOST_IN_FLIGHT = 64;
const MOST_CHILDREN = 200;
const ROOM = 2 ** 16; // parts of an SM (gpu/tables.py)

/** What a thread block does in each of its states (engine/cacheline/time_classes.py). @type {Record<string, string>} */
const BLOCK_CLASSES = { moving: "issue or data", waiting: "semaphore", draining: "fence", signalling: "signal" };

/** What a thread block does, from its state: a class of time, or that it is pending or done. @param {number} state */
export const doing = (state) => BLOCK_CLASSES[BLOCK_STATES[state]] ?? BLOCK_STATES[state];

/** @type {Record<string, (engine: Engine, place: MachinePart) => Found>} */
const DESCRIBED = {
  gpu, sm, engine: sm, nic: sm, block, l2: server, hbm: server, semaphore, link, port, buffer, line, node, instance,
};

/**
 * Describe an object: its state now, what is in flight, its parts.
 * @param {Engine} engine
 * @param {string} path
 */
export function inspect(engine, path) {
  const place = resolve(path, engine);
  const { state, requests, children, route = [] } = DESCRIBED[place.kind](engine, place);
  const shown = requests.slice(0, MOST_IN_FLIGHT);
  const { issued_ps } = engine.tables.requests.at;
  const lines = shown.map((one) => `${requestText(engine, one)}, under way for ${formatTime(engine.now_ps() - issued_ps(one))}`);
  if (requests.length > MOST_IN_FLIGHT) lines.push(`… and ${commas(requests.length - MOST_IN_FLIGHT)} more`);
  return {
    title: place.path + (place.kind === "gpu" ? ` (GPU${place.row})` : ""),
    path: place.path,
    kind: place.kind,
    state: state.map(([label, text]) => [label, str(text)]),
    in_flight: lines,
    in_flight_count: requests.length,
    lines: shown.map((one) => `line[${one}]`),
    children,
    recent: recentEvents(engine, place),
    route,
  };
}

/** Requests under way of which something holds. @param {Engine} engine @param {(request: number) => boolean} holds */
const flyingOf = ({ tables }, holds) => underWay(tables).filter(holds);

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function gpu(engine, { row: rank, path }) {
  const { blocks, gpus, hbm_channels, l2_slices, requests, sms } = engine.tables;
  const { at } = gpus;
  const counts = BLOCK_STATES.map(() => 0);
  for (const one of rowsOf(engine, rank, "block")) counts[blocks.at.state(one)] += 1;
  const does = counts.map((count, number) => `${doing(number)} ${count}`).filter((_, number) => counts[number]);
  const flying = flyingOf(engine, (request) => requests.at.gpu(request) === rank);
  const own = rowsOf(engine, rank, "sm");
  const used = own.filter((one) => sms.at.resident(one) || sms.at.issued(one));
  const slices = range(at.first_l2_slice(rank), at.l2_slices(rank));
  const channels = range(at.first_hbm_channel(rank), at.hbm_channels(rank));
  /** @type {Found["state"]} */
  const state = [
    ["preset", engine.live.about.presets[rank]],
    ["thread blocks", does.join(", ") || "none"],
    ["SMs in use", `${used.length} of ${at.sms(rank)}`],
    ["instructions issued", commas(sumOf(sms, "issued", own))],
    ["L2 lines served", commas(sumOf(l2_slices, "lines", slices))],
    ["HBM lines read", commas(sumOf(hbm_channels, "lines", channels))],
    ["requests under way", commas(flying.length)],
  ];
  if (at.ended_ps(rank)) state.push(["ended", formatTime(at.ended_ps(rank))]);
  const here = blocksBySm(engine, rank);
  const children = used.map((one) => {
    const name = smNumber(engine, one);
    return { path: `${path}.${name}`, text: `${name}: ${smText(engine, here.get(one) ?? [])}` };
  });
  return { state, requests: flying, children };
}

/** The thread blocks of a GPU on each of its SMs. @param {Engine} engine @param {number} rank */
function blocksBySm(engine, rank) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (const one of rowsOf(engine, rank, "block")) {
    const on = engine.tables.blocks.at.sm(one);
    found.set(on, [...(found.get(on) ?? []), one]);
  }
  return found;
}

/** What the thread blocks on an SM do. @param {Engine} engine @param {number[]} here */
function smText(engine, here) {
  const { state } = engine.tables.blocks.at;
  const live = here.filter((one) => ![DONE, PENDING].includes(state(one)));
  if (!live.length) return here.length ? "idle" : "empty";
  return live.map((one) => blockText(engine, one)).join("; ");
}

/** What a thread block does. @param {Engine} engine @param {number} row */
function blockText(engine, row) {
  const { blocks, ops, semaphores, tiles } = engine.tables;
  const number = blocks.at.state(row);
  const op = blocks.at.op(row);
  if (number === DONE || op >= blocks.at.last_op(row)) return doing(number);
  const { phases } = engine.live.about.scene;
  const phase = phases.length ? ` · ${phases[ops.at.phase(op)]}` : "";
  if (number === WAITING) {
    const one = ops.at.semaphore(op);
    return `waiting for semaphore ${one} (${semaphores.at.value(one)} of ${ops.at.value(op)})${phase}`;
  }
  if (number === MOVING && ops.at.kind(op) === TILE) {
    const tile = ops.at.value(op);
    return `computing, ${tiles.at.computed(tile)} of ${tiles.at.steps(tile)} steps of a tile${phase}`;
  }
  if (number === MOVING) return `${doing(number)}, ${ops.at.left(op)} of ${ops.at.lines(op)} lines to issue${phase}`;
  const unacked = blocks.at.unacked(row);
  return doing(number) + phase + (unacked ? `, ${unacked} stores not acknowledged` : "");
}

/** An SM, a copy engine or a NIC. @param {Engine} engine @param {MachinePart} place @returns {Found} */
function sm(engine, { row, path, kind }) {
  const { blocks, gpus, requests, sms, warps } = engine.tables;
  const { at } = sms;
  const rank = at.gpu(row);
  const here = rowsOf(engine, rank, "block").filter((one) => blocks.at.sm(one) === row);
  let most = at.engine(row) ? gpus.at.engine_outstanding(rank) : gpus.at.max_outstanding(rank);
  if (at.engine(row) === NIC) most = gpus.at.nic_outstanding(rank) + at.resident(row);
  const own = new Set(here);
  const matrix_ps = at.matrix_ps(row) - Math.max(0, at.matrix_free_ps(row) - engine.now_ps());
  const gpuPath = path.slice(0, path.lastIndexOf(`.${kind}.`));
  return {
    state: [
      ["doing", smText(engine, here)],
      ["requests under way", `${at.outstanding(row)} of ${most}`],
      ["stalled for a slot", at.stalled(row) ? "yes" : "no"],
      ["instructions issued", commas(at.issued(row))],
      ["time stalled", formatTime(at.stalled_ps(row))],
      ["held by blocks", percent(1 - at.free(row) / ROOM, 0)],
      ["matrix units busy", formatTime(matrix_ps)],
    ],
    requests: flyingOf(engine, (request) => own.has(warps.at.block(requests.at.warp(request)))),
    children: here.map((one) => {
      const number = blockNumber(engine, one);
      return { path: `${gpuPath}.block.${number}`, text: `block ${number}: ${blockText(engine, one)}` };
    }),
  };
}

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function block(engine, { row }) {
  const { blocks, requests, warps } = engine.tables;
  const { at } = blocks;
  return {
    state: [
      ["doing", blockText(engine, row)],
      ["operation", `${at.op(row) - at.first_op(row)} of ${at.last_op(row) - at.first_op(row)}`],
      ["SM", at.sm(row) >= 0 ? smNumber(engine, at.sm(row)) : "none yet"],
      ...Object.entries(BLOCK_CLASSES).map(([part, name]) => /** @type {[string, string]} */ ([`time ${name}`, formatTime(at[`${part}_ps`](row))])),
      ["polls in vain", commas(at.polls(row))],
    ],
    requests: flyingOf(engine, (request) => warps.at.block(requests.at.warp(request)) === row),
    children: [],
  };
}

/** An L2 slice or an HBM channel. @param {Engine} engine @param {MachinePart} place @returns {Found} */
function server(engine, { row, kind }) {
  const { gpus, requests, [TABLES[kind]]: table } = engine.tables;
  const now = engine.now_ps();
  const first = gpus.at[kind === "l2" ? "first_l2_slice" : "first_hbm_channel"];
  const rank = range(0, gpus.rows).findLast((one) => first(one) <= row) ?? 0;
  const { at } = requests;
  const mine = (/** @type {number} */ one) => at.target(one) === rank && at.returning(one) === 0 && serverOf(engine, rank, at.line(one), kind) === row;
  /** @type {Found["state"]} */
  const state = [
    ["lines served", commas(table.at.lines(row))],
    ["one line takes", formatTime((kind === "l2" ? gpus.at.slice_ps : gpus.at.channel_ps)(rank))],
    ["utilisation so far", percent(busyUntil(table, row, now) / Math.max(1, now), 1)],
    ["queue now", formatTime(Math.max(0, table.at.free_at_ps(row) - now))],
    ["time queued, all lines", formatTime(table.at.queued_ps(row))],
  ];
  if (kind === "hbm" && gpus.at.row_miss_ps(rank)) state.push(["open row", commas(table.at.row(row))]);
  return { state, requests: flyingOf(engine, mine), children: [] };
}

/** The L2 slice or the HBM channel of a line of a GPU's memory (gpu/travel.py). @param {Engine} engine @param {number} rank @param {number} address @param {string} kind */
function serverOf({ tables: { gpus } }, rank, address, kind) {
  const { at } = gpus;
  const hash = BigInt.asUintN(32, BigInt(address) * 2654435769n);
  const slice = Number((hash * BigInt(at.l2_slices(rank))) >> 32n);
  if (kind === "l2") return at.first_l2_slice(rank) + slice;
  return at.first_hbm_channel(rank) + Math.floor((slice * at.hbm_channels(rank)) / at.l2_slices(rank));
}

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function semaphore(engine, { row }) {
  const { blocks, ops, requests, semaphores } = engine.tables;
  const about = new Set(rowsWhere(ops, (op) => ops.at.semaphore(op) === row));
  const at = rowsWhere(blocks, (one) => blocks.at.state(one) === WAITING && about.has(Math.min(blocks.at.op(one), ops.rows - 1)));
  const control = (/** @type {number} */ one) => [SIGNAL, POLL].includes(requests.at.kind(one)) && about.has(requests.at.op(one));
  const [signals, waits] = [NOTIFY, WAIT].map((kind) => [...about].filter((op) => ops.at.kind(op) === kind));
  const acknowledged = signals.filter((op) => ops.at.ended_ps(op) >= 0).length;
  const over = waits.filter((op) => ops.at.issued_ps(op) >= 0).length;
  const owners = new Set([...about].map(ops.at.block));
  return {
    state: [
      ["value", semaphores.at.value(row)],
      ["signals", `${acknowledged} of ${signals.length} acknowledged`],
      ["waits", `${over} of ${waits.length} over`],
      ["waiting for it", at.map((one) => blockName(engine, one)).join(", ") || "no thread block"],
    ],
    requests: flyingOf(engine, control),
    children: [...owners].map((one) => ({ path: blockPath(engine, one), text: `${blockName(engine, one)}: ${blockText(engine, one)}` })),
  };
}

/** The lane that leaves a node, and the one that comes back. @param {Engine} engine @param {MachinePart} place @returns {Found} */
function port(engine, { rows }) {
  const { at } = engine.tables.links;
  /** @type {Found["state"]} */
  const state = rows.flatMap((row, number) => {
    const direction = ["out", "in"][number];
    return [
      [`${direction}, bandwidth`, formatBandwidth(at.bandwidth_Bps(row))],
      [`${direction}, utilisation so far`, percent(utilisation(engine, [row]), 1)],
      [`${direction}, messages`, commas(at.messages(row))],
      [`${direction}, bytes with headers`, formatBytes(at.bytes(row))],
      [`${direction}, queue now`, formatTime(Math.max(0, at.free_at_ps(row) - engine.now_ps()))],
    ];
  });
  state.push(...linkRows(engine, rows));
  return { state, requests: onLinks(engine, new Set(rows)), children: named(rows.map(fabricOf(engine).name)) };
}

/** Objects that are called as their paths. @param {Iterable<string>} names @returns {Child[]} */
const named = (names) => Array.from(names, (name) => ({ path: name, text: name }));

/** The queue of a class of messages at a link, and the buffers behind it. @param {Engine} engine @param {MachinePart} place @returns {Found} */
function buffer(engine, { rows }) {
  const { clock, queues, roce } = engine.tables;
  /** @type {Found["state"]} */
  const state = [["waiting in front of the link", commas(sumOf(queues, "waiting", rows))]];
  if (clock.at.finite(0)) state.push(["free buffers behind it", commas(sumOf(queues, "credits", rows))]);
  if (roce.at.on(0)) {
    state.push(
      ["bytes that wait in front of it", formatBytes(sumOf(queues, "bytes", rows))],
      ["bytes that wait behind it", formatBytes(sumOf(queues, "stored", rows))],
      ["paused", `${sumOf(queues, "paused", rows)} of ${rows.length} lanes`],
    );
  }
  const lanes = new Set(rows.map((queue) => fabricOf(engine).name(Math.floor(queue / CLASSES))));
  return { state, requests: rows.flatMap((queue) => waitingIn(engine.tables, queue)), children: named(lanes) };
}

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function line(engine, { row }) {
  const { state, children, route } = describeLine(engine, row);
  return { state: [["line", requestText(engine, row)], ...state], requests: [row], children, route };
}

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function link(engine, { rows, row }) {
  const { tables } = engine;
  const { at } = tables.links;
  const now = engine.now_ps();
  const rate = formatBandwidth(sumOf(tables.links, "bandwidth_Bps", rows));
  const down = rows.filter((one) => isDown(tables, one));
  /** @type {[string, string]} */
  let queue = ["queue now", formatTime(Math.max(0, mostOf(tables.links, "free_at_ps", rows) - now))];
  if (down.length) {
    const waiting = down.reduce((total, one) => total + waitingAt(tables, one).length, 0);
    queue = ["down", `${down.length} of ${rows.length} lanes, and ${commas(waiting)} lines wait`];
  }
  const queued = queuedPs(tables, Math.max(1, now));
  return {
    state: [
      ["bandwidth", rows.length > 1 ? `${rate} (${lanesOf(tables, rows)})` : rate],
      ["latency", formatTime(at.latency_ps(row))],
      .../** @type {Found["state"]} */ (at.gap_ps(row) ? [["packets a second", `${generalCommas(1e6 / at.gap_ps(row), 4)} million`]] : []),
      ["utilisation so far", percent(utilisation(engine, rows), 1)],
      ["messages", commas(sumOf(tables.links, "messages", rows))],
      ["bytes with headers", formatBytes(sumOf(tables.links, "bytes", rows))],
      queue,
      ["time queued, all messages", formatTime(rows.reduce((total, one) => total + queued[one], 0))],
      ...linkRows(engine, rows),
    ],
    requests: onLinks(engine, new Set(rows)),
    children: rows.length === 1 ? [] : named(rows.map(fabricOf(engine).name)),
  };
}

/** @param {Engine} engine @param {MachinePart} place @returns {Found} */
function node(engine, { row }) {
  const { links } = engine.tables;
  const fabric = fabricOf(engine);
  const [into, out] = ["dst", "src"].map((end) => rowsWhere(links, (one) => links.at[end](one) === row));
  return {
    state: [
      ["kind", fabric.kindName(row)],
      ["lanes in", into.length],
      ["lanes out", out.length],
      ["lines passed", commas(sumOf(links, "messages", out))],
      ["mean utilisation of lanes out", percent(utilisation(engine, out), 1)],
      ["forwarding latency", formatTime(fabric.forwardPs(row))],
    ],
    requests: onLinks(engine, new Set(into)),
    children: named(new Set(out.map((one) => partition(fabric.name(one), "#")[0]))),
  };
}

/** All nodes of an instance. @param {Engine} engine @param {MachinePart} place @returns {Found} */
function instance(engine, { rows }) {
  const { gpus, links, requests, sms } = engine.tables;
  const fabric = fabricOf(engine);
  const now = engine.now_ps();
  const inside = new Set(rows);
  const ranks = range(0, gpus.rows).filter((rank) => inside.has(fabric.gpus[rank]));
  const own = new Set(ranks);
  const every = range(0, fabric.links);
  const [from, to] = [fabric.src, fabric.dst].map((end) => (/** @type {number} */ one) => inside.has(end[one]));
  const busy = (/** @type {number[]} */ some) => {
    const mean = some.reduce((total, one) => total + busyUntil(links, one, now), 0) / (Math.max(1, now) * Math.max(1, some.length));
    return `${percent(mean, 1)} of ${commas(some.length)} lanes, ${formatBytes(sumOf(links, "bytes", some))}`;
  };
  const out = every.filter((one) => from(one) && !to(one));
  const units = rowsWhere(sms, (one) => own.has(sms.at.gpu(one)));
  const first = [...rows].sort((a, b) => (fabric.rankOf.get(a) ?? gpus.rows) - (fabric.rankOf.get(b) ?? gpus.rows) || a - b);
  return {
    state: [
      ["nodes", commas(rows.length)],
      ["GPUs", commas(ranks.length) + (ranks.length ? `, ranks ${ranks[0]} to ${ranks.at(-1)}` : "")],
      ["bandwidth out", formatBandwidth(sumOf(links, "bandwidth_Bps", out))],
      ["used, links out", busy(out)],
      ["used, links in", busy(every.filter((one) => to(one) && !from(one)))],
      ["used, links within", busy(every.filter((one) => to(one) && from(one)))],
      ["instructions issued", commas(sumOf(sms, "issued", units))],
      ["GPUs that have ended", commas(ranks.filter((rank) => gpus.at.ended_ps(rank) > 0).length)],
    ],
    requests: flyingOf(engine, (request) => own.has(requests.at.gpu(request))),
    children: first.slice(0, MOST_CHILDREN).map((one) => {
      const rank = fabric.rankOf.get(one);
      return { path: fabric.nodes[one], text: rank === undefined ? fabric.nodes[one] : `GPU${rank}: ${fabric.nodes[one]}` };
    }),
  };
}
