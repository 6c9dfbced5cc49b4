// @ts-check
// What an edit adds to the recording: counterpart of the two rules of engine/cacheline/recording.py that it needs.

/** @import { Tables } from "./types" */

/**
 * Record a line crossing a link, over the oldest one when the ring is full.
 * @param {Tables} tables
 * @param {Record<string, number>} flight its fields
 */
export function recordFlight({ recorder, flights }, flight) {
  const count = recorder.at.flights(0);
  recorder.put.flights(0, count + 1);
  for (const [field, value] of Object.entries(flight)) flights.put[field](count % flights.rows, value);
}

/**
 * Add busy time to a row of activity; when time exceeds the bins, merge each two into one.
 * @param {Tables} tables
 * @param {number} row
 * @param {number} startPs
 * @param {number} busyPs
 */
export function recordBusy({ recorder, activity }, row, startPs, busyPs) {
  const bins = recorder.at.bins(0);
  const { value } = activity.at;
  while (startPs >= bins * recorder.at.bin_ps(0)) {
    for (let first = 0; first < recorder.at.rows(0) * bins; first += bins) {
      for (let bin = 0; bin < bins; bin++) {
        activity.put.value(first + bin, bin < Math.floor(bins / 2) ? value(first + 2 * bin) + value(first + 2 * bin + 1) : 0);
      }
    }
    recorder.put.bin_ps(0, 2 * recorder.at.bin_ps(0));
  }
  const place = row * bins + Math.floor(startPs / recorder.at.bin_ps(0));
  activity.put.value(place, value(place) + busyPs);
}
