// @ts-check
// What is known of one module or node of a graph, beside its picture.

import { formatBytes, formatCount, formatShare, formatTime } from "./format.js";
import { make, makeButton, makeHint, makeLink, makeRow } from "./theme.js";

/** @import { ModuleAbout, ModuleBox, ModuleDetail, ModuleLink } from "./types" */

/** @type {("compute" | "communication" | "memory" | "other")[]} */
const KINDS = ["compute", "communication", "memory", "other"];

/** @param {{ reveal: (link: ModuleLink) => void, toggle: (entity: number) => void }} settings */
export function createModuleFacts({ reveal, toggle }) {
  const body = make("tbody");
  const links = make("div", { class: "anb-children" });
  const heading = make("h4");
  const button = makeButton("Open", () => toggle(entity));
  const table = make("table", { class: "anb-facts-table" }, body);
  const element = make("aside", { class: "anb-modules-facts", "aria-label": "What is selected" });
  let entity = -1;

  /** @param {ModuleBox | null} box @param {ModuleAbout | null} about */
  function show(box, about) {
    entity = box?.entity ?? -1;
    links.replaceChildren();
    if (!box || !about) {
      element.replaceChildren(makeHint("Click a module to open or close it, a node to see what is known of it."));
      return;
    }
    const { arrays, labels } = box.reply;
    const k = box.at;
    const whole = entity < about.modules;
    heading.textContent = labels[arrays.text[k]] || "no name";
    const count = KINDS.reduce((sum, kind) => sum + arrays[kind][k], 0);
    /** @type {[string, string][]} */
    const rows = [];
    if (whole) {
      rows.push(["nodes", formatCount(count)]);
      for (const kind of KINDS) if (arrays[kind][k]) rows.push([kind, formatCount(arrays[kind][k])]);
    }
    if (arrays.duration[k]) rows.push([whole ? "recorded time, added up" : "recorded time", formatTime(arrays.duration[k] * 1000)]);
    if (arrays.critical[k] >= 0.0005) rows.push(["of the critical path", formatShare(arrays.critical[k])]);
    if (arrays.bytes[k]) rows.push(["communicated", formatBytes(arrays.bytes[k])]);
    if (arrays.flops[k]) rows.push(["operations", `${arrays.flops[k].toPrecision(4)} FLOPs`]);
    body.replaceChildren(...rows.map(([name, text]) => makeRow(name, text)));
    button.hidden = !whole;
    button.textContent = box.open ? "Close" : "Open";
    element.replaceChildren(heading, button, table, links);
    if (whole) around(box);
  }
  /** What a module waits for within the module around it. @param {ModuleBox} box */
  function around({ reply: { arrays, labels }, at }) {
    /** @type {[string, Uint32Array, Uint32Array][]} */
    const sides = [["Waits for", arrays.after, arrays.before], ["Awaited by", arrays.before, arrays.after]];
    for (const [text, own, other] of sides) {
      const found = [...own.keys()].filter((k) => own[k] === at);
      if (!found.length) continue;
      links.append(make("h5", { text: `${text}, in the same module` }));
      for (const k of found.slice(0, 12)) {
        const one = other[k];
        const name = labels[arrays.text[one]] || "no name";
        links.append(makeLink(`${name} (${formatCount(arrays.data[k] + arrays.control[k])})`, () => reveal([arrays.entity[one], name, []])));
      }
      if (found.length > 12) links.append(makeHint(`… and ${formatCount(found.length - 12)} more`));
    }
  }
  /** @param {ModuleDetail} detail of the node that is shown */
  function fill({ facts, before, after, counts }) {
    body.append(...facts.map(([name, text]) => makeRow(name, text)));
    /** @type {[string, ModuleLink[], number][]} */
    const sides = [["Waits for", before, counts[0]], ["Awaited by", after, counts[1]]];
    for (const [text, some, count] of sides) {
      links.append(make("h5", { text: `${text} ${count ? formatCount(count) : "nothing"}` }), ...some.map((link) => makeLink(link[1], () => reveal(link))));
      if (count > some.length) links.append(makeHint(`… and ${formatCount(count - some.length)} more`));
    }
  }
  show(null, null);
  return { element, show, fill };
}
