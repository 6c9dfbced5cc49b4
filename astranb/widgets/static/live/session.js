// @ts-check
// What moves a simulation for its views: it applies commands, plays in short slices, and notifies views.
// Counterpart of widgets/session/session.py.

import { COMMANDS, UNITS, countOf, whenOf } from "./commands.js";
import { FOREVER } from "./driver.js";
import { breathe, sleep } from "./breathing.js";
import { InputError, near } from "./errors.js";
import { float, int, required, typeName } from "./options.js";
import { Progress } from "./progress.js";
import { Replay } from "./replay.js";
import { Stop } from "./stop.js";
import { repr } from "./text.js";
import { formatTime } from "./units.js";

/** @import { Breakpoint, Sim } from "./types" */
/** @import { CommandOptions } from "./commands.js" */

/** Commands of the session itself; the others are in commands.js. */
export const PLAYING = ["play", "pause", "to_breakpoint", "to_end", "next_line", "set_speed"];

const LONG = new Set(UNITS.filter((unit) => unit !== "event" && unit !== "cycle")); // these steps are played, so that Pause acts at once
const STEPPED = new Set(["event", "cycle"]); // so are these, where they are many
const MANY = 10_000;
const PUBLISH_MS = 50;
const FAST_PUBLISH_MS = 100; // drawing takes the same thread
const SLICE_MS = 6; // of simulating, between two rounds of the page's other work
const [FIRST_SLICE, LEAST_SLICE, MOST_SLICE] = [4096, 64, 2 ** 20]; // events
const IDLE_MS = 10; // until time has passed for more
const LONGEST_FRAME_S = 0.25; // a page that was busy does not catch up for longer than this
const MOST_WORK = 2_000_000; // events' worth of work that going back to what was seen may take at Pause
const [SLOWEST, FASTEST] = [1, 1e15]; // ps a second


/** The one place from which a simulation's views move it. */
export class Session {
  /** @param {Sim} sim */
  constructor(sim) {
    this.sim = sim;
    this.playing = false;
    /** Whether it plays as fast as it can, not at the speed. */
    this.fast = false;
    /** Simulated picoseconds a second of watching. */
    this.speed = sim.engine.live.speed;
    this.status = "ready";
    this.failed = false;
    /** At the breakpoint that was hit last, until the simulation moves. @type {Stop | null} */
    this.hit = null;
    this.bounded = false; // whether it plays up to a time or count
    /** Of the run beside this one, which moves with it. @type {Session | null} */
    this.twin = null;
    this.progress = new Progress(sim);
    /** @type {Promise<void>} */
    this._played = Promise.resolve();
    this._turn = 0; // of playing: an older one ends
    /** The breakpoint at the next operation of a thread block that is being played to. @type {{ block: string, point: Breakpoint } | null} */
    this._sought = null;
    this._slice = FIRST_SLICE;
    /** @type {[command: string, options: CommandOptions][]} */
    this._queue = [];
    this._draining = false;
    /** @type {(() => void)[]} */
    this._views = [];
    this._silent = false;
    this._published_ms = 0;
    /** @type {Replay | null} */
    this._replica = null;
    sim.subscribe((stop) => this._moved(stop));
  }

  // Notifying views ---------------------------------------------------------

  /** Call a view at every change; returns what ends that. @param {() => void} view */
  attach(view) {
    this._views.push(view);
    return () => {
      this._views = this._views.filter((one) => one !== view);
    };
  }

  /** Notify every view of a change. */
  publish() {
    this._published_ms = performance.now();
    for (const view of [...this._views]) view();
  }

  /** Whether it plays, by itself or with its twin. */
  get running() {
    return this.playing || Boolean(this.twin?.playing);
  }

  /** Whether it plays as fast as it can. @returns {boolean} */
  get fast_forward() {
    return [this, this.twin].some((one) => Boolean(one?.playing && one.fast));
  }

  /** Change the status without notifying the views. @param {string} status @param {boolean} failed */
  set_status(status, failed = false) {
    [this.status, this.failed] = [status, failed];
  }

  /** Do something that moves time without notifying the views. @template T @param {() => T} action @returns {T} */
  silently(action) {
    const before = this._silent;
    this._silent = true;
    try {
      return action();
    } finally {
      this._silent = before;
    }
  }

  /** @param {Stop} stop */
  _moved(stop) {
    if (stop.why !== "edit") this.hit = stop.why === "breakpoint" ? stop : null;
    if (!this._silent) this.show(stop.text);
  }

