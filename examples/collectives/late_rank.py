"""One rank is late: how long the others wait, and how much of that each algorithm hides."""

import astranb as anb


def late_rank(infra="dgx-h100", size="1 MiB", late="20 us"):
    """Print the time of some all-reduces when all start together, and when rank 3 is late."""
    for algorithm in ("ring", "allpairs", "halving_doubling", "switch"):
        collective = anb.collectives.all_reduce(size, algorithm)
        together = anb.Simulation(infra, collective, record=False)
        skewed = anb.Simulation(infra, collective, start={3: late}, record=False)
        together.run(), skewed.run()
        more_us = skewed.now_us - together.now_us
        share_us = skewed.result.by_cause().get("started late", 0) / anb.units.us
        print(f"{algorithm:16} {together.now_us:6.1f} us, {more_us:+5.1f} us late,", end=" ")
        print(f"{share_us:.1f} us of the critical path before rank 3 started")


if __name__ == "__main__":
    late_rank()
