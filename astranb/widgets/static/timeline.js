// @ts-check
// What SMs, thread blocks or phases did when: a band for each GPU, folded or row by row. Of recorded traces
// (views/recorded.py) a band for each rank, and its threads and streams.
// Only what is in sight is asked for (views/timeline.py), as spans or as density; only that is drawn.

import { createAsker } from "./asker.js";
import { paintDensity, recordedSpans, rowStarts, sharesAt } from "./density.js";
import { formatCount, formatTime, plural } from "./format.js";
import { GUTTER, RULER, createTracks, drawPin, orderOf } from "./navigation.js";
import { drawPathOverTime } from "./path.js";
import { shortened } from "./scales.js";
import { gpuOf } from "./selection.js";
import { RECORDED_COLOURS, TRACK_COLOURS, TRACK_HEIGHTS, PHASE_COLOURS, channels, inkOn, make, makeBarKey, settle } from "./theme.js";

/** @import { Answer, Answers, Columns, Context, CreateView, Reply, Scale, Spot, Tracks } from "./types" */

const FOLD = 26;
const LEAST_FOLD = 14;
const GAP = 3;
const COLUMN_PX = 2.5; // of density
const KINDS = /** @type {const} */ ([
  ["sms", "SMs"],
  ["blocks", "Thread blocks"],
  ["phases", "Phases"],
]);
/** @typedef {"sms" | "blocks" | "tracks"} Tables */
const FEW = 16; // rows of recorded traces that are opened at once
const LABEL = 34; // px of a span with a name

/** @typedef {{ gpu: number, track: number, top: number, height: number }} Item track -1: folded */
/**
 * An answer, ready to be drawn: images of what is density, places of what is spans.
 * @typedef {Pick<Columns<"spans">, "row" | "state" | "start" | "end"> & { label?: Uint32Array,
 *   source: object, theme: number, folds: Map<number, number>, tracks: Map<number, number>, starts: Uint32Array,
 *   foldHeight: number, fold?: HTMLCanvasElement, track?: HTMLCanvasElement,
 *   reply: Answers["spans"], shares: Uint8Array }} Shown
 */

