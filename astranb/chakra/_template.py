"""Traces that differ only in a few numbers: encoded once, with holes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from astranb.core.errors import InputError

from ._message import encode_attribute, encode_metadata, encode_node, framed, varint
from ._schema import VERSION, Attribute, Node

__all__ = ["Hole", "Template"]


class Hole(NamedTuple):
    """The value of an attribute that is not the same in all traces.

    Attributes
    ----------
    key : str
        Keyword of :meth:`Template.filled`.
    width : int
        Bytes of its value, the same in all of these traces.
    is_text : bool
        Whether it is a text, of so many ASCII signs, instead of a whole number.
    """

    key: str
    width: int
    is_text: bool = False


class Template:
    """A trace with holes.

    Parameters
    ----------
    nodes : iterable of (Node, dict of str to Hole)
        Each with the attributes that are to be filled in.
    version : str
        Of the schema.

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
            pieces = []
            for name, hole in holes.items():
                stands: str | int = "0" * hole.width if hole.is_text else 1 << 7 * (hole.width - 1)
                pieces.append(encode_attribute(10, name, Attribute(stands, _KIND[hole.is_text])))
                if self._holes.setdefault(hole.key, hole) != hole:
                    raise InputError(f"hole {hole.key!r} has two widths", where=f"node {node.id}")
            message = framed(b"".join([encode_node(node), *pieces]))
            end = begun + len(message) - sum(map(len, pieces))
            for hole, piece in zip(holes.values(), pieces, strict=True):
                end += len(piece)
                places.setdefault(hole.key, []).append(end - hole.width)
            begun += len(message)
            parts.append(message)
        self._bytes = np.frombuffer(b"".join(parts), np.uint8)
        self._places = {key: np.array(where, np.int64) for key, where in places.items()}

    def filled(self, values: Mapping[str, int | str]) -> bytes:
        """Fill the holes in.

        Parameters
        ----------
        values : mapping of str to int or str
            Of each hole's key.

        Returns
        -------
        bytes
            Of a trace, as a file holds it.

        Raises
        ------
        InputError
            A value takes more or less room than its hole.
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
