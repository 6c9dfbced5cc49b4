"""Statistics of traffic: who sends how much to whom and when, sizes of bursts, and incast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.errors import InputError

from .graph import MessageGraph

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TrafficStatistics", "statistics"]

_BINS: Final = 100
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, eq=False)
class TrafficStatistics:
    """Statistics of the messages of a graph, by the times at which they began in the recorded run.

    A message counts at its start: how long it takes is the network's matter.

    Parameters
    ----------
    graph : MessageGraph
    bin_ps : int
        The width of a bin of time.
    """

    graph: MessageGraph
    bin_ps: int

    @cached_property
    def _sends(self) -> np.ndarray:
        return np.asarray(self.graph.nodes[self.graph.sends])

    @cached_property
    def bins(self) -> int:
        """Bins of time, from 0 to the last message."""
        return int(self._sends["start_ps"].max(initial=0)) // self.bin_ps + 1

    def matrix(self, since_ps: int = 0, until_ps: int | None = None) -> np.ndarray:
        """Return the bytes from each rank (row) to each rank (column) that begin in an interval.

        Parameters
        ----------
        since_ps, until_ps : int
            The end is not included; None: all.

        Returns
        -------
        ndarray of int64, shape (ranks, ranks)
        """
        sends, ranks = self._sends, self.graph.ranks
        start = sends["start_ps"]
        some = sends[(start >= since_ps) & (True if until_ps is None else start < until_ps)]
        found = np.zeros(ranks * ranks, np.int64)
        np.add.at(found, some["rank"] * ranks + some["peer"], some["bytes"])
        return found.reshape(ranks, ranks)

    def over_time(self) -> np.ndarray:
        """Return the bytes that each rank begins to send in each bin: int64, shape (ranks, bins)."""
        sends = self._sends
        found = np.zeros(self.graph.ranks * self.bins, np.int64)
        np.add.at(found, sends["rank"] * self.bins + sends["start_ps"] // self.bin_ps, sends["bytes"])
        return found.reshape(self.graph.ranks, self.bins)

    def sizes(self) -> pd.DataFrame:
        """Return the sizes of messages, each once: ``bytes``, ``messages`` and the ``share`` of all bytes."""
        import pandas as pd

        sizes, counts = np.unique(self._sends["bytes"], return_counts=True)
        whole = max(1, self.graph.bytes)
        return pd.DataFrame({"bytes": sizes, "messages": counts, "share": sizes * counts / whole})

    def gaps_ps(self) -> np.ndarray:
        """Return the idle times between starts of messages of a rank, of all ranks: int64, ascending."""
        sends = self._sends
        order = np.lexsort([sends["start_ps"], sends["rank"]])
        rank, start = sends["rank"][order], sends["start_ps"][order]
        same = rank[1:] == rank[:-1]
        return np.sort((start[1:] - start[:-1])[same])

    def incast(self) -> np.ndarray:
        """Return for each rank the most ranks that begin to send to it in one bin: int64, shape (ranks,)."""
        return np.asarray(self.incast_over_time().max(axis=1))

    def incast_over_time(self) -> np.ndarray:
        """Return how many ranks begin to send to each rank in each bin: int64, shape (ranks, bins)."""
        sends = self._sends
        ranks = self.graph.ranks
        slot = sends["peer"] * self.bins + sends["start_ps"] // self.bin_ps
        pairs = np.unique(slot * ranks + sends["rank"])
        slots, senders = np.unique(pairs // ranks, return_counts=True)
        found = np.zeros(ranks * self.bins, np.int64)
        found[slots] = senders
        return found.reshape(ranks, self.bins)

    def burstiness(self) -> dict[str, float]:
        """Describe how unevenly bytes are spread over bins.

        Returns
        -------
        dict
            ``peak_to_mean`` of the bytes of all ranks in a bin; ``dispersion``: their variance over their
            mean, in bytes (the index of dispersion of Cox and Lewis, The Statistical Analysis of Series of
            Events, 1966); ``idle_bins``: the share of bins without a message.
        """
        whole = self.over_time().sum(axis=0).astype(float)
        mean = whole.mean() or 1.0
        return {
            "peak_to_mean": float(whole.max() / mean),
            "dispersion": float(whole.var() / mean),
            "idle_bins": float((whole == 0).mean()),
        }

    def by_operation(self) -> pd.DataFrame:
        """Return messages and bytes of each collective and algorithm, the most bytes first."""
        import pandas as pd

        sends, labels = self._sends, self.graph.labels
        frame = pd.DataFrame(
            {
                "collective": [labels[one].collective or "message" for one in sends["label"]],
                "algorithm": [labels[one].algorithm for one in sends["label"]],
                "job": [labels[one].job for one in sends["label"]],
                "bytes": sends["bytes"],
            }
        )
        grouped = frame.groupby(["job", "collective", "algorithm"])["bytes"]
        found = pd.DataFrame({"messages": grouped.count(), "bytes": grouped.sum()}).reset_index()
        return found.sort_values("bytes", ascending=False, ignore_index=True)

    def document(self) -> dict[str, Any]:
        """Return all of it in short, for JSON; times in ps, sizes in bytes."""
        graph, sends = self.graph, self._sends
        gaps, incast = self.gaps_ps(), self.incast()
        pairs = np.unique(sends["rank"] * graph.ranks + sends["peer"])
        sizes = np.sort(sends["bytes"])
        return {
            "title": graph.title,
            "ranks": graph.ranks,
            "messages": graph.messages,
            "bytes": graph.bytes,
            "computations": int((graph.nodes["kind"] == 0).sum()),
            "dependencies": len(graph.deps),
            "pairs": len(pairs),
            "bin_ps": self.bin_ps,
            "message_bytes": _quantiles(sizes),
            "gap_ps": _quantiles(gaps),
            "incast": int(incast.max(initial=0)),
            **self.burstiness(),
            "operations": [
                {key: value if isinstance(value, str) else int(value) for key, value in row.items()}
                for row in self.by_operation().to_dict("records")
            ],
            "assumptions": dict(graph.assumptions),
        }


def _quantiles(ordered: np.ndarray) -> dict[str, int]:
    if not len(ordered):
        return {}
    found = {name: int(ordered[int(share * (len(ordered) - 1))]) for name, share in _QUANTILES.items()}
    return {"least": int(ordered[0]), **found, "most": int(ordered[-1])}


def statistics(graph: MessageGraph, bin_ps: int | None = None) -> TrafficStatistics:
    """Describe the messages of a graph.

    Parameters
    ----------
    graph : MessageGraph
        With known starts.
    bin_ps : int, optional
        The width of a bin of time; by default a hundredth of the recorded run.

    Raises
    ------
    InputError
        Starts are not known, or the bin is no time.

    Examples
    --------
    >>> pair = MessageGraph.of(2, [
    ...     {"rank": 0, "kind": 2, "peer": 1, "bytes": 4096, "start_ps": 5_000},
    ...     {"rank": 1, "kind": 3, "peer": 0, "bytes": 4096, "start_ps": 0},
    ... ])
    >>> statistics(pair).matrix().tolist(), statistics(pair).incast().tolist()
    ([[0, 4096], [0, 0]], [0, 1])
    """
    starts = graph.nodes["start_ps"][graph.sends]
    if (starts < 0).any():
        what = f"{int((starts < 0).sum()):,} of {len(starts):,} messages have no start"
        raise InputError(what, where=graph.title, hint="replay the traffic, or record it")
    if bin_ps is None:
        bin_ps = max(1, -(-int(starts.max(initial=0)) // _BINS))
    if bin_ps < 1:
        raise InputError(f"a bin of {bin_ps} ps", where="bin_ps", hint="take at least 1 ps")
    return TrafficStatistics(graph, bin_ps)
