// @ts-check
// Time from left to right: what all timelines share. Rows that scroll, the ruler, and zoom, pan, scrub and brush.

import { createAsker } from "./asker.js";
import { formatTime } from "./format.js";
import { contextOf, fit, make, makeButton } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Context, Interval, Options, Question, Rows, Scale, Spot, Store, Theme } from "./types" */

export const GUTTER = 62;
export const RULER = 20;
const PIN = 13; // px at the end of a label
const CLICK_PX = 4; // a drag that is shorter is a click

/**
 * The time that a place on the ruler stands for, and back.
 * @param {Store} store
 * @param {number} width
 * @returns {Scale}
 */
function scaleOf(store, width) {
  const [a, b] = store.view();
  return { a, b, x: (t) => GUTTER + ((t - a) / (b - a)) * (width - GUTTER), t: (x) => a + ((x - GUTTER) / (width - GUTTER)) * (b - a) };
}

const SELDOM_MS = 250;
/**
 * Whether a timeline would look as it did: while it plays, and the cursor has moved by less than a pixel.
 * @param {Store} store
 */
function createSight(store) {
  let last = "";
  let at = -Infinity;
  /** @type {(scale: Scale, ...others: unknown[]) => boolean} */
  return (scale, ...others) => {
    const places = [store.cursor, store.frontier].map((time) => Math.round(scale.x(time)));
    const seen = [...places, scale.a, scale.b, store.selection, store.hover, store.pointer, ...others].join();
    const now = performance.now();
    if (store.playing && seen === last && now - at < SELDOM_MS) return true;
    [last, at] = [seen, now];
    return false;
  };
}

/**
 * Rows over time: a canvas that stays in sight while a holder scrolls the rows below it, with a legend and a note.
 * @template {Question} Q
 * @param {Store} store
 * @param {Theme} theme
 * @param {Q} question what the rows in sight are asked with
 * @param {Rows} timeline
 */
