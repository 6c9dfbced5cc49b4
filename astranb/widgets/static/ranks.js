// @ts-check
// What each rank did when: tracks for what it computes, communicates and asks remote memory for, or for
// the chunks under way in each dimension. Only the ranks and pixels in sight are asked for (views/ranks.py); a page without a
// kernel has every span that was recorded, and draws those in sight.

import { createColumns } from "./columns.js";
import { paintDensity } from "./density.js";
import { formatTime, plural } from "./format.js";
import { GUTTER, RULER, createTracks, drawPin, orderOf } from "./navigation.js";
import { drawPathOverTime } from "./path.js";
import { ACTIVITY_COLOURS, RANK_COLOURS, makeBarKey, settle } from "./theme.js";

/** @import { Context, CreateView, Reply, Scale, Spot, Tracks, WorkloadScene } from "./types" */

const [LOW, HIGH, FEW] = [11, 32, 4]; // px of a track: of many ranks, and of at most so many
const GAP = 6; // between ranks
const COLUMN_PX = 2.5; // of density
const MOST = 6000; // recorded spans that are drawn one by one
const KINDS = /** @type {const} */ ([
  ["operations", "Operations"],
  ["chunks", "Chunks by dimension"],
]);
/**
 * An answer, ready to be drawn: of a recorded one the numbers of the spans in `sight`.
 * @typedef {{ source: Reply<"tracks">, reply: Reply<"tracks">, theme: number, sight: string, numbers: number[] | null, images?: HTMLCanvasElement[] }} Shown
 */
/** @type {Record<string, string>} */
const OPERATION_COLOURS = { compute: ACTIVITY_COLOURS[0], communication: ACTIVITY_COLOURS[1], memory: ACTIVITY_COLOURS[3], waiting: "#d55e00" };
const [WAITING, , LATE, BUBBLE] = ACTIVITY_COLOURS.slice(2);
/** @type {Record<string, string>} */
const INK = { "#0072b2": "#ffffff", "#009e73": "#ffffff" };

