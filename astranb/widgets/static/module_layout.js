// @ts-check
// Where the boxes and lines of open modules are: rows from Python (chakra/analysis/module_layers.py), sizes by what is open inside.

/** @import { ModuleBox, ModuleLine, ModulePicture, ModuleReply, Pair } from "./types" */

export const [WIDE, HIGH, HEAD] = [212, 44, 26]; // px of a closed box, and of the head of an open one
const [ACROSS, DOWN, PAD, LANE, ROUND] = [18, 32, 12, 8, 6]; // px between boxes and rows, within a module, between lines beside rows; of a corner
const ARROW = 7;

/**
 * @typedef {{ a: number, b: number, down: boolean, up: boolean, data: number, control: number, implied: boolean, lane: number }} Tie
 *   `a` is above `b`, or left of it; `lane`: beside the rows, from 1 on, right if it leads down; 0: between two rows
 */
/** @typedef {{ wide: number, high: number, reply: ModuleReply | null, rows: number[][], sizes: Pair[], inner: (Measured | null)[], ties: Tie[], left: number }} Measured */

/**
 * Lay out a module with what is open in it.
 * @param {number} root
 * @param {Map<number, ModuleReply>} replies the modules that are known
 * @param {Set<number>} opened
 * @returns {ModulePicture}
 */
export function arrange(root, replies, opened) {
  /** @type {ModuleBox[]} */
  const boxes = [];
  /** @type {ModuleLine[]} */
  const lines = [];

  /** @param {number} module @returns {Measured} */
  function measure(module) {
    const reply = replies.get(module) ?? null;
    if (!reply) return { wide: WIDE, high: HIGH, reply, rows: [], sizes: [], inner: [], ties: [], left: 0 };
    const { entity, row, slot } = reply.arrays;
    /** @type {number[][]} */
    const rows = [];
    entity.forEach((_, k) => (rows[row[k]] ??= []).push(k));
    for (const one of rows) one.sort((a, b) => slot[a] - slot[b]);
    const inner = [...entity].map((one) => (opened.has(one) ? measure(one) : null));
    const sizes = inner.map((one) => /** @type {Pair} */ (one ? [one.wide, one.high] : [WIDE, HIGH]));
    const ties = tiesOf(reply);
    const lanes = (/** @type {boolean} */ down) => Math.max(0, ...ties.filter((tie) => tie.down === down).map((tie) => tie.lane));
    const left = lanes(false) * LANE + PAD;
    const body = Math.max(...rows.map((one) => one.reduce((sum, k) => sum + sizes[k][0] + ACROSS, -ACROSS)), WIDE);
    const high = rows.reduce((sum, one) => sum + Math.max(...one.map((k) => sizes[k][1])) + DOWN, -DOWN);
    return { wide: left + body + PAD + lanes(true) * LANE, high: HEAD + PAD + Math.max(0, high) + PAD, reply, rows, sizes, inner, ties, left };
  }

  /** @param {number} module @param {Measured} measured @param {number} x @param {number} y @param {number} level */
  function place(module, { reply, rows, sizes, inner, ties, left, wide }, x, y, level) {
    if (!reply) return;
    const right = Math.max(0, ...ties.filter((tie) => tie.down).map((tie) => tie.lane)) * LANE + PAD;
    const body = wide - left - right;
    /** @type {ModuleBox[]} */
    const mine = [];
    /** @type {Pair[]} top and bottom of each row */
    const bands = [];
    let top = y + HEAD + PAD;
    for (const row of rows) {
      let at = x + left + (body - row.reduce((sum, k) => sum + sizes[k][0] + ACROSS, -ACROSS)) / 2;
      for (const k of row) {
        const [w, h] = sizes[k];
        mine[k] = { entity: reply.arrays.entity[k], at: k, around: module, reply, x: at, y: top, w, h, level, open: inner[k] !== null, row: bands.length };
        at += w + ACROSS;
      }
      bands.push([top, top + Math.max(...row.map((k) => sizes[k][1]))]);
      top = bands[bands.length - 1][1] + DOWN;
    }
    for (const row of rows) {
      for (const k of row) {
        boxes.push(mine[k]);
        const one = inner[k];
        if (one) place(mine[k].entity, one, mine[k].x, mine[k].y, level + 1);
      }
    }
    for (const tie of ties) lines.push(lineOf(tie, mine, bands, [x + left - PAD / 2, x + wide - right + PAD / 2]));
  }

  const whole = measure(root);
  place(root, whole, 0, -HEAD, 1);
  return { wide: whole.wide, high: Math.max(HIGH, whole.high - HEAD), boxes, lines };
}

