// @ts-check
// The addresses of a buffer: a row a chunk; which lines have arrived, from whom, and whether they are final.

import { createAsker, momentOf } from "./asker.js";
import { formatCount, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { RANK_COLOURS, fit, make, makeBarKey, makeKey, makeOptions } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Context, CreateView, Reply, Spot } from "./types" */

const GUTTER = 74;
const MOST_ROW = 22;
const ROOM = 400;
const CELL_PX = 4;
const NAMES = ["input", "output", "scratch", "packets", "panels"];
const NOBODY = 65535;

/** @type {CreateView} */
export function createBuffer(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "Contents of a buffer" });
  const tip = createTip(canvas, textAt);
  /** @param {string} words @param {HTMLOptionElement[]} options */
  const choice = (words, options) => make("select", { class: "anb-steps", "aria-label": words, onchange: () => store.emit("change") }, ...options);
  const rank = choice("Rank of the buffer", []);
  const buffer = choice("Buffer", makeOptions(NAMES));
  buffer.value = "output";
  const words = make("span", { class: "anb-hint" });
  const legend = make("div", { class: "anb-legend" });
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, tip.element);
  const element = make(
    "section", { class: "anb-buffer", "aria-label": "Buffer" },
    make("div", { class: "anb-row" }, make("h4", { text: "Buffer of" }), rank, buffer, words, createMoment(store, () => asker.reply?.at_ps), legend), holder,
  );
  const asker = createAsker(store, "buffer", { every: 120 });
  const cells = createAsker(store, "cell");
  let width = 0;
  /** @type {Reply<"buffer"> | null} the last answer */
  let read = null;
  /** @type {{ chunk: number, column: number } | null} the cell that is framed */
  let pointed = null;

  store.on("scene", () => {
    rank.replaceChildren(...store.scene.gpus.map((_, one) => make("option", { value: one, text: `GPU${one}` })));
    asker.forget();
  });

  const options = () => ({
    rank: Number(rank.value), buffer: buffer.value, at_ps: momentOf(store).at_ps,
    columns: Math.max(16, Math.floor((width - GUTTER) / CELL_PX)),
  });
  /** @param {Reply<"buffer">} reply */
  function show(reply) {
    if (read === reply) return;
    read = reply;
    for (const option of buffer.options) option.disabled = !reply.used.includes(option.value);
    const fold = reply.fold > 1 ? `, ${plural(reply.fold, "line")} a cell` : "";
    words.textContent = `${formatCount(reply.arrived_lines)} of ${plural(reply.lines, "line")} arrived, ${formatCount(reply.final)} final${fold}${reply.by_line ? "" : " (counted by slice)"}`;
    drawLegend(reply.arrays.source);
  }

  /** @param {Uint16Array} source */
  function drawLegend(source) {
    /** @param {string} kind @param {string} text */
    const swatch = (kind, text) => makeKey(make("i", { class: `anb-cell anb-cell-${kind}` }), text);
    const there = [...new Set(source)].filter((one) => one !== NOBODY).sort((a, b) => a - b);
    const named = there.slice(0, 16).map((one) => makeBarKey(RANK_COLOURS[one % RANK_COLOURS.length], `GPU${one}`, 10));
    if (there.length > 16) named.push(make("span", { text: `… ${plural(there.length, "GPU")}` }));
    legend.replaceChildren(swatch("none", "not arrived"), swatch("partial", "partial"), swatch("final", "final"), make("span", { text: "from:" }), ...named);
  }

  const pitch = () => Math.max(3, Math.min(MOST_ROW, Math.floor(ROOM / Math.max(1, read?.chunks ?? 1))));

  function draw() {
    if (!store.ready || !width) return;
    const wanted = options();
    asker.want(wanted, `${momentOf(store).key} ${JSON.stringify({ ...wanted, at_ps: null })}`);
    if (asker.error) {
      words.textContent = asker.error;
      for (const option of buffer.options) option.disabled = false;
      canvas.style.height = "0px";
      return;
    }
    if (!asker.reply) return;
    const grid = asker.reply;
    show(grid);
    const row = pitch();
    const height = grid.chunks * row + 2;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const context = fit(canvas, width, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    const cell = (width - GUTTER) / grid.columns;
    context.textBaseline = "middle";
    context.font = `11px ${theme.font}`;
    const every = Math.ceil(13 / row);
    for (let chunk = 0; chunk < grid.chunks; chunk++) {
      const top = 1 + chunk * row;
      const tall = row > 4 ? row - 2 : row - 0.5;
      if (chunk % every === 0) {
        context.fillStyle = theme.dim;
        context.fillText(`${grid.buffer}[${grid.names[chunk]}]`, 4, top + row / 2, GUTTER - 8);
      }
      for (let k = 0; k < grid.columns; k++) {
        const x = Math.round(GUTTER + k * cell); // whole pixels: no seams
        drawCell(context, grid, chunk * grid.columns + k, x, top, Math.round(GUTTER + (k + 1) * cell) - x, tall);
      }
    }
    if (pointed && pointed.chunk < grid.chunks) {
      context.strokeStyle = theme.brand;
      context.lineWidth = 1.5;
      context.strokeRect(GUTTER + pointed.column * cell, 1 + pointed.chunk * row, cell, row - 1);
    }
    element.dataset.arrived = String(grid.arrived_lines);
  }

  /** @param {Context} context @param {Reply<"buffer">} grid @param {number} at @param {number} x @param {number} top @param {number} cell @param {number} tall */
  function drawCell(context, { of, arrays }, at, x, top, cell, tall) {
    const state = arrays.state[at];
    if (state === 2) return;
    context.fillStyle = theme.panel;
    context.fillRect(x, top, cell, tall);
    if (arrays.source[at] === NOBODY) return;
    // Final is solid from top to bottom; partial stands as high as its part of all contributions.
    const full = state === 1;
    const part = full ? 1 : 0.25 + (0.55 * arrays.ranks[at]) / Math.max(1, of);
    context.fillStyle = RANK_COLOURS[arrays.source[at] % RANK_COLOURS.length];
    context.globalAlpha = full ? 1 : 0.75;
    context.fillRect(x, top + tall * (1 - part), Math.max(0.6, (cell * arrays.arrived[at]) / 255), tall * part);
    context.globalAlpha = 1;
  }

  /** @param {Spot} event */
  function hit(event) {
    if (!read || event.offsetX < GUTTER) return null;
    const chunk = Math.floor((event.offsetY - 1) / pitch());
    const at = Math.floor(((event.offsetX - GUTTER) / (width - GUTTER)) * read.columns);
    if (chunk < 0 || chunk >= read.chunks || read.arrays.state[chunk * read.columns + at] === 2) return null;
    return { chunk, column: at };
  }
  /** @param {Spot} at */
  function textAt(at) {
    const over = hit(at);
    if (!read || !over) return "";
    cells.want({ ...read.options, ...over }, `${read.id} ${over.chunk} ${over.column}`);
    const { reply } = cells;
    const same = reply?.options.chunk === over.chunk && reply.options.column === over.column;
    return same && reply ? reply.text : `${read.buffer}[${read.names[over.chunk]}]`;
  }
  canvas.addEventListener("pointermove", (event) => {
    const before = pointed;
    pointed = hit(event);
    if (before?.chunk !== pointed?.chunk || before?.column !== pointed?.column) store.emit("change");
  });
  canvas.addEventListener("pointerleave", () => {
    pointed = null;
    store.emit("change");
  });
  canvas.addEventListener("click", (event) => {
    const at = hit(event);
    if (!read || !at) return;
    const source = read.arrays.source[at.chunk * read.columns + at.column];
    store.select(`gpu[${source === NOBODY ? read.rank : source}]`);
  });
  store.on("change", tip.write);

  return {
    element,
    draw,
    resize() {
      width = canvas.clientWidth;
    },
    shown() {
      asker.again();
    },
    destroy() {
      asker.destroy();
      cells.destroy();
    },
  };
}
