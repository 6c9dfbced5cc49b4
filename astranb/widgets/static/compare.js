// @ts-check
// What differs between this run and the one beside it.

import { createAsker, stateNumber } from "./asker.js";
import { createDifference } from "./difference.js";
import { make, makeButton, makeHint } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

const EXAMPLES = { cacheline: '{"algorithm": "ring"}', operations: '{"rank[3].speed": 0.5}' };

/** @type {CreateView} */
export function createCompare(store) {
  const difference = createDifference();
  const called = store.in_notebook ? `, or call workbench.fork(${EXAMPLES[store.engine === "operations" ? "operations" : "cacheline"]})` : "";
  const hint = makeHint(`No other run. Change something in the panel Change and press Fork${called}.`);
  const part = makeButton("Close the other run", () => store.ask("difference", { part: true }).then(show, fail));
  const shown = make("div", { hidden: "" }, difference.element, make("div", { class: "anb-row" }, part));
  const element = make("section", { class: "anb-compare", "aria-label": "Comparison" }, hint, shown);
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
  return {
    element,
    draw() {
      const at_ps = store.following ? -1 : store.cursor;
      asker.want({ at_ps }, `${store.other()}|${stateNumber(store)}|${Math.round(at_ps)}`);
    },
    destroy: asker.destroy,
  };
}
