// @ts-check
// What every view is sent: a scene once, then states. Counterpart of widgets/feed/feed.py.

import { pack } from "../messages.js";

/** @import { Sent } from "./types" */
/** @import { Session } from "./session.js" */

const VERSION = 5; // of the wire format
const MOST_AT_ONCE = 10_000; // flights in a message that must be quick
const MOST_FAST = 2_000; // in fast-forward: Pause comes after what is on its way
const MOST_AT_REST = 2 ** 20; // in one that may take a moment

/**
 * Flights from a number on: the number of the first, how many there are, up to which number they stay as they are,
 * and what packs every n-th of them.
 * @typedef {[first: number, count: number, settled: number, packed: (one_in: number) => DataView[]]} NewFlights
 */

/** What one view has been sent so far, and what it is sent next. Engines extend it. */
export class Feed {
  /** @param {Session} session */
  constructor(session) {
    this.session = session;
    this.sim = session.sim;
    this.live = session.sim.engine.live;
    /** Of watches, as they were found last. @type {any} */
    this.curves = null;
    /** The workbench that it feeds. @type {import("./page_workbench.js").PageWorkbench | null} */
    this.workbench = null;
    this._sequence = 0;
    /** Sent last. @type {Record<string, any>} */
    this._state = {};
    this._sent = 0; // flights, by number
    this._whole = 0; // up to here every one, or as many as are ever sent
  }

  /** Whether only some of the flights of late have been sent. */
  get coarse() {
    return this._whole < this._sent;
  }

  /** What is simulated, in a line. */
  title() {
    return this.live.title;
  }

  /** Record the present: when time has gone back, the view must forget what came later. */
  mark() {}

  /** Of flights only so many are still there. @param {number} recorded */
  _forget(recorded) {
    this._sent = Math.min(this._sent, recorded);
    this._whole = Math.min(this._whole, this._sent);
  }

  /** What of the scene follows from the engine. @returns {Sent} */
  _scene() {
    return [{}, []];
  }

  /** @param {number} _since a number @returns {NewFlights} */
  _flights(_since) {
    return [0, 0, 0, () => []];
  }

  /** What timelines draw without asking. @returns {Sent} */
  timeline() {
    return [{ type: "timeline" }, []];
  }

  /** What the view does not have yet. @param {{ fine: boolean, most: number | null }} settings @returns {Sent} */
  _news({ fine, most }) {
    this.mark();
    const [first, count, settled, packed] = this._flights(fine ? this._whole : this._sent);
    const quick = this.session.fast_forward || this.coarse ? MOST_FAST : MOST_AT_ONCE;
    const one_in = Math.max(1, Math.ceil(count / (most || (fine ? MOST_AT_REST : quick))));
    if (fine || (one_in === 1 && !this.coarse)) this._whole = settled;
    this._sent = settled;
    return [{ first, total: first + count, one_in, coarse: this.coarse }, packed(one_in)];
  }

  /** Everything that does not change: names, phases, pictures. The view starts anew. @returns {Sent} */
  scene() {
    this._sequence = this._sent = this._whole = 0;
    const [own, buffers] = this._scene();
    return [{ type: "scene", version: VERSION, title: this.title(), ...own }, buffers];
  }

  /**
   * The state of the simulation, and what the view does not have yet.
   * @param {{ fine?: boolean, most?: number | null }} [settings] fine: also what was left out while the run played
   * @returns {Sent}
   */
  state({ fine = false, most = null } = {}) {
    const { sim, session } = this;
    this._sequence += 1;
    const about = {
      type: "state",
      seq: this._sequence,
      playing: session.running,
      fast: session.fast_forward,
      speed: session.speed,
      status: session.shown_status,
      failed: session.failed,
      progress: session.shown_progress,
    };
    // While something has the machine to itself, the run is shown as it was.
    if (session.work) return [{ ...this._state, ...about, first: this._state.total, one_in: 1 }, pack("state", {})];
    const [news, buffers] = this._news({ fine, most });
    this._state = { ...about, now_ps: sim.now_ps(), events: sim.events(), counts: sim.counts(), finished: sim.finished(), narration: sim.narrate(), ...news };
    return [this._state, buffers];
  }
}
