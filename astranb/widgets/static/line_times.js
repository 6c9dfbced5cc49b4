// @ts-check
// Where the time went, beside the lines of the program: a bar of the thread blocks' time by state, and one of the
// critical path, up to the cursor.

import { createAsker, momentOf } from "./asker.js";
import { formatCount, formatShare, formatTime, plural } from "./format.js";
import { LIMIT_COLOUR, make, makeBarKey, makeLink, refill, settle, timeColour } from "./theme.js";

/** @import { Answer, LineTime, Store } from "./types" */

const EVERY_MS = 400;
const LEAST = 0.0005; // a smaller share is no number

/**
 * The margin of times, and its legend.
 * @param {Store} store
 * @param {() => Iterable<[string, HTMLElement]>} cells of the lines, by "part:line"
 * @param {(key: string) => void} reveal called once with the line that takes longest
 */
export function createLineTimes(store, cells, reveal) {
  const legend = make("div", { class: "anb-line-time-legend", role: "note", "aria-label": "Time by line" });
  const progress = make("span", { class: "anb-hint", role: "status", "aria-live": "polite" });
  let revealed = false; // `reveal` has been called
  let searching = false; // the critical path of a long run is wanted
  let refused = ""; // why there is none
  /** @type {Answer<"line_times"> | null} */
  let times = null;
  const asker = createAsker(store, "line_times", {
    every: EVERY_MS,
    answered(reply, error) {
      if (error && searching) {
        searching = false;
        refused = error.message;
        want();
        return;
      }
      times = error ? null : reply;
      show();
      if (error) return;
      const longest = reply.rows.toSorted((a, b) => b.path_ps - a.path_ps || b.block_ps - a.block_ps)[0];
      if (!revealed && longest && !reply.working) {
        revealed = true;
        reveal(`${longest.part}:${longest.line}`);
      }
      settle(progress, reply.working ? `critical path: ${Math.round(100 * (reply.progress ?? 0))}%` : refused);
      if (reply.working) {
        asker.again();
        want();
      }
    },
  });
  function want() {
    const { at_ps, key } = momentOf(store);
    const playing = store.state?.playing; // every picture would need a search of its own
    const options = playing ? { at_ps, path: false } : searching ? { at_ps, path: true } : { at_ps };
    asker.want(options, `${key} ${JSON.stringify(options)}`);
  }

  /** Draw what is known beside every line. */
  function show() {
    const about = times;
    const rows = new Map(about?.rows.map((row) => [`${row.part}:${row.line}`, row]));
    const most = Math.max(1e-9, ...[...rows.values()].map((row) => row.block_ps / Math.max(1, about?.block_ps ?? 1)));
    const longest = Math.max(1e-9, ...[...rows.values()].map((row) => row.path_ps / Math.max(1, about?.time_ps ?? 1)));
    for (const [key, cell] of cells()) {
      const row = rows.get(key);
      if (about && row) fill(cell, row, about, most, longest);
      else if (cell.childElementCount) empty(cell);
    }
    explain(about);
  }
  /** @param {HTMLElement} cell */
  function empty(cell) {
    cell.replaceChildren();
    cell.removeAttribute("title");
    cell.removeAttribute("aria-label");
  }
  /** @param {HTMLElement} cell @param {LineTime} row @param {Answer<"line_times">} found @param {number} most @param {number} longest */
  function fill(cell, row, found, most, longest) {
    const states = Object.entries(row.states).filter(([, ps]) => ps > 0);
    const block = row.block_ps / Math.max(1, found.block_ps);
    const path = Math.max(0, row.path_ps) / Math.max(1, found.time_ps);
    /** @type {(part: number, colour: string) => HTMLElement} */
    const stretch = (part, colour) => make("i", { style: `width: ${(100 * part).toFixed(2)}%; background: ${colour}` });
    const bars = make(
      "span", { class: "anb-line-time-bars", "aria-hidden": "true" },
      make("span", {}, ...states.map(([name, ps]) => stretch(ps / Math.max(1, found.block_ps) / most, timeColour(name) ?? "#999999"))),
      make("span", {}, ...(found.path ? [stretch(path / longest, LIMIT_COLOUR)] : [])),
    );
    const number = found.path ? path : block;
    const text = number < LEAST ? "" : formatShare(number);
    cell.replaceChildren(bars, make("span", { class: "anb-line-time-share", "aria-hidden": "true", text }));
    const spent = states.map(([name, ps]) => `${name} ${formatShare(ps / Math.max(1, row.block_ps))}`).join(", ");
    const lines = [
      `thread blocks: ${formatShare(block)} of their time (${formatTime(row.block_ps, 3)} together)${spent ? `: ${spent}` : ""}`,
      found.path ? `critical path: ${formatShare(path)} (${formatTime(row.path_ps, 3)} of ${formatTime(found.time_ps, 3)})` : "",
      `operations begun: ${formatCount(row.operations)}`,
    ];
    cell.title = lines.filter(Boolean).join("\n");
    cell.setAttribute("aria-label", cell.title);
    cell.setAttribute("role", "img");
  }
  /** @param {Answer<"line_times"> | null} about */
  function explain(about) {
    legend.hidden = !about;
    if (!about) return;
    const spent = Object.keys(about.rows[0]?.states ?? {}).filter((name) => about.rows.some(({ states }) => states[name] > 0));
    const keys = spent.map((name) => makeBarKey(timeColour(name) ?? "#999999", name));
    const search = makeLink("find the critical path", () => {
      searching = true;
      want();
    }, { title: `replays ${plural(about.events, "event")}` });
    const outside = formatShare(about.outside.block_ps / Math.max(1, about.block_ps));
    legend.title = [
      "Beside each line: above, the time of all thread blocks at it, by what they did; below, its part of the critical path.",
      `The number is its share ${about.path ? "of the critical path" : "of the time of all thread blocks"}; bars are as long as the longest.`,
      `${outside} of the thread blocks' time is at no line: before the first operation, or after the last.`,
    ].join("\n");
    refill(
      legend, ...keys,
      ...(about.path ? [makeBarKey(LIMIT_COLOUR, "critical path", 5)] : []),
      ...(about.path || about.working || !about.events || refused ? [] : [search]),
      progress,
    );
  }

  return {
    legend,
    draw: want,
    show,
    forget() {
      asker.forget();
      revealed = searching = false;
      times = null;
    },
    destroy: asker.destroy,
  };
}
