from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.code import kernel_sources
from astranb.core.ticks import transfer_ps
from astranb.infragraph import LINK_COLUMNS, LINK_PROPERTIES, link_properties
from astranb.net.link import LINK, cross


@given(
    rate=st.integers(10**9, 10**12),
    latency=st.integers(0, 10**6),
    gap=st.integers(0, 20_000),
    arrivals=st.lists(st.tuples(st.integers(0, 10**5), st.integers(1, 4096)), min_size=1, max_size=50),
)
def test_a_link_is_a_fifo_that_conserves_bytes_and_time(rate, latency, gap, arrivals):
    links = np.zeros(1, LINK).view(np.recarray)
    links[0].bandwidth_Bps, links[0].latency_ps = rate, latency
    now, delivered, waited = 0, [], 0
    for wait, size in arrivals:
        now += wait
        before = int(links[0].free_at_ps)
        delivered.append(int(cross(links, 0, now, size, now, gap)))
        waited += max(0, before - now)
        assert delivered[-1] >= now + max(gap, transfer_ps(size, rate)) + latency
    assert delivered == sorted(delivered)
    link = links[0]
    assert link.bytes == sum(size for _, size in arrivals)
    assert link.busy_ps == sum(max(gap, transfer_ps(size, rate)) for _, size in arrivals)
    assert link.queued_ps == waited
    assert link.messages == len(arrivals)
    assert link.free_at_ps <= delivered[-1] - latency


def test_a_lane_has_a_column_for_each_property_and_machine_code_follows_it():
    assert LINK_COLUMNS.names == tuple(one.column for one in LINK_PROPERTIES)
    assert set(LINK_COLUMNS.names) <= set(LINK.names or ())
    # Otherwise machine code of other columns would be run.
    assert Path(link_properties.__file__) in kernel_sources()
