// @ts-check
// Links that are down: counterpart of engine/cacheline/faults.py, which says how they work.

import { eventsOf, refill } from "./event_queue.js";
import {
  CLASSES, CNP, COMPUTE, FENCE, HBM, HOP, ISSUE, L2, LAUNCH, LOAD, MOVING, NEVER, PAUSE, POLL, POST, RATE_RELEASE, RETURN, SWITCH, WAITING,
  WIRE,
} from "./gpu_numbers.js";
import { recordBusy, recordFlight } from "./lines_recording.js";
import { ascending, longs } from "./longs.js";
import { REACHED, STEPS, STRANDED, TIME } from "./stops.js";
import { wireSize } from "./wire.js";

/** @import { Engine, Tables } from "./types" */

/** While links are down, it is checked at every so many events, counted from the start of the run, whether anything can
 * still happen: it must not depend on how the run is divided into steps. */
const SEARCH = 2 ** 14;
const LATER = BigInt(NEVER);
const OF_A_REQUEST = new Set([HOP, L2, HBM, RETURN, SWITCH]);
const CHANGES = new Set([LAUNCH, FENCE, POST, RATE_RELEASE, CNP, PAUSE]);

/** The present time. @param {Tables} tables */
export const nowPs = ({ clock }) => Math.max(0, clock.at.now_ps(0));

/** @param {Tables} tables @param {number} link */
export const isDown = ({ links }, link) => links.at.free_at_ps(link) >= NEVER;

/** The links that are down. @param {Tables} tables */
export function down(tables) {
  const found = [];
  for (let link = 0; link < tables.links.rows; link++) if (isDown(tables, link)) found.push(link);
  return found;
}

/**
 * Take links down: messages that enter them from now on wait.
 * @param {Tables} tables
 * @param {number[]} rows
 */
export function takeDown(tables, rows) {
  const { at, put } = tables.links;
  for (const link of rows.filter((one) => !isDown(tables, one))) {
    put.resumes_ps(link, Math.max(nowPs(tables), at.free_at_ps(link)));
    put.free_at_ps(link, NEVER);
  }
}

/**
 * Bring links up: waiting messages are sent in the order in which they arrived.
 * @param {Tables} tables
 * @param {number[]} rows
 * @param {number} atPs when: now, or later where nothing that matters happens until then
 */
export function bringUp(tables, rows, atPs) {
  const { links, requests } = tables;
  const [free, queued, arrives] = [longs(links, "free_at_ps"), longs(links, "queued_ps"), longs(requests, "arrives_ps")];
  const now = Math.max(nowPs(tables), atPs);
  const events = eventsOf(tables);
  for (const link of rows.filter((one) => isDown(tables, one))) {
    const startsPs = Math.max(now, links.at.resumes_ps(link));
    const earlierPs = LATER - BigInt(startsPs);
    const waiting = entered(tables, link);
    const mine = new Set(waiting);
    for (const event of events) {
      const { time_ps, kind, arg } = event;
      const delayed = OF_A_REQUEST.has(kind) ? mine.has(arg) : kind === WIRE && arg === link;
      if (time_ps >= LATER && delayed) event.time_ps -= earlierPs;
    }
    free.put(link, free.get(link) - earlierPs);
    links.put.resumes_ps(link, 0);
    queued.put(link, queued.get(link) + BigInt(startsPs * waiting.length));
    for (const request of waiting) arrives.put(request, arrives.get(request) - earlierPs);
    recordWaited(tables, link, waiting, startsPs);
  }
  refill(tables, events);
}

/**
 * Requests that have entered a link that is down, in their order; none where links have queues.
 * @param {Tables} tables
 * @param {number} link
 */
export function entered({ requests }, link) {
  const { live, link: at, arrives_ps } = requests.at;
  const found = [];
  for (let request = 0; request < requests.rows; request++) {
    if (live(request) === 1 && at(request) === link && arrives_ps(request) >= NEVER) found.push(request);
  }
  const arrives = longs(requests, "arrives_ps");
  return found.sort((a, b) => ascending(arrives.get(a), arrives.get(b)));
}

/**
 * When each message that has entered a link begins: each when the one before has ended.
 * @param {Tables} tables
 * @param {number} link
 * @param {number[]} waiting
 * @param {bigint} firstPs
 */
export function startsOf({ links, requests }, link, waiting, firstPs) {
  const arrives = longs(requests, "arrives_ps");
  const latencyPs = BigInt(links.at.latency_ps(link));
  return waiting.map((_, number) => (number ? arrives.get(waiting[number - 1]) - latencyPs : firstPs));
}

/**
 * Record the flights of waiting messages, which were not recorded when they entered the link.
 * @param {Tables} tables
 * @param {number} link
 * @param {number[]} waiting
 * @param {number} firstPs
 */
function recordWaited(tables, link, waiting, firstPs) {
  const { clock, links, operands, recorder, requests } = tables;
  if (!recorder.at.on(0)) return;
  const starts = startsOf(tables, link, waiting, BigInt(firstPs)).map(Number);
  const ends = [...starts.slice(1), links.at.free_at_ps(link)];
  const { at } = requests;
  waiting.forEach((request, number) => {
    const start = starts[number];
    const wire_ps = Math.max(0, ends[number] - start);
    recordFlight(tables, {
      event: clock.at.events(0), queued_ps: start, start_ps: start, end_ps: at.arrives_ps(request), link,
      kind: 2 * at.kind(request) + (at.returning(request) ? 1 : 0), op: at.op(request),
      line: at.line(request) - operands.at.line(at.operand(request)), wire_ps, bytes: wireSize(tables, request),
    });
    recordBusy(tables, link, start, wire_ps);
  });
}

