// @ts-check
// What a marked interval adds up to: time by state, lines and bytes by class, busiest links, phases.

import { createAsker } from "./asker.js";
import { formatBytes, formatCount, formatShare, formatTime } from "./format.js";
import { TRACK_COLOURS, TRACK_HEIGHTS, make, makeBarKey, makeButton, makeLink, makeRow } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createInterval(store, theme) {
  const heading = make("h4", { text: "Interval" });
  const which = make("select", { class: "anb-steps", "aria-label": "GPUs of the interval", onchange: () => store.emit("change") });
  const clear = makeButton("Clear", () => store.mark());
  const hint = make("p", { class: "anb-hint", text: "Drag over a timeline to mark an interval." });
  const body = make("div", { class: "anb-interval-body" });
  const element = make(
    "section", { class: "anb-interval", "aria-label": "Interval" }, make("div", { class: "anb-row" }, heading, which, clear), hint, body,
  );
  const asker = createAsker(store, "aggregate");
  let shown = "";

  store.on("scene", () => {
    which.replaceChildren(make("option", { value: "", text: "all GPUs" }), ...store.scene.gpus.map((_, rank) => make("option", { value: rank, text: `GPU${rank}` })));
    asker.forget();
    shown = "";
  });
  store.on("marked", () => store.show_panel("interval"));

  /** @param {number} n */
  const count = (n) => formatCount(Math.round(n));
  /** @param {string} caption @param {string[]} heads @param {[Node | string, ...string[]][]} rows */
  function table(caption, heads, rows) {
    return make(
      "table", { class: "anb-table" }, make("caption", { text: caption }),
      make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", text })))),
      make("tbody", {}, ...rows.map((row) => makeRow(...row))),
    );
  }
  /** @param {number} state @param {string} name */
  const key = (state, name) => makeBarKey(TRACK_COLOURS[state] ?? theme.faint, name, (TRACK_HEIGHTS[state] ?? 0.2) * 12);
  /** @param {string} text @param {string} path */
  const link = (text, path) => makeLink(text, () => store.select(path));

  /** @param {Answer<"aggregate">} found */
  function write(found) {
    const sum = found.names.map((name) => found.states.reduce((total, row) => total + row[name], 0));
    const states = found.names.map((name, state) => ({ state, name, ps: sum[state] })).filter(({ ps }) => ps > 0).sort((a, b) => b.ps - a.ps);
    const parts = [
      table("Time of SMs in use", ["state", "share", "SM time"], states.map(({ state, name, ps }) => [key(state, name), formatShare(found.shares[name]), formatTime(ps, 3)])),
      table("Lines on links", ["type · kind", "lines", "bytes", "wire time"], found.classes.map((row) => [`${row.type} · ${row.kind}`, count(row.lines), formatBytes(row.bytes), formatTime(row.busy_ps, 2)])),
      table(
        `Busiest links (of ${count(found.links.length + found.more_links)} that carried anything)`,
        ["link", "busy", "lines", "bytes", "queued"],
        found.links.slice(0, 40).map((row) => [link(row.link, row.link), formatShare(row.utilisation), count(row.lines), formatBytes(row.bytes), row.lines ? formatTime(row.queued_ps / row.lines, 2) : "0 ps"]),
      ),
      table("Phases", ["phase", "GPUs", "longest"], found.phases.map((row) => [row.phase, count(row.gpus), formatTime(row.time_ps, 3)])),
    ];
    if (found.states.length > 1) {
      const top = states.filter(({ name }) => name !== "idle").slice(0, 4);
      /** @param {(typeof found.states)[number]} row @param {string} name */
      const share = (row, name) => formatShare(row[name] / Math.max(1, row.tracks * (found.to - found.from)));
      parts.splice(1, 0, table(
        "GPUs", ["GPU", ...top.map(({ name }) => name)],
        found.states.map((row) => [link(`GPU${row.rank}`, `gpu[${row.rank}]`), ...top.map(({ name }) => share(row, name))]),
      ));
    }
    body.replaceChildren(...parts.map((part) => make("div", { class: "anb-interval-part" }, part)));
    const lost = found.from < found.oldest_ps ? `Lines before ${formatTime(found.oldest_ps, 3)} are no longer recorded and not counted.` : "";
    hint.textContent = lost;
    hint.hidden = !lost;
    element.dataset.from = String(found.from);
    element.dataset.to = String(found.to);
  }

  return {
    element,
    draw() {
      const { marked } = store;
      which.hidden = clear.hidden = body.hidden = !marked;
      if (!marked) {
        heading.textContent = "Interval";
        hint.textContent = "Drag over a timeline to mark an interval.";
        hint.hidden = false;
        shown = "";
        return;
      }
      // What has been marked may be simulated in part only, as after a step back.
      const [from, to] = marked.map((time) => Math.round(Math.min(time, store.frontier)));
      heading.textContent = `${formatTime(from, 4)} to ${formatTime(to, 4)} (${formatTime(to - from, 4)})`;
      const options = { from, to: Math.max(to, from + 1), ranks: which.value === "" ? null : [Number(which.value)] };
      asker.want(options, `${store.timeline?.number} ${JSON.stringify(options)}`);
      if (asker.error) {
        hint.textContent = asker.error;
        hint.hidden = false;
        return;
      }
      const { reply } = asker;
      const current = `${theme.version} ${reply?.id}`;
      if (!reply || shown === current) return;
      shown = current;
      write(reply);
    },
    destroy: asker.destroy,
  };
}
