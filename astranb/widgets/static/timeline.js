// @ts-check
// What SMs, thread blocks or phases did when: a band for each GPU, folded or lane by lane.
// Only what is in sight is asked for (_spans.py), as spans or as density; only that is drawn.

import { createAsker } from "./asker.js";
import { paintDensity, recordedSpans, rowStarts, sharesAt } from "./density.js";
import { formatCount, formatTime } from "./format.js";
import { GUTTER, RULER, createSight, drawClocks, drawRuler, navigate, scaleOf, scrollOf, stretch, windowAround } from "./navigation.js";
import { drawPathOverTime } from "./path.js";
import { gpuOf } from "./selection.js";
import { LANE_COLOURS, LANE_HEIGHTS, PHASE_COLOURS, fit, make, settle } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Answer, Answers, Columns, Context, Reply, Scale, Spot, Store, Theme } from "./types" */

const ROOM = 420; // px: what is beyond scrolls
const LANE = 11;
const HEIGHT = 10; // of a lane's picture
const FOLD = 26;
const LEAST_FOLD = 14;
const GAP = 3;
const COLUMN_PX = 2.5; // of density
const KINDS = /** @type {const} */ ([
  ["sms", "SM lanes"],
  ["blocks", "Thread blocks"],
  ["phases", "Phases"],
]);

/** @typedef {(typeof KINDS)[number][0]} Kind */
/** @typedef {{ gpu: number, lane: number, top: number, height: number }} Item lane -1: folded */
/**
 * An answer, ready to be drawn: images of what is density, places of what is spans.
 * @typedef {Pick<Columns<"spans">, "row" | "state" | "start" | "end"> & {
 *   source: object, theme: number, folds: Map<number, number>, lanes: Map<number, number>, starts: Uint32Array,
 *   foldHeight: number, fold?: HTMLCanvasElement, lane?: HTMLCanvasElement,
 *   reply: Answers["spans"], shares: Uint8Array }} Shown
 */

/**
 * @param {Store} store
 * @param {Theme} theme
 */
