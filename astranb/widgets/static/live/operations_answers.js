// @ts-check
// What views of a run of operations ask, and who answers it: counterpart of widgets/views/.

import { stops } from "./breakpoints_answers.js";
import { changes } from "./change_answers.js";
import { lookups as everyones } from "./looking_answers.js";
import { paths } from "./operations_critical_path.js";
import { traffic } from "./operations_flows.js";
import { memories } from "./operations_footprint.js";
import { graphs } from "./operations_graph.js";
import { lookups } from "./operations_looking.js";
import { modules } from "./operations_modules.js";
import { timelines } from "./operations_ranks.js";
import { results } from "./operations_result.js";

/** @import { Answers } from "./types" */

const { complete, why } = everyones; // they ask the engine, whichever it is

/** @type {Answers} by the name of the question */
export const ANSWERS = { ...changes, complete, ...graphs, ...lookups, ...memories, ...modules, ...paths, ...results, ...stops, ...timelines, ...traffic, why };
