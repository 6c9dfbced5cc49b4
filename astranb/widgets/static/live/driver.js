// @ts-check
// Moves an engine through time: forward in short slices, back by checkpoint and replay. Counterpart of sim/driver.py,
// but that going back is work in steps.

import { BREAK, DEADLOCK, ENDED, EXHAUSTED, REACHED, STEPS, STRANDED, TIME, TOO_LATE } from "./stops.js";

/** @import { Breakpoint, Edit, Engine } from "./types" */
/** @import { Checkpoint, History } from "./history.js" */
/** @import { Steps } from "./steps.js" */
/** @typedef {{ counts: Record<string, number>, edits: Edit[] }} Moment */

export const FOREVER = 2 ** 62;

const [FAR, NEAR] = [8, 32]; // parts of the interval between checkpoints
const REPLAYED = 8192; // events in a step of a replay
const ALL_OVER = new Set([REACHED, DEADLOCK, STRANDED, EXHAUSTED, TOO_LATE]);

/** The owner of a run's time. */
export class Driver {
  /**
   * @param {Engine} engine
   * @param {History} history a checkpoint of the present moment is added to it when that is first left
   */
  constructor(engine, history) {
    this.engine = engine;
    this.history = history;
    const { slice_events, replay_bytes, units } = engine.live;
    this._interval = Math.max(4 * slice_events, Math.floor(engine.state_bytes() / replay_bytes));
    this._soon = FOREVER; // events at which a replay takes a checkpoint, too
    /** The moment that a replay was on its way back from when it was stopped. @type {Moment | null} */
    this._from = null;
    // Counts of which many events share a value: the first of them is meant.
    this._shared = new Set(Object.values(units));
    this._shared.delete(units.event);
    this._shared.delete(units.cycle);
  }

  /** A private copy with the same past. @param {boolean} record @returns {Steps<Driver>} */
  *copy(record) {
    return new Driver(yield* this.engine.copy(record), this.history.copy());
  }

  /** The present; where a replay was stopped, what it was on its way back from. @returns {Moment} */
  get from() {
    return this._from ?? { counts: this.engine.counts(), edits: [...this.edits] };
  }

  /** Whether a replay was stopped on its way. */
  get underway() {
    return this._from !== null;
  }

  /** Stay where a replay was stopped: what came later is forgotten. */
  settle() {
    this._from = null;
    this._soon = FOREVER;
  }

  get edits() {
    return this.engine.edits;
  }

  get events() {
    return this.engine.count("events");
  }

  /** Time of the next event; `FOREVER` where there is none. */
  get next_ps() {
    const following = this.engine.next_ps();
    return following >= 0 ? following : FOREVER;
  }

  /** Take the first checkpoint, so that one can go back to it. */
  keep() {
    if (!this.history.checkpoints.length) this._take();
  }

  /**
   * Handle events up to the limits or a breakpoint.
   * @param {Breakpoint[]} points those in force
   * @param {() => void} beat called after each slice
   * @param {Record<string, number>} limits most `events`, or others of the engine's counts, or `until_ps`: nothing later
   * @returns {[why: number, point: Breakpoint | null]}
   */
  forward(points, beat, { until_ps = FOREVER, events: last = FOREVER, ...most }) {
    this.keep();
    const owners = this.engine.install(points);
    const free = !points.length && until_ps === FOREVER && last === FOREVER && !Object.keys(most).length;
    if (free && this.engine.finish()) return [ENDED, null];
    const [first, last_ps] = this._first_time(points, until_ps);
    for (;;) {
      const why = this._slice(last, this.engine.live.slice_events, last_ps, most);
      if (why === BREAK) return [why, owners[this.engine.hit()]];
      if (why === TIME && first) return [BREAK, first];
      if (this.engine.next_ps() < 0) return [ENDED, null];
      if (ALL_OVER.has(why)) return [why, null];
      if (this.events >= last) return [STEPS, null];
      if (why === TIME) return [why, null];
      beat();
    }
  }

  /**
   * The first breakpoint at a time that comes, and the time up to which to go.
   * @param {Breakpoint[]} points
   * @param {number} until_ps
   * @returns {[first: Breakpoint | null, last_ps: number]}
   */
  _first_time(points, until_ps) {
    let [first, last_ps] = [/** @type {Breakpoint | null} */ (null), until_ps];
    for (const point of points) {
      if (point.at_ps === null || point.at_ps < this.next_ps || point.at_ps >= last_ps) continue;
      [first, last_ps] = [point, point.at_ps];
    }
    return [first, last_ps];
  }

