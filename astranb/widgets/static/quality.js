// @ts-check
// How near workloads of models of a corpus come to held-out ones, and what they give away.

import { formatCount, formatTime, plural } from "./format.js";
import { createPicture } from "./plot.js";
import { shortened } from "./scales.js";
import { RECORDED_COLOURS as COLOURS, createTheme, make, makeBarKey, makeHint, makeRow } from "./theme.js";

/** @import { Context, Judged, JudgedCluster, Spot, Theme } from "./types" */

const [RIGHT, TOP, BOTTOM] = [16, 10, 30];
const LIMIT = 0.1; // wanted: figures off by less
const ROW = 20; // px of a statistic
const LEAST = 1e-3; // ratio that is drawn
const MEASURES = /** @type {const} */ ([
  ["makespan_off", "makespan, mean"], ["exposed_off", "exposed communication, mean"],
  ["worst_pair_off", "makespan, worst workload"], ["worst_pair_exposed_off", "exposed, worst workload"],
]);
const GIVEN = /** @type {const} */ ([
  ["nearest", "distance of a synthetic workload to the nearest one learnt from (median)"],
  ["nearest_training", "of one learnt from to the nearest other: the first should not be less"],
  ["nearest_held_out", "of a held-out one to the nearest one learnt from"],
  ["membership_auc", "guesses which workloads were learnt from (0.5: chance)"],
  ["verbatim_sizes", "sizes and durations that are some of the corpus"],
  ["verbatim_names", "names that are some of the corpus"],
]);

/** @param {string} title @param {Judged[]} reports */
export function createQuality(title, reports) {
  const element = make("div", { class: "anb-workbench anb-counted" });
  const theme = createTheme(element);
  const [{ held_out: held, unlike, learnt_from: learnt }] = reports;
  const left = unlike ? `, ${formatCount(unlike)} left out: nothing learnt from is divided like them` : "";
  const heading = make("div", { class: "anb-row anb-header" }, make("h3", { class: "anb-title", text: title }),
    make("span", { class: "anb-hint", text: `learnt from ${plural(learnt, "workload")}, compared with ${plural(held, "held-out one")}${left}` }));
  const parts = [createClusters(reports, theme), createDistances(reports, theme)];
  const column = (/** @type {Element[]} */ ...some) => make("div", {}, ...some);
  element.append(heading, make("div", { class: "anb-counted-parts" },
    column(parts[0].element), column(parts[1].element, createTimes(reports), createPrivacy(reports))));
  theme.changed = () => parts.forEach((part) => part.draw());
  return element;
}

/** A part of the page. @param {string} title @param {string} words @param {...Node} children */
const section = (title, words, ...children) =>
  make("section", { class: "anb-counted-part", "aria-label": title }, make("h4", { text: title }), makeHint(words), ...children);

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** @param {Judged[]} reports */
const makeLegend = (reports) => make("div", { class: "anb-legend" }, ...reports.map(({ model }, k) => makeBarKey(COLOURS[k], model)));

/** How far simulated figures are off, cluster by cluster. @param {Judged[]} reports @param {Theme} theme */
function createClusters(reports, theme) {
  const clusters = reports[0].clusters.map(({ cluster }) => cluster);
  const rows = clusters.flatMap((cluster, at) => MEASURES.map(([name, words]) => ({ cluster, at, name, words })));
  const tall = Math.max(7, Math.floor(14 / reports.length)) * reports.length + 4;
  const most = Math.max(1.3 * LIMIT, ...reports.flatMap((one) => one.clusters.flatMap((row) => MEASURES.map(([name]) => Math.abs(row[name])))));
  const scale = Math.min(most, 1); // more than all of it is cut off
  const gap = 18;
  const heightOf = () => TOP + rows.length * tall + clusters.length * gap + BOTTOM;
  const picture = createPicture("Simulated figures", draw, { tip });
  picture.element.style.height = `${heightOf()}px`;
  /** @param {number} k */
  const top = (k) => TOP + k * tall + (rows[k].at + 1) * gap;
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    const left = Math.min(190, width * 0.4);
    const room = width - left - RIGHT;
    const bottom = height - BOTTOM;
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    const step = scale > 0.5 ? 0.2 : scale > 0.25 ? 0.1 : 0.05;
    context.textAlign = "center";
    for (let value = 0; value <= scale; value += step) {
      const x = left + (value / scale) * room;
      context.fillStyle = theme.faint;
      context.fillRect(Math.round(x), TOP, 1, bottom - TOP);
      context.fillStyle = theme.dim;
      context.fillText(`${Math.round(100 * value)} %`, Math.min(x, width - 14), bottom + 12);
    }
    rows.forEach((row, k) => {
      const y = top(k);
      if (k % MEASURES.length === 0) {
        context.textAlign = "left";
        context.fillStyle = theme.ink;
        context.fillText(row.cluster, 4, y - gap / 2);
      }
      context.textAlign = "right";
      context.fillStyle = theme.dim;
      context.fillText(shortened(context, row.words, left - 10), left - 6, y + tall / 2 - 2);
      const each = (tall - 4) / reports.length;
      reports.forEach((report, m) => {
        const off = Math.abs(report.clusters[row.at][row.name]);
        context.fillStyle = COLOURS[m];
        context.fillRect(left, y + m * each, Math.max(1, (Math.min(off, scale) / scale) * room), each - 1);
      });
    });
    context.fillStyle = theme.ink;
    const limit = Math.round(left + (LIMIT / scale) * room);
    for (let y = TOP; y < bottom; y += 6) context.fillRect(limit, y, 1, 3);
  }
  /** @param {Spot} at */
  function tip({ offsetY }) {
    const k = rows.findIndex((_, at) => offsetY >= top(at) - 2 && offsetY < top(at) + tall - 2);
    if (k < 0) return "";
    const { cluster, at, name, words } = rows[k];
    return [`${cluster}: ${words}`, ...reports.map((one) => `${one.model}: off by ${percent(one.clusters[at][name])}`)].join("\n");
  }
  const words = "How far makespan and exposed communication are off on clusters that nothing was fitted to; the broken line: 10 %.";
  return { element: section("Simulated figures", words, makeLegend(reports), picture.element), draw: picture.draw };
}

