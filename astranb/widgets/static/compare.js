// @ts-check
// The run beside this one: what differs, and its own view with the same clock.

import { createAsker, stateNumber } from "./asker.js";
import { createDifference } from "./difference.js";
import { make, makeButton, makeHint } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

const EXAMPLES = { cacheline: '{"algorithm": "ring"}', operations: '{"rank[3].speed": 0.5}' };

/** @type {CreateView} */
export function createCompare(store) {
  const difference = createDifference();
  const hint = makeHint(`No other run. Change something in the panel Change and press Fork, or call workbench.fork(${EXAMPLES[store.engine]}).`);
  const part = makeButton("Close the other run", () => store.ask("difference", { part: true }).then(show, fail));
  const place = make("div", { class: "anb-other" });
  const shown = make("div", { hidden: "" }, difference.element, make("div", { class: "anb-row" }, part), place);
  const element = make("section", { class: "anb-compare", "aria-label": "Comparison" }, hint, shown);
  let other = "";
  /** @type {AbortController | null} */
  let ending = null;
  const asker = createAsker(store, "difference", { every: 250, answered: (found, error) => (found ? show(found) : fail(error)) });

  /** @param {Answer<"difference">} found */
  function show(found) {
    hint.hidden = found.other;
    shown.hidden = !found.other;
    if (found.other) difference.show(found);
  }
  /** @param {unknown} error */
  function fail(error) {
    hint.hidden = false;
    shown.hidden = true;
    if (error instanceof Error) hint.textContent = error.message;
  }
  /** Its workbench in this one, for as long as it is the one beside it. */
  async function embed() {
    if (other === store.other()) return;
    other = store.other();
    ending?.abort();
    ending = null;
    place.replaceChildren();
    if (!other) return;
    if (!store.embed) {
      place.append(makeHint("To see it, show anb.SideBySide(sim, fork) in a cell."));
      return;
    }
    ending = new AbortController();
    const el = make("div", {});
    place.append(el);
    try {
      await store.embed(other, { el, signal: ending.signal });
    } catch (error) {
      el.replaceChildren(make("p", { class: "anb-failed", text: error instanceof Error ? error.message : String(error) }));
    }
  }
  return {
    element,
    draw() {
      embed();
      const at_ps = store.following ? -1 : store.cursor;
      asker.want({ at_ps }, `${store.other()}|${stateNumber(store)}|${Math.round(at_ps)}`);
    },
    destroy() {
      asker.destroy();
      ending?.abort();
    },
  };
}
