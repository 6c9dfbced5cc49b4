// @ts-check
// A machine that is about to run a program, from the machine of the page: counterpart of engine/cacheline/build.py,
// routes.py and occupancy.py. What does not depend on the program is taken from the page's tables.

import { InputError } from "./errors.js";
import { CLASSES, COPY_ENGINE, FAULT, LAUNCH, MOVE, NIC, NOTIFY } from "./gpu_numbers.js";
import { SWITCH_READS, SWITCH_WRITES } from "./plan.js";
import { ACKNOWLEDGED } from "./plan_fences.js";
import { before, filled } from "./plan_lower.js";
import { fillQueue } from "./plan_queue.js";
import { createNet, noRoute } from "./routes.js";
import { allocate, createTables } from "./tables.js";
import { commas } from "./text.js";

/** @import { Lowered, Records } from "./plan_lower.js" */
/** @import { PlanGpu, PlanMachine } from "./plan_machine.js" */
/** @import { Routes } from "./routes.js" */
/** @import { Layout, Table, Tables } from "./types" */

const ROOM = 1 << 16; // parts of an SM
const FAIR = 2;
const [PAUSES, INJECTS] = [1, 4];
const FRAMES = 8;
const ONE = 1 << 20; // the alpha of DCQCN, whole
const QUEUE_PAIR = 64; // requests whose data one queue pair of a NIC reads at once
const ARGUMENTS = 1 << 22; // of events
const LANDED = 2 ** 22; // most lines of memory whose last writer is recorded
const EMPTY = -1; // a place of the L2 (gpu/cache.py)

/**
 * The tables of a machine at the start of a program, by name.
 * @param {PlanMachine} machine
 * @param {PlanGpu[]} presets of each rank
 * @param {Lowered} program
 * @param {string} name of the program
 * @param {Layout[]} layouts of the page's tables
 * @returns {{ layouts: Layout[], tables: Tables, through: boolean }}
 */
export function build(machine, presets, program, name, layouts) {
  const { base, ranks } = machine;
  const { ops, blocks, rows } = program;
  const [roce, links] = [base.roce.at, base.links];
  const managed = base.clock.at.managed(0);
  const remote = remoteOperands(program, ranks);
  const pairs = [...new Set([...remote.map(({ out }) => out), ...remote.map(({ back }) => back)])].sort((a, b) => a - b);
  const found = createNet(machine.lanes, machine.gpus).routes(pairs, (source, target) => {
    throw noRoute(source, target, machine);
  });
  const out = enterRoutes(remote, found, program.rows.operands);
  const routes = { first: found.first.slice(0, -1), last: found.first.slice(1), flow: found.first.slice(1).map(() => -1), links: found.links };
  const planes = planesOf(machine, program, name, routes);
  const flows = roce.dcqcn(0) ? flowsOf(machine, routes) : null;
  const width = widths(presets, program);
  const requests = requestsOf(machine, presets, program, width);
  const caches = presets.map((preset, rank) => cacheOf(preset, program.lines[rank]));
  const detailed = managed || some(base.gpus, "mesh") || program.flags > 0 || ops.in_switch.some(Boolean)
    || ops.payload.some((payload) => payload > machine.lineBytes);
  const landing = base.recorder.at.on(0) && total(program.slices.lines) <= LANDED;
  const frames = roce.pfc(0) ? FRAMES * CLASSES * counted(links, (link) => (links.at.role(link) & PAUSES) > 0) : 0;
  const warps = total(width.warps);
  const flowCount = flows ? Math.max(1, flows.length) : 1;
  const queue = requests + base.sms.rows + 2 * rows.blocks + base.faults.rows + (managed ? links.rows : 0) + frames + 2 * flowCount + 1;
  const most = Math.max(requests, rows.blocks, links.rows, base.faults.rows, flowCount, frames ? 2 * CLASSES * machine.links : 0);
  if (most >= ARGUMENTS) {
    const what = `a machine of more than ${commas(ARGUMENTS)} requests, thread blocks, links or flows`;
    throw new InputError(what, { where: name, hint: "reduce the number of GPUs, the channels or max_outstanding" });
  }
  /** @type {Record<string, number>} */
  const sizes = {
    ...rows, near: queue, later: queue, far: queue, warps, jobs: width.unroll.reduce((sum, unroll, b) => sum + unroll * width.warps[b], 0), tiles: 0,
    routes: Math.max(1, routes.first.length), planes: Math.max(1, planes.rows.length), route_links: Math.max(1, routes.links.length),
    requests, details: detailed ? requests : 1, tags: Math.max(1, heldBy(caches, 0)), present: Math.max(1, heldBy(caches, 1)),
    flags: Math.max(1, program.flags), flows: flowCount, landed: landing ? total(program.slices.lines) : 1, places: rows.slices,
  };
  const own = layouts.map((layout) => ({ ...layout, rows: sizes[layout.name] ?? layout.rows }));
  const tables = createTables(allocate(own), own);
  for (const table of ["gpus", "links", "sms", "queues", "roce", "faults", "recorder", "hbm_channels", "current"]) tables[table].bytes().set(base[table].bytes());

  put(tables.ops, { ...ops, fence: fences(machine, program) });
  put(tables.operands, { ...program.operands, ...out });
  for (const table of ["slices", "semaphores", "phases"]) put(tables[table], /** @type {Record<string, Records>} */ (/** @type {object} */ (program))[table]);
  const { first, last, flow } = routes;
  put(tables.routes, { first, last, flow });
  if (flows) putFlows(tables, machine, flows);
  put(tables.planes, { up: planes.rows.map(([up]) => up), down: planes.rows.map(([, down]) => down) });
  put(tables.route_links, { value: routes.links });
  put(tables.requests, { next_free: count(requests, 1) });
  put(tables.tags, { value: filled(sizes.tags, EMPTY) });
  putWarps(tables, width);
  putGpus(tables, presets, caches, planes.first, planes.each);
  const { clock } = tables;
  for (const field of ["multipath", "cut_through", "managed", "finite", "arbitration"]) clock.put[field](0, base.clock.at[field](0));
  clock.put.now_ps(0, -1);
  clock.put.resumes(0, -1);
  clock.put.detailed(0, detailed ? 1 : 0);
  tables.recorder.put.landing(0, landing ? 1 : 0);
  if (landing) put(tables.landed, { value: repeated(program.slices.writer, program.slices.lines) });
  put(tables.places, { value: before(program.slices.lines) });
  const launch_ps = blocks.gpu.map((gpu) => machine.launch_ps[gpu] + machine.late_ps[gpu]);
  place(tables, machine, presets, { ...blocks, launch_ps, warps: width.warps, first_warp: before(width.warps) });
  return { layouts: own, tables, through: found.through };
}

