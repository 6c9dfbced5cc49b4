"""Names of the links that messages take over an infrastructure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from astranb.net import Fabric

__all__ = ["LinkNames"]


class LinkNames(Sequence[str]):
    """Names of links, each worked out when it is asked for.

    A link of messages stands for lanes: of one link (``A->B``), or of several that messages are spread over
    (``A->host.0.nvsw.*``). Its name finds exactly these, by cache lines too. Where no name does, as of a
    link that has lost a lane, it is called by its number.

    Parameters
    ----------
    fabric : Fabric
    lanes : sequence of sequence of int
        The lanes of each link.
    """

    def __init__(self, fabric: Fabric, lanes: Sequence[Sequence[int]]) -> None:
        self.fabric, self._lanes = fabric, lanes
        self._known: dict[int, str] = {}

    def __len__(self) -> int:
        """Number of links."""
        return len(self._lanes)

    @overload
    def __getitem__(self, link: int) -> str: ...
    @overload
    def __getitem__(self, link: slice) -> Sequence[str]: ...
    def __getitem__(self, link: int | slice) -> str | Sequence[str]:
        """Return the name of a link."""
        if isinstance(link, slice):
            return [self[one] for one in range(*link.indices(len(self)))]
        if link not in self._known:
            self._known[link] = self.fabric.exact(self._lanes[link]) or f"link[{link}]"
        return self._known[link]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the links."""
        return (self[link] for link in range(len(self)))

    def nodes(self, link: int) -> tuple[int, int]:
        """Return the nodes where the first lane of a link begins and ends."""
        source, target = self.fabric.ends
        first = self._lanes[link][0]
        return int(source[first]), int(target[first])

    def ends(self, link: int) -> tuple[str, str]:
        """Return short names of both ends of a link."""
        return self.fabric.short_ends(self._lanes[link])
