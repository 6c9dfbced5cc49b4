// @ts-check
// What moves a simulation for its views: it applies commands, plays in short slices, and notifies views.
// Counterpart of widgets/session/session.py, but that work in steps can have the machine to itself.

import { ABSOLUTE, COMMANDS, MOVES, UNITS, countOf, whenOf } from "./commands.js";
import { FOREVER } from "./driver.js";
import { breathe, sleep } from "./breathing.js";
import { InputError, near } from "./errors.js";
import { float, int, required, typeName } from "./options.js";
import { Progress, workReport } from "./progress.js";
import { Replay } from "./replay.js";
import { Stop } from "./stop.js";
import { Unready, isSteps, slice } from "./steps.js";
import { commas, repr } from "./text.js";
import { formatTime } from "./units.js";

/** @import { Breakpoint, Sim } from "./types" */
/** @import { CommandOptions } from "./commands.js" */
/** @import { Steps } from "./steps.js" */
/**
 * Work that has the machine to itself: the status while it runs, what its share is of, and whether views get no message about it (`quiet`).
 * @typedef {{ status: string, of: string, quiet?: boolean }} Doing
 * @typedef {Doing & { done: number, began_ms: number, shown: boolean, stopped: boolean, replaced: boolean }} Work
 */
/**
 * What waits until the machine is free: a command or a call.
 * @typedef {{ command: string, options: CommandOptions, call?: () => void }} Waiting
 */

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
const AT_ONCE = new Set(["pause", "set_speed"]); // commands that do not wait for the machine
const GOING_BACK = { status: "going back", of: "way back" };
/** What the status says of the hash that is worked out. */
export const HASHING = { status: "working out the hash", of: "state" };
const SHOWN_MS = 250; // shorter work shows nothing
const UNDOING = { ...GOING_BACK, status: "undoing" };
const FOLLOWING = { ...GOING_BACK, status: "going back with the other run" };

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
    /** What has the machine to itself. @type {Work | null} */
    this.work = null;
    /** @type {Promise<void>} */
    this._worked = Promise.resolve();
    /** @type {Waiting[]} */
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

  /** Whether it plays or works, by itself or with its twin. @returns {boolean} */
  get running() {
    return [this, this.twin].some((one) => Boolean(one?.playing || one?.work));
  }

  /** Whether it plays as fast as it can, or works. @returns {boolean} */
  get fast_forward() {
    return [this, this.twin].some((one) => Boolean((one?.playing && one.fast) || one?.work));
  }

  /** What has this machine or that of the twin to itself. */
  get _working() {
    return this.work ?? this.twin?.work;
  }

  /** What views show as the status. */
  get shown_status() {
    return this._working?.status ?? this.status;
  }

  /** How far a run or work is that goes as fast as it can. */
  get shown_progress() {
    if (this._working) return workReport(this._working);
    return this.fast_forward ? this.progress.report() : {};
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
   * The past is a private copy that records nothing; `Unready` where it must be taken there first.
   * @param {number | null | undefined} at_ps
   */
  at(at_ps) {
    if (at_ps === null || at_ps === undefined) return this.sim;
    if (typeof at_ps !== "number" && typeof at_ps !== "boolean") {
      throw new TypeError(`'>=' not supported between instances of '${typeName(at_ps)}' and 'int'`);
    }
    if (at_ps >= this.sim.now_ps()) return this.sim;
    const when_ps = Math.trunc(at_ps);
    this._replica ??= new Replay(this.sim);
    if (!this._replica.is_at(when_ps)) throw new Unready(this._replica.look(when_ps));
    return this._replica.sim;
  }

  // Commands ----------------------------------------------------------------

  /** Take a command; it is applied between two slices. @param {string} command @param {CommandOptions} options */
  ask(command, options = {}) {
    const known = [...PLAYING, ...Object.keys(COMMANDS)];
    if (!known.includes(command)) {
      throw new InputError(`unknown command ${repr(command)}`, { where: "workbench", hint: near(command, known) });
    }
    if (this.work && AT_ONCE.has(command)) this._apply(command, options);
    else {
      this._queue = this._queueWith({ command, options });
      this._drain();
    }
  }

  /** Call something as soon as nothing has the machine to itself, in the order of requests. @param {() => void} call */
  free(call) {
    this._queue.push({ command: "", options: {}, call });
    this._drain();
  }

  _drain() {
    if (this._draining) return;
    this._draining = true;
    try {
      while (!this.work && this._queue.length) {
        const { command, options, call } = /** @type {Waiting} */ (this._queue.shift());
        if (call) call();
        else this._apply(command, options);
      }
    } finally {
      this._draining = false;
    }
  }

  /**
   * What waits, with one more command: it makes some of those before it unnecessary, and maybe the work under way.
   * @param {Waiting} added
   * @returns {Waiting[]}
   */
  _queueWith(added) {
    const { _queue: queue, work } = this;
    const { command, options } = added;
    const waiting = queue.filter((one) => !one.call);
    const last = waiting.at(-1);
    if (command === "back" && last?.command === "back" && last.options.unit === options.unit && isCount(options.n ?? 1) && isCount(last.options.n ?? 1)) {
      const n = (options.n ?? 1) + (last.options.n ?? 1); // one move for both
      return [...queue.filter((one) => one !== last), { command, options: { ...options, n } }];
    }
    if (!work || !ABSOLUTE.has(command) || !isRight(command, options) || !waiting.every((one) => MOVES.has(one.command))) return [...queue, added];
    if (work.status === GOING_BACK.status) work.stopped = work.replaced = true;
    return [added, ...queue.filter((one) => one.call)]; // what is asked for is answered there
  }

  /** @param {string} command @param {CommandOptions} options */
  _apply(command, options) {
    if (command === "set_speed") {
      this.speed = Math.min(FASTEST, Math.max(SLOWEST, float(required(options, "speed"))));
      this.publish();
    } else if (command === "play") this._play({ fast: false });
    else if (command === "to_breakpoint" || command === "to_end") this._play({ fast: true });
    else if (command === "pause") this._pause(options.at_ps ?? null);
     else if (command === "next_line") this._guarded(() => this._nextLine(String(options.block ?? "")));
    else if (this._isLong(command, options)) this._guarded(() => this._far(command, options));
    else {
      const outcome = this._guarded(() => COMMANDS[command](this.sim, options));
      if (typeof outcome !== "string") this._halt(); // it moves time
      if (isSteps(outcome)) this._travel(outcome, MOVES.has(command) ? GOING_BACK : UNDOING);
      else if (outcome !== null) this.show(typeof outcome === "string" ? outcome : outcome.text);
    }
  }

  /** Apply a command at once; what goes wrong is thrown. @param {string} command @param {CommandOptions} options */
  async perform(command, options) {
    const outcome = this.silently(() => COMMANDS[command](this.sim, options));
    if (isSteps(outcome)) {
      this._halt();
      this._arrived(await this.alone(UNDOING, () => outcome));
    } else {
      if (outcome instanceof Stop) this._halt();
      this.show(outcome instanceof Stop ? outcome.text : (outcome ?? ""));
    }
  }

  /** Stop playing, or working. @param {number | null} seen_ps */
  _pause(seen_ps) {
    if (this.twin?.work) this.twin.work.stopped = true;
    this._halt();
    if (this.work) {
      this._queue = this._queue.filter(({ command }) => !MOVES.has(command));
      Object.assign(this.work, { stopped: true, replaced: false }); // where it goes back, it says where it is
      this.set_status("paused");
    } else this._rest(seen_ps);
  }

  /**
   * Go back to what a view had shown when Pause was pressed; a change made since is kept.
   * A large run stays where it is, because Pause would take seconds: the view shows the past then.
   * @param {number | null} seen_ps
   */
  _rest(seen_ps) {
    const { sim } = this;
    const rest_ps = seen_ps === null ? Infinity : Math.max(int(seen_ps), sim.edits.at(-1)?.at_ps ?? 0);
    if (rest_ps >= sim.now_ps()) this.show("paused");
    else if (sim.driver.work_back_to("now_ps", rest_ps) > MOST_WORK) {
      this.show(`paused: the run is ${formatTime(sim.now_ps() - rest_ps)} ahead of the view (going back takes long)`);
    } else this._travel(sim.goto(rest_ps), GOING_BACK, "paused");
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
    if (when_ps >= this.sim.left_ps()) {
      const play = () => this._play({ fast: true, until_ps: when_ps });
      if (this.sim.driver.underway) this._hold(GOING_BACK, this.sim.resume(), (stop) => (stop ? play() : this._arrived(stop)), (error) => this._failed(error));
      else play();
    } else {
      this._halt();
      this._travel(this.sim.goto(when_ps));
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
      this._failed(error);
      return null;
    } finally {
      this._silent = false;
    }
  }

  /** @param {unknown} error */
  _failed(error) {
    this.playing = false;
    this.show(/** @type {Error} */ (error).message, true);
  }

  // Working -----------------------------------------------------------------

  /**
   * Have the machine to itself for work in steps, as soon as it is free; what goes wrong is thrown.
   * @template T
   * @param {Doing} doing
   * @param {() => Steps<T>} begin
   * @returns {Promise<T>}
   */
  alone(doing, begin) {
    return new Promise((resolve, reject) => {
      const hold = () => this._hold(doing, begin(), resolve, reject);
      if (this.work) this.free(hold);
      else hold();
    });
  }

  /** Go back with the run beside this one. @param {Steps<Stop | null>} steps @param {() => void} ended called wherever it ends */
  follow(steps, ended) {
    /** @param {() => void} show */
    const end = (show) => {
      show();
      ended();
    };
    this.free(() => this._hold(FOLLOWING, steps, (stop) => end(() => this._arrived(stop)), (error) => end(() => this._failed(error))));
  }

  /** Go back. @param {Steps<Stop | null>} steps @param {Doing} [doing] @param {string} [status] what to show there */
  _travel(steps, doing = GOING_BACK, status = "") {
    this._hold(doing, steps, (stop) => this._arrived(stop, status), (error) => this._failed(error));
  }

  /** Say where going back has ended. @param {Stop | null} stop null: it was stopped on the way @param {string} [status] */
  _arrived(stop, status = "") {
    if (stop) this.show(status || stop.text);
    else {
      const { now_ps, events } = this.silently(() => this.sim.settle());
      this.show(`paused on the way back, at ${formatTime(now_ps)}, event ${commas(events)}`);
    }
  }

  /**
   * Work in slices; nothing else touches the machine until the end. The first slice is at once.
   * @template T
   * @param {Doing} doing
   * @param {Steps<T>} steps
   * @param {(outcome: T) => void} done
   * @param {(error: unknown) => void} failed
   */
  _hold(doing, steps, done, failed) {
    this.work = { ...doing, done: 0, began_ms: performance.now(), shown: false, stopped: false, replaced: false };
    this._worked = this._goOn(this.work, steps, done, failed);
  }

  /**
   * @template T
   * @param {Work} work
   * @param {Steps<T>} steps
   * @param {(outcome: T) => void} done
   * @param {(error: unknown) => void} failed
   */
  async _goOn(work, steps, done, failed) {
    let next_ms = work.quiet ? Infinity : work.began_ms + SHOWN_MS;
    /** @type {() => void} */
    let end;
    for (;;) {
      try {
        const step = this.silently(() => slice(steps, work.stopped));
        if (step.done) {
          end = () => done(step.value);
          break;
        }
        work.done = step.value;
      } catch (error) {
        end = () => failed(error);
        break;
      }
      if (performance.now() >= next_ms) {
        next_ms = performance.now() + FAST_PUBLISH_MS;
        work.shown = true;
        this.publish();
      }
      await breathe();
    }
    this.work = null;
    if (!work.replaced) {
      const before_ms = this._published_ms;
      end();
      if ((work.shown || work.stopped) && this._published_ms === before_ms) this.publish(); // that it works no longer
    }
    this._drain();
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

  /** Resolves when nothing plays, works or waits. */
  async rest() {
    while (this.playing || this.work) await (this.work ? this._worked : this._played);
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
      const worker = this.work ? this : this.twin?.work ? this.twin : null;
      if (worker) {
        await worker._worked;
        continue;
      }
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

/** Whether a number of steps is one. @param {unknown} n */
const isCount = (n) => Number.isInteger(n) && Number(n) >= 0;

/** Whether a command's options can be read: what cannot be carried out ends nothing. @param {string} command @param {CommandOptions} options */
function isRight(command, options) {
  if (command !== "goto") return true;
  try {
    whenOf(options);
    return true;
  } catch {
    return false;
  }
}
