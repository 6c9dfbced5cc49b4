// @ts-check
// What views of a run by cache lines ask, and who answers it: counterpart of widgets/views/.

import { stops } from "./breakpoints_answers.js";
import { changes } from "./change_answers.js";
import { activity } from "./lines_activity.js";
import { busiest } from "./lines_busiest.js";
import { interval } from "./lines_interval.js";
import { timeline } from "./lines_timeline.js";
import { topology } from "./lines_topology.js";
import { results } from "./result_answers.js";

/** @import { Answers } from "./types" */

/** @type {Answers} by the name of the question */
export const ANSWERS = { ...activity, ...busiest, ...changes, ...interval, ...results, ...stops, ...timeline, ...topology };
