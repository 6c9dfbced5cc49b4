// @ts-check
// How busy issue slots, memories and links were: strips of colour under the time of the timelines.
// A window is asked for as fine as it is drawn (views/memory.py); until it comes the coarse one is shown.

import { formatTime } from "./format.js";
import { GUTTER, createTracks } from "./navigation.js";
import { gpuOf } from "./selection.js";
import { contextOf, make, pixelOf, settle } from "./theme.js";

/** @import { Answers, Columns, Context, CreateView, Scale, Spot, Tracks } from "./types" */

const BUNDLE = 9; // of a row of links
const TOP = 2;
const COLUMN_PX = 1.5;
const STRIPS = /** @type {const} */ ([
  ["issue", "SM issue"],
  ["l2", "L2"],
  ["hbm", "HBM"],
  ["out", "links out"],
]);

/** @typedef {{ gpu: number, bundle: number, top: number, height: number }} Item bundle -1: the strips of the GPU */
/**
 * What is known of a window, and its picture.
 * @typedef {Answers["activity"] & { rows: Columns<"activity">, source: object, picture?: HTMLCanvasElement, theme?: number }} Part
 */

/** @type {CreateView} */
export function createMemory(store, theme) {
  /** @type {Tracks<"activity">} */
  const tracks = createTracks(store, theme, "activity", {
    label: "Memory timeline", about: "How busy memories and links were", name: "anb-memory", ruler: 0, title: make("h4", { text: "Memory and links" }),
    height, want, gutter: label, rows: drawRows, drawn, textAt, recorded: true,
    known: () => (store.timeline ? [0, store.timeline.now_ps] : null),
    clicked(event) {
      const item = hit(event);
      if (!item) return;
      const path = item.bundle < 0 ? `gpu[${item.gpu}]` : store.scene.bundles[item.bundle].name;
      const scale = tracks.scale();
      const time = Math.round(scale.t(event.offsetX));
      const strip = Math.floor(((tracks.rowY(event) - item.top) / item.height) * STRIPS.length);
      const which = item.bundle < 0 ? { gpu: item.gpu, strip: STRIPS[Math.min(STRIPS.length - 1, strip)][0] } : { bundle: item.bundle };
      const gap = Math.ceil(scale.t(event.offsetX + COLUMN_PX) - scale.t(event.offsetX)); // shorter ones are not seen
      const spanned = event.offsetX >= GUTTER && time >= 0 && time <= store.frontier;
      store.selectSpan(path, spanned ? store.ask("activity_span", { ...which, time, gap }) : null);
    },
    chosen() {
      coarse = fine = null;
      if (!store.ready) return;
      drawLegend();
      layOut();
    },
  });
  /** @type {Item[]} */
  let items = [];
  let full = 0;
  /** @type {string | null} */
  let selected = null;
  /** @type {Part | null} */
  let coarse = null;
  /** @type {Part | null} */
  let fine = null;

  /** @param {number} number */
  const owner = (number) => store.scene.boxes[store.scene.bundles[number].from].rank;
  /** @param {number} number */
  const other = (number) => store.scene.boxes[store.scene.bundles[number].to].rank;

  function layOut() {
    const gpus = store.scene.gpus.length;
    const strip = Math.min(6, Math.max(2, Math.floor(200 / gpus / STRIPS.length)));
    const opened = gpuOf(store, store.selection);
    items = [];
    let top = TOP;
    for (let gpu = 0; gpu < gpus; gpu++) {
      items.push({ gpu, bundle: -1, top, height: strip * STRIPS.length });
      top += strip * STRIPS.length + 1;
      if (gpu === opened) {
        const mine = [...store.scene.bundles.keys()].filter((k) => owner(k) === gpu || other(k) === gpu);
        for (const bundle of mine) {
          items.push({ gpu, bundle, top, height: BUNDLE - 1 });
          top += BUNDLE;
        }
      }
      top += 3;
    }
    full = top;
  }
  function height() {
    if (selected !== store.selection) {
      selected = store.selection;
      layOut();
    }
    return full;
  }
  const visible = () => items.filter((item) => item.top + item.height > tracks.top && item.top < tracks.top + tracks.room);

  /** The strips of the whole run (`timeline`), as an answer has them. */
  function readCoarse() {
    const line = store.timeline;
    if (!line || coarse?.source === line) return;
    const gpus = store.scene.gpus.length;
    coarse = {
      source: line, from: 0, to: line.bins * line.bin_ps, columns: line.bins, first: 0, last: gpus, exact: false, bin_ps: line.bin_ps,
      bundles: [...store.scene.bundles.keys()], rows: { issue: line.issue, l2: line.l2, hbm: line.hbm, out: line.out, bundles: line.link },
    };
  }
  /** One pixel a column and strip; those of links behind those of GPUs. @param {Part} part */
  function paint(part) {
    if (part.picture && part.theme === theme.version) return part.picture;
    part.theme = theme.version;
    const picture = document.createElement("canvas");
    part.picture = picture;
    const gpus = part.last - part.first;
    const rows = gpus * STRIPS.length + part.bundles.length;
    picture.width = Math.max(1, part.columns);
    picture.height = Math.max(1, rows);
    const context = contextOf(picture);
    const image = context.createImageData(picture.width, picture.height);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = Uint32Array.from({ length: 256 }, (_, v) => {
      const [r, g, b] = theme.ramp(v / 255);
      return v ? pixelOf(r, g, b) : 0;
    });
    /** @param {number} row @param {Uint8Array} values @param {number} from */
    const put = (row, values, from) => {
      for (let k = 0; k < part.columns; k++) pixels[row * picture.width + k] = colours[values[from + k]];
    };
    STRIPS.forEach(([name], strip) => {
      for (let gpu = 0; gpu < gpus; gpu++) put(gpu * STRIPS.length + strip, part.rows[name], gpu * part.columns);
    });
    for (let k = 0; k < part.bundles.length; k++) put(gpus * STRIPS.length + k, part.rows.bundles, k * part.columns);
    context.putImageData(image, 0, 0);
    return picture;
  }

  /** @param {Scale} scale */
  function want(scale) {
    readCoarse();
    const shown = visible();
    const { asker } = tracks;
    if (!asker.error && store.timeline?.bins && shown.length) {
      const bundles = shown.filter((i) => i.bundle >= 0).map((i) => i.bundle);
      tracks.want(scale, COLUMN_PX, { first: shown[0].gpu, last: shown[shown.length - 1].gpu + 1, bundles });
    }
    const { reply } = asker;
    if (reply && fine?.source !== reply) fine = { ...reply, source: reply, rows: reply.arrays };
  }

  /** @param {Context} context @param {Part} part @param {Scale} scale */
  function drawPart(context, part, scale) {
    const picture = paint(part);
    const [x0, x1] = [scale.x(part.from), scale.x(part.to)];
    for (const { gpu, bundle, top, height: tall } of visible()) {
      const at = bundle < 0 ? (gpu - part.first) * STRIPS.length : (part.last - part.first) * STRIPS.length + part.bundles.indexOf(bundle);
      if (gpu < part.first || gpu >= part.last || (bundle >= 0 && !part.bundles.includes(bundle))) continue;
      context.drawImage(picture, 0, at, part.columns, bundle < 0 ? STRIPS.length : 1, x0, top, x1 - x0, tall);
    }
  }

  /** @param {Context} context @param {Scale} scale */
  function drawRows(context, scale) {
    context.imageSmoothingEnabled = false;
    const covers = fine && fine.from <= Math.max(0, scale.a) && fine.to >= Math.min(scale.b, store.frontier);
    if (coarse?.columns && !covers) drawPart(context, coarse, scale);
    if (fine) drawPart(context, fine, scale);
  }
  function drawn() {
    settle(tracks.note, !fine ? "" : fine.exact ? "issue and links exact" : `bins of ${formatTime(fine.bin_ps, 2)}`);
    tracks.element.dataset.exact = String(fine?.exact ?? "");
  }

  /** @param {Context} context */
  function label(context) {
    const every = Math.ceil(13 / (items[0].height + 4)); // labels have no room for all
    for (const { gpu, bundle, top, height: tall } of visible()) {
      context.fillStyle = theme.panel;
      context.fillRect(GUTTER, top, tracks.width - GUTTER, tall);
      if (bundle >= 0) {
        context.fillStyle = theme.dim;
        context.font = `9px ${theme.font}`;
        context.fillText(short(bundle, gpu), 8, top + tall / 2, GUTTER - 10);
      } else if (gpu % every === 0) {
        context.fillStyle = theme.ink;
        context.font = `12px ${theme.font}`;
        context.fillText(`GPU${gpu}`, 8, top + tall / 2, GUTTER - 10);
      }
    }
  }
  /** `→ nvsw.0`, by whether a bundle leaves the GPU. @param {number} bundle @param {number} gpu */
  function short(bundle, gpu) {
    const leaves = owner(bundle) === gpu;
    const { from, to } = store.scene.bundles[bundle];
    return `${leaves ? "→" : "←"} ${store.scene.boxes[leaves ? to : from].name.split(".").slice(-2).join(".")}`;
  }

  function drawLegend() {
    const ramp = [0, 0.25, 0.5, 0.75, 1].map((v) => theme.rampText(Math.max(0.02, v))).join(", ");
    tracks.legend.replaceChildren(
      make("span", { text: `from top: ${STRIPS.map(([, name]) => name).join(" · ")}; for the selected GPU also each link` }),
      make("span", { class: "anb-key" }, "0%", make("i", { class: "anb-ramp", style: `--anb-ramp: ${ramp}` }), "100% busy"),
    );
  }

  /** @param {Spot} at */
  function hit(at) {
    const y = tracks.rowY(at);
    return items.find((item) => y >= item.top && y <= item.top + item.height);
  }
  /** @param {Spot} at */
  function textAt(at) {
    const item = hit(at);
    const time = tracks.scale().t(at.offsetX);
    const part = [fine, coarse].find(
      (p) => p && time >= p.from && time < p.to && item && item.gpu >= p.first && item.gpu < p.last && (item.bundle < 0 || p.bundles.includes(item.bundle)),
    );
    if (!item || !part || at.offsetX < GUTTER || time > store.frontier) return "";
    const step = (part.to - part.from) / part.columns;
    const bin = Math.floor((time - part.from) / step);
    /** @param {Uint8Array} values @param {number} row */
    const share = (values, row) => `${Math.round((100 * values[row * part.columns + bin]) / 255)}%`;
    const span = `${formatTime(part.from + bin * step, 3)} to ${formatTime(part.from + (bin + 1) * step, 3)}`;
    const words = item.bundle < 0
      ? [`GPU${item.gpu}`, span, ...STRIPS.map(([name, title]) => `${title} ${share(part.rows[name], item.gpu - part.first)}`)]
      : [store.scene.bundles[item.bundle].name, span, `${share(part.rows.bundles, part.bundles.indexOf(item.bundle))} busy`];
    return words.join(" · ");
  }
  return { ...tracks, themed: () => store.ready && drawLegend() };
}
