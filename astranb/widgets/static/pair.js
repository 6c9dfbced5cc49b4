// Two workbenches beside each other, and what differs between them below.

export default {
  async render({ model, el, host, signal }) {
    const modules = {};
    for (const [name, text] of Object.entries(model.get("_modules"))) {
      if (!["difference", "theme"].includes(name)) continue;
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      Object.assign(modules, await import(url));
      URL.revokeObjectURL(url);
    }
    const { make, createDifference } = modules;
    const difference = createDifference(modules);
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
