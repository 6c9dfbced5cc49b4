// @ts-check
// Why, when and where a simulation stopped: counterpart of sim/stop.py.

import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { Breakpoint } from "./types" */

/** @type {Record<string, string>} */
const WORDS = {
  steps: "stepped",
  time: "reached the given time",
  instruction: "an instruction is issued",
  hop: "a line enters a link",
  line: "a line has arrived",
  message: "a message has arrived",
  operation: "an operation has ended",
  phase: "a phase has ended",
  pass: "a pass has ended",
  breakpoint: "stopped at a breakpoint",
  end: "nothing is left to happen",
  back: "went back",
  edit: "changed",
};

/** What every verb returns. */
export class Stop {
  /**
   * @param {string} why
   * @param {number} now_ps
   * @param {number} events handled so far
   * @param {{ where?: string, breakpoint?: Breakpoint | null, because?: string, phase?: string }} [more] the path of an
   *   object, the breakpoint, what was found there, and the phase that has ended
   */
  constructor(why, now_ps, events, { where = "", breakpoint = null, because = "", phase = "" } = {}) {
    this.why = why;
    this.now_ps = now_ps;
    this.events = events;
    this.where = where;
    this.breakpoint = breakpoint;
    this.because = because;
    this.phase = phase;
  }

  /** One line for a person. */
  get text() {
    const what = this.phase ? `${this.phase} has ended` : WORDS[this.why];
    const point = this.breakpoint ? ` (${this.breakpoint.text})` : "";
    const found = this.because ? `: ${this.because}` : "";
    return `${what}${point} at ${formatTime(this.now_ps)}, event ${commas(this.events)}${found}`;
  }
}
