// @ts-check
// What pictures of a sweep share: a canvas that fills its place, follows the mouse and the arrow keys, and choices.

import { contextOf, fit, make } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Context, Spot } from "./types" */
/** @typedef {{ tip(at: Spot): string, click?(at: Spot): unknown, key?(step: number): void, drag?(from: Spot, to: Spot, done: boolean): void }} Hands */

const SLOP = 4; // px that a click may move

/**
 * A canvas that draws when it is asked to, when it is resized, and not while it is hidden.
 * @param {string} label
 * @param {(context: Context, width: number, height: number) => void} paint
 * @param {Hands} hands
 */
export function createPicture(label, paint, hands) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", tabindex: "0", "aria-label": label });
  const tip = createTip(canvas, hands.tip);
  const element = make("div", { class: "anb-plot" }, canvas, tip.element);
  let [width, height] = [0, 0];
  /** @type {Spot | null} */
  let pressed = null;
  let dragged = false;

  function draw() {
    if (!width || !height || !canvas.isConnected) return;
    const context = fit(canvas, width, height);
    context.clearRect(0, 0, width, height);
    paint(context, width, height);
    tip.write();
  }
  const resized = new ResizeObserver(([entry]) => {
    ({ width, height } = entry.contentRect);
    draw();
  });
  resized.observe(element);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed = { offsetX: event.offsetX, offsetY: event.offsetY };
    dragged = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    if (!pressed || !hands.drag) return;
    dragged ||= Math.hypot(offsetX - pressed.offsetX, offsetY - pressed.offsetY) > SLOP;
    if (dragged) hands.drag(pressed, { offsetX, offsetY }, false);
  });
  canvas.addEventListener("pointerup", ({ offsetX, offsetY }) => {
    if (!pressed) return;
    if (dragged) hands.drag?.(pressed, { offsetX, offsetY }, true);
    else hands.click?.({ offsetX, offsetY });
    pressed = null;
  });
  canvas.addEventListener("pointercancel", () => {
    pressed = null;
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !hands.key) return;
    event.preventDefault();
    event.stopPropagation();
    hands.key(step);
  });
  return { element, canvas, draw, context: () => contextOf(canvas), destroy: () => resized.disconnect() };
}

/** A choice among places, which stays when they come again. @param {string} title @param {() => void} changed */
export function createPicker(title, changed) {
  const select = make("select", { class: "anb-steps", title, "aria-label": title, onchange: changed });
  let known = "";
  return {
    get value() {
      return Number(select.value);
    },
    /** @param {readonly (readonly [number, string])[]} choices @param {number} otherwise */
    fill(choices, otherwise) {
      const key = JSON.stringify(choices);
      if (key === known) return;
      const before = known ? select.selectedOptions[0]?.text : "";
      known = key;
      select.replaceChildren(...choices.map(([value, text]) => make("option", { value: String(value), text })));
      const same = choices.find(([, text]) => text === before);
      select.value = String(same ? same[0] : otherwise);
    },
    /** @param {string} text */
    label: (text) => make("label", { class: "anb-label" }, text, select),
  };
}
