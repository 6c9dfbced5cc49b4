// @ts-check
// Words beside the mouse.

import { make } from "./theme.js";

/**
 * A box beside the mouse over a canvas, with the text that `textAt` gives for a place; no text, no box.
 *
 * Call `write()` when the picture has changed under a mouse that rests. `element` belongs into the box that
 * scrolls the canvas, or that it stands in.
 * @param {HTMLCanvasElement} canvas
 * @param {(at: import("./types").Spot) => string} textAt
 */
export function createTip(canvas, textAt) {
  const element = make("div", { class: "anb-tip", hidden: "" });
  /** @type {import("./types").Spot | null} */
  let at = null;
  function write() {
    const text = at ? textAt(at) : "";
    element.hidden = !text;
    if (!at || !text) return;
    if (element.textContent !== text) element.textContent = text;
    const holder = element.offsetParent;
    if (!(holder instanceof HTMLElement)) return;
    const [left, top] = [holder.scrollLeft, holder.scrollTop];
    const [its, mine] = [canvas.getBoundingClientRect(), holder.getBoundingClientRect()];
    const x = its.left - mine.left - holder.clientLeft + left + at.offsetX;
    const y = its.top - mine.top - holder.clientTop + top + at.offsetY;
    element.style.left = `${Math.max(left, Math.min(x + 12, left + holder.clientWidth - element.offsetWidth - 4))}px`;
    const over = y + 16 + element.offsetHeight > top + holder.clientHeight;
    element.style.top = `${over ? Math.max(top, y - element.offsetHeight - 6) : y + 16}px`;
  }
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    at = { offsetX, offsetY };
    write();
  });
  canvas.addEventListener("pointerleave", () => {
    at = null;
    write();
  });
  return { element, write };
}