export function createTimeline(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas anb-sticky", role: "img", "aria-label": "What every SM, thread block or phase did when" });
  const tip = createTip(canvas, textAt);
  const legend = make("div", { class: "anb-legend" });
  const note = make("span", { class: "anb-note" });
  const spacer = make("div");
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, spacer, tip.element);
  const buttons = KINDS.map(([kind, words]) =>
    make("button", { type: "button", class: "anb-tab", text: words, "data-kind": kind, onclick: () => choose(kind) }),
  );
  const element = make(
    "section", { class: "anb-timeline", "aria-label": "SM timeline" },
    make("div", { class: "anb-row" }, make("div", { class: "anb-tabs", role: "group", "aria-label": "Rows" }, ...buttons), legend, note),
    holder,
  );
  const asker = createAsker(store, "spans");
  const scroll = scrollOf(store, holder);
  const sight = createSight(store);
  const words = createAsker(store, "moment");
  /** @type {Set<number>} */
  const opened = new Set();
  /** @type {Kind} */
  let kind = "sms";
  /** @type {Answer<"rows"> | null} */
  let rows = null;
  let width = 0;
  /** @type {Item[]} */
  let items = [];
  let full = 0; // height of all of them
  let selected = "";
  /** @type {Set<number>} */
  let seen = new Set(); // states that the legend names
  /** @type {Shown | null} the last answer */
  let picture = null;
  let fresh = true; // another kind of rows has been chosen

  store.on("scene", () => {
    store.ask("rows").then(
      (answer) => {
        rows = answer;
        layOut();
        store.emit("change");
      },
      () => {},
    );
    asker.forget();
    choose(kind);
  });

  /** @param {Kind} which */
  function choose(which) {
    kind = which;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    seen = new Set();
    picture = null;
    fresh = true;
    asker.forget();
    layOut();
    store.emit("change");
  }

  function layOut() {
    items = [];
    if (!rows || !store.ready) return;
    const fold = Math.min(FOLD, Math.max(LEAST_FOLD, Math.floor(ROOM / rows.gpus) - GAP));
    /** @type {number[][]} */
    const of = Array.from({ length: rows.gpus }, () => []);
    if (kind === "phases") for (const lanes of of) store.scene.phases.forEach((_, phase) => lanes.push(phase));
    else rows[kind].gpu.forEach((gpu, lane) => of[gpu].push(lane));
    let top = 0;
    for (let gpu = 0; gpu < rows.gpus; gpu++) {
      items.push({ gpu, lane: -1, top, height: fold });
      top += fold;
      if (opened.has(gpu)) {
        for (const lane of of[gpu]) {
          items.push({ gpu, lane, top: top + 1, height: HEIGHT });
          top += LANE;
        }
      }
      top += GAP;
    }
    full = top;
  }

  /** Rows in sight. */
  function visible() {
    const from = scroll.top;
    const to = from + ROOM;
    return items.filter((item) => item.top + item.height > from && item.top < to);
  }

  /** @param {Scale} scale @param {Item[]} shown */
  function ask(scale, shown) {
    if (!rows || !store.timeline) return;
    const folds = [...new Set(shown.filter((i) => i.lane < 0 || kind === "phases").map((i) => i.gpu))];
    const lanes = kind === "phases" ? [] : shown.filter((i) => i.lane >= 0).map((i) => i.lane);
    const options = { kind, ...windowAround(scale, width, COLUMN_PX), folds, lanes };
    asker.want(options, `${store.timeline.number} ${JSON.stringify(options)}`);
  }

  /** Make an answer ready to be drawn. @param {Reply<"spans">} reply */
  function read(reply) {
    if (picture?.source === reply && picture.theme === theme.version) return;
    const { folds, lanes } = /** @type {{ folds: number[], lanes: number[] }} */ (reply.options);
    const { fold_shares: shares, lane_shares, row, state, start, end } = reply.arrays;
    const [foldHeight, phases] = [items[0]?.height ?? FOLD, reply.kind === "phases"];
    picture = {
      source: reply, reply, theme: theme.version, shares, foldHeight, row, state, start, end,
      folds: new Map(folds.map((gpu, k) => [gpu, k])), lanes: new Map(lanes.map((lane, k) => [lane, k])),
      starts: rowStarts(row, phases ? folds.length : lanes.length),
    };
    if (!phases) picture.fold = paintDensity(shares, reply.present, folds.length, reply.columns, foldHeight, LANE_COLOURS);
    if (reply.drawn === "density") {
      picture.lane = paintDensity(lane_shares, reply.present, lanes.length, reply.columns, HEIGHT, LANE_COLOURS);
    }
    const before = seen.size;
    for (const one of reply.present) seen.add(one);
    if (!phases) for (const one of state) seen.add(one);
    if (seen.size !== before || fresh) drawLegend();
    fresh = false;
  }

  /** A recorded page has no kernel to ask: what it has is the spans of thread blocks. */
  function readRecorded() {
    const line = store.timeline;
    if (!line?.what.length || (picture?.source === line && picture.theme === theme.version)) return;
    if (kind !== "blocks") choose("blocks");
    for (const button of buttons) button.disabled = button.dataset.kind !== "blocks";
    const found = recordedSpans(line);
    picture = {
      ...found, source: line, theme: theme.version, folds: new Map(), lanes: new Map(store.scene.blocks.map((_, lane) => [lane, lane])),
      reply: { kind: "blocks", from: 0, to: line.now_ps, now_ps: line.now_ps, columns: 0, drawn: "spans", count: found.row.length, folded: 0, present: [] },
      shares: new Uint8Array(0), foldHeight: FOLD,
      starts: rowStarts(found.row, store.scene.blocks.length),
    };
    store.scene.blocks.forEach((gpu) => opened.add(gpu));
    seen = new Set(found.state);
    layOut();
    drawLegend();
  }

  function drawLegend() {
    const states = rows?.states ?? [];
    const keys = kind === "phases" ? [] : [...seen].sort((a, b) => a - b);
    legend.replaceChildren(
      ...keys.map((state) =>
        make("span", { class: "anb-key" }, make("i", {
          class: "anb-bar", style: `--anb-colour: ${LANE_COLOURS[state]}; --anb-height: ${LANE_HEIGHTS[state] * 12}px`,
        }), states[state]),
      ),
    );
    if (kind === "phases") legend.replaceChildren(make("span", { text: "from the first start of a phase on a GPU to its last end" }));
  }

  function draw() {
    if (!store.ready || !width) return;
    if (selected !== store.selection) {
      selected = store.selection;
      const gpu = gpuOf(store, selected);
      if (gpu >= 0) opened.add(gpu);
      layOut();
    }
    const height = Math.min(ROOM, full) + RULER;
    stretch(canvas, spacer, height, full + RULER);
    const scale = scaleOf(store, width);
    if (sight(scale, kind, asker.reply?.id, store.timeline?.number, scroll.top, theme.version, width, height)) return;
    const shown = visible();
    if (asker.error) readRecorded();
    else ask(scale, shown);
    if (asker.reply?.kind === kind) read(asker.reply);
    const context = fit(canvas, width, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(0, RULER, width, height - RULER);
    context.clip();
    context.translate(0, RULER - scroll.top);
    drawGutter(context, shown);
    context.beginPath();
    context.rect(GUTTER, scroll.top, width - GUTTER, ROOM);
    context.clip();
    if (picture) for (const item of shown) drawItem(context, item, scale);
    outline(context, shown);
    context.restore();
    drawPathOverTime(context, store, theme, { scale, left: GUTTER, width, rowAt });
    drawRuler(context, theme, scale, width);
    drawClocks(context, store, theme, scale, width, RULER, height, true);
    showCounts();
  }

  /**
   * Where a thread block is on the screen: its own lane or its SM's, or its GPU's band; null where that is out of sight.
   * @param {number} block
   * @param {number} sm
   */
  function rowAt(block, sm) {
    const gpu = store.scene.blocks[block];
    /** @param {number} lane */
    const holds = (lane) => (kind === "blocks" ? lane === block : kind === "sms" && rows?.sms.number[lane] === sm && !rows.sms.engine[lane]);
    const mine = items.filter((item) => item.gpu === gpu);
    const item = mine.find(({ lane }) => lane >= 0 && holds(lane)) ?? mine.find(({ lane }) => lane < 0);
    if (!item) return null;
    const top = item.top + RULER - scroll.top;
    return top + item.height <= RULER || top >= ROOM + RULER ? null : { top, height: item.height };
  }

  function showCounts() {
    const { count = 0, folded = 0, drawn = "" } = picture?.reply ?? {};
    const things = kind === "phases" ? "phases" : "spans";
    const all = drawn === "density" || !count ? count + folded : count; // of one kind
    let text = picture ? `${formatCount(all)} ${things}${all > count || drawn === "density" ? ", drawn as density" : ""}` : "";
    if (folded && all === count) text += ` · ${formatCount(folded)} more in folded GPUs, as density`;
    settle(note, text);
    element.dataset.drawn = picture?.reply.drawn ?? "";
    element.dataset.kind = kind;
    element.dataset.asked = String(asker.open);
    element.dataset.from = String(picture?.reply.from ?? "");
    element.dataset.to = String(picture?.reply.to ?? "");
    element.dataset.number = String(store.timeline?.number ?? "");
  }

  /** @param {Context} context @param {Item[]} shown */
  function drawGutter(context, shown) {
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const { gpu, lane, top, height } of shown) {
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, top, width - GUTTER, height);
      context.fillStyle = lane < 0 ? theme.ink : theme.dim;
      const middle = top + height / 2 + 0.5;
      if (lane < 0) {
        context.font = `12px ${theme.font}`;
        context.fillText(`${opened.has(gpu) ? "▾" : "▸"}GPU${gpu}`, 3, middle);
      } else {
        context.font = `10px ${theme.font}`;
        context.fillText(nameOf(lane), 16, middle, GUTTER - 18);
      }
    }
  }
  /** @param {number} lane */
  function nameOf(lane) {
    if (kind === "phases" || !rows) return `phase ${lane + 1}`;
    const number = rows[kind].number[lane];
    if (kind === "blocks") return `block ${number}`;
    return rows.sms.engine[lane] ? "copy engine" : `sm.${number}`;
  }

  /** @param {Context} context @param {Item} item @param {Scale} scale */
  function drawItem(context, item, scale) {
    if (!picture) return;
    const { reply } = picture;
    const [x0, x1] = [scale.x(reply.from), scale.x(reply.to)];
    if (reply.kind === "phases") {
      drawPhases(context, item, scale);
      return;
    }
    if (item.lane < 0) {
      const k = picture.folds.get(item.gpu);
      if (k === undefined || !picture.fold) return;
      context.imageSmoothingEnabled = false;
      context.drawImage(picture.fold, 0, k * picture.foldHeight, reply.columns, picture.foldHeight, x0, item.top, x1 - x0, item.height);
      return;
    }
    const k = picture.lanes.get(item.lane);
    if (k === undefined) return;
    if (picture.lane) {
      context.imageSmoothingEnabled = false;
      context.drawImage(picture.lane, 0, k * HEIGHT, reply.columns, HEIGHT, x0, item.top, x1 - x0, item.height);
      return;
    }
    for (let n = picture.starts[k]; n < picture.starts[k + 1]; n++) {
      const state = picture.state[n];
      const tall = item.height * LANE_HEIGHTS[state];
      const x = scale.x(picture.start[n]);
      context.fillStyle = LANE_COLOURS[state];
      context.fillRect(x, item.top + item.height - tall, Math.max(0.6, scale.x(picture.end[n]) - x), tall);
    }
  }

  /** @param {Context} context @param {Item} item @param {Scale} scale */
  function drawPhases(context, item, scale) {
    const k = picture?.folds.get(item.gpu);
    if (!picture || k === undefined) return;
    context.textBaseline = "middle";
    context.font = `10px ${theme.font}`;
    for (let n = picture.starts[k]; n < picture.starts[k + 1]; n++) {
      const phase = picture.state[n];
      if (item.lane >= 0 && item.lane !== phase) continue;
      // Blocks are not in step: phases that follow each other overlap, and take turns in two rows.
      const half = item.lane < 0 ? item.height / 2 : item.height;
      const top = item.top + (item.lane < 0 ? (phase % 2) * half : 0);
      const [x, to] = [Math.max(GUTTER - 2, scale.x(picture.start[n])), Math.min(width + 2, scale.x(picture.end[n]))];
      const [fill, ink] = PHASE_COLOURS[phase % PHASE_COLOURS.length];
      context.fillStyle = fill;
      context.fillRect(x, top, Math.max(0.6, to - x - 0.5), half - 1);
      const text = store.scene.phases[phase];
      if (half < 9 || to - x < context.measureText(text).width + 8) continue;
      context.fillStyle = ink;
      context.fillText(text, x + 4, top + half / 2);
    }
  }

  /**
   * The selected GPU, SM or thread block.
   * @param {Context} context
   * @param {Item[]} shown
   */
  function outline(context, shown) {
    const gpu = gpuOf(store, store.selection);
    const part = store.selection.match(/\.(sm|block)\.(\d+)$/);
    const wanted = part?.[1] === "sm" ? "sms" : "blocks";
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    for (const item of shown) {
      if (item.gpu !== gpu) continue;
      const here = item.lane < 0 ? !part : part && kind === wanted && rows?.[kind].number[item.lane] === Number(part[2]);
      if (here) context.strokeRect(GUTTER + 0.75, item.top, width - GUTTER - 1.5, item.height);
    }
  }

  /** @param {Spot} event */
  function hit(event) {
    if (!store.ready || event.offsetY < RULER) return null;
    const y = event.offsetY - RULER + scroll.top;
    return items.find((item) => y >= item.top && y < item.top + item.height) ?? null;
  }
  canvas.addEventListener("pointermove", (event) => {
    const item = hit(event);
    store.hovering(item ? `gpu[${item.gpu}]` : "");
  });
  /** @param {Spot} at */
  function textAt(at) {
    const item = hit(at);
    if (!item) return "";
    const { gpu, lane } = item;
    const parts = [`GPU${gpu}`];
    if (lane >= 0) parts.push(kind === "phases" ? store.scene.phases[lane] : nameOf(lane));
    if (at.offsetX >= GUTTER) {
      const time = Math.round(scaleOf(store, width).t(at.offsetX));
      const wanted = { kind, lane: kind === "phases" ? gpu : lane, time };
      const about = JSON.stringify(wanted);
      if (lane >= 0 || kind === "phases") words.want(wanted, about);
      parts.push(formatTime(time, 3));
      if (words.reply?.text && words.reply.about === about) parts.push(words.reply.text);
      else if (lane < 0) parts.push(...statesAt(gpu, time));
    }
    return parts.join(" · ");
  }
  store.on("change", tip.write);
  /** The states of a folded GPU's lanes at a time. @param {number} gpu @param {number} time */
  function statesAt(gpu, time) {
    const row = picture?.folds.get(gpu);
    if (!picture || !rows || row === undefined || picture.reply.kind === "phases") return [];
    return sharesAt(picture.reply, picture.shares, picture.folds.size, row, time, rows.states);
  }
  canvas.addEventListener("pointerleave", () => store.hovering(""));
  navigate(canvas, store, {
    clicked(event) {
      const item = hit(event);
      if (!item) return;
      if (item.lane < 0 && event.offsetX < 16) {
        if (!opened.delete(item.gpu)) opened.add(item.gpu);
        layOut();
        store.emit("change");
      } else if (item.lane < 0 || kind === "phases" || !rows || (kind === "sms" && rows.sms.engine[item.lane])) store.select(`gpu[${item.gpu}]`);
      else store.select(`gpu[${item.gpu}].${kind === "sms" ? "sm" : "block"}.${rows[kind].number[item.lane]}`);
    },
  });

  return {
    element,
    draw,
    resize: () => (width = canvas.clientWidth),
    destroy() {
      asker.destroy();
      words.destroy();
    },
  };
}
