// @ts-check
// Proposals for a field that takes the path of an object, while a person types.

import { createAsker } from "./asker.js";
import { make } from "./theme.js";

/** @import { Store } from "./types" */

/** A path as the views write it: browsers look for what is typed in this, too. @param {string} path */
const label = (path) => path.replace(/gpu\[(\d+)\]/g, "GPU$1");

/**
 * Lets a field propose paths; returns what closes it, and its list, which stands beside the field.
 * @param {Store} store
 * @param {HTMLInputElement} input
 * @param {"" | "condition" | "watch"} [fields] also propose the fields that these may name
 */
export function createCompletion(store, input, fields = "") {
  const element = make("datalist", { id: `anb-paths-${Math.random().toString(36).slice(2)}` });
  input.setAttribute("list", element.id);
  /** @param {string[]} paths */
  const propose = (paths) => element.replaceChildren(...paths.map((path) => make("option", { value: path, label: label(path) })));
  const asker = createAsker(store, "complete", {
    answered(...[reply]) {
      if (reply && document.activeElement === input) propose(reply.paths); // a page without a kernel keeps its list
    },
  });
  const ask = () => asker.want({ text: input.value.trim(), fields });
  input.addEventListener("input", ask);
  input.addEventListener("focus", () => {
    asker.again();
    ask();
  });
  return { element, propose, destroy: asker.destroy };
}
