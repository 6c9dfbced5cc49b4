// @ts-check
// Why a run cannot go on: which ranks wait, in which operation, and for which rank. Counterpart of
// engine/messages/deadlock.py, and of `check` of its engine.

import { DOWN } from "./dimension_links.js";
import { Deadlock, InputError } from "./errors.js";
import { endsOf, waitingFor } from "./messages_links.js";
import { membersOf } from "./messages_pairs.js";
import { COLLECTIVE, COMPUTE, DELAY, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";
import { rowsWhere } from "./rows.js";
import { commas } from "./text.js";
import { NEVER } from "./timesteps.js";
import { formatTime } from "./units.js";

/** @import { OperationEngine } from "./operations_types" */

const DAYS = Math.floor(NEVER / (24 * 3600 * 1e9));
const PS = 1000;
const MOST_RANKS = 8; // of a chain of waits that are named
const NATIVE_TAGS = 500_000_000;
const KINDS = { [COMPUTE]: "computation", [MEMORY]: "memory access", [REPLAY]: "recorded operation", [DELAY]: "delay", [SEND]: "send", [RECV]: "receive" };
const [BUNDLE, BUNDLE_REDUCED, BUS_SENT, BUS_RECEIVED, BUS_PROCESSED, SWITCH_DONE] = [0, 1, 5, 6, 7, 8]; // what timers are for
const [HOP, KIND_BITS, MASK] = [1, 3, 7]; // of events and handlers
const [STREAM, SENDING, RECEIVING, REDUCING] = [1, 3, 4, 5]; // what is notified

/** Throw an error where no event is left before NEVER and a rank is not done. @param {OperationEngine} engine */
export function check(engine) {
  const { clock, npus } = engine.tables;
  const next = engine.next_ps();
  if (next >= 0 && next / PS < NEVER) return;
  const left = clock.at.finished(0) < npus.rows;
  if (next < 0 && left) checkLinks(engine);
  if (next >= 0) throw new InputError(explainTooLate(engine), { hint: "use smaller times and sizes, or faster links" });
  if (left) throw new Deadlock(explainDeadlock(engine));
}

/** Throw an error if a link that is down is why no event is left and a rank is not done. @param {OperationEngine} engine */
function checkLinks({ tables, about, edits }) {
  for (const link of rowsWhere(tables.links, (row) => (tables.links.at.busy(row) & DOWN) > 0)) {
    const waiting = waitingFor(tables, link);
    if (!waiting) continue;
    const since = edits.reduce((last, { field, rows, at_ps }) => (field === "up" && rows.includes(link) ? Math.max(last, at_ps) : last), 0);
    const [a, b] = endsOf(tables, about.links, link);
    const messages = waiting === 1 ? "1 message waits" : `${commas(waiting)} messages wait`;
    throw new Deadlock(`link[${link}] (${a} to ${b}) is down since ${formatTime(since)}, and ${messages} for it`);
  }
}

/** Count the ranks that wait, and follow the waits from the first one to a cycle or an end. @param {OperationEngine} engine */
function explainDeadlock(engine) {
  const { npus } = engine.tables;
  const waiting = rowsWhere(npus, (rank) => npus.at.end_ns(rank) < 0);
  const text = [`${waiting.length} of ${npus.rows} ranks never end`];
  /** @type {number[]} */
  const seen = [];
  let rank = waiting[0];
  while (rank >= 0 && !seen.includes(rank) && seen.length < MOST_RANKS) {
    seen.push(rank);
    text.push(`rank ${rank} ${statusOf(engine, rank)}`);
    const [next, why] = waitsFor(engine, rank);
    rank = next;
    if (why) text.push(why);
  }
  if (rank >= 0 && seen.includes(rank)) {
    const cycle = [...seen.slice(seen.indexOf(rank)), rank];
    if (cycle.length > 2) text.push(`a cycle of ranks: ${cycle.join(" -> ")}`);
  } else if (rank >= 0) text.push("and so on");
  return text.join("; ");
}

/** The operation in which a rank waits: the first that has begun and not ended; -1: none. @param {OperationEngine} engine @param {number} rank */
function current({ tables: { operations } }, rank) {
  const { at } = operations;
  const rows = rowsWhere(operations, (row) => at.npu(row) === rank && at.start_ns(row) >= 0 && at.end_ns(row) < 0 && at.owner(row) < 0);
  if (!rows.length) return -1;
  // A receive of a custom collective is more specific than the collective.
  const inner = rowsWhere(operations, (row) => at.npu(row) === rank && at.owner(row) === rows[0] && at.waits(row) < 0 && at.end_ns(row) < 0);
  return inner.find((row) => at.kind(row) === RECV) ?? rows[0];
}

/** How many collectives of a group a rank has ended. @param {OperationEngine} engine @param {number} rank @param {number} group */
function doneOf({ tables: { operations } }, rank, group) {
  const { at } = operations;
  const mine = (/** @type {number} */ row) => at.npu(row) === rank && at.group(row) === group && at.kind(row) === COLLECTIVE && at.owner(row) < 0;
  return rowsWhere(operations, (row) => mine(row) && at.end_ns(row) >= 0).length;
}

/** The number of a collective among those of its group on its rank, from 1. @param {OperationEngine} engine @param {number} row */
function numberOf(engine, row) {
  const { at } = engine.tables.operations;
  return doneOf(engine, at.npu(row), at.group(row)) + 1;
}

/** What a rank does, in words. @param {OperationEngine} engine @param {number} rank */
function statusOf(engine, rank) {
  const { live, tables: { operations: { at }, npus, groups } } = engine;
  if (npus.at.end_ns(rank) >= 0) return "has ended";
  const row = current(engine, rank);
  if (row < 0) return "has operations that wait for one another";
  const kind = at.kind(row);
  if (kind === COLLECTIVE) {
    const group = at.group(row) < 0 ? "" : ` of ${groups.at.count(at.group(row))} ranks`;
    return `waits in ${live.about.collectives[at.collective(row)]} #${numberOf(engine, row)} of ${at.bytes(row)} bytes${group}`;
  }
  if (kind === SEND || kind === RECV) {
    return `waits in a ${kind === SEND ? "send to" : "receive from"} rank ${at.peer(row)}, tag ${at.tag(row)}, of ${at.bytes(row)} bytes`;
  }
  return `waits in a ${KINDS[kind]}`;
}

/** The rank that one waits for, -1 at the end of the chain, and further text. @param {OperationEngine} engine @param {number} rank @returns {[number, string]} */
function waitsFor(engine, rank) {
  const { operations: { at }, npus } = engine.tables;
  const row = current(engine, rank);
  if (row < 0 || npus.at.end_ns(rank) >= 0) return [-1, ""];
  if (at.kind(row) === SEND || at.kind(row) === RECV) return [at.peer(row), unclaimed(engine, at.peer(row), rank)];
  if (at.kind(row) !== COLLECTIVE) return [-1, ""];
  const [number, group] = [numberOf(engine, row), at.group(row)];
  let other = -1;
  for (const member of membersOf(engine.tables, group)) {
    const theirs = current(engine, member);
    const behind = () => doneOf(engine, member, group) < number;
    if (npus.at.end_ns(member) >= 0 || theirs < 0 || at.kind(theirs) !== COLLECTIVE) {
      if (behind()) return [member, ""];
    } else {
      const same = at.collective(theirs) === at.collective(row) && at.bytes(theirs) === at.bytes(row);
      const late = at.group(theirs) === group ? !same || numberOf(engine, theirs) < number : behind();
      if (late && other < 0) other = member;
    }
  }
  return other >= 0 ? [other, ""] : [-1, "every rank is in it, and its algorithm waits for a message that no rank sends"];
}

/** A message that a rank has sent to another and that matches no receive, in words. @param {OperationEngine} engine @param {number} source @param {number} target */
function unclaimed({ tables: { buckets, messages: { at } } }, source, target) {
  for (let bucket = 0; bucket < buckets.rows; bucket++) {
    for (let row = buckets.at.head(bucket); row >= 0; row = at.next(row)) {
      if (at.src(row) === source && at.dst(row) === target && at.sent(row) > 0 && at.tag(row) < NATIVE_TAGS) {
        return `rank ${source} has sent it ${at.bytes(row)} bytes with tag ${at.tag(row)}`;
      }
    }
  }
  return "";
}

/** Name the operation that would end later than time is counted. @param {OperationEngine} engine */
function explainTooLate(engine) {
  const { live, tables: { operations: { at } } } = engine;
  const late = [...lateTimers(engine), ...lateMessages(engine)].filter((row) => row >= 0);
  let what = "an operation";
  if (late.length) {
    const row = late.reduce((a, b) => Math.min(a, b));
    let own = 0;
    for (let other = 0; other < row; other++) if (at.npu(other) === at.npu(row) && at.owner(other) < 0) own += 1;
    const kind = at.kind(row) === COLLECTIVE ? live.about.collectives[at.collective(row)] : KINDS[at.kind(row)];
    what = `rank ${at.npu(row)}, operation ${own} (${kind}${at.bytes(row) ? ` of ${at.bytes(row)} bytes` : ""})`;
  }
  return `${what} ends after more than ${DAYS} days of simulated time`;
}

/** The operations of timers that never expire. @param {OperationEngine} engine */
function* lateTimers({ tables: { npus, timers: { at }, streams } }) {
  for (let rank = 0; rank < npus.rows; rank++) {
    for (let row = npus.at.timers(rank); row >= 0; row = at.later(row)) {
      const kind = at.kind(row);
      if (at.time(row) < NEVER) continue;
      if (kind === BUNDLE || kind === BUNDLE_REDUCED || kind === SWITCH_DONE) yield streams.at.operation(at.arg(row));
      else if (kind !== BUS_SENT && kind !== BUS_RECEIVED && kind !== BUS_PROCESSED) yield at.arg(row);
    }
  }
}

/** The operations of messages that never arrive. @param {OperationEngine} engine */
function* lateMessages({ tables: { queue, timesteps, pending, messages, streams } }) {
  for (let place = 0; place < queue.at.heaped(0); place++) {
    const step = timesteps.at.heap(place);
    if (timesteps.at.time(step) < NEVER) continue;
    for (let event = timesteps.at.head(step); event >= 0; event = pending.at.next(event)) {
      const what = pending.at.what(event);
      if ((what & MASK) !== HOP) continue;
      const message = Math.floor(what / 2 ** KIND_BITS);
      let handler = messages.at.sender(message) || messages.at.receiver(message);
      if ((handler & MASK) === SENDING || (handler & MASK) === RECEIVING) handler = messages.at.sender(handler >> KIND_BITS); // a notice about a message
      const [who, row] = [handler & MASK, handler >> KIND_BITS];
      if (handler) yield who === STREAM || who === REDUCING ? streams.at.operation(row) : row;
    }
  }
}
