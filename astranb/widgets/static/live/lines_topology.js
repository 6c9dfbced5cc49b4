// @ts-check
// What of the system is drawn, and congestion at the entrances of links: counterpart of widgets/views/topology.py.

import { pack } from "../messages.js";
import { byteOf } from "../numpy.js";
import { InputError } from "./errors.js";
import { CLASSES } from "./gpu_numbers.js";
import { down, isDown, waitingAt } from "./lines_faults.js";
import { DOWN } from "./operations_looking.js";
import { elements, int, optional, required } from "./options.js";
import { str } from "./text.js";

/** @import { LineAnswers, Engine } from "./types" */

const MOST_OPENED = 64;
const [NO_CREDIT, PAUSED] = [1, 2]; // marks of a port: no buffer is free behind the link; a pause frame holds a class

/** @type {LineAnswers} */
export const topology = {
  /** The ports of the picture at the cursor. */
  ports(feed, options) {
    const sim = feed.session.at(options.at_ps);
    const { managed } = feed.live.about.scene;
    const busy = managed || down(sim.engine.tables).length > 0;
    const rows = feed.layout.bundles.map((links) => (busy ? portOf(sim.engine, links, managed) : { waiting: 0, fill: 0, marks: 0 }));
    const columns = { waiting: rows.map(({ waiting }) => waiting), fill: rows.map(({ fill }) => byteOf(fill)), marks: rows.map(({ marks }) => marks) };
    return [{ picture: feed.picture, at_ps: sim.now_ps(), managed }, pack("ports", columns)];
  },

  /** Look at another part: `opened` instances are drawn in full, `focus` is drawn alone. */
  picture(feed, options) {
    const opened = elements(optional(options, "opened", [])).map(str);
    if (opened.length > MOST_OPENED) throw new InputError(`${opened.length} instances at once are more than fit`, { hint: "look into one of them" });
    feed.look(opened, str(optional(options, "focus", "")));
    return feed.drawn();
  },

  /** The path of the line that is on a link and arrives at a time. */
  line(feed, options) {
    const { requests } = feed.session.at(options.at_ps).engine.tables;
    const [link, end_ps] = [int(required(options, "link")), int(required(options, "end_ps"))];
    for (let row = 0; row < requests.rows; row++) {
      if (requests.at.live(row) === 1 && requests.at.link(row) === link && requests.at.arrives_ps(row) === end_ps) return [{ path: `line[${row}]` }, []];
    }
    throw new InputError("this line has arrived", { where: "workbench" });
  },
};

/** What waits at the entrance of the links of a bundle, and how full the buffers behind them are. @param {Engine} engine @param {number[]} links @param {boolean} managed */
function portOf({ tables, live: { about: { scene } } }, links, managed) {
  const { queues: { at }, roce } = tables;
  let [waiting, fill, marks] = [0, 0, 0];
  for (const link of links) {
    if (isDown(tables, link)) [waiting, marks] = [waiting + waitingAt(tables, link).length, marks | DOWN];
    if (!managed) continue;
    const classes = Array.from({ length: CLASSES }, (_, k) => link * CLASSES + k);
    if (!isDown(tables, link)) waiting += classes.reduce((sum, row) => sum + at.waiting(row), 0);
    if (classes.some((row) => at.paused(row) === 1)) marks |= PAUSED;
    if (scene.buffers) {
      fill = Math.max(fill, 1 - Math.min(...classes.map(at.credits)) / scene.buffers);
      if (classes.some((row) => at.waiting(row) > 0 && at.credits(row) === 0)) marks |= NO_CREDIT;
    } else if (roce.at.pfc(0)) fill = Math.max(fill, Math.max(...classes.map(at.stored)) / Math.max(1, roce.at.xoff(0)));
  }
  return { waiting, fill: Math.min(fill, 1), marks };
}
