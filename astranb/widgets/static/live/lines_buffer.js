// @ts-check
// The addresses of a buffer as a picture: a row a chunk, cells of as many lines as there is room for. Counterpart of
// views/buffer.py.

import { pack } from "../messages.js";
import { toEven } from "../numpy.js";
import { InputError } from "./errors.js";
import { BUFFERS, indexName } from "./lines_contributions.js";
import { bufferOf, slicesOf } from "./lines_memory.js";
import { int, optional, required } from "./options.js";
import { commas, str } from "./text.js";

/** @import { BufferContent } from "./lines_memory.js" */
/** @import { LineAnswers, Feed, Sim } from "./types" */

const MOST_CELLS = 200_000;
const MOST_COLUMNS = 1024;
const NAMED = 10; // ranks that are named one by one
const NONE = 65535;

/**
 * A buffer, and the picture of it: the index of each chunk, a row each, and the cell of each line.
 * @param {Feed} feed
 * @param {any} options
 */
function drawn(feed, options) {
  const sim = feed.session.at(options.at_ps);
  const rank = int(optional(options, "rank", 0));
  const buffer = str(optional(options, "buffer", "output"));
  const found = bufferOf(sim.engine, rank, buffer);
  const { chunk, lines } = sim.engine.tables.slices.at;
  const indices = [...new Set(found.slices.map(chunk))].sort((a, b) => a - b);
  const rowOf = new Map(indices.map((index, row) => [index, row]));
  const rows = found.slices.map((slice) => /** @type {number} */ (rowOf.get(chunk(slice))));
  const asked = int(optional(options, "columns", 256));
  if (indices.length > MOST_CELLS) throw new InputError(`${commas(indices.length)} chunks are too many to draw`, { where: "buffer" });
  const sizes = indices.map(() => 0);
  found.slices.forEach((slice, k) => (sizes[rows[k]] += lines(slice)));
  const longest = sizes.reduce((most, size) => Math.max(most, size), 0);
  const most = Math.max(1, Math.min(asked, Math.floor(MOST_CELLS / indices.length), MOST_COLUMNS));
  const fold = Math.max(1, Math.ceil(longest / most));
  const width = Math.max(1, Math.ceil(longest / fold));
  const cellOf = new Int32Array(found.source.length);
  const starts = indices.map(() => -1);
  rows.forEach((row, k) => {
    if (starts[row] < 0 && found.first[k + 1] > found.first[k]) starts[row] = found.first[k];
    for (let line = found.first[k]; line < found.first[k + 1]; line++) cellOf[line] = row * width + Math.floor((line - starts[row]) / fold);
  });
  return { sim, rank, buffer, found, indices, width, fold, cellOf };
}

/** The rank that most lines of each cell came from, of as many the highest; NONE where none has come. @param {BufferContent} found @param {Int32Array} cellOf @param {number} count @param {number} ranks */
function sources({ source }, cellOf, count, ranks) {
  const lines = new Uint32Array(count * ranks);
  source.forEach((rank, line) => rank >= 0 && (lines[cellOf[line] * ranks + rank] += 1));
  return Uint16Array.from({ length: count }, (_, cell) => {
    let from = NONE;
    for (let rank = 0, most = 1; rank < ranks; rank++) {
      const here = lines[cell * ranks + rank];
      if (here >= most) [from, most] = [rank, here];
    }
    return from;
  });
}

/** "sum of ranks 0+1+2 (3 of 8)". @param {Int32Array} times */
function contributionsText(times) {
  const there = [...times.keys()].filter((rank) => times[rank]);
  if (!there.length) return "no rank's data";
  const every = there.flatMap((rank) => Array(times[rank]).fill(rank));
  const more = every.length > NAMED ? "+…" : "";
  return `${every.length === 1 ? "data of rank" : "sum of ranks"} ${every.slice(0, NAMED).join("+")}${more} (${there.length} of ${times.length})`;
}

/** What a line holds, in words. @param {Sim} sim @param {ReturnType<typeof drawn>} picture @param {number} cell */
function lineText(sim, { rank, buffer, found, cellOf }, cell) {
  const start = cellOf.indexOf(cell);
  if (start < 0) return { text: "", source: -1 };
  const k = found.slices.findLastIndex((_, one) => found.first[one] <= start);
  const slice = found.slices[k];
  const { chunk, channel, lines } = sim.engine.tables.slices.at;
  const end = Math.min(cellOf.lastIndexOf(cell) + 1, found.first[k + 1]);
  const mine = Array.from({ length: end - start }, (_, line) => start + line);
  const [from, to] = [start, end - 1].map((line) => line - found.first[k] + 1);
  const words = [`GPU${rank} ${buffer}[${indexName(chunk(slice))}]`];
  if (sim.engine.live.about.contents.channels > 1) words.push(`channel ${channel(slice)}`);
  words.push(`${from === to ? `line ${from}` : `lines ${from} to ${to}`} of ${lines(slice)}`);
  const there = mine.filter((line) => found.source[line] >= 0);
  if (!there.length) return { text: [...words, "not arrived"].join(" · "), source: -1 };
  const counts = new Int32Array(sim.engine.tables.gpus.rows);
  for (const line of there) counts[found.source[line]]++;
  const source = counts.indexOf(counts.reduce((most, one) => Math.max(most, one)));
  if (there.length < mine.length) words.push(`${there.length} of ${mine.length} arrived`);
  words.push(buffer === "input" && source === rank ? "brought by itself" : `from GPU${source}`);
  words.push(contributionsText(found.times[found.number[there[0]]]));
  words.push(found.final[k] ? "final" : "partial: more is to come");
  return { text: words.join(" · "), source };
}

/** @type {LineAnswers} */
export const buffer = {
  buffer(feed, options) {
    const { sim, rank, buffer: name, found, indices, width, fold, cellOf } = drawn(feed, options);
    const count = indices.length * width;
    const [arrived, total, final] = [new Int32Array(count), new Int32Array(count), new Int32Array(count)];
    const least = new Uint16Array(count).fill(NONE);
    const slices = slicesOf(sim.engine.tables, rank);
    const inRow = found.times.map((row) => row.filter((times) => times > 0).length);
    found.final.forEach((done, k) => {
      for (let line = found.first[k]; line < found.first[k + 1]; line++) {
        const cell = cellOf[line];
        total[cell]++;
        if (done) final[cell]++;
        if (found.source[line] < 0) continue;
        arrived[cell]++;
        least[cell] = Math.min(least[cell], inRow[found.number[line]]);
      }
    });
    /** @param {Int32Array} counts */
    const all = (counts) => counts.reduce((whole, one) => whole + one, 0);
    return [
      {
        rank, buffer: name, used: BUFFERS.filter((_, of) => slices[of].length),
        of: inRow.reduce((most, one) => Math.max(most, one), 1), chunks: indices.length, names: indices.map(indexName),
        columns: width, fold, by_line: found.by_line, lines: cellOf.length, arrived_lines: all(arrived), final: all(final),
      },
      pack("buffer", {
        arrived: Array.from(arrived, (lines, cell) => toEven((255 * lines) / Math.max(1, total[cell]))),
        source: sources(found, cellOf, count, sim.engine.tables.gpus.rows),
        ranks: least.map((ranks, cell) => (arrived[cell] ? ranks : 0)),
        state: Array.from(total, (lines, cell) => (lines === 0 ? 2 : Number(final[cell] === lines))),
      }),
    ];
  },
  cell(feed, options) {
    const picture = drawn(feed, options);
    const cell = int(required(options, "chunk")) * picture.width + int(required(options, "column"));
    return [lineText(picture.sim, picture, cell), []];
  },
};
