// What each rank did when: lanes for what it computes, communicates and asks remote memory for, or for
// the chunks under way in each dimension. Only the ranks and pixels in sight are asked for (workload/_lanes.py).

const SIGHT = 420; // px: what is beyond scrolls
const [LOW, HIGH, FEW] = [11, 32, 4]; // px of a lane: of many ranks, and of at most so many
const APART = 6; // of ranks
const PX = 2.5; // of a column of density
const WAYS = [
  ["operations", "Operations"],
  ["chunks", "Chunks by dimension"],
];
const OPERATION_COLOURS = { compute: "#0072b2", communication: "#e69f00", memory: "#009e73", waiting: "#cc79a7" };
const INK = { "#0072b2": "#ffffff", "#009e73": "#ffffff" };

export function createRanks(store, theme, modules) {
  const { fit, make, settle, column, formatTime, scaleOf, navigate, drawRuler, drawClocks, createAsker, createTip, createSight, scrollOf } = modules;
  const { drawPathOverTime, paintDensity, RANK_COLOURS, GUTTER, RULER } = modules;
  const canvas = make("canvas", { class: "anb-canvas anb-sticky", role: "img", "aria-label": "What every rank did when" });
  const tip = createTip(make, canvas, say);
  const legend = make("div", { class: "anb-legend" });
  const note = make("span", { class: "anb-note" });
  const spacer = make("div");
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, spacer, tip.element);
  const buttons = WAYS.map(([kind, words]) =>
    make("button", { type: "button", class: "anb-tab", text: words, "data-kind": kind, onclick: () => choose(kind) }),
  );
  const element = make(
    "section", { class: "anb-timeline anb-ranks", "aria-label": "Timeline of ranks" },
    make("div", { class: "anb-row" }, make("div", { class: "anb-tabs", role: "group", "aria-label": "Lanes" }, ...buttons), legend, note),
    holder,
  );
  const asker = createAsker(store, "lanes");
  const scroll = scrollOf(store, holder);
  const sight = createSight(store);
  let kind = "operations";
  let width = 0;
  let picture = null; // the last answer, ready to be drawn

  const names = () => (kind === "operations" ? store.scene.lanes : store.scene.dims.map((shape, dim) => `dim ${dim}`));
  const colours = () => (kind === "operations" ? store.scene.lanes.map((lane) => OPERATION_COLOURS[lane]) : store.scene.dims.map((_, dim) => RANK_COLOURS[dim % RANK_COLOURS.length]));
  const high = () => (store.scene.ranks > FEW ? LOW : HIGH);
  const tall = () => names().length * high() + APART;

  function choose(which) {
    kind = which;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    picture = null;
    asker.forget();
    if (store.scene) {
      const said = kind === "operations" ? store.scene.lanes : store.scene.dims.map((shape, dim) => `dim ${dim} (${shape})`);
      legend.replaceChildren(...said.map((text, lane) =>
        make("span", { class: "anb-key" }, make("i", { class: "anb-bar", style: `--anb-colour: ${colours()[lane]}; --anb-height: 9px` }), text),
      ));
    }
    store.emit("change");
  }
  store.on("scene", () => choose(kind));

  /** Ranks in sight. */
  function visible() {
    const from = Math.floor(scroll.top / tall());
    const to = Math.min(store.scene.ranks, Math.ceil((scroll.top + SIGHT) / tall()));
    return Array.from({ length: Math.max(0, to - from) }, (_, k) => from + k);
  }
  function ask(scale, ranks) {
    const margin = (scale.b - scale.a) / 8; // so that a short pan is there already
    const [from, to] = [Math.max(0, Math.floor(scale.a - margin)), Math.ceil(scale.b + margin)];
    const columns = Math.round(((width - GUTTER) / PX) * ((to - from) / (scale.b - scale.a)));
    const options = { kind, from, to, columns, ranks };
    asker.want(options, `${store.timeline?.number} ${JSON.stringify(options)}`);
  }
  function read(reply) {
    if (picture?.reply === reply && picture.theme === theme.version) return;
    const { ranks, lanes } = reply;
    picture = { reply, theme: theme.version, at: new Map(ranks.map((rank, k) => [rank, k])) };
    if (reply.drawn === "density") {
      const shares = column(Uint8Array, reply.buffers[0]);
      picture.images = colours().map((colour, lane) => {
        const mine = new Uint8Array(ranks.length * reply.columns);
        ranks.forEach((_, k) => mine.set(shares.subarray((k * lanes + lane) * reply.columns, (k * lanes + lane + 1) * reply.columns), k * reply.columns));
        return paintDensity(mine, [0], ranks.length, reply.columns, high() - 1, [colour]);
      });
      return;
    }
    const types = [Uint32Array, Uint32Array, Uint32Array, Uint32Array, Uint32Array, Float64Array, Float64Array];
    const fields = ["place", "slot", "slots", "number", "label", "start", "end"];
    fields.forEach((name, k) => (picture[name] = column(types[k], reply.buffers[k])));
  }

  function draw() {
    if (!store.scene || !width) return;
    const full = store.scene.ranks * tall();
    const height = Math.min(SIGHT, full) + RULER;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const rest = `${Math.max(0, full + RULER - height)}px`;
    if (spacer.style.height !== rest) spacer.style.height = rest;
    const scale = scaleOf(store, width);
    if (sight(scale, kind, asker.reply?.id, store.timeline?.number, scroll.top, theme.version, width, height, store.path)) return;
    const ranks = visible();
    ask(scale, ranks);
    if (asker.reply?.kind === kind) read(asker.reply);
    const context = fit(canvas, width, height);
    context.fillStyle = theme.back;
    context.fillRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(0, RULER, width, height - RULER);
    context.clip();
    context.translate(0, RULER - scroll.top);
    drawGutter(context, ranks);
    context.beginPath();
    context.rect(GUTTER, scroll.top, width - GUTTER, SIGHT);
    context.clip();
    if (picture) drawSpans(context, scale);
    if (store.path) drawPathOverTime(context, store, theme, { scale, left: GUTTER, width, rowAt: (rank, lane) => rowOf(rank, lane) });
    outline(context);
    context.restore();
    drawRuler(context, theme, scale, width, formatTime);
    drawClocks(context, store, theme, scale, width, RULER, height, true);
    const { count = 0, drawn = "" } = picture?.reply ?? {};
    settle(note, picture ? `${count.toLocaleString("en-US")} ${kind} in sight${drawn === "density" ? ", drawn as density" : ""}` : "");
    Object.assign(element.dataset, { drawn, kind, asked: String(asker.open), count: String(count) });
    tip.write();
  }
  function drawGutter(context, ranks) {
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const rank of ranks) {
      const top = rank * tall();
      names().forEach((name, lane) => {
        context.fillStyle = theme.panel;
        context.fillRect(GUTTER, top + lane * high(), width - GUTTER, high() - 1);
      });
      context.fillStyle = store.selection.startsWith(`rank[${rank}]`) ? theme.brand : theme.ink;
      context.font = `12px ${theme.font}`;
      context.fillText(store.scene.alike > 1 ? `all ${store.scene.alike}` : `rank ${rank}`, 3, top + (tall() - APART) / 2, GUTTER - 6);
    }
  }
  function drawSpans(context, scale) {
    const { reply } = picture;
    if (picture.images) {
      const [x0, x1] = [scale.x(reply.from), scale.x(reply.to)];
      context.imageSmoothingEnabled = false;
      for (const [rank, k] of picture.at) {
        picture.images.forEach((image, lane) =>
          context.drawImage(image, 0, k * (high() - 1), reply.columns, high() - 1, x0, rank * tall() + lane * high(), x1 - x0, high() - 1),
        );
      }
      return;
    }
    const paints = colours();
    context.font = `9px ${theme.font}`;
    context.textBaseline = "middle";
    for (let n = 0; n < picture.place.length; n++) {
      const [x, y, wide, deep, lane] = boxOf(n, scale);
      if (x > width || x + wide < GUTTER) continue;
      context.fillStyle = paints[lane];
      context.fillRect(x, y, Math.max(0.7, wide - 0.6), deep);
      if (deep < LOW - 2 || wide < 34) continue;
      const text = reply.labels[picture.label[n]];
      const from = Math.max(x, GUTTER);
      if (context.measureText(text).width > x + wide - from - 6) continue;
      context.fillStyle = INK[paints[lane]] ?? "#000000";
      context.fillText(text, from + 3, y + deep / 2 + 0.5);
    }
  }
  /** Where a span is: left, top, width, height, and its lane. */
  function boxOf(n, scale) {
    const { lanes, ranks } = picture.reply;
    const lane = picture.place[n] % lanes;
    const rank = ranks[(picture.place[n] - lane) / lanes];
    const each = (high() - 1) / picture.slots[n];
    const x = scale.x(picture.start[n]);
    return [x, rank * tall() + lane * high() + picture.slot[n] * each, scale.x(picture.end[n]) - x, Math.max(1, each), lane, rank];
  }
  /** Where the critical path is drawn: a rank's lane, or all of its lanes where they are dimensions. */
  function rowOf(rank, lane) {
    if (rank < 0) return null;
    const top = rank * tall();
    return kind === "operations" ? { top: top + lane * high(), height: high() - 1 } : { top, height: tall() - APART };
  }
  function outline(context) {
    const rank = Number(store.selection.match(/^rank\[(\d+)\]/)?.[1] ?? -1);
    if (rank < 0) return;
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    context.strokeRect(GUTTER + 0.75, rank * tall() - 1, width - GUTTER - 1.5, tall() - APART + 1);
  }

  /** The rank at a place, and the span there where there is one. */
  function hit(event) {
    if (!store.scene || event.offsetY < RULER) return null;
    const y = event.offsetY - RULER + scroll.top;
    const rank = Math.floor(y / tall());
    if (rank >= store.scene.ranks) return null;
    if (!picture?.place || event.offsetX < GUTTER) return { rank, n: -1 };
    const scale = scaleOf(store, width);
    for (let n = picture.place.length - 1; n >= 0; n--) {
      const [left, top, wide, deep] = boxOf(n, scale);
      const inside = event.offsetX >= left - 1 && event.offsetX <= left + Math.max(2, wide);
      if (inside && y >= top && y <= top + deep) return { rank, n };
    }
    return { rank, n: -1 };
  }
  const pathOf = ({ rank, n }) => (n < 0 ? `rank[${rank}]` : `rank[${rank}].op[${picture.number[n]}]`);
  function say(at) {
    const pointed = hit(at);
    if (!pointed) return "";
    const said = [store.scene.alike > 1 ? "all ranks" : `rank ${pointed.rank}`];
    if (pointed.n >= 0) {
      const [start, end] = [picture.start[pointed.n], picture.end[pointed.n]];
      said.push(picture.reply.labels[picture.label[pointed.n]], `${formatTime(start, 3)} to ${formatTime(end, 3)} (${formatTime(end - start, 3)})`);
    }
    return said.join(" · ");
  }
  navigate(canvas, store, {
    clicked(event) {
      const found = hit(event);
      if (found) store.select(pathOf(found));
    },
  });
  return {
    element,
    draw,
    resize: () => (width = canvas.clientWidth),
    destroy() {
      asker.destroy();
    },
  };
}
