// @ts-check
// A new workbench is brought into sight: once, and only where a person has just run its cell.

/** @import { Model } from "./types" */

const RECENT_S = 60; // since the kernel displayed it: a notebook that is opened again shows older ones

/**
 * Whether the cell of an element is the one that was run last: the active one, or the one before it.
 * @param {HTMLElement} element
 */
function justRun(element) {
  const cell = element.closest(".jp-Cell");
  const next = cell?.nextElementSibling;
  return Boolean(cell && document.visibilityState === "visible" && [cell, next].some((one) => one?.classList.contains("jp-mod-active")));
}

/**
 * Gives what is called after each picture: the first one has the size to scroll to.
 * @param {Model} model
 * @param {HTMLElement} root
 */
export function createReveal(model, root) {
  let wanted = Math.abs(Date.now() / 1000 - (model.get("_displayed_s") || 0)) < RECENT_S;
  if (wanted) {
    model.set("_displayed_s", 0); // another view of it, and the page when it is loaded again, stay where they are
    model.save_changes();
  }
  return () => {
    if (!wanted) return;
    wanted = false;
    // The notebook lays the new output out first, and scrolls to the next cell.
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const holder = root.closest(".jp-WindowedPanel-outer, .jp-Notebook");
      if (!holder || !justRun(root)) return;
      const [seen, here] = [holder.getBoundingClientRect(), root.getBoundingClientRect()];
      if (here.top < seen.top || here.bottom > seen.bottom) holder.scrollTop += here.top - seen.top;
    }));
  };
}
