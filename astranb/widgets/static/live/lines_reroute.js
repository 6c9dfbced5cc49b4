// @ts-check
// Routes that change while a run goes: counterpart of engine/cacheline/reroute.py, which says what happens to requests.

import { eventsOf, refill, schedule } from "./event_queue.js";
import { CLASSES, HBM, HOP, L2, NEVER, NIC, ON_FABRIC, PAUSE, RATE_RELEASE, RETURN, SWITCH, WIRE } from "./gpu_numbers.js";
import { down, entered, nowPs, startsOf } from "./lines_faults.js";
import { flowsOf } from "./lines_flows.js";
import { longs } from "./longs.js";
import { createNet } from "./routes.js";
import { underWay } from "./rows.js";
import { resize } from "./tables.js";
import { transferPs, wireSize } from "./wire.js";

/** @import { Machine, Table, Tables } from "./types" */
/** @import { WaitingEvent } from "./event_queue.js" */
/** @import { Lanes } from "./routes.js" */
/** @typedef {{ rows: number[], out: number[], back: number[], queue_pair: number[] }} RemoteOperands their pairs are source * ranks + target */

const LATER = BigInt(NEVER);
const FRAME_BYTES = 64; // of a pause frame
const FRAMES = 8; // of one class of a link under way at once, at most
const OF_A_REQUEST = new Set([HOP, L2, HBM, RETURN, SWITCH]);

/** One change of the routes while it is made. */
class Reroute {
  /** @param {Machine} machine @param {Lanes} lanes @param {number[]} gpus @param {number} at_ps */
  constructor({ room, tables }, lanes, gpus, at_ps) {
    this._room = room;
    this._tables = tables;
    this._lanes = lanes;
    this._gpus = gpus;
    this._at_ps = at_ps;
    const closed = down(tables).filter((link) => link < lanes.src.length);
    this._open = createNet(lanes, gpus, new Set(closed));
    this._down = new Uint8Array(tables.links.rows);
    for (const link of closed) this._down[link] = 1;
    const { routes, route_links } = tables;
    this._links = [...route_links.column("value")];
    /** @type {[first: number, last: number][]} */
    this._ends = Array.from({ length: routes.rows }, (_, row) => [routes.at.first(row), routes.at.last(row)]);
    /** @type {Map<string, number>} */
    this._added = new Map();
    /** @type {Map<string, number[][]>} */
    this._onward = new Map();
    /** @type {Set<number>} go on from where they are, on another route */
    this._moved = new Set();
    /** @type {Set<number>} are sent again by their source, in this order */
    this._again = new Set();
    /** @type {Uint8Array} operands whose requests have other routes */
    this._changed = new Uint8Array(tables.operands.rows);
    /** @type {number[]} requests that have been taken off links that are down */
    this._waiting = [];
  }

  // Operands ----------------------------------------------------------------

  /** Enter the new routes of pairs in the operands of which they have changed. */
  changeOperands() {
    const sent = remoteOperands(this._tables, this._gpus.length);
    const pairs = [...new Set([...sent.out, ...sent.back])].sort((a, b) => a - b);
    const found = this._open.routes(pairs, () => {});
    const [firstRow, firstLink] = [this._ends.length, this._links.length];
    for (const way of /** @type {const} */ (["out", "back"])) {
      const { put } = this._tables.operands;
      const others = this._otherRoutes(sent, way, found);
      sent.rows.forEach((operand, k) => {
        if (!others[k]) return;
        const [first, count] = /** @type {[number, number]} */ (found.of.get(sent[way][k]));
        const pair = sent.queue_pair[k];
        put[`${way}_route`](operand, firstRow + first + (pair >= 0 ? pair % count : 0));
        put[`${way}_routes`](operand, pair >= 0 ? 1 : count);
        if (way === "out") this._changed[operand] = 1;
      });
    }
    for (const link of found.links) this._links.push(link);
    for (let row = 0; row + 1 < found.first.length; row += 1) this._ends.push([firstLink + found.first[row], firstLink + found.first[row + 1]]);
  }

  /**
   * Which remote operands get other routes: of a queue pair only where its path is broken.
   * @param {RemoteOperands} sent
   * @param {"out" | "back"} way
   * @param {{ of: Map<number, [number, number]>, first: number[], links: number[] }} found
   */
  _otherRoutes(sent, way, { of, first: ends, links }) {
    const { at } = this._tables.operands;
    /** @type {Map<string, boolean>} */
    const known = new Map();
    return sent.rows.map((operand, k) => {
      const [row, count, pair, isPair] = [at[`${way}_route`](operand), at[`${way}_routes`](operand), sent[way][k], sent.queue_pair[k] >= 0];
      const key = `${row} ${count} ${pair} ${isPair}`;
      let other = known.get(key);
      if (other === undefined) {
        const now = Array.from({ length: count }, (_, number) => this._linksOf(row + number));
        const entry = of.get(pair);
        const [first, routes] = entry ?? [0, 0];
        const isSame = () => routes === count && now.every((own, number) => isEqual(own, links.slice(ends[first + number], ends[first + number + 1])));
        other = entry !== undefined && (isPair ? now.some((own) => this._isBroken(own)) : !isSame());
        known.set(key, other);
      }
      return other;
    });
  }