/** The edges of a module, those between two children together. @param {ModuleReply} reply */
function tiesOf({ arrays: { entity, row, slot, before, after, data, control, implied } }) {
  /** @type {Map<number, Tie>} */
  const found = new Map();
  before.forEach((from, k) => {
    const to = after[k];
    const forth = row[from] < row[to] || (row[from] === row[to] && slot[from] < slot[to]);
    const [a, b] = forth ? [from, to] : [to, from];
    const key = a * entity.length + b;
    const tie = found.get(key) ?? { a, b, down: false, up: false, data: 0, control: 0, implied: true, lane: 0 };
    tie.down ||= forth;
    tie.up ||= !forth;
    tie.data += data[k];
    tie.control += control[k];
    tie.implied &&= Boolean(implied[k]);
    found.set(key, tie);
  });
  const ties = [...found.values()];
  // Beside the rows run those that pass others; each lane holds those that do not meet.
  for (const down of [true, false]) {
    const beside = ties.filter((tie) => tie.down === down && !tie.implied && row[tie.b] - row[tie.a] > 1);
    /** @type {number[]} the last row of each lane */
    const lanes = [];
    for (const tie of beside.sort((one, other) => row[one.b] - row[one.a] - (row[other.b] - row[other.a]) || row[one.a] - row[other.a])) {
      let lane = lanes.findIndex((until) => until <= row[tie.a]);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = row[tie.b];
      tie.lane = lane + 1;
    }
  }
  return ties;
}

/**
 * @param {Tie} tie
 * @param {ModuleBox[]} boxes
 * @param {Pair[]} bands
 * @param {Pair} sides where the lanes begin, left and right
 * @returns {ModuleLine}
 */
function lineOf(tie, boxes, bands, [left, right]) {
  const [a, b] = [boxes[tie.a], boxes[tie.b]];
  const [ax, bx] = [a.x + a.w / 2, b.x + b.w / 2];
  const [ay, by] = [a.y + a.h, b.y];
  /** @type {Pair[]} */
  let points;
  let path = "";
  if (a.row === b.row) {
    const low = bands[a.row][1] + DOWN / 3;
    points = [[ax, ay], [ax, low], [bx, low], [bx, b.y + b.h]];
  } else if (tie.lane) {
    const shift = Math.min(a.w, b.w) / 4;
    const side = tie.down ? right + tie.lane * LANE : left - tie.lane * LANE;
    const [from, to] = tie.down ? [ax + shift, bx + shift] : [ax - shift, bx - shift];
    points = [[from, ay], [from, bands[a.row][1] + DOWN * 0.4], [side, bands[a.row][1] + DOWN * 0.4], [side, bands[b.row][0] - DOWN * 0.4], [to, bands[b.row][0] - DOWN * 0.4], [to, by]];
  } else {
    const low = bands[a.row][1]; // beside a box that is higher a line goes straight down
    points = [[ax, ay], [bx, by]];
    const half = Math.min(80, (by - low) / 2);
    path = `M${ax} ${ay}V${low}C${ax} ${low + half} ${bx} ${by - half} ${bx} ${by}`;
  }
  const ends = [points[0], points[points.length - 1]];
  const level = a.row === b.row;
  const heads = `${tie.down ? arrow(ends[1], level) : ""}${tie.up ? arrow(ends[0], true) : ""}`;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  return {
    a: a.entity, b: b.entity, path: path || rounded(points), heads, data: tie.data, control: tie.control, both: tie.up && tie.down, up: tie.up && !tie.down,
    implied: tie.implied, around: a.around, box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
  };
}

/** The head of an arrow that points up to a place, or down. @param {Pair} place @param {boolean} up */
const arrow = ([x, y], up) => `M${x} ${y}l${-ARROW / 2} ${up ? ARROW : -ARROW}h${ARROW}z`;

/** A path of horizontal and vertical pieces with round corners. @param {Pair[]} points */
function rounded(points) {
  let path = `M${points[0].join(" ")}`;
  for (let k = 1; k < points.length - 1; k += 1) {
    const [[x0, y0], [x, y], [x1, y1]] = points.slice(k - 1, k + 2);
    const before = Math.min(ROUND, Math.hypot(x - x0, y - y0) / 2);
    const after = Math.min(ROUND, Math.hypot(x1 - x, y1 - y) / 2);
    path += `L${x - Math.sign(x - x0) * before} ${y - Math.sign(y - y0) * before}Q${x} ${y} ${x + Math.sign(x1 - x) * after} ${y + Math.sign(y1 - y) * after}`;
  }
  return `${path}L${points[points.length - 1].join(" ")}`;
}
