// @ts-check
// Which views there are, and where: tabs on the stage and at its side, stacked below. The borders between them move.

import { createBreaks } from "./breakpoints.js";
import { createBuffer } from "./buffer.js";
import { createBuffers } from "./buffers.js";
import { createChange } from "./change.js";
import { createChunks } from "./chunks.js";
import { createCompare } from "./compare.js";
import { createEvents } from "./events.js";
import { createExplain } from "./explain.js";
import { createExposed } from "./exposed.js";
import { createFlows } from "./flows.js";
import { createFootprint } from "./footprint.js";
import { createGraph } from "./graph.js";
import { createHeat } from "./heat.js";
import { createInspector } from "./inspector.js";
import { createInterval } from "./interval.js";
import { createMemory } from "./memory.js";
import { createModulePanel } from "./module_panel.js";
import { createOverview } from "./overview.js";
import { PLUGGED } from "./plugged.js";
import { createRanks } from "./ranks.js";
import { createResult } from "./result.js";
import { createSeparator } from "./separator.js";
import { createSource } from "./source.js";
import { createTable } from "./table.js";
import { make } from "./theme.js";
import { createTimeline } from "./timeline.js";
import { createTopology } from "./topology.js";

/** @import { Store, Theme, View } from "./types" */
/** @typedef {"stage" | "side" | "below"} Slot */

/** @type {[Slot, string, string, (store: Store, theme: Theme) => View, (boolean | "ended")?][]} */
const PANELS = [
  // where, name, title, what makes it, whether it is open unless someone has chosen (below); "ended": once the run has ended
  ["stage", "topology", "Topology", createTopology],
  ["stage", "traffic", "Traffic", createHeat],
  ["stage", "table", "Table", createTable],
  ["stage", "chunks", "Data", createChunks],
  ["stage", "buffers", "Buffers", createBuffers],
  ["side", "inspect", "Inspect", createInspector],
  ["side", "change", "Change", createChange],
  ["side", "breaks", "Breakpoints", createBreaks],
  ["side", "explain", "Explain", createExplain],
  ["side", "source", "Source", createSource],
  ["below", "result", "Result", createResult, "ended"],
  ["below", "blocks", "SMs and blocks", createTimeline, true],
  ["below", "activity", "Memory and links", createMemory, true],
  ["below", "events", "Events", createEvents],
  ["below", "interval", "Interval", createInterval],
  ["below", "buffer", "Buffer", createBuffer],
  ["below", "compare", "Comparison", createCompare],
];
/** @type {typeof PANELS} */
const OF_OPERATIONS = [
  ["stage", "topology", "Topology", createTopology],
  ["stage", "graph", "Operations", createGraph],
  ["stage", "modules", "Modules", createModulePanel],
  ["stage", "exposed", "Ranks", createExposed],
  ["stage", "traffic", "Traffic", createHeat],
  ["stage", "flows", "Flows", createFlows],
  ["stage", "buffers", "Queues", createBuffers],
  ["side", "inspect", "Inspect", createInspector],
  ["side", "change", "Change", createChange],
  ["side", "breaks", "Breakpoints", createBreaks],
  ["side", "explain", "Explain", createExplain],
  ["below", "result", "Result", createResult, "ended"],
  ["below", "tracks", "Timeline", createRanks, true],
  ["below", "footprint", "GPU memory", createFootprint],
  ["below", "events", "Events", createEvents],
  ["below", "compare", "Comparison", createCompare],
];

const LEAST = { main: 160, side: 160, stage: 220, rows: 60 }; // px
const MOST = 2000;
const SCROLLS = ".anb-rows, .anb-interval-part, .anb-scroll"; // what has the height of a panel below

let numbers = 0; // of workbenches on the page: ids must differ

