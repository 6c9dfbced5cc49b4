// @ts-check
// Another widget inside this one, for as long as it is the one to show.

import { make } from "./theme.js";

/** @import { Host } from "./types" */

/** @param {HTMLElement} place @param {Host} host @param {AbortSignal} signal */
export function createEmbed(place, host, signal) {
  let shown = "";
  /** @type {AbortController | null} */
  let ending = null;
  signal.addEventListener("abort", () => ending?.abort());
  /** Show a widget by its reference; none: nothing. @param {string} reference */
  return async function embed(reference) {
    if (reference === shown) return;
    shown = reference;
    ending?.abort();
    place.replaceChildren();
    if (!reference) return;
    ending = new AbortController();
    const part = make("div", {});
    place.append(part);
    try {
      await (await host.getWidget(reference)).render({ el: part, signal: ending.signal });
    } catch (error) {
      part.replaceChildren(make("p", { class: "anb-failed", text: error instanceof Error ? error.message : String(error) }));
    }
  };
}
