// @ts-check
// What an engine of cache lines answers about its objects: counterpart of the part "Looking" of engine/cacheline/engine.py,
// and of engine/cacheline/source_lines.py.

import { inspect } from "./lines_inspection.js";
import { concerned, narrate } from "./lines_narrating.js";
import { PARTS, blockName, objectNames, partNames, resolve } from "./lines_paths.js";
import { linesOf } from "./lines_times.js";
import { explainWait } from "./lines_why.js";

/** @import { Engine } from "./types" */

/** @param {Engine} engine */
export const looking = (engine) => ({
  /** @param {string} path */
  inspect: (path) => inspect(engine, path),
  narrate: () => narrate(engine),
  concerned: () => concerned(engine),
  /** @param {string} path */
  why: (path) => explainWait(engine, path),
  /** @param {string} block */
  spot_text: (block) => spotText(engine, block),
  objects: () => objectNames(engine),
  part_kinds: [...Object.keys(PARTS), "port", "buffer"],
  /** @param {string} path */
  parts: (path) => partNames(path, engine),
});

/** The place of a thread block in its program, in words: `GPU3 block 0 is at operation 4 of 14, In[3] line 7`. @param {Engine} engine @param {string} path */
function spotText(engine, path) {
  const { row } = resolve(path, engine);
  const { at } = engine.tables.blocks;
  const op = at.op(row);
  const [number, count] = [op - at.first_op(row), at.last_op(row) - at.first_op(row)];
  if (number >= count) return `${blockName(engine, row)} has ended`;
  const { places, of } = linesOf(engine);
  const [part, line] = places[of[op]];
  const written = part >= 0 ? `, ${engine.live.about.lines.parts[part]} line ${line}` : "";
  return `${blockName(engine, row)} is at operation ${number + 1} of ${count}${written}`;
}
