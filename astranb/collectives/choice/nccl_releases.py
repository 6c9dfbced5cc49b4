"""Rules of NCCL's choice that differ between its releases, 2.27.3 to 2.30.7.

Source: NVIDIA/nccl, tags v2.27.3-1 to v2.30.7-1, ``src/graph/tuning.cc`` (constants of Blackwell, bandwidth
of NVLS), ``src/graph/search.cc`` (speeds of Blackwell's channels), ``src/transport/nvls.cc`` and
``src/enqueue.cc`` (traffic of a channel, size up to which a peer is sent packets). All else that is modelled
is alike in them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["NCCL_RELEASES", "NcclRelease", "nccl_release"]

_Caps = tuple[float, float, float]


class NcclRelease(NamedTuple):
    """Rules of NCCL from a release on; bandwidths are Blackwell's, for one node, two, and more.

    Attributes
    ----------
    since : tuple of int
    intra_GBps, inter_GBps : tuple of float
        Speeds that the search tries for a channel within a node and between nodes.
    ring_ll128_GBps, tree_ll128_GBps, tree_GBps, nvls_tree_GBps : tuple of float
        Ceilings of one channel.
    nvls_tree_hop_us : float
        Latency of a hop of NVLSTree between nodes.
    nvls_efficiency : bool
        Whether NVLS counts what a switch reaches; before, 5/6 of its channels' bandwidth.
    nvls_tree_corrected : bool
        Whether sizes correct NVLSTree as they do trees, on Blackwell beside x86.
    nvls_tree_tuned : bool
        Whether Blackwell's chunks of NVLSTree go by its NICs (``ncclNvlsTreeSm100Tuning``).
    channel_bytes : int
        Bytes that one channel moves at least.
    packets_by_most : bool
        Whether the size up to which a peer is sent packets goes by the most channels that it may have, not by
        those that it has.
    """

    since: tuple[int, ...]
    intra_GBps: tuple[float, ...]  # noqa: N815 - unit in the name
    inter_GBps: tuple[float, ...]  # noqa: N815 - unit in the name
    ring_ll128_GBps: _Caps  # noqa: N815 - unit in the name
    tree_ll128_GBps: _Caps  # noqa: N815 - unit in the name
    tree_GBps: _Caps  # noqa: N815 - unit in the name
    nvls_tree_GBps: _Caps  # noqa: N815 - unit in the name
    nvls_tree_hop_us: float
    nvls_efficiency: bool
    nvls_tree_corrected: bool
    nvls_tree_tuned: bool
    channel_bytes: int
    packets_by_most: bool

    @property
    def version(self) -> str:
        """The release in words."""
        return ".".join(map(str, self.since))


_SLOW: Final = (40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)
_2_27: Final = NcclRelease(
    since=(2, 27, 3),
    intra_GBps=(90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
    inter_GBps=(47.9, 45.0, 42.0, *_SLOW),
    ring_ll128_GBps=(73.4, 73.4, 73.4),
    tree_ll128_GBps=(73.4, 73.4, 58.0),
    tree_GBps=(77.4, 82.8, 72.0),
    nvls_tree_GBps=(float("inf"),) * 3,
    nvls_tree_hop_us=14.0,
    nvls_efficiency=False,
    nvls_tree_corrected=False,
    nvls_tree_tuned=False,
    channel_bytes=16_384,
    packets_by_most=True,
)
_2_27_5: Final = _2_27._replace(since=(2, 27, 5), inter_GBps=(48.0, 45.1, 42.0, *_SLOW))
_2_27_6: Final = _2_27_5._replace(since=(2, 27, 6), inter_GBps=(96.0, *_2_27_5.inter_GBps))
_2_28: Final = _2_27_6._replace(
    since=(2, 28, 3),
    tree_ll128_GBps=(55.6, 31.67, 20.0),
    tree_GBps=(70.0, 42.8, 24.0),
    nvls_tree_GBps=(0.0, 96.0, 43.1),
    nvls_tree_hop_us=20.9,
    nvls_efficiency=True,
)
_2_28_7: Final = _2_28._replace(since=(2, 28, 7), ring_ll128_GBps=(73.4, 34.6, 73.4))
_2_28_9: Final = _2_28_7._replace(since=(2, 28, 9), nvls_tree_GBps=(0.0, 96.0, 43.8))
_2_29: Final = _2_28_9._replace(
    since=(2, 29, 2),
    intra_GBps=(90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
    ring_ll128_GBps=(34.5, 34.6, 34.5),
    nvls_tree_corrected=True,
    channel_bytes=32_768,
    packets_by_most=False,
)
_2_29_7: Final = _2_29._replace(
    since=(2, 29, 7), inter_GBps=(96.0, 80.0, 48.0, 45.1, 42.0, *_SLOW), ring_ll128_GBps=(40.0,) * 3
)
_2_30: Final = _2_29_7._replace(
    since=(2, 30, 3),
    inter_GBps=(96.0, 86.0, 80.0, 48.0, 45.1, 42.0, *_SLOW),
    nvls_tree_GBps=(0.0, 96.0, 80.0),
    nvls_tree_tuned=True,
)
NCCL_RELEASES: Final = (_2_27, _2_27_5, _2_27_6, _2_28, _2_28_7, _2_28_9, _2_29, _2_29_7, _2_30)
"""The releases that changed rules, the oldest first."""
_LAST: Final = (2, 30, 7)  # the newest one that was read


def nccl_release(version: tuple[int, ...]) -> tuple[NcclRelease, bool]:
    """Return the rules of a release, or of the nearest one, and whether they are its own.

    Two numbers, as (2, 28), stand for the last release that begins so.

    Examples
    --------
    >>> [nccl_release(one)[0].version for one in ((2, 26, 2), (2, 27, 7), (2, 28), ())]
    ['2.27.3', '2.27.6', '2.28.9', '2.30.3']
    >>> nccl_release((2, 26, 2))[1], nccl_release((2, 30))[1], nccl_release((2, 31))[1]
    (False, True, False)
    """
    given = len(version)
    found = [one for one in NCCL_RELEASES if one.since[:given] <= version]
    return (found or NCCL_RELEASES)[-1 if found else 0], bool(found) and version[:3] <= _LAST[:given]
