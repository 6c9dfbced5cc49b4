// @ts-check
// A private copy of a simulation that can be taken to any moment of its past, edits included: counterpart of sim/replay.py.

/** @import { Steps } from "./steps.js" */
/** @import { Sim } from "./types" */

/** A copy that records nothing, and in which the edits of the original are carried out again. */
export class Replay {
  /** @param {Sim} sim it stays where it is */
  constructor(sim) {
    this._original = sim;
    this.sim = sim.replica();
    this._at = ""; // the moment that it has been taken to
  }

  /** Whether it is there already. @param {number} when_ps */
  is_at(when_ps) {
    return this._at === this._targetOf(when_ps).join() && this._agrees();
  }

  /** A count and its value at a time. @param {number} when_ps @returns {[field: string, target: number]} */
  _targetOf(when_ps) {
    const { _original: original } = this;
    return when_ps < original.now_ps() ? ["now_ps", when_ps] : ["events", original.events()];
  }

  /**
   * Go to the moment at which everything up to a time has happened; at most to the original's.
   * @param {number} when_ps
   * @returns {Steps<boolean>} false: it was stopped on the way
   */
  *goto(when_ps) {
    const [field, target] = this._targetOf(when_ps);
    const edits = [...this._original.driver.edits]; // it may move meanwhile
    this._at = "";
    this.sim.engine.as_of_ps = -1; // it moves from its last event
    if (!this._agrees()) this.sim = this._original.replica();
    const { driver } = this.sim;
    let arrived = when_ps >= this.sim.now_ps() || (yield* driver.back_to(field, target));
    arrived &&= yield* driver.replay(field, target, edits.slice(driver.edits.length));
    driver.settle();
    if (arrived) this._at = `${field},${target}`;
    return arrived;
  }

  /**
   * Go to a time, and have every answer hold for that time, not for the last event before it.
   * @param {number} when_ps
   * @returns {Steps<boolean>} false: it was stopped on the way
   */
  *look(when_ps) {
    const arrived = yield* this.goto(when_ps);
    if (arrived) this.sim.engine.as_of_ps = when_ps;
    return arrived;
  }

  /** Whether the copy is at a moment of the original's past, later edits to that past included. */
  _agrees() {
    const [edits, had] = [this._original.driver.edits, this.sim.driver.edits];
    const due = edits[had.length];
    return had.every((edit, k) => edits[k] === edit) && (!due || due.events >= this.sim.events());
  }
}
