// @ts-check
// What is known of the selected object at the cursor: state, lines in flight, parts to go on to.

import { createCompletion } from "./completion.js";
import { formatCount, formatTime } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeButton, makeHint, makeLink, makeRow, refill } from "./theme.js";

/** @import { CreateView, Inspected } from "./types" */

const MOST_LINES = 16;
/** @type {Record<string, string>} */
const PARTS = { gpu: "SMs in use", rank: "Now", op: "Depends on, and is needed by" };

/** @type {CreateView} */
export function createInspector(store) {
  const path = make("input", {
    type: "text", class: "anb-path", placeholder: "gpu[3].sm.0", "aria-label": "Object to inspect", spellcheck: "false",
    onchange() {
      store.select(path.value.trim());
    },
  });
  const completion = createCompletion(store, path);
  const clear = makeButton("×", () => store.select(""), { class: "anb-button anb-clear", "aria-label": "Clear the selection", title: "clear (Esc)" });
  const body = make("div", { class: "anb-body" });
  const moment = createMoment(store, () => store.selection && (store.inspection?.recorded_ps ?? store.inspection?.at_ps) || null);
  const span = make("section", { class: "anb-span", "aria-label": "Span", hidden: "" });
  const element = make("section", { class: "anb-inspector", "aria-label": "Inspector" }, make("div", { class: "anb-row" }, path, clear, completion.element), span, moment, body);

  store.on("scene", () => {
    if (store.scene.names) {
      path.placeholder = `${store.scene.names[Math.min(3, (store.scene.ranks ?? 1) - 1)]}.op[0]`;
      completion.propose(store.scene.names);
      return;
    }
    const all = store.scene.gpus.map((_, rank) => `gpu[${rank}]`);
    all.push(...store.scene.boxes.filter((box) => box.kind !== "tier").map((box) => box.name), ...store.scene.tiles.flat());
    all.push(...store.scene.bundles.slice(0, 2000).map((bundle) => bundle.name));
    completion.propose(all);
  });

  const hint = () => (store.ready ? store.scene.hint : null) ?? "Click a GPU, a switch, a link or a thread block, or type its path.";
  /** @param {string} text @param {string} to */
  const go = (text, to) => makeLink(text, () => store.select(to), { title: to });
  /** @param {Inspected} answer @returns {HTMLElement[]} */
  function found({ title, kind, state, in_flight: flying, in_flight_count: count, lines: paths, children, recent, route }) {
    /** @type {HTMLElement[]} */
    const parts = [make("h4", { text: title }), make("table", {}, make("tbody", {}, ...state.map((row) => makeRow(...row))))];
    if (children.length) {
      parts.push(make("h5", { text: PARTS[kind] ?? "Parts" }));
      parts.push(make("div", { class: "anb-children" }, ...children.map((child) => go(child.text, child.path))));
    }
    if (route?.length) {
      parts.push(make("h5", { text: "Route" }));
      const hops = route.map((hop) => make("li", {}, go(hop, hop.slice(0, hop.lastIndexOf(": ")))));
      parts.push(make("ol", { "aria-label": "Route of this line" }, ...hops));
    }
    if (recent?.length) {
      parts.push(make("h5", { text: "Last events" }));
      parts.push(make("ul", { "aria-label": "Last events" }, ...recent.map((text) => make("li", { text }))));
    }
    if (kind === "line") return parts;
    if (store.scene.names && !count) return parts;
    parts.push(make("h5", { text: `${kind === "op" || kind === "queue" ? "Chunks" : "In flight"}: ${formatCount(count)}` }));
    if (flying.length) {
      const lines = flying.slice(0, MOST_LINES).map((line, k) => make("li", {}, paths ? go(line, paths[k]) : line));
      if (count > MOST_LINES) lines.push(make("li", { class: "anb-hint", text: `and ${formatCount(count - MOST_LINES)} more` }));
      parts.push(make("ul", {}, ...lines));
    }
    return parts;
  }

  function drawSpan() {
    span.hidden = !store.span;
    if (!store.span) return;
    const { what, start_ps: from, end_ps: to, time_ps: time, facts } = store.span;
    const when = `${formatTime(from)} to ${formatTime(to)} (${formatTime(to - from)})`;
    const known = facts.length ? [...(time === null ? [] : [makeHint(`at ${formatTime(time, 3)}:`)]), make("table", {}, make("tbody", {}, ...facts.map((fact) => makeRow(...fact))))] : [];
    /** @param {string} text @param {number} at */
    const move = (text, at) => makeButton(text, () => store.scrub(at), { class: "anb-button anb-small-button" });
    span.replaceChildren(
      make("h4", { text: what }), make("p", { text: when }), ...known,
      make("div", { class: "anb-row" }, move("Go to its begin", from), move("Go to its end", to), makeButton("×", () => store.selectSpan(store.selection, null), { class: "anb-button anb-clear", "aria-label": "Close the span" })),
    );
  }
  function draw() {
    drawSpan();
    const answer = store.inspection;
    if (document.activeElement !== path) path.value = store.selection;
    clear.disabled = !store.selection;
    const scrolled = body.scrollTop;
    if (!store.selection) body.replaceChildren(makeHint(hint()));
    else if (answer?.error) body.replaceChildren(make("p", { class: "anb-failed", text: answer.error }));
    else if (answer?.found) {
      const then = answer.recorded_ps;
      const held = then === undefined || then === store.cursor ? [] : [makeHint(`At ${formatTime(then)}, the last time before the cursor that this page holds.`)];
      refill(body, ...held, ...found(answer.found));
      body.scrollTop = scrolled;
    }
  }
  store.on("inspection", draw);
  /** @type {string | null} */
  let selection = null;
  store.on("change", () => {
    if (selection === store.selection) return;
    selection = store.selection;
    draw();
  });
  draw();
  return { element, destroy: completion.destroy };
}
