// @ts-check
// The fullest buffers and the longest queues at the cursor, as a table: counterpart of views/buffers.py and
// engine/cacheline/buffers.py.

import { CLASSES } from "./gpu_numbers.js";
import { BUFFERS, linkName } from "./lines_paths.js";
import { commas } from "./text.js";
import { formatBytes, formatTime } from "./units.js";

/** @import { LineAnswers, Engine } from "./types" */

const MOST_ROWS = 32;

/** @typedef {{ path: () => string, taken: number, capacity: number, waiting: number, wait_ps: number }} Filled capacity 0: unlimited */

/** Queues of links; without queues of their own the time until a link is free of what it has taken. @param {Engine} engine @returns {Filled[]} */
function ofLinks(engine) {
  const { links, queues, clock, roce } = engine.tables;
  const count = engine.live.about.links.length;
  if (!clock.at.managed(0)) {
    return Array.from({ length: count }, (_, link) => ({
      path: () => linkName(engine, link), taken: 0, capacity: 0, waiting: 0, wait_ps: Math.max(0, links.at.free_at_ps(link) - engine.now_ps()),
    }));
  }
  const finite = clock.at.finite(0);
  const capacity = finite ? engine.live.about.scene.buffers : roce.at.on(0) ? roce.at.xoff(0) : 0;
  return Array.from({ length: count * CLASSES }, (_, queue) => ({
    path: () => `${linkName(engine, Math.floor(queue / CLASSES))}.buffer.${BUFFERS[queue % CLASSES]}`,
    taken: finite ? capacity - queues.at.credits(queue) : roce.at.on(0) ? queues.at.stored(queue) : 0,
    capacity, waiting: queues.at.waiting(queue), wait_ps: 0,
  }));
}

/** L2 slices or HBM channels: the time until they have served what waits. @param {Engine} engine @param {"l2" | "hbm"} kind @returns {Filled[]} */
function ofServers(engine, kind) {
  const { gpus } = engine.tables;
  const [table, first] = kind === "l2" ? [engine.tables.l2_slices, gpus.at.first_l2_slice] : [engine.tables.hbm_channels, gpus.at.first_hbm_channel];
  /** @param {number} row */
  const path = (row) => {
    let rank = 0;
    while (rank + 1 < gpus.rows && first(rank + 1) <= row) rank++;
    return `gpu[${rank}].${kind}.${row - first(rank)}`;
  };
  return Array.from({ length: table.rows }, (_, row) => ({
    path: () => path(row), taken: 0, capacity: 0, waiting: 0, wait_ps: Math.max(0, table.at.free_at_ps(row) - engine.now_ps()),
  }));
}

/** @type {LineAnswers} */
export const buffers = {
  buffers(feed, options) {
    const { engine } = feed.session.at(options.at_ps);
    const { clock, roce } = engine.tables;
    const every = [...ofLinks(engine), ...ofServers(engine, "l2"), ...ofServers(engine, "hbm")];
    const found = every.filter(({ taken, waiting, wait_ps }) => taken > 0 || waiting > 0 || wait_ps > 0);
    /** @param {Filled} one */
    const full = ({ taken, capacity }) => (capacity > 0 ? taken / capacity : 0);
    found.sort((a, b) => full(b) - full(a) || b.wait_ps - a.wait_ps || b.waiting - a.waiting);
    const top = found.slice(0, MOST_ROWS);
    const bytes = !clock.at.finite(0) && roce.at.on(0);
    const finite = top.some(({ capacity }) => capacity);
    const rows = top.map((one) => {
      const { taken, capacity, waiting, wait_ps } = one;
      const of = bytes ? `${formatBytes(taken)} of ${formatBytes(capacity)}` : `${commas(taken)} of ${commas(capacity)} lines`;
      const words = capacity ? of : wait_ps ? formatTime(wait_ps) : "";
      return [one.path(), capacity ? taken / capacity : -1, words, waiting ? commas(waiting) : ""];
    });
    return [{ rows, heads: [...(finite ? ["buffer", "taken"] : ["queue", "empty in"]), "waiting"], all: found.length, finite }, []];
  },
};
