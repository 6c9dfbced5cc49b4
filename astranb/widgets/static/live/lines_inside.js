// @ts-check
// What the topology shows in each GPU at the cursor: what its SMs, memories and links do, what it holds. Counterpart of
// views/inside.py.

import { pack } from "../messages.js";
import { mean, toEven } from "../numpy.js";
import { contributions, sliceContents } from "./lines_contributions.js";
import { SM_STATES, smStates } from "./lines_device.js";

/** @import { LineAnswers, Feed, Sim } from "./types" */

const MOST_CELLS = 4_096; // chunks of all GPUs together
const MOST_NUMBERS = 4_000_000; // ranks times slices: working out what they hold takes about 50 ms

/** A fraction as a byte; what is busy at all is not 0. @param {number} part */
const byteOf = (part) => Math.ceil(255 * Math.min(Math.max(part, 0), 1));

/** Whether a part of an interval has not been recorded. @param {Feed} feed @param {number} startPs @param {number} endPs */
const unrecorded = ({ sim }, startPs, endPs) => sim.unrecorded().some(([start, end]) => start < endPs && end > startPs);

/** The chunks of the result; none of too many. @param {Sim} sim */
function promisedChunks({ engine }) {
  const { live, tables: { gpus, slices } } = engine;
  if (slices.rows * gpus.rows > MOST_NUMBERS) return [];
  const cells = contributions(engine, sliceContents(engine), live.about.contents.sums ? "fullest" : "output");
  const wanted = cells.filter(({ promised }) => promised > 0);
  return wanted.length > MOST_CELLS ? [] : wanted;
}

/** @type {LineAnswers} */
export const inside = {
  inside(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const { tables } = sim.engine;
    const [gpus, states, atPs] = [tables.gpus.rows, smStates(tables), sim.now_ps()];
    const engaged = new Set(tables.blocks.column("sm").filter((sm) => sm >= 0));
    const sms = new Uint16Array(gpus * SM_STATES.length);
    for (const sm of engaged) sms[tables.sms.at.gpu(sm) * SM_STATES.length + states[sm]]++;
    const { recorder } = feed.sim.engine;
    const near = recorder.near(atPs);
    const known = recorder.on() && !unrecorded(feed, atPs - near.over_ps, atPs);
    const out = feed.out_of.map((links) => links.reduce((whole, link) => whole + near.links[link], 0) / Math.max(1, links.length));
    return [
      { at_ps: atPs, over_ps: near.over_ps, known, states: SM_STATES },
      pack("inside", { sms, l2: near.gpus.map(([, l2]) => byteOf(l2)), hbm: near.gpus.map(([, , hbm]) => byteOf(hbm)), out: out.map(byteOf) }),
    ];
  },
  held(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const [name, start, end] = sim.engine.last_phase();
    const phase = unrecorded(feed, start, end) ? "" : name;
    const busy = phase ? feed.sim.engine.recorder.utilisation(start, end) : [];
    const bundles = phase ? feed.layout.bundles.map((links) => byteOf(mean(links.map((link) => busy[link])))) : [];
    const cells = promisedChunks(sim);
    const chunks = new Map();
    for (const { rank } of cells) chunks.set(rank, (chunks.get(rank) ?? 0) + 1);
    return [
      { picture: feed.picture, at_ps: sim.now_ps(), phase, from_ps: start, to_ps: end, chunks: Math.max(0, ...chunks.values()) },
      pack("held", {
        rank: cells.map(({ rank }) => rank),
        share: cells.map(({ least, promised }) => toEven((255 * Math.min(least.filter((times) => times > 0).length, promised)) / promised)),
        final: cells.map(({ kept }) => kept),
        bundles,
      }),
    ];
  },
};
