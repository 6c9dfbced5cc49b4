// @ts-check
// What views of a run of operations ask, and who answers it: counterpart of widgets/views/.

import { stops } from "./breakpoints_answers.js";
import { changes } from "./change_answers.js";
import { graphs } from "./operations_graph.js";
import { timelines } from "./operations_ranks.js";

/** @import { Answers } from "./types" */

/** @type {Answers} by the name of the question */
export const ANSWERS = { ...changes, ...graphs, ...stops, ...timelines };
