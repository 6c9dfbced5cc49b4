// @ts-check
// The strokes of the topology: frames, links with their load, queues, buffers and boxes.

import { formatCount } from "./format.js";

/** @import { Box, Context, Drawing, Store, Theme } from "./types" */

const NUMBERED = 12; // queues whose length is written, the longest ones
const NO_CREDIT = 1;
const PAUSED = 2;

/**
 * Draws what `p` holds: geometry, counts, and which bundles have lines (topology.js keeps it).
 * @param {Store} store
 * @param {Theme} theme
 * @param {Drawing} p
 */
export function createSketch(store, theme, p) {
  /** @type {{ x: number, y: number, half: number }[]} */
  let tags = []; // numbers written in this frame

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

  /** @param {Context} context */
  function drawLinks(context) {
    const changed = store.following && !store.playing ? store.state?.changed : "";
    p.laid?.edges.forEach((edge, number) => {
      if (!p.drawn[number]) return;
      const bundle = store.scene.bundles[number];
      const busy = p.load(number);
      const marked = p.looked(bundle.name) || bundle.name === changed;
      for (const part of edge.second ? [edge, edge.second] : [edge]) {
        const [x0, y0] = [part.x + edge.nx * edge.middle, part.y + edge.ny * edge.middle];
        const [x1, y1] = [x0 + part.ux * part.length, y0 + part.uy * part.length];
        if (marked) line(context, x0, y0, x1, y1, theme.brand, 9, 0.35);
        line(context, x0, y0, x1, y1, busy ? theme.rampText(busy) : theme.line, 1 + 5 * (busy ?? 0), 0.35 + 0.4 * (busy ?? 0));
      }
    });
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
      const reach = 3 + 1.5 * Math.log2(p.waiting[k]);
      const [x, y] = [edge.x + edge.nx * edge.middle + edge.ux * 3, edge.y + edge.ny * edge.middle + edge.uy * 3];
      line(context, x - edge.nx * reach, y - edge.ny * reach, x + edge.nx * reach, y + edge.ny * reach, theme.ink, 3, p.drawn[k] ? 0.8 : 0.3);
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
    if (!ports) return;
    let marked = 0;
    const { fill, marks } = ports;
    p.laid?.edges.forEach((edge, k) => {
      if (!p.drawn[k] || (!fill[k] && !marks[k])) return;
      if (marks[k]) marked += 1;
      const along = Math.min(24, edge.length / 2);
      const [x, y] = [edge.x + edge.ux * along + edge.nx * (edge.middle + 9), edge.y + edge.uy * along + edge.ny * (edge.middle + 9)];
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

  /** Where not every line is drawn, and under the mouse, the load is written as a number. @param {Context} context */
  function drawLoads(context) {
    const dense = store.scene.bundles.length > 80;
    const room = store.scene.hot && !p.all ? 20 : 80;
    const ranked = dense ? new Set(p.hottest().slice(0, room)) : null;
    p.laid?.edges.forEach((edge, k) => {
      const busy = p.drawn[k] ? p.load(k) : null;
      if (busy === null || edge.length < 45) return;
      const asked = p.looked(store.scene.bundles[k].name);
      const crowded = p.sparse[k] > 1 || p.onBundle[k] * 6 > edge.length * 4;
      if (!asked && !(crowded && busy && (!ranked || ranked.has(k)))) return;
      const along = edge.second ? 0.5 : 0.3;
      const [x, y] = [
        edge.x + edge.ux * edge.length * along + edge.nx * edge.middle, edge.y + edge.uy * edge.length * along + edge.ny * edge.middle,
      ];
      tag(context, `${Math.round(100 * busy)}%`, x, y, asked);
    });
  }
  /**
   * A number on the picture; left out where it would cover another one, unless asked for.
   * @param {Context} context
   * @param {string} text
   * @param {number} x
   * @param {number} y
   */
  function tag(context, text, x, y, asked = true) {
    context.font = `11px ${theme.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const half = context.measureText(text).width / 2 + 2;
    if (!asked && tags.some((other) => Math.abs(other.x - x) < half + other.half && Math.abs(other.y - y) < 14)) return;
    tags.push({ x, y, half });
    context.fillStyle = theme.back;
    context.globalAlpha = 0.85;
    context.fillRect(x - half, y - 7, 2 * half, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.ink;
    context.fillText(text, x, y);
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
      const lines = formatCount(p.onBundle[k]);
      const text = `${down ? "↓" : "↑"} ${(100 * busy).toFixed(1)}% busy, ${lines} lines`;
      tag(context, text, x, middle);
    });
  }

  /** @param {Context} context */
  function drawBoxes(context) {
    if (!p.laid) return;
    const { place } = p.laid;
    const changed = store.following && !store.playing ? store.state?.changed : "";
    context.textAlign = "center";
    context.textBaseline = "middle";
    store.scene.boxes.forEach((box, number) => {
      const [w, h] = [box.w * place.box, box.h * place.box];
      const [x, y] = [box.x * place.x - w / 2, box.y * place.y - h / 2];
      const picked = p.covers(store.selection, box);
      const gpus = box.ranks[0] >= 0;
      context.fillStyle = gpus ? theme.gpu : theme.node;
      const mark = picked || p.covers(store.hover, box) || box.name === changed;
      context.strokeStyle = mark ? theme.brand : theme.line;
      context.lineWidth = picked ? 3 : mark ? 2 : 1;
      if (box.kind === "instance" && gpus) {
        context.beginPath(); // a sheet behind it: there are several
        context.roundRect(x + 3, y - 3, w, h, 4);
        context.fill();
        context.stroke();
      }
      context.beginPath();
      context.roundRect(x, y, w, h, gpus ? 4 : h / 2);
      context.fill();
      context.stroke();
      const badge = box.count > 1 ? ` ×${box.count}` : "";
      const text = fitting(context, box, badge, w, h);
      context.fillStyle = theme.ink;
      if (text) context.fillText(text, x + w / 2, y + h / 2 + 0.5);
      if (p.onInside[number] && h > 24 && w > 60) {
        context.fillStyle = theme.dim;
        context.font = `9px ${theme.font}`;
        context.fillText(`${formatCount(p.onInside[number])} within`, x + w / 2, y + h - 6, w - 4);
      }
    });
  }
  /**
   * As much of a box's name as has room; sets the font.
   * @param {Context} context
   * @param {Box} box
   * @param {string} badge
   * @param {number} w
   * @param {number} h
   */
  function fitting(context, box, badge, w, h) {
    const number = box.label.match(/\d+$/)?.[0] ?? "";
    const short = box.rank >= 0 ? number : `${box.label[0]}${number}`;
    for (const text of [box.label + badge, badge ? short + badge : box.label, short]) {
      for (const tall of [Math.min(15, h * 0.5), 9]) {
        context.font = `${Math.max(8, tall)}px ${theme.font}`;
        if (text && context.measureText(text).width <= w - 4 && h >= 8) return text;
      }
    }
    return "";
  }

  return { drawFrames, drawLinks, drawQueues, drawPorts, drawLoads, drawBetween, drawBoxes };
}
