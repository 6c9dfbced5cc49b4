// @ts-check
// Where the lines under way are, the link they queue at or cross, or the memory that serves them: counterpart of
// engine/cacheline/lines.py.

import { eventsOf } from "./event_queue.js";
import { fabricOf } from "./fabric.js";
import { CLASSES, FENCE, HBM, HOP, IN_VAIN, ISSUE, L2, REQUEST_KINDS, RETURN, SWITCH } from "./gpu_numbers.js";
import { waitingIn } from "./lines_faults.js";
import { blockPath, gpuPath, linkName } from "./lines_paths.js";
import { busyUntil } from "./lines_recorder.js";
import { ascending, longs } from "./longs.js";
import { range, rowsWhere, underWay } from "./rows.js";
import { commas, percent } from "./text.js";
import { formatTime } from "./units.js";
import { leastWirePs, transferPs, wireSize } from "./wire.js";

/** @import { Engine, Tables } from "./types" */
/**
 * @typedef {object} Spot where a line is
 * @property {string} cause
 * @property {string} path the link, GPU or switch
 * @property {string} text in words
 * @property {number} since_ps since when, as far as it is known; -1 where not
 */

const OF_REQUESTS = [HOP, L2, HBM, RETURN, SWITCH];

/** @param {string} cause @param {string} path @param {string} text @param {number} [since_ps] @returns {Spot} */
const spot = (cause, path, text, since_ps = -1) => ({ cause, path, text, since_ps });

/** The lines under way in the present state of a simulation. */
export class Lines {
  /** @param {Engine} engine */
  constructor(engine) {
    this._engine = engine;
    this._tables = engine.tables;
    this._fabric = fabricOf(engine);
    /** @type {Map<number, { kind: number, time_ps: number }>} of a request: its next event */
    this.next = new Map();
    /** @type {Map<number, number>} of an SM: when it issues next */
    this.nextIssue = new Map();
    /** @type {Map<number, number>} of a block: when its fence is over */
    this.fences = new Map();
    for (const { time_ps, kind, arg } of eventsOf(engine.tables)) {
      if (OF_REQUESTS.includes(kind)) this.next.set(arg, { kind, time_ps: Number(time_ps) });
      else if (kind === ISSUE) this.nextIssue.set(arg, Number(time_ps));
      else if (kind === FENCE) this.fences.set(arg, Number(time_ps));
    }
    /** @type {Map<number, { queue: number, before: number }>} requests in queues of managed links */
    this._held = new Map();
    if (engine.tables.clock.at.managed(0)) this._findHeld();
  }

  _findHeld() {
    const { queues } = this._tables;
    for (const queue of rowsWhere(queues, (row) => queues.at.waiting(row) > 0)) {
      waitingIn(this._tables, queue).forEach((request, before) => this._held.set(request, { queue, before }));
    }
  }

  /** The thread block that a request is of. @param {number} request */
  blockOf(request) {
    return this._tables.warps.at.block(this._tables.requests.at.warp(request));
  }

  /** Requests of a thread block, the oldest first. @param {number} block */
  ofBlock(block) {
    return this._oldest((request) => this.blockOf(request) === block);
  }

  /** Requests of the blocks on an SM, the oldest first. @param {number} sm */
  ofSm(sm) {
    return this._oldest((request) => this._tables.blocks.at.sm(this.blockOf(request)) === sm);
  }

  /** Requests of a kind of an operation that have not been answered, the oldest first. @param {number} op @param {number} kind */
  ofOp(op, kind) {
    const { at } = this._tables.requests;
    return this._oldest((request) => at.op(request) === op && at.kind(request) === kind && at.returning(request) === 0);
  }

  /** Requests on links or in their queues, in the order of their arrival. @param {Iterable<number>} links */
  onLinks(links) {
    const wanted = new Set(links);
    const { at } = this._tables.requests;
    const arrives = longs(this._tables.requests, "arrives_ps");
    const found = onLinks(this._engine, wanted).sort((a, b) => at.arrives_ps(a) - at.arrives_ps(b) || ascending(arrives.get(a), arrives.get(b)));
    const held = [...this._held].filter(([, { queue }]) => wanted.has(Math.floor(queue / CLASSES)));
    return [...found, ...held.map(([request]) => request)];
  }

  /** @param {(request: number) => boolean} which of those under way */
  _oldest(which) {
    const { issued_ps } = this._tables.requests.at;
    return underWay(this._tables).filter(which).sort((a, b) => issued_ps(a) - issued_ps(b));
  }

  /** Whether a request waits in the queue of a link. @param {number} request */
  isQueued(request) {
    if (this._held.has(request)) return true;
    const now_ps = this._engine.now_ps();
    const crosses = this.next.has(request) && this._onLink(request) && this._tables.requests.at.arrives_ps(request) > now_ps;
    return crosses && this.startPs(request) > now_ps;
  }

