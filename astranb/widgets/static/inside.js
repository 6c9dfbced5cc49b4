// @ts-check
// Within the box of a GPU: what its SMs, memories and links do at the cursor, and at rest which chunks it holds.

import { createAsker, momentOf } from "./asker.js";
import { STATE, drawShare } from "./device.js";
import { formatCount, formatShare, formatTime, plural } from "./format.js";
import { makeBarKey } from "./theme.js";

/** @import { Box, Context, SmState, Store, Theme, Tile } from "./types" */

const STALE_MS = 500; // an answer that is not there by then is missed
const CELLS_FROM = 34; // px: lower boxes have bars without chunks
const BARS_FROM = 24; // px: lower boxes have the bar of the SMs alone
const LEAST = 12;
const MOST_CELLS = 16; // chunks drawn one by one
const FINAL = "#009e73";
const PARTIAL = "#56b4e9";
/** @type {SmState[]} as numbered in `SM_STATES` (views/device.py) */
const STATES = ["free", "done", "busy", "waiting", "draining", "stalled"];
/** @type {SmState[]} from the left */
const STACKED = ["busy", "stalled", "draining", "waiting"];
const BARS = /** @type {const} */ ([["l2", "L2"], ["hbm", "HBM"], ["out", "out"]]);

/** @typedef {{ sms: number[], l2: number, hbm: number, out: number, known: boolean }} Activity sms: by state */
/** @typedef {{ share: number[], final: number[] }} Chunks of 255 how much is there, and 1 where a chunk is final */

/** Entries of the legend. */
export const insideKeys = () => [
  ...STACKED.map((state) => makeBarKey(STATE[state].colour, `SM ${STATE[state].words}`, 7)),
  makeBarKey(FINAL, "chunk final", 7), makeBarKey(PARTIAL, "in part", 7),
];

/** @param {number[]} numbers */
const total = (numbers) => numbers.reduce((sum, one) => sum + one, 0);

