// Which views there are, and where they stand: tabs on the stage and at its side, stacked below.

const PANELS = [
  // where, name, title, what makes it, whether it is open at first (below)
  ["stage", "topology", "Topology", "createTopology"],
  ["stage", "traffic", "Traffic", "createHeat"],
  ["stage", "table", "Table", "createTable"],
  ["stage", "chunks", "Data", "createChunks"],
  ["side", "inspect", "Inspect", "createInspector"],
  ["side", "change", "Change", "createChange"],
  ["side", "breaks", "Breakpoints", "createBreaks"],
  ["side", "explain", "Explain", "createExplain"],
  ["side", "source", "Source", "createSource"],
  ["below", "blocks", "SMs and blocks", "createTimeline", true],
  ["below", "activity", "Memory and links", "createMemory", true],
  ["below", "interval", "Interval", "createInterval"],
  ["below", "buffer", "Buffer", "createBuffer"],
  ["below", "compare", "Comparison", "createCompare"],
];
const OF_WORKLOADS = [
  ["stage", "graph", "Operations", "createGraph"],
  ["stage", "exposed", "Ranks", "createExposed"],
  ["side", "inspect", "Inspect", "createInspector"],
  ["side", "change", "Change", "createChange"],
  ["side", "breaks", "Breakpoints", "createBreaks"],
  ["side", "explain", "Explain", "createExplain"],
  ["below", "lanes", "Timeline", "createRanks", true],
  ["below", "compare", "Comparison", "createCompare"],
];

let numbers = 0; // of workbenches on the page: ids must differ

export function createPanels(store, theme, modules) {
  const { make } = modules;
  const number = (numbers += 1);
  const panels = (store.kind === "workload" ? OF_WORKLOADS : PANELS).filter(([, , , maker]) => modules[maker]).map(([slot, name, title, maker, open]) => {
    const view = modules[maker](store, theme, modules);
    view.element.id = `anb-${number}-${name}`;
    return { slot, name, title, open: Boolean(open), view };
  });
  const of = (slot) => panels.filter((panel) => panel.slot === slot);

  /** A row of buttons: tabs of which one is open, or switches. */
  function bar(slot, role, words) {
    const buttons = of(slot).map((panel) => {
      const button = make("button", {
        type: "button", class: "anb-tab", text: panel.title, "aria-controls": panel.view.element.id,
        onclick: () => store.show_panel(panel.name, role === "tablist" || !shown(panel)),
      });
      if (role === "tablist") button.setAttribute("role", "tab");
      panel.button = button;
      return button;
    });
    const element = make("div", { class: `anb-tabs anb-tabs-${slot}`, role, "aria-label": words }, ...buttons);
    element.hidden = buttons.length < 2;
    element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = buttons.indexOf(event.target);
      if (!step || at < 0) return;
      event.preventDefault();
      event.stopPropagation();
      const next = buttons[(at + step + buttons.length) % buttons.length];
      if (role === "tablist") next.click();
      next.focus();
    });
    return element;
  }
  function shown(panel) {
    const choice = store.panels;
    if (panel.slot === "below") return choice[panel.name] ?? panel.open;
    const named = of(panel.slot).find(({ name }) => name === choice[panel.slot]);
    return panel === (named ?? of(panel.slot)[0]);
  }
  const slot = (name, ...children) => make("div", { class: `anb-slot anb-slot-${name}` }, ...children);
  const element = make(
    "div",
    { class: "anb-panels" },
    make(
      "div",
      { class: "anb-main" },
      slot("stage", bar("stage", "tablist", "Pictures"), ...of("stage").map(({ view }) => view.element)),
      slot("side", bar("side", "tablist", "Details"), ...of("side").map(({ view }) => view.element)),
    ),
    slot("below", bar("below", "toolbar", "Timelines"), ...of("below").map(({ view }) => view.element)),
  );

  /** Show what is chosen; true if that has changed, and sizes must be looked at again. */
  function arrange() {
    let changed = false;
    for (const panel of panels) {
      const visible = shown(panel);
      if (panel.visible === visible) continue;
      panel.visible = visible;
      changed = true;
      panel.view.element.hidden = !visible;
      const role = panel.button.getAttribute("role") === "tab" ? "aria-selected" : "aria-pressed";
      panel.button.setAttribute(role, String(visible));
      panel.button.tabIndex = visible || panel.slot === "below" ? 0 : -1;
      panel.view.shown?.(visible);
    }
    return changed;
  }
  store.on("scene", () => panels.forEach((panel) => (panel.button.textContent = store.scene.titles?.[panel.name] ?? panel.title)));
  const open = () => panels.filter((panel) => panel.visible).map((panel) => panel.view);
  arrange();
  return {
    element,
    arrange,
    resize: () => open().forEach((view) => view.resize?.()),
    themed: () => panels.forEach(({ view }) => view.themed?.()),
    destroy: () => panels.forEach(({ view }) => view.destroy?.()),
    /** Draw what is open; gives how many lines in flight there are. */
    draw() {
      let dots = null;
      for (const view of open()) dots = view.draw?.() ?? dots;
      return dots;
    },
  };
}

/** Where a panel stands, by its name. */
export function slotOf(name) {
  return [...PANELS, ...OF_WORKLOADS].find((panel) => panel[1] === name)?.[0];
}
