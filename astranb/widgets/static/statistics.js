// @ts-check
// Where the time of a job's ranks goes: stacked bars of ranks, operators, a roofline, skew, tables.

import { formatBytes, formatCount, formatShare, formatTime, plural } from "./format.js";
import { createPicture, createPicker } from "./plot.js";
import { shortened } from "./scales.js";
import { RECORDED_COLOURS as COLOURS, createTheme, make, makeBarKey, makeHint, makeRow } from "./theme.js";

/** @import { Context, Counted, Spot, Theme } from "./types" */

const [LEFT, RIGHT, TOP, BOTTOM] = [56, 14, 10, 34];
const [BAR, LEAST_BAR] = [22, 3]; // px of a rank
const MOST_BARS = 14; // operators
const MOST_GROUPS = 24; // rows of the table
const REACH = 10; // px to a point

/** @param {string} title @param {Counted} counted */
export function createStatistics(title, counted) {
  const element = make("div", { class: "anb-workbench anb-counted" });
  const theme = createTheme(element);
  const [left, right] = [
    [createRankBars(counted, theme), createPath(counted), createSkew(counted, theme)],
    [createOperators(counted, theme), createRoofline(counted, theme)],
  ].map((some) => some.flatMap((part) => part ?? []));
  const table = createCommunication(counted);
  /** @param {{ element: Node }[]} parts */
  const column = (parts) => make("div", {}, ...parts.map((part) => part.element));
  const heading = make("div", { class: "anb-row anb-header" }, make("h3", { class: "anb-title", text: title }),
    make("span", { class: "anb-hint", text: `${plural(counted.ranks, "rank")} · ${formatTime(counted.makespan_ns * 1000, 3)} · ${counted.how}` }));
  element.append(heading, make("div", { class: "anb-counted-parts" }, column(left), column(right)), ...(table ? [table.element] : []));
  theme.changed = () => [...left, ...right].forEach((part) => part.draw());
  return element;
}

/** A part of the page, with a title and what it shows. @param {string} title @param {string} words @param {...Node} children */
const section = (title, words, ...children) =>
  make("section", { class: "anb-counted-part", "aria-label": title }, make("h4", { text: title }), ...(words ? [makeHint(words)] : []), ...children);

/** @param {number} ns */
const time = (ns) => formatTime(ns * 1000, 3);

/** Ticks of a linear axis from 0. @param {number} most @param {number} count */
function ticks(most, count) {
  const rough = most / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= rough) ?? 10);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, k) => k * step);
}