export function createTracks(store, theme, question, timeline) {
  const { ruler, kinds = [] } = timeline;
  const canvas = make("canvas", { class: "anb-canvas anb-sticky", role: "img", "aria-label": timeline.about });
  /** @param {Spot} at */
  const pinAt = (at) => (at.offsetX >= GUTTER - PIN && at.offsetX < GUTTER ? (timeline.rankAt?.(at) ?? -1) : -1);
  const tip = createTip(canvas, (at) => {
    const rank = pinAt(at);
    if (rank < 0) return timeline.textAt(at);
    return store.pins.includes(rank) ? "unpin this row" : "pin this row: it stays above all others (T: the selected one)";
  });
  const legend = make("div", { class: "anb-legend" });
  const note = make("span", { class: "anb-note" });
  const spacer = make("div");
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, spacer, tip.element);
  /** @param {string} kind */
  function choose(kind) {
    tracks.kind = kind;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    tracks.asker.forget();
    timeline.chosen();
    store.emit("change");
  }
  const buttons = kinds.map(([kind, words]) => makeButton(words, () => choose(kind), { class: "anb-tab", "data-kind": kind }));
  const title = timeline.title ?? make("div", { class: "anb-tabs", role: "group", "aria-label": "Rows" }, ...buttons);
  const same = createSight(store);
  /** @type {{ theme: number, pattern: CanvasPattern | null } | null} */
  let hatch = null;
  const tracks = {
    element: make("section", { class: timeline.name, "aria-label": timeline.label }, make("div", { class: "anb-row" }, title, legend, note), holder),
    asker: createAsker(store, question),
    canvas, legend, note, buttons,
    kind: kinds[0]?.[0] ?? "",
    width: 0,
    room: 0, // px for rows: what is beyond scrolls
    held: 0, // px of pinned rows, which do not scroll
    top: 0, // scrolled, in pixels: asked for in every frame, it would have the page laid out in every frame
    choose,
    /** Ask for rows in the time in sight, with a margin so that a short pan needs no answer. @param {Scale} scale @param {number} pixels of a column @param {Options} more */
    want(scale, pixels, more) {
      const margin = (scale.b - scale.a) / 8;
      const [from, to] = [Math.max(0, Math.floor(scale.a - margin)), Math.ceil(scale.b + margin)];
      const columns = Math.round(((tracks.width - GUTTER) / pixels) * ((to - from) / (scale.b - scale.a)));
      const options = { from, to, columns, ...more };
      tracks.asker.want(options, `${store.timeline?.number} ${JSON.stringify(options)}`);
    },
    scale: () => scaleOf(store, tracks.width),
    /** The interval that is drawn; what is outside it is not known yet. @returns {Interval | null} */
    known: () => {
      const reply = /** @type {{ from?: number, to?: number, now_ps?: number } | null} */ (tracks.asker.reply);
      if (timeline.known) return timeline.known();
      return reply?.from === undefined || reply.to === undefined ? null : [reply.from, Math.min(reply.to, reply.now_ps ?? reply.to)];
    },
    /** Where among all rows a place on the canvas is; -1: above them. @param {Spot} at */
    rowY({ offsetY }) {
      const y = offsetY - ruler;
      return store.ready && y >= 0 ? y + (y < tracks.held ? 0 : tracks.top) : -1;
    },
    draw() {
      const { width, top } = tracks;
      if (!store.ready || !width) return;
      const full = timeline.height() + ruler;
      const height = Math.min(tracks.room + ruler, full);
      const rest = `${Math.max(0, full - height)}px`;
      if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
      if (spacer.style.height !== rest) spacer.style.height = rest;
      const scale = tracks.scale();
      const pinned = timeline.pinned?.() ?? 0;
      const held = (tracks.held = pinned <= tracks.room / 2 ? pinned : 0); // of more the others could not be seen
      if (same(scale, tracks.kind, tracks.asker.reply?.id, store.timeline?.number, top, theme.version, width, height, store.path, store.panels.pins)) return;
      timeline.want(scale);
      const context = fit(canvas, width, height);
      context.fillStyle = theme.back;
      context.fillRect(0, 0, width, height);
      // While it plays, nothing is drawn that the cursor has not reached.
      const seen = store.playing ? store.cursor : store.frontier;
      /** @param {number} from @param {number} to @param {number} scrolled */
      const paint = (from, to, scrolled) => {
        context.save();
        context.beginPath();
        context.rect(0, from, width, to - from);
        context.clip();
        context.translate(0, ruler - scrolled);
        context.textBaseline = "middle";
        context.textAlign = "left";
        timeline.gutter(context);
        context.beginPath();
        context.rect(GUTTER, scrolled, Math.max(0, Math.min(width, scale.x(seen)) - GUTTER), height);
        context.clip();
        hatchUnknown(context, scale, seen, scrolled);
        timeline.rows(context, scale);
        context.restore();
      };
      paint(ruler + held, height, top);
      if (held) {
        paint(ruler, ruler + held, 0);
        context.fillStyle = theme.line;
        context.fillRect(0, ruler + held - 2, width, 1);
      }
      if (ruler) drawRuler(context, theme, scale, width);
      drawClocks(context, store, theme, scale, width, ruler, height);
      timeline.drawn();
      tip.write();
    },
    resize() {
      tracks.width = canvas.clientWidth;
      tracks.room = Math.round(Number.parseFloat(getComputedStyle(holder).maxHeight)) - ruler;
    },
    destroy: () => tracks.asker.destroy(),
  };
  /** Hatch what has been simulated and has no picture: unknown is not idle. @param {Context} context @param {Scale} scale @param {number} until @param {number} top */
  function hatchUnknown(context, scale, until, top) {
    const [from, to] = tracks.known() ?? [0, 0];
    /** @type {Interval[]} */
    const parts = [[0, Math.min(from, until)], [to, until], ...(timeline.recorded ? (store.state?.gaps ?? []) : [])];
    const wide = parts.map(([a, b]) => [Math.max(GUTTER, scale.x(a)), Math.min(tracks.width, scale.x(b))]).filter(([a, b]) => b - a >= 1);
    Object.assign(tracks.element.dataset, { unknown: String(wide.length), view: store.view().join(" ") });
    if (!wide.length) return;
    if (hatch?.theme !== theme.version) hatch = { theme: theme.version, pattern: hatching(context, theme) };
    context.fillStyle = hatch.pattern ?? theme.faint;
    for (const [a, b] of wide) context.fillRect(a, top, b - a, tracks.room);
  }
  holder.addEventListener("scroll", () => {
    tracks.top = holder.scrollTop;
    store.emit("change");
  });
  navigate(canvas, store, ruler || -1, (event) => {
    const rank = pinAt(event);
    if (rank < 0) timeline.clicked(event);
    else store.pin(rank);
  });
  store.on("scene", () => choose(tracks.kind));
  return tracks;
}

/** The pin of a row, at the end of its label. @param {Context} context @param {Theme} theme @param {number} y @param {boolean} pinned */
export function drawPin(context, theme, y, pinned) {
  const x = GUTTER - PIN / 2 - 1;
  context.fillStyle = pinned ? theme.brand : theme.line;
  context.fillRect(x - 2.5, y - 5, 5, 5);
  context.fillRect(x - 4, y, 8, 1.5);
  context.fillRect(x - 0.5, y + 1.5, 1, 4);
}

/** Ranks in the order of their rows: pinned ones first. @param {Store} store @param {number} count */
export function orderOf(store, count) {
  const pins = store.pins.filter((rank) => rank < count);
  return { pins, order: [...pins, ...Array.from({ length: count }, (_, rank) => rank).filter((rank) => !pins.includes(rank))] };
}