/** @param {Float64Array} values */
const total = (values) => values.reduce((sum, value) => sum + value, 0);
/** Whole numbers. @param {number} length @param {number} first */
const count = (length, first) => Float64Array.from({ length }, (_, k) => first + k);
/** @param {Float64Array} values @param {Float64Array} times */
const repeated = (values, times) => Float64Array.from(Array.from(values).flatMap((value, k) => Array(times[k]).fill(value)));
/** @param {Table} table @param {(row: number) => boolean} test */
const counted = (table, test) => count(table.rows, 0).filter((row) => test(row)).length;
/** @param {Table} table @param {string} field */
const some = (table, field) => counted(table, (row) => table.at[field](row) !== 0) > 0;

/** Write fields of all records. @param {Table} table @param {Record<string, ArrayLike<number>>} records */
export function put(table, records) {
  for (const [field, values] of Object.entries(records)) {
    const write = table.put[field];
    for (let row = 0; row < values.length; row += 1) write(row, values[row]);
  }
}

/**
 * Operands on another rank than their operation: source * ranks + target of their requests, and of the responses; and
 * the block of a NIC, which sends over one route.
 * @param {Lowered} program @param {number} ranks
 */
function remoteOperands({ ops, operands, blocks }, ranks) {
  /** @type {{ row: number, out: number, back: number, pair: number }[]} */
  const found = [];
  ops.block.forEach((block, op) => {
    const here = blocks.gpu[block];
    const last = ops.first_target[op] + ops.targets[op] + (ops.semaphore[op] >= 0 ? 1 : 0);
    for (let row = ops.first_source[op]; row < last; row += 1) {
      const there = operands.gpu[row];
      if (there !== here) found.push({ row, out: here * ranks + there, back: there * ranks + here, pair: blocks.engine[block] === NIC ? block : -1 });
    }
  });
  return found;
}

/**
 * The routes of operands.
 * @param {ReturnType<typeof remoteOperands>} remote @param {Routes} found @param {number} rows
 */
function enterRoutes(remote, found, rows) {
  const fields = { out_route: filled(rows), out_routes: filled(rows), back_route: filled(rows), back_routes: filled(rows) };
  for (const { row, out, back, pair } of remote) {
    for (const [first, number, key] of /** @type {const} */ ([["out_route", "out_routes", out], ["back_route", "back_routes", back]])) {
      const [route, several] = /** @type {[number, number]} */ (found.of.get(key));
      // A queue pair has one path, on which nothing overtakes anything.
      [fields[first][row], fields[number][row]] = pair >= 0 ? [route + (pair % several), 1] : [route, several];
    }
  }
  return fields;
}

