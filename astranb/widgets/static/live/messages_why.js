// @ts-check
// Why a rank waits: the chain of waits from rank to rank, up to one that waits for no other. Counterpart of
// engine/messages/why.py.

import { inFlight } from "./messages_inspection.js";
import { countOf, instancesOf, membersOf, pairsOf } from "./messages_pairs.js";
import { COLLECTIVE, COMPUTE, DELAY, MEMORY, RECV, REPLAY, SEND } from "./operations_about.js";
import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { Why } from "./types" */

const MOST = 64;
const IN_ORDER = [[COMPUTE], [COLLECTIVE, SEND, RECV, REPLAY], [MEMORY], [DELAY]]; // what a rank is in, the first of these

/** The rank that has waited longest: that computes nothing, and is in what began first. @param {OperationEngine} engine */
function longest(engine) {
  const { operations: { at }, npus } = engine.tables;
  const running = [];
  for (let row = 0; row < countOf(engine); row++) if (at.start_ns(row) >= 0 && at.end_ns(row) < 0) running.push(row);
  const computing = new Set(running.filter((row) => at.kind(row) === COMPUTE).map(at.npu));
  const waits = running.filter((row) => !computing.has(at.npu(row)));
  if (waits.length) return at.npu(waits.reduce((first, row) => (at.start_ns(row) < at.start_ns(first) ? row : first)));
  for (let rank = 0; rank < npus.rows; rank++) if (npus.at.end_ns(rank) < 0) return rank;
  return 0;
}

/** What ranks wait for at one moment. */
class Chain {
  /** @param {OperationEngine} engine @param {Why["steps"]} steps */
  constructor(engine, steps) {
    this.engine = engine;
    this.steps = steps;
    this.times = engine.times_ps();
    this.at = engine.tables.operations.at;
    const { own, replayed } = instancesOf(engine, this.times.start);
    /** @type {Map<number, number[]>} the operations of the collective that each takes part in */
    this.together = new Map([...own, ...replayed].flatMap((rows) => rows.map((row) => [row, rows])));
    this.sent = new Set(pairsOf(engine).map(([, receive]) => receive));
  }

  /** The operation that a rank is in: a computation, else communication; -1: none. @param {number} rank */
  current(rank) {
    const { at, engine, times } = this;
    const mine = engine.about.leaves_of(rank);
    const running = mine.filter((row) => at.start_ns(row) >= 0 && at.end_ns(row) < 0);
    for (const kinds of IN_ORDER) {
      const found = running.find((row) => kinds.includes(at.kind(row)));
      if (found !== undefined) return found;
    }
    return mine.find((row) => engine.state(row, times) === 1) ?? mine.find((row) => engine.state(row, times) === 0) ?? -1;
  }

  /** Add one step; the rank that is waited for next and its operation (-1: its current one). @param {number} rank @param {number} given @returns {[number, number]} */
  follow(rank, given) {
    const { at, engine: { about, tables } } = this;
    if (given < 0) return this._end(`rank ${rank} has ended`, `rank[${rank}]`, tables.npus.at.end_ns(rank));
    const [shown, part] = about.parts ? [about.parts.shown(given), about.parts.at(given)] : [given, -1];
    const row = about.parts && part >= 0 ? this._inside(given, about.parts.until[part]) : given;
    const [path, text, kind, since, peer] = [about.path(shown), about.text(shown), at.kind(row), at.start_ns(row), at.peer(row)];
    if (at.end_ns(row) >= 0) return this._end(`rank ${rank} has done ${text}`, path, at.end_ns(row));
    if (since < 0) return this._before(rank, row, path, text);
    const inside = `rank ${rank} is in ${text}`;
    if (kind === COMPUTE) {
      return this._end(`rank ${rank} computes ${text}, until ${formatTime((since + at.duration_ns(row)) * 1000)}`, path, since);
    }
    if (kind === DELAY && since === 0) {
      return this._end(`rank ${rank} has not begun: it starts late, at ${formatTime(at.duration_ns(row) * 1000)}`, path, since);
    }
    if (kind === COLLECTIVE) {
      const begun = new Set((this.together.get(row) ?? []).map(at.npu));
      const missing = membersOf(tables, at.group(row)).filter((one) => !begun.has(one)).sort((a, b) => a - b);
      if (missing.length) {
        const more = missing.length > 1 ? `, nor have ${commas(missing.length - 1)} more` : "";
        this._add(`${inside}, which rank ${missing[0]} has not begun${more}`, path, since);
        return [missing[0], -1];
      }
      const done = at.streams(row) ? `${at.streams_done(row)} of ${at.streams(row)} chunks are done` : "under way";
      return this._end(`${inside}, which all have begun; ${done}`, path, since);
    }
    if (kind === RECV && !this.sent.has(row)) {
      this._add(`${inside} from rank ${peer}, which has not sent it`, path, since);
      return [peer, -1];
    }
    if (kind !== SEND && kind !== RECV) return this._end(inside, path, since);
    const { src, dst, tag } = tables.messages.at;
    const [source, target] = kind === SEND ? [rank, peer] : [peer, rank];
    const underWay = inFlight(tables).some((one) => src(one) === source && dst(one) === target && tag(one) === at.tag(row));
    this._add(`${inside}; the message ${underWay ? "is under way" : `waits for rank ${peer}`}`, path, since);
    return !underWay && kind === SEND ? [peer, -1] : [-1, -1];
  }

