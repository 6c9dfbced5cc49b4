// @ts-check
// Object paths, the names by which people reach things in a machine: counterpart of engine/cacheline/paths.py.

import { InputError, near } from "./errors.js";
import { ends, fabricOf, partition } from "./fabric.js";
import { CLASSES } from "./gpu_numbers.js";
import { repr } from "./text.js";

/** @import { Engine, Fabric, Live, MachinePart, Tables } from "./types" */

/** The table of each kind of object. @type {Record<string, string>} */
export const TABLES = {
  gpu: "gpus", sm: "sms", engine: "sms", nic: "sms", block: "blocks", l2: "l2_slices", hbm: "hbm_channels",
  semaphore: "semaphores", link: "links", port: "links", buffer: "queues", line: "requests",
};
/** What a GPU consists of: the words of paths, and what each is called. @type {Record<string, string>} */
export const PARTS = {
  sm: "SM", engine: "copy engine", nic: "NIC", block: "thread block", l2: "L2 slice", hbm: "HBM channel",
  semaphore: "semaphore",
};
/** The classes of messages at a link, each with a queue of its own, by their numbers. */
export const BUFFERS = ["requests", "responses", "control_requests", "control_responses"];
/** Fields of a link, a port or a buffer that are summed over its lanes. */
export const SUMMED = new Set([
  "busy_ps", "queued_ps", "messages", "bytes", "bandwidth_Bps", "marked", "pauses", "paused_ps",
  "waiting", "credits", "joined", "stored", "frames",
]);
const BUFFER_FIELDS = ["waiting", "credits", "joined", "bytes", "stored", "paused", "frames"];
const PART_OF = new RegExp(`^(.*)\\.(${Object.keys(PARTS).join("|")}|port)\\.(\\d{1,12})$`);

/** Fields of a kind of object that conditions may read. @param {string} kind @param {Tables} tables @returns {string[]} */
export function fieldsOf(kind, tables) {
  if (kind === "buffer") return BUFFER_FIELDS;
  if (kind === "semaphore") return ["value"];
  if (!(kind in TABLES) || kind === "line") return [];
  const names = tables[TABLES[kind]].fields.map(([name]) => name);
  return kind === "l2" ? names.filter((name) => name !== "row") : names;
}

/** @param {string} kind @param {number[]} rows @param {string} path @returns {MachinePart} */
const part = (kind, rows, path) => ({ kind, rows, row: rows[0], path, whole: ["link", "port", "buffer"].includes(kind) });

/**
 * Find an object by its path; an InputError where there is none.
 * @param {string} text
 * @param {Engine} engine
 * @returns {MachinePart}
 */
export function resolve(text, engine) {
  const path = text.trim();
  const { tables } = engine;
  const flying = /^line\[(\d+)\]$/.exec(path);
  if (flying) {
    const number = Number(flying[1]);
    if (number < tables.requests.rows && tables.requests.at.live(number) === 1) return part("line", [number], path);
    throw new InputError(`${repr(path)} is not under way now`, { hint: "inspect a GPU or a link for those that are" });
  }
  const fabric = fabricOf(engine);
  if (path.includes("->")) {
    const [link, name] = partition(path, ".buffer.");
    return path.includes(".buffer.") ? bufferOf(linkOf(link, fabric), name, path, tables) : linkOf(link, fabric);
  }
  try {
    return whole(path, fabric);
  } catch (error) {
    const match = PART_OF.exec(path);
    if (!(error instanceof InputError) || !match) throw error;
    const [, head, kind, number] = match;
    return partOf(whole(head, fabric), head, kind, Number(number), path, engine);
  }
}

/** @param {MachinePart} owner @param {string} head @param {string} kind @param {number} number @param {string} path @param {Engine} engine */
function partOf(owner, head, kind, number, path, engine) {
  const fabric = fabricOf(engine);
  const full = `${owner.path}.${kind}.${number}`;
  if (kind === "port" && owner.kind !== "instance") {
    const ports = portsOf(fabric, owner.kind === "gpu" ? fabric.gpus[owner.row] : owner.row);
    return part("port", ports[below(number, ports.length, "port", head)], full);
  }
  if (owner.kind !== "gpu") throw new InputError(`${repr(head)} is not a GPU`, { where: path });
  const rows = rowsOf(engine, owner.row, kind);
  if (kind !== "semaphore") return part(kind, [rows[below(number, rows.length, kind, head)]], full);
  if (rows.includes(number)) return part(kind, [number], full);
  const hint = rows.length ? `one of ${rows[0]} to ${rows.at(-1)}` : "this program has none there";
  throw new InputError(`${repr(head)} has no semaphore ${number}`, { hint });
}

