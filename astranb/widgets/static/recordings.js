// @ts-check
// Recorded traces: the timeline of their threads and streams, and what is known of the node that was clicked.

import { formatTime } from "./format.js";
import { createStore } from "./store.js";
import { createTheme, make, makeButton, makeHint, makeRow, settle } from "./theme.js";
import { createTimeline } from "./timeline.js";

/** @import { Model } from "./types" */

const KEYS = "W S zoom · A D move · Esc all time · drag marks an interval · a click shows a node";

/** @param {Model} model */
export function createRecordings(model) {
  const element = make("div", {
    class: "anb-workbench anb-recordings", tabindex: "0", role: "application", "aria-label": "Timeline of traces", "data-lm-suppress-shortcuts": "true",
  });
  const theme = createTheme(element);
  const store = createStore(model);
  const [timeline, deafen] = store.gather(() => createTimeline(store, theme));
  const title = make("h3", { class: "anb-title" });
  const about = make("span", { class: "anb-hint", role: "status" });
  const zoom = (/** @type {number} */ factor) => store.zoom(factor, store.pointer ?? store.view()[0] + (store.view()[1] - store.view()[0]) / 2);
  const all = () => {
    store.show(0, Infinity);
    store.mark();
    store.emit("change");
  };
  /** Show the interval that is marked. */
  const marked = () => store.marked && store.show(store.marked[0], store.marked[1] - store.marked[0]);
  const [closer, further, whole, into] = [
    makeButton("+", () => zoom(0.5), { title: "zoom in (W)", "aria-label": "Zoom in" }),
    makeButton("−", () => zoom(2), { title: "zoom out (S)", "aria-label": "Zoom out" }),
    makeButton("All time", all, { title: "show all time (Esc)" }),
    makeButton("Zoom to the interval", marked, { title: "show what a drag has marked (Z)" }),
  ];
  const interval = make("span", { class: "anb-hint" });
  const span = make("section", { class: "anb-recorded-node", "aria-label": "Node" });
  const failed = make("p", { class: "anb-failed", hidden: "" });
  element.append(
    make("div", { class: "anb-row anb-header" }, title, about),
    make("div", { class: "anb-row" }, closer, further, whole, into, interval), failed, timeline.element, span,
  );

  let asked = 0;
  function frame() {
    asked = 0;
    store.tick(0);
    if (!store.ready) return;
    settle(title, store.scene.title);
    settle(about, store.scene.hint ?? "");
    const { marked: [from, to] = [0, 0] } = { marked: store.marked ?? undefined };
    settle(interval, to > from ? `${formatTime(from, 3)} to ${formatTime(to, 3)} (${formatTime(to - from, 3)})` : "");
    into.disabled = !(to > from);
    failed.hidden = !(store.error || store.trouble);
    settle(failed, store.error || store.trouble);
    timeline.draw?.();
    element.dataset.seq = String(store.state?.seq ?? "");
  }
  function request() {
    asked ||= requestAnimationFrame(frame);
  }
  function resize() {
    timeline.resize?.();
    request();
  }
  function describe() {
    const one = store.span;
    if (!one) {
      span.replaceChildren(makeHint(KEYS));
      return;
    }
    const when = `${formatTime(one.start_ps, 3)} to ${formatTime(one.end_ps, 3)} (${formatTime(one.end_ps - one.start_ps, 3)})`;
    span.replaceChildren(
      make("h4", { text: one.what }), make("p", { text: when }),
      make("table", { class: "anb-facts-table" }, make("tbody", {}, ...one.facts.map((fact) => makeRow(...fact)))),
      makeButton("Zoom to it", () => store.show(one.start_ps - (one.end_ps - one.start_ps), 3 * Math.max(1000, one.end_ps - one.start_ps)), { class: "anb-button anb-small-button" }),
    );
  }
  theme.changed = request;
  const stops = [store.on("change", request), store.on("scene", resize), store.on("inspection", describe)];
  const observer = new ResizeObserver(resize);
  observer.observe(element);
  /** @type {Record<string, () => unknown>} */
  const actions = { w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => store.pan(-0.2), d: () => store.pan(0.2), z: marked, escape: all };
  element.addEventListener("keydown", (event) => {
    event.stopPropagation(); // the notebook has other plans for these keys
    const action = actions[event.key.toLowerCase()];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  element.addEventListener("click", (event) => {
    if (event.target instanceof HTMLCanvasElement) element.focus({ preventScroll: true });
  });
  describe();
  return {
    element,
    /** Once it is on the page. */
    begin() {
      resize();
      store.open();
    },
    destroy() {
      cancelAnimationFrame(asked);
      observer.disconnect();
      theme.destroy();
      timeline.destroy?.();
      store.close();
      for (const stop of stops) stop();
      deafen();
      store.destroy();
    },
  };
}