  /** Show a text as the status. @param {string} status @param {boolean} failed */
  show(status, failed = false) {
    [this.status, this.failed] = [status, failed];
    this.publish();
  }

  // Looking -----------------------------------------------------------------

  /** Inspect an object at a view's cursor; null: now. @param {string} path @param {number | null | undefined} at_ps */
  inspect(path, at_ps = null) {
    return this.at(at_ps).inspect(path);
  }

  /**
   * The simulation at a view's cursor (null: now), to be looked at and never moved.
   * The past is a private copy that records nothing, and that the next call moves.
   * @param {number | null | undefined} at_ps
   */
  at(at_ps) {
    if (at_ps === null || at_ps === undefined) return this.sim;
    if (typeof at_ps !== "number" && typeof at_ps !== "boolean") {
      throw new TypeError(`'>=' not supported between instances of '${typeName(at_ps)}' and 'int'`);
    }
    if (at_ps >= this.sim.now_ps()) return this.sim;
    this._replica ??= new Replay(this.sim);
    this._replica.look(Math.trunc(at_ps));
    return this._replica.sim;
  }

  // Commands ----------------------------------------------------------------

  /** Take a command; it is applied between two slices. @param {string} command @param {CommandOptions} options */
  ask(command, options = {}) {
    const known = [...PLAYING, ...Object.keys(COMMANDS)];
    if (!known.includes(command)) {
      throw new InputError(`unknown command ${repr(command)}`, { where: "workbench", hint: near(command, known) });
    }
    this._queue.push([command, options]);
    if (this._draining) return;
    this._draining = true;
    try {
      for (let next = this._queue.shift(); next; next = this._queue.shift()) this._apply(...next);
    } finally {
      this._draining = false;
    }
  }

  /** @param {string} command @param {CommandOptions} options */
  _apply(command, options) {
    if (command === "set_speed") {
      this.speed = Math.min(FASTEST, Math.max(SLOWEST, float(required(options, "speed"))));
      this.publish();
    } else if (command === "play") this._play({ fast: false });
    else if (command === "to_breakpoint" || command === "to_end") this._play({ fast: true });
    else if (command === "pause") {
      this._halt();
      this.show(this._rest(options.at_ps ?? null));
    } else if (command === "next_line") this._guarded(() => this._nextLine(String(options.block ?? "")));
    else if (this._isLong(command, options)) this._guarded(() => this._far(command, options));
    else {
      const outcome = this._guarded(() => COMMANDS[command](this.sim, options));
      if (typeof outcome !== "string") this._halt(); // it has moved time
      if (outcome !== null) this.show(typeof outcome === "string" ? outcome : outcome.text);
    }
  }

  /** Apply a command at once; what goes wrong is thrown. @param {string} command @param {CommandOptions} options */
  perform(command, options) {
    const outcome = this.silently(() => COMMANDS[command](this.sim, options));
    if (outcome instanceof Stop) this._halt();
    this.show(outcome instanceof Stop ? outcome.text : (outcome ?? ""));
  }

  /**
   * Go back to what a view had shown when Pause was pressed; a change made since is kept.
   * A large run stays where it is, because Pause would take seconds: the view shows the past then.
   * @param {number | null} seen_ps
   */
  _rest(seen_ps) {
    if (seen_ps === null) return "paused";
    const { sim } = this;
    const rest_ps = Math.max(int(seen_ps), sim.edits.at(-1)?.at_ps ?? 0);
    if (rest_ps >= sim.now_ps()) return "paused";
    if (sim.driver.work_back_to("now_ps", rest_ps) > MOST_WORK) {
      return `paused: the run is ${formatTime(sim.now_ps() - rest_ps)} ahead of the view (going back takes long)`;
    }
    this._guarded(() => sim.goto(rest_ps));
    return "paused";
  }

  /** Play no longer, nor the twin. */
  _halt() {
    this.playing = false;
    this._unseek();
    if (this.twin) this.twin.playing = false;
  }

  /** Remove the breakpoint at the next operation of a thread block. */
  _unseek() {
    if (this._sought) this.sim.clear(this._sought.point);
    this._sought = null;
  }

  /** Whether a command is played in slices. @param {string} command @param {CommandOptions} options */
  _isLong(command, options) {
    if (command === "goto") return true;
    if (!Object.hasOwn(this.sim.engine.live.units, command)) return false;
    return LONG.has(command) || (STEPPED.has(command) && options.n > MANY);
  }