/** Ticks of times below a picture, and lines up. @param {Context} context @param {Theme} theme @param {number} most ns @param {number} width @param {number} bottom @param {number} left */
function timeAxis(context, theme, most, width, bottom, left) {
  const room = width - left - RIGHT;
  context.font = `11px ${theme.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const tick of ticks(most, room / 110)) {
    const x = left + (tick / (most || 1)) * room;
    context.fillStyle = theme.faint;
    context.fillRect(Math.round(x), TOP, 1, bottom - TOP);
    context.fillStyle = theme.dim;
    context.fillText(tick ? time(tick) : "0", Math.min(x, width - 26), bottom + 14);
  }
}

/** The time of each rank, divided. @param {Counted} counted @param {Theme} theme */
function createRankBars({ by_rank: rows, activities, makespan_ns: whole }, theme) {
  const names = /** @type {const} */ ([...activities, "idle"]);
  /** @param {number} k */
  const colourOf = (k) => COLOURS[k] ?? theme.faint;
  const occurs = names.map((name) => rows.some((row) => row[`${name}_ns`] > 0));
  const most = Math.floor(420 / LEAST_BAR);
  const every = Math.ceil(rows.length / most);
  const shown = rows.filter((_, k) => k % every === 0);
  const tall = Math.max(LEAST_BAR, Math.min(BAR, 420 / shown.length));
  const legend = make("div", { class: "anb-legend" });
  const picture = createPicture("Time of each rank", draw, { tip });
  picture.element.style.height = `${Math.ceil(TOP + shown.length * tall + BOTTOM)}px`;
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    legend.replaceChildren(...names.flatMap((name, k) => occurs[k] ? makeBarKey(colourOf(k), name === "communication" ? "exposed communication" : name === "waiting" ? "waiting for ranks" : name) : []));
    const room = width - LEFT - RIGHT;
    timeAxis(context, theme, whole, width, height - BOTTOM, LEFT);
    context.textAlign = "right";
    const seldom = Math.ceil(14 / tall);
    shown.forEach((row, at) => {
      let x = LEFT;
      names.forEach((name, k) => {
        const wide = (row[`${name}_ns`] / (whole || 1)) * room;
        context.fillStyle = colourOf(k);
        context.fillRect(x, TOP + at * tall, wide, Math.max(1, tall - (tall > 6 ? 3 : 0)));
        x += wide;
      });
      context.fillStyle = theme.ink;
      if (at % seldom === 0) context.fillText(`rank ${row.rank}`, LEFT - 6, TOP + at * tall + Math.min(tall, BAR) / 2 - 1);
    });
  }
  /** @param {Spot} at */
  function tip({ offsetY }) {
    const row = shown[Math.floor((offsetY - TOP) / tall)];
    if (!row) return "";
    const divided = names.filter((name) => row[`${name}_ns`] > 0).map((name) => `${name} ${time(row[`${name}_ns`])}`);
    return [`rank ${row.rank}`, ...divided, `of ${time(row.transfers_ns)} of transfers ${time(row.overlapped_ns)} behind computations`].join("\n");
  }
  const words = every > 1 ? `Every ${every}th of ${plural(rows.length, "rank")}. ` : "";
  return { element: section("Time of each rank", `${words}Of what runs at once the first of the legend counts.`, legend, picture.element), draw: picture.draw };
}

/** Operators with the most time. @param {Counted} counted @param {Theme} theme */
function createOperators({ operators, activities }, theme) {
  const rows = operators.slice(0, MOST_BARS);
  if (!rows.length) return null;
  const most = Math.max(1, rows[0].time_ns);
  const picture = createPicture("Operators", draw, { tip });
  picture.element.style.height = `${TOP + rows.length * BAR + BOTTOM}px`;
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    const left = Math.min(230, width * 0.42);
    const room = width - left - RIGHT;
    timeAxis(context, theme, most, width, height - BOTTOM, left);
    rows.forEach((row, at) => {
      const y = TOP + at * BAR;
      const wide = (row.time_ns / most) * room;
      context.fillStyle = COLOURS[activities.indexOf(row.kind)] ?? theme.line;
      context.fillRect(left, y, Math.max(1, wide), BAR - 4);
      context.fillStyle = theme.ink;
      context.textAlign = "right";
      context.fillText(shortened(context, row.name || row.kind, left - 10), left - 6, y + BAR / 2 - 2);
      const text = formatShare(row.share);
      const inside = wide > room - context.measureText(text).width - 8;
      context.textAlign = inside ? "right" : "left";
      if (inside) context.fillStyle = row.kind === "compute" || row.kind === "memory" ? "#ffffff" : "#000000";
      context.fillText(text, left + wide + (inside ? -4 : 4), y + BAR / 2 - 2);
    });
  }
  /** @param {Spot} at */
  function tip({ offsetY }) {
    const row = rows[Math.floor((offsetY - TOP) / BAR)];
    return row ? `${row.name}\n${row.kind} · ${plural(row.count, "time")} · ${time(row.time_ns)}, of which ${time(row.shown_ns)} not behind something else` : "";
  }
  const left = operators.length - rows.length;
  return { element: section("Operators", `All ranks together${left > 0 ? `; ${plural(left, "more has less time", "more have less time")}` : ""}.`, picture.element), draw: picture.draw };
}

/** Who comes late to collectives, and who waits. @param {Counted} counted @param {Theme} theme */
function createSkew({ skew }, theme) {
  if (!skew.length) return null;
  const groups = [...new Set(skew.map(({ group }) => group))];
  const picker = createPicker("Group", () => picture.draw());
  const waits = groups.map((name) => skew.reduce((sum, { group, waiting_ns }) => sum + (group === name ? waiting_ns : 0), 0));
  picker.fill(groups.map((group, k) => [k, group ? `group ${group}` : "all ranks"]), waits.indexOf(Math.max(...waits)));
  const legend = make("div", { class: "anb-legend" });
  const picture = createPicture("Skew between ranks", draw, { tip });
  picture.element.style.height = "260px";
  const rows = () => skew.filter(({ group }) => group === groups[picker.value]);
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    legend.replaceChildren(makeBarKey(COLOURS[3], "waiting for other ranks, per collective"), makeBarKey(theme.dark ? "#f0e442" : "#8c8c8c", "late after the first, per collective"));
    const shown = rows();
    const most = 1.05 * Math.max(1, ...shown.flatMap((row) => [row.late_ns, row.waiting_ns / row.count]));
    const [left, bottom] = [LEFT + 14, height - BOTTOM];
    const room = width - left - RIGHT;
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of ticks(most, 5)) {
      const y = bottom - (tick / most) * (bottom - TOP);
      context.fillStyle = theme.faint;
      context.fillRect(left, Math.round(y), room, 1);
      context.fillStyle = theme.dim;
      context.fillText(tick ? time(tick) : "0", left - 6, y);
    }
    if (!shown.some(({ late_ns, waiting_ns }) => late_ns || waiting_ns)) {
      context.textAlign = "center";
      context.fillText("all ranks come at once", left + room / 2, (TOP + bottom) / 2);
    }
    const each = room / shown.length;
    const wide = Math.max(1, Math.min(26, each * 0.36));
    const seldom = Math.ceil(46 / each);
    context.textAlign = "center";
    shown.forEach((row, at) => {
      const middle = left + (at + 0.5) * each;
      /** @type {[number, string][]} */
      const bars = [[row.waiting_ns / row.count, COLOURS[3]], [row.late_ns, theme.dark ? "#f0e442" : "#8c8c8c"]];
      bars.forEach(([value, colour], k) => {
        const tall = (value / most) * (bottom - TOP);
        context.fillStyle = colour;
        context.fillRect(middle + (k - 1) * wide, bottom - tall, Math.max(1, wide - 1), tall);
      });
      context.fillStyle = theme.ink;
      if (at % seldom === 0) context.fillText(`rank ${row.rank}`, middle, bottom + 12);
    });
  }
  /** @param {Spot} at */
  function tip({ offsetX }) {
    const shown = rows();
    const left = LEFT + 14;
    const row = shown[Math.floor(((offsetX - left) / (picture.canvas.clientWidth - left - RIGHT)) * shown.length)];
    return row ? `rank ${row.rank}: ${plural(row.count, "collective")}\nlate by ${time(row.late_ns)} on average, the last one ${plural(row.last, "time")}\nwaits ${time(row.waiting_ns)} in all` : "";
  }
  const choice = groups.length > 1 ? [make("div", { class: "anb-row" }, picker.label("of"))] : [];
  return { element: section("Skew between ranks", "The wait for the last rank is not part of the transfer.", ...choice, legend, picture.element), draw: picture.draw };
}

/** What computations reach. @param {Counted} counted @param {Theme} theme */
function createRoofline({ points }, theme) {
  const count = points.flops.length;
  if (!count) return null;
  const across = points.flops.map((flops, k) => Math.log10(flops / points.bytes[k]));
  const up = points.flops.map((flops, k) => Math.log10((flops / points.duration_ns[k]) * 1e9));
  const [x0, x1] = [Math.floor(Math.min(...across)), Math.ceil(Math.max(...across) + 0.01)];
  const [y0, y1] = [Math.floor(Math.min(...up)), Math.ceil(Math.max(...up) + 0.01)];
  const picture = createPicture("Roofline", draw, { tip });
  picture.element.style.height = "300px";
  /** @type {[number, number][]} */
  let spots = [];
  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    const [left, bottom] = [LEFT + 18, height - BOTTOM - 8];
    /** @param {number} value */
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - RIGHT);
    /** @param {number} value */
    const y = (value) => bottom - ((value - y0) / (y1 - y0)) * (bottom - TOP);
    context.font = `11px ${theme.font}`;
    context.textBaseline = "middle";
    for (let power = x0; power <= x1; power++) {
      context.fillStyle = theme.faint;
      context.fillRect(Math.round(x(power)), TOP, 1, bottom - TOP);
      context.fillStyle = theme.dim;
      context.textAlign = "center";
      context.fillText(power < -2 || power > 4 ? `1e${power}` : String(Number((10 ** power).toPrecision(1))), x(power), bottom + 13);
    }
    for (let power = y0; power <= y1; power++) {
      context.fillStyle = theme.faint;
      context.fillRect(left, Math.round(y(power)), width - left - RIGHT, 1);
      context.fillStyle = theme.dim;
      context.textAlign = "right";
      context.fillText(rate(power), left - 6, y(power));
    }
    context.fillStyle = theme.ink;
    context.textAlign = "center";
    context.fillText("operations per byte (log)", left + (width - left - RIGHT) / 2, height - 8);
    spots = across.map((value, k) => [x(value), y(up[k])]);
    context.fillStyle = theme.dark ? "#56b4e9" : "#0072b2";
    context.globalAlpha = count > 400 ? 0.35 : 0.65;
    for (const [px, py] of spots) {
      context.beginPath();
      context.arc(px, py, 3, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
  }
  /** @param {Spot} at */
  function tip({ offsetX, offsetY }) {
    let [best, found] = [REACH, -1];
    spots.forEach(([px, py], k) => {
      const far = Math.hypot(px - offsetX, py - offsetY);
      if (far < best) [best, found] = [far, k];
    });
    if (found < 0) return "";
    const [flops, bytes, took] = [points.flops[found], points.bytes[found], points.duration_ns[found]];
    return `${points.names[points.name[found]]} · rank ${points.rank[found]}\n${flops.toPrecision(4)} operations, ${formatBytes(bytes)}, ${time(took)}\n${(flops / took).toPrecision(3)} GFLOP/s at ${(flops / bytes).toPrecision(3)} per byte`;
  }
  const words = points.all > count ? `The longest ${formatCount(count)} of ${plural(points.all, "computation")} with operations, bytes and a duration.` : `${plural(count, "computation")} with operations, bytes and a duration.`;
  return { element: section("Roofline", words, picture.element), draw: picture.draw };
}

/** A rate of operations at a power of ten. @param {number} power */
const rate = (power) => {
  const step = Math.min(5, Math.max(0, Math.floor(power / 3)));
  return `${10 ** (power - 3 * step)} ${["", "K", "M", "G", "T", "P"][step]}FLOP/s`.replace(/^(0\.0+1) /, "$1 ");
};

/** @param {Counted} counted */
function createPath({ critical_path: { nodes, ...shares }, makespan_ns: whole }) {
  const rows = Object.entries(shares).filter(([, took]) => took > 0).sort((a, b) => b[1] - a[1]);
  const table = make("table", { class: "anb-effects" }, make("tbody", {}, ...rows.map(([name, took]) => {
    const row = makeRow(name, time(took), formatShare(took / (whole || 1)));
    /** @type {HTMLElement} */ (row.children[1]).style.setProperty("--anb-share", `${(100 * took) / (whole || 1)}%`);
    return row;
  })));
  return { element: section("Critical path", `${plural(nodes, "segment")}, over all ranks: it follows whoever came last.`, table), draw() {} };
}

/** @param {Counted} counted */
function createCommunication({ communication, dimensions, ranks }) {
  if (!communication.length) return null;
  const many = communication.length > MOST_GROUPS;
  const head = [many ? "groups" : "group", "dimension", "collective", "count", "bytes of a rank", "transfer", "waiting, of a rank"];
  const rows = (many ? dimensions : communication).map((row) => {
    const first = "groups" in row ? formatCount(row.groups) : row.group || (row.collective === "message" ? "–" : `all ${ranks}`);
    const known = row.unsized === row.count ? [] : [formatBytes(row.bytes)];
    const size = [...known, ...(row.unsized ? ["unknown"] : [])].join(" + ");
    return makeRow(first, row.dimension, row.collective, formatCount(row.count), size, time(row.transfer_ns), time(row.waiting_ns));
  });
  const titles = make("tr", {}, ...head.map((text) => make("th", { scope: "col", text })));
  const table = make("table", { class: "anb-counted-table" }, make("thead", {}, titles), make("tbody", {}, ...rows));
  return { element: section("Communication", many ? "The mean of the groups along each dimension." : "", make("div", { class: "anb-scrolled" }, table)) };
}