/**
 * The lanes between each GPU and the switches that all share, as routes behind those given.
 * @param {PlanMachine} machine @param {Lowered} program @param {string} name
 * @param {{ first: number[], last: number[], flow: number[], links: number[] }} routes
 */
function planesOf(machine, program, name, routes) {
  /** @type {{ rows: [number, number][], first: number[], each: number }} */
  const found = { rows: [], first: [], each: 0 };
  if (!program.ops.in_switch.some(Boolean)) return found;
  const shared = machine.gpus.map((node) => switchLanes(machine, node));
  const keys = [...shared[0].keys()].filter((key) => shared.every((lanes) => lanes.has(key)))
    .map((key) => key.split(" ").map(Number)).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((key) => key.join(" "));
  if (!keys.length) {
    throw new InputError("no switch joins all GPUs directly, so that none can add up", {
      where: name, hint: "take an infrastructure whose GPUs share switches, or another algorithm",
    });
  }
  found.each = keys.length;
  // Without other routes there is one that is empty.
  if (!routes.first.length) {
    for (const column of [routes.first, routes.last, routes.flow]) column.push(0);
  }
  for (const lanes of shared) {
    found.first.push(found.rows.length);
    for (const key of keys) {
      found.rows.push([routes.first.length, routes.first.length + 1]);
      for (const link of /** @type {[number, number]} */ (lanes.get(key))) {
        routes.first.push(routes.links.length);
        routes.last.push(routes.links.push(link));
        routes.flow.push(-1);
      }
    }
  }
  return found;
}

/** Lanes between a GPU and its switches, by switch and number of the lane: up and down. @param {PlanMachine} machine @param {number} node */
function switchLanes({ base, links, gpus }, node) {
  const { src, dst, lane } = base.links.at;
  /** @type {Map<string, [up: number, down: number]>} */
  const found = new Map();
  /** @type {Map<string, number>} */
  const up = new Map();
  const ranked = new Set(gpus);
  for (let link = 0; link < links; link += 1) if (src(link) === node && !ranked.has(dst(link))) up.set(`${dst(link)} ${lane(link)}`, link);
  for (let link = 0; link < links; link += 1) {
    const key = `${src(link)} ${lane(link)}`;
    const out = up.get(key);
    if (dst(link) === node && out !== undefined) found.set(key, [out, link]);
  }
  return found;
}

/**
 * The flows of routes over Ethernet: what enters it by one link, for one GPU, has one rate.
 * @param {PlanMachine} machine @param {{ first: number[], last: number[], links: number[] }} routes
 */
function flowsOf({ base, gpus }, routes) {
  const ranked = new Set(gpus);
  /** @type {Map<string, { link: number, target: number, routes: number[] }>} */
  const found = new Map();
  routes.first.forEach((first, route) => {
    const links = routes.links.slice(first, routes.last[route]);
    const link = links.find((one) => base.links.at.role(one) & INJECTS) ?? -1;
    const target = links.length ? base.links.at.dst(links[links.length - 1]) : -1;
    if (link < 0 || !ranked.has(target)) return;
    const flow = found.get(`${link} ${target}`) ?? { link, target, routes: [] };
    flow.routes.push(route);
    found.set(`${link} ${target}`, flow);
  });
  return [...found.values()];
}

/** @param {Tables} tables @param {PlanMachine} machine @param {ReturnType<typeof flowsOf>} flows */
function putFlows({ flows: table, routes }, { base }, flows) {
  for (const field of ["link", "target", "head", "tail"]) put(table, { [field]: filled(table.rows, -1) });
  put(table, { alpha: filled(table.rows, ONE) });
  flows.forEach(({ link, target, routes: own }, flow) => {
    table.put.link(flow, link);
    table.put.target(flow, target);
    for (const rate of ["rate_Bps", "target_Bps", "slowest_Bps"]) table.put[rate](flow, base.links.at.bandwidth_Bps(link));
    for (const route of own) routes.put.flow(route, flow);
  });
}

/** Where signals could overtake the data that they announce, a NIC waits until the data has come. @param {PlanMachine} machine @param {Lowered} program */
function fences({ base, slowFaults }, { ops, blocks }) {
  if (base.clock.at.arbitration(0) !== FAIR && !some(base.gpus, "mesh") && !slowFaults) return ops.fence;
  return ops.fence.map((fence, op) => (blocks.engine[ops.block[op]] === NIC && ops.kind[op] === NOTIFY ? ACKNOWLEDGED : fence));
}