  /** Carry out what may take long in slices. @param {string} command @param {CommandOptions} options */
  _far(command, options) {
    if (command !== "goto") {
      this._play({ fast: true, unit: command, count: this.sim.target(countOf(options), command) });
      return;
    }
    const when_ps = whenOf(options);
    if (when_ps >= this.sim.now_ps()) this._play({ fast: true, until_ps: when_ps });
    else {
      this._halt();
      this.show(this.sim.goto(when_ps).text);
    }
  }

  /** Play until a thread block reaches its next operation. @param {string} block */
  _nextLine(block) {
    this._halt();
    const point = this.sim.break_when(this.sim.engine.next_operation(block));
    this._play({ fast: true });
    this._sought = { block, point };
    if (!this.playing) this._unseek();
  }

  /** What the status says of a stop. @param {Stop} stop */
  _textOf(stop) {
    if (!this._sought) return stop.text;
    const where = this.sim.engine.spot_text(this._sought.block);
    return stop.breakpoint === null || stop.breakpoint === this._sought.point ? where : `${stop.text}; ${where}`;
  }

  /** Carry out a command; an error becomes the status. @template T @param {() => T} verb @returns {T | null} */
  _guarded(verb) {
    this._silent = true;
    try {
      return verb();
    } catch (error) {
      this.playing = false;
      this.show(/** @type {Error} */ (error).message, true);
      return null;
    } finally {
      this._silent = false;
    }
  }

  // Playing -----------------------------------------------------------------

  /** Start to play. @param {{ fast: boolean, until_ps?: number, unit?: string, count?: number }} how */
  _play({ fast, until_ps = FOREVER, unit = "phase", count = FOREVER }) {
    if (this.sim.finished()) {
      this.playing = false;
      this.show("nothing is left to happen: go back, or reset");
      return;
    }
    this._halt();
    [this.playing, this.fast] = [true, fast];
    this.bounded = Math.min(until_ps, count) < FOREVER;
    this.progress.start();
    this.show(fast ? "running" : "playing");
    this._turn += 1;
    this._played = this._run(this._turn, until_ps, unit, count);
  }

  /** Resolves when nothing plays. */
  async rest() {
    while (this.playing) await this._played;
  }

  /**
   * Alternate slices with whatever else the page has to do.
   * @param {number} turn
   * @param {number} last_ps
   * @param {string} unit
   * @param {number} count
   */
  async _run(turn, last_ps, unit, count) {
    const { sim } = this;
    let [last_ms, seen_ps, target_ps] = [performance.now(), sim.now_ps(), sim.now_ps()];
    await breathe(); // what has been shown is drawn
    while (this.playing && turn === this._turn) {
      const now_ms = performance.now();
      if (sim.now_ps() !== seen_ps) target_ps = sim.now_ps(); // another command has moved it
      target_ps += Math.min((now_ms - last_ms) / 1000, LONGEST_FRAME_S) * this.speed;
      last_ms = now_ms;
      const until_ps = this.fast ? last_ps : Math.trunc(Math.min(target_ps, FOREVER));
      const stop = this._advance(Math.max(until_ps, sim.now_ps()), unit, count);
      if (stop === null) {
        this._unseek();
        return;
      }
      seen_ps = sim.now_ps();
      const reached = stop.why === unit || (STEPPED.has(unit) && sim.counts()[unit] >= count);
      if (stop.why === "end" || stop.why === "breakpoint" || reached || (this.fast && stop.why === "time")) {
        const text = this._textOf(stop);
        this.playing = false;
        this._unseek();
        this.show(text);
        return;
      }
      if (performance.now() - this._published_ms >= (this.fast ? FAST_PUBLISH_MS : PUBLISH_MS)) this.publish();
      await (stop.why === "time" ? sleep(IDLE_MS) : breathe());
    }
  }

  /**
   * One slice, as long as it takes the time for one; null: something went wrong.
   * @param {number} until_ps
   * @param {string} unit
   * @param {number} count
   */
  _advance(until_ps, unit, count) {
    const [before, started] = [this.sim.events(), performance.now()];
    const stop = this._guarded(() => this.sim.advance(until_ps, this._slice, unit, count));
    const [handled, took] = [this.sim.events() - before, performance.now() - started];
    if (handled >= this._slice || took > SLICE_MS) {
      const factor = Math.min(2, Math.max(0.5, SLICE_MS / Math.max(took, 0.1))); // one slow slice says little
      this._slice = Math.round(Math.min(MOST_SLICE, Math.max(LEAST_SLICE, factor * this._slice)));
    }
    return stop;
  }
}
