// @ts-check
// A private copy of a simulation that can be taken to any moment of its past, edits included: counterpart of sim/replay.py.

/** @import { Sim } from "./types" */

/** A copy that records nothing, and in which the edits of the original are carried out again. */
export class Replay {
  /** @param {Sim} sim it stays where it is */
  constructor(sim) {
    this._original = sim;
    this.sim = sim.replica();
  }

  /** Go to the moment at which everything up to a time has happened; at most to the original's. @param {number} when_ps */
  goto(when_ps) {
    const original = this._original;
    this.sim.engine.as_of_ps = -1; // it moves from its last event
    if (!this._agrees()) this.sim = original.replica();
    const { driver } = this.sim;
    const [field, target] = when_ps < original.now_ps() ? ["now_ps", when_ps] : ["events", original.events()];
    if (when_ps < this.sim.now_ps()) driver.back_to(field, target);
    driver.replay(field, target, original.driver.edits.slice(driver.edits.length));
  }

  /** Go to a time, and have every answer hold for that time, not for the last event before it. @param {number} when_ps */
  look(when_ps) {
    this.goto(when_ps);
    this.sim.engine.as_of_ps = when_ps;
  }

  /** Whether the copy is at a moment of the original's past, later edits to that past included. */
  _agrees() {
    const [edits, had] = [this._original.driver.edits, this.sim.driver.edits];
    const due = edits[had.length];
    return had.every((edit, k) => edits[k] === edit) && (!due || due.events >= this.sim.events());
  }
}
