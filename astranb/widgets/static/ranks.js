// @ts-check
// What each rank did when: lanes for what it computes, communicates and asks remote memory for, or for
// the chunks under way in each dimension. Only the ranks and pixels in sight are asked for (workload/_lanes.py).

import { createAsker } from "./asker.js";
import { paintDensity } from "./density.js";
import { formatCount, formatTime } from "./format.js";
import { GUTTER, RULER, createSight, drawClocks, drawRuler, navigate, scaleOf, scrollOf, stretch, windowAround } from "./navigation.js";
import { drawPathOverTime } from "./path.js";
import { RANK_COLOURS, fit, make, settle } from "./theme.js";
import { createTip } from "./tip.js";

/** @import { Context, Reply, Scale, Spot, Store, Theme, WorkloadScene } from "./types" */

const SIGHT = 420; // px: what is beyond scrolls
const [LOW, HIGH, FEW] = [11, 32, 4]; // px of a lane: of many ranks, and of at most so many
const APART = 6; // of ranks
const PX = 2.5; // of a column of density
const KINDS = /** @type {const} */ ([
  ["operations", "Operations"],
  ["chunks", "Chunks by dimension"],
]);
/** @typedef {(typeof KINDS)[number][0]} Kind */
/** @typedef {{ reply: Reply<"lanes">, theme: number, at: Map<number, number>, images?: HTMLCanvasElement[] }} Shown */
/** @type {Record<string, string>} */
const OPERATION_COLOURS = { compute: "#0072b2", communication: "#e69f00", memory: "#009e73", waiting: "#cc79a7" };
/** @type {Record<string, string>} */
const INK = { "#0072b2": "#ffffff", "#009e73": "#ffffff" };

/**
 * @param {Store} store
 * @param {Theme} theme
 */
