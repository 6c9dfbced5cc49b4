// @ts-check
// How far a run has come, how fast it goes, and how long it will still take: counterpart of widgets/session/progress.py.

/** @import { Sim } from "./types" */
/** @typedef {{ done?: number, ps_per_s?: number, left_s?: number, of?: string }} Report */

const OFTEN_S = 0.25;
const MEMORY = 0.7; // how much of the rate so far stays in the rate: the last second or so counts

/** The progress of a simulation while it runs as fast as it can. */
export class Progress {
  /** @param {Sim} sim */
  constructor(sim) {
    this._sim = sim;
    this.start();
  }

  /** Share of the work that is done, 0 to 1. */
  get done() {
    return this._sim.finished() ? 1 : this._sim.engine.done();
  }

  /** Forget the run before. */
  start() {
    /** @type {{ seconds: number, ps: number, done: number } | null} */
    this._seen = null;
    /** @type {Report} */
    this._last = {};
  }

  /** The share that is done, and after a moment simulated ps a second and the seconds left, at the rate of late. */
  report() {
    const [seconds, seen] = [performance.now() / 1000, this._seen];
    if (seen && seconds - seen.seconds < OFTEN_S) return this._last;
    const done = this.done;
    /** @type {Report} */
    const report = { done: Math.round(1e4 * done) / 1e4 };
    if (seen) {
      const [passed, before] = [seconds - seen.seconds, this._last];
      const rate = Math.max(0, this._sim.now_ps() - seen.ps) / passed;
      const speed = Math.max(0, done - seen.done) / passed;
      report.ps_per_s = rate + MEMORY * ((before.ps_per_s ?? rate) - rate);
      if (speed > 0) {
        const left = (1 - done) / speed;
        report.left_s = left + MEMORY * ((before.left_s ?? left) - left);
      }
    }
    [this._seen, this._last] = [{ seconds, ps: this._sim.now_ps(), done }, report];
    return report;
  }
}

/** How far work is that began at a time: the share that is done and of what, and the seconds left. @param {{ done: number, of: string, began_ms: number }} work @returns {Report} */
export function workReport({ done, of, began_ms }) {
  const seconds = (performance.now() - began_ms) / 1000;
  const report = { done: Math.round(1e4 * done) / 1e4, of };
  return done > 0 && seconds > OFTEN_S ? { ...report, left_s: (seconds * (1 - done)) / done } : report;
}