  /** How many requests are on each link or in its queues. @returns {Map<number, number>} */
  countByLink() {
    const { link, arrives_ps } = this._tables.requests.at;
    const now_ps = this._engine.now_ps();
    const on = underWay(this._tables).filter((request) => arrives_ps(request) >= now_ps).map(link);
    const held = [...this._held.values()].map(({ queue }) => Math.floor(queue / CLASSES));
    const counts = new Map();
    for (const one of [...on, ...held]) counts.set(one, (counts.get(one) ?? 0) + 1);
    return counts;
  }

  /** Where a request is now. @param {number} request @returns {Spot} */
  spot(request) {
    const engine = this._engine;
    const { at } = this._tables.requests;
    const now_ps = engine.now_ps();
    if (this._held.has(request)) return this._waits(request);
    const next = this.next.get(request);
    if (!next) return this._unseen(request);
    const onLink = this._onLink(request);
    if (onLink && at.arrives_ps(request) > now_ps) return this._crosses(request);
    const target = at.target(request);
    if (next.kind === HBM) return spot("L2", gpuPath(engine, target), `missed in the L2 of GPU${target}, on to memory`);
    const answers = next.kind === RETURN || (next.kind === HOP && at.returning(request) !== 0);
    if (answers && !onLink && this._readyPs(request) > now_ps) {
      const until = formatTime(this._readyPs(request));
      return spot("L2", gpuPath(engine, target), `served by the memory of GPU${target} (L2, or HBM behind it) until ${until}`);
    }
    const then = formatTime(next.time_ps);
    if (next.kind === SWITCH || (next.kind === HOP && onLink)) {
      const name = this._nodeBehind(at.link(request));
      return spot("switch", name, `in ${name}, which passes it on at ${then}`);
    }
    const rank = (at.returning(request) !== 0) === onLink ? at.gpu(request) : target;
    return spot("on chip", gpuPath(engine, rank), `crossing the chip of GPU${rank} until ${then}`);
  }

  /** @param {number} link */
  _nodeBehind(link) {
    return this._fabric.nodes[this._tables.links.at.dst(link)];
  }

  /** Whether a request has crossed, or is on, a link of its present route. @param {number} request */
  _onLink(request) {
    const { route, link, hop } = this._tables.requests.at;
    return route(request) >= 0 && link(request) >= 0 && hop(request) > this._tables.routes.at.first(route(request));
  }

  /** When the memory is done with a request. @param {number} request */
  _readyPs(request) {
    const { route, arrives_ps, target } = this._tables.requests.at;
    const { mesh, noc_ps } = this._tables.gpus.at;
    const direct = route(request) < 0 || mesh(target(request)) !== 0;
    return arrives_ps(request) - (direct ? 0 : noc_ps(target(request)));
  }

  /** On the wire of a link, or in its queue. @param {number} request */
  _crosses(request) {
    const { requests, links } = this._tables;
    const now_ps = this._engine.now_ps();
    const link = requests.at.link(request);
    const name = this._fabric.name(link);
    const start_ps = this.startPs(request);
    const arrives_ps = requests.at.arrives_ps(request);
    const arrives = formatTime(arrives_ps);
    if (start_ps > now_ps) {
      const ahead = `${commas(this._ahead(request))} lines ahead, ${percent(utilisation(this._engine, [link]), 0)} busy so far`;
      return spot("queue", name, `in the queue of ${name}: ${ahead}; sent at ${formatTime(start_ps)}`);
    }
    const onWire = arrives_ps - links.at.latency_ps(link) > now_ps;
    if (onWire) return spot("wire", name, `its bits are put on the wire of ${name}, there at ${arrives}`, start_ps);
    return spot("latency", name, `on ${name}, there at ${arrives}`, start_ps);
  }

  /** When the first bit of a request goes (or went) on the link that it was given to. @param {number} request */
  startPs(request) {
    const { requests, links } = this._tables;
    const link = requests.at.link(request);
    const size = wireSize(this._tables, request);
    const least_ps = leastWirePs(this._tables, request, link, size);
    const wire_ps = Math.max(transferPs(size, links.at.bandwidth_Bps(link)), least_ps);
    return requests.at.arrives_ps(request) - links.at.latency_ps(link) - wire_ps;
  }

  /** @param {number} request */
  _ahead(request) {
    const { requests, links } = this._tables;
    const { at } = requests;
    const link = at.link(request);
    const wires_ps = this._engine.now_ps() + links.at.latency_ps(link);
    const arrives = longs(requests, "arrives_ps");
    const waits = (/** @type {number} */ row) => at.link(row) === link && at.arrives_ps(row) > wires_ps;
    return underWay(this._tables).filter((row) => waits(row) && arrives.get(row) < arrives.get(request)).length;
  }

