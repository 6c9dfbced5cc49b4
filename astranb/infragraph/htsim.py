"""The ``.topo`` file of htsim: a Clos network of two or three tiers by its switches' radix.

Tier 0 are the switches that hosts are connected to. All switches of a tier are alike, each reaches every
switch above it in its pod by a bundle of links, and switch *p* of each pod reaches the core switches *p*,
*p + switches of a pod*, and so on (csg-htsim, ``datacenter/fat_tree_topology.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.plural import plural

from .flat import FlatLink, FlatNetwork

__all__ = ["htsim_hosts", "read_htsim", "write_htsim"]

_MOST: Final = 1 << 20
_HEADER: Final = ("nodes", "tiers", "podsize")
_KEYS: Final = {
    "downlink_speed_gbps": 0, "radix_up": 0, "radix_down": 0, "oversubscribed": 1, "bundle": 1,
    "switch_latency_ns": 0, "downlink_latency_ns": 0,
}  # fmt: skip
"""Keys of a tier with htsim's defaults; 0: there is none, or no latency."""
_IGNORED: Final = ("queue_up", "queue_down")
_HINT: Final = "htsim has Clos networks of two or three tiers with switches that are alike: clos:servers=16"


class _Tier(NamedTuple):
    """Switches of a tier, and the links down from it."""

    speed_Bps: int  # noqa: N815 - unit in the name
    latency_ps: int
    forward_ps: int
    down: int
    up: int
    bundle: int
    oversubscribed: int


def read_htsim(text: str, file: str) -> FlatNetwork:
    """Read a ``.topo`` file; hosts are GPUs.

    Parameters
    ----------
    text : str
    file : str
        Its name, for errors.

    Raises
    ------
    InputError
        It is not such a file, or its numbers do not fit together; with the line.
    """
    header, given, at = _read_lines(text, file)
    for key in _HEADER:
        if header.get(key, 0) < 1:
            raise InputError(f"{key.capitalize()} is missing", where=file, hint=f"write {key.capitalize()} 2")
    count = header["tiers"]
    if count not in (2, 3):
        raise InputError(f"{count} tiers", where=file, hint="htsim has two or three")
    if len(given) > count:
        what = f"Tiers is {count}, but there is a Tier {max(given)}"
        raise InputError(what, where=f"{file}:{at[max(given)]}", hint="correct Tiers, or leave it out")
    tiers = []
    for tier in range(count):
        where = f"{file}:{at[tier]}" if tier in at else file
        if tier not in given:
            raise InputError(f"Tier {tier} is missing", where=where, hint=f"write a line 'Tier {tier}'")
        row = given[tier]
        needed = ["downlink_speed_gbps", "downlink_latency_ns", "radix_down"]
        needed += ["radix_up"] if tier < count - 1 else []
        for key in needed:
            if row[key] < 1:
                name = _spelled(key)
                raise InputError(f"Tier {tier} has no {name}", where=where, hint=f"write {name} and a number")
        speed_Bps = row["downlink_speed_gbps"] * 125_000_000  # noqa: N806 - unit in the name
        times_ps = row["downlink_latency_ns"] * 1000, row["switch_latency_ns"] * 1000
        counts = row["radix_down"], row["radix_up"], row["bundle"], row["oversubscribed"]
        tiers.append(_Tier(speed_Bps, *times_ps, *counts))
    return _built(tiers, header["nodes"], header["podsize"], file)


def _read_lines(text: str, file: str) -> tuple[dict[str, int], dict[int, dict[str, int]], dict[int, int]]:
    """Return the header, the keys of each tier with defaults, and the lines on which tiers begin."""
    header: dict[str, int] = {}
    tiers: dict[int, dict[str, int]] = {}
    at: dict[int, int] = {}
    stated: set[tuple[int, str]] = set()
    tier = -1
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, where = words[0].lower(), f"{file}:{number}"
        if len(words) < 2 or not (words[1].isascii() and words[1].isdecimal()) or len(words[1]) > 9:
            what = f"{words[0][:40]} has no whole number"
            raise InputError(what, where=where, hint=f"write {words[0][:40]} 8")
        value = int(words[1])
        if value > _MOST:
            raise InputError(
                f"{words[0][:40]} {value:,} is out of range", where=where, hint=f"up to {_MOST:,}"
            )
        if key == "tier":
            tier = value
            if tier > 2:
                raise InputError(f"Tier {tier}", where=where, hint="tiers are 0, 1 and 2")
            tiers.setdefault(tier, dict(_KEYS))
            at.setdefault(tier, number)
        elif tier < 0 and key in _HEADER:
            header[key] = value
        elif tier >= 0 and key in _KEYS:
            if (tier, key) in stated:
                raise InputError(f"duplicate {words[0]} of tier {tier}", where=where, hint="keep one")
            stated.add((tier, key))
            tiers[tier][key] = value
        elif key not in _IGNORED:
            known = [_spelled(one) for one in (_HEADER if tier < 0 else _KEYS)]
            raise InputError(f"unknown key {words[0][:40]!r}", where=where, hint=near(words[0], known))
    return header, tiers, at