export function createRanks(store, theme) {
  const canvas = make("canvas", { class: "anb-canvas anb-sticky", role: "img", "aria-label": "What every rank did when" });
  const tip = createTip(canvas, textAt);
  const legend = make("div", { class: "anb-legend" });
  const note = make("span", { class: "anb-note" });
  const spacer = make("div");
  const holder = make("div", { class: "anb-holder anb-rows" }, canvas, spacer, tip.element);
  const buttons = KINDS.map(([kind, words]) =>
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
  /** @type {Kind} */
  let kind = "operations";
  let width = 0;
  /** @type {Shown | null} the last answer, ready to be drawn */
  let picture = null;

  const scene = () => /** @type {WorkloadScene} */ (store.scene);
  const names = () => (kind === "operations" ? scene().lanes : scene().dims.map((_, dim) => `dim ${dim}`));
  const colours = () => (kind === "operations" ? scene().lanes.map((lane) => OPERATION_COLOURS[lane]) : scene().dims.map((_, dim) => RANK_COLOURS[dim % RANK_COLOURS.length]));
  const high = () => (scene().ranks > FEW ? LOW : HIGH);
  const tall = () => names().length * high() + APART;

  /** @param {Kind} which */
  function choose(which) {
    kind = which;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    picture = null;
    asker.forget();
    if (store.ready) {
      const titles = kind === "operations" ? scene().lanes : scene().dims.map((shape, dim) => `dim ${dim} (${shape})`);
      legend.replaceChildren(...titles.map((text, lane) =>
        make("span", { class: "anb-key" }, make("i", { class: "anb-bar", style: `--anb-colour: ${colours()[lane]}; --anb-height: 9px` }), text),
      ));
    }
    store.emit("change");
  }
  store.on("scene", () => choose(kind));

  /** Ranks in sight. */
  function visible() {
    const from = Math.floor(scroll.top / tall());
    const to = Math.min(scene().ranks, Math.ceil((scroll.top + SIGHT) / tall()));
    return Array.from({ length: Math.max(0, to - from) }, (_, k) => from + k);
  }
  /** @param {Scale} scale @param {number[]} ranks */
  function ask(scale, ranks) {
    const options = { kind, ...windowAround(scale, width, PX), ranks };
    asker.want(options, `${store.timeline?.number} ${JSON.stringify(options)}`);
  }
  /** @param {Reply<"lanes">} reply */
  function read(reply) {
    if (picture?.reply === reply && picture.theme === theme.version) return;
    const { ranks, lanes } = reply;
    const shown = (picture = /** @type {Shown} */ ({ reply, theme: theme.version, at: new Map(ranks.map((rank, k) => [rank, k])) }));
    if (reply.drawn === "density") {
      const { shares } = reply.arrays;
      shown.images = colours().map((colour, lane) => {
        const mine = new Uint8Array(ranks.length * reply.columns);
        ranks.forEach((_, k) => mine.set(shares.subarray((k * lanes + lane) * reply.columns, (k * lanes + lane + 1) * reply.columns), k * reply.columns));
        return paintDensity(mine, [0], ranks.length, reply.columns, high() - 1, [colour]);
      });
    }
  }

  function draw() {
    if (!store.ready || !width) return;
    const full = scene().ranks * tall();
    const height = Math.min(SIGHT, full) + RULER;
    stretch(canvas, spacer, height, full + RULER);
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
    if (store.path) drawPathOverTime(context, store, theme, { scale, left: GUTTER, width, rowAt: rowOf });
    outline(context);
    context.restore();
    drawRuler(context, theme, scale, width);
    drawClocks(context, store, theme, scale, width, RULER, height, true);
    const { count = 0, drawn = "" } = picture?.reply ?? {};
    settle(note, picture ? `${formatCount(count)} ${kind} in sight${drawn === "density" ? ", drawn as density" : ""}` : "");
    Object.assign(element.dataset, { drawn, kind, asked: String(asker.open), count: String(count) });
    tip.write();
  }
  /** @param {Context} context @param {number[]} ranks */
  function drawGutter(context, ranks) {
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const rank of ranks) {
      const top = rank * tall();
      context.fillStyle = theme.panel;
      for (let lane = 0; lane < names().length; lane++) context.fillRect(GUTTER, top + lane * high(), width - GUTTER, high() - 1);
      context.fillStyle = store.selection.startsWith(`rank[${rank}]`) ? theme.brand : theme.ink;
      context.font = `12px ${theme.font}`;
      context.fillText(scene().alike > 1 ? `all ${scene().alike}` : `rank ${rank}`, 3, top + (tall() - APART) / 2, GUTTER - 6);
    }
  }
  /** @param {Context} context @param {Scale} scale */
  function drawSpans(context, scale) {
    if (!picture) return;
    const { reply, images } = picture;
    if (images) {
      const [x0, x1] = [scale.x(reply.from), scale.x(reply.to)];
      context.imageSmoothingEnabled = false;
      for (const [rank, k] of picture.at) {
        images.forEach((image, lane) =>
          context.drawImage(image, 0, k * (high() - 1), reply.columns, high() - 1, x0, rank * tall() + lane * high(), x1 - x0, high() - 1),
        );
      }
      return;
    }
    const paints = colours();
    context.font = `9px ${theme.font}`;
    context.textBaseline = "middle";
    for (let n = 0; n < reply.arrays.place.length; n++) {
      const { x, y, wide, deep, lane } = boxOf(reply, n, scale);
      if (x > width || x + wide < GUTTER) continue;
      context.fillStyle = paints[lane];
      context.fillRect(x, y, Math.max(0.7, wide - 0.6), deep);
      if (deep < LOW - 2 || wide < 34) continue;
      const text = reply.labels?.[reply.arrays.label[n]] ?? "";
      const from = Math.max(x, GUTTER);
      if (context.measureText(text).width > x + wide - from - 6) continue;
      context.fillStyle = INK[paints[lane]] ?? "#000000";
      context.fillText(text, from + 3, y + deep / 2 + 0.5);
    }
  }
  /** Where a span is. @param {Reply<"lanes">} reply @param {number} n @param {Scale} scale */
  function boxOf({ lanes, ranks, arrays }, n, scale) {
    const lane = arrays.place[n] % lanes;
    const rank = ranks[(arrays.place[n] - lane) / lanes];
    const each = (high() - 1) / arrays.slots[n];
    const x = scale.x(arrays.start[n]);
    return { x, y: rank * tall() + lane * high() + arrays.slot[n] * each, wide: scale.x(arrays.end[n]) - x, deep: Math.max(1, each), lane };
  }
  /**
   * Where the critical path is drawn: a rank's lane, or all of its lanes where they are dimensions.
   * @param {number} rank
   * @param {number} lane
   */
  function rowOf(rank, lane) {
    if (rank < 0) return null;
    const top = rank * tall();
    return kind === "operations" ? { top: top + lane * high(), height: high() - 1 } : { top, height: tall() - APART };
  }
  /** @param {Context} context */
  function outline(context) {
    const rank = Number(store.selection.match(/^rank\[(\d+)\]/)?.[1] ?? -1);
    if (rank < 0) return;
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    context.strokeRect(GUTTER + 0.75, rank * tall() - 1, width - GUTTER - 1.5, tall() - APART + 1);
  }

  /** The rank at a place, and the span there where there is one. @param {Spot} event */
  function hit(event) {
    if (!store.ready || event.offsetY < RULER) return null;
    const y = event.offsetY - RULER + scroll.top;
    const rank = Math.floor(y / tall());
    if (rank >= scene().ranks) return null;
    if (!picture || event.offsetX < GUTTER) return { rank, n: -1 };
    const { reply } = picture;
    const scale = scaleOf(store, width);
    for (let n = reply.arrays.place.length - 1; n >= 0; n--) {
      const box = boxOf(reply, n, scale);
      const inside = event.offsetX >= box.x - 1 && event.offsetX <= box.x + Math.max(2, box.wide);
      if (inside && y >= box.y && y <= box.y + box.deep) return { rank, n };
    }
    return { rank, n: -1 };
  }
  /** @param {{ rank: number, n: number }} found */
  const pathOf = ({ rank, n }) => (n < 0 ? `rank[${rank}]` : `rank[${rank}].op[${picture?.reply.arrays.number[n]}]`);
  /** @param {Spot} at */
  function textAt(at) {
    const pointed = hit(at);
    if (!pointed) return "";
    const parts = [scene().alike > 1 ? "all ranks" : `rank ${pointed.rank}`];
    if (picture && pointed.n >= 0) {
      const { arrays, labels } = picture.reply;
      const [start, end] = [arrays.start[pointed.n], arrays.end[pointed.n]];
      parts.push(labels?.[arrays.label[pointed.n]] ?? "", `${formatTime(start, 3)} to ${formatTime(end, 3)} (${formatTime(end - start, 3)})`);
    }
    return parts.join(" · ");
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