/** Warps of each block, and lines that each of its warps keeps under way. @param {PlanGpu[]} presets @param {Lowered} program */
function widths(presets, { blocks, ops }) {
  const least = filled(blocks.gpu.length, Infinity);
  ops.kind.forEach((kind, op) => {
    if (kind === MOVE && ops.lines[op] > 0) least[ops.block[op]] = Math.min(least[ops.block[op]], ops.payload[op]);
  });
  const unroll = blocks.gpu.map((gpu, b) => {
    const preset = presets[gpu];
    if (blocks.engine[b] === COPY_ENGINE) return preset.engine_outstanding;
    if (blocks.engine[b] === NIC) return Math.min(preset.nic_outstanding, QUEUE_PAIR);
    // Of packets a thread keeps one access of 16 B under way (LL, MSCCL++) or four (LL128).
    if (least[b] <= Math.floor(preset.line_bytes / 2)) return Math.min(preset.unroll, preset.access_lines);
    return least[b] < preset.line_bytes ? Math.min(preset.unroll, 4 * preset.access_lines) : preset.unroll;
  });
  return { warps: blocks.gpu.map((gpu, b) => (blocks.engine[b] ? 1 : presets[gpu].warps_per_block)), unroll };
}

/**
 * Requests that can be under way: no more than the slots of the SMs and engines that have blocks, and than a GPU ever makes.
 * @param {PlanMachine} machine @param {PlanGpu[]} presets @param {Lowered} program @param {{ warps: Float64Array, unroll: Float64Array }} width
 */
function requestsOf({ base, ranks }, presets, { ops, blocks }, { warps, unroll }) {
  const sources = filled(blocks.gpu.length);
  const [ever, multiplied] = [filled(ranks), filled(ranks)];
  ops.block.forEach((block, op) => {
    if (ops.spins[op] > 0) sources[block] = Math.max(sources[block], ops.sources[op]);
    const [reads, writes] = [ops.in_switch[op] & SWITCH_READS ? 1 : 0, ops.in_switch[op] & SWITCH_WRITES ? 1 : 0];
    ever[blocks.gpu[block]] += ops.lines[op] * ((reads || ops.sources[op]) + (writes || ops.targets[op])) + 1;
    multiplied[blocks.gpu[block]] += ops.lines[op] * (reads + writes);
  });
  // A load that waits to be tried again has given its slot back, but not its row.
  let found = total(sources.map((most, b) => most * warps[b] * unroll[b]));
  presets.forEach((preset, rank) => {
    const listed = [0, 0, 0];
    blocks.gpu.forEach((gpu, b) => (listed[blocks.engine[b]] += gpu === rank ? 1 : 0));
    const [sms, engines, nics] = ["sms", "engines", "nics"].map((field, unit) => Math.min(base.gpus.at[field](rank), listed[unit]));
    const slots = preset.max_outstanding * sms + preset.engine_outstanding * engines + preset.nic_outstanding * nics + 2 * listed[NIC];
    found += Math.min(slots, ever[rank]) + Math.min(slots, multiplied[rank]) * ranks;
  });
  return found;
}

/**
 * Sets and ways of the L2, and whether each line has a place of its own: where buffers take at most half of it.
 * @param {PlanGpu} preset @param {number} lines
 */
function cacheOf({ l2_bytes, l2_ways, line_bytes, far_ps, near_bytes }, lines) {
  const capacity = Math.floor(l2_bytes / line_bytes);
  const far = lines * line_bytes > near_bytes ? far_ps : 0;
  return 2 * lines <= capacity ? { sets: lines, ways: 1, direct: 1, far } : { sets: Math.floor(capacity / l2_ways), ways: l2_ways, direct: 0, far };
}

/** Places of all caches of a kind. @param {ReturnType<typeof cacheOf>[]} caches @param {number} kind */
const heldBy = (caches, kind) => caches.reduce((sum, { sets, ways, direct }) => sum + (direct === kind ? sets * ways : 0), 0);

/** @param {Tables} tables @param {{ warps: Float64Array, unroll: Float64Array }} width */
function putWarps({ warps, jobs }, width) {
  let [warp, job] = [0, 0];
  const none = ["loading", "ready_head", "ready_tail", "next_ready", "retry_head", "retry_tail"].map((field) => warps.put[field]);
  width.warps.forEach((several, block) => {
    for (let k = 0; k < several; k += 1, warp += 1) {
      warps.put.block(warp, block);
      for (const write of none) write(warp, -1);
      warps.put.free_job(warp, job);
      for (const last = job + width.unroll[block]; job < last; job += 1) {
        jobs.put.warp(job, warp);
        jobs.put.next(job, job + 1 < last ? job + 1 : -1);
      }
    }
  });
}