/** @type {CreateView} */
export function createRanks(store, theme) {
  /** @type {Shown | null} the last answer, ready to be drawn */
  let picture = null;
  /** @type {Tracks<"tracks">} */
  const panel = createTracks(store, theme, "tracks", {
    label: "Timeline of ranks", about: "What every rank did when", name: "anb-timeline anb-ranks", ruler: RULER, kinds: KINDS,
    height: () => scene().ranks * tall(), pinned: () => rowsOf().pins.length * tall(), rankAt: (at) => hit(at)?.rank ?? -1,
    chosen, want, gutter, rows, drawn, textAt,
    clicked(event) {
      const found = hit(event);
      if (!found) return;
      const path = pathOf(found);
      if (found.n < 0 || !picture) store.select(path);
      else {
        const [start, end] = [picture.reply.arrays.start[found.n], picture.reply.arrays.end[found.n]];
        const time = Math.min(end, Math.max(start, Math.round(panel.scale().t(event.offsetX))));
        store.selectSpan(path, store.ask("operation_span", { path, start, end, time }));
      }
    },
  });

  const scene = () => /** @type {WorkloadScene} */ (store.scene);
  const byOperation = () => panel.kind === "operations";
  const names = () => (byOperation() ? scene().tracks : scene().dims.map((shape, dim) => `dim ${dim} (${shape})`));
  /** @param {string} name @param {number} track */
  const colourOf = (name, track) => (byOperation() ? OPERATION_COLOURS[name] : RANK_COLOURS[track % RANK_COLOURS.length]);
  const colours = () => names().map(colourOf);
  const high = () => (scene().ranks > FEW ? LOW : HIGH);
  const tall = () => names().length * high() + GAP;

  let late = false; // whether a rank that is shown has started late
  function chosen() {
    picture = null;
    if (store.ready) drawLegend();
  }
  function drawLegend() {
    const keys = names().map((name, track) => makeBarKey(colourOf(name, track), name));
    // Of ranks that are all alike none waits for another one.
    if (byOperation() && scene().alike === 1) keys.push(makeBarKey(WAITING, "waiting for peers"));
    if (byOperation() && late) keys.push(makeBarKey(LATE, "started late"));
    if (byOperation()) keys.push(makeBarKey(BUBBLE, "bubble"));
    panel.legend.replaceChildren(...keys);
  }
  let ordered = { key: "", pins: /** @type {number[]} */ ([]), order: /** @type {number[]} */ ([]), place: new Int32Array(0) };
  /** Ranks in the order of their rows, and the places of ranks among these. */
  function rowsOf() {
    const key = `${scene().ranks} ${store.panels.pins}`;
    if (ordered.key === key) return ordered;
    const { pins, order } = orderOf(store, scene().ranks);
    const place = new Int32Array(order.length);
    order.forEach((rank, row) => (place[rank] = row));
    return (ordered = { key, pins, order, place });
  }
  /** @param {number} rank */
  const topOf = (rank) => rowsOf().place[rank] * tall();
  /** Ranks in sight. */
  function visible() {
    const { pins, order } = rowsOf();
    const from = Math.floor(panel.top / tall());
    const to = Math.ceil((panel.top + panel.room) / tall());
    return [...new Set([...pins, ...order.slice(from, to)])].sort((a, b) => a - b);
  }
  /** @param {Scale} scale */
  function want(scale) {
    panel.want(scale, COLUMN_PX, { kind: panel.kind, ranks: visible() });
    const source = panel.asker.reply;
    if (!source || source.kind !== panel.kind) return;
    const sight = source.columns ? "" : `${scale.a} ${scale.b} ${panel.width} ${visible()}`;
    if (picture?.source === source && picture.sight === sight && picture.theme === theme.version) return;
    const numbers = source.columns ? null : numbersIn(source, scale);
    const reply = numbers && numbers.length > MOST ? crowded(source, numbers, scale) : source;
    const shown = (picture = /** @type {Shown} */ ({ source, reply, theme: theme.version, sight, numbers }));
    const { ranks, tracks, columns } = reply;
    const { shares, idle_state } = reply.arrays;
    const paints = byOperation() ? [...colours(), WAITING, LATE, BUBBLE] : colours();
    const each = paints.length;
    const seen = reply.drawn === "density"
      ? ranks.some((_, k) => shares.subarray((k * each + tracks + 1) * columns, (k * each + tracks + 2) * columns).some(Boolean))
      : idle_state.some((state) => ACTIVITY_COLOURS[state] === LATE);
    if (byOperation() && seen !== late) {
      late = seen;
      drawLegend();
    }
    if (reply.drawn !== "density") return;
    shown.images = paints.map((colour, track) => {
      const mine = new Uint8Array(ranks.length * columns);
      ranks.forEach((_, k) => mine.set(shares.subarray((k * each + track) * columns, (k * each + track + 1) * columns), k * columns));
      return paintDensity(mine, [0], ranks.length, columns, high() - 1, [colour]);
    });
  }

  /** The recorded spans in sight. @param {Reply<"tracks">} reply @param {Scale} scale */
  function numbersIn({ ranks, tracks, arrays: { place, start, end } }, { a, b }) {
    const seen = new Set(visible());
    const here = ranks.map((rank) => seen.has(rank));
    const found = [];
    for (let n = 0; n < place.length; n++) if (start[n] < b && end[n] > a && here[Math.floor(place[n] / tracks)]) found.push(n);
    return found;
  }
  /** What so many recorded spans look like: how much of each column they fill. @param {Reply<"tracks">} reply @param {number[]} numbers @param {Scale} scale @returns {Reply<"tracks">} */
  function crowded(reply, numbers, { a, b }) {
    const { tracks, arrays } = reply;
    const { place, start, end, ready, waits, idle_at, idle_state, idle_start, idle_end } = arrays;
    const ranks = visible();
    const each = byOperation() ? tracks + 3 : tracks;
    const columns = Math.max(1, Math.round((panel.width - GUTTER) / COLUMN_PX));
    const filled = createColumns(ranks.length * each, columns, a, b);
    const firstOf = reply.ranks.map((rank) => ranks.indexOf(rank) * each);
    for (const n of numbers) {
      const track = place[n] % tracks;
      const row = firstOf[(place[n] - track) / tracks];
      const begun = ACTIVITY_COLOURS[waits[n]] === BUBBLE ? ready[n] : start[n]; // what waits for a message communicates nothing
      filled.add(row + track, begun, end[n]);
      if (byOperation()) filled.add(row + tracks, begun, ready[n]);
    }
    idle_at.forEach((at, n) => {
      if (firstOf[at] >= 0) filled.add(firstOf[at] + tracks + (ACTIVITY_COLOURS[idle_state[n]] === LATE ? 1 : 2), idle_start[n], idle_end[n]);
    });
    return { ...reply, from: a, to: b, columns, ranks, drawn: "density", arrays: { ...arrays, shares: filled.shares() } };
  }

  /** @param {Context} context */
  function gutter(context) {
    for (const rank of visible()) {
      const top = topOf(rank);
      context.fillStyle = theme.panel;
      names().forEach((_, track) => context.fillRect(GUTTER, top + track * high(), panel.width - GUTTER, high() - 1));
      context.fillStyle = store.selection.startsWith(`rank[${rank}]`) ? theme.brand : theme.ink;
      context.font = `12px ${theme.font}`;
      context.fillText(scene().alike > 1 ? `all ${scene().alike}` : `rank ${rank}`, 3, top + (tall() - GAP) / 2, GUTTER - 18);
      if (scene().ranks > 1) drawPin(context, theme, top + (tall() - GAP) / 2, store.pins.includes(rank));
    }
  }
  /** @param {Context} context @param {Scale} scale */
  function rows(context, scale) {
    if (picture?.images) drawDensity(context, scale, picture.reply, picture.images);
    else if (picture) drawSpans(context, scale, picture);
    drawPathOverTime(context, store, theme, scale, rowOf);
    const rank = Number(store.selection.match(/^rank\[(\d+)\]/)?.[1] ?? -1);
    if (rank < 0) return;
    context.strokeStyle = theme.brand;
    context.lineWidth = 1.5;
    context.strokeRect(GUTTER + 0.75, topOf(rank) - 1, panel.width - GUTTER - 1.5, tall() - GAP + 1);
  }
  /** @param {Context} context @param {Scale} scale @param {Reply<"tracks">} reply @param {HTMLCanvasElement[]} images */
  function drawDensity(context, scale, { from, to, columns, ranks }, images) {
    const [x0, x1, deep] = [scale.x(from), scale.x(to), high() - 1];
    context.imageSmoothingEnabled = false;
    // What waits is drawn over the communication, a late start and bubbles where nothing is computed.
    const trackOf = [...names().keys(), names().indexOf("communication"), 0, 0];
    ranks.forEach((rank, k) => images.forEach((image, number) =>
      context.drawImage(image, 0, k * deep, columns, deep, x0, topOf(rank) + trackOf[number] * high(), x1 - x0, deep),
    ));
  }
  /** @param {Context} context @param {Scale} scale @param {Shown} shown */
  function drawSpans(context, scale, { reply, numbers }) {
    const paints = colours();
    context.font = `9px ${theme.font}`;
    const { ready, waits: waitsFor, idle_at: at, idle_state: what, idle_start: since, idle_end: until } = reply.arrays;
    for (let n = 0; n < at.length; n++) {
      const [x, end] = [Math.max(GUTTER, scale.x(since[n])), scale.x(until[n])];
      context.fillStyle = ACTIVITY_COLOURS[what[n]];
      if (end > GUTTER && x < panel.width) context.fillRect(x, topOf(reply.ranks[at[n]]), Math.max(0.7, end - x), high() - 1);
    }
    for (const n of numbers ?? reply.arrays.place.keys()) {
      const { x, y, wide, deep, track } = boxOf(reply, n, scale);
      if (x > panel.width || x + wide < GUTTER) continue;
      context.fillStyle = paints[track];
      context.fillRect(x, y, Math.max(0.7, wide - 0.6), deep);
      const waits = scale.x(ready[n]) - x;
      if (byOperation() && waits > 0) {
        context.fillStyle = ACTIVITY_COLOURS[waitsFor[n]];
        context.fillRect(x, y, Math.min(waits, wide - 0.6), deep);
      }
      if (deep < LOW - 2 || wide < 34) continue;
      const text = reply.labels?.[reply.arrays.label[n]] ?? "";
      const from = Math.max(x, GUTTER);
      if (context.measureText(text).width > x + wide - from - 6) continue;
      context.fillStyle = INK[paints[track]] ?? "#000000";
      context.fillText(text, from + 3, y + deep / 2 + 0.5);
    }
  }
  /** Where a span is. @param {Reply<"tracks">} reply @param {number} n @param {Scale} scale */
  function boxOf({ tracks, ranks, arrays }, n, scale) {
    const track = arrays.place[n] % tracks;
    const rank = ranks[(arrays.place[n] - track) / tracks];
    const each = (high() - 1) / arrays.slots[n];
    const x = scale.x(arrays.start[n]);
    return { x, y: topOf(rank) + track * high() + arrays.slot[n] * each, wide: scale.x(arrays.end[n]) - x, deep: Math.max(1, each), track };
  }
  /** Where the critical path is drawn: a rank's track, or all of them where they are dimensions. @param {number} rank @param {number} track */
  function rowOf(rank, track) {
    if (rank < 0) return null;
    const top = topOf(rank);
    return byOperation() ? { top: top + track * high(), height: high() - 1 } : { top, height: tall() - GAP };
  }
  function drawn() {
    const { drawn: how = "" } = picture?.reply ?? {};
    const count = picture ? (begun(picture)?.length ?? picture.reply.count) : 0;
    settle(panel.note, picture ? `${plural(count, byOperation() ? "operation" : "chunk")} in view${how === "density" ? ", drawn as density" : ""}` : "");
    Object.assign(panel.element.dataset, { drawn: how, kind: panel.kind, asked: String(panel.asker.open), count: String(count) });
  }

  /** The recorded spans in sight that have begun. @param {Shown} shown */
  const begun = ({ source, numbers }) => numbers?.filter((n) => source.arrays.start[n] <= store.frontier);
  /** The rank at a place, and the span there where there is one. @param {Spot} at */
  function hit(at) {
    const y = panel.rowY(at);
    if (y < 0) return null;
    const rank = rowsOf().order[Math.floor(y / tall())];
    if (rank === undefined) return null;
    if (!picture || picture.images || at.offsetX < GUTTER) return { rank, n: -1 };
    const { reply } = picture;
    const scale = panel.scale();
    for (const n of (begun(picture) ?? [...reply.arrays.place.keys()]).reverse()) {
      const box = boxOf(reply, n, scale);
      const inside = at.offsetX >= box.x - 1 && at.offsetX <= box.x + Math.max(2, box.wide);
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
      const waits = arrays.ready[pointed.n] - start;
      if (waits > 0) parts.push(`waits ${formatTime(waits, 3)} for ${ACTIVITY_COLOURS[arrays.waits[pointed.n]] === BUBBLE ? "its message to be sent" : "peers"}`);
    }
    return parts.join(" · ");
  }
  return panel;
}