  /** @param {number} route */
  _linksOf(route) {
    return this._links.slice(...this._ends[route]);
  }

  /** @param {number[]} links */
  _isBroken(links) {
    return links.some((link) => this._down[link]);
  }

  // Requests under way ------------------------------------------------------

  /** Give requests under way other routes, where theirs are broken or their operand's have changed. */
  chooseRoutes() {
    const { clock, details, links, requests } = this._tables;
    const { at, put } = requests;
    this._waiting = this._takeOff();
    const brokenBefore = [0];
    for (const link of this._links) brokenBefore.push(brokenBefore[brokenBefore.length - 1] + this._down[link]);
    const detailed = clock.at.detailed(0) !== 0;
    for (const number of underWay(this._tables)) {
      if (at.route(number) < 0 || (detailed && (details.at.children(number) > 0 || details.at.parent(number) >= 0))) continue;
      const [hop, last] = [at.hop(number), this._ends[at.route(number)][1]];
      const broken = brokenBefore[last] > brokenBefore[hop];
      const changed = !at.returning(number) && this._changed[at.operand(number)];
      if (broken && changed && this._isQueuePair(number)) this._again.add(number);
      else if (broken && this._detour(number, links)) this._moved.add(number);
      else if (broken && this._fromItsSource(number) >= 0) this._again.add(number);
      else if (changed) this._follow(number, this._links.slice(hop, last));
    }
    const order = [...this._again].sort((a, b) => at.issued_ps(a) - at.issued_ps(b) || at.line(a) - at.line(b));
    this._again = new Set(order);
    for (const number of order) {
      put.route(number, this._fromItsSource(number));
      put.hop(number, this._ends[at.route(number)][0]);
      put.leg(number, ON_FABRIC);
      put.link(number, -1);
      put.arrives_ps(number, this._at_ps);
    }
  }

  /** @param {number} number */
  _isQueuePair(number) {
    const { blocks, requests, warps } = this._tables;
    return blocks.at.engine(warps.at.block(requests.at.warp(number))) === NIC;
  }

  /** The route of a request from its source, or of a response from its; -1 where it is broken, too. @param {number} number */
  _fromItsSource(number) {
    const { operands, requests: { at } } = this._tables;
    const [way, operand] = [at.returning(number) ? "back" : "out", at.operand(number)];
    const count = Math.max(1, operands.at[`${way}_routes`](operand));
    const row = operands.at[`${way}_route`](operand) + (at.line(number) % count);
    return this._isBroken(this._linksOf(row)) ? -1 : row;
  }

  /** Let a request go on from where it is; false where there is no way. @param {number} number @param {Table} links */
  _detour(number, links) {
    const { at } = this._tables.requests;
    const node = links.at.src(this._links[at.hop(number)]);
    const target = at.returning(number) ? at.gpu(number) : at.target(number);
    const key = `${node} ${target}`;
    const found = this._onward.get(key) ?? this._open.routesFrom(node, target);
    this._onward.set(key, found);
    if (found.length) this._follow(number, found[at.line(number) % found.length]);
    return found.length > 0;
  }

  /** Give a request a route of its own: what it has passed, and the links that it takes from there. @param {number} number @param {number[]} links */
  _follow(number, links) {
    const { at, put } = this._tables.requests;
    const passed = this._links.slice(this._ends[at.route(number)][0], at.hop(number));
    const whole = [...passed, ...links];
    const key = String(whole);
    let row = this._added.get(key);
    if (row === undefined) {
      row = this._ends.length;
      this._added.set(key, row);
      this._ends.push([this._links.length, this._links.length + whole.length]);
      this._links.push(...whole);
    }
    put.route(number, row);
    put.hop(number, this._ends[row][0] + passed.length);
  }