/**
 * What of the GPUs depends on the program.
 * @param {Tables} tables @param {PlanGpu[]} presets @param {ReturnType<typeof cacheOf>[]} caches
 * @param {number[]} firstPlane @param {number} planes
 */
function putGpus({ gpus }, presets, caches, firstPlane, planes) {
  const held = [0, 0];
  presets.forEach(({ max_outstanding, issue_lines }, rank) => {
    const { sets, ways, direct, far } = caches[rank];
    const values = {
      usable: gpus.at.sms(rank), sets, l2_ways: ways, direct, far_ps: far, first_tag: held[direct], first_plane: firstPlane[rank] ?? 0, planes, max_outstanding, issue_lines,
    };
    for (const [field, value] of Object.entries(values)) gpus.put[field](rank, value);
    held[direct] += sets * ways;
  });
}

/**
 * Place thread blocks, each on the SM of its GPU with most room; queue their launches and faults.
 * @param {Tables} tables @param {PlanMachine} machine @param {PlanGpu[]} presets @param {Records} blocks
 */
function place(tables, machine, presets, blocks) {
  const { gpus, sms } = tables;
  const rows = blocks.gpu.length;
  const [sm, next, held] = [filled(rows, -1), filled(rows, -1), filled(rows)];
  for (let row = 0; row < sms.rows; row += 1) {
    sms.put.free(row, ROOM);
    sms.put.resident(row, 0);
  }
  /** @param {number[]} waiting */
  const chain = (waiting) => {
    waiting.forEach((block, k) => (next[block] = waiting[k + 1] ?? -1));
    return waiting.length ? [waiting[0], waiting[waiting.length - 1]] : [-1, -1];
  };
  presets.forEach((preset, rank) => {
    /** @type {number[][]} by unit */
    const [mine, lists, pairs] = [0, COPY_ENGINE, NIC].map((unit) => [...blocks.gpu.keys()].filter((b) => blocks.gpu[b] === rank && blocks.engine[b] === unit));
    const [first, usable, ofGpu, engines, nics] = ["first_sm", "usable", "sms", "engines", "nics"].map((field) => gpus.at[field](rank));
    const share = Math.floor(ROOM / preset.blocks_on_sm);
    const room = filled(usable, ROOM);
    for (const block of mine) held[block] = share;
    let placed = 0;
    for (; placed < mine.length; placed += 1) {
      const emptiest = room.indexOf(room.reduce((most, one) => Math.max(most, one), -1));
      if (emptiest < 0 || room[emptiest] < share) break;
      room[emptiest] -= share;
      sm[mine[placed]] = first + emptiest;
    }
    room.forEach((free, k) => sms.put.free(first + k, free));
    lists.slice(0, engines).forEach((block, k) => (sm[block] = first + ofGpu + k));
    pairs.forEach((block, k) => (sm[block] = first + ofGpu + engines + (nics ? k % nics : 0)));
    for (const block of [...mine.slice(0, placed), ...lists.slice(0, engines), ...pairs]) sms.put.resident(sm[block], sms.at.resident(sm[block]) + 1);
    const [pendingHead, pendingTail] = chain(mine.slice(placed));
    const [listHead, listTail] = chain(lists.slice(engines));
    const taken = new Set(mine.slice(0, placed).map((block) => sm[block])).size;
    const values = {
      pending_head: pendingHead, pending_tail: pendingTail, urgent_tail: -1, list_head: listHead, list_tail: listTail, taken,
      blocks_left: mine.length + lists.length + pairs.length,
    };
    for (const [field, value] of Object.entries(values)) gpus.put[field](rank, value);
  });
  const none = filled(rows, -1);
  put(tables.blocks, { ...blocks, op: blocks.first_op, sm, held, next_pending: next, post: none, started_ps: none, ended_ps: none, roles: filled(rows, 1) });
  const launched = [...sm.keys()].filter((block) => sm[block] >= 0);
  /** @type {[time_ps: number, kind: number, about: number][]} */
  const events = launched.map((block) => [blocks.launch_ps[block], LAUNCH, block]);
  machine.fault_ps.forEach((time_ps, fault) => events.push([time_ps, FAULT, fault]));
  fillQueue(tables, events);
  tables.clock.put.busy(0, launched.length);
}
