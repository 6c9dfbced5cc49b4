// @ts-check
// What the view of the data shows: whose contributions are in which chunk, at the cursor. Counterpart of views/chunks.py.

import { pack } from "../messages.js";
import { InputError } from "./errors.js";
import { BUFFERS, cellText, contributions, sliceContents } from "./lines_contributions.js";
import { truthy } from "./options.js";
import { commas, str } from "./text.js";

/** @import { LineAnswers } from "./types" */

const MOST_TICKS = 32; // up to so many ranks, each one's contribution is drawn; beyond, how many there are
const MOST_TEXTS = 1_100;
const MOST_NUMBERS = 50_000_000; // ranks times slices: what working it out may take in memory

/** @type {LineAnswers} */
export const chunks = {
  chunks(feed, options) {
    const { engine } = feed.session.at(options.at_ps);
    const { live, tables: { gpus, slices } } = engine;
    const ranks = gpus.rows;
    if (slices.rows * ranks > MOST_NUMBERS) throw new InputError(`${commas(slices.rows)} slices on ${ranks} ranks are too many to draw`);
    const used = BUFFERS.filter((_, buffer) => slices.column("buffer").includes(buffer));
    const { sums } = live.about.contents;
    const buffer = str(truthy(options.buffer) ? options.buffer : sums ? "fullest" : "output");
    const found = sliceContents(engine);
    const [cells, output] = [contributions(engine, found, buffer), contributions(engine, found, "output")];
    // Scratch may be numbered with gaps: the cells of a row are drawn side by side.
    const drawnOf = new Int32Array(ranks);
    const place = cells.map((cell) => (buffer === "fullest" ? cell.of_chunk : drawnOf[cell.rank]++));
    const drawn = ranks <= MOST_TICKS;
    /** @param {"rank" | "buffer" | "chunk" | "promised" | "kept" | "slices" | "writing"} field */
    const column = (field) => cells.map((cell) => cell[field]);
    /** @param {number} least how often they must be there, to count */
    const counted = (least) => cells.map(({ most }) => most.filter((times) => times >= least).length);
    /** @param {"least" | "most"} field */
    const ticks = (field) => (drawn ? cells.flatMap((cell) => Array.from(cell[field], (times) => Math.min(times, 255))) : []);
    return [
      {
        ranks, cells: cells.length, width: place.reduce((most, one) => Math.max(most, one + 1), 0), ticks: drawn,
        texts: cells.length <= MOST_TEXTS ? cells.map(cellText) : [],
        buffer, able: sums ? ["fullest", ...used] : used,
        final: output.filter((cell) => cell.kept).length,
        promised_cells: output.filter((cell) => cell.promised > 0).length,
      },
      pack("chunks", {
        rank: column("rank"), buffer: column("buffer"), chunk: column("chunk"), promised: column("promised"),
        kept: column("kept"), slices: column("slices"), writing: column("writing"),
        place, there: counted(1), twice: counted(2), least: ticks("least"), most: ticks("most"),
      }),
    ];
  },
};
