// @ts-check
// The schedule of a synthesised algorithm: links over time, and which chunk each of them carries.

import { formatTime } from "./format.js";
import { RANK_COLOURS, channels, inkOn, make } from "./theme.js";

/**
 * Times in ps. A send: number of the link, start, end on the wire, arrival, chunk, slice, whether it is a sum.
 * @typedef {{ end: number, bound: number, slices: number, links: [number, number][], sends: [number, number, number, number, number, number, boolean][] }} Schedule
 */

/** A picture that is drawn again for each schedule. */
export function createSchedule() {
  const rows = make("div", { class: "anb-schedule-rows", tabindex: "0", role: "region", "aria-label": "Links over time" });
  const axis = make("div", { class: "anb-schedule-row anb-schedule-axis" });
  const element = make("details", { class: "anb-schedule", open: "" }, make("summary", { text: "Schedule: which chunk each link carries (+: a sum; pale: on its way, the link is free)" }), axis, rows);

  /** @param {Schedule | Record<string, never>} schedule empty: there is none */
  function draw(schedule) {
    element.hidden = !schedule.links;
    if (!schedule.links) {
      rows.replaceChildren();
      return;
    }
    const at = (/** @type {number} */ ps) => `${((100 * ps) / schedule.end).toFixed(3)}%`;
    const tracks = schedule.links.map(() => make("div", { class: "anb-schedule-track" }));
    for (const [link, start, sent, arrival, chunk, slice, sum] of schedule.sends) {
      const [from, to] = schedule.links[link];
      const colour = RANK_COLOURS[chunk % RANK_COLOURS.length];
      const name = schedule.slices > 1 ? `${chunk}.${slice}` : String(chunk);
      const wire = `${((100 * (sent - start)) / (arrival - start)).toFixed(1)}%`;
      tracks[link].append(
        make("div", {
          class: "anb-schedule-send",
          text: sum ? `+${name}` : name,
          title: `GPU${from} to GPU${to}: ${sum ? "sum of " : ""}chunk ${name}, sent from ${formatTime(start)} to ${formatTime(sent)}, there at ${formatTime(arrival)}`,
          style: `left: ${at(start)}; width: ${at(arrival - start)}; color: ${inkOn(channels(colour))}; background: linear-gradient(to right, ${colour} ${wire}, color-mix(in srgb, ${colour} 55%, var(--anb-tail)) ${wire})`,
        }),
      );
    }
    const late = schedule.bound > 0.75 * schedule.end; // no room for both labels
    const times = [`bound ${formatTime(schedule.bound, 3)}`, ...(late ? [`end ${formatTime(schedule.end, 3)}`] : [])];
    axis.replaceChildren(
      make("span", { class: "anb-schedule-link", text: "from → to" }),
      make(
        "div",
        { class: "anb-schedule-track" },
        make("span", { text: "0" }),
        make("div", { class: "anb-schedule-bound", style: `left: ${at(Math.min(schedule.bound, schedule.end))}`, text: times.join(", ") }),
        make("span", { class: "anb-schedule-end", text: late ? "" : `end ${formatTime(schedule.end, 3)}` }),
      ),
    );
    rows.replaceChildren(
      ...schedule.links.map(([from, to], k) => make("div", { class: "anb-schedule-row" }, make("span", { class: "anb-schedule-link", text: `${from} → ${to}` }), tracks[k])),
    );
  }
  return { element, draw };
}
