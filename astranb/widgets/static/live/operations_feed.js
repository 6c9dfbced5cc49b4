// @ts-check
// What a view of a run of operations is sent: its network, and the messages on it that the view lacks.
// Counterpart of widgets/feed/operations.py.

import { pack } from "../messages.js";
import { Feed } from "./feed.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { Sent, Session } from "./types" */
/** @import { NewFlights } from "./feed.js" */

const MOST_MARKS = 4096;
const MOST_WAIT = 2 ** 32 - 1;
const UNKNOWN = 2 ** 32 - 1;
const MOST_COUNTED = 2 ** 16 - 1;

/** The feed of a run of operations. */
export class OperationFeed extends Feed {
  /** @param {Session} session */
  constructor(session) {
    super(session);
    const { drawn } = this.engineAt().about;
    /** @type {Map<number, number>} the place of each link among those that are drawn */
    this._placeOf = new Map(Array.from(drawn, (link, place) => [link, place]));
    // How the recording's numbers and those of the flights that were sent belong together.
    /** @type {[recorded: number, sent: number][]} */
    this._marks = [[0, 0]];
    /** @type {{ moment: string, kept: Map<string, unknown> }} */
    this._found = { moment: "", kept: new Map() };
  }

  /** The run at a moment; by default now. @param {number | null} [at_ps] @returns {OperationEngine} */
  engineAt(at_ps = null) {
    return /** @type {OperationEngine} */ (/** @type {object} */ (this.session.at(at_ps).engine));
  }

  /** What several questions need; kept until time moves. @template T @param {string} name @param {() => T} make @returns {T} */
  found(name, make) {
    const { sim } = this;
    const moment = JSON.stringify([sim.events(), sim.edits]);
    if (this._found.moment !== moment) this._found = { moment, kept: new Map() };
    const { kept } = this._found;
    if (!kept.has(name)) kept.set(name, make());
    return /** @type {T} */ (kept.get(name));
  }

  /** @override */
  mark() {
    const recorded = this.engineAt().recorded_flights();
    while (this._last()[0] > recorded) this._marks.pop();
    this._forget(this._last()[1]);
  }

  _last() {
    return this._marks[this._marks.length - 1];
  }

  /** @override @returns {Sent} */
  _scene() {
    this._marks = [[0, 0]];
    return this.engineAt().about.scene;
  }

  /** @override @param {{ fine: boolean, most: number | null }} settings @returns {Sent} */
  _news(settings) {
    const engine = this.engineAt();
    const [news, buffers] = super._news(settings);
    return [{ changed: engine.concerned(), recording: engine.recording(), gaps: [], oldest_ps: 0, ...news }, buffers];
  }

  /** @override @param {number} since @returns {NewFlights} */
  _flights(since) {
    const { about, ...engine } = this.engineAt();
    const [mark, first] = this._marks.findLast(([, sent]) => sent <= since) ?? this._marks[0];
    const { flights, settled: recorded, total } = engine.flights(mark);
    const kept = [...flights.link.keys()].filter((row) => this._placeOf.has(flights.link[row]));
    const settled = first + (recorded === flights.link.length ? kept.length : kept.filter((row) => row < recorded).length);
    if (total > this._last()[0]) this._marks.push([total, settled]);
    if (this._marks.length > MOST_MARKS) this._marks.splice(1, MOST_MARKS / 2 - 1);
    return [
      first,
      kept.length,
      settled,
      (one_in) => {
        const rows = kept.filter((_, at) => at % one_in === 0);
        const { start_ps, queued_ps, operation } = flights;
        /** @param {(row: number) => number} of */
        const column = (of) => rows.map(of);
        return pack("state", {
          start: column((row) => start_ps[row]), end: column((row) => flights.end_ps[row]),
          what: column((row) => (this._placeOf.get(flights.link[row]) ?? 0) * 16 + about.kind_of[Math.max(operation[row], 0)]),
          wait: column((row) => Math.min(start_ps[row] - queued_ps[row], MOST_WAIT)),
          source: column((row) => flights.source[row]), target: column((row) => flights.target[row]),
          number: column((row) => (operation[row] >= 0 ? about.number(operation[row]) : UNKNOWN)),
          chunk: column((row) => flights.chunk[row]), phase: column((row) => Math.min(flights.phase[row], MOST_COUNTED)),
          step: column((row) => Math.min(flights.step[row], MOST_COUNTED)), bytes: column((row) => flights.bytes[row]),
        });
      },
    ];
  }

  /** Notify views that there is something new to ask for. @override @returns {Sent} */
  timeline() {
    return [{ type: "timeline", now_ps: this.sim.now_ps(), left_out: 0, bin_ps: 1, bins: 0, picture: 0 }, []];
  }
}
