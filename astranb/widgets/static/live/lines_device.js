// @ts-check
// One GPU from within: what each SM does, and how busy L2 slices and HBM channels are. Counterpart of views/device.py.

import { pack } from "../messages.js";
import { InputError } from "./errors.js";
import { DONE, DRAINING, MOVING, PENDING, SIGNALLING, WAITING } from "./gpu_numbers.js";
import { int, required } from "./options.js";

/** @import { LineAnswers, Table, Tables } from "./types" */

/** What an SM does, by number; of several blocks' states the last named one counts. */
export const SM_STATES = ["free", "done", "busy", "waiting", "draining", "stalled"];
const [FREE, ENDED, BUSY, WAITS, DRAINS, STALLED] = SM_STATES.keys();
/** @type {[number, number[]][]} lowest first, so that of several blocks the one that does most counts */
const STATES_OF = [[ENDED, [DONE]], [DRAINS, [DRAINING]], [WAITS, [WAITING]], [BUSY, [MOVING, SIGNALLING]]];

/** The state of every SM of every GPU, by number in SM_STATES. @param {Tables} tables */
export function smStates({ sms, blocks }) {
  const found = new Uint8Array(sms.rows).fill(FREE);
  for (const [state, of] of STATES_OF) {
    for (let block = 0; block < blocks.rows; block++) {
      if (blocks.at.sm(block) >= 0 && of.includes(blocks.at.state(block))) found[blocks.at.sm(block)] = state;
    }
  }
  for (let sm = 0; sm < sms.rows; sm++) if (sms.at.stalled(sm) === 1) found[sm] = STALLED;
  return found;
}

/** Some rows of a table. @param {Table} table @param {number} first @param {number} length @param {(at: Table["at"], row: number) => number} of */
const rowsOf = ({ at }, first, length, of) => Array.from({ length }, (_, k) => of(at, first + k));

/** @type {LineAnswers} */
export const device = {
  device(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const rank = int(required(options, "rank"));
    const { live, tables } = sim.engine;
    const { gpus, blocks, sms } = tables;
    if (rank < 0 || rank >= gpus.rows) throw new InputError(`there is no gpu[${rank}]`, { hint: `ranks are 0 to ${gpus.rows - 1}` });
    const [nowPs, firstSm, units] = [sim.now_ps(), gpus.at.first_sm(rank), gpus.at.sms(rank)];
    const here = new Uint32Array(units);
    for (let block = 0; block < blocks.rows; block++) {
      const place = blocks.at.sm(block) - firstSm;
      if (place >= 0 && place < units && ![DONE, PENDING].includes(blocks.at.state(block))) here[place]++;
    }
    const [slices, channels] = [gpus.at.l2_slices(rank), gpus.at.hbm_channels(rank)];
    /** @param {Table["at"]} at @param {number} row */
    const busy = ({ busy_ps }, row) => Math.min(busy_ps(row) / Math.max(1, nowPs), 1);
    /** @param {Table["at"]} at @param {number} row */
    const queue = ({ free_at_ps }, row) => Math.max(0, free_at_ps(row) - nowPs);
    /** @type {[table: Table, first: number, count: number]} */
    const l2 = [tables.l2_slices, gpus.at.first_l2_slice(rank), slices];
    /** @type {[table: Table, first: number, count: number]} */
    const hbm = [tables.hbm_channels, gpus.at.first_hbm_channel(rank), channels];
    return [
      {
        rank, name: live.about.nodes[live.about.gpus[rank]], preset: live.about.presets[rank], at_ps: nowPs,
        states: SM_STATES, sms: units, slices, channels, slots: gpus.at.max_outstanding(rank),
      },
      pack("device", {
        state: smStates(tables).slice(firstSm, firstSm + units), blocks: here,
        requests: rowsOf(sms, firstSm, units, (at, sm) => at.outstanding(sm)),
        l2: rowsOf(...l2, busy), l2_queue: rowsOf(...l2, queue), hbm: rowsOf(...hbm, busy), hbm_queue: rowsOf(...hbm, queue),
      }),
    ];
  },
};
