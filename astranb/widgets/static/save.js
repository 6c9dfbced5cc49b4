// @ts-check
// A button that saves the picture on the stage, or of a workload the timeline, as PNG, with its title and moment below.

import { formatTime } from "./format.js";
import { contextOf, make, makeButton } from "./theme.js";

/** @import { Store } from "./types" */

const FOOT = 34; // CSS pixels

/** @param {Store} store */
export function createSave(store) {
  async function save() {
    const root = button.closest(".anb-workbench");
    if (!root || !store.ready) return;
    /** @type {NodeListOf<HTMLCanvasElement>} */
    const all = root.querySelectorAll(".anb-slot-stage canvas, .anb-ranks canvas");
    const canvas = [...all].find((one) => one.offsetParent && one.width > 1);
    if (!canvas) return;
    const ratio = canvas.width / canvas.clientWidth;
    const sheet = make("canvas", { width: canvas.width, height: Math.round(canvas.height + FOOT * ratio) });
    const style = getComputedStyle(root);
    const context = contextOf(sheet);
    context.fillStyle = style.backgroundColor;
    context.fillRect(0, 0, sheet.width, sheet.height);
    context.drawImage(canvas, 0, 0);
    context.fillStyle = style.color;
    context.font = `${13 * ratio}px ${style.fontFamily}`;
    const words = `${store.scene.title} · ${formatTime(Math.round(store.cursor))}`;
    context.fillText(words, 10 * ratio, canvas.height + 21 * ratio, sheet.width - 20 * ratio);
    /** @type {Blob | null} */
    const blob = await new Promise((done) => {
      sheet.toBlob(done, "image/png");
    });
    if (!blob) return;
    const url = URL.createObjectURL(blob);
    make("a", { href: url, download: `astranb-${Math.round(store.cursor)}-ps.png` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
  const button = makeButton("Save picture (PNG)", save, { class: "anb-button anb-save", "aria-label": "Save picture", title: "save the picture as PNG" });
  return button;
}