  /** In the queue of a managed link. @param {number} request */
  _waits(request) {
    const { clock, details, queues } = this._tables;
    const { queue, before } = /** @type {{ queue: number, before: number }} */ (this._held.get(request));
    const link = Math.floor(queue / CLASSES);
    const name = linkName(this._engine, link);
    let why = `${percent(utilisation(this._engine, [link]), 0)} busy so far`;
    if (queues.at.paused(queue)) why = `it is paused: ${commas(queues.at.stored(queue))} bytes wait behind it`;
    else if (clock.at.finite(0) && queues.at.credits(queue) === 0) why = "no buffer is free behind it";
    return spot("queue", name, `in the queue of ${name}: ${commas(before)} lines ahead, ${why}`, details.at.offered_ps(request));
  }

  /** Nothing is queued to happen to it by itself. @param {number} request */
  _unseen(request) {
    const { clock, details, requests } = this._tables;
    const rank = requests.at.gpu(request);
    const gpu = gpuPath(this._engine, rank);
    if (requests.at.returning(request) === IN_VAIN) return spot("absent", gpu, "its packet has not arrived: it is read again");
    const missing = clock.at.detailed(0) ? details.at.children(request) : 0;
    if (missing > 0) {
      const link = requests.at.link(request);
      const name = link >= 0 ? this._nodeBehind(link) : gpu;
      return spot("switch", name, `in ${name}: ${missing} answers of other GPUs are missing`);
    }
    return spot("held", gpu, `held back at GPU${rank} by the rate of its flow`);
  }
}

/** Requests that wait for links or are on them, in the order of their numbers. @param {Engine} engine @param {Set<number>} links */
export function onLinks({ tables, now_ps }, links) {
  const { link, arrives_ps } = tables.requests.at;
  const now = now_ps();
  return underWay(tables).filter((row) => links.has(link(row)) && arrives_ps(row) >= now);
}

/** The link in whose queue a request waits, else the one that it is on; -1 where it is at none. @param {Tables} tables @param {number} request */
export function entranceOf(tables, request) {
  const { clock, requests, route_links: places, routes } = tables;
  const { route, hop, link } = requests.at;
  if (clock.at.managed(0) && route(request) >= 0 && hop(request) < routes.at.last(route(request))) {
    const next = places.at.value(hop(request));
    if (range(next * CLASSES, CLASSES).some((queue) => waitingIn(tables, queue).includes(request))) return next;
  }
  return link(request);
}

/** The mean part of the time so far for which links were busy; 0 of no link. @param {Engine} engine @param {number[]} links */
export function utilisation({ tables, now_ps }, links) {
  const now = now_ps();
  const busy = links.reduce((total, link) => total + busyUntil(tables.links, link, now), 0);
  return busy / (Math.max(1, now) * Math.max(1, links.length));
}

/**
 * A line under way, for the inspector: what it is, its parts, and the links of its present route.
 * @param {Engine} engine
 * @param {number} request
 */
export function describeLine(engine, request) {
  const { ops, requests, routes, route_links: places } = engine.tables;
  const { at } = requests;
  const lines = new Lines(engine);
  const found = lines.spot(request);
  const op = at.op(request);
  const { phases } = engine.live.about.scene;
  /** @type {[string, unknown][]} */
  const state = [
    ["what", REQUEST_KINDS[at.kind(request)]],
    ["direction", at.returning(request) ? "response" : "request"],
    ["where", found.text],
    ["issued", formatTime(at.issued_ps(request))],
    ["under way for", formatTime(engine.now_ps() - at.issued_ps(request))],
    ["from", `GPU${at.gpu(request)}`],
    ["for memory of", `GPU${at.target(request)}`],
    ["operation", ops.at.number(op)],
  ];
  if (phases.length) state.push(["phase", phases[ops.at.phase(op)]]);
  state.push(["bytes with header", at.bytes(request)]);
  const children = [...new Set([blockPath(engine, lines.blockOf(request)), found.path])].map((path) => ({ path, text: path }));
  const route = [];
  if (at.route(request) >= 0) {
    const on = at.arrives_ps(request) > engine.now_ps() ? at.hop(request) - 1 : -1;
    for (let place = routes.at.first(at.route(request)); place < routes.at.last(at.route(request)); place += 1) {
      const done = place === on ? "on it" : place < at.hop(request) ? "crossed" : "to go";
      route.push(`${fabricOf(engine).name(places.at.value(place))}: ${done}`);
    }
  }
  return { state, children, route };
}
