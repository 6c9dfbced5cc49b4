"""A plan: where every unit of every component comes to stand.

A plan knows the number of every node and the size of every edge declaration, but has laid
nothing out yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from astranb.core.document import Place
from astranb.core.errors import near

from ._endpoints import Selection, pick

__all__ = ["Component", "Device", "Instance", "Join", "LinkRow", "NodeKind", "Plan"]


class NodeKind(IntEnum):
    """What a node is, as ``Graph.kind`` holds it."""

    CPU = 0
    XPU = 1
    NIC = 2
    MEMORY = 3
    PORT = 4
    SWITCH = 5
    CUSTOM = 6


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a device: ``count`` units, each one node or one nested device.

    ``type`` is what the upstream package calls the node's type: the choice, or the custom
    type (``"None"`` for a custom component without one).
    """

    name: str
    description: str
    count: int
    type: str
    kind: NodeKind | None
    row: int


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link name in its scope: the device that declares it, or the infrastructure (``""``)."""

    name: str
    scope: str
    description: str
    physical: dict[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Join:
    """One edge declaration, resolved: two selections, how they pair, and which link."""

    ep1: Selection
    ep2: Selection
    scheme: str
    link: int
    place: Place

    @property
    def size(self) -> int:
        """How many pairs it makes at most."""
        if self.scheme == "many2many":
            return self.ep1.size * self.ep2.size
        return min(self.ep1.size, self.ep2.size) if self.scheme == "one2one" else self.ep1.size


@dataclass(slots=True)
class Device:
    """A device: components in document order, with the first node and nodes per unit of each."""

    name: str
    description: str
    index: int
    components: dict[str, Component] = field(default_factory=dict)
    links: dict[str, int] = field(default_factory=dict)
    joins: list[Join] = field(default_factory=list)
    base: dict[str, int] = field(default_factory=dict)
    stride: dict[str, int] = field(default_factory=dict)
    size: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """``count`` copies of a device; copy k starts at node ``base + k * device.size``."""

    name: str
    device: Device
    count: int
    base: int
    first_copy: int


@dataclass(slots=True)
class Plan:
    """Everything an expansion needs.

    Attributes
    ----------
    devices : dict of str to Device
    instances : dict of str to Instance
    links : list of LinkRow
        Every link of every scope; edges refer to rows.
    components : list of (Device, Component)
        Every component of every device; nodes refer to rows.
    joins : list of Join
        Edges between instances.
    nodes : int
    warnings : list of str
        What is allowed but was perhaps not meant.
    """

    devices: dict[str, Device] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    links: list[LinkRow] = field(default_factory=list)
    components: list[tuple[Device, Component]] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    nodes: int = 0
    warnings: list[str] = field(default_factory=list)

    def instance(self, name: str) -> Instance:
        """Find an instance.

        Raises
        ------
        ValueError
            There is none of that name.
        """
        if name not in self.instances:
            raise ValueError(f"there is no instance {name!r}; {near(name, self.instances)}")
        return self.instances[name]

    def descend(
        self, device: Device, path: list[tuple[str, str | None]]
    ) -> tuple[Selection, Device | Component]:
        """Select nodes by a path of (name, slice) inside a device.

        Returns
        -------
        selection : Selection
            First nodes of the selected units, counted from the device's first node.
        reached : Device or Component
            The nested device, or the component, whose units these are.

        Raises
        ------
        ValueError
            With a plain reason.
        """
        levels = []
        whole = False
        for step, (name, inside) in enumerate(path):
            component = device.components.get(name)
            if component is None:
                raise ValueError(
                    f"device {device.name!r} has no component {name!r}; {near(name, device.components)}"
                )
            units = pick(inside, component.count)
            levels.append((device.base[name], device.stride[name], units))
            whole = inside is None
            if component.kind is not None:
                if step + 1 < len(path):
                    raise ValueError(
                        f"component {name!r} of device {device.name!r} is no device: nothing is inside it"
                    )
                return Selection(tuple(levels), whole), component
            device = self.devices[name]
        return Selection(tuple(levels), whole), device