  /** Take the requests off that wait for links that are down, as if they had not come to them. */
  _takeOff() {
    const { links, requests } = this._tables;
    const { at, put } = requests;
    const [queued, busy, free] = ["queued_ps", "busy_ps", "free_at_ps"].map((name) => longs(links, name));
    const found = [];
    for (let link = 0; link < this._down.length; link += 1) {
      if (!this._down[link]) continue;
      const taken = entered(this._tables, link);
      const starts = startsOf(this._tables, link, taken, LATER).reduce((sum, start) => sum + start - LATER, 0n);
      queued.put(link, queued.get(link) + BigInt(this._at_ps * taken.length) - starts);
      links.put.messages(link, links.at.messages(link) - taken.length);
      links.put.bytes(link, links.at.bytes(link) - taken.reduce((sum, number) => sum + wireSize(this._tables, number), 0));
      busy.put(link, busy.get(link) - (free.get(link) - LATER));
      free.put(link, LATER);
      for (const number of taken) {
        put.hop(number, at.hop(number) - 1);
        put.leg(number, ON_FABRIC);
        put.link(number, -1);
        put.arrives_ps(number, this._at_ps);
      }
      found.push(...taken);
    }
    return found;
  }

  /**
   * Take requests out of a list in which they wait for a link that they do not take; return them.
   * @param {Table} lists of queues or flows
   * @param {number} row
   * @param {number} link
   * @returns {number[]}
   */
  _leave({ at, put }, row, link) {
    const { requests } = this._tables;
    const [kept, left] = /** @type {number[][]} */ ([[], []]);
    for (let number = at.head(row); number >= 0; number = requests.at.next_free(number)) {
      const other = requests.at.leg(number) === ON_FABRIC && this._links[requests.at.hop(number)] !== link;
      (other || this._again.has(number) ? left : kept).push(number);
    }
    if (!left.length) return left;
    put.waiting(row, kept.length);
    put.head(row, kept[0] ?? -1);
    put.tail(row, kept[kept.length - 1] ?? -1);
    kept.forEach((number, k) => requests.put.next_free(number, kept[k + 1] ?? -1));
    return left;
  }

  /** Take requests out of the queues of links, and of flows that wait for their rate. */
  _leaveQueues() {
    const { details, flows, links, queues, roce } = this._tables;
    const found = [];
    for (let queue = 0; queue < queues.rows; queue += 1) {
      if (queues.at.waiting(queue) <= 0) continue;
      const link = Math.floor(queue / CLASSES);
      const left = this._leave(queues, queue, link);
      const waited_ps = left.reduce((sum, number) => sum + this._at_ps - details.at.offered_ps(number), 0);
      links.put.queued_ps(link, links.at.queued_ps(link) + waited_ps);
      if (roce.at.on(0)) queues.put.bytes(queue, queues.at.bytes(queue) - left.reduce((sum, number) => sum + wireSize(this._tables, number), 0));
      found.push(...left);
    }
    for (let flow = 0; flow < flows.rows; flow += 1) {
      if (flows.at.waiting(flow) > 0) found.push(...this._leave(flows, flow, flows.at.link(flow)));
    }
    return found;
  }

  /**
   * The events to come: those taken off, and those sent again, come to a link.
   * @returns {WaitingEvent[]}
   */
  _events() {
    const { clock, flows, links, queues } = this._tables;
    const taken = new Set(this._waiting);
    const idle = this._down.slice(); // for which nothing waits any more
    if (clock.at.managed(0)) {
      for (let link = 0; link < idle.length; link += 1) {
        if (!idle[link]) continue;
        for (let k = 0; k < CLASSES; k += 1) if (queues.at.waiting(link * CLASSES + k)) idle[link] = 0;
        if (idle[link]) links.put.awake(link, 0);
      }
    }
    const at_ps = BigInt(this._at_ps);
    const events = [];
    for (const { time_ps, kind, arg } of eventsOf(this._tables)) {
      const ofRequest = OF_A_REQUEST.has(kind);
      if (ofRequest && (taken.has(arg) || this._again.has(arg))) continue;
      if ((kind === WIRE && idle[arg]) || (kind === RATE_RELEASE && !flows.at.waiting(arg))) continue;
      const late = ofRequest && this._moved.has(arg) && time_ps < at_ps;
      events.push({ time_ps: late ? at_ps : time_ps, kind, arg });
    }
    const back = [...this._waiting.filter((number) => !this._again.has(number)), ...this._again];
    return [...events, ...back.map((arg) => ({ time_ps: at_ps, kind: HOP, arg }))];
  }

  /** Make the tables of the new routes, and put requests and events where they are then. */
  make() {
    const { clock, details, roce, route_links, routes } = this._tables;
    if (clock.at.managed(0)) this._waiting.push(...this._leaveQueues());
    const events = this._events();
    resize(this._room, routes, this._ends.length);
    this._ends.forEach(([first, last], row) => {
      routes.put.first(row, first);
      routes.put.last(row, last);
      routes.put.flow(row, -1);
    });
    resize(this._room, route_links, this._links.length);
    this._links.forEach((link, place) => route_links.put.value(place, link));
    if (roce.at.dcqcn(0)) this._makeFlows();
    refill(this._tables, events);
    for (const number of this._again) {
      if (clock.at.finite(0)) freeBuffer(this._tables, number);
      if (!roce.at.on(0)) continue;
      leaveSwitch(this._tables, number);
      details.put.marked(number, 0);
    }
  }

