"""Reads what a run has recorded: line flights and activity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from astranb.collectives import Lowered
from astranb.core.jit import Records
from astranb.net import Fabric

from .machine import CacheLineMachine, busy_until

__all__ = ["FLIGHT_KINDS", "Recorder"]

FLIGHT_KINDS = ("load request", "load data", "store data", "store ack", "signal", "signal ack")
"""Names of the kinds of flights, by number: request kind x 2, plus 1 for responses."""


_LINKS_AT_ONCE = 256
_NEAR_BINS = 8  # of a moment: memories work in bursts, of which a single bin shows one or none


class Recorder:
    """Reads the recording of a machine.

    Parameters
    ----------
    machine : CacheLineMachine
    fabric : Fabric
    program : Lowered

    Attributes
    ----------
    most : ndarray of int64, shape (2,)
        Most flights and bursts recorded so far: a ring has lost those beyond its length.
    """

    def __init__(self, machine: CacheLineMachine, fabric: Fabric, program: Lowered) -> None:
        self._machine, self._fabric, self._program = machine, fabric, program
        self.most = np.zeros(2, np.int64)

    @property
    def on(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._machine.recording.recorder[0].on)

    @property
    def oldest_ps(self) -> int:
        """From when on every flight is still there."""
        flights, lost = self._machine.recording.flights, self._lost
        return int(flights["queued_ps"][lost % len(flights)]) if self.on and lost else 0

    def flights(self, start_ps: int, end_ps: int, limit: int = 200_000) -> tuple[Records, int]:
        """Line flights that overlap a window of time.

        Parameters
        ----------
        start_ps, end_ps : int
            The window; a flight that touches it, or waits for its link in it, is in.
        limit : int
            Most flights to give.

        Returns
        -------
        flights : recarray of FLIGHT
            In the order of their events.
        one_in : int
            1 if these are all; n if every n-th is given because there were too many.
        """
        _, kept = self.since(0)
        found = kept[(kept["end_ps"] >= start_ps) & (kept["queued_ps"] <= end_ps)]
        one_in = max(1, -(-len(found) // max(1, limit)))
        return found[::one_in].view(np.recarray), one_in

    def since(self, number: int) -> tuple[int, Records]:
        """Line flights from a number on, counted from the start of the run.

        Returns
        -------
        first : int
            Number of the first one given: later than asked for where the ring has lost some.
        flights : recarray of FLIGHT
            In the order of their events.
        """
        total = self.mark()
        return _read(self._machine.recording.flights, max(number, self._lost) if self.on else total, total)

    def bursts_since(self, number: int) -> tuple[int, Records]:
        """Bursts of the SMs from a number on, counted from the start of the run.

        Returns
        -------
        first : int
            Number of the first one given: later than asked for where the ring has lost some.
        bursts : recarray of BURST
            In the order of their recording: for each SM, of time.
        """
        self.mark()
        lost = max(0, int(self.most[1]) - len(self._machine.recording.bursts))
        total = int(self._machine.recording.recorder[0].bursts)
        return _read(self._machine.recording.bursts, max(number, lost) if self.on else total, total)

    def activity(self, *, links: bool = True) -> dict[str, Any]:
        """Return the use of everything over time.

        Parameters
        ----------
        links : bool
            Whether with every single link: a large fabric has very many.

        Returns
        -------
        dict
            ``bin_ps`` and arrays of fractions of the time of each bin:
            ``link_busy`` (links, bins), ``issue_busy``, ``l2_busy``, ``hbm_busy``
            (gpus, bins), each averaged over the SMs, slices or channels of the GPU.
        """
        recorder, gpus = self._machine.recording.recorder[0], self._machine.gpus
        bin_ps, used = int(recorder.bin_ps), self._bins
        if not used:
            return {"bin_ps": bin_ps, "bins": 0}
        rows, count = self._activity[:, :used], int(recorder.links)
        per_gpu = (rows[count:] / bin_ps).reshape(len(gpus), 3, used)
        return {
            "bin_ps": bin_ps,
            "bins": used,
            **({"link_busy": np.minimum(rows[:count] / bin_ps, 1.0)} if links else {}),
            "issue_busy": per_gpu[:, 0] / gpus["sms"][:, None],
            "l2_busy": per_gpu[:, 1] / gpus["l2_slices"][:, None],
            "hbm_busy": per_gpu[:, 2] / gpus["hbm_channels"][:, None],
        }

    def busy(self, groups: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the use of groups of links over time, on average over each group.

        Parameters
        ----------
        groups : sequence of sequences of int
            Links of each.

        Returns
        -------
        ndarray of float64, shape (groups, bins)
            Fractions of the time of each bin; bins as in :meth:`activity`.
        """
        bin_ps, used = int(self._machine.recording.recorder[0].bin_ps), self._bins
        mean = np.zeros((len(groups), used))
        if not used:
            return mean
        rows = self._activity
        for number, links in enumerate(groups):
            for first in range(0, len(links), _LINKS_AT_ONCE):  # a band of a large fabric has thousands
                mean[number] += rows[list(links[first : first + _LINKS_AT_ONCE]), :used].sum(axis=0)
            mean[number] /= max(1, len(links)) * bin_ps
        return np.minimum(mean, 1.0)

    def utilisation(self, start_ps: float, end_ps: float) -> np.ndarray:
        """Return the busy fraction of each link in a window of time.

        Parameters
        ----------
        start_ps, end_ps : float
            The window; bins that it cuts count by the part of them that is in it.

        Returns
        -------
        ndarray of float64, shape (links,)
            Fractions; without a recording, of all time so far.
        """
        machine, recorder = self._machine, self._machine.recording.recorder[0]
        now = max(1, int(machine.clock[0].now_ps))
        if not self.on:
            return busy_until(machine.links[: int(recorder.links)], now) / now
        bins, bin_ps, links = (int(recorder[name]) for name in ("bins", "bin_ps", "links"))
        start, end = max(0.0, start_ps), min(float(end_ps), float(now))
        if end <= start:
            return np.zeros(links)
        first, last = int(start // bin_ps), min(bins, int(-(-end // bin_ps)))
        rows = self._activity[:links, first:last]
        edges = np.arange(first, last + 1) * bin_ps
        share = (np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)) / bin_ps
        if end >= now:
            share[-1] = 1.0  # what has not happened is not counted
        busy = rows[:, 1:-1].sum(axis=1) + rows[:, 0] * share[0]
        if len(share) > 1:
            busy += rows[:, -1] * share[-1]
        part: np.ndarray = np.minimum(busy / (end - start), 1.0)
        return part

    def near(self, at_ps: int) -> tuple[int, np.ndarray, np.ndarray]:
        """Return the use of everything around a time: in its bin, and in those just before.

        Returns
        -------
        over_ps : int
            The length of these bins, as far as they are simulated; 0: nothing is known.
        links : ndarray of float64, shape (links,)
            Busy fractions.
        gpus : ndarray of float64, shape (gpus, 3)
            Of the SMs that issue, the L2 slices and the HBM channels of each GPU, on average.
        """
        recorder, gpus = self._machine.recording.recorder[0], self._machine.gpus
        bin_ps, links = int(recorder.bin_ps), int(recorder.links)
        last = min(at_ps // bin_ps + 1, self._bins)
        first = max(0, last - _NEAR_BINS)
        over_ps = min(last * bin_ps, int(self._machine.clock[0].now_ps)) - first * bin_ps
        if over_ps <= 0:
            return 0, np.zeros(links), np.zeros((len(gpus), 3))
        part = self._activity[:, first:last].sum(axis=1) / over_ps
        sizes = np.stack([gpus["sms"], gpus["l2_slices"], gpus["hbm_channels"]], axis=1)
        inner = part[links:].reshape(len(gpus), 3) / np.maximum(1, sizes)
        return over_ps, np.minimum(part[:links], 1.0), np.minimum(inner, 1.0)

    def mark(self) -> int:
        """Keep how many flights have been recorded; to be called before time goes back.

        After going back the newest rows of the ring hold flights of the future, and the ring
        has lost what these had replaced.
        """
        recorder = self._machine.recording.recorder[0]
        np.maximum(self.most, (recorder.flights, recorder.bursts), out=self.most)
        return int(recorder.flights)

    @property
    def _activity(self) -> np.ndarray:
        """Busy time by row and bin."""
        recording = self._machine.recording
        return np.asarray(recording.activity).reshape(-1, int(recording.recorder[0].bins))

    @property
    def _bins(self) -> int:
        """Bins up to now; none without a recording."""
        recorder, now_ps = self._machine.recording.recorder[0], max(0, int(self._machine.clock[0].now_ps))
        return min(int(recorder.bins), now_ps // int(recorder.bin_ps) + 1) if self.on else 0

    @property
    def _lost(self) -> int:
        return max(0, int(self.most[0]) - len(self._machine.recording.flights))


def _read(ring: Records, first: int, total: int) -> tuple[int, Records]:
    """Return the rows from one on of a ring into which ``total`` rows were put."""
    if first >= total:
        return total, ring[:0].view(np.recarray)
    start, end = first % len(ring), (total - 1) % len(ring) + 1
    rows = ring[start:end] if start < end else np.concatenate([ring[start:], ring[:end]])
    return first, rows.view(np.recarray)
