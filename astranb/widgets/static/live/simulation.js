// @ts-check
// What runs on a machine, stopped between two events until a verb moves it: counterpart of sim/simulation.py.
// What takes long on a large machine is work in steps: going back, the hash, a fork.

import { atTime } from "./engine_breakpoints.js";
import { Driver, FOREVER } from "./driver.js";
import { RECORD, REROUTE, lastOfEach } from "./edits.js";
import { InputError } from "./errors.js";
import { History } from "./history.js";
import { Stop } from "./stop.js";
import { BREAK, ENDED, REACHED, TIME } from "./stops.js";
import { repr } from "./text.js";
import { timePs } from "./units.js";
import { watchOf } from "./watch.js";

/** @import { Breakpoint, Engine } from "./types" */
/** @import { Steps } from "./steps.js" */
/** @import { Watch } from "./watch.js" */

/** Most memory for going back. */
const CHECKPOINT_BYTES = 2 ** 28;

/** @type {Record<number, string>} */
const STOPS = { [TIME]: "time", [BREAK]: "breakpoint", [ENDED]: "end" };

/** The only thing that moves time. */
export class Simulation {
  /** @param {Driver} driver */
  constructor(driver) {
    this.driver = driver;
    /** @type {Breakpoint[]} */
    this._points = [];
    /** @type {Watch[]} */
    this._watches = [];
    /** @type {((stop: Stop) => void)[]} */
    this._listeners = [];
  }

  /** @param {Engine} engine at its start */
  static of(engine) {
    return new Simulation(new Driver(engine, new History(CHECKPOINT_BYTES)));
  }

  get engine() {
    return this.driver.engine;
  }

  /** Time of the last event. */
  now_ps() {
    return this.engine.now_ps();
  }

  events() {
    return this.driver.events;
  }

  finished() {
    return this.engine.finished();
  }

  /** How many of each unit of steps there have been. */
  counts() {
    const { engine } = this;
    return Object.fromEntries(Object.entries(engine.live.units).map(([unit, field]) => [unit, engine.count(field)]));
  }

  /** Hash of everything simulated, 32 hex digits; the recording is no part of it. @returns {Steps<string | null>} null: it was stopped */
  state_hash() {
    return this.engine.digest();
  }

  /** @param {string} path */
  inspect(path) {
    return this.engine.inspect(path);
  }

  narrate() {
    return this.engine.narrate();
  }

  // Moving time -------------------------------------------------------------

  /** Go on by n events, cycles, phases, or other units of the engine. @param {number} n @param {string} unit */
  step(n = 1, unit = "event") {
    const field = this._counter(n, unit);
    if (n === 0) return this._stop("steps");
    return this._go({ [field]: this.target(n, unit) }, unit === "event" || unit === "cycle" ? "steps" : unit);
  }

  /** The count of a unit after n more; a cycle that has begun is the first of them. @param {number} n @param {string} unit */
  target(n, unit) {
    const begun = unit === "cycle" && this.driver.next_ps === this.engine.counts().now_ps;
    return this.engine.count(this.engine.live.units[unit]) + n - Number(begun);
  }

  /** Go on to the end, to a breakpoint, or through everything up to a time. @param {number | string | null} until */
  run(until = null) {
    return this._go({ until_ps: until === null ? FOREVER : timePs(until, "until") });
  }

  /**
   * Go on by one short slice: for a view that plays and must stay responsive.
   * It stops early where a count is reached, with `unit` as the reason.
   * @param {number} until_ps
   * @param {number} max_events
   * @param {string} unit
   * @param {number} count
   */
  advance(until_ps, max_events, unit = "phase", count = FOREVER) {
    const limits = { until_ps, events: this.events() + max_events };
    const field = this.engine.live.units[unit];
    if (field === "events") return this._go({ until_ps, events: Math.min(limits.events, count) });
    return this._go({ ...limits, [field]: count }, unit === "cycle" ? "steps" : unit);
  }

