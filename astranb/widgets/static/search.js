// @ts-check
// A field that finds GPUs, links, operations and times.

import { createAsker } from "./asker.js";
import { createFinder } from "./finder.js";

/** @import { Answer, Store } from "./types" */

/** @param {Store} store */
export function createSearch(store) {
  const asker = createAsker(store, "search", {
    answered(reply, error) {
      if (error) finder.fail(error.message);
      if (!reply) return;
      found = reply.found;
      finder.show(found.map(([text]) => text), reply.more ? "… and more: type more of the name" : "");
    },
  });
  const finder = createFinder({
    title: "find a GPU, a link, an operation, or a time such as 3 us (/ or Ctrl+F)",
    ask: (text) => asker.want({ text }, `${text} ${store.state?.events}`),
    take,
    home: () => finder.element.closest(".anb-workbench"),
  });
  /** @type {Answer<"search">["found"]} */
  let found = [];

  /** Go to a result. @param {number} number */
  function take(number) {
    const [, path, time_ps] = found[number];
    if (path) store.select(path);
    if (time_ps < 0) return;
    if (time_ps <= store.frontier) store.scrub(time_ps);
    else store.command("goto", { when: time_ps });
  }
  return { element: finder.element, field: finder.field, destroy: asker.destroy };
}
