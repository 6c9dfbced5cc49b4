// The addresses of a buffer: a row a chunk; which lines have arrived, from whom, and whether they are final.

const GUTTER = 74;
const MOST_ROW = 22;
const ROOM = 400;
const CELL_PX = 4;
const NAMES = ["input", "output", "scratch", "packets"];
const NOBODY = 65535;

export function createBuffer(store, theme, { fit, make, column, formatTime, createAsker, createTip, RANK_COLOURS }) {
  const canvas = make("canvas", { class: "anb-canvas", role: "img", "aria-label": "What lies in a buffer" });
  const tip = createTip(make, canvas, say);
  const choice = (words, options) => make("select", { class: "anb-steps", "aria-label": words, onchange: () => store.emit("change") }, ...options);
  const rank = choice("Rank of the buffer", []);
  const buffer = choice("Buffer", NAMES.map((name) => make("option", { value: name, text: name })));
  buffer.value = "output";
  const words = make("span", { class: "anb-hint" });
  const legend = make("div", { class: "anb-legend" });
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, tip.element);
  const element = make(
    "section", { class: "anb-buffer", "aria-label": "Buffer" },
    make("div", { class: "anb-row" }, make("h4", { text: "Buffer of" }), rank, buffer, words, legend), holder,
  );
  const asker = createAsker(store, "buffer");
  const cells = createAsker(store, "cell");
  let width = 0;
  let grid = null; // the last answer, with its columns
  let pointed = null; // the cell that is framed

  store.on("scene", () => {
    const gpus = store.scene.gpus.map((_, number) => number);
    rank.replaceChildren(...gpus.map((one) => make("option", { value: one, text: `GPU${one}` })));
    asker.forget();
  });

  const options = () => ({
    rank: Number(rank.value), buffer: buffer.value, at: store.following ? null : Math.round(store.cursor),
    columns: Math.max(16, Math.floor((width - GUTTER) / CELL_PX)),
  });
  function read(reply) {
    if (grid?.reply === reply) return;
    const types = [Uint8Array, Uint16Array, Uint16Array, Uint8Array];
    const [arrived, source, ranks, state] = types.map((Type, k) => column(Type, reply.buffers[k]));
    grid = { ...reply, reply, arrived, source, ranks, state };
    for (const option of buffer.options) option.disabled = !reply.buffers || !reply.options || !has(reply, option.value);
    const fold = reply.fold > 1 ? `, ${reply.fold} lines a cell` : "";
    const count = (n) => n.toLocaleString("en-US");
    words.textContent = `${count(reply.arrived_lines)} of ${count(reply.lines)} lines have arrived, ${count(reply.final)} are final${fold}${reply.by_line ? "" : " (counted by the piece)"} · at ${formatTime(reply.now_ps, 4)}`;
    drawLegend();
  }
  const has = (reply, name) => reply.used.includes(name);

  function drawLegend() {
    const swatch = (kind, text) => make("span", { class: "anb-key" }, make("i", { class: `anb-cell anb-cell-${kind}` }), text);
    const there = [...new Set(grid.source)].filter((one) => one !== NOBODY).sort((a, b) => a - b);
    const named = there.slice(0, 16).map((one) =>
      make("span", { class: "anb-key" }, make("i", { class: "anb-bar", style: `--anb-colour: ${RANK_COLOURS[one % RANK_COLOURS.length]}; --anb-height: 10px` }), `GPU${one}`),
    );
    if (there.length > 16) named.push(make("span", { text: `… ${there.length} GPUs` }));
    legend.replaceChildren(swatch("none", "not arrived"), swatch("partial", "partial"), swatch("final", "final"), make("span", { text: "from:" }), ...named);
  }

  const pitch = () => Math.max(3, Math.min(MOST_ROW, Math.floor(ROOM / Math.max(1, grid.chunks))));

  function draw() {
    if (!store.scene || !width) return;
    const wanted = options();
    // While it plays, ten times a second is enough; the cursor's time says what is asked.
    const when = store.following ? store.timeline?.number : wanted.at;
    asker.want(wanted, `${when} ${JSON.stringify({ ...wanted, at: null })} ${store.following}`);
    if (asker.error) {
      words.textContent = asker.error;
      for (const option of buffer.options) option.disabled = false;
      canvas.style.height = "0px";
      return;
    }
    if (!asker.reply) return;
    read(asker.reply);
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
        context.fillText(`${grid.buffer}[${chunk}]`, 4, top + row / 2, GUTTER - 8);
      }
      for (let k = 0; k < grid.columns; k++) {
        const x = Math.round(GUTTER + k * cell); // whole pixels: no seams
        drawCell(context, chunk * grid.columns + k, x, top, Math.round(GUTTER + (k + 1) * cell) - x, tall);
      }
    }
    if (pointed && pointed.chunk < grid.chunks) {
      context.strokeStyle = theme.brand;
      context.lineWidth = 1.5;
      context.strokeRect(GUTTER + pointed.column * cell, 1 + pointed.chunk * row, cell, row - 1);
    }
    element.dataset.now = grid.now_ps;
    element.dataset.arrived = grid.arrived_lines;
  }

  function drawCell(context, at, x, top, cell, tall) {
    const state = grid.state[at];
    if (state === 2) return;
    context.fillStyle = theme.panel;
    context.fillRect(x, top, cell, tall);
    if (grid.source[at] === NOBODY) return;
    // Final is solid from top to bottom; partial stands as high as its part of all contributions.
    const full = state === 1;
    const part = full ? 1 : 0.25 + (0.55 * grid.ranks[at]) / Math.max(1, grid.of);
    context.fillStyle = RANK_COLOURS[grid.source[at] % RANK_COLOURS.length];
    context.globalAlpha = full ? 1 : 0.75;
    context.fillRect(x, top + tall * (1 - part), Math.max(0.6, (cell * grid.arrived[at]) / 255), tall * part);
    context.globalAlpha = 1;
  }

  function hit(event) {
    if (!grid || event.offsetX < GUTTER) return null;
    const chunk = Math.floor((event.offsetY - 1) / pitch());
    const at = Math.floor(((event.offsetX - GUTTER) / (width - GUTTER)) * grid.columns);
    if (chunk < 0 || chunk >= grid.chunks || grid.state[chunk * grid.columns + at] === 2) return null;
    return { chunk, column: at };
  }
  function say(at) {
    const over = hit(at);
    if (!over) return "";
    cells.want({ ...grid.reply.options, ...over }, `${grid.reply.id} ${over.chunk} ${over.column}`);
    const same = cells.reply?.options.chunk === over.chunk && cells.reply.options.column === over.column;
    return same ? cells.reply.text : `${grid.buffer}[${over.chunk}]`;
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
    const source = at ? grid.source[at.chunk * grid.columns + at.column] : NOBODY;
    if (at) store.select(`gpu[${source === NOBODY ? grid.rank : source}]`);
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