/** A GPU, another node, or an instance. @param {string} path @param {Fabric} fabric @returns {MachinePart} */
function whole(path, fabric) {
  try {
    const name = fabric.full(path.replace(/^GPU(\d+)$/, "gpu[$1]"));
    const node = fabric.index(name);
    if (node < 0) {
      const some = fabric.gpus.slice(0, 64).map((gpu) => fabric.nodes[gpu]);
      throw new InputError(`there is no object ${repr(name)}`, { hint: near(name, [...some, "gpu[0]"]) });
    }
    const rank = fabric.rankOf.get(node) ?? -1;
    return rank < 0 ? part("node", [node], fabric.nodes[node]) : part("gpu", [rank], fabric.nodes[node]);
  } catch (error) {
    const nodes = nodesOf(path, fabric);
    if (!nodes.length) throw error;
    return part("instance", nodes, path);
  }
}

/** The lanes of a link, or all links between two instances. @param {string} path @param {Fabric} fabric */
function linkOf(path, fabric) {
  const full = fabric.full(path);
  try {
    return part("link", fabric.find(full), full);
  } catch (error) {
    const between = linksBetween(full, fabric);
    if (!between.length) throw error;
    return part("link", between, full);
  }
}

/** The queues of a class of messages at the lanes of a link. @param {MachinePart} link @param {string} name @param {string} path @param {Tables} tables */
function bufferOf(link, name, path, tables) {
  if (!BUFFERS.includes(name)) throw new InputError(`a link has no buffer ${repr(name)}`, { where: path, hint: near(name, BUFFERS) });
  if (!tables.clock.at.managed(0)) {
    const hint = "Network(buffers=...) or another arbitration gives them some";
    throw new InputError("the links of this run have no buffers of their own", { where: path, hint });
  }
  return part("buffer", link.rows.map((lane) => lane * CLASSES + BUFFERS.indexOf(name)), `${link.path}.buffer.${name}`);
}

/** @param {number} number @param {number} count @param {string} kind @param {string} owner */
function below(number, count, kind, owner) {
  if (number < count) return number;
  const hint = count ? `they count from 0 to ${count - 1}` : "there are none";
  throw new InputError(`${repr(owner)} has no ${kind} ${number}`, { hint });
}

/** Nodes of an instance (`host.3`) or of consecutive ranks (`gpu[0-31]`); none for anything else. @param {string} path @param {Fabric} fabric */
function nodesOf(path, fabric) {
  const ranks = /^gpu\[(\d+)-(\d+)\]$/.exec(path);
  if (ranks) return fabric.gpus.slice(Number(ranks[1]), Number(ranks[2]) + 1);
  return /^.+\.\d+$/.test(path) ? fabric.select(path) : [];
}

/** Links of `A->B` where an end is an instance; none where an end is unknown. @param {string} path @param {Fabric} fabric */
function linksBetween(path, fabric) {
  const [from, to] = ends(path).map((end) => {
    const node = fabric.index(end.trim());
    return new Set(node < 0 ? nodesOf(end.trim(), fabric) : [node]);
  });
  const links = [];
  for (let link = 0; link < fabric.links; link += 1) {
    if (from.has(fabric.src[link]) && to.has(fabric.dst[link])) links.push(link);
  }
  return links;
}

/** @type {WeakMap<Live, Record<string, Map<number, number[]>>>} rows of thread blocks and semaphores by GPU: they never change */
const owned = new WeakMap();

/** @param {Engine} engine @param {string} table @returns {Map<number, number[]>} */
function ownedRows({ live, tables }, table) {
  const known = owned.get(live) ?? {};
  owned.set(live, known);
  if (!(table in known)) {
    known[table] = new Map();
    tables[table].column("gpu").forEach((rank, row) => {
      if (!known[table].has(rank)) known[table].set(rank, []);
      known[table].get(rank)?.push(row);
    });
  }
  return known[table];
}

/** The rows of a GPU's parts of a kind. @param {Engine} engine @param {number} rank @param {string} kind @returns {number[]} */
export function rowsOf(engine, rank, kind) {
  const gpu = engine.tables.gpus.at;
  if (kind === "block" || kind === "semaphore") return ownedRows(engine, TABLES[kind]).get(rank) ?? [];
  const [sm, sms, engines] = [gpu.first_sm(rank), gpu.sms(rank), gpu.engines(rank)];
  const [first, length] = {
    sm: [sm, sms],
    engine: [sm + sms, engines],
    nic: [sm + sms + engines, gpu.nics(rank)],
    l2: [gpu.first_l2_slice(rank), gpu.l2_slices(rank)],
    hbm: [gpu.first_hbm_channel(rank), gpu.hbm_channels(rank)],
  }[kind] ?? [0, 0];
  return Array.from({ length }, (_, k) => first + k);
}

