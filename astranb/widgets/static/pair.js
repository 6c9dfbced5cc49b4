// @ts-check
// Two workbenches beside each other, and what differs between them below.

import { load } from "./loader.js";

/** @import { Difference, Host, Model } from "./types" */
/** @typedef {{ _modules: Record<string, string>, _pair: string[], _difference: Difference }} Traits */

export default {
  /** @param {{ model: Model<Traits>, el: HTMLElement, host: Host, signal: AbortSignal }} widget */
  async render({ model, el, host, signal }) {
    /** @type {typeof import("./difference.js")} */
    const { createDifference } = await load(model.get("_modules"), "difference");
    /** @type {typeof import("./theme.js")} */
    const { make } = await load(model.get("_modules"), "theme");
    const difference = createDifference();
    const places = model.get("_pair").map(() => make("div", { class: "anb-half" }));
    el.append(
      make(
        "div", { class: "anb-pair" },
        make("div", { class: "anb-halves" }, ...places),
        make("section", { class: "anb-workbench anb-compare", "aria-label": "Comparison" }, difference.element),
      ),
    );
    const show = () => difference.show(model.get("_difference"));
    model.on("change:_difference", show);
    show();
    await Promise.all(
      model.get("_pair").map(async (reference, k) => (await host.getWidget(reference)).render({ el: places[k], signal })),
    );
    return () => model.off("change:_difference", show);
  },
};
