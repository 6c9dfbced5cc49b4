// Who has summed whom: ranks by chunks, a tick for each rank whose contribution is in a chunk.

const GUTTER = 56;
const TOP = 18;
const BUFFERS = ["input", "output", "scratch", "packets"]; // collectives/_lower.py
const FULLEST = "fullest"; // of each chunk the copy with the most in it, in whatever buffer
const SUMMED = "#0072b2"; // Okabe and Ito
const SUMMED_DARK = "#56b4e9";
const WRONG = "#d55e00";
const MOST_WORDS = 1100; // cells in the table
const LEAST_TICK = 1.6; // pixels: below, a cell shows how many, not who

export function createChunks(store, theme, { fit, make, settle, column, createAsker, createTip, momentOf }) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "Whose contributions are in which chunk" });
  const tip = createTip(make, canvas, (at) => {
    const found = hit(at);
    return found && found.cell >= 0 ? sentence(found.cell) : "";
  });
  const holder = make("div", { class: "anb-chunks-holder" }, canvas, tip.element);
  const buffer = make(
    "select", { class: "anb-steps", "aria-label": "Buffer", title: "whose contents are shown", onchange: () => store.emit("change") },
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
    make("div", { class: "anb-row" }, buffer, legend, summary), holder, table,
  );
  let width = 0;
  let room = 0;
  let data = null;
  let failure = "";
  let told = 0; // when the table was written last
  let untold = false;

  const asker = createAsker(store, "chunks", {
    every: 120,
    answered(reply, error) {
      failure = error ? error.message : "";
      data = null;
      if (error) return;
      const fields = reply.columns.map((name, k) => [name, column(Int32Array, reply.buffers[k])]);
      const after = reply.buffers.slice(reply.columns.length).map((bytes) => column(Uint8Array, bytes));
      data = { ...reply, of: Object.fromEntries(fields), least: after[0], most: after[1] };
      if (buffer.value !== reply.buffer) buffer.value = reply.buffer;
      untold = true;
      for (const option of buffer.options) option.hidden = option.disabled = !reply.able.includes(option.value);
      drawLegend();
    },
  });

  const label = (k) => `${BUFFERS[data.of.buffer[k]]}[${data.of.chunk[k]}]`;
  function sentence(k) {
    if (data.texts.length) return data.texts[k];
    const marks = [data.of.twice[k] ? "wrong: some more than once" : "", data.of.writing[k] ? "being written" : "", data.of.kept[k] ? "final" : ""];
    const count = `${data.of.there[k]} of ${data.of.promised[k] || data.ranks}`;
    return [`GPU${data.of.rank[k]} ${label(k)}: ${count}`, ...marks.filter(Boolean)].join(", ");
  }
  function sizes() {
    const wide = Math.max(5, Math.min(120, Math.floor((width - GUTTER - 4) / Math.max(1, data.width))));
    const tall = Math.max(7, Math.min(36, Math.floor((room - TOP - 4) / data.ranks)));
    return { wide, tall };
  }
  /** Whether each contribution has room for a tick of its own. */
  const ticked = ({ wide }) => data.ticks && (wide - 5) / data.ranks >= LEAST_TICK;

  function drawLegend() {
    const words = ticked(sizes())
      ? [["anb-tick-full", "summed in"], ["anb-tick-part", "in some lanes"], ["anb-tick-twice", "twice: wrong"], ["anb-key-final", "final"], ["anb-key-writing", "being written"]]
      : [["anb-key-final", "final"], ["anb-key-writing", "being written"]];
    const keys = words.map(([kind, text]) => make("span", { class: "anb-key" }, make("i", { class: kind }), text));
    if (!ticked(sizes())) {
      const ramp = [0.02, 0.25, 0.5, 0.75, 1].map((v) => theme.rampText(v)).join(", ");
      keys.unshift(make("span", { class: "anb-key" }, "0", make("i", { class: "anb-ramp", style: `--anb-ramp: ${ramp}` }), `${data.ranks} ranks in it`));
    }
    legend.replaceChildren(...keys);
  }

  function draw() {
    if (!store.scene || !store.state) return;
    const { at_ps, key } = momentOf(store);
    asker.want({ buffer: buffer.value, at_ps }, `${key} ${buffer.value}`);
    if (!width) return;
    if (!data) {
      summary.textContent = failure;
      fit(canvas, width, 1);
      tip.write();
      return;
    }
    const { wide, tall } = sizes();
    const height = TOP + data.ranks * tall + 4;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const across = Math.max(width, GUTTER + data.width * wide + 4);
    if (canvas.style.width !== `${across}px`) canvas.style.width = `${across}px`;
    const context = fit(canvas, across, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, across, height);
    heads(context, wide, tall);
    for (let k = 0; k < data.cells; k++) cell(context, k, wide, tall);
    const wrong = data.of.twice.reduce((sum, n) => sum + (n > 0), 0);
    const words = `${data.final} of ${data.promised_cells} chunks final${wrong ? `, ${wrong} wrong` : ""}`;
    settle(summary, words);
    tip.write();
    tell();
  }
  function heads(context, wide, tall) {
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
  const nameOf = (rank) => store.scene.boxes.find((box) => box.rank === rank)?.name;

  function cell(context, k, wide, tall) {
    const [x, y] = [GUTTER + data.of.place[k] * wide, TOP + data.of.rank[k] * tall];
    const gap = wide > 9 && tall > 9 ? 2 : 1;
    const [w, h] = [wide - gap, tall - gap];
    context.fillStyle = theme.panel;
    context.fillRect(x, y, w, h);
    if (ticked({ wide })) ticks(context, k, x + 1.5, y + 2, w - 3, h - 4);
    else if (data.of.there[k]) {
      context.fillStyle = theme.rampText(Math.max(0.02, data.of.there[k] / data.ranks));
      context.fillRect(x, y, w, h);
      if (data.of.twice[k]) cross(context, x, y, w, h);
    }
    if (data.of.writing[k]) { // a corner, so that it is seen without colour
      context.fillStyle = theme.ink;
      context.beginPath();
      context.moveTo(x + w, y);
      context.lineTo(x + w, y + Math.min(6, h));
      context.lineTo(x + w - Math.min(6, w), y);
      context.fill();
    }
    if (data.of.kept[k]) {
      context.strokeStyle = theme.ink;
      context.lineWidth = wide > 9 && tall > 9 ? 1.5 : 1;
      context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    }
  }
  function ticks(context, k, x, y, w, h) {
    const pitch = w / data.ranks;
    const tick = Math.max(1, pitch - (pitch > 3 ? 1 : 0.4));
    for (let rank = 0; rank < data.ranks; rank++) {
      const most = data.most[k * data.ranks + rank];
      const least = data.least[k * data.ranks + rank];
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

  /** Write the table: twice a second at most, because it is read and not watched. */
  function tell() {
    const now = performance.now();
    if (!untold || (store.playing && now - told < 500)) return;
    [told, untold] = [now, false];
    caption.textContent = `Whose contributions are in which chunk: ${data.buffer}`;
    const most = Math.min(data.cells, MOST_WORDS);
    const lines = new Map();
    for (let k = 0; k < most; k++) {
      if (!lines.has(data.of.rank[k])) lines.set(data.of.rank[k], make("tr", {}, make("th", { scope: "row", text: `GPU${data.of.rank[k]}` })));
      lines.get(data.of.rank[k]).append(make("td", { text: sentence(k) }));
    }
    body.replaceChildren(...lines.values());
    if (data.cells > most) body.append(make("tr", {}, make("td", { text: `and ${data.cells - most} more chunks` })));
  }

  function hit(event) {
    if (!data) return null;
    const { wide, tall } = sizes();
    const rank = Math.floor((event.offsetY - TOP) / tall);
    if (event.offsetY < TOP || rank >= data.ranks) return null;
    const place = Math.floor((event.offsetX - GUTTER) / wide);
    let cellAt = -1;
    for (let k = 0; k < data.cells && event.offsetX >= GUTTER; k++) {
      if (data.of.rank[k] === rank && data.of.place[k] === place) cellAt = k;
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
    data = null;
  });

  return {
    element,
    draw: () => (draw(), null),
    resize() {
      width = holder.clientWidth;
      room = holder.clientHeight;
      if (data) drawLegend();
    },
    themed: () => data && drawLegend(),
    destroy: asker.destroy,
  };
}
