// What SMs, thread blocks or phases did when: a band for each GPU, folded or lane by lane.
// Only what is in sight is asked for (_spans.py), as spans or as density; only that is drawn.

const ROOM = 420; // px: what is beyond scrolls
const LANE = 11;
const HEIGHT = 10; // of a lane's picture
const FOLD = 26;
const LEAST_FOLD = 14;
const GAP = 3;
const COLUMN_PX = 2.5; // of density
const KINDS = [
  ["sms", "SM lanes"],
  ["blocks", "Thread blocks"],
  ["phases", "Phases"],
];

export function createTimeline(store, theme, modules) {
  const { fit, make, settle, column, formatTime, scaleOf, navigate, drawRuler, drawClocks, createAsker, createTip, createSight, scrollOf } = modules;
  const { drawPathOverTime, paintDensity, rowStarts, recordedSpans, sharesAt, LANE_COLOURS, LANE_HEIGHTS, PHASE_COLOURS, GUTTER, RULER } = modules;
  const canvas = make("canvas", { class: "anb-canvas anb-sticky", role: "img", "aria-label": "What every SM, thread block or phase did when" });
  const tip = createTip(make, canvas, say);
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
  const opened = new Set();
  let kind = "sms";
  let rows = null; // answer of "rows"
  let width = 0;
  let items = []; // {gpu, lane (-1: folded), top, height}
  let full = 0; // height of all of them
  let selected = "";
  let seen = new Set(); // states that the legend names
  let picture = null; // the last answer, ready to be drawn
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

  /** GPU of a path, or -1. */
  function gpuOf(path) {
    const short = path.match(/^gpu\[(\d+)\]/);
    if (short) return Number(short[1]);
    return store.scene.gpus.findIndex((name) => path === name || path.startsWith(`${name}.`));
  }

  function layOut() {
    items = [];
    if (!rows || !store.scene) return;
    const fold = Math.min(FOLD, Math.max(LEAST_FOLD, Math.floor(ROOM / rows.gpus) - GAP));
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

  function ask(scale, shown) {
    if (!rows || !store.timeline) return;
    const margin = (scale.b - scale.a) / 8; // so that a short pan is there already
    const [from, to] = [Math.max(0, Math.floor(scale.a - margin)), Math.ceil(scale.b + margin)];
    const folds = [...new Set(shown.filter((i) => i.lane < 0 || kind === "phases").map((i) => i.gpu))];
    const lanes = kind === "phases" ? [] : shown.filter((i) => i.lane >= 0).map((i) => i.lane);
    const columns = Math.round(((width - GUTTER) / COLUMN_PX) * ((to - from) / (scale.b - scale.a)));
    const options = { kind, from, to, columns, folds, lanes };
    asker.want(options, `${store.timeline.number} ${JSON.stringify(options)}`);
  }

  /** Make an answer ready to be drawn: images of what is density, places of what is spans. */
  function read(reply) {
    if (picture?.reply === reply && picture.theme === theme.version) return;
    const { folds, lanes } = reply.options;
    const buffers = [...reply.buffers];
    const fold = items[0]?.height ?? FOLD;
    picture = { reply, theme: theme.version, folds: new Map(folds.map((gpu, k) => [gpu, k])), lanes: new Map(lanes.map((lane, k) => [lane, k])) };
    if (reply.kind !== "phases") {
      const shares = column(Uint8Array, buffers.shift());
      picture.foldHeight = fold;
      picture.fold = paintDensity(shares, reply.present, folds.length, reply.columns, fold, LANE_COLOURS);
    }
    if (reply.drawn === "density") {
      picture.lane = paintDensity(column(Uint8Array, buffers[0]), reply.present, lanes.length, reply.columns, HEIGHT, LANE_COLOURS);
    } else {
      const types = [Uint32Array, Uint32Array, Float64Array, Float64Array];
      [picture.row, picture.state, picture.start, picture.end] = types.map((Type, k) => column(Type, buffers[k]));
      picture.starts = rowStarts(picture.row, reply.kind === "phases" ? folds.length : lanes.length);
    }
    const before = seen.size;
    for (const state of reply.present) seen.add(state);
    if (picture.state && reply.kind !== "phases") for (const state of picture.state) seen.add(state);
    if (seen.size !== before || fresh) drawLegend();
    fresh = false;
  }

  /** A recorded page has no kernel to ask: what it has is the spans of thread blocks. */
  function readRecorded() {
    const line = store.timeline;
    if (!line?.what.length || (picture?.line === line && picture.theme === theme.version)) return;
    if (kind !== "blocks") choose("blocks");
    for (const button of buttons) button.disabled = button.dataset.kind !== "blocks";
    const found = recordedSpans(line);
    picture = {
      ...found, line, theme: theme.version, folds: new Map(), lanes: new Map(store.scene.blocks.map((_, lane) => [lane, lane])),
      reply: { kind: "blocks", from: 0, to: line.now_ps, drawn: "spans", count: found.row.length, present: [] },
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
    if (!store.scene || !width) return;
    if (selected !== store.selection) {
      selected = store.selection;
      const gpu = gpuOf(selected);
      if (gpu >= 0) opened.add(gpu);
      layOut();
    }
    const height = Math.min(ROOM, full) + RULER;
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    const rest = `${Math.max(0, full + RULER - height)}px`;
    if (spacer.style.height !== rest) spacer.style.height = rest;
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
    drawRuler(context, theme, scale, width, formatTime);
    drawClocks(context, store, theme, scale, width, RULER, height, true);
    tell();
  }

  /** Where a thread block is on the screen: its own lane or its SM's, or its GPU's band; null where that is out of sight. */
  function rowAt(block, sm) {
    const gpu = store.scene.blocks[block];
    const { number, engine } = rows?.sms ?? {};
    const mine = { blocks: (lane) => lane === block, sms: (lane) => number[lane] === sm && !engine[lane] }[kind];
    const item = (mine && items.find((one) => one.gpu === gpu && one.lane >= 0 && mine(one.lane))) ?? items.find((one) => one.gpu === gpu && one.lane < 0);
    if (!item) return null;
    const top = item.top + RULER - scroll.top;
    return top + item.height <= RULER || top >= ROOM + RULER ? null : { top, height: item.height };
  }

  function tell() {
    const { count = 0, folded = 0, drawn = "" } = picture?.reply ?? {};
    const things = kind === "phases" ? "phases" : "spans";
    const number = (n) => n.toLocaleString("en-US");
    const all = drawn === "density" || !count ? count + folded : count; // of one kind
    let said = picture ? `${number(all)} ${things}${all > count || drawn === "density" ? ", drawn as density" : ""}` : "";
    if (folded && all === count) said += ` · ${number(folded)} more in folded GPUs, as density`;
    settle(note, said);
    element.dataset.drawn = picture?.reply.drawn ?? "";
    element.dataset.kind = kind;
    element.dataset.asked = String(asker.open);
    element.dataset.from = String(picture?.reply.from ?? "");
    element.dataset.to = String(picture?.reply.to ?? "");
    element.dataset.number = String(store.timeline?.number ?? "");
  }

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
        context.fillText(nameOf(gpu, lane), 16, middle, GUTTER - 18);
      }
    }
  }
  function nameOf(gpu, lane) {
    if (kind === "phases") return `phase ${lane + 1}`;
    const number = rows[kind].number[lane];
    if (kind === "blocks") return `block ${number}`;
    return rows.sms.engine[lane] ? "copy engine" : `sm.${number}`;
  }

  function drawItem(context, item, scale) {
    const { reply } = picture;
    const [x0, x1] = [scale.x(reply.from), scale.x(reply.to)];
    if (reply.kind === "phases") return drawPhases(context, item, scale);
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

  function drawPhases(context, item, scale) {
    const k = picture.folds.get(item.gpu);
    if (k === undefined) return;
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

  /** The selected GPU, SM or thread block. */
  function outline(context, shown) {
    const gpu = gpuOf(store.selection);
    const part = store.selection.match(/\.(sm|block)\.(\d+)$/);
    const wanted = { sm: "sms", block: "blocks" }[part?.[1]];
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    for (const item of shown) {
      if (item.gpu !== gpu) continue;
      const here = item.lane < 0 ? !part : kind === wanted && rows[kind].number[item.lane] === Number(part[2]);
      if (here) context.strokeRect(GUTTER + 0.75, item.top, width - GUTTER - 1.5, item.height);
    }
  }

  function hit(event) {
    if (!store.scene || event.offsetY < RULER) return null;
    const y = event.offsetY - RULER + scroll.top;
    return items.find((item) => y >= item.top && y < item.top + item.height) ?? null;
  }
  canvas.addEventListener("pointermove", (event) => {
    const item = hit(event);
    store.hovering(item ? `gpu[${item.gpu}]` : "");
  });
  function say(at) {
    const item = hit(at);
    if (!item) return "";
    const { gpu, lane } = item;
    const said = [`GPU${gpu}`];
    if (lane >= 0) said.push(kind === "phases" ? store.scene.phases[lane] : nameOf(gpu, lane));
    if (at.offsetX >= GUTTER) {
      const time = Math.round(scaleOf(store, width).t(at.offsetX));
      const wanted = { kind, lane: kind === "phases" ? gpu : lane, time };
      const about = JSON.stringify(wanted);
      if (lane >= 0 || kind === "phases") words.want(wanted, about);
      said.push(formatTime(time, 3));
      if (words.reply?.text && words.reply.about === about) said.push(words.reply.text);
      else if (lane < 0) said.push(...shares(gpu, time));
    }
    return said.join(" · ");
  }
  store.on("change", tip.write);
  /** What the lanes of a folded GPU are in at the pointer. */
  function shares(gpu, time) {
    const row = picture?.folds.get(gpu);
    if (row === undefined || picture.reply.kind === "phases") return [];
    return sharesAt(picture.reply, column(Uint8Array, picture.reply.buffers[0]), picture.folds.size, row, time, rows.states);
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
      } else if (item.lane < 0 || kind === "phases" || (kind === "sms" && rows.sms.engine[item.lane])) store.select(`gpu[${item.gpu}]`);
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
