// @ts-check
// What views of a run by cache lines ask, and who answers it: counterpart of widgets/views/.

import { stops } from "./breakpoints_answers.js";
import { changes } from "./change_answers.js";
import { activity } from "./lines_activity.js";
import { buffer } from "./lines_buffer.js";
import { buffers } from "./lines_buffers.js";
import { busiest } from "./lines_busiest.js";
import { chunks } from "./lines_chunks.js";
import { device } from "./lines_device.js";
import { inside } from "./lines_inside.js";
import { interval } from "./lines_interval.js";
import { lost } from "./lines_lost.js";
import { timeline } from "./lines_timeline.js";
import { times } from "./lines_times.js";
import { topology } from "./lines_topology.js";
import { lookups } from "./looking_answers.js";
import { results } from "./result_answers.js";

/** @import { Answers } from "./types" */

/** @type {Answers} by the name of the question */
export const ANSWERS = {
  ...activity, ...buffer, ...buffers, ...busiest, ...changes, ...chunks, ...device, ...inside, ...interval, ...lookups, ...lost,
  ...results, ...stops, ...timeline, ...times, ...topology,
};
