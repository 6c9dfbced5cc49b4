"""Traces that differ only in a few numbers: encoded once, with holes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from astranb.core.errors import InputError

from .message import encode_attribute, encode_metadata, encode_node, framed, varint
from .schema import VERSION, Attribute, Node

__all__ = ["Hole", "Template"]


class Hole(NamedTuple):
    """An attribute value that differs between traces.

    Attributes
    ----------
    key : str
        Keyword of :meth:`Template.filled`.
    width : int
        Bytes of the encoded value, the same in all traces.
    is_text : bool
        Whether the value is ASCII text instead of a whole number.
    """

    key: str
    width: int
    is_text: bool = False


class Template:
    """A trace with holes.

    Parameters
    ----------
    nodes : iterable of (Node, dict of str to Hole)
        Each node with the attributes to be filled in.
    version : str
        Schema version to write.

    Examples
    --------
    >>> from astranb.chakra import Node, NodeType, Trace
    >>> made = Template([(Node(0, "send", NodeType.COMM_SEND), {"comm_dst": Hole("peer", 1)})])
    >>> [int(Trace(made.filled({"peer": rank})).comm_dst[0]) for rank in (3, 4)]
    [3, 4]
    """

    def __init__(self, nodes: Iterable[tuple[Node, Mapping[str, Hole]]], *, version: str = VERSION) -> None:
        parts = [framed(encode_metadata(version, {}))]
        self._holes: dict[str, Hole] = {}
        places: dict[str, list[int]] = {}
        begun = len(parts[0])
        for node, holes in nodes:
            encoded_holes = []
            for name, hole in holes.items():
                filler: str | int = "0" * hole.width if hole.is_text else 1 << 7 * (hole.width - 1)
                encoded_holes.append(encode_attribute(10, name, Attribute(filler, _KIND[hole.is_text])))
                if self._holes.setdefault(hole.key, hole) != hole:
                    raise InputError(f"hole {hole.key!r} has two widths", where=f"node {node.id}")
            message = framed(b"".join([encode_node(node), *encoded_holes]))
            end = begun + len(message) - sum(map(len, encoded_holes))
            for hole, encoded in zip(holes.values(), encoded_holes, strict=True):
                end += len(encoded)
                places.setdefault(hole.key, []).append(end - hole.width)
            begun += len(message)
            parts.append(message)
        self._bytes = np.frombuffer(b"".join(parts), np.uint8)
        self._places = {key: np.array(where, np.int64) for key, where in places.items()}

    def filled(self, values: Mapping[str, int | str]) -> bytes:
        """Fill the holes by their keys; return the bytes of a trace file.

        Raises
        ------
        InputError
            A value is wider or narrower than its hole.
        """
        out = self._bytes.copy()
        for key, where in self._places.items():
            value = values[key]
            digits = value.encode("ascii") if isinstance(value, str) else varint(value)
            if len(digits) != self._holes[key].width:
                raise InputError(f"{value!r} does not fit into {self._holes[key].width} bytes", where=key)
            for place, digit in enumerate(digits):
                out[where + place] = digit
        return out.tobytes()


_KIND = {True: "string_val", False: "int32_val"}