  /** Give routes their flows; for more of them there is room for more events. */
  _makeFlows() {
    const { flows, near, later, slots, far } = this._tables;
    const before = flows.rows;
    flowsOf(this._room, this._tables, this._lanes, this._gpus);
    const more = flows.rows - before;
    if (more <= 0) return;
    const events = near.rows + 2 * more;
    for (const table of [near, later, far]) resize(this._room, table, events);
    for (const table of [near, later, slots, far]) table.bytes().fill(0); // the events are put in anew
  }
}

/**
 * Change the routes of a machine: its tables of routes grow.
 * @param {Machine} machine
 * @param {Lanes} lanes
 * @param {number[]} gpus the node of each rank
 * @param {number} at_ps when what waited goes on: now, or later where nothing else happens until then
 */
export function reroute(machine, lanes, gpus, at_ps) {
  const work = new Reroute(machine, lanes, gpus, Math.max(at_ps, nowPs(machine.tables)));
  work.changeOperands();
  work.chooseRoutes();
  work.make();
}

/** @param {number[]} a @param {number[]} b */
const isEqual = (a, b) => a.length === b.length && a.every((value, k) => value === b[k]);

/** The operands that are on another rank than the operation. @param {Tables} tables @param {number} ranks @returns {RemoteOperands} */
function remoteOperands({ blocks, operands, ops }, ranks) {
  /** @type {RemoteOperands} */
  const found = { rows: [], out: [], back: [], queue_pair: [] };
  let operand = 0;
  for (let op = 0; op < ops.rows; op += 1) {
    const block = ops.at.block(op);
    const here = blocks.at.gpu(block);
    const pair = blocks.at.engine(block) === NIC ? block : -1; // a queue pair has one path, on which nothing overtakes anything
    const last = operand + ops.at.sources(op) + ops.at.targets(op) + Number(ops.at.semaphore(op) >= 0);
    for (; operand < last; operand += 1) {
      const there = operands.at.gpu(operand);
      if (there === here) continue;
      found.rows.push(operand);
      found.out.push(here * ranks + there);
      found.back.push(there * ranks + here);
      found.queue_pair.push(pair);
    }
  }
  return found;
}

// What gpu/wire.py and gpu/pause.py do where a request is taken out of a switch ---

/** A request leaves the buffer it was in; the link before it may send again. @param {Tables} tables @param {number} request */
function freeBuffer(tables, request) {
  const { details, queues } = tables;
  const held = details.at.held(request);
  if (held < 0) return;
  details.put.held(request, -1);
  queues.put.credits(held, queues.at.credits(held) + 1);
  lookAgain(tables, Math.floor(held / CLASSES));
}

/** Queue a WIRE event for when the wire is free, where a message waits. @param {Tables} tables @param {number} link */
function lookAgain(tables, link) {
  const { links, queues } = tables;
  if (links.at.awake(link) === 1) return;
  for (let queue = link * CLASSES; queue < (link + 1) * CLASSES; queue += 1) {
    if (queues.at.waiting(queue) <= 0) continue;
    links.put.awake(link, 1);
    schedule(tables, Math.max(tables.clock.at.now_ps(0), links.at.free_at_ps(link)), WIRE, link);
    return;
  }
}

/** A message leaves its room in a switch, which may end a pause. @param {Tables} tables @param {number} request */
function leaveSwitch(tables, request) {
  const { details, queues } = tables;
  details.put.came(request, -1);
  const queue = details.at.stored(request);
  if (queue < 0) return;
  details.put.stored(request, -1);
  queues.put.stored(queue, queues.at.stored(queue) - details.at.stored_bytes(request));
  sendFrame(tables, queue);
}

/** Send a pause frame, or one that ends the pause, where the state has changed. @param {Tables} tables @param {number} queue */
function sendFrame(tables, queue) {
  const { clock, links, queues: { at, put }, roce } = tables;
  const stored = at.stored(queue);
  const wanted = stored > roce.at.xoff(0) ? 1 : stored < roce.at.xon(0) ? 0 : at.stopped(queue);
  if (wanted === at.stopped(queue) || at.frames(queue) === FRAMES) return;
  const link = Math.floor(queue / CLASSES);
  put.stopped(queue, wanted);
  put.frames(queue, at.frames(queue) + 1);
  links.put.pauses(link, links.at.pauses(link) + wanted);
  const delay_ps = links.at.latency_ps(link) + transferPs(FRAME_BYTES, links.at.bandwidth_Bps(link));
  schedule(tables, clock.at.now_ps(0) + delay_ps, PAUSE, 2 * queue + wanted);
}
