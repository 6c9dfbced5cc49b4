// @ts-check
// All time in a strip above the timelines, with the part that they show as a window: drag it, its edges, or a new one.

import { createAsker } from "./asker.js";
import { paintDensity } from "./density.js";
import { GUTTER } from "./navigation.js";
import { ACTIVITY_COLOURS, TRACK_COLOURS, fit, make } from "./theme.js";

/** @import { Store, Theme } from "./types" */

const HEIGHT = 18;
const MOST_ROWS = 6; // GPUs or ranks in it, evenly chosen
const EDGE = 5; // px on either side that take hold of an edge
const COLUMN_PX = 3;

/** @param {Store} store @param {Theme} theme */
export function createOverview(store, theme) {
  const canvas = make("canvas", {
    class: "anb-canvas anb-overview", role: "img", "aria-label": "Overview of all time",
    title: "all time: drag a window for the timelines, or its edges; double click shows all",
  });
  const asker = createAsker(store, "spans", { every: 500 });
  /** @type {HTMLCanvasElement | null} */
  let picture = null;
  let pictured = ""; // the answer and the theme that it was made of
  let width = 0;
  let drawn = "";
  /** @type {{ what: "window" | "start" | "end" | "new", at: number, from: number, to: number } | null} */
  let drag = null;

  const whole = () => Math.max(1000, store.furthest * 1.02);
  /** @param {number} time */
  const x = (time) => GUTTER + (time / whole()) * (width - GUTTER);
  /** @param {MouseEvent} event */
  const time = (event) => Math.min(whole(), Math.max(0, ((event.offsetX - GUTTER) / (width - GUTTER)) * whole()));

  /** What a place takes hold of. @param {MouseEvent} event */
  function hold(event) {
    if (!store.window) return "new";
    const [from, to] = store.window.map(x);
    if (Math.abs(event.offsetX - from) <= EDGE) return "start";
    if (Math.abs(event.offsetX - to) <= EDGE) return "end";
    return event.offsetX > from && event.offsetX < to ? "window" : "new";
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const at = time(event);
    const [from, to] = store.window ?? [at, at];
    drag = { what: hold(event), at, from, to };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      canvas.style.cursor = { window: "grab", start: "ew-resize", end: "ew-resize", new: "crosshair" }[hold(event)];
      return;
    }
    const now = time(event);
    if (drag.what === "window") store.show(drag.from + now - drag.at, drag.to - drag.from);
    else {
      const fixed = drag.what === "new" ? drag.at : drag.what === "start" ? drag.to : drag.from;
      const length = Math.abs(now - fixed);
      if (length > whole() / 1000) store.show(Math.min(now, fixed), length);
    }
  });
  canvas.addEventListener("pointerup", () => (drag = null));
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("dblclick", () => store.show(0, Infinity));

  function want() {
    const { timeline, state } = store;
    const ofOperations = store.engine === "operations";
    const number = ofOperations ? state?.events : timeline?.number;
    if (number === undefined || store.playing) return;
    const gpus = ofOperations ? (store.scene.ranks ?? 0) : store.scene.gpus.length;
    const folds = Array.from({ length: Math.min(MOST_ROWS, gpus) }, (_, k) => Math.floor((k * gpus) / Math.min(MOST_ROWS, gpus)));
    const columns = Math.max(1, Math.round((width - GUTTER) / COLUMN_PX));
    asker.want({ kind: ofOperations ? "activities" : "sms", folds, tracks: [], from: 0, to: Math.ceil(whole()), columns }, `${number} ${columns}`);
    const { reply } = asker;
    const source = `${reply?.id} ${theme.version}`;
    if (!reply || source === pictured) return;
    pictured = source;
    picture = paintDensity(reply.arrays.fold_shares, reply.present, folds.length, reply.columns, Math.floor(HEIGHT / folds.length), ofOperations ? ACTIVITY_COLOURS : TRACK_COLOURS);
  }
  return {
    element: canvas,
    resize() {
      width = canvas.clientWidth;
    },
    draw() {
      if (!store.ready || !width) return;
      want();
      const [from, to] = store.window ?? [0, whole()];
      const seen = [from, to, whole(), Math.round(x(store.cursor)), width, theme.version, pictured].join();
      if (seen === drawn) return;
      drawn = seen;
      const context = fit(canvas, width, HEIGHT);
      context.clearRect(0, 0, width, HEIGHT);
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, 0, width - GUTTER, HEIGHT);
      const { reply } = asker;
      if (picture && reply) {
        context.imageSmoothingEnabled = false;
        context.drawImage(picture, x(reply.from), 0, x(reply.to) - x(reply.from), HEIGHT);
      }
      context.fillStyle = theme.back;
      context.globalAlpha = 0.65;
      context.fillRect(GUTTER, 0, x(from) - GUTTER, HEIGHT);
      context.fillRect(x(to), 0, width - x(to), HEIGHT);
      context.globalAlpha = 1;
      context.strokeStyle = theme.brand;
      context.strokeRect(x(from) + 0.5, 0.5, x(to) - x(from) - 1, HEIGHT - 1);
      context.fillStyle = theme.brand;
      if (store.window) for (const edge of [from, to]) context.fillRect(x(edge) - 2, 3, 4, HEIGHT - 6);
      context.fillRect(x(store.cursor) - 0.75, 0, 1.5, HEIGHT);
      context.fillStyle = theme.dim;
      context.font = `10px ${theme.font}`;
      context.textBaseline = "middle";
      context.fillText("all time", 3, HEIGHT / 2);
    },
    destroy: asker.destroy,
  };
}
