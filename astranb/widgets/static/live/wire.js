// @ts-check
// What a message takes on a wire: counterpart of gpu/wire.py and core/ticks.py.

import { LOAD, POLL, SIGNAL, STORE } from "./gpu_numbers.js";

/** @import { Tables } from "./types" */

const PACKET_BYTES = 4096; // data of one packet of RDMA
const [SWITCH_READS, SWITCH_WRITES] = [1, 2]; // bits of an operation's `in_switch`

/** How long bytes take on a wire, rounded up. @param {number} size @param {number} rate in bytes a second */
export function transferPs(size, rate) {
  const [work, each] = [BigInt(size) * 10n ** 12n, BigInt(rate)];
  return Number((work + each - 1n) / each);
}

/** Bytes of a message on a wire. @param {Tables} tables @param {number} request */
export function wireSize({ gpus, requests }, request) {
  const { kind, returning, bytes, gpu } = requests.at;
  const going = returning(request) === 0;
  const carriesData = [STORE, SIGNAL].includes(kind(request)) ? going : !going;
  return carriesData ? bytes(request) : gpus.at.header_bytes(gpu(request));
}

/** What a message occupies a link for at least, whatever its bytes take. @param {Tables} tables @param {number} request @param {number} link @param {number} size */
export function leastWirePs(tables, request, link, size) {
  const { clock, gpus, links, ops, requests } = tables;
  const gap_ps = links.at.gap_ps(link);
  if (gap_ps > 0) return slotPs(tables, request, gap_ps);
  const kind = requests.at.kind(request);
  if (!clock.at.detailed(0) || ![LOAD, STORE].includes(kind)) return 0;
  const share = gpus.at.multimem_percent(requests.at.gpu(request));
  const inSwitch = ops.at.in_switch(requests.at.op(request)) & (kind === LOAD ? SWITCH_READS : SWITCH_WRITES);
  return share < 100 && inSwitch ? transferPs(Math.floor((size * 100) / share), links.at.bandwidth_Bps(link)) : 0;
}

/** A message's share of the slots of a NIC. @param {Tables} tables @param {number} request @param {number} gap_ps */
function slotPs({ gpus, operands, ops, requests }, request, gap_ps) {
  const { kind, operand, gpu } = requests.at;
  if ([SIGNAL, POLL].includes(kind(request))) return gap_ps;
  const op = requests.at.op(request);
  const lines = ops.at.lines(op);
  const packed = operands.at.flag(operand(request)) >= 0; // packets with flags travel as whole lines
  const size = packed ? lines * gpus.at.line_bytes(gpu(request)) : (lines - 1) * ops.at.payload(op) + ops.at.last_bytes(op);
  return Math.ceil((gap_ps * Math.ceil(size / PACKET_BYTES)) / lines);
}