  /** Go back by n units of `step`, exactly. @param {number} n @param {string} unit @returns {Steps<Stop | null>} */
  *back(n = 1, unit = "event") {
    const field = this._counter(n, unit);
    if (n === 0) return this._stop("back");
    const target = this.engine.count(field) - n;
    return yield* target < 0 ? this._return_to("events", 0) : this._return_to(field, target);
  }

  /**
   * Go to the moment at which everything up to a time has happened, forwards or back.
   * @param {number | string} when
   * @returns {Steps<Stop | null>}
   */
  *goto(when) {
    const when_ps = timePs(when, "goto");
    return when_ps >= this.left_ps() ? this._go({ until_ps: when_ps }) : yield* this._return_to("now_ps", when_ps);
  }

  /** Go back to the start; what was changed stays changed there if wanted. @param {{ keep?: boolean }} [settings] @returns {Steps<Stop | null>} */
  *reset({ keep = false } = {}) {
    if (!keep) return yield* this._return_to("events", 0);
    const last = lastOfEach(this.driver.from.edits);
    this.engine.rewinding();
    this.driver.restart();
    for (const edit of last) this.driver.edit({ ...edit, events: 0, at_ps: 0 });
    return this._rewound();
  }

  /** The present; where going back was stopped, the time that it was left from. */
  left_ps() {
    return this.driver.underway ? this.driver.from.counts.now_ps : this.now_ps();
  }

  /** Return to where going back has begun, after it was stopped. @returns {Steps<Stop | null>} */
  *resume() {
    return yield* this._return_to("events", this.driver.from.counts.events);
  }

  /** Stay where going back was stopped. */
  settle() {
    this.driver.settle();
    return this._stop("back");
  }

  /** Every verb that goes forward ends here. @param {Record<string, number>} limits @param {string} reached */
  _go(limits, reached = "steps") {
    const points = this._points.filter(({ enabled }) => enabled);
    const [why, point] = this.driver.forward(points, () => this._sample(), limits);
    this.engine.check(why);
    return this._stop(why === REACHED ? reached : (STOPS[why] ?? "steps"), point);
  }

  /** Every verb that goes back ends here. @param {boolean} arrived @returns {Stop | null} null: it was stopped on the way */
  _rewound(arrived = true) {
    this.engine.rewound();
    return arrived ? this._stop("back") : null;
  }

  /** @param {string} field @param {number} target @returns {Steps<Stop | null>} */
  *_return_to(field, target) {
    this.engine.rewinding();
    return this._rewound(yield* this.driver.back_to(field, target));
  }

  /** Say where it stopped, to the caller and to the listeners. @param {string} why @param {Breakpoint | null} breakpoint */
  _stop(why, breakpoint = null) {
    const [where, because] = breakpoint ? this.engine.reason(breakpoint) : ["", ""];
    this._sample();
    const phase = why === "phase" ? this.engine.last_phase()[0] : "";
    const stop = new Stop(why, this.now_ps(), this.events(), { where, breakpoint, because, phase });
    for (const moved of [...this._listeners]) moved(stop);
    return stop;
  }

  /** @param {number} n @param {string} unit */
  _counter(n, unit) {
    const { units } = this.engine.live;
    if (!Object.hasOwn(units, unit)) {
      throw new InputError(`unknown unit ${repr(unit)}`, { where: "unit", hint: `this run counts ${Object.keys(units).join(", ")}` });
    }
    if (!Number.isInteger(n) || n < 0) {
      throw new InputError(`the number of steps must be a whole number and not negative, got ${repr(n)}`, { where: "n" });
    }
    return units[unit];
  }

  // Copies ------------------------------------------------------------------

  /** An independent simulation with the same past, and from now on a future of its own. @param {boolean} record @returns {Steps<Simulation>} */
  *fork(record = true) {
    return new Simulation(yield* this.driver.copy(record));
  }

  /** A copy to look at the past in: it records nothing, and shows what this one has recorded. */
  replica() {
    return new Simulation(new Driver(this.engine.replica(), this.driver.history.copy()));
  }

  // Changing ----------------------------------------------------------------

