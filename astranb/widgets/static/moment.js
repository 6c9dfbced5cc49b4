// @ts-check
// The time that a panel holds for: the same words in the head of each.

import { formatTime } from "./format.js";
import { make, settle } from "./theme.js";

/** @import { Store } from "./types" */

/**
 * A label `at 628 ns`, dimmed while the cursor is at another time.
 * @param {Store} store
 * @param {() => number | null | undefined} held the time that the panel's answer is about, in ps
 * @param {string} [otherwise] why it may be another time than the cursor's
 */
export function createMoment(store, held, otherwise = "its answer has not come yet") {
  const element = make("span", { class: "anb-moment", hidden: "" });
  store.on("change", draw);
  store.on("inspection", draw);
  function draw() {
    const at = held() ?? null;
    element.hidden = at === null;
    if (at === null) return;
    const late = Math.abs(at - store.cursor) >= 1;
    settle(element, `at ${formatTime(Math.round(at), 3)}`);
    element.dataset.ps = String(at);
    element.dataset.late = String(late);
    const why = store.ready && store.scene.recorded ? "this page holds no later moment before it" : otherwise;
    element.title = late ? `the cursor is at ${formatTime(Math.round(store.cursor), 3)}: ${why}` : "this panel holds for the cursor's time";
  }
  return element;
}