/**
 * Requests in a queue of a link, the first one first.
 * @param {Tables} tables
 * @param {number} queue
 */
export function waitingIn({ queues, requests }, queue) {
  const found = [];
  for (let request = queues.at.head(queue); request >= 0; request = requests.at.next_free(request)) found.push(request);
  return found;
}

/**
 * Requests that wait for a link that is down, in it or in its queues.
 * @param {Tables} tables
 * @param {number} link
 */
export function waitingAt(tables, link) {
  const found = entered(tables, link);
  if (!tables.clock.at.managed(0)) return found;
  return [...found, ...Array.from({ length: CLASSES }, (_, k) => waitingIn(tables, link * CLASSES + k)).flat()];
}

/**
 * Time that messages have waited for each link, those before links that are down up to now.
 * @param {Tables} tables
 * @param {number} now
 */
export function queuedPs(tables, now) {
  const queued = tables.links.column("queued_ps");
  const exact = longs(tables.links, "queued_ps");
  for (const link of down(tables)) {
    const taken = entered(tables, link);
    // Each has counted as if the wire began at 0 (net/link.py: cross).
    const begins = startsOf(tables, link, taken, LATER).reduce((sum, start) => sum + start - LATER, 0n);
    queued[link] = Number(exact.get(link) + BigInt(now * taken.length) - begins);
  }
  return queued;
}

/**
 * Whether only polls that find nothing can still happen, because links are down.
 *
 * Every event to come is checked: one that is not delayed by a link that is down, and does not read what has been
 * read before, may still change something.
 * @param {Tables} tables
 */
function stranded(tables) {
  const { clock, details, flags, near, operands, requests } = tables;
  const queued = clock.at.queued(0) > 0;
  if (!queued || near.at.time_ps(0) >= NEVER) return queued;
  const events = eventsOf(tables).filter(({ time_ps }) => time_ps < LATER);
  for (const { kind, arg } of events) {
    if (CHANGES.has(kind)) return false;
    if (!OF_A_REQUEST.has(kind) || requests.at.kind(arg) === POLL) continue;
    const flag = operands.at.flag(requests.at.operand(arg));
    if (requests.at.kind(arg) !== LOAD || flag < 0 || flags.at.value(flag + details.at.index(arg))) return false;
  }
  return !events.some(({ kind, arg }) => (kind === WIRE && moves(tables, arg)) || (kind === ISSUE && issues(tables, arg))) && hopeless(tables);
}

/** Whether anything but a poll waits for a link that is about to send. @param {Tables} tables @param {number} link */
const moves = (tables, link) => waitingAt(tables, link).some((request) => tables.requests.at.kind(request) !== POLL);

/** Whether an SM that is about to issue has anything to issue but polls. @param {Tables} tables @param {number} sm */
function issues({ blocks, details, flags, operands, ops, requests, sms, warps }, sm) {
  for (let warp = sms.at.ready_head(sm); warp >= 0; warp = warps.at.next_ready(warp)) {
    const block = warps.at.block(warp);
    const state = blocks.at.state(block);
    if (state === WAITING) continue;
    const more = warps.at.free_job(warp) >= 0 && warps.at.next_line(warp) < ops.at.lines(warps.at.op(warp));
    const computing = ops.at.kind(blocks.at.op(block)) === COMPUTE;
    if (state !== MOVING || warps.at.ready_head(warp) >= 0 || warps.at.loading(warp) >= 0 || more || computing) return true;
    for (let retried = warps.at.retry_head(warp); retried >= 0; retried = requests.at.next_free(retried)) {
      if (flags.at.value(operands.at.flag(requests.at.operand(retried)) + details.at.index(retried))) return true;
    }
  }
  return false;
}

/** Whether no block that polls will ever see its semaphore high enough. @param {Tables} tables */
function hopeless({ blocks, ops, semaphores, sms }) {
  for (let block = 0; block < blocks.rows; block++) {
    if (blocks.at.state(block) !== WAITING || sms.at.stalled(blocks.at.sm(block)) !== 0) continue;
    const op = blocks.at.op(block);
    if (semaphores.at.value(ops.at.semaphore(op)) >= ops.at.value(op)) return false;
  }
  return true;
}

/**
 * Handle so many events, counted from the start of the run; while links are down, up to where nothing can happen.
 * @param {Engine} engine
 * @param {number} steps
 * @param {(steps: number) => number} run
 */
export function runWhileUp(engine, steps, run) {
  if (!down(engine.tables).length) return run(steps);
  for (;;) {
    const events = engine.count("events");
    const why = run(Math.min(steps, events + SEARCH - (events % SEARCH)));
    if (engine.finished()) return why;
    const atSearch = engine.count("events") % SEARCH === 0 || engine.next_ps() >= NEVER;
    if ([STEPS, TIME, REACHED].includes(why) && atSearch && stranded(engine.tables)) return STRANDED;
    if (why !== STEPS || engine.count("events") >= steps) return why;
  }
}
