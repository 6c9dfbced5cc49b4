"""Parts of a picture of a system: boxes, frames around them, bundles of links between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .blocks import WIDTH
from .collapse import Detail, Units, detail_of

__all__ = ["Box", "Frame", "Layout"]


@dataclass(frozen=True)
class Box:
    """One node, or what represents several; ``x`` and ``y`` are its centre.

    Attributes
    ----------
    node : int
        The first node in it.
    name : str
        Path of the node or instance, to be inspected.
    label, kind : str
        What is written, and what it is: a kind of node, ``"instance"`` or ``"tier"``.
    rank, last_rank : int
        First and last rank in it; -1: no GPU.
    count : int
        GPUs in it, of a tier its instances; 1 for a node.
    """

    node: int
    name: str
    label: str
    kind: str
    x: float
    y: float
    width: float
    height: float
    rank: int = -1
    last_rank: int = -1
    count: int = 1

    @property
    def rail(self) -> bool:
        """Whether it is a switch drawn as a rail: as wide as the boxes that it joins, with vertical links."""
        return self.width > WIDTH and self.kind != "tier"


@dataclass(frozen=True)
class Frame:
    """An opened instance: a line around its boxes, from corner ``x``, ``y``."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Boxes and the bundles of parallel lanes between them.

    Attributes
    ----------
    boxes : tuple of Box
    bundles : tuple of (int, int, tuple of int)
        Place of the box at each end, and the lanes from the first to the second.
    width, height : float
    hidden : int
        Nodes that carry none of the program's lines and are not drawn.
    frames : tuple of Frame
    inside : tuple of tuple of int
        For each box the links both of whose ends are in it.
    bent : tuple of str
        For each bundle ``"x"`` or ``"y"`` where it leaves the picture at one edge of a torus
        and comes in at the other, else empty.
    ports : tuple of float or None
        For each bundle that ends at a rail where it leaves the other box: how far from its centre,
        as a fraction of its width.
    shapes : tuple of str
        What was recognised, as ``"4 x 4 torus"``.
    detail : Detail
        How much is drawn.
    tiles : tuple of tuple of str
        Of each box that is a tier, the names of what it holds.
    focus : str
        The instance that alone is drawn; empty: all.
    units : Units
        All that might be drawn as one box.
    """

    boxes: tuple[Box, ...]
    bundles: tuple[tuple[int, int, tuple[int, ...]], ...]
    width: float
    height: float
    hidden: int
    frames: tuple[Frame, ...] = ()
    inside: tuple[tuple[int, ...], ...] = ()
    bent: tuple[str, ...] = ()
    ports: tuple[float | None, ...] = ()
    shapes: tuple[str, ...] = ()
    detail: Detail = field(default_factory=lambda: detail_of(1))
    tiles: tuple[tuple[str, ...], ...] = ()
    focus: str = ""
    units: Units = field(compare=False, repr=False, kw_only=True)