const HATCH_PX = 8;
/** @param {Context} context @param {Theme} theme */
function hatching(context, theme) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = HATCH_PX;
  const drawing = contextOf(tile);
  drawing.strokeStyle = theme.line;
  for (const x of [-HATCH_PX, 0, HATCH_PX]) {
    drawing.moveTo(x, HATCH_PX);
    drawing.lineTo(x + HATCH_PX, 0);
  }
  drawing.stroke();
  return context.createPattern(tile, "repeat");
}

/**
 * Zoom, pan, scrub (on the ruler) and brush (below it) on a canvas; a click goes to `clicked`.
 * @param {HTMLCanvasElement} canvas
 * @param {Store} store
 * @param {number} ruler its height; -1: none
 * @param {(event: PointerEvent) => void} clicked
 */
function navigate(canvas, store, ruler, clicked) {
  /** @type {{ scrubs: boolean, gutter: boolean, x: number, t: number, moved: boolean } | null} */
  let drag = null;
  let followed = 0; // when a click took the cursor from the simulation
  /** @param {MouseEvent} event */
  const time = (event) => {
    const { a, b, t } = scaleOf(store, canvas.clientWidth);
    return Math.min(b, Math.max(a, t(event.offsetX)));
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      const amount = event.deltaY || event.deltaX;
      if (event.ctrlKey) store.zoom(amount > 0 ? 1.25 : 0.8, time(event));
      else store.pan(amount > 0 ? 0.1 : -0.1);
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { scrubs: event.offsetY <= ruler, gutter: event.offsetX < GUTTER, x: event.offsetX, t: time(event), moved: false };
    if (drag.gutter) return;
    canvas.setPointerCapture(event.pointerId);
    if (!drag.scrubs) return;
    if (store.following) followed = event.timeStamp;
    store.scrub(drag.t);
  });
  canvas.addEventListener("pointermove", (event) => {
    store.pointer = event.offsetX >= GUTTER ? time(event) : null;
    if (!drag || drag.gutter) return;
    drag.moved ||= Math.abs(event.offsetX - drag.x) >= CLICK_PX;
    if (drag.scrubs) store.scrub(time(event));
    else if (drag.moved) store.mark(drag.t, time(event));
  });
  canvas.addEventListener("pointerup", (event) => {
    const was = drag;
    drag = null;
    if (was && !was.scrubs && !was.moved) clicked(event);
    else if (was?.moved && !was.scrubs) store.emit("marked");
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => (store.pointer = null));
  canvas.addEventListener("dblclick", (event) => {
    if (event.offsetY > ruler || event.offsetX < GUTTER) return;
    store.show(0, Infinity);
    if (event.timeStamp - followed < 700) store.follow(); // its first click was not meant for the cursor
    store.emit("change");
  });
}

/**
 * Ticks and times above a picture.
 * @param {Context} context
 * @param {Theme} theme
 * @param {Scale} scale
 * @param {number} width
 */
function drawRuler(context, theme, scale, width) {
  const { a, b, x } = scale;
  const rough = (b - a) / Math.max(2, (width - GUTTER) / 130);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (let t = Math.ceil(a / step) * step; t <= b; t += step) {
    context.fillStyle = theme.faint;
    context.fillRect(x(t), RULER - 5, 1, 5);
    context.fillStyle = theme.dim;
    if (x(t) < width - 40) context.fillText(formatTime(t, 4), x(t) + 3, RULER / 2);
  }
}

/**
 * What lies over a picture of time: the marked interval, what is not simulated, the cursor.
 * @param {Context} context
 * @param {Store} store
 * @param {Theme} theme
 * @param {Scale} scale
 * @param {number} width
 * @param {number} top
 * @param {number} height
 */
function drawClocks(context, store, theme, scale, width, top, height) {
  const known = scale.x(store.frontier);
  context.fillStyle = theme.dim;
  context.globalAlpha = 0.12;
  if (known < width) context.fillRect(Math.max(GUTTER, known), top, width, height - top);
  if (store.marked) {
    const [from, to] = store.marked.map((t) => Math.min(width, Math.max(GUTTER, scale.x(t))));
    context.fillStyle = theme.brand;
    context.globalAlpha = 0.16;
    context.fillRect(from, top, to - from, height - top);
    context.globalAlpha = 0.9;
    for (const edge of [from, to]) if (edge > GUTTER && edge < width) context.fillRect(edge - 0.5, top, 1, height - top);
  }
  context.globalAlpha = 1;
  const x = scale.x(store.cursor);
  if (x < GUTTER || x > width) return;
  context.fillStyle = theme.brand;
  context.fillRect(x - 0.75, 0, 1.5, height);
  if (!top) return; // a handle on the ruler
  context.beginPath();
  context.moveTo(x - 5, 0);
  context.lineTo(x + 5, 0);
  context.lineTo(x, 7);
  context.fill();
}
