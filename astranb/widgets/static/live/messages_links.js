// @ts-check
// The ends of the links of a workload's network: counterpart of engine/messages/link_ends.py.

import { FULLY_CONNECTED, ROUTED, SWITCH } from "./dimension_links.js";

/** @import { Tables } from "./types" */

/** The dimension of a link; -1 where links have none, as in an infrastructure. @param {Tables} tables @param {number} link */
export function dimensionOf({ config, dims }, link) {
  if (config.at.routed(0)) return -1;
  let dim = -1;
  while (dim + 1 < dims.rows && dims.at.first_link(dim + 1) <= link) dim += 1;
  return dim;
}

/** A rank's index within a dimension. @param {Tables} tables @param {number} dim @param {number} rank */
const indexIn = ({ dims }, dim, rank) => Math.floor(rank / dims.at.stride(dim)) % dims.at.nodes(dim);

/** Where a link begins and ends; to and from a switch both are the rank. @param {Tables} tables @param {number} dim @param {number} link */
function ranksOf(tables, dim, link) {
  const { dims: { at }, npus } = tables;
  const [kind, nodes, stride, own] = [at.kind(dim), at.nodes(dim), at.stride(dim), link - at.first_link(dim)];
  if (kind === FULLY_CONNECTED) {
    const rank = Math.floor(own / nodes);
    return [rank, rank + ((own % nodes) - indexIn(tables, dim, rank)) * stride];
  }
  const rank = own % npus.rows;
  if (kind === SWITCH || kind === ROUTED) return [rank, rank];
  const here = indexIn(tables, dim, rank);
  const there = (here + (own < npus.rows ? 1 : nodes - 1)) % nodes;
  return [rank, rank + (there - here) * stride];
}

/** The name of the switch of a dimension that a rank is connected to, after its first ranks. @param {Tables} tables @param {number} dim @param {number} rank */
function switchOf(tables, dim, rank) {
  const { dims: { at }, npus } = tables;
  if (npus.rows === at.nodes(dim)) return "switch";
  const first = rank - indexIn(tables, dim, rank) * at.stride(dim);
  return `switch of dim ${dim} (ranks ${first}, ${first + at.stride(dim)}, …)`;
}

/** Both ends of a link: ranks, a switch of a dimension, or what an infrastructure calls them. @param {Tables} tables @param {string[]} names @param {number} link */
export function endsOf(tables, names, link) {
  const dim = dimensionOf(tables, link);
  if (dim < 0) {
    const at = names[link].indexOf("->");
    return at < 0 ? [names[link], ""] : [names[link].slice(0, at), names[link].slice(at + 2)];
  }
  const [source, target] = ranksOf(tables, dim, link);
  if (tables.dims.at.kind(dim) !== SWITCH) return [`rank ${source}`, `rank ${target}`];
  const ends = [`rank ${source}`, switchOf(tables, dim, source)];
  return link - tables.dims.at.first_link(dim) < tables.npus.rows ? ends : ends.reverse();
}

/** The link from where a link leads to back to where it begins; -1 where there is none. @param {Tables} tables @param {number} link */
export function reverseLink(tables, link) {
  const dim = dimensionOf(tables, link);
  if (dim < 0) return -1;
  const { dims: { at }, npus } = tables;
  const [source, target] = ranksOf(tables, dim, link);
  if (at.kind(dim) === FULLY_CONNECTED) return at.first_link(dim) + target * at.nodes(dim) + indexIn(tables, dim, source);
  const ahead = link - at.first_link(dim) < npus.rows;
  return (ahead ? at.back_link(dim) : at.first_link(dim)) + (at.kind(dim) === SWITCH ? source : target);
}

/** How many messages wait for a link. @param {Tables} tables @param {number} link */
export function waitingFor({ links, messages }, link) {
  let count = 0;
  for (let row = links.at.head(link); row >= 0; row = messages.at.behind(row)) count += 1;
  return count;
}