/** @type {CreateView} */
export function createTimeline(store, theme) {
  const recorded = store.engine === "trace";
  const [COLOURS, HEIGHTS] = recorded ? [RECORDED_COLOURS, RECORDED_COLOURS.map(() => 1)] : [TRACK_COLOURS, TRACK_HEIGHTS];
  const [TRACK, HEIGHT] = recorded ? [17, 16] : [11, 10]; // of a row, and of its picture
  const owner = recorded ? "rank " : "GPU";
  const words = createAsker(store, "moment");
  /** @type {Set<number>} */
  const opened = new Set();
  /** @type {Answer<"rows"> | null} */
  let rows = null;
  /** @type {Item[]} */
  let items = [];
  let full = 0; // height of all of them
  let held = 0; // of those that are pinned
  /** @type {unknown} */
  let pins; // that they were laid out for
  let room = 0; // px that they were laid out for
  let selected = "";
  /** @type {Set<number>} */
  let seen = new Set(); // states that the legend names
  /** @type {Shown | null} the last answer */
  let picture = null;
  let fresh = true; // another kind of rows has been chosen
  /** @type {Tracks<"spans">} */
  const panel = createTracks(store, theme, "spans", {
    label: recorded ? "Timeline of traces" : "SM timeline", name: "anb-timeline", ruler: RULER,
    about: recorded ? "What every thread and stream did when" : "What every SM, thread block or phase did when",
    ...(recorded ? { kinds: [["tracks", "Threads and streams"]] } : { kinds: KINDS }),
    height, pinned: () => held, rankAt,
    want, gutter, rows: drawRows, drawn, textAt, clicked, chosen,
    known: () => picture && [picture.reply.from, Math.min(picture.reply.to, picture.reply.now_ps)],
  });
  /** Thread blocks of a GPU, SMs, or nothing where rows are phases. */
  const table = () => (panel.kind === "phases" ? null : (rows?.[/** @type {Tables} */ (panel.kind)] ?? null));

  const names = createAsker(store, "rows", {
    answered(answer, error) {
      if (error) return;
      rows = answer;
      for (const [row, rank] of rows.tracks?.gpu.entries() ?? []) if (row < FEW) opened.add(rank);
      layOut();
      store.emit("change");
    },
  });
  store.on("scene", () => {
    names.again();
    names.want({});
  });

  function chosen() {
    seen = new Set();
    picture = null;
    fresh = true;
    layOut();
  }

  /** The GPU or rank of a path. @param {string} path */
  const holderOf = (path) => (recorded ? Number(path.match(/^rank\[(\d+)\]/)?.[1] ?? -1) : gpuOf(store, path));

  function layOut() {
    items = [];
    [room, pins, held] = [panel.room, store.panels.pins, 0];
    if (!rows || !store.ready) return;
    const { pins: first, order } = orderOf(store, rows.gpus);
    const fold = Math.min(FOLD, Math.max(LEAST_FOLD, Math.floor(panel.room / rows.gpus) - GAP));
    /** @type {number[][]} */
    const of = Array.from({ length: rows.gpus }, () => []);
    if (panel.kind === "phases") for (const tracks of of) store.scene.phases.forEach((_, phase) => tracks.push(phase));
    table()?.gpu.forEach((gpu, track) => of[gpu].push(track));
    let top = 0;
    for (const [place, gpu] of order.entries()) {
      items.push({ gpu, track: -1, top, height: fold });
      top += fold;
      if (opened.has(gpu)) {
        for (const track of of[gpu]) {
          items.push({ gpu, track, top: top + 1, height: HEIGHT });
          top += TRACK;
        }
      }
      top += GAP;
      if (place === first.length - 1) held = top;
    }
    full = top;
  }

  function height() {
    if (room !== panel.room || pins !== store.panels.pins) layOut();
    if (selected !== store.selection) {
      selected = store.selection;
      const gpu = holderOf(selected);
      if (gpu >= 0) opened.add(gpu);
      layOut();
    }
    return full;
  }
  /** Rows in sight. */
  const visible = () => items.filter((item) => item.top < held || (item.top + item.height > panel.top && item.top < panel.top + panel.room));

  /** @param {Scale} scale */
  function want(scale) {
    const { asker, kind } = panel;
    if (asker.error) readRecorded();
    else if (rows && store.timeline) {
      const shown = visible();
      const folds = [...new Set(shown.filter((i) => i.track < 0 || kind === "phases").map((i) => i.gpu))].sort((a, b) => a - b);
      const tracks = kind === "phases" ? [] : shown.filter((i) => i.track >= 0).map((i) => i.track).sort((a, b) => a - b);
      panel.want(scale, COLUMN_PX, { kind, folds, tracks });
    }
    if (asker.reply?.kind === kind) read(asker.reply);
  }

  /** Make an answer ready to be drawn. @param {Reply<"spans">} reply */
  function read(reply) {
    if (picture?.source === reply && picture.theme === theme.version) return;
    const { folds, tracks } = /** @type {{ folds: number[], tracks: number[] }} */ (reply.options);
    const { fold_shares: shares, track_shares, row, state, start, end, label } = reply.arrays;
    const [foldHeight, phases] = [items[0]?.height ?? FOLD, reply.kind === "phases"];
    picture = {
      source: reply, reply, theme: theme.version, shares, foldHeight, row, state, start, end, label,
      folds: new Map(folds.map((gpu, k) => [gpu, k])), tracks: new Map(tracks.map((track, k) => [track, k])),
      starts: rowStarts(row, phases ? folds.length : tracks.length),
    };
    if (!phases) picture.fold = paintDensity(shares, reply.present, folds.length, reply.columns, foldHeight, COLOURS);
    if (reply.drawn === "density") {
      picture.track = paintDensity(track_shares, reply.present, tracks.length, reply.columns, HEIGHT, COLOURS);
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
    if (panel.kind !== "blocks") panel.choose("blocks");
    for (const button of panel.buttons) button.disabled = button.dataset.kind !== "blocks";
    const found = recordedSpans(line);
    picture = {
      ...found, source: line, theme: theme.version, folds: new Map(), tracks: new Map(store.scene.blocks.map((_, track) => [track, track])),
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
    const keys = [...seen].sort((a, b) => a - b).map((state) => makeBarKey(COLOURS[state], rows?.states[state] ?? "", HEIGHTS[state] * 12));
    const phases = [make("span", { text: "from the first start of a phase on a GPU to its last end" })];
    panel.legend.replaceChildren(...(panel.kind === "phases" ? phases : keys));
  }

  /** @param {Context} context @param {Scale} scale */
  function drawRows(context, scale) {
    const shown = visible();
    if (picture) for (const item of shown) drawItem(context, picture, item, scale);
    outline(context, shown);
    drawPathOverTime(context, store, theme, scale, rowAt);
  }

  /** Where a thread block is drawn: in its own row or its SM's, or in its GPU's band. @param {number} block @param {number} sm */
  function rowAt(block, sm) {
    const gpu = store.scene.blocks[block];
    /** @param {number} track */
    const holds = (track) => (panel.kind === "blocks" ? track === block : panel.kind === "sms" && rows?.sms.number[track] === sm && !rows.sms.engine[track]);
    const mine = items.filter((item) => item.gpu === gpu);
    return mine.find(({ track }) => track >= 0 && holds(track)) ?? mine.find(({ track }) => track < 0) ?? null;
  }

  function drawn() {
    const { count = 0, folded = 0, drawn: how = "", from = "", to = "" } = picture?.reply ?? {};
    const { kind, asker, note, element } = panel;
    const noun = kind === "phases" ? "phase" : "span";
    const all = how === "density" || !count ? count + folded : count; // of one kind
    let text = picture ? `${plural(all, noun)}${all > count || how === "density" ? ", drawn as density" : ""}` : "";
    if (folded && all === count) text += ` · ${formatCount(folded)} more in folded ${recorded ? "ranks" : "GPUs"}, as density`;
    settle(note, text);
    Object.assign(element.dataset, { drawn: how, kind, asked: String(asker.open), from: String(from), to: String(to), number: String(store.timeline?.number ?? "") });
  }

  /** @param {Context} context */
  function gutter(context) {
    for (const { gpu, track, top, height: tall } of visible()) {
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, top, panel.width - GUTTER, tall);
      context.fillStyle = track < 0 ? theme.ink : theme.dim;
      const middle = top + tall / 2 + 0.5;
      if (track < 0) {
        context.font = `12px ${theme.font}`;
        context.fillText(`${opened.has(gpu) ? "▾" : "▸"}${recorded ? " " : ""}${owner}${gpu}`, 3, middle, GUTTER - 18);
        drawPin(context, theme, middle, store.pins.includes(gpu));
      } else {
        context.font = `10px ${theme.font}`;
        context.fillText(nameOf(track), 16, middle, GUTTER - 18);
      }
    }
  }
  /** @param {number} track */
  function nameOf(track) {
    const of = table();
    if (!of) return `phase ${track + 1}`;
    if (of.names) return of.names[track];
    if (panel.kind === "blocks") return `block ${of.number[track]}`;
    return of.engine[track] ? ["copy engine", "NIC"][of.engine[track] - 1] : `sm.${of.number[track]}`;
  }

  /** @param {Context} context @param {Shown} shown @param {Item} item @param {Scale} scale */
  function drawItem(context, shown, item, scale) {
    const { reply } = shown;
    const [x0, x1] = [scale.x(reply.from), scale.x(reply.to)];
    /** @param {HTMLCanvasElement} image @param {number} row @param {number} tall */
    const density = (image, row, tall) => {
      context.imageSmoothingEnabled = false;
      context.drawImage(image, 0, row * tall, reply.columns, tall, x0, item.top, x1 - x0, item.height);
    };
    if (reply.kind === "phases") drawPhases(context, shown, item, scale);
    else if (item.track < 0) {
      const row = shown.folds.get(item.gpu);
      if (row !== undefined && shown.fold) density(shown.fold, row, shown.foldHeight);
    } else {
      const row = shown.tracks.get(item.track);
      if (row === undefined) return;
      if (shown.track) density(shown.track, row, HEIGHT);
      else drawSpans(context, shown, row, item, scale);
    }
  }
  /** @param {Context} context @param {Shown} shown @param {number} row @param {Item} item @param {Scale} scale */
  function drawSpans(context, { starts, state: states, start, end, label, reply }, row, { top, height: tall }, scale) {
    context.font = `10px ${theme.font}`;
    for (let n = starts[row]; n < starts[row + 1]; n++) {
      const state = states[n];
      const deep = tall * HEIGHTS[state];
      const x = scale.x(start[n]);
      const wide = Math.max(0.6, scale.x(end[n]) - x);
      context.fillStyle = COLOURS[state];
      context.fillRect(x, top + tall - deep, recorded && wide > 3 ? wide - 0.6 : wide, deep);
      const text = wide > LABEL ? reply.labels?.[label?.[n] ?? -1] : "";
      if (!text) continue;
      const from = Math.max(x, GUTTER);
      const shown = shortened(context, text, Math.min(x + wide, panel.width) - from - 7);
      context.fillStyle = inkOn(channels(COLOURS[state]));
      if (shown.length > 2) context.fillText(shown, from + 3, top + tall / 2 + 0.5);
    }
  }

  /** @param {Context} context @param {Shown} shown @param {Item} item @param {Scale} scale */
  function drawPhases(context, { folds, starts, state, start, end }, item, scale) {
    const k = folds.get(item.gpu);
    if (k === undefined) return;
    context.font = `10px ${theme.font}`;
    for (let n = starts[k]; n < starts[k + 1]; n++) {
      const phase = state[n];
      if (item.track >= 0 && item.track !== phase) continue;
      // Blocks are not in step: phases that follow each other overlap, and take turns in two rows.
      const half = item.track < 0 ? item.height / 2 : item.height;
      const top = item.top + (item.track < 0 ? (phase % 2) * half : 0);
      const [x, to] = [Math.max(GUTTER - 2, scale.x(start[n])), Math.min(panel.width + 2, scale.x(end[n]))];
      const [fill, ink] = PHASE_COLOURS[phase % PHASE_COLOURS.length];
      context.fillStyle = fill;
      context.fillRect(x, top, Math.max(0.6, to - x - 0.5), half - 1);
      const text = store.scene.phases[phase];
      if (half < 9 || to - x < context.measureText(text).width + 8) continue;
      context.fillStyle = ink;
      context.fillText(text, x + 4, top + half / 2);
    }
  }

  /** Frame the selected GPU, SM or thread block. @param {Context} context @param {Item[]} shown */
  function outline(context, shown) {
    const gpu = holderOf(store.selection);
    const part = store.selection.match(/\.(sm|block)\.(\d+)$/);
    const wanted = part?.[1] === "sm" ? "sms" : "blocks";
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    for (const item of shown) {
      if (item.gpu !== gpu) continue;
      const here = item.track < 0 ? !part : part && panel.kind === wanted && table()?.number[item.track] === Number(part[2]);
      if (here) context.strokeRect(GUTTER + 0.75, item.top, panel.width - GUTTER - 1.5, item.height);
    }
  }

  /** @param {Spot} at */
  function hit(at) {
    const y = panel.rowY(at);
    return items.find((item) => y >= item.top && y < item.top + item.height) ?? null;
  }
  /** @param {Spot} at */
  function rankAt(at) {
    const item = hit(at);
    return item && item.track < 0 ? item.gpu : -1;
  }
  panel.canvas.addEventListener("pointermove", (event) => {
    const item = hit(event);
    if (!recorded) store.hovering(item ? `gpu[${item.gpu}]` : "");
  });
  panel.canvas.addEventListener("pointerleave", () => store.hovering(""));
  /** @param {Spot} at */
  function textAt(at) {
    const item = hit(at);
    if (!item) return "";
    const { gpu, track } = item;
    const { kind } = panel;
    const parts = [`${owner}${gpu}`];
    if (track >= 0) parts.push(kind === "phases" ? store.scene.phases[track] : nameOf(track));
    if (at.offsetX >= GUTTER) {
      const time = Math.round(panel.scale().t(at.offsetX));
      const wanted = { kind, track: kind === "phases" ? gpu : track, time };
      const about = JSON.stringify(wanted);
      if (track >= 0 || kind === "phases") words.want(wanted, about);
      parts.push(formatTime(time, 3));
      if (words.reply?.text && words.reply.about === about) parts.push(words.reply.text);
      else if (track < 0) parts.push(...statesAt(gpu, time));
    }
    return parts.join(" · ");
  }
  /** The states of a folded GPU's tracks at a time. @param {number} gpu @param {number} time */
  function statesAt(gpu, time) {
    const row = picture?.folds.get(gpu);
    if (!picture || !rows || row === undefined || picture.reply.kind === "phases") return [];
    return sharesAt(picture.reply, picture.shares, picture.folds.size, row, time, rows.states);
  }
  /** @param {Spot} at */
  function clicked(at) {
    const item = hit(at);
    if (!item) return;
    const of = table();
    if (item.track < 0 && at.offsetX < 16) {
      if (!opened.delete(item.gpu)) opened.add(item.gpu);
      layOut();
      store.emit("change");
      return;
    }
    const whole = item.track < 0 || !of || (panel.kind === "sms" && of.engine[item.track]);
    const path = recorded ? `rank[${item.gpu}]` : whole ? `gpu[${item.gpu}]` : `gpu[${item.gpu}].${panel.kind === "sms" ? "sm" : "block"}.${of.number[item.track]}`;
    const time = Math.round(panel.scale().t(at.offsetX));
    const phases = panel.kind === "phases";
    const span = at.offsetX >= GUTTER && item.track >= 0 && time <= store.frontier;
    store.selectSpan(path, span ? store.ask("span", { kind: panel.kind, track: phases ? item.gpu : item.track, phase: item.track, time }) : null);
  }

  return {
    ...panel,
    destroy() {
      panel.destroy();
      words.destroy();
      names.destroy();
    },
  };
}