/** The ports of a node: of each the lane out, and the lane in where there is one. @param {Fabric} fabric @param {number} node */
function portsOf(fabric, node) {
  const ports = [];
  for (let out = 0; out < fabric.links; out += 1) {
    if (fabric.src[out] !== node) continue;
    const back = fabric.lanes(fabric.dst[out], node).filter((link) => fabric.lane[link] === fabric.lane[out]);
    ports.push([out, ...back.slice(0, 1)]);
  }
  return ports;
}

/** Paths of what has no owner: GPUs, nodes, instances, links. @param {Engine} engine @returns {string[]} */
export function objectNames(engine) {
  const { nodes, gpus } = fabricOf(engine);
  const known = new Set(nodes);
  const instances = new Set(nodes.map((name) => name.split(".", 2).join(".")).filter((name) => !known.has(name)));
  const links = pairsOf(fabricOf(engine)).map(([a, b]) => `${nodes[a]}->${nodes[b]}`);
  return [...gpus.map((_, rank) => `gpu[${rank}]`), ...instances, ...nodes, ...links];
}

/** Nodes that a link leads from and to, each pair once, in their order. @param {Fabric} fabric @returns {[number, number][]} */
export function pairsOf({ nodes, src, dst }) {
  const keys = new Set(Array.from(src, (from, link) => from * nodes.length + dst[link]));
  return [...keys].sort((a, b) => a - b).map((key) => [Math.floor(key / nodes.length), key % nodes.length]);
}

/** Paths of the parts of an object of `objectNames`, by their kinds. @param {string} path @param {Engine} engine @returns {Record<string, Iterable<string>>} */
export function partNames(path, engine) {
  const fabric = fabricOf(engine);
  if (path.includes("->")) {
    const lanes = linkOf(path, fabric).rows;
    const several = lanes.length > 1 ? lanes.map((_, k) => `${path}#${k}`) : [];
    const classes = engine.tables.clock.at.managed(0) ? BUFFERS : [];
    return { lane: several, buffer: [path, ...several].flatMap((one) => classes.map((name) => `${one}.buffer.${name}`)) };
  }
  const place = whole(path, fabric);
  if (place.kind === "instance") return {};
  const kinds = place.kind === "gpu" ? [...Object.keys(PARTS), "port"] : ["port"];
  return Object.fromEntries(kinds.map((kind) => [kind, namesOf(path, place, kind, engine)]));
}

/** Paths of the parts of a GPU or a node: worked out when they are asked for. @param {string} path @param {MachinePart} place @param {string} kind @param {Engine} engine */
function* namesOf(path, place, kind, engine) {
  const fabric = fabricOf(engine);
  const node = place.kind === "gpu" ? fabric.gpus[place.row] : place.row;
  const rows = kind === "port" ? portsOf(fabric, node) : rowsOf(engine, place.row, kind);
  const numbers = kind === "semaphore" ? /** @type {number[]} */ (rows) : rows.keys();
  for (const number of numbers) yield `${path}.${kind}.${number}`;
}

/** The name of a link, by its row; links of a mesh have numbers only. @param {Engine} engine @param {number} link */
export function linkName(engine, link) {
  const fabric = fabricOf(engine);
  return link < fabric.links ? fabric.name(link) : `on-chip link ${link}`;
}

/** A thread block's number among those of its GPU. @param {Engine} engine @param {number} block */
export const blockNumber = (engine, block) => block - rowsOf(engine, engine.tables.blocks.at.gpu(block), "block")[0];

/** A thread block, by its row, as `GPU3 block 0`. @param {Engine} engine @param {number} block */
export const blockName = (engine, block) => `GPU${engine.tables.blocks.at.gpu(block)} block ${blockNumber(engine, block)}`;

/** The full name of a GPU. @param {Engine} engine @param {number} rank */
export function gpuPath(engine, rank) {
  const { nodes, gpus } = fabricOf(engine);
  return nodes[gpus[rank]];
}

/** `sm.3`, or `engine.0` of a copy engine. @param {Engine} engine @param {number} sm */
export function smNumber(engine, sm) {
  const { gpu, engine: kind } = engine.tables.sms.at;
  const name = ["sm", "engine", "nic"][kind(sm)];
  return `${name}.${sm - rowsOf(engine, gpu(sm), name)[0]}`;
}

/** The full name of an SM, a copy engine or a NIC, by its row. @param {Engine} engine @param {number} sm */
export const smPath = (engine, sm) => `${gpuPath(engine, engine.tables.sms.at.gpu(sm))}.${smNumber(engine, sm)}`;

/** The full name of a thread block, by its row. @param {Engine} engine @param {number} block */
export const blockPath = (engine, block) => `${gpuPath(engine, engine.tables.blocks.at.gpu(block))}.block.${blockNumber(engine, block)}`;