/** Simulated times in seconds. @param {Judged[]} reports */
function createTimes(reports) {
  const time = (/** @type {number} */ seconds) => formatTime(seconds * 1e12, 3);
  const head = make("tr", {}, ...["", "makespan", "synthetic", "exposed", "synthetic"].map((text) => make("th", { scope: "col", text })));
  const rows = reports.flatMap(({ model, clusters }) => clusters.map((/** @type {JudgedCluster} */ row) =>
    makeRow(`${row.cluster}, ${model}`, time(row.makespan_s[0]), time(row.makespan_s[1]), time(row.exposed_s[0]), time(row.exposed_s[1]))));
  const table = make("table", { class: "anb-counted-table anb-judged-table" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return section("Simulated times", "Means over held-out workloads, and over synthetic ones.", make("div", { class: "anb-scrolled" }, table));
}

/** @param {Judged[]} reports */
function createPrivacy(reports) {
  const head = make("tr", {}, ...["", ...reports.map(({ model }) => model)].map((text) => make("th", { scope: "col", text })));
  const rows = GIVEN.map(([name, words]) => makeRow(words, ...reports.map(({ privacy }) =>
    name.startsWith("verbatim") ? formatCount(privacy[name]) : privacy[name].toFixed(3))));
  const table = make("table", { class: "anb-counted-table anb-judged-table" }, make("thead", {}, head), make("tbody", {}, ...rows));
  return section("What is given away", "Distances in units of the corpus' spread.", make("div", { class: "anb-scrolled" }, table));
}

/** Distances of distributions, relative to those within the corpus. @param {Judged[]} reports @param {Theme} theme */
function createDistances(reports, theme) {
  const names = [...new Set(reports.flatMap(({ distances }) => Object.keys(distances)))].sort();
  const picture = createPicture("Distances", draw, { tip });
  picture.element.style.height = `${TOP + names.length * ROW + BOTTOM + 14}px`;
  const known = reports.flatMap(({ distances }) => Object.values(distances).map(({ ratio }) => ratio ?? 0));
  const [low, high] = [Math.log10(LEAST), Math.max(1, Math.ceil(Math.log10(Math.max(LEAST, ...known))))];
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    const left = Math.min(210, width * 0.42);
    const room = width - left - RIGHT;
    const bottom = height - BOTTOM - 14;
    /** @param {number} ratio */
    const x = (ratio) => left + ((Math.log10(Math.max(LEAST, ratio)) - low) / (high - low)) * room;
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (let power = low; power <= high; power++) {
      context.fillStyle = power === 0 ? theme.dim : theme.faint;
      context.fillRect(Math.round(x(10 ** power)), TOP, 1, bottom - TOP);
      context.fillStyle = theme.dim;
      context.fillText(power === low ? `≤ ${LEAST}` : String(10 ** power), Math.min(x(10 ** power), width - 14), bottom + 12);
    }
    context.fillText("of the distance between what was learnt from and held out (log)", left + room / 2, height - 8);
    names.forEach((name, at) => {
      const y = TOP + (at + 0.5) * ROW;
      context.textAlign = "right";
      context.fillStyle = theme.ink;
      context.fillText(shortened(context, name, left - 10), left - 8, y);
      reports.forEach(({ distances }, k) => {
        const ratio = distances[name]?.ratio;
        context.fillStyle = COLOURS[k];
        context.beginPath();
        context.arc(x(ratio ?? 10 ** high), y + (k - (reports.length - 1) / 2) * 6, 4, 0, 2 * Math.PI);
        context.fill();
      });
    });
  }
  /** @param {Spot} at */
  function tip({ offsetY }) {
    const name = names[Math.floor((offsetY - TOP) / ROW)];
    if (!name) return "";
    const said = reports.map(({ model, distances }) => {
      const row = distances[name];
      return row === undefined || row.distance === null ? `${model}: on one side only` : `${model}: ${row.distance.toPrecision(3)}, within the corpus ${row.baseline?.toPrecision(3) ?? "none"}`;
    });
    return [name, ...said].join("\n");
  }
  const words = "Jensen-Shannon divergences of kinds and of kinds along dependencies, Wasserstein-1 distances of logarithms of the rest. Left of 1: nearer than the corpus is to itself.";
  return { element: section("Distances", words, makeLegend(reports), picture.element), draw: picture.draw };
}
