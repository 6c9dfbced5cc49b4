// @ts-check
// Who sends how much to whom: a row for each sender, a column for each receiver.

import { createAsker, momentOf } from "./asker.js";
import { formatBytes, formatTime } from "./format.js";
import { createMoment } from "./moment.js";
import { gpuOf } from "./selection.js";
import { contextOf, fit, inkOn, make } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Answer, Context, CreateView, Pair, Spot } from "./types" */

const GUTTER = 46;

/** @type {CreateView} */
export function createHeat(store, theme) {
  const operations = store.engine === "operations";
  const one = operations ? "rank " : "GPU";
  const many = operations ? "ranks" : "GPUs";
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": `Bytes from ${operations ? "rank to rank" : "GPU to GPU"}` });
  const tip = createTip(canvas, (at) => {
    const found = hit(at);
    return now && found && found.to >= 0 ? `${name(now, found.from)} to ${name(now, found.to)}: ${formatBytes(now.arrays.cells[found.from * now.rows + found.to])}` : "";
  });
  const windowed = make("input", { type: "checkbox", onchange: () => store.emit("change") });
  const words = make("span", { class: "anb-note" });
  const ramp = make("i", { class: "anb-ramp" });
  const most = make("span");
  const bar = make(
    "div", { class: "anb-legend" },
    make("label", { class: "anb-label", title: "only what falls in the time that the timelines show" }, windowed, "visible time only"),
    make("span", { class: "anb-key" }, "0", ramp, most), words, createMoment(store, () => asker.reply?.at_ps),
  );
  const element = make("section", { class: "anb-heat", "aria-label": `Traffic from ${operations ? "rank to rank" : "GPU to GPU"}` }, bar, canvas, tip.element);
  /** @type {Pair} */
  let size = [0, 0];
  /** @type {Answer<"traffic"> | null} */
  let now = null;
  let cell = 1;
  /** @type {HTMLCanvasElement | null} */
  let image = null;

  const asker = createAsker(store, "traffic", {
    every: 250,
    answered(found, error) {
      now = found;
      image = null;
      if (error) words.textContent = error.message;
    },
  });
  /** What a row stands for. @param {Answer<"traffic">} matrix @param {number} row */
  function name({ each, ranks }, row) {
    const first = row * each;
    return each === 1 ? `${one}${first}` : `${many} ${first} to ${Math.min(ranks, first + each) - 1}`;
  }

  function draw() {
    if (!store.ready || !size[0]) return;
    const { at_ps, key } = momentOf(store);
    const window = windowed.checked ? { window: store.view() } : {};
    asker.want({ at_ps, ...window }, `${key} ${JSON.stringify(window)}`);
    const context = fit(canvas, ...size);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, ...size);
    if (!now) return;
    const { rows, each, arrays: { cells } } = now;
    cell = Math.max(1, Math.min(size[0] - GUTTER - 8, size[1] - 34) / rows);
    const largest = cells.reduce((a, b) => Math.max(a, b), 0);
    image ??= paint(rows, cells, largest);
    context.imageSmoothingEnabled = false;
    context.drawImage(image, GUTTER, 24, cell * rows, cell * rows);
    context.strokeStyle = theme.line;
    context.strokeRect(GUTTER - 0.5, 23.5, cell * rows + 1, cell * rows + 1);
    labels(context, rows, each);
    mark(context, rows, each);
    if (cell > 42) numbers(context, rows, cells, largest);
    ramp.style.setProperty("--anb-ramp", [0, 0.25, 0.5, 0.75, 1].map((part) => theme.rampText(part)).join(","));
    most.textContent = formatBytes(largest);
    const cells_are = each > 1 ? `a cell is ${each} × ${each} ${many} · ` : "";
    const over = now.window ? `from ${formatTime(Math.round(now.window[0]), 3)} to ${formatTime(Math.round(now.window[1]), 3)}` : "so far";
    const lost = now.partly ? " · the oldest messages are no longer recorded" : "";
    words.textContent = now.absent || `${cells_are}row sends to column · ${formatBytes(now.total)} of data ${over}${lost}`;
    tip.write();
  }
  /** @param {number} rows @param {Float32Array} cells @param {number} largest */
  function paint(rows, cells, largest) {
    const made = document.createElement("canvas");
    made.width = made.height = rows;
    const data = new ImageData(rows, rows);
    cells.forEach((value, k) => {
      if (!value) return;
      data.data.set(theme.ramp(value / largest), 4 * k);
      data.data[4 * k + 3] = 255;
    });
    contextOf(made).putImageData(data, 0, 0);
    return made;
  }
  /** @param {Context} context @param {number} rows @param {number} each */
  function labels(context, rows, each) {
    const every = Math.max(1, Math.ceil(16 / cell));
    context.fillStyle = theme.dim;
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let row = 0; row < rows; row += every) context.fillText(`${one}${row * each}`, GUTTER - 5, 24 + (row + 0.5) * cell, GUTTER - 6);
    context.textAlign = "center";
    const across = Math.max(1, Math.ceil(52 / cell));
    for (let row = 0; row < rows; row += across) context.fillText(`${one}${row * each}`, GUTTER + (row + 0.5) * cell, 14);
  }
  /** @param {Context} context @param {number} rows @param {Float32Array} cells @param {number} largest */
  function numbers(context, rows, cells, largest) {
    context.font = `11px ${theme.font}`;
    context.textAlign = "center";
    cells.forEach((value, k) => {
      if (!value) return;
      context.fillStyle = inkOn(theme.ramp(value / largest));
      context.fillText(formatBytes(value), GUTTER + ((k % rows) + 0.5) * cell, 24 + (Math.floor(k / rows) + 0.5) * cell, cell - 4);
    });
  }
  /** Row and column of the selected GPU. @param {Context} context @param {number} rows @param {number} each */
  function mark(context, rows, each) {
    const rank = operations ? Number(store.selection.match(/^rank\[(\d+)\]/)?.[1] ?? -1) : gpuOf(store, store.selection);
    if (rank < 0) return;
    const at = Math.floor(rank / each);
    context.strokeStyle = theme.brand;
    context.lineWidth = 2;
    context.strokeRect(GUTTER, 24 + at * cell, cell * rows, cell);
    context.strokeRect(GUTTER + at * cell, 24, cell, cell * rows);
    context.lineWidth = 1;
  }
  /** @param {Spot} event */
  function hit(event) {
    const [to, from] = [Math.floor((event.offsetX - GUTTER) / cell), Math.floor((event.offsetY - 24) / cell)];
    return now && from >= 0 && to >= -1 && from < now.rows && to < now.rows ? { from, to } : null;
  }
  canvas.addEventListener("pointermove", (event) => {
    canvas.style.cursor = hit(event) ? "pointer" : "default";
  });
  canvas.addEventListener("click", (event) => {
    const at = hit(event);
    if (at && now) store.select(`${operations ? "rank" : "gpu"}[${at.from * now.each}]`);
  });
  return {
    element,
    draw,
    resize() {
      size = [canvas.clientWidth, canvas.clientHeight];
    },
    themed() {
      image = null;
    },
    destroy: asker.destroy,
  };
}
