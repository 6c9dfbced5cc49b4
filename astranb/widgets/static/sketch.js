// @ts-check
// The strokes of the topology: frames, links with their load, queues, buffers and boxes.

import { CLASSES, sizeOf, trace } from "./edges.js";
import { formatCount, plural } from "./format.js";
import { strokeLink } from "./families.js";
import { contextOf } from "./theme.js";

/** @import { Box, Context, Drawing, Edge, Geometry, Pair, Store, Theme } from "./types" */

const NUMBERED = 12; // queues whose length is written, the longest ones
const MOST_NUMBERS = 80; // loads that are written
const WIDE_NUMBER = 30; // px: between boxes side by side
const MOST_NAMES = 4000; // whose room has been measured
const CROWD = 300; // links: more are drawn fainter
const NO_CREDIT = 1;
const PAUSED = 2;
const DOWN = 4;

/**
 * Draws what `p` holds: geometry, counts, and which bundles have lines (topology.js keeps it).
 * @param {Store} store
 * @param {Theme} theme
 * @param {Drawing} p
 */
export function createSketch(store, theme, p) {
  /** @type {{ x: number, y: number, half: number }[]} */
  let tags = []; // numbers written in this frame
  /** @type {{ canvas: HTMLCanvasElement, of: Geometry | null, theme: number }} all links without their load */
  const idle = { canvas: document.createElement("canvas"), of: null, theme: -1 };

  /** @param {Context} context */
  function drawFrames(context) {
    tags = [];
    if (!p.laid) return;
    const { place } = p.laid;
    for (const frame of store.scene.frames) {
      const [x, y, w, h] = [frame.x * place.x, frame.y * place.y, frame.w * place.x, frame.h * place.y];
      context.strokeStyle = store.selection === frame.name ? theme.brand : theme.line;
      context.lineWidth = store.selection === frame.name ? 2 : 1;
      context.fillStyle = theme.panel;
      context.beginPath();
      context.roundRect(x, y, w, h, 5);
      context.fill();
      context.stroke();
      context.fillStyle = theme.dim;
      context.font = `${Math.max(9, Math.min(12, 22 * place.y))}px ${theme.font}`;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(frame.name, x + 6, y + 14 * place.y + 1, w - 12);
    }
  }

  /** Every link as a thin line in the style of its family: made once for a size and a theme. @param {Context} context */
  function drawIdle(context) {
    const { laid } = p;
    if (!laid) return;
    const { width, height } = context.canvas;
    if (idle.of !== laid || idle.theme !== theme.version) {
      Object.assign(idle, { of: laid, theme: theme.version });
      Object.assign(idle.canvas, { width, height });
      const under = contextOf(idle.canvas);
      under.setTransform(context.getTransform());
      under.globalAlpha = laid.edges.length > CROWD ? 0.3 : 0.75;
      laid.edges.forEach((edge, number) => strokeLink(under, edge, store.scene.bundles[number].family));
    }
    context.save();
    context.resetTransform();
    context.drawImage(idle.canvas, 0, 0);
    context.restore();
  }

  /** @param {Context} context */
  function drawLinks(context) {
    const changed = store.following && !store.playing ? store.state?.changed : "";
    const widest = CLASSES * (p.laid?.lane ?? 1);
    p.laid?.edges.forEach((edge, number) => {
      const { name } = store.scene.bundles[number];
      if (p.looked(name) || name === changed) band(context, edge, theme.brand, widest + 4, 0.35);
      if (!p.drawn[number]) return;
      const busy = p.load(number);
      if (busy === null) band(context, edge, theme.unknown(context), Math.max(4, widest / 2), 0.8);
      else if (busy) band(context, edge, theme.rampText(busy), 2 + (widest - 2) * busy, 0.5 + 0.35 * busy);
    });
  }
  /** @param {Context} context @param {Edge} edge @param {string | CanvasPattern} colour @param {number} width @param {number} alpha */
  function band(context, edge, colour, width, alpha) {
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    trace(context, edge);
    context.globalAlpha = 1;
  }
  /** @type {(context: Context, x0: number, y0: number, x1: number, y1: number, colour: string, width: number, alpha: number) => void} */
  function line(context, x0, y0, x1, y1, colour, width, alpha) {
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
    context.globalAlpha = 1;
  }

  /**
   * A queue is a bar across the entrance of its link, longer for more lines; the longest have numbers.
   * @param {Context} context
   */
  function drawQueues(context) {
    const longest = [...p.waiting.keys()].filter((k) => p.waiting[k]).sort((a, b) => p.waiting[b] - p.waiting[a]);
    longest.forEach((k, order) => {
      const edge = p.laid?.edges[k];
      if (!edge) return;
      const reach = Math.min(3 + 1.5 * Math.log2(p.waiting[k]), 3 * CLASSES);
      const [x, y] = [edge.x + edge.ux * 3, edge.y + edge.uy * 3];
      line(context, x + edge.uy * reach, y - edge.ux * reach, x - edge.uy * reach, y + edge.ux * reach, theme.ink, 3, p.drawn[k] ? 0.8 : 0.3);
      if (!p.drawn[k] || edge.length < 60 || p.waiting[k] < 2 || (order >= NUMBERED && !p.looked(store.scene.bundles[k].name))) return;
      tag(context, String(p.waiting[k]), x + edge.ux * 11, y + edge.uy * 11, p.looked(store.scene.bundles[k].name));
    });
  }
  /**
   * Buffers behind a link: a gauge at its entrance; what holds lines up has a shape of its own.
   * @param {Context} context
   */
  function drawPorts(context) {
    const ports = p.ports();
    context.canvas.dataset.marked = "0";
    if (!ports) return;
    let marked = 0;
    const { fill, marks } = ports;
    p.laid?.edges.forEach((edge, k) => {
      if (!p.drawn[k] || (!fill[k] && !marks[k])) return;
      if (marks[k]) marked += 1;
      if (marks[k] & DOWN) {
        cross(context, edge.x + (edge.ux * edge.length) / 2, edge.y + (edge.uy * edge.length) / 2);
        return;
      }
      const along = Math.min(24, edge.length / 2);
      const [x, y] = [edge.x + edge.ux * along - edge.uy * 9, edge.y + edge.uy * along + edge.ux * 9];
      context.strokeStyle = context.fillStyle = theme.ink;
      context.lineWidth = 1;
      context.strokeRect(x - 2.5, y - 6.5, 5, 13);
      context.fillRect(x - 2, y + 6 - (12 * fill[k]) / 255, 4, (12 * fill[k]) / 255);
      if (marks[k] & NO_CREDIT) {
        context.strokeStyle = "#d55e00";
        context.lineWidth = 2;
        context.beginPath();
        context.moveTo(x + 9, y - 5);
        context.lineTo(x + 14, y + 4);
        context.lineTo(x + 4, y + 4);
        context.closePath();
        context.stroke();
      }
      if (marks[k] & PAUSED) {
        context.fillStyle = "#d55e00";
        context.fillRect(x - 12, y - 5, 3, 10);
        context.fillRect(x - 7, y - 5, 3, 10);
      }
    });
    context.canvas.dataset.marked = String(marked);
  }

  /** On a link that is down. @param {Context} context @param {number} x @param {number} y */
  function cross(context, x, y) {
    context.strokeStyle = "#d55e00";
    context.lineWidth = 3;
    context.beginPath();
    for (const side of [-6, 6]) {
      context.moveTo(x - 6, y - side);
      context.lineTo(x + 6, y + side);
    }
    context.stroke();
  }

  /** Where not every line is drawn, and under the mouse, the load is written as a number, the highest first. @param {Context} context */
  function drawLoads(context) {
    const { laid } = p;
    if (!laid) return;
    const found = laid.edges
      .map((edge, k) => ({ edge, k, busy: p.drawn[k] ? p.load(k) : null, asked: p.looked(store.scene.bundles[k].name) }))
      .filter(({ edge, k, busy, asked }) => busy !== null && edge.length >= 24 && (asked || (busy >= 0.005 && p.sparse[k] > 1)))
      .sort((a, b) => Number(b.asked) - Number(a.asked) || (b.busy ?? 0) - (a.busy ?? 0));
    for (const { edge, busy, asked } of found.slice(0, MOST_NUMBERS)) {
      const along = edge.length * (edge.second ? 0.5 : 0.3);
      if (!asked && edge.length < WIDE_NUMBER && Math.abs(edge.ux) > Math.abs(edge.uy)) continue;
      tag(context, `${Math.round(100 * (busy ?? 0))}%`, edge.x + edge.ux * along, edge.y + edge.uy * along, asked);
    }
  }
  /**
   * A number on the picture; left out where it would cover another one, unless asked for.
   * @param {Context} context
   * @param {string} text
   * @param {number} x
   * @param {number} y
   */
  function tag(context, text, x, y, asked = true) {
    context.font = `10px ${theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const half = context.measureText(text).width / 2 + 1.5;
    if (!asked && !free({ x, y, half })) return;
    tags.push({ x, y, half });
    context.fillStyle = theme.back;
    context.globalAlpha = 0.85;
    context.fillRect(x - half, y - 6, 2 * half, 12);
    context.globalAlpha = 1;
    context.fillStyle = theme.ink;
    context.fillText(text, x, y);
  }

  /** Whether a number here would cover no other one. @param {{ x: number, y: number, half: number }} tag */
  const free = ({ x, y, half }) => tags.every((other) => Math.abs(other.x - x) >= half + other.half || Math.abs(other.y - y) >= 13);

  /**
   * What each of a few messages is, beside it: the longest words that cover no number, box or other message. Gives
   * what was written.
   * @param {Context} context
   * @param {{ x: number, y: number, half: number, upright: boolean, words: string[] }[]} moving words: longest first
   */
  function drawWords(context, moving) {
    const { laid } = p;
    if (!laid || !moving.length) return [];
    const { place } = laid;
    const covered = store.scene.boxes
      .filter((box) => !box.rail)
      .map((box) => ({ x: box.x * place.x, y: box.y * place.y, w: sizeOf(box, place)[0] / 2, h: sizeOf(box, place)[1] / 2 }))
      .concat(moving.map(({ x, y, half }) => ({ x, y, w: half, h: half })));
    context.font = `10px ${theme.font}`;
    return moving.flatMap(({ x, y, half, upright, words }) => {
      for (const text of words) {
        const wide = context.measureText(text).width / 2 + 1.5;
        const [across, along] = [half + wide + 1, half + 7];
        /** @type {Pair[]} */
        const beside = [[x + across, y], [x - across, y]];
        /** @type {Pair[]} */
        const above = [[x, y - along], [x, y + along]];
        const found = (upright ? [...beside, ...above] : [...above, ...beside]).find(([left, top]) =>
          left > wide && left + wide < context.canvas.clientWidth && top > 6 && top + 6 < context.canvas.clientHeight
          && free({ x: left, y: top, half: wide })
          && covered.every((one) => Math.abs(one.x - left) >= one.w + wide || Math.abs(one.y - top) >= one.h + 6));
        if (!found) continue;
        tag(context, text, ...found);
        return [text];
      }
      return [];
    });
  }

  /**
   * Between the bands of a very large system: how busy the links of each direction are on average.
   * @param {Context} context
   */
  function drawBetween(context) {
    const { scene } = store;
    const place = p.laid?.place;
    if (!place) return;
    scene.bundles.forEach((bundle, k) => {
      const [a, b] = [scene.boxes[bundle.from], scene.boxes[bundle.to]];
      const down = b.y > a.y;
      const x = (a.x + (down ? 0.22 : -0.22) * a.w) * place.x;
      const middle = ((a.y + b.y) / 2) * place.y;
      const half = ((Math.abs(b.y - a.y) - (a.h + b.h) / 2) / 2) * place.y;
      const busy = p.load(k) ?? 0;
      line(context, x, middle - half, x, middle + half, busy ? theme.rampText(busy) : theme.line, 2 + 10 * busy, 0.9);
      const lines = plural(p.onBundle[k], "line");
      const text = `${down ? "↓" : "↑"} ${(100 * busy).toFixed(1)}% busy, ${lines}`;
      tag(context, text, x, middle);
    });
  }

  /** Switches as wide as what they join: below the links, which pass over those that they do not end at. @param {Context} context */
  function drawRails(context) {
    for (const box of store.scene.boxes) if (box.rail) drawBox(context, box);
  }
  /** Their names, over the links: numbers keep clear of them. @param {Context} context */
  function drawRailNames(context) {
    const { laid } = p;
    if (!laid) return;
    for (const box of store.scene.boxes) {
      const [w, h] = sizeOf(box, laid.place);
      if (!box.rail || h < 4.5) continue;
      const [x, y] = [box.x * laid.place.x - w / 2 + 4, box.y * laid.place.y];
      context.font = `${Math.min(11, Math.max(8, h * 0.7))}px ${theme.font}`;
      context.textAlign = "left";
      context.textBaseline = "middle";
      const wide = context.measureText(box.label).width;
      context.fillStyle = theme.node;
      context.fillRect(x, y - Math.max(9, h - 2) / 2, wide + 6, Math.max(9, h - 2));
      context.fillStyle = theme.ink;
      context.fillText(box.label, x + 3, y + 0.5);
      tags.push({ x: x + wide / 2 + 3, y, half: wide / 2 + 3 });
    }
  }
  /** @param {Context} context */
  function drawBoxes(context) {
    store.scene.boxes.forEach((box, number) => {
      if (!box.rail) drawBox(context, box, p.onInside[number]);
    });
  }
  /** @param {Context} context @param {Box} box @param {number} [within] lines in it */
  function drawBox(context, box, within = 0) {
    if (!p.laid) return;
    const { place } = p.laid;
    const [w, h] = sizeOf(box, place);
    const [x, y] = [box.x * place.x - w / 2, box.y * place.y - h / 2];
    const picked = p.covers(store.selection, box);
    const gpus = box.ranks[0] >= 0;
    const changed = store.following && !store.playing && store.state?.changed === box.name;
    const mark = picked || p.covers(store.hover, box) || changed;
    context.fillStyle = gpus ? theme.gpu : theme.node;
    context.strokeStyle = mark ? theme.brand : theme.line;
    context.lineWidth = picked ? 3 : mark ? 2 : 1;
    const sheet = () => {
      context.beginPath();
      context.roundRect(x, y, w, h, gpus ? 4 : Math.min(8, h / 2));
      context.fill();
      context.stroke();
    };
    if (box.kind === "instance" && gpus) {
      context.translate(3, -3); // a sheet behind it: there are several
      sheet();
      context.translate(-3, 3);
    }
    sheet();
    if (box.rail) return;
    const left = gpus ? p.inside.draw(context, box, x, y, w, h) : h;
    drawName(context, box, x, y, w, left);
    if (within && h > 24 && w > 60 && !gpus) {
      context.fillStyle = theme.dim;
      context.font = `9px ${theme.font}`;
      context.fillText(`${formatCount(within)} within`, x + w / 2, y + h - 6, w - 4);
    }
  }
  /** @param {Context} context @param {Box} box @param {number} x @param {number} y @param {number} w @param {number} h */
  function drawName(context, box, x, y, w, h) {
    const badge = box.count > 1 ? ` ×${box.count}` : "";
    const lines = fitting(context, box.label, badge, w, h);
    context.fillStyle = theme.ink;
    context.textBaseline = "middle";
    context.textAlign = "center";
    lines.forEach((text, k) => context.fillText(text, x + w / 2, y + h / 2 + 0.5 + 9 * (k - (lines.length - 1) / 2)));
  }
  /** @typedef {{ lines: string[], font: string }} Fitted */
  /** @type {Map<string, Fitted>} by label, badge, font and room: measuring text takes as long as drawing it */
  const names = new Map();
  /**
   * A box's name as it has room, in two lines where it is too wide for one; sets the font.
   * @param {Context} context
   * @param {string} label
   * @param {string} badge
   * @param {number} w
   * @param {number} h
   */
  function fitting(context, label, badge, w, h) {
    const key = `${label}${badge} ${Math.round(w)} ${Math.round(h)} ${theme.font}`;
    let found = names.get(key);
    if (!found) {
      if (names.size >= MOST_NAMES) names.clear();
      names.set(key, (found = { lines: measured(context, label, badge, w, h), font: context.font }));
    }
    context.font = found.font;
    return found.lines;
  }
  /** @param {Context} context @param {string} label @param {string} badge @param {number} w @param {number} h */
  function measured(context, label, badge, w, h) {
    for (const text of badge ? [label + badge, label] : [label]) {
      for (const tall of [Math.min(14, h * 0.55), 10, 8, 7]) {
        if (tall > h) continue;
        context.font = `${Math.max(7, tall)}px ${theme.font}`;
        if (context.measureText(text).width <= w - 4) return [text];
      }
    }
    const [, start, number] = label.match(/^(.*?)(\.?\d+)$/) ?? [];
    if (h < 16 || !start || context.measureText(start).width > w - 2) return [];
    return [start, number];
  }

  return { drawFrames, drawRails, drawRailNames, drawIdle, drawLinks, drawQueues, drawPorts, drawLoads, drawWords, drawBetween, drawBoxes };
}
