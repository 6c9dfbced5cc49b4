// @ts-check
// What each rank does at the cursor, on its box: a strip in the colour of the activity, and its name where it has room.

import { createAsker } from "./asker.js";
import { ACTIVITY_COLOURS } from "./theme.js";

/** @import { Box, Columns, Context, Store, Theme } from "./types" */

const STRIP = 6; // px

/** @param {Store} store @param {Theme} theme */
export function createDoing(store, theme) {
  /** @type {{ from: number, to: number, names: string[], alike: boolean } | null} */
  let about = null;
  /** @type {Map<number, number[]>} the stretches of each rank, in the order of time */
  let of = new Map();
  /** @type {Columns<"doing"> | null} */
  let columns = null;
  /** @type {string[]} of the boxes drawn so far */
  const states = [];
  const asker = createAsker(store, "doing", {
    every: 300,
    answered(...[reply]) {
      about = reply;
      columns = reply?.arrays ?? null;
      of = new Map();
      columns?.rank.forEach((rank, k) => of.set(rank, [...(of.get(rank) ?? []), k]));
    },
  });

  /** Ask for what is around the cursor. */
  function ask() {
    if (!store.state || store.engine !== "operations") return;
    const covered = about && about.from <= store.cursor && store.cursor <= about.to;
    const at = covered || store.following ? "" : String(Math.floor(store.cursor));
    asker.want({ at_ps: store.following ? null : store.cursor }, `${store.state.events} ${at}`);
  }

  /** The number of what a rank does at the cursor; -1 where it is not known. @param {number} rank */
  function stateOf(rank) {
    const mine = of.get(about?.alike ? 0 : rank);
    if (!mine || !columns) return -1;
    let [low, high] = [0, mine.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (columns.start[mine[middle]] <= store.cursor) low = middle;
      else high = middle - 1;
    }
    const k = mine[low];
    return columns.start[k] <= store.cursor && store.cursor <= columns.end[k] ? columns.state[k] : -1;
  }

  /**
   * What a box does at the cursor; gives the height that is left for its name.
   * @param {Context} context
   * @param {Box} box
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  function draw(context, box, x, y, w, h) {
    const state = box.rank >= 0 ? stateOf(box.rank) : -1;
    if (!about || state < 0) return h;
    const name = about.names[state];
    states.push(name);
    const tall = Math.min(STRIP, h / 4);
    context.fillStyle = ACTIVITY_COLOURS[state];
    context.beginPath();
    context.roundRect(x, y + h - tall, w, tall, [0, 0, 4, 4]);
    context.fill();
    context.font = `9px ${theme.font}`;
    if (h < 34 || context.measureText(name).width > w - 6) return h - tall;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = theme.dim;
    context.fillText(name, x + w / 2, y + h - tall - 7);
    return h - tall - 12;
  }
  /** What the boxes drawn since the last call do. */
  const shown = () => states.splice(0).join();

  /** What a rank does at the cursor, in words. @param {number} rank */
  const describe = (rank) => about?.names[stateOf(rank)] ?? "";
  return { ask, draw, shown, describe, destroy: asker.destroy };
}
