// @ts-check
// One GPU from within: a tile for each SM, strips for L2 slices and HBM channels.

import { createAsker, momentOf } from "./asker.js";
import { formatTime, plural } from "./format.js";
import { TRACK_COLOURS, fit, make, makeKey } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Answer, Context, Pair, SmState, Spot, Store, Theme, Tile } from "./types" */

// Shape distinguishes the states, too: how much of a tile is filled, and from where.
/** @type {Record<SmState, { colour: string, fill: string, words: string }>} */
export const STATE = {
  free: { colour: "", fill: "none", words: "free" },
  done: { colour: "#999999", fill: "dot", words: "its blocks have ended" },
  busy: { colour: TRACK_COLOURS[0], fill: "whole", words: "busy" },
  waiting: { colour: TRACK_COLOURS[8], fill: "lower", words: "wait: semaphore" },
  draining: { colour: TRACK_COLOURS[6], fill: "upper", words: "stalled: fence" },
  stalled: { colour: TRACK_COLOURS[1], fill: "cross", words: "stalled: no slot" },
};
const TOP = 26;

/** A bar for a busy fraction: its length and its colour say the same. @param {Context} context @param {Theme} theme @param {number} part @param {Tile} bar */
export function drawShare(context, theme, part, { x, y, w, h }) {
  if (!part) return;
  context.fillStyle = theme.rampText(part);
  context.fillRect(x, y, Math.max(1.5, w * part), h);
}

