// @ts-check
// The network of a layer table's run, as changes have left it: counterpart of workload/astrasim1/network.py, and of
// `_network` of engine/layers/edits.py.

import { toEven } from "../numpy.js";
import { InputError } from "./errors.js";

/** @import { Edit, Live } from "./types" */
/**
 * A ring, a switch or a full mesh in each dimension, as widgets/live/layers.py describes it.
 * @typedef {{
 *   topologies: string[], units: number[], strides: number[], scales: number[], latency_ns: number[], bandwidth: number[],
 *   nic_ns: number[], router_ns: number[], hbm_ns: number[], hbm_bandwidth: number[], hbm_scale: number[],
 *   compat: boolean, where: string,
 * }} Network
 */

const GIB = 2 ** 30;
const LONGEST_PS = 2 ** 52;

/** The network as edits have left it. @param {Live} live @param {Edit[]} edits @returns {Network} */
export function networkAfter({ about: { network, dims } }, edits) {
  const [bandwidth, latency_ns] = [[...network.bandwidth], [...network.latency_ns]];
  // In the unit of the network's file: ASTRA-sim 1.0 takes gigabytes for gibibytes.
  const unit = network.compat ? GIB / 1e9 : 1;
  for (const { field, rows: [dim], number } of edits) {
    if (field === "rate_Bpns") bandwidth[dims[dim].physical] = number / unit;
    else if (field === "latency_ns") latency_ns[dims[dim].physical] = number;
  }
  return { ...network, bandwidth, latency_ns };
}

/** Bytes a second of a link of a dimension. @param {Network} network @param {number} physical the dimension's number in the network */
export const bandwidthOf = ({ bandwidth, compat }, physical) => bandwidth[physical] * (compat ? GIB : 1e9);

/** What gives the times of messages of a size, in ps. @param {Network} network @param {number} size @returns {(src: number, dst: number) => number} */
export function delays(network, size) {
  const { topologies, units, strides, scales, latency_ns, compat } = network;
  const dims = topologies.map((kind, dim) => {
    const rate = (compat ? (network.bandwidth[dim] * GIB) / 1_000_000_000 : network.bandwidth[dim]) * scales[dim];
    return {
      kind, units: units[dim], stride: strides[dim], latency: latency_ns[dim], serial: size / rate,
      nics: 2 * network.nic_ns[dim], router: kind === "Switch" ? network.router_ns[dim] : 0,
      least: network.hbm_scale[dim] * (network.hbm_ns[dim] + size / network.hbm_bandwidth[dim]),
    };
  });
  return (src, dst) => {
    let [taken, wire, least] = [0, 0, 0];
    for (const { kind, units: count, stride, latency, serial, nics, router, least: floor } of dims) {
      const distance = Math.abs((Math.floor(src / stride) % count) - (Math.floor(dst / stride) % count));
      if (!distance) continue;
      const hops = { Ring: Math.min(distance, count - distance), FullyConnected: 1 }[kind] ?? 2;
      if (compat) {
        // Of the dimensions that a message crosses only the last one counts.
        taken = Math.trunc(Math.trunc(Math.trunc(Math.trunc(hops * latency) + serial) + nics) + router);
        least = Math.max(0, floor);
      } else {
        taken += hops * latency + nics + router;
        wire = Math.max(wire, serial);
        least = Math.max(least, floor);
      }
    }
    const time = toEven(Math.max(taken + wire, least) * 1000);
    if (time > LONGEST_PS) {
      const hint = "correct link-latency, link-bandwidth or the size";
      throw new InputError(`a message of ${size} bytes takes over an hour`, { where: network.where, hint });
    }
    return time;
  };
}
