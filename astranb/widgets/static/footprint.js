// @ts-check
// What a rank holds in memory over time, stacked by what it is for, and below in numbers: at the cursor and at its fullest
// moment. It is the selected rank, else the fullest one (views/footprint.py).

import { formatTime } from "./format.js";
import { createMoment } from "./moment.js";
import { GUTTER, RULER, createTracks } from "./navigation.js";
import { LIMIT_COLOUR, MEMORY_COLOURS, make, makeBarKey, makeHint, makeLink, makeRow, settle } from "./theme.js";

/** @import { Context, CreateView, MemoryChart, Reply, Scale, Spot, Tracks } from "./types" */

const COLUMN_PX = 1.5; // of changes that are closer the fullest is drawn
const HALO = 3; // px around words on areas
const LINE = 18; // px of words

/** @type {CreateView} */
export function createFootprint(store, theme) {
  const title = make("h4", {});
  /** @type {Tracks<"footprint">} */
  const panel = createTracks(store, theme, "footprint", {
    label: "GPU memory", about: "What a rank holds in memory over time", name: "anb-footprint", ruler: RULER, title,
    height: () => panel.room, want, gutter, rows, drawn, textAt,
    clicked: (event) => void (event.offsetX >= GUTTER && store.scrub(Math.round(panel.scale().t(event.offsetX)))),
    chosen() {},
  });
  const hint = makeHint("");
  const moment = createMoment(store, () => panel.asker.reply?.at_ps);
  const head = make("tr", {});
  const body = make("tbody", {});
  const table = make("div", { class: "anb-footprint-table" }, make("table", { class: "anb-table", "aria-label": "Memory by what it is for" }, make("thead", {}, head), body));
  panel.element.append(table, hint);
  /** @type {Reply<"footprint"> | null} the answer that the table shows */
  let tabled = null;

  const chartOf = () => panel.asker.reply?.chart ?? null;
  /** The bytes by parts from a recorded moment on. @param {Reply<"footprint">} reply @param {number} k */
  const heldFrom = ({ arrays: { time, held } }, k) => (chartOf()?.parts ?? []).map((_, part) => held[part * time.length + k]);
  /** The last recorded moment up to a time; -1: there is none. @param {Reply<"footprint">} reply @param {number} at */
  const momentAt = ({ arrays: { time } }, at) => time.findLastIndex((since) => since <= at);
  /** @param {number[]} parts */
  const sum = (parts) => parts.reduce((all, one) => all + one, 0);
  /** Bytes in the unit of a chart. @param {MemoryChart} chart @param {number} bytes */
  const inUnit = ({ unit }, bytes) => (bytes / unit[0]).toFixed(1);
  /** @param {MemoryChart} chart @param {number} bytes */
  const size = (chart, bytes) => `${inUnit(chart, bytes)} ${chart.unit[1]}`;
  /** @param {MemoryChart} chart @param {number} bytes */
  const y = (chart, bytes) => panel.room * (1 - bytes / chart.top_bytes);

  /** @param {Scale} scale */
  function want(scale) {
    const rank = store.selection.match(/^rank\[(\d+)\]/)?.[1];
    panel.want(scale, COLUMN_PX, { rank: rank ? Number(rank) : null, at_ps: store.following ? null : store.cursor });
  }

  /** @param {Context} context */
  function gutter(context) {
    const chart = chartOf();
    context.fillStyle = theme.panel;
    context.fillRect(GUTTER, 0, panel.width - GUTTER, panel.room);
    if (!chart) return;
    context.font = `10px ${theme.font}`;
    context.textAlign = "right";
    chart.ticks.forEach((bytes, k) => {
      const at = Math.round(y(chart, bytes));
      context.fillStyle = theme.faint;
      context.fillRect(GUTTER, at, panel.width - GUTTER, 1);
      context.fillStyle = theme.dim;
      context.fillText(k ? `${Number((bytes / chart.unit[0]).toPrecision(6))}` : chart.unit[1], GUTTER - 5, Math.min(panel.room - 6, at));
    });
    drawLimit(context, chart);
  }
  /** @param {Context} context @param {MemoryChart} chart */
  function drawLimit(context, chart) {
    if (!chart.shows_limit) return;
    const at = y(chart, chart.limit_bytes);
    for (const [colour, thick] of /** @type {[string, number][]} */ ([[theme.back, 4], [LIMIT_COLOUR, 2]])) {
      context.fillStyle = colour;
      context.fillRect(GUTTER, Math.round(at) - thick / 2, panel.width - GUTTER, thick);
    }
    context.textAlign = "left";
    write(context, `the GPU has ${size(chart, chart.limit_bytes)}`, GUTTER + 4, Math.max(LINE / 2 - 2, at - LINE / 2));
  }
  /** Words that can be read on any area. @param {Context} context @param {string} text @param {number} x @param {number} at */
  function write(context, text, x, at) {
    context.font = `11px ${theme.font}`;
    context.strokeStyle = theme.back;
    context.lineWidth = HALO;
    context.lineJoin = "round";
    context.strokeText(text, x, at);
    context.fillStyle = theme.ink;
    context.fillText(text, x, at);
  }
  /** @param {Context} context @param {Scale} scale */
  function rows(context, scale) {
    const { reply } = panel.asker;
    const chart = chartOf();
    if (!reply || !chart) return;
    const { time, held } = reply.arrays;
    const places = Array.from(time, (at) => Math.max(GUTTER, scale.x(at)));
    const end = scale.x(Math.min(reply.to, reply.now_ps));
    // From the sum of all down to the lowest: each area hides what is below its line.
    const upper = Float64Array.from(time, (_, k) => sum(chart.parts.map((_name, part) => held[part * time.length + k])));
    for (let part = chart.parts.length - 1; part >= 0; part--) {
      context.beginPath();
      context.moveTo(places[0], panel.room);
      places.forEach((x, k) => {
        context.lineTo(x, y(chart, upper[k]));
        context.lineTo(places[k + 1] ?? end, y(chart, upper[k]));
      });
      context.lineTo(end, panel.room);
      context.fillStyle = MEMORY_COLOURS[chart.parts[part]] ?? theme.dim;
      context.fill();
      for (let k = 0; k < time.length; k++) upper[k] -= held[part * time.length + k];
    }
    drawLimit(context, chart);
    drawPeak(context, scale, chart);
  }
  /** @param {Context} context @param {Scale} scale @param {MemoryChart} chart */
  function drawPeak(context, scale, chart) {
    const [x, top] = [scale.x(chart.peak_ps), y(chart, sum(chart.peak))];
    const seen = scale.x(store.playing ? store.cursor : store.frontier);
    if (x > seen) return; // of a recording, which knows what comes
    const text = `peak ${size(chart, sum(chart.peak))} at ${formatTime(chart.peak_ps, 3)}`;
    context.font = `11px ${theme.font}`;
    const right = x + context.measureText(text).width + 10 < Math.min(seen, panel.width);
    context.fillStyle = theme.ink;
    context.strokeStyle = theme.back;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, top, 4, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    context.textAlign = right ? "left" : "right";
    const above = top - LINE > (chart.shows_limit ? y(chart, chart.limit_bytes) : 0);
    write(context, text, x + (right ? 8 : -8), Math.min(panel.room - LINE / 2, top + (above ? -LINE / 2 : LINE / 2)));
  }

  function drawn() {
    const { reply, error } = panel.asker;
    const chart = chartOf();
    Object.assign(panel.element.dataset, { rank: String(chart?.rank ?? ""), known: String(Boolean(chart) || !reply), asked: String(panel.asker.open) });
    settle(hint, error || (reply?.absent ?? ""));
    if (tabled === reply) return;
    tabled = reply;
    settle(title, chart ? `Memory of rank ${chart.rank} (stage ${chart.stage})${reply?.options.rank === null ? ", the fullest: select a rank to see its own" : ""}` : "GPU memory");
    const over = chart && chart.limit_bytes > 0 && sum(chart.peak) > chart.limit_bytes;
    settle(panel.note, [over ? "more than the GPU has" : "", reply?.exact === false ? "of many changes the fullest moments" : ""].filter(Boolean).join(" · "));
    if (!reply || !chart) return;
    // A recording holds all changes: what is held at the cursor is among them.
    const known = reply.columns ? -1 : momentAt(reply, reply.at_ps ?? 0);
    fill(chart, known < 0 ? chart.at : heldFrom(reply, known));
  }
  /** @param {MemoryChart} chart @param {number[]} now what is held at the cursor */
  function fill(chart, now) {
    const { parts, limit_bytes: limit, unit } = chart;
    const names = parts.map((name) => makeBarKey(MEMORY_COLOURS[name] ?? theme.dim, name));
    const heads = [unit[1], ...names, "in all", ...(limit ? [`of ${inUnit(chart, limit)}`] : [])];
    head.replaceChildren(...heads.map((one) => make("th", { scope: "col" }, one)));
    /** @param {Node} name @param {number[]} bytes */
    const row = (name, bytes) => {
      const all = sum(bytes);
      return makeRow(name, ...[...bytes, all].map((one) => inUnit(chart, one)), ...(limit ? [`${((100 * all) / limit).toFixed(0)}%`] : []));
    };
    const peak = makeLink(`peak at ${formatTime(chart.peak_ps, 3)}`, () => store.scrub(chart.peak_ps), { title: "move the cursor there" });
    body.replaceChildren(row(moment, now), row(peak, chart.peak));
  }
  /** @param {Spot} at */
  function textAt(at) {
    const { reply } = panel.asker;
    const chart = chartOf();
    const time = panel.scale().t(at.offsetX);
    if (!reply || !chart || at.offsetX < GUTTER || time > Math.min(reply.now_ps, store.frontier) || time > reply.to) return "";
    const k = momentAt(reply, time);
    if (k < 0) return "";
    const bytes = heldFrom(reply, k);
    const words = chart.parts.map((name, part) => `${name} ${inUnit(chart, bytes[part])}`);
    return [formatTime(time, 3), ...words, `in all ${size(chart, sum(bytes))}`].join(" · ");
  }
  return panel;
}