/** @param {Store} store @param {Theme} theme */
export function createDevice(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img" });
  const tip = createTip(canvas, (at) => hit(at)?.words ?? "");
  const legend = make("div", { class: "anb-legend" });
  const element = make("div", { class: "anb-device" }, canvas, tip.element, legend);
  /** @type {Pair} */
  let size = [0, 0];
  /** @type {Answer<"device"> | null} the last answer */
  let now = null;
  let failed = "";
  /** @type {(Tile & { path: string, words: string })[]} */
  let tiles = [];

  legend.append(
    ...Object.entries(STATE).map(([name, { words }]) => {
      const key = make("canvas", { class: "anb-smkey" });
      key.dataset.state = name;
      return makeKey(key, words);
    }),
  );

  const asker = createAsker(store, "device", {
    answered(found, error) {
      now = found;
      failed = error ? error.message : "";
    },
  });

  function draw() {
    if (store.device < 0) return;
    const { at_ps, key } = momentOf(store);
    asker.want({ rank: store.device, at_ps }, `${store.device}/${key}`);
    const context = fit(canvas, ...size);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, ...size);
    tiles = [];
    legend.querySelectorAll("canvas").forEach(drawKey);
    if (failed) {
      context.fillStyle = theme.dim;
      context.fillText(failed, 10, 20, size[0] - 20);
    }
    if (!now || now.rank !== store.device) return;
    canvas.setAttribute("aria-label", `${now.name}: ${plural(now.sms, "SM")} at ${formatTime(now.at_ps, 3)}`);
    context.fillStyle = theme.ink;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.font = `13px ${theme.font}`;
    const { arrays } = now;
    const counts = now.states.map((name, state) => ({ name, n: arrays.state.filter((of) => of === state).length }));
    const words = counts.filter(({ n }) => n).map(({ name, n }) => `${n} ${name}`).join(", ");
    context.fillText(`${now.name} · ${now.preset} · at ${formatTime(now.at_ps, 4)} · SMs: ${words}`, 10, 13, size[0] - 20);
    const strips = 84;
    grid(context, now, 10, TOP, size[0] - 20, Math.max(40, size[1] - TOP - strips - 8));
    strip(context, "L2 slice", arrays.l2, arrays.l2_queue, size[1] - strips, 30);
    strip(context, "HBM channel", arrays.hbm, arrays.hbm_queue, size[1] - strips + 42, 30);
    tip.write();
  }

  /** SMs in a grid as large as fits. @param {Context} context @param {Answer<"device">} device @param {number} left @param {number} top @param {number} width @param {number} height */
  function grid(context, device, left, top, width, height) {
    let columns = 1;
    while ((width / columns) * Math.ceil(device.sms / columns) > height && columns < device.sms) columns += 1;
    const rows = Math.ceil(device.sms / columns);
    const [w, h] = [Math.min(74, width / columns), Math.min(52, height / rows)];
    for (let sm = 0; sm < device.sms; sm++) {
      const tile = { x: left + (sm % columns) * w, y: top + Math.floor(sm / columns) * h, w: w - 3, h: h - 3 };
      const name = device.states[device.arrays.state[sm]];
      mark(context, tile, name);
      const path = `${device.name}.sm.${sm}`;
      const picked = store.selection === path || store.selection === `gpu[${device.rank}].sm.${sm}`;
      context.strokeStyle = picked ? theme.brand : theme.line;
      context.lineWidth = picked ? 3 : 1;
      context.strokeRect(tile.x + 0.5, tile.y + 0.5, tile.w - 1, tile.h - 1);
      if (tile.w > 20 && tile.h > 13) label(context, tile, String(sm), name);
      const words = `sm ${sm}: ${STATE[name].words} · ${plural(device.arrays.blocks[sm], "block")} on it · ${device.arrays.requests[sm]} of ${plural(device.slots, "request")} under way`;
      tiles.push({ ...tile, path, words });
    }
  }
  /** @param {Context} context @param {Tile} tile @param {string} text @param {SmState} name */
  function label(context, tile, text, name) {
    context.font = `10px ${theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const [x, y] = [tile.x + tile.w / 2, tile.y + tile.h / 2];
    const half = context.measureText(text).width / 2 + 2;
    if (STATE[name].fill !== "none") {
      context.fillStyle = theme.back;
      context.fillRect(x - half, y - 6, 2 * half, 12);
    }
    context.fillStyle = theme.ink;
    context.fillText(text, x, y + 0.5);
  }
  /** @param {Context} context @param {Tile} tile @param {SmState} name */
  function mark(context, { x, y, w, h }, name) {
    const { colour, fill } = STATE[name];
    context.fillStyle = colour || theme.back;
    context.strokeStyle = colour;
    if (fill === "whole") context.fillRect(x, y, w, h);
    else if (fill === "lower") context.fillRect(x, y + h / 2, w, h / 2);
    else if (fill === "upper") context.fillRect(x, y, w, h / 3);
    else if (fill === "dot") context.fillRect(x + w - 7, y + 3, 4, 4);
    else if (fill === "cross") {
      context.globalAlpha = 0.3;
      context.fillRect(x, y, w, h);
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + w - 1, y + h - 1);
      context.moveTo(x + w - 1, y + 1);
      context.lineTo(x + 1, y + h - 1);
      context.stroke();
    }
  }
  /** @param {HTMLCanvasElement} key */
  function drawKey(key) {
    const context = fit(key, 16, 12);
    context.clearRect(0, 0, 16, 12);
    mark(context, { x: 1, y: 1, w: 14, h: 10 }, /** @type {SmState} */ (key.dataset.state));
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.strokeRect(0.5, 0.5, 15, 11);
  }

  /**
   * One cell a server: its colour is how busy it was so far, a bar beside it what waits.
   * @param {Context} context @param {string} title @param {Float32Array} busy @param {Float32Array} queue @param {number} top @param {number} height
   */
  function strip(context, title, busy, queue, top, height) {
    const mean = busy.reduce((sum, part) => sum + part, 0) / Math.max(1, busy.length);
    const longest = queue.reduce((most, ps) => Math.max(most, ps), 0);
    context.fillStyle = theme.dim;
    context.font = `11px ${theme.font}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const words = `${plural(busy.length, title)}: ${(100 * mean).toFixed(1)}% busy so far on average, longest queue ${formatTime(longest, 3)}`;
    context.fillText(words, 10, top + 5, size[0] - 20);
    const width = (size[0] - 20) / Math.max(1, busy.length);
    busy.forEach((part, k) => {
      const tile = { x: 10 + k * width, y: top + 13, w: Math.max(1, width - (width > 4 ? 1 : 0)), h: height - 13 };
      context.fillStyle = theme.rampText(part);
      context.fillRect(tile.x, tile.y, tile.w, tile.h);
      if (longest > 0 && queue[k] > 0) {
        context.fillStyle = theme.ink;
        context.fillRect(tile.x, tile.y + tile.h, tile.w, -Math.max(1, (tile.h * queue[k]) / longest / 2));
      }
      const name = `${title.replace(/s$/, "")} ${k}`;
      tiles.push({ ...tile, path: "", words: `${name}: ${(100 * part).toFixed(1)}% busy so far, ${formatTime(queue[k], 3)} of work waits` });
    });
  }

  /** @param {Spot} event */
  const hit = (event) =>
    tiles.find(({ x, y, w, h }) => event.offsetX >= x && event.offsetX <= x + w && event.offsetY >= y && event.offsetY <= y + h);
  canvas.addEventListener("pointermove", (event) => {
    canvas.style.cursor = hit(event)?.path ? "pointer" : "default";
  });
  canvas.addEventListener("click", (event) => {
    const tile = hit(event);
    if (tile?.path) store.select(tile.path);
  });
  return {
    element,
    draw,
    resize() {
      size = [canvas.clientWidth, canvas.clientHeight];
    },
    destroy: asker.destroy,
  };
}
