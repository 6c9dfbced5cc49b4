// @ts-check
// What the run took, and where its time went as a bar: opens by itself when the run has ended.

import { createAsker, momentOf } from "./asker.js";
import { formatShare } from "./format.js";
import { createMoment } from "./moment.js";
import { ACTIVITY_COLOURS, TRACK_COLOURS, make, makeBarKey, makeLink } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createResult(store, theme) {
  const moment = createMoment(store, () => asker.reply?.at_ps);
  const facts = make("div", { class: "anb-facts" });
  const bar = make("div", { class: "anb-shares", role: "img" });
  const keys = make("div", { class: "anb-legend" });
  const element = make("section", { class: "anb-result", "aria-label": "Result" }, facts, bar, keys);
  const asker = createAsker(store, "outcome", {
    answered(found, error) {
      if (found) show(found);
      else {
        facts.textContent = error.message;
        bar.replaceChildren();
        keys.replaceChildren();
      }
    },
  });

  /** @param {Answer<"outcome">} found */
  function show({ finished, facts: all, parts, whose }) {
    const known = all.map(([what, text, path]) => make(
      "span", { class: "anb-fact" }, make("span", { text: what }),
      path ? makeLink(text, () => store.select(path)) : make("b", { text }),
    ));
    if (!finished) known.push(make("span", { class: "anb-hint", text: "so far" }));
    facts.replaceChildren(...known, moment);
    const colours = store.engine === "operations" ? ACTIVITY_COLOURS : TRACK_COLOURS;
    /** @param {number} number */
    const colourOf = (number) => colours[number] ?? theme.faint;
    bar.setAttribute("aria-label", `Time of ${whose}: ${parts.map(([name, , share]) => `${name} ${formatShare(share)}`).join(", ")}`);
    bar.replaceChildren(...parts.map(([name, number, share]) =>
      make("i", { style: `background: ${colourOf(number)}; flex-grow: ${share}`, title: `${name}: ${formatShare(share)} of the time of ${whose}` }),
    ));
    keys.replaceChildren(
      make("span", { text: `time of ${whose}` }),
      ...parts.map(([name, number, share]) => makeBarKey(colourOf(number), `${name} ${formatShare(share)}`)),
    );
  }
  function draw() {
    const { at_ps, key } = momentOf(store);
    if (store.state) asker.want({ at_ps }, key);
  }
  return { element, draw, destroy: asker.destroy };
}