def _spelled(key: str) -> str:
    return "_".join(part.capitalize() if part not in ("speed", "ns") else part for part in key.split("_"))


def _built(tiers: Sequence[_Tier], nodes: int, podsize: int, file: str) -> FlatNetwork:
    """Connect hosts and switches as htsim does."""
    tor, agg, core = tiers[0], tiers[1], tiers[2] if len(tiers) == 3 else None

    def fits(whole: int, part: int, what: str) -> int:
        if part < 1 or whole % part:
            raise InputError(what, where=file, hint="htsim refuses such a file; correct its numbers")
        return whole // part

    pods = fits(nodes, podsize, f"{nodes:,} nodes are not a multiple of the pod size {podsize:,}")
    if core is None and pods > 1:
        what = f"Podsize {podsize:,} of {nodes:,} nodes, but two tiers are one pod"
        raise InputError(what, where=file, hint=f"write Podsize {nodes}")
    if tor.bundle != 1:
        raise InputError(
            f"Bundle of tier 0 must be 1, got {tor.bundle}", where=file, hint="hosts have one link each"
        )
    tors = fits(
        podsize, tor.down, f"a pod of {podsize:,} is not a multiple of Radix_Down {tor.down} of tier 0"
    )
    aggs = fits(
        tor.up, agg.bundle, f"Radix_Up {tor.up} of tier 0 is no multiple of Bundle {agg.bundle} of tier 1"
    )
    _check_uplinks(tor, agg, nodes, pods * tors * tor.up, 0, file)
    reached = tors * (pods if core is None else 1)
    if agg.down != reached * agg.bundle:
        what = f"Radix_Down {agg.down} of tier 1, but {reached} switches below with Bundle {agg.bundle}"
        raise InputError(what, where=file, hint=f"write Radix_Down {reached * agg.bundle}")
    cores, planes = 0, 0
    if core is not None:
        planes = fits(
            agg.up, core.bundle, f"Radix_Up {agg.up} of tier 1 is no multiple of Bundle {core.bundle}"
        )
        _check_uplinks(agg, core, pods * tors * tor.up, pods * aggs * agg.up, 1, file)
        cores = aggs * planes
        if core.down != pods * core.bundle:
            what = f"Radix_Down {core.down} of tier 2, but {pods} pods with Bundle {core.bundle}"
            raise InputError(what, where=file, hint=f"write Radix_Down {pods * core.bundle}")
    all_tors, all_aggs = tors * pods, aggs * (1 if core is None else pods)
    if all_tors * aggs + all_aggs * planes > _MOST:
        raise InputError("the network has too many links", where=file, hint=f"up to {_MOST:,}")
    first_agg, first_core = nodes + all_tors, nodes + all_tors + all_aggs
    links = [FlatLink(h, nodes + h // tor.down, tor.speed_Bps, tor.latency_ps) for h in range(nodes)]
    for switch in range(all_tors):
        base = 0 if core is None else switch // tors * aggs
        links += [
            FlatLink(nodes + switch, first_agg + base + k, agg.speed_Bps, agg.latency_ps)
            for _ in range(agg.bundle)
            for k in range(aggs)
        ]
    if core is not None:
        links += [
            FlatLink(first_agg + a, first_core + a % aggs + aggs * k, core.speed_Bps, core.latency_ps)
            for a in range(all_aggs)
            for _ in range(core.bundle)
            for k in range(planes)
        ]
    names = (
        *(str(n) for n in range(nodes)),
        *(f"tor {n}" for n in range(all_tors)),
        *(f"aggregation {n}" for n in range(all_aggs)),
        *(f"core {n}" for n in range(cores)),
    )
    counts = zip((all_tors, all_aggs, cores), tiers, strict=False)
    forward = [ps for count, tier in counts for ps in [tier.forward_ps] * count]
    return FlatNetwork(Path(file).stem, names, nodes, (0,) * nodes + tuple(forward), tuple(links))


def _check_uplinks(lower: _Tier, upper: _Tier, down: int, up: int, tier: int, file: str) -> None:
    """Check that the links up from a tier carry what those down do, divided by the oversubscription."""
    if up * upper.speed_Bps * lower.oversubscribed != down * lower.speed_Bps:
        what = (
            f"{up:,} links up from tier {tier} with Oversubscribed {lower.oversubscribed} do not carry what "
            f"{down:,} links down do"
        )
        raise InputError(what, where=file, hint="correct Radix_Up or Oversubscribed: htsim refuses the file")


def write_htsim(network: FlatNetwork) -> tuple[str, list[str]]:
    """Return a ``.topo`` file, and what it does not express; hosts are numbered as `htsim_hosts` says.

    Raises
    ------
    InputError
        The network is none of htsim's.
    """
    clos = _Clos(network)
    header = [f"Nodes {network.hosts}", f"Tiers {len(clos.tiers)}", f"Podsize {clos.podsize}"]
    for number, tier in enumerate(clos.tiers):
        header += ["", f"Tier {number}", f"Downlink_speed_Gbps {tier.speed_Bps * 8 // 10**9}"]
        header.append(f"Radix_Down {tier.down}")
        header += [f"Radix_Up {tier.up}"] if number < len(clos.tiers) - 1 else []
        header.append(f"Downlink_Latency_ns {max(1, (tier.latency_ps + 500) // 1000)}")
        header.append(f"Switch_Latency_ns {(tier.forward_ps + 500) // 1000}")
        header += [f"Bundle {tier.bundle}"] if tier.bundle > 1 else []
        header += [f"Oversubscribed {tier.oversubscribed}"] if tier.oversubscribed > 1 else []
    return "\n".join(header) + "\n", [*network.remarks, *clos.remarks]


def htsim_hosts(network: FlatNetwork) -> list[int]:
    """Return the number that htsim gives each rank: it counts hosts by their switches.

    Raises
    ------
    InputError
        The network is none of htsim's.
    """
    numbers = [0] * network.hosts
    for number, rank in enumerate(_Clos(network).order):
        numbers[rank] = number
    return numbers


class _Clos:
    """The tiers of a network that htsim can build."""

    def __init__(self, network: FlatNetwork) -> None:
        self.network = network
        self.remarks: list[str] = []
        self._near: dict[int, dict[int, list[FlatLink]]] = {n: {} for n in range(len(network.names))}
        for link in network.links:
            self._near[link.a].setdefault(link.b, []).append(link)
            self._near[link.b].setdefault(link.a, []).append(link)
        hosts = range(network.hosts)
        for host in hosts:
            ends = self._near[host]
            if len(ends) != 1 or min(ends) < network.hosts:
                self._refuse(f"GPU {host} has links to {len(ends)} nodes, and htsim's hosts to one switch")
        self._tors = list(dict.fromkeys(next(iter(self._near[h])) for h in hosts))
        self._aggs = self._above(self._tors, set(self._tors))
        self._cores = self._above(self._aggs, {*self._tors, *self._aggs})
        known = {*self._tors, *self._aggs, *self._cores}
        if len(known) != network.switches:
            self._refuse(f"{network.switches - len(known)} switches are in no tier of three")
        for tier in (self._tors, self._aggs, self._cores):
            if any(self._near[switch].keys() & set(tier) for switch in tier):
                self._refuse("switches of one tier have links to each other")
        self._pods = self._find_pods()
        tors = [tor for pod in self._pods for tor in pod]
        self.order = [h for tor in tors for h in sorted(self._near[tor]) if h < network.hosts]
        self.podsize = network.hosts // len(self._pods)
        self.tiers = self._tiers()
        if self.order != list(hosts):
            shown = ", ".join(f"rank {r} is node {n}" for n, r in enumerate(self.order) if n != r)
            shown = shown if len(shown) < 60 else f"{shown[:60].rpartition(',')[0]}, …"
            self.remarks.append(f"htsim numbers hosts by their switches: {shown}")

    def _refuse(self, what: str) -> None:
        raise InputError(f"not a network of htsim's: {what}", where=self.network.title, hint=_HINT)

    def _above(self, switches: Sequence[int], known: set[int]) -> list[int]:
        found = dict.fromkeys(n for s in switches for n in self._near[s] if n >= self.network.hosts)
        return [node for node in sorted(found) if node not in known]

    def _find_pods(self) -> list[list[int]]:
        """Return the switches of tier 0 that reach the same ones of tier 1; one pod for all in two tiers."""
        if not self._cores:
            return [self._tors]
        pods: dict[frozenset[int], list[int]] = {}
        for tor in self._tors:
            pods.setdefault(frozenset(self._near[tor].keys() & set(self._aggs)), []).append(tor)
        if sum(map(len, pods)) != len(self._aggs):
            self._refuse("switches of tier 1 are in several pods")
        if len({len(pod) for pod in pods.values()}) > 1:
            self._refuse("pods differ")
        planes: dict[frozenset[int], int] = {}
        for agg in self._aggs:
            cores = frozenset(self._near[agg].keys() & set(self._cores))
            planes[cores] = planes.get(cores, 0) + 1
        if sum(map(len, planes)) != len(self._cores) or set(planes.values()) != {len(pods)}:
            self._refuse("switches of tier 1 do not reach core switches of their own in each pod")
        return list(pods.values())

    def _tiers(self) -> list[_Tier]:
        network = self.network
        down = self._alike(
            [sum(n < network.hosts for n in self._near[t]) for t in self._tors], "hosts of switches"
        )
        speed, latency, _ = self._links(range(network.hosts), 0, "hosts")
        tors = len(self._pods[0])
        if not self._aggs:
            self.remarks.append("htsim has two tiers at least: a second one, which carries nothing, is added")
            tier = _Tier(speed, latency, self._forward(self._tors), down, down, 1, 1)
            return [tier, tier._replace(down=1, up=0)]
        up_speed, up_latency, bundle = self._links(self._tors, 1, "tier 0")
        aggs = len(self._aggs) // len(self._pods)
        lower = _Tier(speed, latency, self._forward(self._tors), down, aggs * bundle, 1, 1)
        upper = _Tier(up_speed, up_latency, self._forward(self._aggs), tors * bundle, 0, bundle, 1)
        lower = lower._replace(oversubscribed=self._ratio(down * speed, lower.up * up_speed, 0))
        if not self._cores:
            return [lower, upper]
        top_speed, top_latency, top_bundle = self._links(self._aggs, 2, "tier 1")
        up = len(self._cores) // aggs * top_bundle
        top = _Tier(
            top_speed, top_latency, self._forward(self._cores), len(self._pods) * top_bundle, 0, top_bundle, 1
        )
        middle = upper._replace(up=up, oversubscribed=self._ratio(upper.down * up_speed, up * top_speed, 1))
        return [lower, middle, top]

    def _ratio(self, down: int, up: int, tier: int) -> int:
        if up < 1 or down % up:
            share = down / up if up else 0
            self._refuse(f"tier {tier} is oversubscribed {share:.3g} times, which is no whole number")
        return down // up

    def _alike(self, values: Sequence[int], what: str) -> int:
        if len(set(values)) != 1:
            self._refuse(f"{what} differ: {min(values):,} and {max(values):,}")
        return values[0]

    def _links(self, nodes: Sequence[int], tier: int, what: str) -> tuple[int, int, int]:
        """Return bandwidth, latency and number of the links from nodes to each switch of a tier above."""
        above = set((self._tors, self._aggs, self._cores)[tier])
        groups = [links for n in nodes for other, links in self._near[n].items() if other in above]
        apart = any(len(self._near[n].keys() & above) != len(above) for n in nodes)
        if tier == 1 and not self._cores and apart:
            self._refuse("a switch of tier 0 does not reach all of tier 1")
        rates = [sum(link.bandwidth_Bps for link in links) for links in groups]
        bundle = self._alike([sum(link.lanes for link in links) for links in groups], f"links up from {what}")
        rate = self._alike(rates, f"bandwidths of links up from {what}")
        if tier == 0 or rate % bundle:
            if bundle > 1:
                self.remarks.append(f"{bundle} links of each of {what}: one of their bandwidth")
            bundle = 1
        rate //= bundle
        if rate * 8 % 10**9:
            self._refuse(f"{rate * 8 / 1e9:.6g} Gbps is no whole number of Gbps")
        latency = max(link.latency_ps for links in groups for link in links)
        other = sum(link.latency_ps != latency for links in groups for link in links)
        if other:
            self.remarks.append(
                f"{plural(other, 'link')} up from {what} with a smaller latency: the largest one"
            )
        if latency % 1000 or latency == 0:
            ns = max(1, (latency + 500) // 1000)
            self.remarks.append(
                f"the latency of links up from {what} is rounded from {latency:,} ps to {ns} ns"
            )
        return rate, latency, bundle

    def _forward(self, switches: Sequence[int]) -> int:
        values = [self.network.forward_ps[s] for s in switches]
        if len(set(values)) > 1:
            self.remarks.append(f"latencies of {len(switches):,} switches of a tier differ: the largest one")
        return max(values)