/** @param {Store} store @param {Theme} theme */
export function createInside(store, theme) {
  const activity = createAsker(store, "inside", { every: 120 });
  const holding = createAsker(store, "held", { every: 300 });
  let wanted = "";
  let since = 0; // when it was
  let current = false; // the answer is about the cursor, or as good as it may be while time moves

  const heldKey = () => `${store.scene.picture}/${momentOf(store).key}`;
  function ask() {
    const { at_ps, key } = momentOf(store);
    if (!store.state || store.scene.level === "aggregates") return;
    if (key !== wanted) [wanted, since] = [key, performance.now()];
    activity.want({ at_ps }, key);
    current = activity.reply?.about === key || store.playing || performance.now() - since < STALE_MS;
    if (!store.playing) holding.want({ at_ps }, heldKey());
  }
  /** Whether what has been loaded ends before the cursor, and more has been awaited for too long. */
  const overdue = () =>
    !store.playing && performance.now() - since > STALE_MS && (store.timeline?.now_ps ?? 0) + (store.timeline?.bin_ps ?? 0) < store.cursor;
  /** What is held at the cursor; null while time moves. */
  const held = () => (!store.playing && holding.reply?.about === heldKey() ? holding.reply : null);

  /** The mean over the GPUs of a box; null: not known. @param {Box} box @returns {Activity | null} */
  function of(box) {
    const { reply } = activity;
    if (!reply || !current) return recorded(box);
    const { states, arrays } = reply;
    const [first, last] = box.ranks;
    /** @param {Uint8Array} column */
    const mean = (column) => column.subarray(first, last + 1).reduce((sum, one) => sum + one, 0) / (255 * (last - first + 1));
    const sms = states.map((_, state) => {
      let sum = 0;
      for (let gpu = first; gpu <= last; gpu++) sum += arrays.sms[gpu * states.length + state];
      return sum;
    });
    return { sms, l2: mean(arrays.l2), hbm: mean(arrays.hbm), out: mean(arrays.out), known: reply.known };
  }

  /** A page without a kernel knows how busy everything was on average over a bin. @param {Box} box @returns {Activity | null} */
  function recorded(box) {
    const line = store.timeline;
    if (!activity.error || !line?.bins) return null;
    const bin = Math.min(line.bins - 1, Math.floor(store.cursor / line.bin_ps));
    const [first, last] = box.ranks;
    /** @param {Uint8Array} column */
    const mean = (column) => {
      let sum = 0;
      for (let gpu = first; gpu <= last; gpu++) sum += column[gpu * line.bins + bin];
      return sum / (255 * (last - first + 1));
    };
    const busy = mean(line.issue);
    return { sms: [1 - busy, 0, busy], l2: mean(line.l2), hbm: mean(line.hbm), out: mean(line.out), known: true };
  }

  /** What a box holds. @param {Box} box @returns {Chunks} */
  function chunks(box) {
    const arrays = held()?.arrays;
    const mine = arrays ? [...arrays.rank.keys()].filter((k) => arrays.rank[k] >= box.ranks[0] && arrays.rank[k] <= box.ranks[1]) : [];
    return { share: mine.map((k) => arrays?.share[k] ?? 0), final: mine.map((k) => arrays?.final[k] ?? 0) };
  }

  /**
   * Draw into the lower part of a box; gives the height that is left for its name.
   * @param {Context} context
   * @param {Box} box
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  function draw(context, box, x, y, w, h) {
    if (h < BARS_FROM) {
      if (h < LEAST) return h;
      drawBar(context, of(box), 0, { x: x + 2, y: y + h - 4, w: w - 4, h: 3 });
      return h - 3;
    }
    const cells = h >= CELLS_FROM ? Math.min(7, h * 0.12) : 0;
    const pitch = Math.min(8, (h * 0.65 - cells) / (BARS.length + 1));
    const named = pitch >= 7.5 && w >= 60;
    const [left, gutter, right] = [x + 4, named ? 24 : 0, x + w - 4];
    const top = y + h - 3 - cells - (BARS.length + 1) * pitch;
    const found = of(box);
    ["SMs", ...BARS.map(([, title]) => title)].forEach((title, row) => {
      const bar = { x: left + gutter, y: top + row * pitch, w: right - left - gutter, h: Math.max(1.5, pitch - 2) };
      if (named) write(context, title, left, bar.y + bar.h / 2);
      drawBar(context, found, row, bar);
    });
    if (cells) drawChunks(context, chunks(box), left, y + h - 2 - cells, right - left, cells);
    return top - y;
  }
  /** @param {Context} context @param {Activity | null} found @param {number} row 0: the SMs @param {Tile} bar */
  function drawBar(context, found, row, bar) {
    const known = found && (row === 0 || found.known);
    context.fillStyle = known ? theme.back : theme.unknown(context);
    context.fillRect(bar.x, bar.y, bar.w, bar.h);
    if (!known) return;
    if (row === 0) stack(context, found.sms, bar);
    else drawShare(context, theme, found[BARS[row - 1][0]], bar);
  }
  /** @param {Context} context @param {string} title @param {number} x @param {number} y */
  function write(context, title, x, y) {
    context.fillStyle = theme.dim;
    context.font = `8px ${theme.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(title, x, y + 0.5);
  }
  /** @param {Context} context @param {number[]} sms @param {Tile} bar */
  function stack(context, sms, { x, y, w, h }) {
    const all = total(sms);
    let at = x;
    for (const name of STACKED) {
      const part = ((sms[STATES.indexOf(name)] ?? 0) / Math.max(1, all)) * w;
      context.fillStyle = STATE[name].colour;
      context.fillRect(at, y, part, h);
      at += part;
    }
  }
  /** @param {Context} context @param {Chunks} found @param {number} x @param {number} y @param {number} w @param {number} h */
  function drawChunks(context, { share, final }, x, y, w, h) {
    if (!share.length) return;
    const one = share.length <= MOST_CELLS;
    const all = share.length;
    // Of very many a single bar: what is final, and behind it what is there on average.
    const [fill, done] = one ? [share, final] : [[total(share) / all], [0]];
    const step = w / fill.length;
    fill.forEach((part, k) => {
      context.fillStyle = theme.back;
      context.fillRect(x + k * step, y, step - 1, h);
      context.fillStyle = done[k] ? FINAL : PARTIAL;
      if (one) context.fillRect(x + k * step, y + h, step - 1, -(h * part) / 255);
      else context.fillRect(x, y, (w * part) / 255, h);
    });
    if (one) return;
    context.fillStyle = FINAL;
    context.fillRect(x, y, (w * total(final)) / all, h);
  }

  /** @param {Box} box */
  function describe(box) {
    const found = of(box);
    const { share, final } = chunks(box);
    const parts = [];
    if (found) {
      const sms = STATES.map((name, k) => (found.sms[k] >= 1 ? `${found.sms[k]} ${name}` : "")).filter(Boolean);
      if (!activity.error) parts.push(`SMs with thread blocks: ${sms.join(", ")}`);
      if (found.known) parts.push(...BARS.map(([name, title]) => `${title === "out" ? "links out" : title} ${formatShare(found[name])} busy`));
    } else parts.push("activity not known");
    if (share.length) {
      const there = total(share) / 255 / share.length;
      parts.push(`${formatCount(total(final))} of ${plural(share.length, "chunk")} final, ${formatShare(there)} of the contributions there`);
    }
    return parts;
  }
  /** Mean load of a bundle in the phase that ended last; null where no phase has, or time moves. @param {number} bundle */
  function ofPhase(bundle) {
    const reply = held();
    return reply?.phase && reply.picture === store.scene.picture ? reply.arrays.bundles[bundle] / 255 : null;
  }
  /** What the loads of links are about, in words. */
  function phase() {
    const reply = held();
    return reply?.phase ? `links: their load in ${reply.phase}, ${formatTime(reply.from_ps, 3)} to ${formatTime(reply.to_ps, 3)}` : "";
  }
  return {
    ask, draw, describe, ofPhase, overdue, phase,
    forget() {
      holding.forget();
    },
    destroy() {
      activity.destroy();
      holding.destroy();
    },
  };
}
