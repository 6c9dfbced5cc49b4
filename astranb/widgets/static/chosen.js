// @ts-check
// The point that is chosen: its values, how good it is, what limits it, and how to run it.

import { formatShare } from "./format.js";
import { MESSAGE_COLOURS, make, makeBarKey, makeButton, makeHint } from "./theme.js";

/** @import { PointDetail } from "./types" */
/** @import { Points } from "./points.js" */

/** @type {Record<string, string>} */
const COLOURS = { compute: "#0072b2", "exposed communication": "#e69f00", memory: "#cc79a7", idle: "#999999", "exposed bubble": "#8c8c8c" };

/** @param {Points} points @param {{ open: ((number: number) => void) | null, ask(number: number): void }} kernel */
export function createChosen(points, kernel) {
  const element = make("section", { class: "anb-chosen-point", "aria-label": "The chosen point", tabindex: "0" });
  /** @type {PointDetail | null} */
  let detail = null;
  let asked = "";
  let opening = -1;

  /** @param {PointDetail} found */
  function answered(found) {
    if (found.point !== points.chosen) return;
    detail = found;
    draw();
  }
  /** @param {number} number the point whose run is shown, or that could not be opened */
  function opened(number) {
    if (number === opening) opening = -1;
    draw();
  }
  function draw() {
    const { chosen, message, arrays, places } = points;
    if (chosen < 0) {
      const best = message?.best[0];
      element.replaceChildren(makeHint("Click a point in a picture: it is chosen in all of them."));
      if (best !== undefined) element.append(makeButton(`Choose the best point (${best})`, () => points.choose(best)));
      asked = "";
      return;
    }
    const place = places.get(chosen);
    const state = place === undefined ? "" : String(arrays.status[place]);
    if (asked !== `${chosen} ${state} ${message?.counts.done}`) {
      asked = `${chosen} ${state} ${message?.counts.done}`;
      kernel.ask(chosen);
    }
    if (detail?.point === chosen) element.replaceChildren(...parts(detail));
    else element.replaceChildren(make("h4", { text: `Point ${chosen}` }));
  }
  /** @param {PointDetail} found */
  function parts({ point, status, error, axes, figures, fidelity, limit, shares, command, rest }) {
    const heading = make("h4", { text: `Point ${point}${status === "done" ? "" : `: ${status}`}` });
    /** @type {HTMLElement[]} */
    const all = [heading];
    if (error) all.push(make("p", { class: "anb-failed", text: error }));
    if (kernel.open) {
      const { open } = kernel;
      const button = makeButton(opening === point ? "Opening…" : "Open", () => {
        opening = point;
        draw();
        open(point);
      }, { title: "show the run of this point in a workbench below" });
      button.disabled = opening === point || status === "failed";
      all.push(make("div", { class: "anb-row" }, button));
    }
    all.push(rows([...figures.map(([name, text, order]) => [name, order ? `${text} · ${order}` : text]), ...axes, ...(fidelity ? [["fidelity", fidelity]] : [])]));
    if (shares.length) all.push(make("h5", { text: "What limits this point" }), ...limits(shares, limit));
    all.push(make("h5", { text: "Run it" }), commandOf(command, rest));
    return all;
  }
  /** @param {string[][]} pairs */
  const rows = (pairs) => make(
    "table", { class: "anb-facts-table" },
    make("tbody", {}, ...pairs.map(([name, text]) => make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text })))),
  );
  /** @param {[string, number][]} shares @param {string} limit */
  function limits(shares, limit) {
    const words = shares.map(([name, share]) => `${named(name)} ${formatShare(share)}`);
    const bar = make("div", { class: "anb-shares", role: "img", "aria-label": words.join(", ") });
    bar.append(...shares.map(([name, share], k) => make("i", { style: `background: ${colourOf(name, k)}; flex-grow: ${share}`, title: words[k] })));
    const keys = make("div", { class: "anb-legend" }, ...shares.map(([name], k) => makeBarKey(colourOf(name, k), words[k])));
    const sentence = limit || `${named(shares[0][0])} takes most of the time (${formatShare(shares[0][1])})`;
    return [make("p", { text: sentence }), bar, keys];
  }
  /** @param {string} command @param {string[]} rest */
  function commandOf(command, rest) {
    const words = command.split(/ (?='?--)/);
    const code = make("pre", { class: "anb-command" }, ...words.flatMap((text, k) => [k ? " " : "", make("span", { text })]));
    const copy = makeButton("Copy", async () => {
      try {
        await navigator.clipboard.writeText(command);
        copy.textContent = "Copied";
      } catch {
        getSelection()?.selectAllChildren(code); // no right to the clipboard: it is selected instead
      }
    });
    const more = rest.length ? [makeHint(`after these changes: ${rest.join("; ")}`)] : [];
    return make("div", {}, code, ...more, copy);
  }
  return { element, draw, answered, opened };
}

/** @param {string} name */
const named = (name) => (name === "exposed comm" ? "exposed communication" : name);
/** @param {string} name @param {number} k */
const colourOf = (name, k) => COLOURS[named(name)] ?? MESSAGE_COLOURS[(k + 3) % MESSAGE_COLOURS.length];