/** @param {Store} store @param {Theme} theme */
export function createPanels(store, theme) {
  const number = (numbers += 1);
  const plugged = PLUGGED.filter(([engine]) => !engine || engine === store.engine);
  /** @type {typeof PANELS} */
  const table = [...(store.engine === "operations" ? OF_OPERATIONS : PANELS), ...plugged.map(([, ...panel]) => panel)];
  const panels = table.map(([slot, name, title, create, open]) => {
    const view = create(store, theme);
    view.element.id = `anb-${number}-${name}`;
    const button = make("button", { type: "button", class: slot === "below" ? "anb-chip" : "anb-tab", text: title, "aria-controls": view.element.id });
    return { slot, name, title, open: open ?? false, view, button, visible: /** @type {boolean | null} */ (null) };
  });
  /** @param {Slot} slot */
  const of = (slot) => panels.filter((panel) => panel.slot === slot);

  /**
   * A row of buttons: tabs of which one is open, or switches.
   * @param {Slot} slot
   * @param {"tablist" | "toolbar"} role
   * @param {string} words
   */
  function bar(slot, role, words) {
    const buttons = of(slot).map((panel) => {
      panel.button.addEventListener("click", () => store.show_panel(panel.name, role === "tablist" || !shown(panel)));
      if (role === "tablist") panel.button.setAttribute("role", "tab");
      return panel.button;
    });
    const element = make("div", { class: `anb-tabs anb-tabs-${slot}`, role, "aria-label": words }, ...buttons);
    element.hidden = buttons.length < 2;
    element.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const at = buttons.findIndex((button) => button === event.target);
      if (!step || at < 0) return;
      event.preventDefault();
      event.stopPropagation();
      const next = buttons[(at + step + buttons.length) % buttons.length];
      if (role === "tablist") next.click();
      next.focus();
    });
    return element;
  }
  /** @param {(typeof panels)[number]} panel @returns {boolean} */
  function shown(panel) {
    const choice = store.panels;
    if (panel.slot === "below") return Boolean(choice[panel.name] ?? (panel.open === "ended" ? store.state?.finished : panel.open));
    const named = of(panel.slot).find(({ name }) => name === choice[panel.slot]);
    return panel === (named ?? of(panel.slot)[0]);
  }
  /** @param {Slot} name @param {...HTMLElement} children */
  const slot = (name, ...children) => make("div", { class: `anb-slot anb-slot-${name}` }, ...children);
  const side = slot("side", bar("side", "tablist", "Details"), ...of("side").map(({ view }) => view.element));
  const main = make("div", { class: "anb-main" });
  main.append(
    slot("stage", bar("stage", "tablist", "Pictures"), ...of("stage").map(({ view }) => view.element)),
    createSeparator(store, {
      name: "side", label: "Width of the details", orientation: "vertical", sign: -1, least: LEAST.side,
      most: () => main.clientWidth - LEAST.stage, now: () => side.clientWidth,
    }),
    side,
  );
  const borders = of("below").filter(({ view }) => view.element.querySelector(SCROLLS)).map(({ name, title, view }) => {
    const border = createSeparator(store, {
      name, label: `Height of ${title}`, orientation: "horizontal", least: LEAST.rows, most: () => MOST,
      now: () => Math.max(0, ...[...view.element.querySelectorAll(SCROLLS)].map((one) => one.clientHeight)),
    });
    return /** @type {[string, HTMLElement]} */ ([name, border]);
  });
  const borderOf = new Map(borders);
  const below = of("below").flatMap(({ name, view }) => [view.element, borderOf.get(name) ?? []].flat());
  const overview = createOverview(store, theme);
  const element = make(
    "div",
    { class: "anb-panels" },
    main,
    createSeparator(store, {
      name: "main", label: "Height of the picture", orientation: "horizontal", least: LEAST.main, most: () => MOST, now: () => main.clientHeight,
    }),
    slot("below", bar("below", "toolbar", "Panels below"), overview.element, ...below),
  );
  let sized = "";
  /** Give panels the sizes that were chosen; true if they have changed. */
  function size() {
    const { sizes } = store;
    const text = JSON.stringify(sizes);
    if (text === sized) return false;
    sized = text;
    /** @param {HTMLElement} one @param {string} property @param {number | undefined} px */
    const give = (one, property, px) => (px ? one.style.setProperty(property, `${px}px`) : one.style.removeProperty(property));
    give(main, "--anb-main", sizes.main);
    give(main, "--anb-side", sizes.side);
    for (const { name, view } of of("below")) give(view.element, "--anb-rows", sizes[name]);
    return true;
  }

  /** Show what is chosen; true if that has changed, and sizes must be looked at again. */
  function arrange() {
    let changed = size();
    for (const panel of panels) {
      const visible = shown(panel);
      if (panel.visible === visible) continue;
      panel.visible = visible;
      changed = true;
      panel.view.element.hidden = !visible;
      const border = borderOf.get(panel.name);
      if (border) border.hidden = !visible;
      const role = panel.button.getAttribute("role") === "tab" ? "aria-selected" : "aria-pressed";
      panel.button.setAttribute(role, String(visible));
      panel.button.tabIndex = visible || panel.slot === "below" ? 0 : -1;
      panel.view.shown?.(visible);
    }
    return changed;
  }
  store.on("scene", () => {
    for (const { button, name, title } of panels) button.textContent = store.scene.titles?.[name] ?? title;
  });
  const open = () => panels.filter((panel) => panel.visible).map((panel) => panel.view);
  arrange();
  return {
    element,
    arrange,
    resize() {
      overview.resize();
      for (const view of open()) view.resize?.();
    },
    themed: () => panels.forEach(({ view }) => view.themed?.()),
    destroy() {
      overview.destroy();
      for (const { view } of panels) view.destroy?.();
    },
    /** Draw what is open; gives how many lines in flight there are. */
    draw() {
      /** @type {number | null} */
      let dots = null;
      overview.draw();
      for (const view of open()) dots = view.draw?.() ?? dots;
      return dots;
    },
  };
}

/** The slot of a panel, by its name. @param {string} name */
export function slotOf(name) {
  return [...PANELS, ...OF_OPERATIONS, ...PLUGGED.map(([, ...panel]) => panel)].find((panel) => panel[1] === name)?.[0];
}
