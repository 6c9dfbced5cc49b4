// @ts-check
// Who has summed whom: ranks by chunks, a tick for each rank whose contribution is in a chunk.

import { createAsker, momentOf } from "./asker.js";
import { formatCount, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { fit, make, makeKey, makeRow, settle } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Answer, Context, CreateView, Spot } from "./types" */

const GUTTER = 56;
const TOP = 18;
const BUFFERS = ["input", "output", "scratch", "packets", "panels"]; // collectives/language/operation.py
const FIRST_SENT = 2 ** 24; // from here on indices are of what NICs read, and from FIRST_SLOT on of messages in slots
const FIRST_SLOT = 2 ** 25;
const FULLEST = "fullest"; // of each chunk the copy with the most in it, in whatever buffer
const SUMMED = "#0072b2"; // Okabe and Ito
const SUMMED_DARK = "#56b4e9";
const WRONG = "#d55e00";
const MOST_WORDS = 1100; // cells in the table
const LEAST_TICK = 1.6; // pixels: below, a cell shows how many, not who

/** The index of a chunk in words, as in fifo.py. @param {number} index */
function chunkName(index) {
  if (index >= FIRST_SLOT) return `message ${index - FIRST_SLOT}`;
  return index >= FIRST_SENT ? `sent ${index - FIRST_SENT}` : String(index);
}