  /** Change something for what has not started yet. @param {string} path @param {unknown} value */
  set(path, value) {
    this.driver.edit(this.engine.read_edit(path, value));
    this._stop("edit");
  }

  /** Take a link down: what comes later waits until it is brought back. @param {string} link @param {boolean} both */
  take_down(link, both) {
    return this._set_up(link, "no", both);
  }

  /** Bring a link back up: what waited goes on, in the order in which it came. @param {string} link @param {boolean} both */
  repair(link, both) {
    return this._set_up(link, "yes", both);
  }

  /** @param {string} link @param {string} up @param {boolean} both */
  _set_up(link, up, both) {
    const paths = this.engine.directions(link, both).map((path) => `${path}.up`);
    for (const path of paths) this.engine.read_edit(path, up); // refuses what is no link before anything is changed
    for (const path of paths) {
      const edit = this.engine.read_edit(path, up);
      this.driver.edit({ ...edit, at_ps: Math.max(edit.at_ps, this.now_ps()) });
    }
    return this._stop("edit");
  }

  /** Change the routes: traffic that waits, and traffic sent from now on, avoids the links that are down. */
  reroute() {
    this.driver.edit(this.engine.read_edit(REROUTE, `${this.now_ps()} ps`));
    return this._stop("edit");
  }

  /** Record line flights and activity from now on, or stop recording. @param {boolean} on */
  record(on) {
    const edit = this.engine.recording_switched(on);
    if (edit === null) return;
    this.driver.edit(edit);
    this._stop("edit");
  }

  /** Intervals of simulated time, in ps, of which nothing was recorded. */
  unrecorded() {
    return this.engine.unrecorded(this.driver.edits.filter(({ path }) => path === RECORD));
  }

  get edits() {
    return this.driver.edits;
  }

  /**
   * Go back to the moment of an edit, as it was before it; later edits are undone, too.
   * @param {number} number -1: the last
   * @returns {Steps<Stop | null>}
   */
  *undo(number) {
    const count = this.edits.length;
    if (number < -count || number >= count) {
      throw new InputError(`there is no edit ${number}`, { where: "undo", hint: `there are ${count}` });
    }
    this.engine.rewinding();
    return this._rewound(yield* this.driver.undo((number + count) % count));
  }

  // Breakpoints and listeners -----------------------------------------------

  /** Stop after an event of a kind, of an object, or both. @param {string | null} kind @param {string | null} path */
  break_on(kind, path) {
    return this.add_breakpoint(this.engine.on_event(kind, path));
  }

  /** Stop when a condition becomes true. @param {string} condition */
  break_when(condition) {
    return this.add_breakpoint(this.engine.condition(condition));
  }

  /** Stop when everything up to a time has happened. @param {number | string} time */
  break_at(time) {
    return this.add_breakpoint(atTime(time));
  }

  get breakpoints() {
    return this._points;
  }

  /** Remove a breakpoint, or all of them. @param {Breakpoint | null} point */
  clear(point = null) {
    this._points = this._points.filter((one) => point !== null && one !== point);
  }

  /** @param {Breakpoint} point */
  add_breakpoint(point) {
    this.engine.install([...this._points, point]); // refuses what does not fit
    this._points.push(point);
    return point;
  }

  /** Call a function after each verb, with its stop; returns what ends this. @param {(stop: Stop) => void} moved */
  subscribe(moved) {
    this._listeners.push(moved);
    return () => {
      this._listeners = this._listeners.filter((one) => one !== moved);
    };
  }

  // Watches -----------------------------------------------------------------

  /** Follow a value: `gpu[3].sm.0.waiting`. @param {string} what */
  watch(what) {
    const found = watchOf(this, what);
    found.sample(this.now_ps());
    this._watches.push(found);
    return found;
  }

  /** Stop following a value, or all of them. @param {Watch | null} watch */
  unwatch(watch = null) {
    this._watches = this._watches.filter((one) => watch !== null && one !== watch);
  }

  get watches() {
    return this._watches;
  }

  _sample() {
    for (const watch of this._watches) watch.sample(this.now_ps());
  }
}
