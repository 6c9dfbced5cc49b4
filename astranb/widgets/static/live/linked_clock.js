// @ts-check
// Two runs beside each other: one clock for both. Counterpart of widgets/linked_clock.py.

import { differingEdits, parted } from "./edits.js";
import { InputError } from "./errors.js";
import { finish } from "./steps.js";

/** @import { Traits } from "../types" */
/** @import { PageWorkbench } from "./page_workbench.js" */
/** @import { Sim } from "./types" */
/** @import { Stop } from "./stop.js" */

/** Keeps two workbenches at the same simulated time, cursor, zoom and selection; each stays at its own end while the other continues. */
export class LinkedClock {
  /** @param {PageWorkbench} a @param {PageWorkbench} b */
  constructor(a, b) {
    if (a.sim === b.sim) throw new InputError("a run beside itself", { where: "compare", hint: "give a fork of it" });
    this.a = a;
    this.b = b;
    this._moving = false;
    /** What goes back with the other one. @type {PageWorkbench | null} */
    this._led = null;
    this._marked = "";
    [a.session.twin, b.session.twin] = [b.session, a.session];
    /** @type {(() => void)[]} */
    this._ends = [
      a.sim.subscribe((stop) => this._moved(a, b, stop)),
      b.sim.subscribe((stop) => this._moved(b, a, stop)),
      a.session.attach(() => this._published(b)),
      b.session.attach(() => this._published(a)),
    ];
    for (const [bench, twin] of [[a, b], [b, a]]) {
      this._watch(bench, "_cursor_ps", (at_ps) => {
        twin.model.set("_cursor_ps", at_ps >= 0 && at_ps < twin.sim.now_ps() ? at_ps : -1);
      });
      this._watch(bench, "_window_ps", (ends) => twin.model.set("_window_ps", ends));
      this._watch(bench, "_selection", (path) => {
        try {
          twin.select(path);
        } catch {
          // it has no such object
        }
      });
    }
    this._mark();
  }

  /**
   * Call something when a trait changes, until the end.
   * @template {keyof Traits & string} K
   * @param {PageWorkbench} bench
   * @param {K} name
   * @param {(value: Traits[K]) => void} changed
   */
  _watch({ model }, name, changed) {
    const listener = () => changed(model.get(name));
    model.on(`change:${name}`, listener);
    this._ends.push(() => model.off(`change:${name}`, listener));
  }

  /** Let each have its own clock again. */
  close() {
    for (const end of this._ends) end();
    this._ends = [];
    for (const { session, model } of [this.a, this.b]) {
      session.twin = null;
      model.set("_beside", null);
    }
  }

  /** Take b to where a is. */
  together() {
    this._follow(this.a, this.b);
    this.b.session.publish();
  }

  /** Have each workbench show which of the two it is, and what was changed in one of them only. */
  _mark() {
    if (this.a.session.work || this.b.session.work) return; // their edits are carried out again
    const [a, b] = [this.a.sim, this.b.sim];
    const edits = JSON.stringify([a, b].map(editsOf));
    if (edits === this._marked) return;
    this._marked = edits;
    const [inputs, differing] = [differingEdits(a.edits, b.edits), this._differing()];
    this.a.model.set("_beside", { letter: "A", changes: inputs.map(([path, mine, its]) => [path, mine, its]), differing });
    this.b.model.set("_beside", { letter: "B", changes: inputs.map(([path, its, mine]) => [path, mine, its]), differing });
  }

  /** Boxes and links that were changed in one of the two runs only. */
  _differing() {
    const [a, b] = [this.a.sim, this.b.sim];
    /** @type {Set<string>} */
    const found = new Set();
    for (const [sim, other] of [[a, b], [b, a]]) {
      const known = new Set(editsOf(other));
      for (const { path } of sim.edits.filter((_, number) => !known.has(editsOf(sim)[number]))) {
        try {
          const { path: full } = /** @type {{ path: string }} */ (sim.inspect(parted(path)[0]));
          found.add(full.split("#")[0]);
        } catch {
          // of the whole run
        }
      }
    }
    return [...found].sort();
  }

  /** @param {PageWorkbench} bench @param {PageWorkbench} twin @param {Stop} stop */
  _moved(bench, twin, stop) {
    if (this._moving || this._led === bench || !this._ends.length || stop.why === "edit") return;
    const { session } = bench;
    const atItsEnd = bench.sim.finished() && twin.sim.now_ps() >= bench.sim.now_ps();
    if (atItsEnd && stop.why !== "back") return; // the other one has continued
    const stopped = this._follow(bench, twin);
    if (stopped?.why === "breakpoint") {
      session.playing = false; // both stop where the first one was hit
      this._follow(twin, bench);
    } else if (stop.why === "end" && session.playing && !session.bounded && !twin.sim.finished()) {
      twin.session.speed = session.speed;
      twin.session.ask(session.fast ? "to_end" : "play");
    }
    if (!session.playing) twin.session.publish();
  }

  /** Take the twin to the time of a workbench, without notifying its views. @param {PageWorkbench} bench @param {PageWorkbench} twin @returns {Stop | null} */
  _follow(bench, twin) {
    const { sim, session } = twin;
    if (sim.finished() && sim.now_ps() <= bench.sim.now_ps()) return null; // it stays at its end
    if (session.work) {
      session.free(() => this._goWith(bench, twin)); // once it is there
      return null;
    }
    if (bench.sim.events() === 0 || bench.sim.now_ps() < sim.now_ps()) {
      this._goWith(bench, twin);
      return null;
    }
    this._moving = true;
    try {
      const stop = session.silently(() => finish(sim.goto(bench.sim.now_ps())));
      session.set_status(stop?.text ?? "");
      return stop;
    } catch (error) {
      session.set_status(/** @type {Error} */ (error).message, true);
      return null;
    } finally {
      this._moving = false;
    }
  }

  /** Take the twin back to the time of a workbench, in slices. @param {PageWorkbench} bench @param {PageWorkbench} twin */
  _goWith(bench, twin) {
    const { sim, session } = twin;
    const [atStart, now_ps] = [bench.sim.events() === 0, bench.sim.now_ps()];
    if (!this._ends.length || (atStart ? sim.events() === 0 : sim.now_ps() === now_ps)) return;
    this._led = twin;
    session.follow(atStart ? sim.reset({ keep: true }) : sim.goto(now_ps), () => {
      this._led = null;
    });
  }

  /** A workbench notifies its views: so does the other one, which moved with it. @param {PageWorkbench} twin */
  _published(twin) {
    if (this._moving || !this._ends.length) return;
    this._moving = true;
    try {
      twin.session.publish();
    } finally {
      this._moving = false;
    }
    this._mark();
  }
}

/** The edits of a run, each as one text. @param {Sim} sim */
const editsOf = ({ edits }) => edits.map(({ events, path, value }) => JSON.stringify([events, path, value]));