  /**
   * Restore the nearest checkpoint and replay, edits included.
   * @param {string} field one of the engine's counts
   * @param {number} target its value at the moment to go back to
   * @returns {Steps<boolean>} false: it was stopped on the way
   */
  *back_to(field, target) {
    this.keep();
    const from = this._from = this.from;
    const checkpoint = this.history.before(field, this._shared.has(field) ? target - 1 : target);
    this._soon = this._shortly_before(field, target, checkpoint, from);
    this.history.restore(this.engine, checkpoint);
    this.edits.length = checkpoint.edits;
    const arrived = yield* this.replay(field, target, from.edits.slice(checkpoint.edits));
    if (arrived) this.settle();
    return arrived;
  }

  /**
   * Events shortly before a moment to go back to, where the replay is long; else `FOREVER`.
   * Who goes back once often goes back again. As many events are assumed in all parts of the replay.
   * @param {string} field
   * @param {number} target
   * @param {Checkpoint} checkpoint
   * @param {Moment} from
   */
  _shortly_before(field, target, { counts: past }, { counts: now }) {
    const share = (target - past[field]) / Math.max(1, now[field] - past[field]);
    const length = Math.trunc(share * (now.events - past.events));
    if (length < Math.floor(this._interval / FAR)) return FOREVER;
    return past.events + length - Math.floor(this._interval / NEAR);
  }

  /**
   * How much work going back is, at most, in events handled: restoring the state, and the replay.
   * @param {string} field
   * @param {number} target
   */
  work_back_to(field, target) {
    this.keep();
    const restoring = Math.floor(this.engine.state_bytes() / this.engine.live.replay_bytes);
    return restoring + this.events - this.history.before(field, target).counts.events;
  }

  /**
   * Run to a moment; carry out edits at the events at which they were made.
   * @param {string} field
   * @param {number} target
   * @param {Edit[]} edits
   * @returns {Steps<boolean>} false: it was stopped on the way
   */
  *replay(field, target, edits) {
    this.keep();
    this.engine.install([]);
    const began = this.engine.count(field);
    const until_ps = field === "now_ps" ? target : FOREVER;
    const most = field === "events" || field === "now_ps" ? {} : { [field]: target };
    for (const edit of [...edits, null]) {
      const last = Math.min(field === "events" ? target : FOREVER, edit?.events ?? FOREVER);
      while (this.events < last) {
        if (this._slice(last, REPLAYED, until_ps, most) !== STEPS) break;
        if (yield Math.min(1, (this.engine.count(field) - began) / Math.max(1, target - began))) return false;
      }
      if (!edit || this.events < edit.events) break;
      this._apply(edit);
    }
    return true;
  }

  /** Go back to the moment of an edit, as it was before it; later ones are forgotten as well. @param {number} number @returns {Steps<boolean>} */
  *undo(number) {
    const { events } = this.edits[number];
    const checkpoint = this.history.before_edit(events, number);
    const kept = this.edits.slice(checkpoint.edits, number);
    this.history.restore(this.engine, checkpoint);
    this.history.forget_edits(number);
    this.edits.length = checkpoint.edits;
    return yield* this.replay("events", events, kept);
  }

  /** Go back to the start as it was before every edit; all edits are forgotten. */
  restart() {
    this.keep();
    this.settle();
    this.history.restore(this.engine, this.history.checkpoints[0]);
    this.history.forget_edits(0);
    this.edits.length = 0;
  }

  /** Carry out an edit now, and remember it. @param {Edit} edit */
  edit(edit) {
    this._take();
    this._apply(edit);
  }

  /** @param {Edit} edit */
  _apply(edit) {
    this.engine.apply(edit);
    this.edits.push(edit);
  }

  _take() {
    this.history.take(this.engine, this.edits.length);
  }

  /**
   * Call the loop once; take a checkpoint when one is due.
   * @param {number} last
   * @param {number} slice_events
   * @param {number} until_ps
   * @param {Record<string, number>} most
   */
  _slice(last, slice_events, until_ps, most) {
    const before = this.history.checkpoints[this.history.checkpoints.length - 1];
    let due = before.counts.events + this._interval;
    if (this.events < this._soon) due = Math.min(due, this._soon);
    const steps = Math.min(last, this.events + slice_events, Math.max(due, this.events + 1));
    const limits = Object.fromEntries(Object.entries(most).filter(([, value]) => value < FOREVER));
    const why = this.engine.go({ steps, until_ps: until_ps < FOREVER ? until_ps : null, most: limits });
    if (this.events >= due) this._take();
    return why;
  }
}
