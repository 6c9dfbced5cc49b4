// @ts-check
// The border between two panels: drag it, or move it with the arrow keys, and the panels change their sizes.

import { make } from "./theme.js";

/** @import { Store } from "./types" */

const STEP = 16; // px a key moves it

/**
 * @param {Store} store
 * @param {object} border
 * @param {string} border.name of the size, in `store.sizes`
 * @param {string} border.label
 * @param {"horizontal" | "vertical"} border.orientation of the line itself
 * @param {1 | -1} [border.sign] -1: what it sizes lies behind it
 * @param {number} border.least px
 * @param {() => number} border.most px
 * @param {() => number} border.now the size at present, px
 */
export function createSeparator(store, { name, label, orientation, sign = 1, least, most, now }) {
  /** @type {{ at: number, size: number } | null} */
  let drag = null;
  const upright = orientation === "vertical";
  const element = make("div", {
    class: `anb-separator anb-separator-${orientation}`, role: "separator", tabindex: "0", "aria-label": label, "aria-orientation": orientation,
    "aria-valuemin": least, title: "drag to resize, double click for the usual size",
  });
  /** @param {number} size @param {boolean} [keep] */
  function set(size, keep = true) {
    const next = Math.round(Math.min(most(), Math.max(least, size)));
    element.setAttribute("aria-valuenow", String(next));
    store.set_size(name, next, keep);
  }
  element.addEventListener("focus", () => {
    element.setAttribute("aria-valuenow", String(Math.round(now())));
    element.setAttribute("aria-valuemax", String(Math.round(most())));
  });
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    element.setPointerCapture(event.pointerId);
    drag = { at: upright ? event.clientX : event.clientY, size: now() };
  });
  element.addEventListener("pointermove", (event) => {
    if (drag) set(drag.size + sign * ((upright ? event.clientX : event.clientY) - drag.at), false);
  });
  element.addEventListener("pointerup", () => {
    if (drag && store.sizes[name]) set(store.sizes[name]);
    drag = null;
  });
  element.addEventListener("pointercancel", () => (drag = null));
  element.addEventListener("dblclick", () => store.set_size(name, null));
  element.addEventListener("keydown", (event) => {
    const keys = upright ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    const by = keys.indexOf(event.key);
    if (by < 0 && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    event.stopPropagation();
    // What was chosen may not be drawn yet: several presses before the next frame each count.
    if (by >= 0) set(Math.min(most(), store.sizes[name] ?? now()) + (by ? STEP : -STEP) * sign);
    else set(event.key === "Home" ? least : most());
  });
  return element;
}
