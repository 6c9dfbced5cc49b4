"""Whether collectives can be done as the system says."""

from __future__ import annotations

import numpy as np

from astranb.core.errors import InputError
from astranb.core.jit import Records
from astranb.net._astrasim2 import SWITCH
from astranb.workload.astrasim2._infra import InfraNetwork
from astranb.workload.astrasim2._inputs import Network, System
from astranb.workload.astrasim2._operations import COLLECTIVE_NAMES

from . import _tables as t

__all__ = ["check_algorithms", "check_switches", "find_roots"]


def find_roots(table: Records, groups: Records, members: Records, npus: int) -> None:
    """Find the root of each collective that has one: the first of its group where none is named."""
    rooted = (table.kind == t.COLLECTIVE) & (table.collective >= t.BROADCAST) & (table.custom < 0)
    for group, peer in {(int(o.group), int(o.peer)) for o in table[rooted]}:
        ranks = range(npus)
        if group >= 0:
            ranks = members.value[groups[group].first :][: groups[group].count].tolist()
        if peer >= 0 and peer not in ranks:
            raise InputError(
                f"the root of a collective is rank {peer}, which has no part in it",
                where="broadcast, reduce, scatter or gather",
                hint="name a rank of its group (comm_src; of a reduce or gather comm_dst)",
            )
        if peer < 0:
            table.peer[rooted & (table.group == group) & (table.peer == peer)] = ranks[0]


def check_algorithms(
    table: Records, implementations: Records, system: System, count: int, *, compat: bool
) -> None:
    """See to it that every collective has an algorithm that can do it."""
    chosen = implementations.reshape(t.COLLECTIVES, count)
    used = table[(table.kind == t.COLLECTIVE) & (table.custom < 0)]
    names = {number: name.replace("_", "-") for name, number in COLLECTIVE_NAMES.items()}
    for collective in sorted(set(used.collective.tolist())):
        rows = chosen[collective]
        key = f"{names[collective]}-implementation"
        if rows[0].algorithm < 0:
            raise InputError(f"{key} is missing", where=system.where, hint="name an algorithm")
        for row in rows:
            if row.algorithm == t.HALVING and collective == t.ALL_TO_ALL:
                raise InputError(f"{key} cannot be halvingDoubling", where=system.where, hint="use ring")
            if collective >= t.BROADCAST:
                continue
            odd = row.nodes & (row.nodes - 1)
            what = ""
            if row.algorithm == t.TREE and (collective != t.ALL_REDUCE or odd):
                what = f"doubleBinaryTree does an all-reduce of 2, 4, 8, … NPUs, not {names[collective]}"
            elif row.algorithm == t.HALVING and odd and not compat:  # the peer waits for ever
                what = f"halvingDoubling does an {names[collective]} of 2, 4, 8, … NPUs, not"
            if what:
                raise InputError(f"{what} of {row.nodes}", where=system.where, hint="use ring")


def check_switches(
    table: Records,
    implementations: Records,
    network: Network | InfraNetwork,
    system: System,
    *,
    compat: bool,
) -> None:
    """See to it that collectives in a switch have one."""
    chosen = implementations.reshape(t.COLLECTIVES, -1)
    used = table[(table.kind == t.COLLECTIVE) & (table.custom < 0)]
    for collective in sorted(set(used.collective.tolist())):
        for dim in np.flatnonzero(chosen[collective].algorithm == t.IN_NETWORK).tolist():
            what = None
            if compat:
                what = "ASTRA-sim 2.0 has no inNetwork"
            elif not isinstance(network, Network) or network.shapes[dim] != SWITCH:
                what = f"inNetwork in dimension {dim}, which is no Switch"
            elif collective == t.ALL_TO_ALL:
                what = "an all-to-all has nothing to do in a switch (inNetwork)"
            elif collective in (t.SCATTER, t.GATHER):
                what = "a scatter and a gather have nothing to do in a switch (inNetwork)"
            if what:
                raise InputError(what, where=system.where, hint="use ring")