  /** What of a recorded operation is under way, or else has not begun. @param {number} first @param {number} until */
  _inside(first, until) {
    const left = Array.from({ length: until - first }, (_, k) => first + k).filter((row) => this.at.end_ns(row) < 0);
    return left.find((row) => this.at.start_ns(row) >= 0) ?? left[0] ?? until - 1;
  }

  /** The step of an operation that has not begun: what it depends on, or what occupies its place. @param {number} rank @param {number} row @param {string} path @param {string} text @returns {[number, number]} */
  _before(rank, row, path, text) {
    const { at, engine: { about } } = this;
    const left = about.waited_for(row).find((one) => at.end_ns(one) < 0);
    if (left !== undefined) {
      this._add(`${text} of rank ${rank} waits for ${about.label(about.parts ? about.parts.shown(left) : left)}`, path, -1);
      return [rank, left];
    }
    // What a replay does occupies nothing.
    for (let other = about.start[rank]; row < about.own && other < about.start[rank + 1]; other++) {
      if (at.place(other) !== at.place(row) || at.start_ns(other) < 0 || at.end_ns(other) >= 0) continue;
      this._add(`${text} of rank ${rank} needs the place of ${about.label(other)}`, path, -1);
      return [rank, other];
    }
    return this._end(`${text} of rank ${rank} can begin`, path, -1);
  }

  /** Add the last step. @param {string} text @param {string} path @param {number} since in ns @returns {[number, number]} */
  _end(text, path, since) {
    this._add(text, path, since);
    return [-1, -1];
  }

  /** @param {string} text @param {string} path @param {number} since in ns; -1: not known */
  _add(text, path, since) {
    this.steps.push({ text, path, since_ps: since >= 0 ? since * 1000 : -1 });
  }
}

/** Follow the waits of a rank or an operation. @param {OperationEngine} engine @param {string} path empty: the rank that has waited longest @returns {Why} */
export function explainWait(engine, path) {
  const [place, now_ps] = [path ? engine.place(path) : null, engine.now_ps()];
  if (place && place.npu < 0) {
    const step = { text: "ranks and operations wait; this does not", path: place.path, since_ps: -1 };
    return { path: place.path, now_ps, circle: false, steps: [step] };
  }
  let [rank, row] = place ? [place.npu, place.operation] : [longest(engine), -1];
  /** @type {Why} */
  const why = { path: place?.path ?? `rank[${rank}]`, now_ps, circle: false, steps: [] };
  const chain = new Chain(engine, why.steps);
  const seen = new Set();
  while (rank >= 0 && why.steps.length < MOST) {
    row = row < 0 ? chain.current(rank) : row;
    if (seen.has(row)) {
      why.circle = true;
      break;
    }
    seen.add(row);
    [rank, row] = chain.follow(rank, row);
  }
  return why;
}