/** @type {CreateView} */
export function createChunks(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "Whose contributions are in which chunk" });
  const tip = createTip(canvas, (at) => {
    const found = hit(at);
    return last && found && found.cell >= 0 ? sentence(last, found.cell) : "";
  });
  const holder = make("div", { class: "anb-chunks-holder" }, canvas, tip.element);
  const buffer = make(
    "select", { class: "anb-steps", "aria-label": "Buffer", title: "the buffer whose contents are shown", onchange: () => store.emit("change") },
    ...[FULLEST, ...BUFFERS].map((name) => make("option", { value: name, text: name === FULLEST ? "fullest copy" : name })),
  );
  buffer.selectedIndex = -1; // what shows most is the kernel's choice
  const legend = make("div", { class: "anb-legend" });
  const summary = make("span", { class: "anb-note", role: "status", "aria-live": "polite" });
  const body = make("tbody", {});
  const caption = make("caption", {});
  // The same in words, for those who do not see the canvas.
  const table = make("table", { class: "anb-unseen" }, caption, body);
  const element = make(
    "section", { class: "anb-chunks", "aria-label": "Data" },
    make("div", { class: "anb-row" }, buffer, legend, summary, createMoment(store, () => asker.reply?.at_ps)), holder, table,
  );
  let width = 0;
  let room = 0;
  /** @type {Answer<"chunks"> | null} the last answer */
  let last = null;
  let failure = "";
  let written = 0; // when the table was written last
  let stale = false;

  const asker = createAsker(store, "chunks", {
    every: 120,
    answered(reply, error) {
      failure = error ? error.message : "";
      last = reply;
      if (!reply) return;
      if (buffer.value !== reply.buffer) buffer.value = reply.buffer;
      stale = true;
      for (const option of buffer.options) option.hidden = option.disabled = !reply.able.includes(option.value);
      drawLegend(reply);
    },
  });

  /** @typedef {Answer<"chunks">} Data */
  /** What a cell holds, in words. @param {Data} data @param {number} k */
  function sentence({ texts, arrays, ranks }, k) {
    if (texts.length) return texts[k];
    const marks = [arrays.twice[k] ? "wrong: some more than once" : "", arrays.writing[k] ? "being written" : "", arrays.kept[k] ? "final" : ""];
    const count = `${arrays.there[k]} of ${arrays.promised[k] || ranks}`;
    const label = `${BUFFERS[arrays.buffer[k]]}[${chunkName(arrays.chunk[k])}]`;
    return [`GPU${arrays.rank[k]} ${label}: ${count}`, ...marks.filter(Boolean)].join(", ");
  }
  /** Width and height of a cell. @param {Data} data */
  function sizes(data) {
    const wide = Math.max(5, Math.min(120, Math.floor((width - GUTTER - 4) / Math.max(1, data.width))));
    const tall = Math.max(7, Math.min(36, Math.floor((room - TOP - 4) / data.ranks)));
    return { wide, tall };
  }
  /** Whether each contribution has room for a tick of its own. @param {Data} data @param {number} wide */
  const ticked = (data, wide) => data.ticks && (wide - 5) / data.ranks >= LEAST_TICK;

  /** @param {Data} data */
  function drawLegend(data) {
    const single = ticked(data, sizes(data).wide);
    const ticks_of = [["anb-tick-full", "summed in"], ["anb-tick-part", "in some channels"], ["anb-tick-twice", "twice: wrong"]];
    const words = [...(single ? ticks_of : []), ["anb-key-final", "final"], ["anb-key-writing", "being written"]];
    const keys = words.map(([kind, text]) => makeKey(make("i", { class: kind }), text));
    if (!single) {
      const ramp = [0.02, 0.25, 0.5, 0.75, 1].map((v) => theme.rampText(v)).join(", ");
      keys.unshift(make("span", { class: "anb-key" }, "0", make("i", { class: "anb-ramp", style: `--anb-ramp: ${ramp}` }), `${plural(data.ranks, "rank")} in it`));
    }
    legend.replaceChildren(...keys);
  }

  function draw() {
    if (!store.ready || !store.state) return;
    const { at_ps, key } = momentOf(store);
    asker.want({ buffer: buffer.value, at_ps }, `${key} ${buffer.value}`);
    if (!width) return;
    const data = last;
    if (!data) {
      summary.textContent = failure;
      fit(canvas, width, 1);
      tip.write();
      return;
    }
    const { wide, tall } = sizes(data);
    const height = TOP + data.ranks * tall + 4;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const across = Math.max(width, GUTTER + data.width * wide + 4);
    if (canvas.style.width !== `${across}px`) canvas.style.width = `${across}px`;
    const context = fit(canvas, across, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, across, height);
    heads(context, data, wide, tall);
    for (let k = 0; k < data.cells; k++) cell(context, data, k, wide, tall);
    const wrong = data.arrays.twice.filter((n) => n > 0).length;
    const words = `${formatCount(data.final)} of ${plural(data.promised_cells, "chunk")} final${wrong ? `, ${wrong} wrong` : ""}`;
    settle(summary, words);
    tip.write();
    writeTable(data);
  }
  /** @param {Context} context @param {Data} data @param {number} wide @param {number} tall */
  function heads(context, data, wide, tall) {
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = theme.dim;
    const every = Math.ceil(22 / wide);
    for (let c = 0; c < data.width; c += every) context.fillText(String(c), GUTTER + (c + 0.5) * wide, TOP / 2);
    context.textAlign = "left";
    const step = Math.ceil(12 / tall);
    for (let rank = 0; rank < data.ranks; rank += step) {
      const hot = store.selection && store.selection === nameOf(rank);
      context.fillStyle = hot ? theme.brand : theme.ink;
      context.fillText(`GPU${rank}`, 8, TOP + (rank + 0.5) * tall);
    }
  }
  /** @param {number} rank */
  const nameOf = (rank) => store.scene.boxes.find((box) => box.rank === rank)?.name;

  /** @param {Context} context @param {Data} data @param {number} k @param {number} wide @param {number} tall */
  function cell(context, data, k, wide, tall) {
    const { arrays, ranks } = data;
    const [x, y] = [GUTTER + arrays.place[k] * wide, TOP + arrays.rank[k] * tall];
    const gap = wide > 9 && tall > 9 ? 2 : 1;
    const [w, h] = [wide - gap, tall - gap];
    context.fillStyle = theme.panel;
    context.fillRect(x, y, w, h);
    if (ticked(data, wide)) ticks(context, data, k, x + 1.5, y + 2, w - 3, h - 4);
    else if (arrays.there[k]) {
      context.fillStyle = theme.rampText(Math.max(0.02, arrays.there[k] / ranks));
      context.fillRect(x, y, w, h);
      if (arrays.twice[k]) cross(context, x, y, w, h);
    }
    if (arrays.writing[k]) { // a corner, so that it is seen without colour
      context.fillStyle = theme.ink;
      context.beginPath();
      context.moveTo(x + w, y);
      context.lineTo(x + w, y + Math.min(6, h));
      context.lineTo(x + w - Math.min(6, w), y);
      context.fill();
    }
    if (arrays.kept[k]) {
      context.strokeStyle = theme.ink;
      context.lineWidth = wide > 9 && tall > 9 ? 1.5 : 1;
      context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
  }
  /** @param {Context} context @param {Data} data @param {number} k @param {number} x @param {number} y @param {number} w @param {number} h */
  function ticks(context, { ranks, arrays }, k, x, y, w, h) {
    const pitch = w / ranks;
    const tick = Math.max(1, pitch - (pitch > 3 ? 1 : 0.4));
    for (let rank = 0; rank < ranks; rank++) {
      const most = arrays.most[k * ranks + rank];
      const least = arrays.least[k * ranks + rank];
      const left = x + rank * pitch;
      if (!most) {
        context.fillStyle = theme.line; // where it would stand
        context.fillRect(left, y + h - 1, tick, 1);
      } else if (most > 1) {
        context.fillStyle = WRONG;
        context.fillRect(left, y, tick, h);
        context.fillStyle = theme.back; // cut in two: twice
        context.fillRect(left, y + h / 2 - 1, tick, 2);
      } else {
        const share = least ? 1 : 0.5;
        context.fillStyle = theme.dark ? SUMMED_DARK : SUMMED;
        context.fillRect(left, y + h * (1 - share), tick, h * share);
      }
    }
  }
  /** @param {Context} context @param {number} x @param {number} y @param {number} w @param {number} h */
  function cross(context, x, y, w, h) {
    context.strokeStyle = WRONG;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + w, y + h);
    context.moveTo(x + w, y);
    context.lineTo(x, y + h);
    context.stroke();
  }

  /** Write the table: twice a second at most, because it is read and not watched. @param {Data} data */
  function writeTable(data) {
    const now = performance.now();
    if (!stale || (store.playing && now - written < 500)) return;
    [written, stale] = [now, false];
    caption.textContent = `Whose contributions are in which chunk: ${data.buffer}`;
    const most = Math.min(data.cells, MOST_WORDS);
    /** @type {Map<number, HTMLTableRowElement>} */
    const lines = new Map();
    for (let k = 0; k < most; k++) {
      const rank = data.arrays.rank[k];
      const line = lines.get(rank) ?? makeRow(`GPU${rank}`);
      line.append(make("td", { text: sentence(data, k) }));
      lines.set(rank, line);
    }
    body.replaceChildren(...lines.values());
    if (data.cells > most) body.append(make("tr", {}, make("td", { text: `and ${plural(data.cells - most, "more chunk")}` })));
  }

  /** @param {Spot} event */
  function hit(event) {
    const data = last;
    if (!data) return null;
    const { wide, tall } = sizes(data);
    const rank = Math.floor((event.offsetY - TOP) / tall);
    if (event.offsetY < TOP || rank >= data.ranks) return null;
    const place = Math.floor((event.offsetX - GUTTER) / wide);
    let cellAt = -1;
    for (let k = 0; k < data.cells && event.offsetX >= GUTTER; k++) {
      if (data.arrays.rank[k] === rank && data.arrays.place[k] === place) cellAt = k;
    }
    return { rank, cell: cellAt };
  }
  canvas.addEventListener("pointermove", (event) => {
    const at = hit(event);
    store.hovering(at ? `gpu[${at.rank}]` : "");
  });
  canvas.addEventListener("pointerleave", () => store.hovering(""));
  canvas.addEventListener("click", (event) => {
    const at = hit(event);
    if (at) store.select(`gpu[${at.rank}]`);
  });
  store.on("scene", () => {
    asker.forget();
    last = null;
  });

  return {
    element,
    draw,
    resize() {
      width = holder.clientWidth;
      room = holder.clientHeight;
      if (last) drawLegend(last);
    },
    themed: () => last && drawLegend(last),
    destroy: asker.destroy,
  };
}
