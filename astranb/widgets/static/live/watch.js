// @ts-check
// Watches: a field of an object that is followed over time. Counterpart of sim/watch.py.

import { withUnit } from "./engine_breakpoints.js";
import { parted } from "./edits.js";
import { InputError, near } from "./errors.js";
import { Replay } from "./replay.js";
import { repr } from "./text.js";

/** @import { Steps } from "./steps.js" */
/** @import { Engine, Sim } from "./types" */

const MOST = 4096; // samples; of more, every second is forgotten

/** Something that is followed over time. */
export class Watch {
  /**
   * @param {Sim} sim
   * @param {string} object full path
   * @param {string} field
   * @param {(engine: Engine) => number} read its value
   */
  constructor(sim, object, field, read) {
    this.sim = sim;
    this.object = object;
    this.field = field;
    this.text = `${object}.${field}`;
    this._read = read;
    /** Samples taken whenever time had moved. @type {number[]} */
    this.times_ps = [];
    /** @type {number[]} */
    this.values = [];
  }

  /** What it is in a simulation. @param {Sim} sim */
  read(sim) {
    return this._read(sim.engine);
  }

  /** A value as a person reads it. @param {number} value */
  shown(value) {
    return withUnit(this.field, Math.trunc(value));
  }

  /** Record the value now, and drop what was recorded of later times. @param {number} now_ps */
  sample(now_ps) {
    while ((this.times_ps.at(-1) ?? -1) >= now_ps) {
      this.times_ps.pop();
      this.values.pop();
    }
    if (this.times_ps.length >= MOST) {
      this.times_ps = this.times_ps.filter((_, number) => number % 2 === 0);
      this.values = this.values.filter((_, number) => number % 2 === 0);
    }
    this.times_ps.push(now_ps);
    this.values.push(this.read(this.sim));
  }
}

/** A watch of `<path>.<field>`. @param {Sim} sim @param {string} what */
export function watchOf(sim, what) {
  const text = what.trim();
  if (!text.includes(".")) throw new InputError(`${repr(what)} is not <path>.<field>`, { where: "watch", hint: "write <path>.waiting" });
  const [path, name] = parted(text);
  const [place, readers] = sim.engine.readers(path);
  const known = watchable(sim, path);
  if (!known.includes(name)) {
    if (Object.hasOwn(readers, name)) {
      throw new InputError(`${repr(name)} is not recorded`, { where: place, hint: "make it with Simulation(..., record=True)" });
    }
    const hint = known.length ? near(name, known) : "links, GPUs, SMs and thread blocks can be watched";
    throw new InputError(`no field ${repr(name)}`, { where: place, hint });
  }
  return new Watch(sim, place, name, readers[name]);
}

/** Fields of an object that conditions and watches may name. @param {Sim} sim @param {string} path */
export function watchable({ engine }, path) {
  const unknown = new Set(engine.recording() ? [] : engine.recorded(path));
  return Object.keys(engine.readers(path)[1]).filter((name) => !unknown.has(name));
}

/**
 * Exact values of watches, in one replay; times must not decrease.
 * @param {Sim} sim
 * @param {Watch[]} watches
 * @param {Float64Array} times_ps
 * @returns {Steps<Float64Array[] | null>} of each watch; null: it was stopped
 */
export function* seriesOf(sim, watches, times_ps) {
  const replay = new Replay(sim);
  const values = watches.map(() => new Float64Array(times_ps.length));
  for (const [place, when_ps] of times_ps.entries()) {
    const arrived = yield* replay.goto(when_ps);
    if (!arrived || (yield place / times_ps.length)) return null;
    watches.forEach((watch, number) => {
      values[number][place] = watch.read(replay.sim);
    });
  }
  return values;
}
