"""What was noted while time passed: line flights and activity, for views."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.collectives import Lowered
from astranb.core.jit import Records
from astranb.net import Fabric

from ._machine import Machine

__all__ = ["FLIGHT_KINDS", "Recorder"]

FLIGHT_KINDS = ("load request", "load data", "store data", "store ack", "signal", "signal ack")
"""Names of the kinds of flights, by number: request kind x 2, plus 1 on the way back."""


class Recorder:
    """Reads the recording of a machine.

    Parameters
    ----------
    machine : Machine
    fabric : Fabric
    program : Lowered

    Attributes
    ----------
    most, most_bursts : int
        Most flights and bursts ever noted: what a ring has room for less than this, it has lost.
    """

    def __init__(self, machine: Machine, fabric: Fabric, program: Lowered) -> None:
        self._machine, self._fabric, self._program = machine, fabric, program
        self.most = self.most_bursts = 0

    @property
    def on(self) -> bool:
        """Whether anything is noted."""
        return bool(self._machine.recorder[0].on)

    @property
    def oldest_ps(self) -> int:
        """From when on every flight is still there."""
        flights, lost = self._machine.flights, self._lost
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
        return _read(self._machine.flights, max(number, self._lost) if self.on else total, total)

    def bursts_since(self, number: int) -> tuple[int, Records]:
        """Bursts of the SMs from a number on, counted from the start of the run.

        Returns
        -------
        first : int
            Number of the first one given: later than asked for where the ring has lost some.
        bursts : recarray of BURST
            In the order in which they were noted: on each SM, of time.
        """
        self.mark()
        lost = max(0, self.most_bursts - len(self._machine.bursts))
        total = int(self._machine.recorder[0].bursts)
        return _read(self._machine.bursts, max(number, lost) if self.on else total, total)

    def activity(self) -> dict[str, Any]:
        """How busy everything was over time.

        Returns
        -------
        dict
            ``bin_ps`` and arrays of fractions of the time of each bin:
            ``link_busy`` (links, bins), ``issue_busy``, ``l2_busy``, ``hbm_busy``
            (gpus, bins), each averaged over the SMs, slices or channels of the GPU.
        """
        recorder, gpus = self._machine.recorder[0], self._machine.gpus
        bins, bin_ps = int(recorder.bins), int(recorder.bin_ps)
        if not self.on:
            return {"bin_ps": bin_ps, "bins": 0}
        now_ps = max(0, int(self._machine.clock[0].now_ps))
        used = min(bins, now_ps // bin_ps + 1)
        rows = np.asarray(self._machine.activity).reshape(-1, bins)[:, :used] / bin_ps
        links = int(recorder.links)
        per_gpu = rows[links:].reshape(len(gpus), 3, used)
        return {
            "bin_ps": bin_ps,
            "bins": used,
            "link_busy": np.minimum(rows[:links], 1.0),
            "issue_busy": per_gpu[:, 0] / gpus["sms"][:, None],
            "l2_busy": per_gpu[:, 1] / gpus["slices"][:, None],
            "hbm_busy": per_gpu[:, 2] / gpus["channels"][:, None],
        }

    def mark(self) -> int:
        """Note how far the recording has come; to be called before time goes back.

        After going back the newest places of the ring hold flights that are not yet to
        come, and the ring has lost what these had replaced.
        """
        total = int(self._machine.recorder[0].flights)
        self.most = max(self.most, total)
        self.most_bursts = max(self.most_bursts, int(self._machine.recorder[0].bursts))
        return total

    @property
    def _lost(self) -> int:
        return max(0, self.most - len(self._machine.flights))


def _read(ring: Records, first: int, total: int) -> tuple[int, Records]:
    """What a ring that ``total`` rows were put into holds from one on."""
    if first >= total:
        return total, ring[:0].view(np.recarray)
    start, end = first % len(ring), (total - 1) % len(ring) + 1
    rows = ring[start:end] if start < end else np.concatenate([ring[start:], ring[:end]])
    return first, rows.view(np.recarray)
